//! What a caller asks: may this subject, in this region, do something of this cost now? And what
//! it gives back.

use std::fmt;
use std::num::NonZeroU64;

use smol_str::SmolStr;

/// Units asked for. Zero asks without charging whether one would fit.
pub type Cost = u64;

/// The longest charge id, in bytes.
pub const CHARGE_ID_LEN_MAX: usize = 64;

/// The name of a charge: however often it is sent, it charges once.
/// Invariant: 1 to [`CHARGE_ID_LEN_MAX`] bytes of printable ASCII without the space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChargeId(SmolStr);

/// Why a [`ChargeId`] can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a charge id is 1 to {CHARGE_ID_LEN_MAX} printable ASCII characters without spaces")]
pub struct ChargeIdError;

impl ChargeId {
    /// A charge id.
    ///
    /// # Errors
    /// When it is empty, too long, or holds another character than printable ASCII.
    pub fn new(text: impl Into<SmolStr>) -> Result<Self, ChargeIdError> {
        let text = text.into();
        if text.is_empty()
            || text.len() > CHARGE_ID_LEN_MAX
            || !text.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(ChargeIdError);
        }
        Ok(ChargeId(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An id whose maker keeps the invariant itself.
    pub(crate) fn made_here(ascii: &[u8]) -> Self {
        debug_assert!(ascii.len() <= CHARGE_ID_LEN_MAX && ascii.iter().all(u8::is_ascii_graphic));
        ChargeId(SmolStr::new(std::str::from_utf8(ascii).unwrap_or_default()))
    }
}

impl fmt::Display for ChargeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One question to the limiter. Names are checked when it is asked, so that building is free of
/// errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The policy's name.
    pub policy: String,
    /// Who is limited.
    pub subject: String,
    /// Where; needed when the policy has ceilings by region.
    pub region: Option<String>,
    /// Units asked for; 1 unless said otherwise. 0 charges nothing and asks whether one would fit.
    pub cost: Cost,
    /// The caller's own charge id; the limiter makes one when it is absent.
    pub id: Option<String>,
}

impl Check {
    /// A check of cost 1 for `subject` under `policy`.
    pub fn new(policy: impl Into<String>, subject: impl Into<String>) -> Self {
        Check {
            policy: policy.into(),
            subject: subject.into(),
            region: None,
            cost: 1,
            id: None,
        }
    }

    /// In `region`.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Of `cost` units.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Named `id`: sent again under the same name, it charges once.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// A charge to give back, whole or in part. Names are checked when it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refund {
    /// The policy's name.
    pub policy: String,
    /// Whose charge.
    pub subject: String,
    /// Where it was charged; needed when the policy has ceilings by region.
    pub region: Option<String>,
    /// The charge's id, as the check gave it or its decision names it.
    pub id: String,
    /// Units to give back; absent gives back all.
    pub cost: Option<NonZeroU64>,
}

impl Refund {
    /// All of the charge named `id` of `subject` under `policy`.
    pub fn new(
        policy: impl Into<String>,
        subject: impl Into<String>,
        id: impl Into<String>,
    ) -> Self {
        Refund {
            policy: policy.into(),
            subject: subject.into(),
            region: None,
            id: id.into(),
            cost: None,
        }
    }

    /// In `region`.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// `cost` units of it; more than were charged gives back all.
    #[must_use]
    pub fn cost(mut self, cost: NonZeroU64) -> Self {
        self.cost = Some(cost);
        self
    }
}
