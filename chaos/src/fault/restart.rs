//! Planned changes: a failover in agreement, and the restart of all nodes in turn.
//! Never takes down a primary that has a replica without handing over first.

use super::super::cluster::{ClusterError, ClusterUnderTest};

/// Has the replica of a primary take over, and waits until both know.
pub(super) async fn fail_over(
    cluster: &ClusterUnderTest,
    primary: usize,
) -> Result<(), ClusterError> {
    let view = cluster.view(primary).await?;
    let replica = view.node(primary).and_then(|own| {
        let mut sound = view.replicas_of(own).filter(|replica| !replica.failed);
        sound.find_map(|replica| replica.node)
    });
    let replica = replica.ok_or_else(|| ClusterError::Unsupported {
        what: format!("a failover of node {primary}"),
        why: "it is no primary with a sound replica".into(),
        cure: "Name a primary: see ClusterUnderTest::primary_of".into(),
    })?;
    cluster.run(replica, &["CLUSTER", "FAILOVER"]).await?;
    let what = format!("node {replica} to take over from node {primary}");
    cluster
        .wait_for(&what, || async {
            for node in [replica, primary] {
                let view = cluster.view(node).await?;
                let promoted = view.node(replica).is_some_and(|own| own.primary);
                let demoted = view.node(primary).is_some_and(|own| !own.primary);
                if !(promoted && demoted) {
                    return Err(ClusterError::NotYet(format!(
                        "node {node} doesn't see it so"
                    )));
                }
            }
            Ok(())
        })
        .await
}

/// Restarts every node, replicas as they are, primaries after they have handed over.
pub(super) async fn all_in_turn(cluster: &ClusterUnderTest) -> Result<(), ClusterError> {
    for node in 0..cluster.node_count() {
        let view = cluster.view(node).await?;
        let myself = view.myself();
        let leads = myself.is_some_and(|own| own.primary && view.replicas_of(own).count() > 0);
        if leads {
            fail_over(cluster, node).await?;
            // Or the new primary, not yet followed, would be the shard's only copy.
            cluster.wait_healthy().await?;
        }
        cluster.stop(node).await?;
        cluster.restart(node).await?;
        cluster.wait_healthy().await?;
    }
    Ok(())
}
