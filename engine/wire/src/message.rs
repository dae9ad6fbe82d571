//! Messages: the common header (RFC 2205 section 3.1.1), and one checked view per message type.
//!
//! Object order: INTEGRITY first, STYLE and the flow descriptor list last, the rest in any order, as the RFC says.
//! A known object in a message whose BNF does not have it is checked and otherwise ignored. A second SESSION, RSVP_HOP
//! or other object that must be single is refused in silence.

mod ack;
mod bundle;
mod found;
mod hello;
mod integrity;
mod path;
mod path_err;
mod path_tear;
mod resv;
mod resv_conf;
mod resv_err;
mod resv_tear;
mod srefresh;

pub use ack::Ack;
pub use bundle::Bundle;
pub use hello::Hello;
pub use integrity::{IntegrityChallenge, IntegrityResponse};
pub use path::Path;
pub use path_err::PathErr;
pub use path_tear::PathTear;
pub use resv::Resv;
pub use resv_conf::ResvConf;
pub use resv_err::ResvErr;
pub use resv_tear::ResvTear;
pub use srefresh::Srefresh;

use crate::iana::{MessageType, class};
use crate::object::{Object, Objects};
use crate::objects::{Content, Integrity, MessageId, MessageIdAck, PreemptionPriority, decode};
use crate::{MalformedMessage, checksum};
use found::Found;
use terms::Session;

/// Bytes of the common header.
pub const COMMON_HEADER: usize = 8;

/// Longest message: RSVP Length has 16 bits and is a multiple of four.
pub const MAX_MESSAGE: usize = 65_532;

/// The common header, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Msg Type.
    pub kind: MessageType,
    /// Flags, 4 bits; 0x1: the neighbour can do refresh reduction (RFC 2961 section 2).
    pub flags: u8,
    /// RSVP Checksum as sent: 0 means none (an interface may insist on one without INTEGRITY), else it is right.
    pub checksum: u16,
    /// Send_TTL: the IP TTL at the sender; another TTL on arrival shows a non-RSVP hop.
    pub send_ttl: u8,
    /// RSVP Length in bytes.
    pub length: usize,
}

/// The parts that every message has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Envelope<'a> {
    /// The common header.
    pub header: Header,
    /// INTEGRITY, if the message begins with one. Its digest has **not** been checked.
    pub integrity: Option<Integrity<'a>>,
    /// MESSAGE_ID (RFC 2961).
    pub message_id: Option<MessageId>,
    /// All objects, in order.
    pub objects: Objects<'a>,
}

