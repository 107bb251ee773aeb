//! A duration as JSON: a number of seconds. Never loses a microsecond of a duration below 285
//! years (2^53 us), which is far beyond the longest window.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::Micros;

/// Seconds in JSON: `60`, `59.1`, `12.340561`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub Micros);

impl From<Micros> for Seconds {
    fn from(duration: Micros) -> Self {
        Seconds(duration)
    }
}

impl From<Seconds> for Micros {
    fn from(seconds: Seconds) -> Self {
        seconds.0
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let us = self.0.get();
        match us % 1_000_000 {
            0 => serializer.serialize_u64(us / 1_000_000),
            // The shortest decimal that reads back as this double has at most the six decimals
            // it was made of.
            _ => serializer.serialize_f64(us as f64 / 1e6),
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..=9e9).contains(&seconds) {
            return Err(D::Error::custom(format!(
                "{seconds} is no duration in seconds"
            )));
        }
        Ok(Seconds(Micros::new((seconds * 1e6).round() as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_have_no_point_and_parts_keep_their_microseconds() {
        for (us, json) in [
            (60_000_000, "60"),
            (59_100_000, "59.1"),
            (12_340_561, "12.340561"),
            (31_622_399_999_999, "31622399.999999"),
            (0, "0"),
        ] {
            let seconds = Seconds(Micros::new(us));
            assert_eq!(serde_json::to_string(&seconds).unwrap(), json);
            assert_eq!(serde_json::from_str::<Seconds>(json).unwrap(), seconds);
        }
    }

    #[test]
    fn every_microsecond_near_the_longest_window_reads_back() {
        for us in 31_622_400_000_000 - 20_000..31_622_400_000_000u64 {
            let seconds = Seconds(Micros::new(us));
            let json = serde_json::to_string(&seconds).unwrap();
            assert_eq!(serde_json::from_str::<Seconds>(&json).unwrap(), seconds);
        }
    }

    #[test]
    fn a_negative_duration_is_refused() {
        assert!(serde_json::from_str::<Seconds>("-1").is_err());
    }
}
