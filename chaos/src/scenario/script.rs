//! What each act is, step by step. A script returns when it has done its part; the load goes on
//! until its own end.

use std::time::Duration;

use super::catalog::Act;
use super::ground::GroundError;
use super::stage::{Moments, Stage};
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
pub async fn play(stage: &mut Stage<'_>, act: Act, fault_ms: u64) -> Result<Moments, GroundError> {
    stage.until_ms(fault_ms).await;
    let victim = stage.victim;
    match act {
        Act::None | Act::ClockStep => {
            let words = match act {
                Act::None => "measured from here",
                _ => "the clock steps back",
            };
            stage.mark(words);
            Ok(moments(stage.began_at + fault_ms * 1_000))
        }
        Act::Kill => replaced(stage, act, Fault::Kill(vec![victim])).await,
        Act::Stop => replaced(stage, act, Fault::Stop(vec![victim])).await,
        Act::Pause => replaced(stage, act, Fault::Pause(vec![victim])).await,
        Act::CutOff => replaced(stage, act, Fault::CutOff(vec![victim])).await,
        Act::SplitBrain => replaced(stage, act, Fault::CutOffFromPeers(victim)).await,
        Act::Resets => resets(stage).await,
        Act::Latency | Act::Loss => {
            let fault = Fault::Impair(vec![victim], impairment(act));
            for_a_while(stage, act, fault, 2_000).await
        }
        Act::MaxMemory => for_a_while(stage, act, Fault::FillMemory(vec![victim]), 1_500).await,
        Act::Failover => failover(stage).await,
        Act::MigrateSlot => migrate(stage, act, Migration::Classic).await,
        Act::MigrateAtomic => migrate(stage, act, Migration::Atomic).await,
        Act::ScriptFlush => script_flush(stage).await,
        Act::FlushAll => once(stage, act, Fault::ForgetData(victim)).await,
        Act::RollingRestart => once(stage, act, Fault::RollingRestart).await,
        Act::TwoPrimariesDown => for_a_while(stage, act, Fault::Kill(vec![0, 1]), 2_000).await,
        Act::AllDown => {
            let all = (0..stage.ground.node_count()).collect();
            for_a_while(stage, act, Fault::Kill(all), 1_500).await
        }
    }
}

/// A fault from which recovery is counted, and which loses nothing after it.
fn moments(at: u64) -> Moments {
    Moments {
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
async fn replaced(stage: &mut Stage<'_>, act: Act, fault: Fault) -> Result<Moments, GroundError> {
    let (cluster, victim) = (stage.own(act)?, stage.victim);
    let replica = cluster.node_count() / 2 + victim;
    let at = stage.mark(fault.to_string());
    let active = fault.apply(cluster).await?;
    let in_force = wall_us();
    let taken = stage.await_primary(replica).await;
    // A cut must last until everyone has noticed; a dead node can wait for longer.
    match act {
        Act::Kill | Act::Stop => stage.until_ms(stage.length_ms * 3 / 4).await,
        _ => stage.pause_ms(1_000).await,
    }
    stage.mark(format!("node {victim} comes back"));
    active.heal(cluster).await?;
    let taken_at = taken?;
    let lost_until = match act {
        Act::SplitBrain => taken_at.max(in_force),
        _ => in_force,
    };
    Ok(Moments {
        lost_until: lost_until + ON_THE_WAY,
        taken_at: Some(taken_at),
        ..moments(at)
    })
}

/// Something that is in force for a while; recovery is counted from its end.
async fn for_a_while(
    stage: &mut Stage<'_>,
    act: Act,
    fault: Fault,
    ms: u64,
) -> Result<Moments, GroundError> {
    let cluster = stage.own(act)?;
    let at = stage.mark(fault.to_string());
    let active = fault.apply(cluster).await?;
    let in_force = wall_us();
    stage.pause_ms(ms).await;
    active.heal(cluster).await?;
    let end = stage.mark("it has ended");
    Ok(Moments {
        recovery_from: end,
        lost_until: in_force + ON_THE_WAY,
        ..moments(at)
    })
}

/// Something that is over when it is done.
async fn once(stage: &mut Stage<'_>, act: Act, fault: Fault) -> Result<Moments, GroundError> {
    let cluster = stage.own(act)?;
    let at = stage.mark(fault.to_string());
    fault.apply(cluster).await?.heal(cluster).await?;
    let done = stage.mark("done");
    Ok(Moments {
        lost_until: done + ON_THE_WAY,
        ..moments(at)
    })
}

async fn resets(stage: &mut Stage<'_>) -> Result<Moments, GroundError> {
    let cluster = stage.own(Act::Resets)?;
    let at = stage.mark("connections are reset, ten times");
    for _ in 0..10 {
        for node in 0..cluster.node_count() {
            cluster.proxy(node)?.reset_connections();
        }
        stage.pause_ms(200).await;
    }
    let end = stage.mark("no more resets");
    Ok(Moments {
        recovery_from: end,
        ..moments(at)
    })
}

/// By plain commands, so that it can be done to a cluster that isn't ours.
async fn failover(stage: &mut Stage<'_>) -> Result<Moments, GroundError> {
    let Some(replica) = stage.ground.replica_of(stage.victim).await? else {
        let what = format!("a failover of shard {}", stage.victim);
        return Err(GroundError::Unusable(what, "it has no replica".to_owned()));
    };
    let at = stage.mark(format!("node {replica} takes over as planned"));
    stage.ground.run(replica, &["CLUSTER", "FAILOVER"]).await?;
    let taken_at = stage.await_primary(replica).await?;
    Ok(Moments {
        taken_at: Some(taken_at),
        ..moments(at)
    })
}

async fn script_flush(stage: &mut Stage<'_>) -> Result<Moments, GroundError> {
    let at = stage.mark("scripts are flushed, five times");
    for _ in 0..5 {
        for node in 0..stage.ground.node_count() {
            stage.ground.run(node, &["SCRIPT", "FLUSH"]).await?;
        }
        stage.pause_ms(200).await;
    }
    Ok(moments(at))
}

/// Slots with traffic move from the victim to node 0, one after the other.
async fn migrate(stage: &mut Stage<'_>, act: Act, by: Migration) -> Result<Moments, GroundError> {
    let cluster = stage.own(act)?;
    let slots: Vec<u16> = stage
        .subjects
        .iter()
        .filter_map(|name| slot_of(name))
        .collect();
    let at = stage.mark(format!(
        "{} slots move to node 0",
        slots.len().min(SLOTS_MOVED)
    ));
    for slot in slots.into_iter().take(SLOTS_MOVED) {
        move_slot(stage, cluster, slot, by).await?;
    }
    stage.mark("they have moved");
    Ok(moments(at))
}

async fn move_slot(
    stage: &Stage<'_>,
    cluster: &ClusterUnderTest,
    slot: u16,
    by: Migration,
) -> Result<(), GroundError> {
    let fault = Fault::MigrateSlots {
        slots: slot..=slot,
        to: 0,
        by,
    };
    let moving = fault.apply(cluster).await?;
    if by == Migration::Classic {
        stage.pause_ms(HALF_MOVED_MS).await;
    }
    Ok(moving.heal(cluster).await?)
}

fn slot_of(subject: &str) -> Option<u16> {
    let subject = Subject::new(subject).ok()?;
    let key = format!("{{{}}}", HashTag::of(&subject));
    Some(Slot::of(key.as_bytes()).get())
}
