//! Products of two numbers over a third, exact and saturating. Never a float.

/// `a / b` rounded down; the narrow division is several times faster, and nearly always enough.
pub(super) fn div_floor(a: u128, b: u64) -> u64 {
    let b = b.max(1);
    match u64::try_from(a) {
        Ok(a) => a / b,
        Err(_) => u64::try_from(a / u128::from(b)).unwrap_or(u64::MAX),
    }
}

/// `a / b` rounded up.
pub(super) fn div_ceil(a: u128, b: u64) -> u64 {
    let b = b.max(1);
    match u64::try_from(a) {
        Ok(a) => a.div_ceil(b),
        Err(_) => u64::try_from(a.div_ceil(u128::from(b))).unwrap_or(u64::MAX),
    }
}

/// `a * b`, which can't overflow.
pub(super) fn mul(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_widths_round_alike() {
        let wide = mul(u64::MAX, 7);
        assert_eq!(div_floor(wide + 1, 7), u64::MAX);
        assert_eq!(div_ceil(wide - 1, 7), u64::MAX);
        assert_eq!(div_floor(wide - 1, 7), u64::MAX - 1);
        assert_eq!((div_floor(20, 7), div_ceil(20, 7)), (2, 3));
    }

    #[test]
    fn nothing_overflows_and_nothing_divides_by_zero() {
        assert_eq!(div_floor(u128::MAX, 1), u64::MAX);
        assert_eq!(div_ceil(u128::MAX, 0), u64::MAX);
        assert_eq!(div_floor(9, 0), 9);
    }
}
