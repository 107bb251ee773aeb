//! All states that this node holds, by policy and subject: moka bounds them and forgets the idle.
//! What moka forgets is retired, so that no thread goes on using it. Never decides anything, and
//! never relies on moka's clock: an instant in a state is checked against the limiter's.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use moka::Equivalent;
use moka::sync::Cache;

use super::ceiling_state::CeilingState;
use super::options::LocalStage;
use super::target_state::TargetState;
use super::thread_cache::Names;
use crate::model::{Ceiling, Policy, PolicyName, Scope, Subject, Target};

#[derive(Clone, Debug, PartialEq, Eq)]
struct SubjectKey {
    hash: u64,
    policy: PolicyName,
    subject: Subject,
}

impl Hash for SubjectKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

struct SubjectNames<'a> {
    hash: u64,
    policy: &'a str,
    subject: &'a str,
}

impl Hash for SubjectNames<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

impl Equivalent<SubjectKey> for SubjectNames<'_> {
    fn equivalent(&self, key: &SubjectKey) -> bool {
        self.subject == key.subject.as_str() && self.policy == key.policy.as_str()
    }
}

/// Hands on a hash that was made already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, b| hash.rotate_left(8) ^ u64::from(*b));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// One subject's states under one policy.
struct SubjectState {
    policy: Arc<Policy>,
    global: Option<Arc<CeilingState>>,
    targets: RwLock<Targets>,
}

#[derive(Default)]
struct Targets {
    states: Vec<Arc<TargetState>>,
    /// Another subject state took this one's place: it gets no more targets.
    are_retired: bool,
}

impl SubjectState {
    fn new(target: &Target) -> Self {
        let global = global_of(target).map(|ceiling| Arc::new(CeilingState::new(ceiling)));
        SubjectState {
            policy: Arc::clone(&target.policy),
            global,
            targets: RwLock::default(),
        }
    }

    /// Whether this state may serve `target`: what its ceilings and its policy say is the same.
    fn serves(&self, target: &Target) -> bool {
        let (ours, theirs) = (&self.policy, &target.policy);
        let same_policy = Arc::ptr_eq(ours, theirs)
            || (ours.on_outage == theirs.on_outage
                && ours.clock == theirs.clock
                && ours.lease == theirs.lease);
        let global = self.global.as_ref().map(|c| c.ceiling);
        same_policy && global == global_of(target)
    }

    /// The state of `target`; `None` when another must be made for the whole subject: its ceilings
    /// changed, or it has too many regions.
    fn target(
        &self,
        target: &Target,
        regions_max: usize,
        leases: bool,
    ) -> Option<Arc<TargetState>> {
        let same = |t: &&Arc<TargetState>| t.target.region == target.region;
        let known = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = known.states.iter().find(same) {
            return (state.target.ceilings == target.ceilings).then(|| Arc::clone(state));
        }
        drop(known);
        let mut known = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = known.states.iter().find(same) {
            return (state.target.ceilings == target.ceilings).then(|| Arc::clone(state));
        }
        if known.are_retired || known.states.len() >= regions_max {
            return None;
        }
        let state = self.new_target(target, leases);
        known.states.push(Arc::clone(&state));
        Some(state)
    }

    fn new_target(&self, target: &Target, leases: bool) -> Arc<TargetState> {
        let state = |ceiling: &Ceiling| match (ceiling.scope, &self.global) {
            (Scope::Global, Some(global)) => Arc::clone(global),
            _ => Arc::new(CeilingState::new(*ceiling)),
        };
        let ceilings = target.ceilings.iter().map(state).collect();
        Arc::new(TargetState::new(target.clone(), ceilings, leases))
    }

    fn retire(&self) {
        let mut known = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        known.are_retired = true;
        known.states.iter().for_each(|state| state.retire());
    }
}

fn global_of(target: &Target) -> Option<Ceiling> {
    let mut ceilings = target.ceilings.iter();
    ceilings.find(|c| c.scope == Scope::Global).copied()
}

/// The states of one stage.
pub(super) struct Subjects {
    cache: Cache<SubjectKey, Arc<SubjectState>, BuildHasherDefault<Hashed>>,
    seed: u64,
    regions_max: usize,
    leases: bool,
}

impl Subjects {
    pub(super) fn new(options: &LocalStage, seed: u64) -> Self {
        let cache = Cache::builder()
            .max_capacity(options.subjects_max)
            .time_to_idle(options.subject_idle_max)
            .eviction_listener(|_, state: Arc<SubjectState>, _| state.retire())
            .build_with_hasher(BuildHasherDefault::default());
        Subjects {
            cache,
            seed,
            regions_max: options.regions_per_subject_max,
            leases: options.leases,
        }
    }

    /// The state of `target`, as the configuration numbered `revision` has it; made when there is
    /// none, or none that fits.
    pub(super) fn state(&self, target: &Target, revision: u64) -> Arc<TargetState> {
        let key = self.key(target);
        let subject = self
            .cache
            .get_with(key.clone(), || Arc::new(SubjectState::new(target)));
        let fits = |s: &SubjectState| {
            let state = s.serves(target).then(|| {
                let state = s.target(target, self.regions_max, self.leases)?;
                state.is_of(revision).then_some(state)
            });
            state.flatten()
        };
        fits(&subject).unwrap_or_else(|| {
            let fresh = Arc::new(SubjectState::new(target));
            let state = fits(&fresh).unwrap_or_else(|| fresh.new_target(target, self.leases));
            subject.retire();
            self.cache.insert(key, fresh);
            state
        })
    }

    /// Each state of `subject` under `policy`.
    pub(super) fn each(&self, policy: &str, subject: &str, act: impl FnMut(&TargetState)) {
        let names = Names {
            policy,
            subject,
            region: None,
        };
        let names = SubjectNames {
            hash: names.subject_hash(self.seed),
            policy,
            subject,
        };
        let Some(state) = self.cache.get(&names) else {
            return;
        };
        let targets = state.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets.states.iter().map(Arc::as_ref).for_each(act);
    }

    /// Every state that is held.
    pub(super) fn all(&self) -> Vec<Arc<TargetState>> {
        let of = |state: &SubjectState| {
            let targets = state.targets.read().unwrap_or_else(PoisonError::into_inner);
            targets.states.clone()
        };
        self.cache
            .iter()
            .flat_map(|(_, state)| of(&state))
            .collect()
    }

    /// How many subjects are held, about.
    pub(super) fn len(&self) -> u64 {
        self.cache.entry_count()
    }

    fn key(&self, target: &Target) -> SubjectKey {
        let names = Names {
            policy: target.policy.name.as_str(),
            subject: target.subject.as_str(),
            region: None,
        };
        SubjectKey {
            hash: names.subject_hash(self.seed),
            policy: target.policy.name.clone(),
            subject: target.subject.clone(),
        }
    }
}
