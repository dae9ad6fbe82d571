//! The contents of each class: one decoder per class, all reached through [`decode`].
//!
//! A decoder gets an object with a right header, checks the body once, and returns values and checked slices.

mod address;
mod adspec;
pub(crate) mod aggregate;
mod error;
mod hello;
mod message_id;
mod policy;
mod preemption;

pub use address::{FilterObject, RsvpHop, Scope, SessionObject};
pub use adspec::AdspecObject;
pub use aggregate::{AGGREGATE_REFUSED, AggregateSession};
pub use error::{ErrorSpec, UserError};
pub use hello::{Challenge, HelloObject};
pub use message_id::{ACK_DESIRED, ListKind, MessageId, MessageIdAck, MessageIdList};
pub use policy::{Element, Elements, Integrity, PolicyData};
pub use preemption::{MergeStrategy, PreemptionPriority};

use crate::flows::FlowDescriptor;
use crate::iana::{class, ctype, error as code};
use crate::object::Object;
use crate::{MalformedMessage, intserv};
use core::net::IpAddr;
use terms::{Span, Style, Tspec};

/// A decoded object.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)] // Each variant is its class; the types it holds are documented.
pub enum Content<'a> {
    Null,
    Session(SessionObject),
    AggregateSession(AggregateSession),
    Hop(RsvpHop),
    Integrity(Integrity<'a>),
    TimeValues(Span),
    ErrorSpec(ErrorSpec),
    Scope(Scope<'a>),
    Style(Style),
    FlowSpec(FlowDescriptor<'a>),
    FilterSpec(FilterObject),
    SenderTemplate(FilterObject),
    /// FILTER_SPEC or SENDER_TEMPLATE of an aggregate reservation: the aggregator.
    Aggregator(IpAddr),
    SenderTspec(Tspec),
    Adspec(AdspecObject<'a>),
    PolicyData(PolicyData<'a>),
    ResvConfirm(IpAddr),
    UserError(UserError<'a>),
    MessageId(MessageId),
    MessageIdAck(MessageIdAck),
    MessageIdList(MessageIdList<'a>),
    Hello(HelloObject),
    Challenge(Challenge<'a>),
    /// An unknown class or C-Type that RFC 2205 section 3.10 lets pass.
    Unknown,
}

/// Decodes one object.
///
/// # Errors
/// [`MalformedMessage`]: a body that its class does not allow; an unknown class below 0x80 (code 13); an
/// unknown C-Type of a known class below 0x80 (code 14). The message type decides about sending the answer.
#[inline(always)] // Into a match over what it returns: passing the enum through memory cost as much as the decoding.
pub fn decode<'a>(object: &Object<'a>) -> Result<Content<'a>, MalformedMessage> {
    Ok(match object.class {
        class::NULL => Content::Null,
        class::SESSION if aggregate::is_aggregate(object) => {
            Content::AggregateSession(AggregateSession::decode(object)?)
        }
        class::FILTER_SPEC | class::SENDER_TEMPLATE if aggregate::is_aggregate(object) => {
            Content::Aggregator(aggregate::aggregator(object)?)
        }
        class::SESSION => Content::Session(SessionObject::decode(object)?),
        class::RSVP_HOP => Content::Hop(RsvpHop::decode(object)?),
        class::INTEGRITY => Content::Integrity(Integrity::decode(object)?),
        class::TIME_VALUES => Content::TimeValues(time_values(object)?),
        class::ERROR_SPEC => Content::ErrorSpec(ErrorSpec::decode(object)?),
        class::SCOPE => Content::Scope(Scope::decode(object)?),
        class::STYLE => Content::Style(style(object)?),
        class::FLOWSPEC => Content::FlowSpec(FlowDescriptor::decode(object)?),
        class::FILTER_SPEC => Content::FilterSpec(FilterObject::decode(object)?),
        class::SENDER_TEMPLATE => Content::SenderTemplate(FilterObject::decode(object)?),
        class::SENDER_TSPEC => Content::SenderTspec(sender_tspec(object)?),
        class::ADSPEC => Content::Adspec(AdspecObject::decode(object)?),
        class::POLICY_DATA => Content::PolicyData(PolicyData::decode(object)?),
        class::RESV_CONFIRM => Content::ResvConfirm(address::confirm(object)?),
        class::MESSAGE_ID => Content::MessageId(MessageId::decode(object)?),
        class::MESSAGE_ID_ACK => Content::MessageIdAck(MessageIdAck::decode(object)?),
        class::MESSAGE_ID_LIST => Content::MessageIdList(MessageIdList::decode(object)?),
        class::HELLO => Content::Hello(HelloObject::decode(object)?),
        class::CHALLENGE => Content::Challenge(Challenge::decode(object)?),
        class::USER_ERROR_SPEC if object.ctype == 1 => Content::UserError(UserError::decode(object)?),
        _ if object.class < 0x80 => {
            let what = "unknown object class";
            return Err(MalformedMessage::answered(what, object.offset, code::UNKNOWN_CLASS, object.class_and_ctype()));
        }
        _ => Content::Unknown,
    })
}

/// The refusal of an unknown C-Type, RFC 2205 section 3.10.
fn unknown_ctype(object: &Object<'_>) -> MalformedMessage {
    MalformedMessage::answered("unknown C-Type", object.offset, code::UNKNOWN_CTYPE, object.class_and_ctype())
}

/// RFC 2205 section A.4. The value is as sent; the owner of the state raises it to a second if necessary.
fn time_values(object: &Object<'_>) -> Result<Span, MalformedMessage> {
    if object.ctype != 1 {
        return Err(unknown_ctype(object));
    }
    let &[a, b, c, d] = object.body else {
        return Err(object.fault("TIME_VALUES is not one word", 0));
    };
    Ok(Span::from_millis(u64::from(u32::from_be_bytes([a, b, c, d]))))
}

/// RFC 2205 section A.7. The low five bits of the option vector are the style; the rest is reserved and ignored.
fn style(object: &Object<'_>) -> Result<Style, MalformedMessage> {
    if object.ctype != 1 {
        return Err(unknown_ctype(object));
    }
    let &[_, _, _, options] = object.body else {
        return Err(object.fault("STYLE is not one word", 0));
    };
    match options & 0x1f {
        FF => Ok(Style::Ff),
        SE => Ok(Style::Se),
        WF => Ok(Style::Wf),
        _ => Err(object.answered("unknown reservation style", 3, code::UNKNOWN_STYLE, 0)),
    }
}

/// Style option bits: distinct (01) + explicit (010).
pub(crate) const FF: u8 = 0b01010;
/// Shared (10) + explicit (010).
pub(crate) const SE: u8 = 0b10010;
/// Shared (10) + wildcard (001).
pub(crate) const WF: u8 = 0b10001;

fn sender_tspec(object: &Object<'_>) -> Result<Tspec, MalformedMessage> {
    if object.ctype != ctype::INTSERV {
        return Err(unknown_ctype(object));
    }
    intserv::sender_tspec(object)
}
