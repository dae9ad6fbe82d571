//! Traffic conditioning: classifying, policing, queueing and scheduling of packets, in integers, without a clock.
//!
//! [`plan`] is the closed description of an interface's classes and flows for every data plane (the
//! simulator, the user-space plane, the kernel); [`port`] is the data plane that the first two of them run
//! for one interface; the other modules are its algorithms, each usable alone.
//!
//! Reading order: [`plan`], [`work`], [`bucket`], [`queue`], [`classifier`], [`shapes`], [`edge`], [`scheduler`], [`port`];
//! then [`meter`], [`dropper`], [`shaper`], and [`tree`], which combines them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bucket;
pub mod classifier;
pub mod dropper;
pub mod edge;
pub mod meter;
pub mod plan;
pub mod port;
pub mod queue;
pub mod scheduler;
pub mod shaper;
pub mod shapes;
pub mod tree;
pub mod work;
