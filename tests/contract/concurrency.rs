//! Many at once.

use std::sync::Arc;

use tidegate::model::{Algorithm, Timestamp};
use tidegate::store::Store;
use tokio::task::JoinSet;

use crate::common::probe::{Probe, Reading, at, global, region};

/// How many of `each` charges of `tasks` tasks are admitted, all under way at once.
async fn admitted_at_once<S: Store>(probes: Vec<Probe<S>>, now: Timestamp, each: usize) -> usize {
    let mut tasks = JoinSet::new();
    for probe in probes {
        tasks.spawn(async move { probe.admitted(now, each).await });
    }
    tasks.join_all().await.into_iter().sum()
}

pub async fn throttler_1303_of_a_thousand_at_once_exactly_the_limit_is_admitted<S: Store>(
    store: Arc<S>,
) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "herd", [global(algorithm, "5/s")]);
        let admitted = admitted_at_once(vec![probe; 1_000], at(0.1), 1).await;
        assert_eq!(admitted, 5, "{algorithm}");
    }
}

pub async fn many_tasks_share_one_limit_exactly<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "shared", [global(algorithm, "1000/min")]);
        let admitted = admitted_at_once(vec![probe; 256], at(0.1), 5).await;
        assert_eq!(admitted, 1_000, "{algorithm}");
    }
}

pub async fn regions_at_once_keep_to_the_global_ceiling<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let both = [global(algorithm, "100/min"), region(algorithm, "60/min")];
        let us = Probe::new(&store, "regions", both);
        let regions = [us.region("us"), us.region("eu"), us.region("ap")];
        let probes = regions.iter().cycle().take(60).cloned().collect();
        assert_eq!(
            admitted_at_once(probes, at(0.1), 5).await,
            100,
            "{algorithm}"
        );
        let mut used = 0;
        for probe in regions {
            let left = probe.peek(at(0.1), 1).await.remaining();
            assert_eq!(left[0], 0);
            used += 60 - left[1];
        }
        assert_eq!(used, 100, "{algorithm}: regions and global agree");
    }
}
