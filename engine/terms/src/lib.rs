//! Types and arithmetic that every other crate of Sluice uses.
//!
//! Why: rates, times and sizes are where reservation systems go wrong (a float that rounds, a clock that steps,
//! a byte taken for a bit), so they are types here, in integers, with one rounding law:
//! **supply rounds down, demand rounds up, nothing overflows**.
//!
//! Reading order: [`time`], [`rate`], [`amount`], [`bytes`], [`tspec`], [`curve`], [`session`], [`adspec`],
//! [`guaranteed`], [`packet`], [`group`], [`signalling`], [`watched`], [`window`], [`error`], [`book`], [`ports`], [`probe`], [`rng`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod adspec;
pub mod amount;
pub mod book;
pub mod bytes;
pub mod codec;
pub mod curve;
pub mod error;
pub mod group;
pub mod guaranteed;
pub mod packet;
pub mod ports;
pub mod probe;
pub mod rate;
pub mod rng;
pub mod session;
pub mod signalling;
pub mod time;
pub mod tspec;
pub mod watched;
pub mod window;

pub use adspec::{Adspec, GuaranteedTerms, HopExport};
pub use amount::{Amount, Unit};
pub use bytes::Bytes;
pub use curve::ServiceCurve;
pub use error::{Fault, Malformed, Misuse, Refused};
pub use group::SenderGroup;
pub use packet::{Dscp, FlowKey, PacketMeta, Wild};
pub use rate::Rate;
pub use rng::{Probability, Rng};
pub use session::{FilterSpec, IfIndex, SenderTemplate, Session, Style};
pub use time::{Span, Time};
pub use tspec::{FlowSpec, Rspec, Tspec};
pub use watched::WatchedPorts;
pub use window::Window;
