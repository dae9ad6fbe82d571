//! Options: the draft's two, whose sizes follow from type and family, and ours, which carry their length.
//!
//! An unknown option of the draft's range has no length, so the walk ends there, and the rest is forwarded
//! without being decoded. Of two options of one type the first counts.

use super::selector::address;
use super::{Family, Selector, option_type as kind};
use alloc::vec::Vec;
use core::net::IpAddr;

/// Boomerang_UID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uid {
    /// User ID.
    pub user: u64,
    /// Credential.
    pub credential: u64,
}

/// RESV_AGGREGATION: an earlier node has added this session to an aggregate, which is all that later nodes
/// hold. In IPv6 (which the draft leaves out) it is the same with longer addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aggregate {
    /// The address of the aggregating node.
    pub address: IpAddr,
    /// Its transaction id.
    pub transaction: u32,
    /// The flow of the aggregate.
    pub classifier: Selector,
    /// The bits of the classifier that count.
    pub mask: Selector,
    /// The rate of the aggregate, forward, in bit/s.
    pub rate: u32,
}

/// The number of aware nodes that a message has passed (ours). Each node counts itself in the message's direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hops {
    /// The number on the way out.
    pub forward: u16,
    /// The number on the way back.
    pub reverse: u16,
}

/// AUTH (ours), the proof of the initiating node: the request's values under a digest that every node can check and
/// none rewrites, and a digest over the fields that nodes rewrite, which each node checks and makes anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuthOption {
    /// The number of the key.
    pub key_id: u32,
    /// The sequence number; it rises with every message of an initiating node.
    pub sequence: u64,
    /// The requested forward rate, in bit/s.
    pub forward: u32,
    /// The requested reverse rate, in bit/s.
    pub reverse: u32,
    /// The requested refresh interval, in seconds.
    pub refresh: u8,
    /// HMAC-SHA-256 by the initiating node.
    pub origin: [u8; 32],
    /// HMAC-SHA-256, cut to half, by the last node that rewrote the message.
    pub hop: [u8; 16],
}

/// Octets of AUTH's body.
pub(crate) const AUTH_BODY: usize = 72;
/// The offset of the hop digest in that body.
pub(crate) const HOP_DIGEST: usize = 56;
/// The distance from the origin digest to the hop digest.
pub(crate) const ORIGIN_DIGEST: usize = 32;
const HOPS_BODY: usize = 4;

impl Aggregate {
    const fn body(family: Family) -> usize {
        match family {
            Family::V4 => 44,
            Family::V6 => 104,
        }
    }
}

/// A decoded option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// Boomerang_UID.
    Uid(Uid),
    /// RESV_AGGREGATION.
    Aggregation(Aggregate),
    /// AUTH.
    Auth(AuthOption),
    /// HOPS.
    Hops(Hops),
    /// An option with a length, of unknown type: skipped.
    Unknown {
        /// The type.
        kind: u16,
        /// The body.
        body: &'a [u8],
    },
}

impl Opt<'_> {
    /// The option's type.
    pub fn kind(&self) -> u16 {
        match self {
            Opt::Uid(_) => kind::UID,
            Opt::Aggregation(_) => kind::AGGREGATION,
            Opt::Auth(_) => kind::AUTH,
            Opt::Hops(_) => kind::HOPS,
            Opt::Unknown { kind, .. } => *kind,
        }
    }

    /// Appends the option, header included.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut body = Vec::new();
        match self {
            Opt::Uid(uid) => {
                body.extend_from_slice(&uid.user.to_be_bytes());
                body.extend_from_slice(&uid.credential.to_be_bytes());
            }
            Opt::Aggregation(aggregate) => {
                match aggregate.address {
                    IpAddr::V4(address) => body.extend_from_slice(&address.octets()),
                    IpAddr::V6(address) => body.extend_from_slice(&address.octets()),
                }
                body.extend_from_slice(&aggregate.transaction.to_be_bytes());
                aggregate.classifier.write(&mut body);
                aggregate.mask.write(&mut body);
                body.extend_from_slice(&aggregate.rate.to_be_bytes());
            }
            Opt::Auth(auth) => {
                body.extend_from_slice(&auth.key_id.to_be_bytes());
                body.extend_from_slice(&auth.sequence.to_be_bytes());
                body.extend_from_slice(&auth.forward.to_be_bytes());
                body.extend_from_slice(&auth.reverse.to_be_bytes());
                body.extend_from_slice(&[auth.refresh, 0, 0, 0]);
                body.extend_from_slice(&auth.origin);
                body.extend_from_slice(&auth.hop);
            }
            Opt::Hops(hops) => {
                body.extend_from_slice(&hops.forward.to_be_bytes());
                body.extend_from_slice(&hops.reverse.to_be_bytes());
            }
            Opt::Unknown { body: bytes, .. } => body.extend_from_slice(bytes),
        }
        // The draft's options say nothing in their flags.
        let flags = if self.kind() >= kind::OURS { u16::try_from(body.len()).unwrap_or(u16::MAX) } else { 0 };
        to.extend_from_slice(&self.kind().to_be_bytes());
        to.extend_from_slice(&flags.to_be_bytes());
        to.extend_from_slice(&body);
    }
}

