//! How much a node may charge ahead for a hot key, and for how long.

use super::time::Micros;

/// How far a hot key's capacity may be charged ahead by one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRule {
    pub(crate) period: Micros,
    pub(crate) share_max_permille: u16,
}

/// Why a [`LeaseRule`] can't be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseRuleError {
    /// Held for too short or too long.
    #[error("a lease of {} us: write from 10 ms to 60 s", .0.get())]
    PeriodOutOfBounds(Micros),
    /// Takes nothing, or more than half of a ceiling.
    #[error("a lease of {0} thousandths of a ceiling: write from 1 to 500")]
    ShareOutOfBounds(u16),
}

impl LeaseRule {
    /// The shortest and the longest period.
    pub const PERIOD_BOUNDS: (Micros, Micros) = (Micros::from_millis(10), Micros::from_secs(60));

    /// The largest part of a ceiling that one lease takes unless another is chosen: a tenth.
    pub const SHARE_MAX_PERMILLE_DEFAULT: u16 = 100;

    /// Leases held for at most `period` (a node is at most this conservative), each of at most
    /// `share_max_permille` thousandths of a ceiling's limit.
    ///
    /// # Errors
    /// When the period is not within [`LeaseRule::PERIOD_BOUNDS`], or the share not within 1 to
    /// 500 thousandths.
    pub fn new(period: Micros, share_max_permille: u16) -> Result<Self, LeaseRuleError> {
        let (shortest, longest) = LeaseRule::PERIOD_BOUNDS;
        if period < shortest || period > longest {
            return Err(LeaseRuleError::PeriodOutOfBounds(period));
        }
        if !(1..=500).contains(&share_max_permille) {
            return Err(LeaseRuleError::ShareOutOfBounds(share_max_permille));
        }
        Ok(LeaseRule {
            period,
            share_max_permille,
        })
    }

    /// How long a lease is held at most.
    pub const fn period(self) -> Micros {
        self.period
    }

    /// The largest part of a ceiling that one lease takes, in thousandths of its limit.
    pub const fn share_max_permille(self) -> u16 {
        self.share_max_permille
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_out_of_bounds_is_no_lease() {
        let ms = Micros::from_millis;
        assert!(LeaseRule::new(ms(10), 1).is_ok());
        assert!(LeaseRule::new(ms(60_000), 500).is_ok());
        for period in [Micros::ZERO, ms(9), ms(60_001)] {
            let error = LeaseRule::new(period, 100).unwrap_err();
            assert_eq!(error, LeaseRuleError::PeriodOutOfBounds(period));
        }
        for share in [0, 501, 1_000] {
            let error = LeaseRule::new(ms(100), share).unwrap_err();
            assert_eq!(error, LeaseRuleError::ShareOutOfBounds(share));
        }
    }
}
