//! Who serves which slot: the slot map, and the task that keeps it right.
//!
//! The map is refreshed periodically, when a connection comes or goes, and when a redirect says
//! that it is wrong; however many ask, one refresh runs at a time, and never sooner than a gap
//! after the last. Never waits on behalf of a call, and never knows who listens to its events.

mod events;
mod pool;
mod query;
mod slot_map;
mod view;
mod views;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::broadcast;

use self::events::{ShardEvents, TakeoverListener};
use self::pool::Pool;
use self::slot_map::SlotMap;
use self::views::{RefreshPlan, Views};
use super::address::NodeAddress;
use super::node::Node;
use super::node::connector::Connector;
use super::node::error::ConnectError;
use super::node::error_reply::Redirect;
use super::slot_check::disputed_key;
use super::supervise::{AbortOnDrop, supervise};
use crate::model::Slot;
use crate::store::lock::lock;
use crate::store::port::Readiness;
use crate::store::shard::{ShardEvent, ShardId, SlotRanges};

/// The longest pause between refreshes while degraded; it grows with the problem's age.
const DEGRADED_PERIOD_MAX: Duration = Duration::from_secs(1);
/// A problem's age divided by this is the pause between its refreshes.
const PROBLEM_AGE_PARTS: u32 = 100;
/// For how long a call that timed out lets a failover be suspected, that no connection shows.
const SUSPICION: Duration = Duration::from_secs(1);

/// The slot map and what keeps it.
pub(super) struct Topology {
    connector: Arc<Connector>,
    pool: Pool,
    slot_map: ArcSwap<SlotMap>,
    events: ShardEvents,
    /// For the one refresh that runs at a time.
    views: Mutex<Views>,
    /// Why the last refresh brought nothing that can be used.
    refresh_error: Mutex<Option<String>>,
    suspected_until: Mutex<Option<Instant>>,
    /// Whether every slot was once served by a connected node.
    was_ready: AtomicBool,
}

impl Topology {
    /// Begins to connect to the seeds, and to keep the map.
    pub fn start(
        connector: &Arc<Connector>,
        on_takeover: TakeoverListener,
    ) -> (Arc<Self>, AbortOnDrop<()>) {
        let topology = Arc::new(Topology {
            connector: Arc::clone(connector),
            pool: Pool::new(Arc::clone(connector)),
            slot_map: ArcSwap::from_pointee(SlotMap::empty()),
            events: ShardEvents::new(connector.options.events_len_max, on_takeover),
            views: Mutex::default(),
            refresh_error: Mutex::default(),
            suspected_until: Mutex::default(),
            was_ready: AtomicBool::new(false),
        });
        topology.pool.start_seeds();
        let kept = Arc::downgrade(&topology);
        let task = supervise("slot map".into(), move || {
            let topology = kept.clone();
            async move {
                match topology.upgrade() {
                    Some(topology) => topology.run().await,
                    None => std::future::pending().await,
                }
            }
        });
        (topology, task)
    }

    pub fn slot_map(&self) -> arc_swap::Guard<Arc<SlotMap>> {
        self.slot_map.load()
    }

    /// The shard of a slot.
    pub fn shard_of(&self, slot: Slot) -> ShardId {
        self.slot_map.load().shard_of(slot)
    }

