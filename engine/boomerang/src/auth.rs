//! AUTH (ours): proof of the initiating node with HMAC-SHA-256 (RFC 2104, FIPS 180-4), under a key that the
//! initiating nodes and the aware nodes of a network share.
//!
//! The *origin digest* covers what no node rewrites: both ends, the Container without NACK, Classifier, Mask,
//! UID, the sequence number, and the rates and refresh interval of the request. The *hop digest* covers what
//! nodes do rewrite, and all options; each node checks it and makes it anew, and so does the initiating node
//! for the reply. The echoing host needs neither: it changes neither.
//!
//! Its limits: a node that has the key is believed, and nothing is encrypted.

use crate::replay::Replays;
use crate::work::Work;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use wire::boomerang::{self, AuthOption, Opt, Places};

/// A key for AUTH.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthKey {
    /// The number of the key in messages.
    pub id: u32,
    /// The secret, of any length.
    pub secret: Vec<u8>,
}

impl core::fmt::Debug for AuthKey {
    /// Omits the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Keys, each with a prepared HMAC state.
pub(crate) struct Keys(Vec<(u32, Box<Hmac<Sha256>>)>);

impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(id, _)| id)).finish()
    }
}

/// The result of the AUTH check of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The message has no AUTH option, or this node has no keys.
    Unsaid,
    /// The digests and the sequence number are right.
    Proven,
    /// A digest is wrong, or the sequence number was used before.
    Wrong,
}

const ORIGIN: &[u8] = b"sluice boomerang origin 1";
const HOP: &[u8] = b"sluice boomerang hop 1";

impl Keys {
    pub fn new(keys: &[AuthKey]) -> Keys {
        let mac = |key: &AuthKey| Hmac::new_from_slice(&key.secret).expect("HMAC takes keys of any length");
        Keys(keys.iter().map(|key| (key.id, Box::new(mac(key)))).collect())
    }

    fn get(&self, id: u32) -> Option<&Hmac<Sha256>> {
        self.0.iter().find(|(other, _)| *other == id).map(|(_, mac)| &**mac)
    }

