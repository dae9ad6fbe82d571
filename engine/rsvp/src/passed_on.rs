//! Objects of a message that are passed on: RFC 2205 section 3.10.

use crate::refusal::Refusal;
use crate::state::psb::{Forwarded, MOST_FORWARDED};
use alloc::vec::Vec;
use wire::Object;
use wire::iana::class;
use wire::message::Envelope;

/// The objects of a message that go on with the messages that it sets off.
pub(crate) fn carried(envelope: &Envelope<'_>) -> Result<Vec<Forwarded>, Refusal> {
    let all = envelope.forwarded().chain(envelope.policy_data());
    let all: Vec<_> = all.map(|o| Forwarded { class: o.class, ctype: o.ctype, body: o.body.to_vec() }).collect();
    let bytes: usize = all.iter().map(|f| f.body.len() + 4).sum();
    if bytes > MOST_FORWARDED {
        return Err(Refusal::table_full("bytes of objects to be passed on", MOST_FORWARDED));
    }
    Ok(all)
}

/// True if an object goes on with a message that is passed on: all but INTEGRITY and the names and
/// acknowledgements of messages (RFC 2961), which are per hop, and the unknown classes 0x80 to 0xbf (RFC 2205
/// section 3.10).
pub(crate) fn goes_on(object: &Object<'_>) -> bool {
    let per_hop = matches!(object.class, class::INTEGRITY | class::MESSAGE_ID | class::MESSAGE_ID_ACK);
    !per_hop && object.class != class::NULL && !(0x80..=0xbf).contains(&object.class)
}
