//! The server's instruments, in Prometheus's terms: prefix `tidegate_`, base units, and labels
//! whose values are all known from the configuration or the code. Never a subject, a region or a
//! charge id in a label: their number is the callers' to choose.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::time::Duration;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::{logs, stage};
use tidegate::admission::StageStats;
use tidegate::model::{Decision, PolicyName, Source};
use tidegate::store::Readiness;

/// The media type of [`Instruments::encode`]'s text.
pub const OPENMETRICS_TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the buckets of durations, in seconds: from what memory takes to what no check may.
const DURATION_BUCKETS: [f64; 14] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 1.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PolicyLabel(PolicyName);

impl EncodeLabelValue for PolicyLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    policy: PolicyLabel,
    outcome: &'static str,
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    endpoint: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: &'static str,
}

/// All instruments of a server. Cheap to record into from many tasks.
#[derive(Debug)]
pub struct Instruments {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    check_seconds: Seconds<SourceLabels>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Seconds<EndpointLabels>,
    requests_shed: Counter,
    requests_in_flight: Gauge,
    connections: Gauge,
    connections_shed: Counter,
}

/// Durations by labels.
type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

impl Default for Instruments {
    fn default() -> Self {
        let mut registry = registry();
        let r = &mut registry;
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        r.register("build", "What runs", build);
        Instruments {
            decisions: registered(
                r,
                "decisions",
                "Checks decided, by policy, outcome and the part that answered",
            ),
            check_seconds: registered_seconds(
                r,
                "check_duration",
                "Time from a check's reading to its decision, by the part that answered",
            ),
            requests: registered(
                r,
                "http_requests",
                "HTTP requests answered, by endpoint and status",
            ),
            request_seconds: registered_seconds(
                r,
                "http_request_duration",
                "Time from a request's head to its answer, by endpoint",
            ),
            requests_shed: registered(
                r,
                "http_requests_shed",
                "HTTP requests refused because too many were in flight",
            ),
            requests_in_flight: registered(
                r,
                "http_requests_in_flight",
                "HTTP requests being answered",
            ),
            connections: registered(r, "http_connections", "HTTP connections open"),
            connections_shed: registered(
                r,
                "http_connections_shed",
                "HTTP connections refused because too many were open",
            ),
            registry,
        }
    }
}

fn registry() -> Registry {
    Registry::with_prefix("tidegate")
}

fn registered<M: Metric + Default + Clone>(r: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    r.register(name, help, metric.clone());
    metric
}

fn registered_seconds<L>(r: &mut Registry, name: &str, help: &str) -> Seconds<L>
where
    L: EncodeLabelSet + Clone + Eq + Hash + Debug + Send + Sync + 'static,
{
    let durations: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
    let seconds = Family::new_with_constructor(durations);
    r.register_with_unit(name, help, Unit::Seconds, seconds.clone());
    seconds
}

impl Instruments {
    /// A check was decided after `took`.
    pub fn decided(&self, decision: &Decision, took: Duration) {
        let facts = decision.facts();
        let source = facts.source.name();
        let labels = DecisionLabels {
            policy: PolicyLabel(facts.policy.clone()),
            outcome: outcome(decision),
            source,
        };
        self.decisions.get_or_create(&labels).inc();
        self.check_seconds
            .get_or_create(&SourceLabels { source })
            .observe(took.as_secs_f64());
    }

    /// A request was answered with `status` after `took`.
    pub fn answered(&self, endpoint: &'static str, status: u16, took: Duration) {
        let labels = RequestLabels { endpoint, status };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds
            .get_or_create(&EndpointLabels { endpoint })
            .observe(took.as_secs_f64());
    }

    /// A request was refused because too many were in flight.
    pub fn request_shed(&self) {
        self.requests_shed.inc();
    }

    /// A request is in flight until the guard is dropped.
    #[must_use]
    pub fn request(&self) -> InFlight {
        InFlight::in_gauge(&self.requests_in_flight)
    }

    /// A connection was refused because too many were open.
    pub fn connection_shed(&self) {
        self.connections_shed.inc();
    }

    /// A connection is open until the guard is dropped.
    #[must_use]
    pub fn connection(&self) -> InFlight {
        InFlight::in_gauge(&self.connections)
    }

