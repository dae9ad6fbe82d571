//! The testbed of Jamin and Jin (1998), sections 3 and 4, in a world: measurement-based admission to controlled load.
//!
//! A pool of on/off sources shares a bottleneck with background traffic. The bottleneck is a direction of a link as any
//! scenario may have one ([`crate::hop::MaceQueue`]): it recognises a flow after a number of packets, asks the engine
//! [`mace`](::mace), and sends the packets of admitted flows before all others.
//!
//! Reading order: [`model`] (the sources of the paper's Table 1), [`params`], [`flow`], [`traffic`] (all that is sent, and when: the
//! laboratory sends the same by real sockets), [`spacing`], [`pool`] (the traffic as a part of a world), [`testbed`].

pub mod flow;
pub mod model;
pub mod params;
pub mod pool;
pub mod spacing;
pub mod testbed;
pub mod traffic;

pub use crate::scenario::{MaceSample, QueueCounts, ROOM};
pub use ::mace::{ApplicationList, RuleTerms};
pub use model::{Model, SourceShape};
pub use params::Params;
pub use spacing::{GapHistogram, SourceTally};
pub use testbed::{MaceOutcome, run};
pub use traffic::{PooledTraffic, TrafficEvent, TrafficPart};
