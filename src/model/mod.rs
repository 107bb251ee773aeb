//! The nouns of rate limiting: instants, quotas, ceilings, policies, checks, decisions, keys.
//!
//! Values that can't be valid can't be built. Never reads a clock, a socket or a store.

mod ceiling;
mod check;
mod decision;
mod key;
mod lease;
mod policy;
mod quota;
mod slot;
mod subject;
mod time;

pub use ceiling::{Algorithm, Allowance, Ceiling, CeilingRule, Scope, UnknownAlgorithm};
pub use check::{CHARGE_ID_LEN_MAX, ChargeId, ChargeIdError, Check, Cost, Refund};
pub use decision::{Binding, CeilingStatus, Decision, DecisionFacts, Denial, Grant, Retry, Source};
pub use key::{HashTag, KeyPrefix, KeyPrefixError};
pub use lease::{LeaseRule, LeaseRuleError};
pub use policy::{
    ClockSource, OnOutage, Override, Policies, Policy, PolicyError, PolicyName, PolicyNameError,
    Target,
};
pub use quota::{Quota, QuotaError, RateError, UNITS_MAX, WINDOW_MAX, WINDOW_MIN};
pub use slot::Slot;
pub use subject::{REGION_LEN_MAX, Region, RegionError, SUBJECT_LEN_MAX, Subject, SubjectError};
pub use time::{Micros, Timestamp};
