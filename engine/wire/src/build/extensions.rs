//! Writing the extensions after RFC 2205: refresh reduction (RFC 2961), Hello (RFC 3209), the challenge
//! handshake (RFC 2747), policy elements (RFC 2750, RFC 3181).

use super::{Builder, Space};
use crate::iana::{class, ctype};
use crate::objects::{Challenge, HelloObject, MessageId, MessageIdAck, PreemptionPriority};

impl<S: Space> Builder<S> {
    /// Flags of the common header, 4 bits; 0x1: refresh reduction (RFC 2961 section 2).
    pub fn flags(mut self, flags: u8) -> Self {
        if let Some(first) = self.space.written().first_mut() {
            *first = 0x10 | flags & 0x0f;
        }
        self
    }

    /// MESSAGE_ID.
    pub fn message_id(self, id: &MessageId) -> Self {
        self.write(class::MESSAGE_ID, 1, &[&head(id.flags, id.epoch), &id.id.to_be_bytes()])
    }

    /// MESSAGE_ID_ACK or MESSAGE_ID_NACK.
    pub fn message_id_ack(self, ack: &MessageIdAck) -> Self {
        let form = if ack.nack { ctype::MESSAGE_ID_NACK } else { ctype::MESSAGE_ID_ACK };
        self.write(class::MESSAGE_ID_ACK, form, &[&head(ack.flags, ack.epoch), &ack.id.to_be_bytes()])
    }

    /// MESSAGE_ID_LIST, C-Type 1.
    pub fn message_id_list(mut self, epoch: u32, ids: &[u32]) -> Self {
        if self.head(class::MESSAGE_ID_LIST, 1, ids.len().saturating_add(1).saturating_mul(4)) {
            self.put(&head(0, epoch));
            ids.iter().for_each(|id| self.put(&id.to_be_bytes()));
        }
        self
    }

    /// HELLO.
    pub fn hello(self, hello: &HelloObject) -> Self {
        let form = if hello.request { ctype::HELLO_REQUEST } else { ctype::HELLO_ACK };
        self.write(class::HELLO, form, &[&hello.src_instance.to_be_bytes(), &hello.dst_instance.to_be_bytes()])
    }

    /// CHALLENGE.
    pub fn challenge(self, challenge: &Challenge<'_>) -> Self {
        let [_, _, key @ ..] = challenge.key_id.to_be_bytes();
        self.write(class::CHALLENGE, 1, &[&[0, 0], &key, challenge.cookie])
    }

    /// A whole message inside a Bundle (RFC 2961 section 3.2), unchanged.
    pub fn sub_message(mut self, message: &[u8]) -> Self {
        self.put(message);
        self
    }

    /// POLICY_DATA with no options and one element: PREEMPTION_PRI (RFC 3181 section 2).
    pub fn preemption(self, element: &PreemptionPriority) -> Self {
        self.write(class::POLICY_DATA, 1, &[&[0, 8, 0, 0], &element.bytes()])
    }
}

/// Flags and a 24-bit epoch.
fn head(flags: u8, epoch: u32) -> [u8; 4] {
    let [_, a, b, c] = epoch.to_be_bytes();
    [flags, a, b, c]
}
