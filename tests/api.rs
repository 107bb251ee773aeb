//! What a program that embeds the limiter relies on: what its types can do, what cost 0 and a refund
//! mean, and which outage choices a limiter takes.

use std::fmt::Debug;
use std::future::{Future, ready};
use std::num::NonZeroU64;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate::limiter::{BuildError, CheckError, LimiterBuilder};
use tidegate::model::{
    Algorithm, Allowance, CeilingRule, CeilingStatus, DecisionFacts, Denial, Grant, OnOutage,
    Policies, Policy, PolicyName, Refund, Retry, Source,
};
use tidegate::store::{
    ChargeCall, ChargeReply, Readiness, RefundCall, Refunded, ResetCall, Store, StoreError,
    StoreErrorKind,
};
use tidegate::{Check, Decision, Limiter, MemoryStore};

/// A shared store that never answers.
#[derive(Debug)]
struct Away;

fn away<T: Send>() -> impl Future<Output = Result<T, StoreError>> + Send {
    let kind = StoreErrorKind::Unavailable;
    ready(Err(StoreError::not_run("charge", kind, "away")))
}

impl Store for Away {
    fn charge(
        &self,
        _: ChargeCall,
    ) -> impl Future<Output = Result<ChargeReply, StoreError>> + Send {
        away()
    }

    fn refund(&self, _: RefundCall) -> impl Future<Output = Result<Refunded, StoreError>> + Send {
        away()
    }

    fn reset(&self, _: ResetCall) -> impl Future<Output = Result<(), StoreError>> + Send {
        away()
    }

    fn readiness(&self) -> Readiness {
        Readiness::NotReady("away".to_owned())
    }

    fn calls_sent(&self) -> u64 {
        0
    }
}

fn policies(rate: &str, on_outage: OnOutage) -> Policies {
    let rule = CeilingRule {
        algorithm: Algorithm::SlidingLog,
        allowance: Allowance::Limited(rate.parse().unwrap()),
        delay: false,
    };
    let policy = Policy::new(PolicyName::new("p").unwrap(), Some(rule), None).unwrap();
    Policies::new([policy.with_on_outage(on_outage)]).unwrap()
}

fn builder<S: Store>(store: S, rate: &str, on_outage: OnOutage) -> LimiterBuilder<S> {
    let builder = Limiter::builder().store(store);
    builder.policies(policies(rate, on_outage))
}

fn in_memory(rate: &str) -> Limiter<MemoryStore> {
    let store = MemoryStore::default();
    builder(store, rate, OnOutage::Deny).build().unwrap()
}

/// Memory answers at once, without a runtime.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).as_mut().poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn shown_and_shared<T: Debug + Send + Sync>() {}

#[test]
fn public_types_can_be_shown_and_shared_between_threads() {
    shown_and_shared::<Limiter<Away>>();
    shown_and_shared::<LimiterBuilder<Away>>();
    shown_and_shared::<(Check, Refund, Decision, Grant, Denial)>();
    shown_and_shared::<(DecisionFacts, CeilingStatus, Source, Retry)>();
    shown_and_shared::<(BuildError, CheckError, Policies, Policy)>();
    let limiter = in_memory("5/min");
    assert!(format!("{limiter:?}").starts_with("Limiter { policies: 1"));
    fn sendable<T: Send>(_: &T) {}
    sendable(&limiter.check(&Check::new("p", "s")));
}

#[cfg(feature = "local-stage")]
#[test]
fn the_local_stages_types_can_be_shown_and_shared_too() {
    use tidegate::admission::*;
    use tidegate::limiter::{FleetMember, FleetOptions};
    shown_and_shared::<(LocalStage, LocalStageError, LocalDecision)>();
    shown_and_shared::<(StageStats, OutageReason, BreakerState, BreakerOptions)>();
    shown_and_shared::<(FleetMember, FleetOptions)>();
}

#[test]
fn a_check_of_cost_0_is_a_peek_of_one_unit() {
    let limiter = in_memory("2/min");
    let (nothing, one) = (Check::new("p", "s").cost(0), Check::new("p", "s"));
    for admitted in [true, true, false] {
        let answers = [
            now(limiter.check(&nothing)).unwrap(),
            now(limiter.peek(&nothing)).unwrap(),
            now(limiter.peek(&one)).unwrap(),
        ];
        let wait = answers[2].retry_after();
        for answer in answers {
            assert_eq!(answer.is_admitted(), admitted, "{answer:?}");
            assert_eq!(answer.retry_after().is_some(), !admitted);
            // The clock runs between the three, and never back.
            assert!(answer.retry_after() >= wait, "{answer:?}");
        }
        assert_eq!(
            now(limiter.check(&one)).unwrap().is_admitted(),
            admitted,
            "as it was told"
        );
    }
}

