//! The clusters under test and the faults, on real nodes.

mod faults;
mod faults_inside;
mod lifecycle;
mod planted;
mod proxy;
