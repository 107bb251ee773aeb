//! The local stage's figures as metrics: one table says the name, the help and the figure of each.
//! Read when they are asked for, never on a check's way; labels are shards, reasons and states, never
//! a subject.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use tidegate::admission::{BreakerState, StageStats};

/// A metric's name and help, and its figure.
type Figure = (&'static str, &'static str, fn(&StageStats) -> u64);

const COUNTERS: [Figure; 8] = [
    (
        "stage_calls",
        "Calls that lanes and lone checks made",
        |s| s.calls,
    ),
    (
        "stage_checks_in_calls",
        "Checks and leases that rode in those calls",
        |s| s.checks_in_calls,
    ),
    ("leases_granted", "Leases granted", |s| s.leases_granted),
    (
        "lease_units_granted",
        "Units charged ahead for leases",
        |s| s.lease_units_granted,
    ),
    (
        "lease_units_returned",
        "Units of leases handed back unspent",
        |s| s.lease_units_returned,
    ),
    (
        "unused_charges_refunded",
        "Charges refunded that no check was admitted by: cancelled, or denied without the store",
        |s| s.unused_refunded,
    ),
    (
        "unused_charges_kept",
        "Such charges that could not be refunded: no log holds them by their id, or too many wait",
        |s| s.unused_kept,
    ),
    (
        "fleet_messages_dropped",
        "Messages to the other nodes dropped because too many waited",
        |s| s.invalidations_dropped,
    ),
];

const GAUGES: [Figure; 4] = [
    (
        "refunds_waiting",
        "Such charges that wait for their shard to answer",
        |s| s.refunds_waiting,
    ),
    ("lane_waiting", "Checks that wait in lanes", |s| s.waiting),
    (
        "subjects_held",
        "Subjects whose state is held, counted per policy",
        |s| s.subjects,
    ),
    (
        "fleet_nodes",
        "Nodes that share the ceilings, as far as is known",
        |s| s.nodes.into(),
    ),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BreakerLabels {
    shard: u32,
    state: &'static str,
}

/// Adds what the local stage did and does.
pub(super) fn register(registry: &mut Registry, stats: &StageStats) {
    registry.register(
        "degraded",
        "Checks decided without the store by the policy's outage choice, by reason",
        degraded(stats),
    );
    registry.register(
        "breaker_state",
        "1 for the state that each shard's breaker is in, else 0",
        breakers(stats),
    );
    for (name, help, figure) in COUNTERS {
        registry.register(name, help, ConstCounter::new(figure(stats)));
    }
    for (name, help, figure) in GAUGES {
        let figure = i64::try_from(figure(stats)).unwrap_or(i64::MAX);
        registry.register(name, help, ConstGauge::new(figure));
    }
}

fn degraded(stats: &StageStats) -> Family<ReasonLabel, Counter> {
    let family = Family::<ReasonLabel, Counter>::default();
    for (reason, count) in &stats.degraded {
        let reason = reason.name();
        family.get_or_create(&ReasonLabel { reason }).inc_by(*count);
    }
    family
}

fn breakers(stats: &StageStats) -> Family<BreakerLabels, Gauge> {
    let family = Family::<BreakerLabels, Gauge>::default();
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
            family.get_or_create(&labels).set((each == *state).into());
        }
    }
    family
}