    /// All instruments in OpenMetrics' text form, with the store's and the local stage's own
    /// figures as they are now.
    ///
    /// # Errors
    /// When an instrument can't be written, which a string's growth doesn't cause.
    pub fn encode(
        &self,
        calls_sent: u64,
        readiness: &Readiness,
        stage: Option<&StageStats>,
    ) -> Result<String, fmt::Error> {
        let mut now = registry();
        let store_calls = ConstCounter::new(calls_sent);
        now.register("store_calls", "Calls sent to a shared store", store_calls);
        let store_ready = ConstGauge::new(i64::from(*readiness == Readiness::Ready));
        let help = "1 while the store can decide, else 0";
        now.register("store_ready", help, store_ready);
        let lost = ConstCounter::new(logs::lines_lost());
        now.register(
            "log_lines_lost",
            "Log lines that could not be written",
            lost,
        );
        stage::register(&mut now, stage.unwrap_or(&StageStats::default()));
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &now)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

fn outcome(decision: &Decision) -> &'static str {
    match decision {
        Decision::Admitted(_) => "admitted",
        Decision::Denied(denial) if denial.facts.source == Source::Outage => "unconfirmed",
        Decision::Denied(_) => "denied",
    }
}

/// Counts in a gauge while it lives.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl InFlight {
    fn in_gauge(gauge: &Gauge) -> Self {
        gauge.inc();
        InFlight(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::admission::{BreakerState, OutageReason};
    use tidegate::model::{ChargeId, DecisionFacts, Denial, Subject};
    use tidegate::store::ShardId;

    fn outage() -> Decision {
        let mut facts = DecisionFacts::new(
            PolicyName::new("payments").unwrap(),
            Subject::new("secret-key-1").unwrap(),
            ChargeId::new("id-1").unwrap(),
        );
        (facts.degraded, facts.source) = (true, Source::Outage);
        Decision::Denied(Denial::new(facts, None))
    }

    #[test]
    fn names_have_the_prefix_and_base_units_and_labels_no_subject() {
        let it = Instruments::default();
        it.decided(&outage(), Duration::from_micros(60));
        it.answered("/v1/check", 503, Duration::from_micros(80));
        let text = it
            .encode(7, &Readiness::NotReady("starting".to_owned()), None)
            .unwrap();
        for line in [
            r#"tidegate_decisions_total{policy="payments",outcome="unconfirmed",source="outage"} 1"#,
            r#"tidegate_check_duration_seconds_bucket{le="0.0001",source="outage"} 1"#,
            r#"tidegate_http_requests_total{endpoint="/v1/check",status="503"} 1"#,
            "tidegate_store_calls_total 7",
            "tidegate_store_ready 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        assert!(!text.contains("secret-key-1") && !text.contains("id-1"));
        let named = |l: &&str| !l.starts_with('#');
        assert!(
            text.lines()
                .filter(named)
                .all(|l| l.starts_with("tidegate_"))
        );
    }

    #[test]
    fn the_local_stages_figures_are_shown_as_they_are() {
        let mut stats = StageStats::default();
        stats.degraded = vec![(OutageReason::BreakerOpen, 3)];
        stats.breakers = vec![(ShardId::new(2), BreakerState::Open)];
        stats.waiting = 5;
        let it = Instruments::default();
        let text = it.encode(0, &Readiness::Ready, Some(&stats)).unwrap();
        for line in [
            r#"tidegate_degraded_total{reason="breaker_open"} 3"#,
            r#"tidegate_breaker_state{shard="2",state="open"} 1"#,
            r#"tidegate_breaker_state{shard="2",state="closed"} 0"#,
            "tidegate_lane_waiting 5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_gauge_counts_what_lives() {
        let it = Instruments::default();
        let open = (it.connection(), it.request());
        let text = it.encode(0, &Readiness::Ready, None).unwrap();
        assert!(text.contains("tidegate_http_connections 1\n"), "{text}");
        assert!(text.contains("tidegate_http_requests_in_flight 1\n"));
        drop(open);
        let text = it.encode(0, &Readiness::Ready, None).unwrap();
        assert!(text.contains("tidegate_http_connections 0\n"));
    }
}
