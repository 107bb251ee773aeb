//! What each act is, step by step. A script returns when it has done its part; the load goes on
//! until its own end.

use std::time::Duration;

use super::catalog::Act;
use super::context::{FaultTimes, RunContext};
use super::environment::EnvironmentError;
use crate::cluster::ClusterUnderTest;
use crate::fault::{Fault, Migration};
use crate::load::wall_us;
use crate::proxy::Impairment;
use tidegate::model::{HashTag, Slot, Subject};

/// How long after a node is gone an acknowledgement of its may still be on its way, in
/// microseconds.
const ON_THE_WAY: u64 = 50_000;
/// How many slots a migration moves, one after the other.
const SLOTS_MOVED: usize = 4;
/// How long a slot stays half moved, in milliseconds.
const HALF_MOVED_MS: u64 = 15;

/// Plays an act from `fault_ms` after the load's beginning on.
///
/// # Errors
/// When a step can't be done.
pub async fn play(
    context: &mut RunContext<'_>,
    act: Act,
    fault_ms: u64,
) -> Result<FaultTimes, EnvironmentError> {
    context.until_ms(fault_ms).await;
    let victim = context.victim;
    match act {
        Act::None | Act::ClockStep => {
            let words = match act {
                Act::None => "measured from here",
                _ => "the clock steps back",
            };
            context.event(words);
            Ok(times(context.began_at + fault_ms * 1_000))
        }
        Act::Kill => replaced(context, act, Fault::Kill(vec![victim])).await,
        Act::Stop => replaced(context, act, Fault::Stop(vec![victim])).await,
        Act::Pause => replaced(context, act, Fault::Pause(vec![victim])).await,
        Act::CutOff => replaced(context, act, Fault::CutOff(vec![victim])).await,
        Act::SplitBrain => replaced(context, act, Fault::CutOffFromPeers(victim)).await,
        Act::Resets => resets(context).await,
        Act::Latency | Act::Loss => {
            let fault = Fault::Impair(vec![victim], impairment(act));
            for_a_while(context, act, fault, 2_000).await
        }
        Act::MaxMemory => for_a_while(context, act, Fault::FillMemory(vec![victim]), 1_500).await,
        Act::Failover => failover(context).await,
        Act::MigrateSlot => migrate(context, act, Migration::Classic).await,
        Act::MigrateAtomic => migrate(context, act, Migration::Atomic).await,
        Act::ScriptFlush => script_flush(context).await,
        Act::FlushAll => once(context, act, Fault::ForgetData(victim)).await,
        Act::RollingRestart => once(context, act, Fault::RollingRestart).await,
        Act::TwoPrimariesDown => for_a_while(context, act, Fault::Kill(vec![0, 1]), 2_000).await,
        Act::AllDown => {
            let all = (0..context.environment.node_count()).collect();
            for_a_while(context, act, Fault::Kill(all), 1_500).await
        }
    }
}

/// A fault from which recovery is counted, and which loses nothing after it.
fn times(at: u64) -> FaultTimes {
    FaultTimes {
        fault_at: at,
        recovery_from: at,
        lost_until: at,
        taken_at: None,
    }
}

fn impairment(act: Act) -> Impairment {
    match act {
        Act::Latency => Impairment {
            delay: Duration::from_millis(5),
            jitter: Duration::from_micros(2_500),
            ..Impairment::default()
        },
        _ => Impairment {
            loss_permille: 40,
            ..Impairment::default()
        },
    }
}

/// A primary is lost, its replica takes over, and later it comes back.
async fn replaced(
    context: &mut RunContext<'_>,
    act: Act,
    fault: Fault,
) -> Result<FaultTimes, EnvironmentError> {
    let (cluster, victim) = (context.own(act)?, context.victim);
    let replica = cluster.node_count() / 2 + victim;
    let at = context.event(fault.to_string());
    let active = fault.apply(cluster).await?;
    let in_force = wall_us();
    let taken = context.await_primary(replica).await;
    // A cut must last until everyone has noticed; a dead node can wait for longer.
    match act {
        Act::Kill | Act::Stop => context.until_ms(context.length_ms * 3 / 4).await,
        _ => context.pause_ms(1_000).await,
    }
    context.event(format!("node {victim} comes back"));
    active.heal(cluster).await?;
    let taken_at = taken?;
    let lost_until = match act {
        Act::SplitBrain => taken_at.max(in_force),
        _ => in_force,
    };
    Ok(FaultTimes {
        lost_until: lost_until + ON_THE_WAY,
        taken_at: Some(taken_at),
        ..times(at)
    })
}