#[test]
fn a_peek_of_more_units_says_whether_all_of_them_fit() {
    let limiter = in_memory("3/min");
    let peek = |cost| now(limiter.peek(&Check::new("p", "s").cost(cost))).unwrap();
    assert!(peek(3).is_admitted() && peek(4).is_never());
    now(limiter.check(&Check::new("p", "s"))).unwrap();
    assert!(peek(2).is_admitted() && !peek(3).is_admitted());
}

#[test]
fn without_the_store_a_check_of_cost_0_gets_the_outage_choice_and_a_peek_an_error() {
    for (choice, admitted) in [(OnOutage::Admit, true), (OnOutage::Deny, false)] {
        let limiter = builder(Away, "5/min", choice).build().unwrap();
        for cost in [0, 1] {
            let check = Check::new("p", "s").cost(cost);
            let decision = now(limiter.check(&check)).unwrap();
            assert_eq!(decision.is_admitted(), admitted);
            assert!(decision.facts().degraded);
            assert!(matches!(
                now(limiter.peek(&check)),
                Err(CheckError::Store(_))
            ));
        }
    }
}

#[test]
fn a_refund_names_a_charge_and_how_much_of_it() {
    let limiter = in_memory("5/min");
    now(limiter.check(&Check::new("p", "s").cost(5).id("order-7"))).unwrap();
    let refund = Refund::new("p", "s", "order-7");
    let part = refund.clone().cost(NonZeroU64::new(2).unwrap());
    assert_eq!(now(limiter.refund(&part)), Ok(Refunded::Units(2)));
    assert_eq!(now(limiter.refund(&refund)), Ok(Refunded::Units(3)));
    assert_eq!(now(limiter.refund(&refund)), Ok(Refunded::NotFound));
    let unnamed = now(limiter.refund(&Refund::new("p", "s", "")));
    assert!(matches!(unnamed, Err(CheckError::Id(_))));
}

#[test]
fn a_share_of_a_shared_store_needs_a_local_stage_and_the_number_of_nodes() {
    let error = builder(Away, "5/min", OnOutage::Local).build().unwrap_err();
    assert_eq!(
        error,
        BuildError::ShareUnknown(PolicyName::new("p").unwrap())
    );
    let told = error.to_string();
    for word in ["`p`", "on_outage: local", "local_stage", "nodes", "deny"] {
        assert!(told.contains(word), "{word} in {told}");
    }
    let memory = builder(MemoryStore::default(), "5/min", OnOutage::Local).build();
    assert!(memory.is_ok(), "nobody shares it");
}

#[test]
fn other_policies_are_held_to_the_same_and_those_before_stay_in_force() {
    let limiter = builder(Away, "5/min", OnOutage::Admit).build().unwrap();
    let refused = limiter.replace_policies(policies("5/min", OnOutage::Local));
    assert!(matches!(refused, Err(BuildError::ShareUnknown(_))));
    assert!(
        now(limiter.check(&Check::new("p", "s")))
            .unwrap()
            .is_admitted()
    );
    let empty = limiter.replace_policies(Policies::default());
    assert_eq!(empty, Err(BuildError::NoPolicies));
    assert_eq!(limiter.policies().len(), 1);
}

#[cfg(feature = "local-stage")]
#[test]
fn a_local_stage_that_knows_the_nodes_may_use_its_share() {
    use tidegate::admission::LocalStage;
    let staged = || {
        let builder = builder(Away, "5/min", OnOutage::Local);
        builder.local_stage(LocalStage::default())
    };
    assert!(matches!(staged().build(), Err(BuildError::ShareUnknown(_))));
    assert!(staged().nodes(4).build().is_ok());
    assert_eq!(staged().nodes(0).build().unwrap_err(), BuildError::Nodes(0));
    assert!(matches!(
        builder(Away, "5/min", OnOutage::Local).nodes(4).build(),
        Err(BuildError::ShareUnknown(_))
    ));
}

#[cfg(feature = "local-stage")]
#[tokio::test]
async fn in_an_outage_a_check_of_cost_0_takes_nothing_from_the_share() {
    use tidegate::admission::LocalStage;
    let builder = builder(Away, "2/min", OnOutage::Local).nodes(1);
    let limiter = builder.local_stage(LocalStage::default()).build().unwrap();
    let (nothing, one) = (Check::new("p", "s").cost(0), Check::new("p", "s"));
    for _ in 0..5 {
        let would_fit = limiter.check(&nothing).await.unwrap();
        assert!(would_fit.is_admitted() && would_fit.facts().degraded);
    }
    assert!(limiter.check(&one).await.unwrap().is_admitted());
    assert!(!limiter.check(&nothing).await.unwrap().is_admitted());
    assert!(!limiter.check(&one).await.unwrap().is_admitted());
}
