//! What each act is, step by step, and when. A script ends when it has done its part; the load
//! goes on until its own end. Never reads what the instances answer.

use std::time::Duration;

use super::catalog::Act;
use super::environment::{Environment, EnvironmentError};
use crate::cluster::{ClusterError, ClusterUnderTest};
use crate::fault::{Fault, Migration};
use crate::load::wall_us;
use crate::proxy::Impairment;
use crate::report::Event;
use tidegate::model::{HashTag, Slot, Subject};

/// How long something that a script waits for may take.
const WAIT_MAX: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long after a node is gone an acknowledgement of its may still be on its way, in
/// microseconds.
const IN_FLIGHT_US: u64 = 50_000;
/// How many slots a migration moves, one after the other.
const SLOTS_MOVED: usize = 4;
/// How long a slot stays half moved, in milliseconds.
const HALF_MOVED_MS: u64 = 15;

/// The times of a fault, in microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FaultTimes {
    /// When it came.
    pub(super) fault_at: u64,
    /// From when on recovery is counted.
    pub(super) recovery_from: u64,
    /// Until when the store may have acknowledged what it then forgot.
    pub(super) lost_until: u64,
    /// When the replica said that it had taken over, where one did.
    pub(super) taken_at: Option<u64>,
}

impl FaultTimes {
    /// A fault from which recovery is counted, and which loses nothing after it.
    fn at(at: u64) -> Self {
        Self {
            fault_at: at,
            recovery_from: at,
            lost_until: at,
            taken_at: None,
        }
    }
}

type Injected = Result<FaultTimes, EnvironmentError>;

/// One run's fault.
pub(super) struct Script<'a> {
    pub(super) act: Act,
    pub(super) environment: &'a Environment,
    /// When the load began, in microseconds since the epoch.
    pub(super) began_at: u64,
    /// How long checks are asked, and when the fault comes, in milliseconds.
    pub(super) length_ms: u64,
    pub(super) fault_ms: u64,
    /// The shard that the fault is done to, and subjects with traffic on it.
    pub(super) victim: usize,
    pub(super) subjects: Vec<String>,
    /// What happened so far.
    pub(super) events: Vec<Event>,
}

impl<'a> Script<'a> {
    /// Waits for the fault's moment, and has it happen.
    pub(super) async fn play(&mut self) -> Injected {
        self.until_ms(self.fault_ms).await;
        let victim = self.victim;
        let impair = |impairment| Fault::Impair(vec![victim], impairment);
        match self.act {
            Act::None => Ok(self.nothing("measured from here")),
            Act::ClockStep => Ok(self.nothing("the clock steps back")),
            Act::Kill => self.replaced(Fault::Kill(vec![victim])).await,
            Act::Stop => self.replaced(Fault::Stop(vec![victim])).await,
            Act::Pause => self.replaced(Fault::Pause(vec![victim])).await,
            Act::CutOff => self.replaced(Fault::CutOff(vec![victim])).await,
            Act::SplitBrain => self.replaced(Fault::CutOffFromPeers(victim)).await,
            Act::Resets => self.resets().await,
            Act::Latency => {
                let slow = Impairment {
                    delay: Duration::from_millis(5),
                    jitter: Duration::from_micros(2_500),
                    ..Impairment::default()
                };
                self.for_a_while(impair(slow), 2_000).await
            }
            Act::Loss => {
                let lossy = Impairment {
                    loss_permille: 40,
                    ..Impairment::default()
                };
                self.for_a_while(impair(lossy), 2_000).await
            }
            Act::MaxMemory => {
                self.for_a_while(Fault::FillMemory(vec![victim]), 1_500)
                    .await
            }
            Act::Failover => self.failover().await,
            Act::MigrateSlot => self.migrate(Migration::Classic).await,
            Act::MigrateAtomic => self.migrate(Migration::Atomic).await,
            Act::ScriptFlush => self.script_flush().await,
            Act::FlushAll => self.once(Fault::ForgetData(victim)).await,
            Act::RollingRestart => self.once(Fault::RollingRestart).await,
            Act::TwoPrimariesDown => self.for_a_while(Fault::Kill(vec![0, 1]), 2_000).await,
            Act::AllDown => {
                let all = (0..self.environment.node_count()).collect();
                self.for_a_while(Fault::Kill(all), 1_500).await
            }
        }
    }

    fn nothing(&mut self, label: &str) -> FaultTimes {
        self.event(label);
        FaultTimes::at(self.began_at + self.fault_ms * 1_000)
    }

    /// A primary is lost, its replica takes over, and later it comes back.
    async fn replaced(&mut self, fault: Fault) -> Injected {
        let (cluster, victim) = (self.own()?, self.victim);
        let replica = cluster.node_count() / 2 + victim;
        let at = self.event(fault.to_string());
        let active = fault.apply(cluster).await?;
        let in_force = wall_us();
        let taken = self.await_primary(replica).await;
        // A cut must last until everyone has noticed; a dead node can wait for longer.
        match self.act {
            Act::Kill | Act::Stop => self.until_ms(self.length_ms * 3 / 4).await,
            _ => sleep_ms(1_000).await,
        }
        self.event(format!("node {victim} comes back"));
        active.heal(cluster).await?;
        let taken_at = taken?;
        let lost_until = match self.act {
            Act::SplitBrain => taken_at.max(in_force),
            _ => in_force,
        };
        Ok(FaultTimes {
            lost_until: lost_until + IN_FLIGHT_US,
            taken_at: Some(taken_at),
            ..FaultTimes::at(at)
        })
    }