/// Something that is in force for a while; recovery is counted from its end.
async fn for_a_while(
    context: &mut RunContext<'_>,
    act: Act,
    fault: Fault,
    ms: u64,
) -> Result<FaultTimes, EnvironmentError> {
    let cluster = context.own(act)?;
    let at = context.event(fault.to_string());
    let active = fault.apply(cluster).await?;
    let in_force = wall_us();
    context.pause_ms(ms).await;
    active.heal(cluster).await?;
    let end = context.event("it has ended");
    Ok(FaultTimes {
        recovery_from: end,
        lost_until: in_force + ON_THE_WAY,
        ..times(at)
    })
}

/// Something that is over when it is done.
async fn once(
    context: &mut RunContext<'_>,
    act: Act,
    fault: Fault,
) -> Result<FaultTimes, EnvironmentError> {
    let cluster = context.own(act)?;
    let at = context.event(fault.to_string());
    fault.apply(cluster).await?.heal(cluster).await?;
    let done = context.event("done");
    Ok(FaultTimes {
        lost_until: done + ON_THE_WAY,
        ..times(at)
    })
}

async fn resets(context: &mut RunContext<'_>) -> Result<FaultTimes, EnvironmentError> {
    let cluster = context.own(Act::Resets)?;
    let at = context.event("connections are reset, ten times");
    for _ in 0..10 {
        for node in 0..cluster.node_count() {
            cluster.proxy(node)?.reset_connections();
        }
        context.pause_ms(200).await;
    }
    let end = context.event("no more resets");
    Ok(FaultTimes {
        recovery_from: end,
        ..times(at)
    })
}

/// By plain commands, so that it can be done to a cluster that isn't ours.
async fn failover(context: &mut RunContext<'_>) -> Result<FaultTimes, EnvironmentError> {
    let Some(replica) = context.environment.replica_of(context.victim).await? else {
        let what = format!("a failover of shard {}", context.victim);
        return Err(EnvironmentError::Unusable(
            what,
            "it has no replica".to_owned(),
        ));
    };
    let at = context.event(format!("node {replica} takes over as planned"));
    context
        .environment
        .run(replica, &["CLUSTER", "FAILOVER"])
        .await?;
    let taken_at = context.await_primary(replica).await?;
    Ok(FaultTimes {
        taken_at: Some(taken_at),
        ..times(at)
    })
}

async fn script_flush(context: &mut RunContext<'_>) -> Result<FaultTimes, EnvironmentError> {
    let at = context.event("scripts are flushed, five times");
    for _ in 0..5 {
        for node in 0..context.environment.node_count() {
            context.environment.run(node, &["SCRIPT", "FLUSH"]).await?;
        }
        context.pause_ms(200).await;
    }
    Ok(times(at))
}

/// Slots with traffic move from the victim to node 0, one after the other.
async fn migrate(
    context: &mut RunContext<'_>,
    act: Act,
    by: Migration,
) -> Result<FaultTimes, EnvironmentError> {
    let cluster = context.own(act)?;
    let slots: Vec<u16> = context
        .subjects
        .iter()
        .filter_map(|name| slot_of(name))
        .collect();
    let at = context.event(format!(
        "{} slots move to node 0",
        slots.len().min(SLOTS_MOVED)
    ));
    for slot in slots.into_iter().take(SLOTS_MOVED) {
        move_slot(context, cluster, slot, by).await?;
    }
    context.event("they have moved");
    Ok(times(at))
}

async fn move_slot(
    context: &RunContext<'_>,
    cluster: &ClusterUnderTest,
    slot: u16,
    by: Migration,
) -> Result<(), EnvironmentError> {
    let fault = Fault::MigrateSlots {
        slots: slot..=slot,
        to: 0,
        by,
    };
    let moving = fault.apply(cluster).await?;
    if by == Migration::Classic {
        context.pause_ms(HALF_MOVED_MS).await;
    }
    Ok(moving.heal(cluster).await?)
}

fn slot_of(subject: &str) -> Option<u16> {
    let subject = Subject::new(subject).ok()?;
    let key = format!("{{{}}}", HashTag::of(&subject));
    Some(Slot::of(key.as_bytes()).get())
}
