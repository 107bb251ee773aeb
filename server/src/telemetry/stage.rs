//! The local stage's figures as instruments. Read when they are asked for, never on a check's way;
//! labels are shards, reasons and states, never a subject.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tidegate::admission::{BreakerState, StageStats};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BreakerLabels {
    shard: u32,
    state: &'static str,
}

type Total = Counter<u64, AtomicU64>;

/// What the local stage did and does.
#[derive(Default)]
pub(super) struct StageInstruments {
    degraded: Family<ReasonLabel, Total>,
    breakers: Family<BreakerLabels, Gauge>,
    calls: Total,
    checks_in_calls: Total,
    leases_granted: Total,
    lease_units_granted: Total,
    lease_units_returned: Total,
    cancelled_refunded: Total,
    cancelled_kept: Total,
    invalidations_dropped: Total,
    waiting: Gauge,
    subjects: Gauge,
    nodes: Gauge,
}

impl StageInstruments {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register(
            "degraded",
            "Checks decided without the store by the policy's outage choice, by reason",
            self.degraded.clone(),
        );
        r.register(
            "breaker_state",
            "1 for the state that each shard's breaker is in, else 0",
            self.breakers.clone(),
        );
        let totals = [
            (
                "stage_calls",
                "Calls that lanes and lone checks made",
                &self.calls,
            ),
            (
                "stage_checks_in_calls",
                "Checks and leases that rode in those calls",
                &self.checks_in_calls,
            ),
            ("leases_granted", "Leases granted", &self.leases_granted),
            (
                "lease_units_granted",
                "Units charged ahead for leases",
                &self.lease_units_granted,
            ),
            (
                "lease_units_returned",
                "Units of leases handed back unspent",
                &self.lease_units_returned,
            ),
            (
                "cancelled_refunded",
                "Charges given back because their check was cancelled",
                &self.cancelled_refunded,
            ),
            (
                "cancelled_kept",
                "Charges of cancelled checks that no log holds by their id",
                &self.cancelled_kept,
            ),
            (
                "fleet_invalidations_dropped",
                "Invalidations for the other nodes dropped because too many waited",
                &self.invalidations_dropped,
            ),
        ];
        for (name, help, total) in totals {
            r.register(name, help, total.clone());
        }
        let gauges = [
            ("lane_waiting", "Checks that wait in lanes", &self.waiting),
            (
                "subjects_held",
                "Subjects whose state is held, counted per policy",
                &self.subjects,
            ),
            (
                "fleet_nodes",
                "Nodes that share the ceilings, as far as is known",
                &self.nodes,
            ),
        ];
        for (name, help, gauge) in gauges {
            r.register(name, help, gauge.clone());
        }
    }

    /// Takes over the figures as they are now.
    pub(super) fn read(&self, stats: &StageStats) {
        let raise = |total: &Total, to: u64| total.inner().fetch_max(to, Ordering::Relaxed);
        for (reason, count) in &stats.degraded {
            let reason = reason.name();
            raise(
                &self.degraded.get_or_create(&ReasonLabel { reason }),
                *count,
            );
        }
        for (shard, state) in &stats.breakers {
            for each in [
                BreakerState::Closed,
                BreakerState::Open,
                BreakerState::Probing,
            ] {
                let labels = BreakerLabels {
                    shard: shard.get(),
                    state: each.name(),
                };
                let is_so = i64::from(each == *state);
                self.breakers.get_or_create(&labels).set(is_so);
            }
        }
        raise(&self.calls, stats.calls);
        raise(&self.checks_in_calls, stats.checks_in_calls);
        raise(&self.leases_granted, stats.leases_granted);
        raise(&self.lease_units_granted, stats.lease_units_granted);
        raise(&self.lease_units_returned, stats.lease_units_returned);
        raise(&self.cancelled_refunded, stats.cancelled_refunded);
        raise(&self.cancelled_kept, stats.cancelled_kept);
        raise(&self.invalidations_dropped, stats.invalidations_dropped);
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.waiting.set(signed(stats.waiting));
        self.subjects.set(signed(stats.subjects));
        self.nodes.set(i64::from(stats.nodes));
    }
}
