//! Srefresh: RFC 2961 section 5. It refreshes state by the identifiers of the messages that made it.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::iana::class;
use crate::objects::{Content, MessageIdList, decode};

/// A summary refresh.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Srefresh<'a> {
    /// Header, INTEGRITY, MESSAGE_ID, all objects.
    pub envelope: Envelope<'a>,
}

impl<'a> Srefresh<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<Srefresh<'a>, MalformedMessage> {
        let envelope = found.envelope();
        let any = { envelope.objects }.any(|o| o.class == class::MESSAGE_ID_LIST);
        found.need(any.then_some(Srefresh { envelope }), "no MESSAGE_ID_LIST")
    }

    /// The lists, in order.
    pub fn lists(&self) -> impl Iterator<Item = MessageIdList<'a>> + Clone + 'a {
        self.envelope.objects.filter_map(|o| match (o.class, decode(&o)) {
            (class::MESSAGE_ID_LIST, Ok(Content::MessageIdList(list))) => Some(list),
            _ => None,
        })
    }
}
