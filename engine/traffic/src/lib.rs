//! Traffic conditioning: what happens to packets, in integers, without a clock.
//!
//! [`plan`] is the closed description of an interface's classes and flows that every data plane (the simulator, the
//! user-space plane, the kernel) is told; the other modules are the algorithms that the first two of them run.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod dropper;
pub mod meter;
pub mod plan;
