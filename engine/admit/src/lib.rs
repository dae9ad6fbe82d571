//! Admission in time: the ledger of a resource, grants carved out of it, and links on top of it.
//!
//! Why one crate: capacity is counted in one place. Every way of asking (signalled soft state, advance booking,
//! two-phase co-reservation, sub-admitters) ends in one [`SlotTable`], which keeps two promises exactly:
//! at no instant is more given away than there is, and nothing is refused that fits at every instant.
//!
//! Reading order: [`state`] (the life of a slot), [`slot`], [`table`] and its operations ([`open`](SlotTable::open),
//! [`modify`](SlotTable::modify), [`expire`](SlotTable::expire), [`find`](SlotTable::find)), [`grant`], [`link`];
//! then `profile`, the structure that makes it fast. Beside it are rules that divide a grant: [`simple_sum`],
//! [`measured_sum`] and its [`estimator`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agenda;
pub mod audit;
mod capacity;
pub mod denied;
mod displace;
pub mod estimator;
mod expire;
pub mod grant;
pub mod link;
pub mod measured_sum;
mod modify;
mod open;
pub mod profile;
mod question;
pub mod simple_sum;
pub mod slot;
pub mod state;
pub mod table;

pub use audit::AggregateDrift;
pub use denied::{Denied, Shortfall};
pub use expire::SlotNotice;
pub use grant::{Grant, Inside, PartChange, PartId};
pub use link::{LinkLedger, LinkTerms};
pub use measured_sum::{CounterReading, MeasuredSum, SumTerms};
pub use modify::SlotChange;
pub use simple_sum::SimpleSum;
pub use slot::{Slot, SlotId};
pub use state::{SlotState, SlotStep};
pub use table::{Limits, SlotOffer, SlotTable};
