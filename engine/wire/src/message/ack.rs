//! Ack: RFC 2961 section 4.4.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::iana::class;

/// Acknowledgements without another message to carry them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ack<'a> {
    /// Header, INTEGRITY, all objects; the acknowledgements are in [`Envelope::acks`].
    pub envelope: Envelope<'a>,
}

impl<'a> Ack<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<Ack<'a>, MalformedMessage> {
        let envelope = found.envelope();
        if envelope.message_id.is_some() {
            return Err(MalformedMessage::silent("MESSAGE_ID in an Ack", envelope.header.length));
        }
        let any = { envelope.objects }.any(|o| o.class == class::MESSAGE_ID_ACK);
        found.need(any.then_some(Ack { envelope }), "no MESSAGE_ID_ACK")
    }
}
