//! Counters and rates of messages in and out, by interface and type, counted where they are read and written.
//!
//! Counting is by seconds: a rate is over the last ten whole ones, so that it does not jump with each refresh.

use std::collections::BTreeMap;
use std::net::IpAddr;
use terms::{IfIndex, Time};

/// The number of whole seconds in a rate.
pub const OVER: u64 = 10;
/// The most addresses that are counted one by one; a sender that is no neighbour counts as one too.
const MOST_PEERS: usize = 4096;

/// All counters.
#[derive(Debug, Default)]
pub struct Signalling {
    types: BTreeMap<(Option<IfIndex>, u8), Both>,
    peers: BTreeMap<(IfIndex, IpAddr), PeerMessages>,
}

/// Messages of one type on one interface.
#[derive(Clone, Copy, Debug, Default)]
pub struct Both {
    /// Messages that came in.
    pub received: RateCounter,
    /// Messages that went out.
    pub sent: RateCounter,
}

/// A counter that remembers the last seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateCounter {
    /// All events.
    pub total: u64,
    /// The most in one second.
    pub peak: u64,
    /// The second that is being counted, and those before it, by second modulo their number.
    ring: [u32; OVER as usize + 1],
    second: u64,
}

/// Messages whose IP header names one address.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerMessages {
    /// Messages with this source.
    pub received: u64,
    /// Messages with this destination.
    pub sent: u64,
    /// The time of the last message from it.
    pub heard: Option<Time>,
}

impl RateCounter {
    fn add(&mut self, now: Time) {
        self.turn(now);
        self.total += 1;
        let slot = &mut self.ring[(self.second % (OVER + 1)) as usize];
        *slot = slot.saturating_add(1);
        self.peak = self.peak.max(u64::from(*slot));
    }

    /// Clears the counters of seconds that are over.
    fn turn(&mut self, now: Time) {
        let second = now.as_secs();
        let passed = second.saturating_sub(self.second).min(OVER + 1);
        for back in 0..passed {
            self.ring[((second - back) % (OVER + 1)) as usize] = 0;
        }
        self.second = self.second.max(second);
    }

    /// The rate per second, over the last whole seconds.
    pub fn rate(mut self, now: Time) -> f64 {
        self.turn(now);
        let current = (self.second % (OVER + 1)) as usize;
        let whole = self.ring.iter().enumerate().filter(|(slot, _)| *slot != current);
        whole.map(|(_, n)| u64::from(*n)).sum::<u64>() as f64 / OVER as f64
    }
}

impl Signalling {
    /// Counts a message of type `kind` that came.
    pub fn came(&mut self, now: Time, iif: IfIndex, src: IpAddr, kind: u8) {
        self.types.entry((Some(iif), kind)).or_default().received.add(now);
        if let Some(peer) = self.peer(iif, src) {
            peer.received += 1;
            peer.heard = Some(now);
        }
    }

    /// Counts a message of type `kind` that went.
    pub fn went(&mut self, now: Time, oif: Option<IfIndex>, dst: IpAddr, kind: u8) {
        self.types.entry((oif, kind)).or_default().sent.add(now);
        if let Some(peer) = oif.and_then(|oif| self.peer(oif, dst)) {
            peer.sent += 1;
        }
    }

    fn peer(&mut self, interface: IfIndex, addr: IpAddr) -> Option<&mut PeerMessages> {
        let room = self.peers.len() < MOST_PEERS;
        match self.peers.entry((interface, addr)) {
            std::collections::btree_map::Entry::Occupied(known) => Some(known.into_mut()),
            std::collections::btree_map::Entry::Vacant(new) => room.then(|| new.insert(PeerMessages::default())),
        }
    }

    /// The counters of an address.
    pub fn of_peer(&self, interface: IfIndex, addr: IpAddr) -> PeerMessages {
        self.peers.get(&(interface, addr)).copied().unwrap_or_default()
    }

    /// The counters, by interface (`None`: sent by the routing table) and type number.
    pub fn by_type(&self) -> impl Iterator<Item = (Option<IfIndex>, u8, &Both)> {
        self.types.iter().map(|(&(interface, kind), both)| (interface, kind, both))
    }

    /// The number of messages in and out of an interface.
    pub fn total(&self, interface: IfIndex) -> (u64, u64) {
        let on = self.types.range((Some(interface), 0)..=(Some(interface), u8::MAX));
        on.fold((0, 0), |(came, went), (_, both)| (came + both.received.total, went + both.sent.total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use terms::Span;

    const IIF: IfIndex = IfIndex(3);
    const SRC: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_secs(1000) + Span::from_millis(ms)
    }

    #[test]
    fn a_rate_is_over_ten_whole_seconds() {
        let mut signalling = Signalling::default();
        for second in 0..10u64 {
            for n in 0..30 {
                signalling.came(at(second * 1000 + n * 33), IIF, SRC, 1);
            }
        }
        let rate = |signalling: &Signalling, ms| signalling.by_type().next().unwrap().2.received.rate(at(ms));
        assert_eq!(rate(&signalling, 9_999), 27.0, "the second that runs is not counted: nine of ten");
        assert_eq!(rate(&signalling, 10_000), 30.0);
        assert_eq!(rate(&signalling, 15_500), 15.0);
        assert_eq!(rate(&signalling, 20_500), 0.0);
        assert_eq!(rate(&signalling, 1_000_000), 0.0, "a long silence");
        signalling.came(at(1_000_000), IIF, SRC, 1);
        assert_eq!(rate(&signalling, 1_001_000), 0.1);
        let both = signalling.by_type().next().unwrap().2;
        assert_eq!((both.received.total, both.received.peak), (301, 30));
        assert_eq!(signalling.total(IIF), (301, 0));
    }

    #[test]
    fn addresses_are_limited() {
        let mut signalling = Signalling::default();
        for n in 0..10_000u32 {
            signalling.came(at(0), IIF, IpAddr::V4(Ipv4Addr::from_bits(n)), 1);
        }
        assert_eq!(signalling.peers.len(), MOST_PEERS);
        assert_eq!(signalling.of_peer(IIF, IpAddr::V4(Ipv4Addr::from_bits(5))).received, 1);
    }
}
