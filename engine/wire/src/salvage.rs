//! The readable parts of a refused message, which its answer needs: the addressee and the session.

use crate::iana::{MessageType, class};
use crate::message::envelope;
use crate::object::{Object, Objects};
use crate::objects::{Content, FilterObject, RsvpHop, decode};
use terms::{Session, Style};

/// The readable parts of a message that [`crate::Message::parse`] refused with an answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Salvage<'a> {
    /// The type: Path is answered by PathErr, Resv by ResvErr, other types not at all.
    pub kind: MessageType,
    /// SESSION, but for the form of RFC 3175, which [`Salvage::named`] has.
    pub session: Option<Session>,
    /// RSVP_HOP: the addressee of the answer.
    pub hop: Option<RsvpHop>,
    /// SENDER_TEMPLATE.
    pub sender: Option<FilterObject>,
    /// STYLE.
    pub style: Option<Style>,
    objects: Objects<'a>,
}

impl<'a> Salvage<'a> {
    /// Reads the readable parts; `None` if the header or an object header is wrong (nothing is answered then).
    pub fn read(bytes: &'a [u8]) -> Option<Salvage<'a>> {
        let (header, objects) = envelope(bytes).ok()?;
        objects.check().ok()?;
        let (mut session, mut hop, mut sender, mut style) = (None, None, None, None);
        for object in objects {
            match decode(&object) {
                Ok(Content::Session(x)) => session = Some(x.session),
                Ok(Content::Hop(x)) => hop = Some(x),
                Ok(Content::SenderTemplate(x)) => sender = Some(x),
                Ok(Content::Style(x)) => style = Some(x),
                _ => {}
            }
        }
        Some(Salvage { kind: header.kind, session, hop, sender, style, objects })
    }

    /// The objects of one class, as they came: the sender descriptor or flow descriptor that the answer quotes.
    pub fn of_class(&self, class: u8) -> impl Iterator<Item = Object<'a>> + 'a {
        self.objects.filter(move |o| o.class == class)
    }

    /// The SESSION object as it came, if it can be read; also that of an aggregate reservation (RFC 3175).
    pub fn named(&self) -> Option<Object<'a>> {
        let readable = |o: &Object<'a>| matches!(decode(o), Ok(Content::Session(_) | Content::AggregateSession(_)));
        self.of_class(class::SESSION).find(readable)
    }

    /// The first error flow descriptor of a Resv, or the sender descriptor of a Path, for the answer.
    pub fn quotable(&self) -> impl Iterator<Item = Object<'a>> + 'a {
        let wanted: &[u8] = match self.kind {
            MessageType::Path => &[class::SENDER_TEMPLATE, class::SENDER_TSPEC],
            MessageType::Resv => &[class::FLOWSPEC, class::FILTER_SPEC],
            _ => &[],
        };
        let objects = self.objects;
        wanted.iter().filter_map(move |c| { objects }.find(|o| o.class == *c))
    }
}
