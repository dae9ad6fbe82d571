//! Keys and key tables: RFC 2747 sections 2.2 and 5.

use super::mac::Mac;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{IfIndex, Span, Time};

/// The authentication that an interface requires of messages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum AuthMode {
    /// Nothing: messages are neither signed nor checked.
    #[default]
    None,
    /// Every message carries an INTEGRITY of one of these keys, both ways.
    Keys(KeyTable),
}

/// The algorithm of a digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    /// HMAC-SHA-256, 32 bytes: `sluice` makes keys for this one.
    HmacSha256,
    /// HMAC-SHA1, 20 bytes, for peers that have no stronger one.
    HmacSha1,
    /// HMAC-MD5 (RFC 2104), 16 bytes, the baseline of RFC 2747 section 6.
    HmacMd5,
}

/// A key, shared with one neighbour or with all on the link.
///
/// A key that several nodes share lets each of them speak for any other (RFC 6411): one key for each
/// neighbour is better.
#[derive(Clone, PartialEq, Eq)]
pub struct IntegrityKey {
    /// Key Identifier, 48 bits.
    pub id: u64,
    /// The algorithm that it signs with.
    pub algorithm: Algorithm,
    /// The secret.
    pub secret: Vec<u8>,
    /// The neighbour that it is shared with, by its address on the link; `None`: all of them.
    pub peer: Option<IpAddr>,
    /// KeyStartValid.
    pub from: Time,
    /// KeyEndValid; [`Time::FOREVER`] for a key without an end.
    pub until: Time,
}

/// The keys of an interface, and the strictness of its checks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyTable {
    keys: Vec<IntegrityKey>,
    /// The number of sequence numbers below the highest one that are still taken, each once (RFC 2747 section
    /// 4.2): 1 to 64; with 1 messages must come in order.
    pub window: u32,
    /// If true, a sender that is heard for the first time is challenged to prove that its sequence number is
    /// fresh (RFC 2747 section 4.3). If false, an attacker who recorded a message before our restart can play
    /// it back once.
    pub handshake: bool,
    /// If true, senders that refuse to be challenged (no Handshake Flag) are taken without a challenge.
    pub unwilling: bool,
    /// The tolerance for clock differences: a neighbour's key is taken so much before and after its lifetime.
    pub skew: Span,
}

/// Most keys in a table.
pub const MOST_KEYS: usize = 1024;

/// Largest Key Identifier.
pub const MOST_KEY_ID: u64 = (1 << 48) - 1;

/// The reason why keys do not make a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadKeys {
    /// There is none.
    None,
    /// There are more than [`MOST_KEYS`].
    TooMany,
    /// A Key Identifier is above 48 bits.
    Id(u64),
    /// Two keys for one neighbour have the same identifier.
    Twice(u64),
    /// A secret is empty.
    Empty(u64),
    /// A lifetime ends before it begins.
    Lifetime(u64),
}

impl core::fmt::Debug for IntegrityKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut s = f.debug_struct("Key");
        s.field("id", &self.id).field("algorithm", &self.algorithm).field("peer", &self.peer);
        // The secret is for nobody's log.
        s.field("from", &self.from).field("until", &self.until).finish_non_exhaustive()
    }
}

impl core::fmt::Display for BadKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BadKeys::None => write!(f, "a key table without a key"),
            BadKeys::TooMany => write!(f, "more than {MOST_KEYS} keys"),
            BadKeys::Id(id) => write!(f, "key {id}: identifiers have 48 bits"),
            BadKeys::Twice(id) => write!(f, "key {id} is there twice"),
            BadKeys::Empty(id) => write!(f, "key {id} has no secret"),
            BadKeys::Lifetime(id) => write!(f, "key {id} ends before it begins"),
        }
    }
}

impl core::error::Error for BadKeys {}

impl IntegrityKey {
    /// A key for all neighbours, without an end.
    pub fn new(id: u64, algorithm: Algorithm, secret: &[u8]) -> IntegrityKey {
        IntegrityKey { id, algorithm, secret: secret.to_vec(), peer: None, from: Time::ZERO, until: Time::FOREVER }
    }

