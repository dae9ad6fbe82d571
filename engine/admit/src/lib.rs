//! Admission in time: the ledger of a resource, grants carved out of it, and links and stocks on top of it.
//!
//! Why one crate: capacity is counted in one place. Every way of asking (signalled soft state, advance booking,
//! two-phase co-reservation, sub-admitters) ends in one [`SlotTable`], which keeps two promises exactly:
//! at no instant is more given away than there is, and nothing is refused that fits at every instant.
//!
//! # Contract
//!
//! [`SlotTable`] and [`LinkLedger`] have no clock. A caller tells the time and then asks. The methods of a table fall
//! into these families:
//!
//! - **Time** ([`SlotTable::expire`]): before any other call at a new instant. It ends and opens what is due. Time that
//!   runs backwards is ignored. The methods of [`LinkLedger`] that take the time call it themselves; who uses
//!   [`LinkLedger::table_mut`] calls it first.
//! - **Changes** ([`SlotTable::hold`], [`SlotTable::promise`], [`SlotTable::commit`], [`SlotTable::grant`],
//!   [`SlotTable::open`], [`SlotTable::modify`], [`SlotTable::release`], [`SlotTable::set_capacity`]): at any time. One
//!   that is refused ([`Denied`], or [`Misuse`](terms::Misuse) for a step that the state does not allow) changes nothing.
//! - **Adoption** ([`SlotTable::adopt`], [`SlotTable::adopt_booked`]): at a start, for what earlier runs promised.
//!   `adopt` counts an open slot even where it no longer fits, and reports the shortfall.
//! - **Notices** ([`SlotTable::poll`]): read until `None` after each call that changes the table, `expire` included. All
//!   ends come before all openings. Until they are read they wait in memory.
//! - **Waking** ([`SlotTable::wake_at`]): the next time of `expire`; read it after the notices.
//! - **Questions** ([`SlotTable::peak`], [`SlotTable::available`], [`SlotTable::find`], [`SlotTable::stretches`]): at any
//!   time; they answer for the time last told, and change nothing.
//!
//! A handle ([`SlotId`]) is stale once its slot is over, and names no other slot later. A [`Grant`] changes its table
//! only when it is taken, resized and given back. One that is dropped without [`Grant::give_back`] keeps its slot until
//! the window ends.
//!
//! Reading order: [`state`] (the life of a slot), [`slot`], [`quantity`], [`table`] and its operations ([`open`](SlotTable::open),
//! [`modify`](SlotTable::modify), [`expire`](SlotTable::expire), [`find`](SlotTable::find)), [`pool`], [`grant`],
//! [`link`], [`booked`], [`stock`]; then `counted` and `profile`, the structure that makes it fast. Beside it are rules
//! that divide a grant ([`rule`]): [`simple_sum`], [`measured_sum`] and its [`estimator`], [`hoeffding`], [`tangent`];
//! [`reading`] makes their samples.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agenda;
pub mod booked;
mod capacity;
mod counted;
pub mod denied;
pub mod estimator;
pub mod grant;
pub mod hoeffding;
pub mod link;
pub mod measured_sum;
pub mod pool;
pub mod profile;
pub mod quantity;
pub mod reading;
pub mod rule;
pub mod simple_sum;
pub mod slot;
pub mod state;
pub mod stock;
pub mod table;
pub mod tangent;

pub use booked::Framing;
pub use denied::{Denied, Shortfall};
pub use grant::{Grant, Inside, PartChange, PartId};
pub use hoeffding::{HoeffdingBound, HoeffdingTerms};
pub use link::{LinkLedger, LinkTerms};
pub use measured_sum::{MeasuredSum, SumTerms};
pub use pool::Take;
pub use quantity::{Count, Quantity};
pub use reading::{CounterReading, CounterSampler};
pub use rule::FlowRule;
pub use simple_sum::SimpleSum;
pub use slot::{Slot, SlotId};
pub use state::{SlotState, SlotStep};
pub use stock::StockLedger;
pub use table::{AggregateDrift, Limits, SlotChange, SlotNotice, SlotOffer, SlotTable};
pub use tangent::{TangentAtOrigin, TangentTerms};
