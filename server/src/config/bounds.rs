//! How much of a server its clients may take up at once. Never zero: a bound of zero would be a
//! server that serves nobody.

use std::time::Duration;

use tidegate::model::Micros;

/// The most connections, and requests in flight, that a server may be allowed to have.
pub const CONNECTIONS_MAX_MAX: usize = 1_000_000;
/// The smallest and the largest bound of a request's head, in bytes.
pub const HEAD_BYTES_BOUNDS: (usize, usize) = (1_024, 64 * 1_024);
/// The shortest and the longest time that a client may be given.
pub const TIMEOUT_BOUNDS: (Micros, Micros) = (Micros::from_millis(10), Micros::from_secs(3_600));
/// The shortest and the longest time that a server serves on when it is told to stop.
pub const DRAIN_BOUNDS: (Micros, Micros) = (Micros::ZERO, Micros::from_secs(3_600));

/// Bounds of the HTTP edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections open at once; one more is answered 503 and closed
    /// (1..=`CONNECTIONS_MAX_MAX`).
    pub connections_max: usize,
    /// Requests in flight at once; one more is answered 503. Health and metrics don't count
    /// (1..=`CONNECTIONS_MAX_MAX`).
    pub in_flight_max: usize,
    /// The largest head of a request, in bytes (`HEAD_BYTES_BOUNDS`); a larger one is answered
    /// 431.
    pub head_bytes_max: usize,
    /// How long a client may take to send a request's head, and how long an idle connection is
    /// kept (`TIMEOUT_BOUNDS`).
    pub head_timeout: Duration,
    /// How long a client may take to send a request's body, and to take any of its answer
    /// (`TIMEOUT_BOUNDS`).
    pub body_timeout: Duration,
    /// How long a server that is told to stop serves on, not ready any more, before it closes its
    /// listener: until whoever sends it requests has heard of it (zero, or `TIMEOUT_BOUNDS`).
    pub drain: Duration,
    /// How long requests in flight may take to finish when the server is told to stop
    /// (`TIMEOUT_BOUNDS`).
    pub shutdown_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            connections_max: 10_000,
            in_flight_max: 5_000,
            head_bytes_max: 16 * 1_024,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(10),
            drain: Duration::ZERO,
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}