    /// Something that is in force for a while; recovery is counted from its end.
    async fn for_a_while(&mut self, fault: Fault, ms: u64) -> Injected {
        let cluster = self.own()?;
        let at = self.event(fault.to_string());
        let active = fault.apply(cluster).await?;
        let in_force = wall_us();
        sleep_ms(ms).await;
        active.heal(cluster).await?;
        Ok(FaultTimes {
            recovery_from: self.event("it has ended"),
            lost_until: in_force + IN_FLIGHT_US,
            ..FaultTimes::at(at)
        })
    }

    /// Something that is over when it is done.
    async fn once(&mut self, fault: Fault) -> Injected {
        let cluster = self.own()?;
        let at = self.event(fault.to_string());
        fault.apply(cluster).await?.heal(cluster).await?;
        Ok(FaultTimes {
            lost_until: self.event("done") + IN_FLIGHT_US,
            ..FaultTimes::at(at)
        })
    }

    async fn resets(&mut self) -> Injected {
        let cluster = self.own()?;
        let at = self.event("connections are reset, ten times");
        for _ in 0..10 {
            for node in 0..cluster.node_count() {
                cluster.proxy(node)?.reset_connections();
            }
            sleep_ms(200).await;
        }
        Ok(FaultTimes {
            recovery_from: self.event("no more resets"),
            ..FaultTimes::at(at)
        })
    }

    /// By plain commands, so that it can be done to a cluster that isn't ours.
    async fn failover(&mut self) -> Injected {
        let replica = self.environment.replica_of(self.victim).await?;
        let replica = replica.ok_or_else(|| {
            let what = format!("a failover of shard {}", self.victim);
            EnvironmentError::Unusable(what, "it has no replica".to_owned())
        })?;
        let at = self.event(format!("node {replica} takes over as planned"));
        let command = ["CLUSTER", "FAILOVER"];
        self.environment.run(replica, &command).await?;
        Ok(FaultTimes {
            taken_at: Some(self.await_primary(replica).await?),
            ..FaultTimes::at(at)
        })
    }

    async fn script_flush(&mut self) -> Injected {
        let at = self.event("scripts are flushed, five times");
        for _ in 0..5 {
            for node in 0..self.environment.node_count() {
                self.environment.run(node, &["SCRIPT", "FLUSH"]).await?;
            }
            sleep_ms(200).await;
        }
        Ok(FaultTimes::at(at))
    }

    /// Slots with traffic move from the victim to node 0, one after the other.
    async fn migrate(&mut self, by: Migration) -> Injected {
        let cluster = self.own()?;
        let slots = self.subjects.iter().filter_map(|name| slot_of(name));
        let slots: Vec<u16> = slots.take(SLOTS_MOVED).collect();
        let at = self.event(format!("{} slots move to node 0", slots.len()));
        for slot in slots {
            let slots = slot..=slot;
            let moving = Fault::MigrateSlots { slots, to: 0, by };
            let moving = moving.apply(cluster).await?;
            if by == Migration::Classic {
                sleep_ms(HALF_MOVED_MS).await;
            }
            moving.heal(cluster).await?;
        }
        self.event("they have moved");
        Ok(FaultTimes::at(at))
    }

    /// Notes that something happens now, and returns when that is.
    fn event(&mut self, label: impl Into<String>) -> u64 {
        let (at, label) = (wall_us(), label.into());
        self.events.push(Event { at, label });
        at
    }

    /// Waits until so long after the load's beginning.
    async fn until_ms(&self, ms: u64) {
        let at = self.began_at.saturating_add(ms.saturating_mul(1_000));
        tokio::time::sleep(Duration::from_micros(at.saturating_sub(wall_us()))).await;
    }

    /// The cluster, for a fault that may only be done to our own.
    fn own(&self) -> Result<&'a ClusterUnderTest, EnvironmentError> {
        self.environment.own().ok_or_else(|| {
            let why = "it would hurt a cluster that chaos did not start; \
                       use --against containers or processes";
            EnvironmentError::Unusable(format!("{:?}", self.act), why.to_owned())
        })
    }

    /// Waits until a node says that it is a primary, notes it, and returns when that was.
    async fn await_primary(&mut self, node: usize) -> Result<u64, EnvironmentError> {
        let environment = self.environment;
        let promoted = async {
            loop {
                let reply = environment.run(node, &["INFO", "replication"]).await;
                let text = reply.ok().and_then(|r| r.text().map(str::to_owned));
                if text.is_some_and(|text| text.lines().any(|line| line.trim() == "role:master")) {
                    return;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        if tokio::time::timeout(WAIT_MAX, promoted).await.is_err() {
            return Err(EnvironmentError::Cluster(ClusterError::TimedOut {
                what: format!("node {node} to become a primary"),
                seen: "another role, or no answer".into(),
                waited: WAIT_MAX,
            }));
        }
        Ok(self.event(format!("node {node} has taken over")))
    }
}

async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn slot_of(subject: &str) -> Option<u16> {
    let subject = Subject::new(subject).ok()?;
    let key = format!("{{{}}}", HashTag::of(&subject));
    Some(Slot::of(key.as_bytes()).get())
}