    /// Every node.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.pool.all()
    }

    pub fn events(&self) -> broadcast::Receiver<ShardEvent> {
        self.events.subscribe()
    }

    /// How often a shard got another node, or was reached again.
    pub fn recoveries(&self) -> u64 {
        self.events.recoveries()
    }

    /// A call timed out: its node may have been replaced, though its connection stands.
    pub fn suspect(&self) {
        *lock(&self.suspected_until) = Some(Instant::now() + SUSPICION);
        self.connector.signals.refresh.notify_one();
    }

    fn is_suspect(&self) -> bool {
        lock(&self.suspected_until).is_some_and(|until| Instant::now() < until)
    }

    async fn run(&self) {
        let mut since: Option<Instant> = Some(Instant::now());
        loop {
            let full_in = lock(&self.views).full_refresh_due_in();
            let period = self.period(since).min(full_in.unwrap_or(Duration::MAX));
            tokio::select! {
                () = self.connector.signals.refresh.notified() => {}
                () = tokio::time::sleep(period) => {}
            }
            self.refresh().await;
            let is_degraded = self.is_suspect() || self.problem().is_some();
            since = is_degraded.then(|| since.unwrap_or_else(Instant::now));
            tokio::time::sleep(self.connector.options.refresh_gap_min).await;
        }
    }

    /// Until the next refresh, with a problem since `since`.
    fn period(&self, since: Option<Instant>) -> Duration {
        let options = &self.connector.options;
        let Some(since) = since else {
            return options.refresh_period;
        };
        let longest = DEGRADED_PERIOD_MAX.min(options.refresh_period);
        let shortest = options.refresh_period_degraded.min(longest);
        (since.elapsed() / PROBLEM_AGE_PARTS).clamp(shortest, longest)
    }

    async fn refresh(&self) {
        let up: Vec<_> = self.pool.all().into_iter().filter(|n| n.is_up()).collect();
        if up.is_empty() {
            // Perhaps all that we knew has gone elsewhere.
            self.pool.start_seeds();
            self.events.reachability(&self.slot_map.load());
            return;
        }
        if up.iter().any(|node| node.info().cluster == Some(false)) {
            self.refresh_single(&up).await;
        } else {
            let views_max = self.connector.options.views_per_refresh_max;
            let plan = lock(&self.views).plan_refresh(&up, views_max);
            self.refresh_cluster(plan).await;
        }
        self.events.reachability(&self.slot_map.load());
        if !self.was_ready.load(Ordering::Relaxed) && self.problem().is_none() {
            self.check_slots().await;
        }
    }

    async fn refresh_single(&self, up: &[Arc<Node>]) {
        let primary = query::primary_of(up).await;
        let before = self.slot_map.load();
        let known = before.shards.first().map(|shard| shard.primary.address());
        let Some(node) = primary.filter(|node| known != Some(node.address())) else {
            return;
        };
        // Of single servers any may become the primary: all that were named stay.
        let seeds = self.connector.options.url.seeds().iter().cloned().collect();
        self.install(SlotMap::single(node), seeds);
    }

    async fn refresh_cluster(&self, plan: RefreshPlan) {
        let (mut views, mut error) = (Vec::new(), None);
        for view in query::views_of(&plan.nodes).await {
            match view {
                Ok(view) => views.push(view),
                Err(why) => error = Some(why),
            }
        }
        *lock(&self.refresh_error) = error.filter(|_| views.is_empty());
        let is_new = lock(&self.views).update(views);
        if !is_new && !plan.is_full {
            return;
        }
        let mut merged = lock(&self.views).merged();
        if merged.shards.is_empty() {
            return;
        }
        let map = &self.connector.options.address_map;
        for shard in &mut merged.shards {
            shard.primary = map.reach(shard.primary.clone());
            for replica in &mut shard.replicas {
                *replica = map.reach(replica.clone());
            }
        }
        let before = self.slot_map.load_full();
        let next = SlotMap::clustered(&merged, &before, |at| self.pool.get_or_start(at));
        self.install(next, HashSet::new());
    }

    /// Announces what is new in a map, then has calls follow it. Nodes that are neither in it nor
    /// among `others` are let go.
    fn install(&self, next: SlotMap, others: HashSet<NodeAddress>) {
        let is_new = self.events.map_changes(&self.slot_map.load(), &next);
        let mut known = others;
        known.extend(next.nodes().map(|node| node.address().clone()));
        self.slot_map.store(Arc::new(next));
        if is_new {
            self.events.count_recovery();
        }
        self.pool.keep_only(&known);
        self.connector.signals.changed.notify_waiters();
    }

    /// The last test before the store is ready.
    async fn check_slots(&self) {
        let map = self.slot_map.load_full();
        let prefix = &self.connector.options.key_prefix;
        let disputed = match map.shards.first().map(|shard| &shard.primary) {
            Some(node) if node.info().cluster != Some(false) => disputed_key(prefix, node).await,
            _ => None,
        };
        let disputed = disputed.map(|key| format!("the servers have another slot for {key}"));
        if disputed.is_none() {
            self.was_ready.store(true, Ordering::Release);
            tracing::info!(shards = map.shards.len(), "the store is ready");
            self.connector.signals.changed.notify_waiters();
        }
        *lock(&self.refresh_error) = disputed;
    }

    /// Follows MOVED: takes a node's word for one slot, and has the rest refreshed. Returns who
    /// serves it.
    pub fn follow_moved(&self, redirect: &Redirect) -> Option<Arc<Node>> {
        let to = self.reached(redirect);
        let slot = redirect.slot;
        let slots = || SlotRanges::from_ascending([slot]);
        let map = self.slot_map.load();
        if let Some(shard) = map.shard_of_replica(&to) {
            self.events.replica_promoted(&map, shard, &to);
        } else if map.owner(slot).is_none_or(|owner| *owner.address() != to) {
            self.events.maybe_promoted(&slots());
        }
        if let Some(shard) = map.reassign(slot, &to) {
            self.events.moved(shard, slots());
        }
        self.connector.signals.refresh.notify_one();
        self.pool.get_or_start(&to)
    }

    /// Follows ASK: who takes a slot's calls while it moves. The owner stays who it is.
    pub fn follow_ask(&self, redirect: &Redirect) -> Option<Arc<Node>> {
        self.pool.get_or_start(&self.reached(redirect))
    }

    fn reached(&self, redirect: &Redirect) -> NodeAddress {
        self.connector
            .options
            .address_map
            .reach(redirect.to.clone())
    }

    /// What keeps some slot from being served; nothing when all is well.
    fn problem(&self) -> Option<String> {
        let map = self.slot_map.load();
        if map.shards.is_empty() {
            return Some(self.why_unknown());
        }
        match map.unassigned() {
            0 => {}
            1 => return Some("1 slot is served by no node".into()),
            n => return Some(format!("{n} slots are served by no node")),
        }
        map.shards.iter().find_map(|shard| why_down(&shard.primary))
    }

    fn why_unknown(&self) -> String {
        let nodes = self.pool.all();
        let mut down: Vec<_> = nodes.iter().filter_map(why_down).collect();
        down.sort();
        let error = lock(&self.refresh_error).clone();
        let why = error.or_else(|| down.first().cloned());
        why.unwrap_or_else(|| "no node knows who serves which slot".into())
    }

    /// Before the first moment in which every slot was served by a connected node, what is
    /// missing. Later, only that no primary at all can be reached: one shard's problem is no
    /// reason to send the other shards' callers away.
    pub fn readiness(&self) -> Readiness {
        if !self.was_ready.load(Ordering::Acquire) {
            let error = || lock(&self.refresh_error).clone();
            let problem = self.problem().or_else(error);
            return Readiness::NotReady(problem.unwrap_or_else(|| "not warmed up yet".into()));
        }
        let map = self.slot_map.load();
        match map.shards.iter().any(|shard| shard.primary.is_up()) {
            true => Readiness::Ready,
            false => Readiness::NotReady(self.problem().unwrap_or_else(|| self.why_unknown())),
        }
    }

    /// The last reason why nothing can be reached, for a call that finds no node at all.
    pub fn connect_error(&self) -> Option<ConnectError> {
        let nodes = self.pool.all();
        nodes.iter().find_map(|node| node.error())
    }
}

fn why_down(node: &Arc<Node>) -> Option<String> {
    node.error()
        .map(|error| format!("{}: {}", node.address(), error.detail))
}
