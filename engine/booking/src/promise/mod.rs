//! Parts of transactions over several agents: this agent is a participant of two-phase commit.
//!
//! A coordinator (a broker) asks for a promise ([`PrepareCall`]). Rights, policy, quota, clock and room are decided
//! then, and the promise is written with the reservation in one batch. From there on no timer ends it: the
//! coordinator's decision ([`DecideCall`]) makes the change or drops it, and cannot be refused. A promise whose last
//! window has passed is moot. An operator may decide one promise. `commit` has the protocol.

mod branches;
mod io;
mod prepare;
pub(crate) mod record;

pub(crate) use branches::{Awaits, Branches};
pub use io::{Contradiction, DecideCall, DecisionQuestion, PrepareAsk, PrepareCall, PromiseList, PromisesCall};
pub(crate) use prepare::{Preparation, Preparing, Unprepared, grown_parts};
