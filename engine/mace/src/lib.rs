//! Flows that never signalled (MACE; Jamin and Jin, "Measurement-based Admission Control for Controlled-load Service",
//! 1998, section 3): a list says which applications may have controlled load; a flow is recognised by its port and a
//! number of packets, admitted by a rule that looks at what is measured, and demoted when it falls silent.
//!
//! # Contract
//!
//! [`Mace`] is for one outgoing interface. Tell it one [`Input`], then drain [`Mace::poll`]; come back at
//! [`Mace::wake_at`] with [`Input::Wake`].
//!
//! | output | answer |
//! |---|---|
//! | [`Output::Promote`] | [`Input::Installed`] when the plane has read the flow back, or could not have it |
//! | [`Output::Look`] | [`Input::Looked`], with the time of each promoted flow's last packet |
//! | [`Output::Demote`] | none |
//!
//! A plane that counts packets itself tells [`Input::Recognised`]; one that leaves the counting to the engine tells
//! [`Input::Packet`] for each packet that no flow claims. Readings of the counter of all bytes of promoted flows, taken as
//! they come in and not as they leave, are [`Input::Counter`], once a sampling period. At a start the flows of an earlier
//! run come first, as [`Input::Adopted`].
//!
//! Reading order: [`list`] (the applications), [`candidates`], [`rules`], [`io`], [`engine`]; [`recogniser`] is for a plane that
//! counts packets in another process than the engine's.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod candidates;
pub mod engine;
pub mod io;
pub mod list;
pub mod recogniser;
pub mod rules;
mod units;

pub use engine::Mace;
pub use io::{Config, Event, Input, Output};
pub use list::{ApplicationList, KnownApplication, ListMistake};
pub use recogniser::Recogniser;
pub use rules::RuleTerms;
