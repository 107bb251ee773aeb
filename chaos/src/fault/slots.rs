//! Slots that change their owner while they are used: key by key as the cluster specification has
//! it, or all at once where the server can. Never loses a key: what has not moved stays served.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::cluster::{ClusterError, ClusterUnderTest};
use super::super::resp::Reply;

/// Keys that one MIGRATE takes along.
const KEYS_MAX: usize = 100;
/// How long the source waits for the target in one MIGRATE.
const MIGRATE_TIMEOUT: Duration = Duration::from_secs(5);

/// Slots on their way, key by key.
#[derive(Debug)]
pub(super) struct Moving {
    slots: RangeInclusive<u16>,
    from: usize,
    to: usize,
    to_id: String,
}

impl Moving {
    /// Declares the slots on their way and moves half of their keys.
    pub(super) async fn begin(
        cluster: &ClusterUnderTest,
        slots: RangeInclusive<u16>,
        to: usize,
    ) -> Result<Self, ClusterError> {
        let from = owner(cluster, &slots, to).await?;
        let from_id = node_id(cluster, from).await?;
        let moving = Self {
            to_id: node_id(cluster, to).await?,
            slots,
            from,
            to,
        };
        for slot in moving.slots.clone() {
            let slot = slot.to_string();
            set_slot(cluster, to, &[&slot, "IMPORTING", &from_id]).await?;
            set_slot(cluster, from, &[&slot, "MIGRATING", &moving.to_id]).await?;
        }
        for slot in moving.slots.clone() {
            let count = moving.count(cluster, slot).await?;
            moving.move_keys(cluster, slot, count.div_ceil(2)).await?;
        }
        Ok(moving)
    }

    /// Moves what is left, and makes the target the owner in everyone's eyes.
    pub(super) async fn finish(self, cluster: &ClusterUnderTest) -> Result<(), ClusterError> {
        for slot in self.slots.clone() {
            while self.count(cluster, slot).await? > 0 {
                self.move_keys(cluster, slot, KEYS_MAX).await?;
            }
            let words = slot.to_string();
            // The new owner first, or for a moment nobody would be.
            let mut nodes = vec![self.to, self.from];
            nodes.extend((0..cluster.node_count()).filter(|n| ![self.to, self.from].contains(n)));
            for node in nodes {
                match set_slot(cluster, node, &[&words, "NODE", &self.to_id]).await {
                    // Replicas learn it from their primary, dead nodes when they come back.
                    Err(ClusterError::Refused { .. } | ClusterError::NoAnswer { .. })
                        if ![self.to, self.from].contains(&node) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    async fn count(&self, cluster: &ClusterUnderTest, slot: u16) -> Result<usize, ClusterError> {
        let args = ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()];
        let count = cluster.run(self.from, &args).await?;
        Ok(count
            .int()
            .and_then(|count| count.try_into().ok())
            .unwrap_or(0))
    }

    /// Moves so many keys of a slot, or all when there are fewer.
    async fn move_keys(
        &self,
        cluster: &ClusterUnderTest,
        slot: u16,
        mut count: usize,
    ) -> Result<(), ClusterError> {
        let target = cluster.address(self.to)?;
        let (host, port) = (target.ip().to_string(), target.port().to_string());
        let (slot, timeout) = (slot.to_string(), MIGRATE_TIMEOUT.as_millis().to_string());
        while count > 0 {
            let some = count.min(KEYS_MAX);
            let args = ["CLUSTER", "GETKEYSINSLOT", &slot, &some.to_string()];
            let reply = cluster.run(self.from, &args).await?;
            let keys: Vec<_> = reply
                .array()
                .unwrap_or_default()
                .iter()
                .filter_map(Reply::text)
                .collect();
            if keys.is_empty() {
                return Ok(());
            }
            let mut command = vec!["MIGRATE", &host, &port, "", "0", &timeout];
            if let Some(password) = cluster.password() {
                command.extend(["AUTH", password]);
            }
            command.push("KEYS");
            command.extend(&keys);
            cluster.run(self.from, &command).await?;
            count -= keys.len().min(count);
        }
        Ok(())
    }
}

/// Has the server move the slots by itself, and waits until the target owns them.
pub(super) async fn migrate_atomically(
    cluster: &ClusterUnderTest,
    slots: &RangeInclusive<u16>,
    to: usize,
) -> Result<(), ClusterError> {
    let from = owner(cluster, slots, to).await?;
    let (first, last) = (slots.start().to_string(), slots.end().to_string());
    let id = node_id(cluster, to).await?;
    let command = [
        "CLUSTER",
        "MIGRATESLOTS",
        "SLOTSRANGE",
        &first,
        &last,
        "NODE",
        &id,
    ];
    match cluster.run(from, &command).await {
        Err(ClusterError::Refused { message, .. }) if message.contains("unknown subcommand") => {
            return Err(ClusterError::Unsupported {
                what: "an atomic migration of slots".into(),
                why: message,
                cure: "Use Valkey 9 or newer (TIDEGATE_REDIS_SERVER, TIDEGATE_CLUSTER_IMAGE), or \
                       the classic one"
                    .into(),
            });
        }
        started => started?,
    };
    let what = format!("slots {first} to {last} to reach node {to}");
    cluster
        .wait_for(&what, || async {
            for node in [from, to] {
                let view = cluster.view(node).await?;
                let there = view
                    .node(to)
                    .is_some_and(|own| slots.clone().all(|s| own.owns(s)));
                if !there {
                    let jobs = cluster.run(from, &["CLUSTER", "GETSLOTMIGRATIONS"]).await?;
                    return Err(ClusterError::NotYet(format!("{jobs:?}")));
                }
            }
            Ok(())
        })
        .await
}

/// The one owner of all these slots.
async fn owner(
    cluster: &ClusterUnderTest,
    slots: &RangeInclusive<u16>,
    to: usize,
) -> Result<usize, ClusterError> {
    let view = cluster.view(to).await?;
    let owner = view.owner(*slots.start());
    let owner = owner.filter(|owner| slots.clone().all(|slot| owner.owns(slot)));
    let owner = owner
        .and_then(|owner| owner.node)
        .filter(|&owner| owner != to);
    owner.ok_or_else(|| ClusterError::Unsupported {
        what: format!(
            "moving slots {} to {} to node {to}",
            slots.start(),
            slots.end()
        ),
        why: "they are not all one other primary's".into(),
        cure: "Name slots of one primary, and another one: see ClusterUnderTest::view".into(),
    })
}

async fn node_id(cluster: &ClusterUnderTest, node: usize) -> Result<String, ClusterError> {
    let id = cluster.run(node, &["CLUSTER", "MYID"]).await?;
    Ok(id.text().unwrap_or_default().to_owned())
}

async fn set_slot(
    cluster: &ClusterUnderTest,
    node: usize,
    words: &[&str],
) -> Result<(), ClusterError> {
    let command = [&["CLUSTER", "SETSLOT"], words].concat();
    cluster.run(node, &command).await.map(drop)
}
