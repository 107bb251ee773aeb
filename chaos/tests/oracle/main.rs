//! The oracle on histories whose truth is known: simulated limiters, sound and broken, whose
//! charges happen at instants that the oracle isn't told.

mod broken;
mod simulated;
mod sound;