/// A walk over a message's options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionWalk<'a> {
    family: Family,
    rest: &'a [u8],
    at: usize,
}

impl<'a> OptionWalk<'a> {
    pub(crate) fn new(family: Family, tail: &'a [u8], at: usize) -> OptionWalk<'a> {
        OptionWalk { family, rest: tail, at }
    }

    /// The bytes that the walk has not reached.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The bytes that were left when the walk ended: forwarded without being decoded.
    pub fn remainder(mut self) -> &'a [u8] {
        while self.next().is_some() {}
        self.rest
    }
}

impl<'a> Iterator for OptionWalk<'a> {
    /// The offset of the option's body from the first byte of the ICMP message, and the option.
    type Item = (usize, Opt<'a>);

    fn next(&mut self) -> Option<(usize, Opt<'a>)> {
        let (&[k1, k0, f1, f0], rest) = self.rest.split_first_chunk::<4>()?;
        let (kind, flags) = (u16::from_be_bytes([k1, k0]), u16::from_be_bytes([f1, f0]));
        let length = match kind {
            kind::UID => 16,
            kind::AGGREGATION => Aggregate::body(self.family),
            kind if kind >= kind::OURS => usize::from(flags),
            _ => return None,
        };
        let (body, rest) = rest.split_at_checked(length)?;
        let option = decode(kind, self.family, body);
        let at = self.at.saturating_add(4);
        (self.at, self.rest) = (at.saturating_add(length), rest);
        Some((at, option))
    }
}

fn decode(kind: u16, family: Family, body: &[u8]) -> Opt<'_> {
    let known = match kind {
        kind::UID => uid(body).map(Opt::Uid),
        kind::AGGREGATION => aggregate(family, body).map(Opt::Aggregation),
        kind::AUTH => auth(body).map(Opt::Auth),
        kind::HOPS => hops(body).map(Opt::Hops),
        _ => None,
    };
    known.unwrap_or(Opt::Unknown { kind, body })
}

fn uid(body: &[u8]) -> Option<Uid> {
    let (user, rest) = body.split_first_chunk::<8>()?;
    Some(Uid { user: u64::from_be_bytes(*user), credential: u64::from_be_bytes(*rest.first_chunk()?) })
}

fn aggregate(family: Family, body: &[u8]) -> Option<Aggregate> {
    let (address, rest) = address(family, body)?;
    let (transaction, rest) = rest.split_first_chunk::<4>()?;
    let (classifier, rest) = rest.split_at_checked(family.selector())?;
    let (mask, rest) = rest.split_at_checked(family.selector())?;
    Some(Aggregate {
        address,
        transaction: u32::from_be_bytes(*transaction),
        classifier: Selector::read(family, classifier)?,
        mask: Selector::read(family, mask)?,
        rate: u32::from_be_bytes(*rest.first_chunk()?),
    })
}

fn auth(body: &[u8]) -> Option<AuthOption> {
    let body = body.first_chunk::<AUTH_BODY>().filter(|_| body.len() == AUTH_BODY)?;
    let (key_id, rest) = body.split_first_chunk::<4>()?;
    let (sequence, rest) = rest.split_first_chunk::<8>()?;
    let (forward, rest) = rest.split_first_chunk::<4>()?;
    let (reverse, rest) = rest.split_first_chunk::<4>()?;
    let (&[refresh, ..], rest) = rest.split_first_chunk::<4>()?;
    let (origin, hop) = rest.split_first_chunk::<32>()?;
    Some(AuthOption {
        key_id: u32::from_be_bytes(*key_id),
        sequence: u64::from_be_bytes(*sequence),
        forward: u32::from_be_bytes(*forward),
        reverse: u32::from_be_bytes(*reverse),
        refresh,
        origin: *origin,
        hop: *hop.first_chunk()?,
    })
}

fn hops(body: &[u8]) -> Option<Hops> {
    let &[f1, f0, r1, r0] = body.first_chunk::<HOPS_BODY>().filter(|_| body.len() == HOPS_BODY)?;
    Some(Hops { forward: u16::from_be_bytes([f1, f0]), reverse: u16::from_be_bytes([r1, r0]) })
}
