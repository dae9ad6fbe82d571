//! Measurement-based admission to controlled load, packet by packet: the testbed of Jamin and Jin (1998), sections 3 and 4.
//!
//! A pool of on/off sources shares a bottleneck with background traffic. A flow is recognised after a number
//! of packets and admitted by the engine [`mace`](::mace). The packets of an admitted flow go before all
//! others. The engine reads the counter of the controlled-load packets as they are queued. Recognition and
//! admission are the code that the agent runs; this module only makes the traffic, the queue and the clock.
//!
//! Reading order: [`model`] (the sources of the paper's Table 1), [`flow`], [`traffic`] (all that is sent, and when: the
//! laboratory sends the same by real sockets), [`queue`], [`spacing`], [`run`].

pub mod flow;
pub mod model;
pub mod queue;
pub mod run;
pub mod spacing;
pub mod traffic;

pub use ::mace::{ApplicationList, RuleTerms};
pub use model::{Model, SourceShape};
pub use run::{MaceOutcome, Params, run};
pub use spacing::{GapHistogram, SourceTally};
pub use traffic::{PooledTraffic, TrafficEvent, TrafficPart};
