//! MESSAGE_ID, MESSAGE_ID_ACK and MESSAGE_ID_NACK, MESSAGE_ID_LIST: RFC 2961 sections 4.2, 4.3 and 5.1.

use super::unknown_ctype;
use crate::MalformedMessage;
use crate::iana::ctype;
use crate::object::Object;
use core::net::IpAddr;

/// MESSAGE_ID: the identifier of a message at its sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId {
    /// Flags as sent; see [`MessageId::ack_desired`].
    pub flags: u8,
    /// The epoch, 24 bits: a new value means that the sender has restarted.
    pub epoch: u32,
    /// Message_Identifier: larger for a later message of the same epoch.
    pub id: u32,
}

/// MESSAGE_ID_ACK or MESSAGE_ID_NACK: the fate of one of our messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageIdAck {
    /// True for a NACK: a summary refresh named a message without state at its receiver.
    pub nack: bool,
    /// Flags as sent.
    pub flags: u8,
    /// Our epoch.
    pub epoch: u32,
    /// Our Message_Identifier.
    pub id: u32,
}

/// The fields of a MESSAGE_ID_LIST entry beside the Message_Identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListKind {
    /// No further field (C-Type 1).
    Plain,
    /// The source address of the message (C-Types 2 and 3): recognised.
    Source,
    /// The source and the destination address of the message (C-Types 4 and 5): recognised.
    Multicast,
}

/// MESSAGE_ID_LIST: the state to refresh, by the messages that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageIdList<'a> {
    /// The fields of the entries.
    pub kind: ListKind,
    /// Flags as sent.
    pub flags: u8,
    /// The epoch of all identifiers.
    pub epoch: u32,
    /// The entries, each [`MessageIdList::entry_bytes`] long, the identifier first.
    pub entries: &'a [u8],
    entry: usize,
}

/// Flag of MESSAGE_ID: an acknowledgement is wanted.
pub const ACK_DESIRED: u8 = 0x01;

impl MessageId {
    pub(super) fn decode(object: &Object<'_>) -> Result<MessageId, MalformedMessage> {
        if object.ctype != 1 {
            return Err(unknown_ctype(object));
        }
        let (flags, epoch, id) = three(object, "MESSAGE_ID has the wrong length")?;
        Ok(MessageId { flags, epoch, id })
    }

    /// True if the sender wants an acknowledgement.
    pub fn ack_desired(&self) -> bool {
        self.flags & ACK_DESIRED != 0
    }
}

impl MessageIdAck {
    pub(super) fn decode(object: &Object<'_>) -> Result<MessageIdAck, MalformedMessage> {
        let nack = match object.ctype {
            ctype::MESSAGE_ID_ACK => false,
            ctype::MESSAGE_ID_NACK => true,
            _ => return Err(unknown_ctype(object)),
        };
        let (flags, epoch, id) = three(object, "MESSAGE_ID_ACK has the wrong length")?;
        Ok(MessageIdAck { nack, flags, epoch, id })
    }
}

impl<'a> MessageIdList<'a> {
    pub(super) fn decode(object: &Object<'a>) -> Result<MessageIdList<'a>, MalformedMessage> {
        let (kind, entry) = match object.ctype {
            1 => (ListKind::Plain, 4),
            2 => (ListKind::Source, 8),
            3 => (ListKind::Source, 20),
            4 => (ListKind::Multicast, 12),
            5 => (ListKind::Multicast, 36),
            _ => return Err(unknown_ctype(object)),
        };
        let Some((&[flags, a, b, c], entries)) = object.body.split_first_chunk::<4>() else {
            return Err(object.fault("MESSAGE_ID_LIST is cut off", 0));
        };
        if !entries.len().is_multiple_of(entry) {
            return Err(object.fault("MESSAGE_ID_LIST is not whole entries", 4));
        }
        Ok(MessageIdList { kind, flags, epoch: u32::from_be_bytes([0, a, b, c]), entries, entry })
    }

    /// The number of bytes in one entry.
    pub fn entry_bytes(&self) -> usize {
        self.entry
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len().checked_div(self.entry).unwrap_or(0)
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The Message_Identifiers, in order.
    #[inline]
    pub fn ids(&self) -> impl Iterator<Item = u32> + Clone + use<'a> {
        let ids = self.entries.chunks_exact(self.entry.max(4));
        ids.filter_map(|e| e.first_chunk::<4>().map(|id| u32::from_be_bytes(*id)))
    }
}

impl<'a> MessageIdList<'a> {
    /// The entries of a list for multicast sessions: the identifier, the source, and (C-Types 4 and 5) the
    /// destination. Empty for a plain list.
    pub fn sources(&self) -> impl Iterator<Item = (u32, IpAddr, Option<IpAddr>)> + Clone + use<'a> {
        let (kind, wide) = (self.kind, matches!(self.entry, 20 | 36));
        self.entries.chunks_exact(self.entry.max(4)).filter_map(move |entry| {
            let (id, addresses) = entry.split_first_chunk::<4>()?;
            let (src, dst) = addresses.split_at_checked(if wide { 16 } else { 4 })?;
            let dst = if kind == ListKind::Multicast { Some(address(dst)?) } else { None };
            Some((u32::from_be_bytes(*id), address(src)?, dst))
        })
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    four.or_else(|| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok())
}

fn three(object: &Object<'_>, what: &'static str) -> Result<(u8, u32, u32), MalformedMessage> {
    let &[flags, a, b, c, i0, i1, i2, i3] = object.body else {
        return Err(object.fault(what, 0));
    };
    Ok((flags, u32::from_be_bytes([0, a, b, c]), u32::from_be_bytes([i0, i1, i2, i3])))
}
