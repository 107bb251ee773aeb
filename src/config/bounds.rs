//! How much of a server its clients may take up at once. Never zero: a bound of zero would be a
//! server that serves nobody.

use std::time::Duration;

/// Bounds of the HTTP edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerBounds {
    /// Connections open at once; one more is answered 503 and closed. At least 1.
    pub connections_max: usize,
    /// Requests in flight at once; one more is answered 503. Health and metrics don't count. At
    /// least 1.
    pub in_flight_max: usize,
    /// How long a client may take to send a request's head, and how long an idle connection is
    /// kept.
    pub head_timeout: Duration,
    /// How long a client may take to send a request's body.
    pub body_timeout: Duration,
    /// The largest head of a request, in bytes (at most 65,536); a larger one is answered 431.
    pub head_bytes_max: usize,
    /// How long requests in flight may take to finish when the server is told to stop.
    pub shutdown_timeout: Duration,
}

impl Default for ServerBounds {
    fn default() -> Self {
        ServerBounds {
            connections_max: 10_000,
            in_flight_max: 5_000,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(10),
            head_bytes_max: 16 * 1_024,
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}
