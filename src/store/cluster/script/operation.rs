//! The verbs that have a script.

/// What a script does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Decide and charge.
    Charge,
    /// Decide and change nothing.
    Peek,
    /// Give back.
    Refund,
    /// Put back what a failover lost.
    Replay,
}

impl Operation {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Operation::Charge => "charge",
            Operation::Peek => "peek",
            Operation::Refund => "refund",
            Operation::Replay => "replay",
        }
    }
}
