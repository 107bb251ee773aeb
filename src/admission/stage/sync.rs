//! The locks and atomics of the parts that `tests/admission_interleavings.rs` runs under a
//! scheduler of its own: it compiles the same files against that scheduler's.

pub(super) use std::sync::Mutex;
pub(super) use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
