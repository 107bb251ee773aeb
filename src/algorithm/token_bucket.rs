//! A bucket that holds the burst and fills at the rate; a check takes its cost out of it.
//! Never lets more than `burst + rate * t` pass in any stretch of time t.
//!
//! The state is [`gcra::Meter`](super::gcra::Meter): an empty meter is a full bucket, so nothing
//! has to be filled while nobody asks.

pub use super::gcra::Meter as TokenBucket;
