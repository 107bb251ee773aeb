//! The clusters under test and the faults, on real nodes.

mod lifecycle;
mod proxy;