    /// True if there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, id: u32) -> bool {
        self.get(id).is_some()
    }

    /// The HMAC state of the origin digest under a key, before it is finished.
    fn origin(&self, auth: &AuthOption, ends: (IpAddr, IpAddr), message: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = self.get(auth.key_id)?.clone();
        mac.update(ORIGIN);
        for end in [ends.0, ends.1] {
            match end {
                IpAddr::V4(address) => mac.update(&address.octets()),
                IpAddr::V6(address) => mac.update(&address.octets()),
            }
        }
        let parsed = boomerang::BoomerangMessage::parse(message, None).ok()?;
        let rates_at = 32 + 2 * parsed.family.selector();
        mac.update(message.get(8..18)?);
        mac.update(&(parsed.flags & !boomerang::flag::NACK).to_be_bytes());
        mac.update(message.get(21..24)?);
        mac.update(message.get(32..rates_at)?);
        for (_, option) in parsed.options() {
            if let Opt::Uid(uid) = option {
                mac.update(&uid.user.to_be_bytes());
                mac.update(&uid.credential.to_be_bytes());
            }
        }
        mac.update(&auth.key_id.to_be_bytes());
        mac.update(&auth.sequence.to_be_bytes());
        mac.update(&auth.forward.to_be_bytes());
        mac.update(&auth.reverse.to_be_bytes());
        mac.update(&[auth.refresh]);
        Some(mac)
    }

    /// The HMAC state of the hop digest, before it is finished; `place` is the digest's offset in the message.
    fn hop(&self, key_id: u32, message: &[u8], place: usize) -> Option<Hmac<Sha256>> {
        let mut mac = self.get(key_id)?.clone();
        let family = boomerang::BoomerangMessage::parse(message, None).ok()?.family;
        mac.update(HOP);
        mac.update(message.get(18..21)?);
        mac.update(message.get(24..32)?);
        mac.update(message.get(32 + 2 * family.selector()..place)?);
        mac.update(message.get(place + 16..)?);
        Some(mac)
    }

    /// Computes both digests of a packet from its initiating node.
    pub fn sign(&self, ends: (IpAddr, IpAddr), packet: &mut [u8]) -> Option<()> {
        let probe = boomerang::ProbePacket::parse(packet).ok()?;
        let auth = auth_of(&probe.message)?;
        let places = Places::of(&probe);
        let message = packet.get(probe.at..probe.total)?;
        let origin: [u8; 32] = self.origin(&auth, ends, message)?.finalize().into_bytes().into();
        places.within(packet).origin_digest(&origin);
        self.sign_hop(auth.key_id, places, packet)
    }

    /// Computes the hop digest again.
    pub fn sign_hop(&self, key_id: u32, places: Places, packet: &mut [u8]) -> Option<()> {
        let place = places.digest()?;
        let mut rewrite = places.within(packet);
        let digest: [u8; 32] = self.hop(key_id, rewrite.message(), place)?.finalize().into_bytes().into();
        rewrite.hop_digest(digest.first_chunk()?);
        Some(())
    }

    /// True if both digests are right and no value exceeds the signed request.
    pub fn verify(&self, probe: &boomerang::ProbePacket<'_>, auth: &AuthOption, message: &[u8]) -> bool {
        let asked = probe.message.qos.asked();
        if asked.forward > auth.forward || asked.reverse > auth.reverse || probe.message.refresh > auth.refresh {
            return false;
        }
        let Some(place) = Places::of(probe).digest() else { return false };
        let ends = (probe.initiator(), probe.far_end());
        let origin = self.origin(auth, ends, message).is_some_and(|mac| mac.verify_slice(&auth.origin).is_ok());
        let hop = self.hop(auth.key_id, message, place);
        origin && hop.is_some_and(|mac| mac.verify_truncated_left(&auth.hop).is_ok())
    }
}

/// The first AUTH option.
pub(crate) fn auth_of(message: &boomerang::BoomerangMessage<'_>) -> Option<AuthOption> {
    message.options().find_map(|(_, option)| if let Opt::Auth(auth) = option { Some(auth) } else { None })
}

/// The proof of messages: keys, and the sequence numbers that were used.
#[derive(Debug)]
pub(crate) struct Proof {
    keys: Keys,
    replays: Replays,
}

impl Proof {
    pub fn new(keys: &[AuthKey]) -> Proof {
        Proof { keys: Keys::new(keys), replays: Replays::default() }
    }

    /// Other keys from now on. Sequence numbers that were used stay used.
    pub fn set_keys(&mut self, keys: &[AuthKey]) {
        self.keys = Keys::new(keys);
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Checks the AUTH option of a message. Each sequence number is accepted once.
    pub fn standing(&mut self, probe: &boomerang::ProbePacket<'_>, packet: &[u8], work: &Work) -> Standing {
        let Some(auth) = &work.auth else { return Standing::Unsaid };
        if self.keys.is_empty() {
            return Standing::Unsaid;
        }
        if work.entry {
            // Our own: we have just signed it.
            return if self.keys.has(auth.key_id) { Standing::Proven } else { Standing::Unsaid };
        }
        let right = packet.get(probe.at..probe.total).is_some_and(|message| self.keys.verify(probe, auth, message));
        if right && self.replays.is_new(auth.key_id, work.initiator, work.leg, auth.sequence) {
            Standing::Proven
        } else {
            Standing::Wrong
        }
    }

    /// Computes the hop digest of a proven message again, after it was rewritten.
    pub fn seal(&self, work: &Work, packet: &mut [u8]) {
        let Some(auth) = &work.auth else { return };
        let Ok(probe) = boomerang::ProbePacket::parse(packet) else { return };
        let places = Places::of(&probe);
        self.keys.sign_hop(auth.key_id, places, packet);
    }
}
