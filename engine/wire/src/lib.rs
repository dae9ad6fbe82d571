//! Bytes to terms and back: RSVP (RFC 2205, RFC 2210, RFC 2747, RFC 2961, RFC 3181, RFC 5284, Hello of RFC 3209), Boomerang
//! (draft-bergkvist-boomerang-spec-00), IPv4,
//! IPv6 and UDP headers.
//!
//! **Parse, don't validate.** [`Message::parse`] looks at every byte once. It returns decoded values and
//! checked slices, so that nothing after it can fail, panic or allocate. Any error in the bytes is a
//! [`MalformedMessage`], with the error, its offset and the RSVP error (if any) that the RFC wants sent back.
//!
//! ```
//! # use wire::{Builder, Message, MessageType, RsvpHop};
//! # use terms::{Bytes, FilterSpec, FlowSpec, Rate, Session, Span, Style, Tspec};
//! # let (dst, src): (core::net::IpAddr, core::net::IpAddr) = ([10, 0, 2, 2].into(), [10, 0, 1, 1].into());
//! let session = Session { dst, protocol: 17, dst_port: 5004 };
//! let sender = FilterSpec { src, src_port: 5004 };
//! let mbit = Rate::from_mbps(3);
//! let tspec = Tspec { r: mbit, b: Bytes::new(8192), p: mbit, m: 64, M: 1500 };
//! let bytes = Builder::new(MessageType::Resv, 255)
//!     .session(&session)
//!     .hop(&RsvpHop { addr: [10, 0, 2, 2].into(), lih: 2 })
//!     .time_values(Span::from_secs(30))
//!     .style(Style::Ff)
//!     .flowspec(&FlowSpec::ControlledLoad(tspec))
//!     .filter_spec(&sender.into())
//!     .finish()?;
//! let Ok(Message::Resv(resv)) = Message::parse(&bytes) else { panic!("we wrote it") };
//! assert_eq!(resv.session, session);
//! for flow in resv.flows() {
//!     assert_eq!(flow.filter.and_then(|f| f.ports()), Some(sender));
//!     assert_eq!(flow.flow.spec, Some(FlowSpec::ControlledLoad(tspec)));
//! }
//! # Ok::<(), wire::TooLong>(())
//! ```
//!
//! # Contract
//!
//! There is no state, so calls have no order. Each reader takes bytes and returns a view that borrows them:
//!
//! - **Before the key** ([`Outline::read`]): type, INTEGRITY and claimed sender. A receiver that requires signatures calls
//!   this first, and decodes nothing else of a message whose digest is wrong.
//! - **Whole messages** ([`Message::parse`]): once for each message. Accessors of the result cannot fail. Of a
//!   [`Bundle`], each of [`Bundle::messages`] is bytes again, for a call of its own.
//! - **Answers** ([`Salvage::read`]): only after `parse` refused with an [`ErrorReply`]; it finds the addressee and the
//!   session in what is left.
//! - **Writing** ([`Builder`]): objects in the order of the RFC, then [`Builder::finish`], which fills in lengths and the
//!   checksum. What does not fit is [`TooLong`], and nothing is sent.
//! - **People** ([`describe`](describe()), [`describe::describe_object`]): prints a message; never for decisions.
//!
//! Reading order: [`iana`], [`object`], [`objects`], [`message`], [`flows`], [`build`], [`float`], [`intserv`], [`ip`].
//!
//! Limits, all refusals and never crashes: [`object::MAX_OBJECTS`] objects in a message, as many sub-objects in one.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::arithmetic_side_effects
    )
)]

extern crate alloc;

pub mod boomerang;
pub mod build;
pub mod checksum;
pub mod describe;
pub mod float;
pub mod flows;
pub mod iana;
pub mod intserv;
pub mod ip;
pub mod malformed;
pub mod message;
pub mod object;
pub mod objects;
pub mod outline;
pub mod salvage;

pub use build::{Builder, TooLong};
pub use describe::describe;
pub use flows::{Descriptor, FlowDescriptor, Reserved};
pub use iana::MessageType;
pub use malformed::{ErrorReply, MalformedMessage};
pub use message::{
    Ack, Bundle, Header, Hello, IntegrityChallenge, IntegrityResponse, Message, Path, PathErr, PathTear, Resv,
    ResvConf, ResvErr, ResvTear, Srefresh,
};
pub use object::{Object, Objects};
pub use objects::{
    AdspecObject, Challenge, ErrorSpec, FilterObject, HelloObject, Integrity, MessageId, MessageIdAck, MessageIdList,
    PolicyData, PreemptionPriority, RsvpHop, Scope, UserError,
};
pub use outline::Outline;
pub use salvage::Salvage;
