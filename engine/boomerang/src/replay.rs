//! Replay protection for AUTH: a sequence number counts once in each direction; the last 64 in any order.

use alloc::collections::BTreeMap;
use core::net::IpAddr;
use wire::boomerang::TravelDirection;

/// The most replay windows, one for each key, initiating node and direction; later ones are not proven.
const MOST: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Replays(BTreeMap<(u32, IpAddr, TravelDirection), Window>);

#[derive(Debug)]
struct Window {
    top: u64,
    seen: u64,
}

impl Replays {
    /// True if a number is new; it is recorded.
    pub fn is_new(&mut self, key: u32, initiator: IpAddr, leg: TravelDirection, sequence: u64) -> bool {
        let who = (key, initiator, leg);
        let Some(window) = self.0.get_mut(&who) else {
            let room = self.0.len() < MOST;
            if room {
                self.0.insert(who, Window { top: sequence, seen: 1 });
            }
            return room;
        };
        if sequence > window.top {
            let shift = sequence - window.top;
            window.seen = if shift < 64 { window.seen << shift | 1 } else { 1 };
            window.top = sequence;
            return true;
        }
        let bit = 1u64.checked_shl(u32::try_from(window.top - sequence).unwrap_or(64)).unwrap_or(0);
        let new = bit != 0 && window.seen & bit == 0;
        window.seen |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_once_and_old_ones_never() {
        let mut replays = Replays::default();
        let mut new = |leg, n| replays.is_new(1, [10, 0, 0, 1].into(), leg, n);
        assert!(new(TravelDirection::Request, 100) && !new(TravelDirection::Request, 100));
        assert!(new(TravelDirection::Reply, 100), "the other direction counts for itself");
        assert!(
            new(TravelDirection::Request, 99)
                && !new(TravelDirection::Request, 99)
                && new(TravelDirection::Request, 163)
        );
        assert!(
            !new(TravelDirection::Request, 99)
                && new(TravelDirection::Request, 101)
                && !new(TravelDirection::Request, 1)
        );
        assert!(new(TravelDirection::Request, u64::MAX) && !new(TravelDirection::Request, 163));
    }
}