/// A checked message.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)] // Each variant is its message type; the views are documented.
#[allow(clippy::large_enum_variant)] // It lives on the stack of one call; boxing would allocate in decode.
pub enum Message<'a> {
    Path(Path<'a>),
    Resv(Resv<'a>),
    PathErr(PathErr<'a>),
    ResvErr(ResvErr<'a>),
    PathTear(PathTear<'a>),
    ResvTear(ResvTear<'a>),
    ResvConf(ResvConf<'a>),
    Bundle(Bundle<'a>),
    Ack(Ack<'a>),
    Srefresh(Srefresh<'a>),
    Hello(Hello<'a>),
    IntegrityChallenge(IntegrityChallenge<'a>),
    IntegrityResponse(IntegrityResponse<'a>),
}

impl<'a> Message<'a> {
    /// Checks all of `bytes` (an IP payload of protocol 46). Bytes after RSVP Length are ignored. Never
    /// panics, never allocates; the work is bounded by the length and by [`crate::object::MAX_OBJECTS`].
    ///
    /// # Errors
    /// [`MalformedMessage`], with the error, its offset and any PathErr or ResvErr to send back: none for
    /// damaged or incomplete bytes, code 13 or 14 for unknown objects, 6, 8 or 21 for bad values.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, MalformedMessage> {
        let (header, objects) = envelope(bytes)?;
        let kind = header.kind;
        Message::read(header, objects).map_err(|m| match (kind, m.answer) {
            // Damage first: an answer is only for a message that is otherwise whole.
            (MessageType::Path | MessageType::Resv, Some(_)) => objects.check().err().unwrap_or(m),
            _ => MalformedMessage { answer: None, ..m },
        })
    }

    fn read(header: Header, objects: Objects<'a>) -> Result<Message<'a>, MalformedMessage> {
        if header.kind == MessageType::Bundle {
            return Bundle::new(header, objects.as_bytes()).map(Message::Bundle);
        }
        let found = Found::collect(header, objects)?;
        Ok(match header.kind {
            MessageType::Path => Message::Path(Path::new(&found)?),
            MessageType::Resv => Message::Resv(Resv::new(&found)?),
            MessageType::PathErr => Message::PathErr(PathErr::new(&found)?),
            MessageType::ResvErr => Message::ResvErr(ResvErr::new(&found)?),
            MessageType::PathTear => Message::PathTear(PathTear::new(&found)?),
            MessageType::ResvTear => Message::ResvTear(ResvTear::new(&found)?),
            MessageType::ResvConf => Message::ResvConf(ResvConf::new(&found)?),
            MessageType::Ack => Message::Ack(Ack::new(&found)?),
            MessageType::Srefresh => Message::Srefresh(Srefresh::new(&found)?),
            MessageType::Hello => Message::Hello(Hello::new(&found)?),
            MessageType::IntegrityChallenge => Message::IntegrityChallenge(IntegrityChallenge::new(&found)?),
            MessageType::IntegrityResponse => Message::IntegrityResponse(IntegrityResponse::new(&found)?),
            MessageType::Bundle => return Err(MalformedMessage::silent("Bundle in a Bundle", 1)),
        })
    }

    /// The parts that every message has.
    pub fn envelope(&self) -> &Envelope<'a> {
        match self {
            Message::Path(m) => &m.envelope,
            Message::Resv(m) => &m.envelope,
            Message::PathErr(m) => &m.envelope,
            Message::ResvErr(m) => &m.envelope,
            Message::PathTear(m) => &m.envelope,
            Message::ResvTear(m) => &m.envelope,
            Message::ResvConf(m) => &m.envelope,
            Message::Bundle(m) => &m.envelope,
            Message::Ack(m) => &m.envelope,
            Message::Srefresh(m) => &m.envelope,
            Message::Hello(m) => &m.envelope,
            Message::IntegrityChallenge(m) => &m.envelope,
            Message::IntegrityResponse(m) => &m.envelope,
        }
    }

    /// Msg Type.
    pub fn kind(&self) -> MessageType {
        self.envelope().header.kind
    }

    /// The session of the message; `None` for a message between two neighbours.
    pub fn session(&self) -> Option<Session> {
        Some(match self {
            Message::Path(m) => m.session,
            Message::Resv(m) => m.session,
            Message::PathErr(m) => m.session,
            Message::ResvErr(m) => m.session,
            Message::PathTear(m) => m.session,
            Message::ResvTear(m) => m.session,
            Message::ResvConf(m) => m.session,
            _ => return None,
        })
    }
}

impl<'a> Envelope<'a> {
    /// Objects of unknown classes 0xc0 to 0xff: to be forwarded unchanged with every message that results
    /// from this one (RFC 2205 section 3.10).
    pub fn forwarded(&self) -> impl Iterator<Item = Object<'a>> + 'a {
        self.objects.filter(|o| o.class >= 0xc0 && o.class != class::USER_ERROR_SPEC)
    }

    /// MESSAGE_ID_ACK and MESSAGE_ID_NACK objects: the fate of our own messages (RFC 2961 section 4.3).
    pub fn acks(&self) -> impl Iterator<Item = MessageIdAck> + 'a {
        self.objects.filter_map(|o| match (o.class, decode(&o)) {
            (class::MESSAGE_ID_ACK, Ok(Content::MessageIdAck(ack))) => Some(ack),
            _ => None,
        })
    }

    /// The priority of the request, if any POLICY_DATA has one (RFC 3181).
    pub fn preemption(&self) -> Option<PreemptionPriority> {
        self.policy_data().find_map(|o| match decode(&o) {
            Ok(Content::PolicyData(policy)) => policy.preemption(),
            _ => None,
        })
    }

    /// POLICY_DATA objects, as they came.
    pub fn policy_data(&self) -> impl Iterator<Item = Object<'a>> + 'a {
        self.objects.filter(|o| o.class == class::POLICY_DATA)
    }
}

/// Checks the common header; returns it with the objects that RSVP Length covers.
pub(crate) fn envelope(bytes: &[u8]) -> Result<(Header, Objects<'_>), MalformedMessage> {
    let Some(&[version, number, sum_hi, sum_lo, send_ttl, _, hi, lo]) = bytes.first_chunk::<COMMON_HEADER>() else {
        return Err(MalformedMessage::silent("shorter than the common header", 0));
    };
    if version >> 4 != 1 {
        return Err(MalformedMessage::silent("RSVP version is not 1", 0));
    }
    let length = usize::from(u16::from_be_bytes([hi, lo]));
    if length < COMMON_HEADER {
        return Err(MalformedMessage::silent("RSVP Length is below 8", 6));
    }
    if !length.is_multiple_of(4) {
        return Err(MalformedMessage::silent("RSVP Length is not a multiple of 4", 6));
    }
    let Some(whole) = bytes.get(..length) else {
        return Err(MalformedMessage::silent("RSVP Length is above what arrived", 6));
    };
    let checksum = u16::from_be_bytes([sum_hi, sum_lo]);
    if checksum != 0 && checksum::internet(whole) != 0 {
        return Err(MalformedMessage::silent("RSVP Checksum is wrong", 2));
    }
    let Some(kind) = MessageType::from_number(number) else {
        return Err(MalformedMessage::silent("message type is unknown", 1));
    };
    let header = Header { kind, flags: version & 0x0f, checksum, send_ttl, length };
    let objects = whole.get(COMMON_HEADER..).unwrap_or_default();
    Ok((header, Objects::new(objects, COMMON_HEADER)))
}
