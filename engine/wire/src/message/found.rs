//! One pass over a message's objects: each is decoded once, single objects are kept once, and the flow
//! descriptor list is checked against its grammar. Each message type takes its own part in its own file.

use super::{Envelope, Header};
use crate::MalformedMessage;
use crate::flows::{Descriptors, Grammar};
use crate::iana::{MessageType, class, error};
use crate::object::{MAX_OBJECTS, Object, Objects};
use crate::objects::aggregate;
use crate::objects::{AdspecObject, Challenge, Content, ErrorSpec, FilterObject, HelloObject, Integrity, MessageId};
use crate::objects::{Content as C, decode};
use crate::objects::{RsvpHop, Scope, SessionObject, UserError};
use core::net::IpAddr;
use terms::{Session, Span, Style, Tspec};

/// The objects of a message, by class.
pub(super) struct Found<'a> {
    header: Header,
    objects: Objects<'a>,
    integrity: Option<Integrity<'a>>,
    session: Option<SessionObject>,
    hop: Option<RsvpHop>,
    time_values: Option<Span>,
    error_spec: Option<ErrorSpec>,
    pub(super) scope: Option<Scope<'a>>,
    style: Option<Style>,
    sender: Option<FilterObject>,
    pub(super) tspec: Option<Tspec>,
    pub(super) adspec: Option<AdspecObject<'a>>,
    pub(super) confirm: Option<IpAddr>,
    pub(super) user_error: Option<UserError<'a>>,
    message_id: Option<MessageId>,
    pub(super) hello: Option<HelloObject>,
    pub(super) challenge: Option<Challenge<'a>>,
    after_style: Objects<'a>,
    grammar: Option<Grammar>,
}

impl<'a> Found<'a> {
    pub(super) fn collect(header: Header, objects: Objects<'a>) -> Result<Found<'a>, MalformedMessage> {
        let mut found = Found {
            header,
            objects,
            integrity: None,
            session: None,
            hop: None,
            time_values: None,
            error_spec: None,
            scope: None,
            style: None,
            sender: None,
            tspec: None,
            adspec: None,
            confirm: None,
            user_error: None,
            message_id: None,
            hello: None,
            challenge: None,
            after_style: Objects::new(&[], 0),
            grammar: None,
        };
        let mut walk = objects;
        let mut left = MAX_OBJECTS;
        while let Some(object) = walk.step()? {
            if left == 0 {
                return Err(MalformedMessage::silent("more than 256 objects", object.offset));
            }
            left = left.saturating_sub(1);
            found.take(&object, walk)?;
        }
        if let Some(grammar) = found.grammar.filter(|_| found.has_list()) {
            grammar.end().map_err(|what| MalformedMessage::silent(what, header.length))?;
        }
        found.check_addresses()?;
        Ok(found)
    }

    /// Takes one object; `rest` is the objects after it.
    fn take(&mut self, object: &Object<'a>, rest: Objects<'a>) -> Result<(), MalformedMessage> {
        let content = match decode(object) {
            Ok(content) => content,
            // An error message or a tear quotes what it is about: that may be the very thing that was wrong.
            Err(_) if self.quotes() && is_opaque(object.class) => C::Unknown,
            Err(m) => return Err(m),
        };
        let list = matches!(object.class, class::FLOWSPEC | class::FILTER_SPEC);
        if self.style.is_some() && self.has_list() && !list && !matches!(content, C::Null | C::Unknown) {
            return Err(MalformedMessage::silent("object after the flow descriptor list began", object.offset));
        }
        if list && self.has_list() {
            return self.take_flow(object, &content);
        }
        self.keep(object, content, rest)
    }

    fn keep(&mut self, object: &Object<'a>, content: Content<'a>, rest: Objects<'a>) -> Result<(), MalformedMessage> {
        let twice = match content {
            C::Session(x) => self.session.replace(x).is_some(),
            C::Hop(x) => self.hop.replace(x).is_some(),
            C::TimeValues(x) => self.time_values.replace(x).is_some(),
            C::ErrorSpec(x) => self.error_spec.replace(x).is_some(),
            C::Scope(x) => self.scope.replace(x).is_some(),
            C::SenderTemplate(x) => self.sender.replace(x).is_some(),
            C::SenderTspec(x) => self.tspec.replace(x).is_some(),
            C::Adspec(x) => self.adspec.replace(x).is_some(),
            C::ResvConfirm(x) => self.confirm.replace(x).is_some(),
            C::UserError(x) => self.user_error.replace(x).is_some(),
            C::MessageId(x) => self.message_id.replace(x).is_some(),
            C::Hello(x) => self.hello.replace(x).is_some(),
            C::Challenge(x) => self.challenge.replace(x).is_some(),
            // Its BNF has none, and what comes after one would be read as a flow descriptor list elsewhere.
            C::Style(_) if self.header.kind == MessageType::Path => {
                return Err(MalformedMessage::silent("STYLE in a Path", object.offset));
            }
            C::AggregateSession(_) | C::Aggregator(_) => return Err(aggregate::refused(object)),
            C::Style(x) => {
                self.after_style = rest;
                let (flowspec, filter) = match self.header.kind {
                    MessageType::ResvTear => (false, true),
                    MessageType::ResvErr => (false, false),
                    _ => (true, true),
                };
                self.grammar = Some(Grammar::new(x, flowspec, filter));
                self.style.replace(x).is_some()
            }
            C::Integrity(x) => {
                if object.offset != super::COMMON_HEADER {
                    return Err(MalformedMessage::silent("INTEGRITY is not the first object", object.offset));
                }
                self.integrity.replace(x).is_some()
            }
            C::MessageIdAck(_) | C::MessageIdList(_) => false,
            C::Null | C::PolicyData(_) | C::FlowSpec(_) | C::FilterSpec(_) | C::Unknown => false,
        };
        if twice {
            Err(MalformedMessage::silent("object that must be single comes twice", object.offset))
        } else {
            Ok(())
        }
    }

    fn take_flow(&mut self, object: &Object<'a>, content: &Content<'a>) -> Result<(), MalformedMessage> {
        let Some(grammar) = &mut self.grammar else {
            return Err(MalformedMessage::silent("flow descriptor before STYLE", object.offset));
        };
        let step = if object.class == class::FLOWSPEC { grammar.flowspec() } else { grammar.filter() };
        step.map_err(|what| MalformedMessage::silent(what, object.offset))?;
        match (content, self.session) {
            (C::Aggregator(_), _) => Err(aggregate::refused(object)),
            (C::FilterSpec(filter), Some(s)) => check_sender(&s.session, filter, object.offset, self.quotes()),
            _ => Ok(()),
        }
    }

    /// True if the message quotes flow and traffic specs of another one.
    fn quotes(&self) -> bool {
        !matches!(self.header.kind, MessageType::Path | MessageType::Resv | MessageType::ResvConf)
    }

    /// True if the message ends in a flow descriptor list.
    fn has_list(&self) -> bool {
        use MessageType::{Resv, ResvConf, ResvErr, ResvTear};
        matches!(self.header.kind, Resv | ResvErr | ResvTear | ResvConf)
    }

    /// Checks that all addresses in a message have one family (`FAULTS` P31).
    fn check_addresses(&self) -> Result<(), MalformedMessage> {
        let Some(SessionObject { session, .. }) = self.session else { return Ok(()) };
        let v4 = session.dst.is_ipv4();
        let hop = self.hop.is_none_or(|h| h.addr.is_ipv4() == v4);
        let confirm = self.confirm.is_none_or(|c| c.is_ipv4() == v4);
        let scope = self.scope.is_none_or(|s| matches!(s, Scope::V4(_)) == v4);
        if !(hop && confirm && scope) {
            return Err(MalformedMessage::silent("address family is not the session's", super::COMMON_HEADER));
        }
        match self.sender {
            Some(sender) => check_sender(&session, &sender, super::COMMON_HEADER, self.quotes()),
            None => Ok(()),
        }
    }

    pub(super) fn envelope(&self) -> Envelope<'a> {
        Envelope { header: self.header, integrity: self.integrity, message_id: self.message_id, objects: self.objects }
    }

