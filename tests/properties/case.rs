//! Random histories of one subject.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use tidegate::model::{Algorithm, Cost, Micros, Quota, UNITS_MAX, WINDOW_MAX};

/// Which histories are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    extreme: bool,
}

impl Shape {
    /// Windows from a millisecond to a year, and limits up to the largest.
    pub fn extreme() -> Self {
        Shape { extreme: true }
    }
}

/// A ceiling to be, without its scope.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub algorithm: Algorithm,
    pub quota: Quota,
    pub delay: bool,
}

/// Where a request's id comes from.
#[derive(Clone, Copy, Debug)]
pub enum Name {
    /// The limiter's, never used.
    Fresh,
    /// The caller's, perhaps for the first time: one of a few.
    Caller(u8),
    /// The limiter's of an earlier request, sent again.
    Again(u8),
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub cost: Weight,
    pub name: Name,
    /// Thousandths of the window that it is held.
    pub held: Option<u16>,
}

/// A cost, in relation to a limit that may change.
#[derive(Clone, Copy, Debug)]
pub enum Weight {
    Units(Cost),
    /// Thousandths of the limit, and a unit more or less.
    Part(u16, i8),
}

/// A step of time, in relation to the window.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Micros(i8),
    /// Thousandths of the window.
    Part(i16),
    /// Just to where the window's next multiple begins, and a microsecond more or less.
    Edge(i8),
    /// Whole windows and a microsecond more or less.
    Windows(i8, i8),
}

#[derive(Clone, Debug)]
pub enum Deed {
    Charge(Vec<Request>),
    Peek(Vec<Request>),
    Refund(Name, Option<Cost>),
    Reset,
    /// New limits for the global and the regional ceiling.
    Limits(Quota, Quota),
}

#[derive(Clone, Debug)]
pub struct Act {
    pub step: Step,
    pub region: u8,
    pub deed: Deed,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub global: Option<Rule>,
    pub region: Option<Rule>,
    pub acts: Vec<Act>,
}

fn quota(shape: Shape) -> BoxedStrategy<Quota> {
    let windows: BoxedStrategy<u64> = if shape.extreme {
        prop_oneof![
            Just(1_000_u64),
            Just(1_001),
            Just(999_999),
            Just(WINDOW_MAX.get()),
            1_000..=WINDOW_MAX.get(),
        ]
        .boxed()
    } else {
        prop_oneof![
            4 => Just(60_000_000_u64),
            2 => Just(90_000_000),
            2 => Just(3_600_000_000),
            1 => 30_000_000..90_000_000_u64,
        ]
        .boxed()
    };
    let limits: BoxedStrategy<u64> = if shape.extreme {
        prop_oneof![0..4_u64, 1_000..1_000_000_u64, UNITS_MAX - 3..=UNITS_MAX].boxed()
    } else {
        prop_oneof![8 => 1..12_u64, 1 => Just(0_u64), 1 => 12..2_000_u64].boxed()
    };
    (limits, windows, 1..2_500_u64)
        .prop_map(|(limit, window, permille)| {
            let quota = Quota::new(limit, Micros::new(window)).unwrap();
            let burst = (u128::from(limit) * u128::from(permille) / 1_000).max(1);
            // A burst that would drain for too long is no quota: the limit's own then.
            u64::try_from(burst)
                .ok()
                .and_then(|burst| quota.with_burst(burst).ok())
                .unwrap_or(quota)
        })
        .boxed()
}

fn rule(shape: Shape) -> impl Strategy<Value = Rule> {
    let algorithm = prop_oneof![
        3 => Just(Algorithm::SlidingLog),
        1 => Just(Algorithm::SlidingCounter),
        1 => Just(Algorithm::FixedWindow),
        1 => Just(Algorithm::TokenBucket),
        1 => Just(Algorithm::LeakyBucket),
    ];
    (algorithm, quota(shape), any::<bool>()).prop_map(|(algorithm, quota, delay)| Rule {
        algorithm,
        quota,
        delay,
    })
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        5 => Just(Name::Fresh),
        3 => (0..6_u8).prop_map(Name::Caller),
        1 => any::<u8>().prop_map(Name::Again),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let cost = prop_oneof![
        6 => Just(Weight::Units(1)),
        3 => (0..8_u64).prop_map(Weight::Units),
        2 => (0..1_001_u16, -1..2_i8).prop_map(|(p, more)| Weight::Part(p, more)),
        1 => (0..2_i8).prop_map(|more| Weight::Part(1_000, more)),
    ];
    let held = prop_oneof![9 => Just(None), 1 => of(1..500_u16)];
    (cost, name(), held).prop_map(|(cost, name, held)| Request { cost, name, held })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Micros(0)),
        2 => any::<i8>().prop_map(Step::Micros),
        8 => (0..400_i16).prop_map(Step::Part),
        2 => (400..1_500_i16).prop_map(Step::Part),
        1 => (-2_500..0_i16).prop_map(Step::Part),
        1 => (-110..0_i16).prop_map(Step::Part),
        2 => (-1..2_i8).prop_map(Step::Edge),
        2 => (-2..4_i8, -1..2_i8).prop_map(|(n, us)| Step::Windows(n, us)),
    ]
}

fn act(shape: Shape) -> impl Strategy<Value = Act> {
    let deed = prop_oneof![
        16 => vec(request(), 1..5).prop_map(Deed::Charge),
        3 => vec(request(), 1..3).prop_map(Deed::Peek),
        3 => (name(), of(1..6_u64)).prop_map(|(name, cost)| Deed::Refund(name, cost)),
        1 => Just(Deed::Reset),
        2 => (quota(shape), quota(shape)).prop_map(|(g, r)| Deed::Limits(g, r)),
    ];
    (step(), 0..3_u8, deed).prop_map(|(step, region, deed)| Act { step, region, deed })
}

/// Random histories.
pub fn strategy(shape: Shape) -> impl Strategy<Value = Case> {
    let rules = prop_oneof![
        3 => (rule(shape), rule(shape)).prop_map(|(g, r)| (Some(g), Some(r))),
        1 => rule(shape).prop_map(|g| (Some(g), None)),
        1 => rule(shape).prop_map(|r| (None, Some(r))),
    ];
    (rules, vec(act(shape), 1..24)).prop_map(|((global, region), acts)| Case {
        global,
        region,
        acts,
    })
}