    fn is_for(&self, peer: IpAddr) -> bool {
        self.peer.is_none_or(|p| p == peer)
    }

    fn is_valid(&self, now: Time, skew: Span) -> bool {
        self.from <= now + skew && (self.until == Time::FOREVER || now < self.until + skew)
    }
}

impl AuthMode {
    /// The same keys with lifetimes by the node's own clock, which calendar time is ahead of by `ahead_ns`
    /// nanoseconds: lifetimes of keys are calendar time, and the engine's inputs carry the node's own.
    #[must_use]
    pub fn by_clock(&self, ahead_ns: i64) -> AuthMode {
        let AuthMode::Keys(table) = self else { return self.clone() };
        let mut table = table.clone();
        for key in &mut table.keys {
            let moved = |at: Time| match at {
                Time::ZERO | Time::FOREVER => at,
                at => Time::from_nanos(at.as_nanos().saturating_add_signed(ahead_ns.saturating_neg())),
            };
            (key.from, key.until) = (moved(key.from), moved(key.until));
        }
        AuthMode::Keys(table)
    }
}

impl KeyTable {
    /// A strict table of these keys: handshake required, 64 sequence numbers of reordering, two seconds of
    /// clock difference.
    ///
    /// # Errors
    /// [`BadKeys`].
    pub fn new(keys: Vec<IntegrityKey>) -> Result<KeyTable, BadKeys> {
        if keys.is_empty() {
            return Err(BadKeys::None);
        }
        if keys.len() > MOST_KEYS {
            return Err(BadKeys::TooMany);
        }
        for (i, key) in keys.iter().enumerate() {
            let meets =
                |o: &IntegrityKey| o.id == key.id && (o.peer.is_none() || key.peer.is_none() || o.peer == key.peer);
            match key {
                k if k.id > MOST_KEY_ID => return Err(BadKeys::Id(k.id)),
                k if k.secret.is_empty() => return Err(BadKeys::Empty(k.id)),
                k if k.until <= k.from => return Err(BadKeys::Lifetime(k.id)),
                k if keys.iter().take(i).any(meets) => return Err(BadKeys::Twice(k.id)),
                _ => {}
            }
        }
        let skew = Span::from_secs(2);
        Ok(KeyTable { keys, window: super::replay::WIDEST, handshake: true, unwilling: false, skew })
    }

    /// The keys.
    pub fn keys(&self) -> &[IntegrityKey] {
        &self.keys
    }
}

/// A key table with a prepared digest for each key.
pub(super) struct Shield {
    pub table: KeyTable,
    macs: Vec<Mac>,
}

/// A key and its prepared digest.
#[derive(Clone, Copy)]
pub(super) struct Ready<'a> {
    pub key: &'a IntegrityKey,
    pub mac: &'a Mac,
    /// True if its lifetime is over and it stays in use only for lack of another (RFC 2747 section 5.3).
    pub overdue: bool,
}

impl Shield {
    pub fn new(table: KeyTable) -> Shield {
        let macs = table.keys.iter().map(|k| Mac::new(k.algorithm, &k.secret)).collect();
        Shield { table, macs }
    }

