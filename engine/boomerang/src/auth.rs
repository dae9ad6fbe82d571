//! AUTH (ours): who asks, proven with HMAC-SHA-256 (RFC 2104, FIPS 180-4) under a key that the initiating nodes and the
//! aware nodes of a network share.
//!
//! The *origin digest* covers what no node rewrites: both ends, the Container without NACK, Classifier, Mask, UID, the
//! sequence number, and rates and refresh interval as they were asked. The *hop digest* covers what nodes do rewrite, and all of
//! the options; each node checks it and makes it anew, and so does the initiating node when the reply is back. The echoing host
//! knows nothing of either: it changes neither.
//!
//! What it does not do: a node that has the key is believed, and nothing is secret.

use crate::engine::Boomerang;
use crate::transit::Work;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use terms::probe::ProbeObserver;
use wire::boomerang::{self, AuthOption, Opt, Places};

/// A key for AUTH.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthKey {
    /// Its number in messages.
    pub id: u32,
    /// The secret, of any length.
    pub secret: Vec<u8>,
}

impl core::fmt::Debug for AuthKey {
    /// Without the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Keys that have been taken in once.
pub(crate) struct Keys(Vec<(u32, Box<Hmac<Sha256>>)>);

impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(id, _)| id)).finish()
    }
}

/// What AUTH says of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// There is no AUTH, or nobody here to read it.
    Unsaid,
    /// It is who it says.
    Proven,
    /// It is not, or not now.
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

    pub fn has(&self, id: u32) -> bool {
        self.get(id).is_some()
    }

    /// The origin digest under a key, fed and not finished.
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

    /// The hop digest under a key, fed and not finished; `place` is where it lies in the ICMP message.
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

    /// Makes both digests of a packet that its initiating node has written.
    pub fn sign(&self, ends: (IpAddr, IpAddr), packet: &mut [u8]) -> Option<()> {
        let probe = boomerang::ProbePacket::parse(packet).ok()?;
        let auth = auth_of(&probe.message)?;
        let places = Places::of(&probe);
        let message = packet.get(probe.at..probe.total)?;
        let origin: [u8; 32] = self.origin(&auth, ends, message)?.finalize().into_bytes().into();
        places.within(packet).origin_digest(&origin);
        self.sign_hop(auth.key_id, places, packet)
    }

    /// Makes the hop digest anew.
    pub fn sign_hop(&self, key_id: u32, places: Places, packet: &mut [u8]) -> Option<()> {
        let place = places.digest()?;
        let mut rewrite = places.within(packet);
        let digest: [u8; 32] = self.hop(key_id, rewrite.message(), place)?.finalize().into_bytes().into();
        rewrite.hop_digest(digest.first_chunk()?);
        Some(())
    }

    /// Whether both digests are right and nothing has grown since it was asked.
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

impl<P: ProbeObserver> Boomerang<P> {
    /// What AUTH says of a message; a sequence number that was believed once is not believed again.
    pub(crate) fn standing(&mut self, probe: &boomerang::ProbePacket<'_>, packet: &[u8], work: &Work) -> Standing {
        let Some(auth) = &work.auth else { return Standing::Unsaid };
        if self.config.keys.is_empty() {
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

    /// Makes the hop digest of a message that was proven and has been rewritten.
    pub(crate) fn seal(&self, work: &Work, packet: &mut [u8]) {
        let Some(auth) = &work.auth else { return };
        let Ok(probe) = boomerang::ProbePacket::parse(packet) else { return };
        let places = Places::of(&probe);
        self.keys.sign_hop(auth.key_id, places, packet);
    }
}
