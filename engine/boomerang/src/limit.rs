//! Limits on messages: arrays of token buckets, indexed by a hash of the source. They never grow, and no
//! source can fill them; two sources in one bucket share it.
//!
//! There are three arrays, each on its own: for members, which AUTH has proven; for known sessions, whatever
//! the source of their messages, because a stranger does not know them; and for all others, by the source
//! address that a message claims and the interface that it came in by.

use crate::table::bits;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{IfIndex, Time};

/// The cost of a message in tokens, and the extra cost of a new session.
pub(crate) const MESSAGE: u32 = 1;
pub(crate) const NEW: u32 = 9;

/// The bucket that pays for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Account {
    /// None: the message starts at this node.
    Own,
    /// The bucket of a source that AUTH has proven.
    Member(IpAddr),
    /// The bucket of an existing session, by the keyed hash of its block.
    Known(u64),
    /// The bucket of an unproven source: the claimed address and the incoming interface.
    Stranger(IpAddr, IfIndex),
}

#[derive(Debug)]
pub(crate) struct Limits {
    members: Buckets,
    known: Buckets,
    strangers: Buckets,
    rate: u32,
    keys: [u64; 2],
}

/// The number of buckets for sources; there are rarely so many at a time.
const SOURCES: usize = 4_096;
/// The number of buckets for sessions.
const SESSIONS: usize = 16_384;
/// A bucket's clock ticks in 2^20 ns, about a millisecond.
const TICK: u32 = 20;

impl Limits {
    pub fn new(rate: u32, keys: [u64; 2]) -> Limits {
        let of = |count| Buckets(vec![(rate, 0); count]);
        Limits { members: of(SOURCES), known: of(SESSIONS), strangers: of(SOURCES), rate, keys }
    }

    /// Takes `cost` tokens; false if the account has too few.
    pub fn take(&mut self, now: Time, account: Account, cost: u32) -> bool {
        let (buckets, hash) = match account {
            Account::Own => return true,
            Account::Member(source) => (&mut self.members, place(self.keys, source, 0)),
            Account::Known(hash) => (&mut self.known, hash.wrapping_mul(self.keys[1] | 1)),
            Account::Stranger(source, iif) => (&mut self.strangers, place(self.keys, source, iif.0)),
        };
        buckets.take(now, hash >> 48, cost, self.rate)
    }
}

/// The index of a source's bucket, in the upper bits.
fn place(keys: [u64; 2], source: IpAddr, iif: u32) -> u64 {
    let (bits, odd) = (bits(source), keys[1] | 1);
    let mixed = (bits as u64 ^ keys[0]).wrapping_mul(odd);
    let mixed = (mixed ^ (bits >> 64) as u64 ^ mixed >> 29).wrapping_mul(odd);
    (mixed ^ u64::from(iif) ^ mixed >> 31).wrapping_mul(odd)
}

/// Per bucket: its tokens, and the tick at which they were counted.
#[derive(Debug)]
struct Buckets(Vec<(u32, u32)>);

impl Buckets {
    fn take(&mut self, now: Time, place: u64, cost: u32, rate: u32) -> bool {
        let place = place as usize % self.0.len();
        let (tokens, then) = &mut self.0[place];
        let tick = (now.as_nanos() >> TICK) as u32;
        let gained = (u64::from(tick.wrapping_sub(*then)) * u64::from(rate)) >> 10;
        if gained > 0 {
            *tokens = (u64::from(*tokens) + gained).min(u64::from(rate)) as u32;
            *then = tick;
        }
        let enough = *tokens >= cost;
        if enough {
            *tokens -= cost;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Span;

    const KEYS: [u64; 2] = [0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

    fn said(limits: &mut Limits, now: Time, who: Account) -> usize {
        (0..1_000).filter(|_| limits.take(now, who, 1)).count()
    }

    #[test]
    fn a_source_may_say_a_seconds_worth_at_once_and_its_rate_after_that() {
        let mut limits = Limits::new(100, KEYS);
        let stranger = |last| Account::Stranger(IpAddr::from([10, 0, 0, last]), IfIndex(1));
        let mut now = Time::from_nanos(5_000_000_000_000);
        assert_eq!(said(&mut limits, now, stranger(1)), 100);
        assert_eq!(said(&mut limits, now, stranger(2)), 100, "somebody else has his own");
        now = now + Span::from_millis(500);
        assert!((44..=52).contains(&said(&mut limits, now, stranger(1))));
        now = now + Span::from_secs(3_600);
        assert_eq!(said(&mut limits, now, stranger(1)), 100, "it does not add up");
    }

    #[test]
    fn nobody_uses_up_anothers() {
        let mut limits = Limits::new(100, KEYS);
        let (now, source) = (Time::from_nanos(5_000_000_000_000), IpAddr::from([10, 0, 0, 1]));
        let accounts = [
            Account::Stranger(source, IfIndex(1)),
            Account::Stranger(source, IfIndex(2)),
            Account::Member(source),
            Account::Known(1),
            Account::Known(0x9e37_79b9_7f4a_7c15),
        ];
        for account in accounts {
            assert_eq!(said(&mut limits, now, account), 100, "{account:?}");
        }
        assert_eq!(said(&mut limits, now, Account::Own), 1_000);
    }
}
