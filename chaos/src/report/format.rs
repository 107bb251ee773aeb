//! Figures as people read them. Pure.

use jiff::Timestamp;

/// Microseconds: `0.42 ms`, `37 ms`, `2.75 s`.
pub(super) fn micros(us: u64) -> String {
    millis(us as f64 / 1e3)
}

/// Milliseconds, in the same way.
pub(super) fn millis(ms: f64) -> String {
    match ms {
        ms if ms < 9.995 => format!("{ms:.2} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms => format!("{:.2} s", ms / 1e3),
    }
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// An instant as `2026-11-30 19:20:07 UTC`.
pub(super) fn utc(us: u64) -> String {
    let instant = i64::try_from(us).ok().map(Timestamp::from_microsecond);
    match instant {
        Some(Ok(instant)) => instant.strftime("%F %T UTC").to_string(),
        _ => format!("{us} us after 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(micros(420), "0.42 ms");
        assert_eq!(micros(37_200), "37 ms");
        assert_eq!(micros(2_750_000), "2.75 s");
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(1_709_164_799_000_000), "2024-02-28 23:59:59 UTC");
        assert_eq!(utc(1_709_164_800_000_000), "2024-02-29 00:00:00 UTC");
        assert_eq!(utc(1_735_689_599_000_000), "2024-12-31 23:59:59 UTC");
    }
}