    fn of_peer(&self, peer: IpAddr) -> impl Iterator<Item = Ready<'_>> {
        let all = self.table.keys.iter().zip(&self.macs);
        all.filter(move |(k, _)| k.is_for(peer)).map(|(key, mac)| Ready { key, mac, overdue: false })
    }

    /// The key to sign with: of those valid, one made for this neighbour first, and then the youngest. If all
    /// have expired, the one that lasted longest.
    pub fn signing(&self, peer: IpAddr, now: Time) -> Option<Ready<'_>> {
        let valid = self.of_peer(peer).filter(|r| r.key.is_valid(now, Span::ZERO));
        let best = valid.max_by_key(|r| (r.key.peer.is_some(), r.key.from));
        best.or_else(|| self.last(peer, now))
    }

    /// The neighbour to sign a message for if the next node on the link is unknown: the one neighbour that
    /// there are keys for, or else all of them (the unspecified address, which only keys for all are for).
    pub fn only_peer(&self) -> IpAddr {
        const ALL: IpAddr = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        let mut peers = self.table.keys.iter().filter_map(|k| k.peer);
        let first = peers.next().unwrap_or(ALL);
        if peers.all(|p| p == first) { first } else { ALL }
    }

    /// The key that a neighbour signed with, if that is allowed now.
    pub fn signed_by(&self, peer: IpAddr, id: u64, now: Time) -> Result<Ready<'_>, &'static str> {
        let Some(found) = self.of_peer(peer).find(|r| r.key.id == id) else {
            return Err("INTEGRITY by a key that is not known here for this neighbour");
        };
        if found.key.is_valid(now, self.table.skew) {
            return Ok(found);
        }
        let last = self.last(peer, now).filter(|r| r.key.id == id);
        let other = self.of_peer(peer).any(|r| r.key.is_valid(now, self.table.skew));
        last.filter(|_| !other).ok_or("INTEGRITY by a key outside its lifetime")
    }

    /// The key of this identifier that we share with this neighbour.
    pub fn named(&self, peer: IpAddr, id: u64) -> Option<Ready<'_>> {
        self.of_peer(peer).find(|r| r.key.id == id)
    }

    fn last(&self, peer: IpAddr, now: Time) -> Option<Ready<'_>> {
        let begun = self.of_peer(peer).filter(|r| r.key.from <= now);
        begun.max_by_key(|r| r.key.until).map(|r| Ready { overdue: true, ..r })
    }
}

/// The keys of all interfaces.
#[derive(Default)]
pub(super) struct Shields {
    everywhere: Option<Shield>,
    own: alloc::collections::BTreeMap<IfIndex, Option<Shield>>,
}

impl Shields {
    pub fn new(auth: &AuthMode) -> Shields {
        Shields { everywhere: shield(auth), own: Default::default() }
    }

    pub fn set(&mut self, interface: IfIndex, auth: &AuthMode) {
        self.own.insert(interface, shield(auth));
    }

    /// The keys of an interface; `None`: it requires no signatures.
    pub fn on(&self, interface: IfIndex) -> Option<&Shield> {
        self.own.get(&interface).unwrap_or(&self.everywhere).as_ref()
    }

    /// True if any interface requires signed messages.
    pub fn any(&self) -> bool {
        self.everywhere.is_some() || self.own.values().any(Option::is_some)
    }
}

fn shield(auth: &AuthMode) -> Option<Shield> {
    match auth {
        AuthMode::None => None,
        AuthMode::Keys(table) => Some(Shield::new(table.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// A key of 2026 on a node whose clock began in 1970 and was set later: valid only from then on.
    #[test]
    fn keys_are_dated_by_the_calendar() {
        const YEAR: u64 = 365 * 86_400 * 1_000_000_000;
        let lifetime = |from: u64, until: u64| {
            let mut key = IntegrityKey::new(1, Algorithm::HmacSha256, b"a secret of the link");
            (key.from, key.until) = (Time::from_nanos(from * YEAR), Time::from_nanos(until * YEAR));
            AuthMode::Keys(KeyTable::new(vec![key]).unwrap())
        };
        let good = |auth: &AuthMode, now: Time| match auth {
            AuthMode::Keys(table) => table.keys[0].is_valid(now, Span::ZERO),
            AuthMode::None => false,
        };
        let (auth, now) = (lifetime(56, 57), Time::from_nanos(60_000_000_000));
        assert!(!good(&auth.by_clock(0), now));
        let ahead = (YEAR * 56 + YEAR / 2) as i64;
        assert!(good(&auth.by_clock(ahead), now));
        assert!(!good(&lifetime(50, 51).by_clock(ahead), now), "over");
        assert!(!good(&auth.by_clock(-ahead), now), "back again");
        let always =
            AuthMode::Keys(KeyTable::new(vec![IntegrityKey::new(1, Algorithm::HmacSha256, b"always")]).unwrap());
        assert_eq!(always.by_clock(ahead), always);
    }
}