    pub(super) fn session(&self) -> Result<SessionObject, MalformedMessage> {
        self.need(self.session, "no SESSION")
    }

    pub(super) fn hop(&self) -> Result<RsvpHop, MalformedMessage> {
        self.need(self.hop, "no RSVP_HOP")
    }

    pub(super) fn time_values(&self) -> Result<Span, MalformedMessage> {
        self.need(self.time_values, "no TIME_VALUES")
    }

    pub(super) fn error_spec(&self) -> Result<ErrorSpec, MalformedMessage> {
        self.need(self.error_spec, "no ERROR_SPEC")
    }

    pub(super) fn style(&self) -> Result<Style, MalformedMessage> {
        self.need(self.style, "no STYLE")
    }

    pub(super) fn sender(&self) -> Result<FilterObject, MalformedMessage> {
        self.need(self.sender, "no SENDER_TEMPLATE")
    }

    pub(super) fn maybe_sender(&self) -> Option<FilterObject> {
        self.sender
    }

    pub(super) fn descriptors(&self) -> Result<Descriptors<'a>, MalformedMessage> {
        Ok(Descriptors::new(self.after_style, self.style()?))
    }

    pub(super) fn need<T>(&self, what: Option<T>, missing: &'static str) -> Result<T, MalformedMessage> {
        what.ok_or(MalformedMessage::silent(missing, self.header.length))
    }
}

/// True for classes that RSVP forwards unread (RFC 2205 section 3.10).
fn is_opaque(class: u8) -> bool {
    matches!(class, class::FLOWSPEC | class::SENDER_TSPEC | class::ADSPEC | class::POLICY_DATA)
}

/// Checks that the sender has the session's family, and no source port without a destination port (RFC 2205
/// section 3.2), unless the message quotes another one: the port may be the error itself.
fn check_sender(session: &Session, sender: &FilterObject, offset: usize, quoted: bool) -> Result<(), MalformedMessage> {
    if sender.src().is_ipv4() != session.dst.is_ipv4() {
        return Err(MalformedMessage::silent("address family is not the session's", offset));
    }
    // A session of one form with senders of the other is a message formatting error (RFC 2207 section 4).
    if matches!(sender, FilterObject::Gpi(_)) != session.is_gpi() {
        return Err(MalformedMessage::silent("sender is not of the session's form", offset));
    }
    match sender.ports() {
        Some(ports) if session.dst_port == 0 && ports.src_port != 0 && !quoted => {
            Err(MalformedMessage::answered("source port without a destination port", offset, error::BAD_SNDPORT, 0))
        }
        _ => Ok(()),
    }
}
