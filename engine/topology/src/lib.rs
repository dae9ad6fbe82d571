//! Paths over several domains (GARA: Foster, Roy, Sander, Winkler, "End-to-End Quality of Service for High-End
//! Applications", sections 3.2 and 4.1).
//!
//! A domain publishes which networks are inside it, and for each pair of its borders the rate, the cost and what is
//! free over time, in coarse steps: an [`Advertisement`]. Its interior stays private. [`TopologyMap`] keeps the newest of
//! each domain, and finds the domains on the way between two hosts by least cost and by room. What a domain really
//! grants, its own broker decides when it is asked.
//!
//! Reading order: [`advertisement`] (what is published, and its limits), [`coarse`] (from exact amounts to steps),
//! [`map`] (what is believed), `search` (paths).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod advertisement;
pub mod coarse;
pub mod map;
mod search;

pub use advertisement::{Advertisement, Border, BorderPair, DomainPort, FreeStep, Network, Unfit};
pub use map::{PathNeed, TopologyMap};
pub use search::{DomainHop, DomainPath};
