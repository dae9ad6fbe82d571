//! The controlled-load class grows and shrinks in steps, so that most reservations change no class at all.
//!
//! The class may be guaranteed more than its reservations need. The excess is lent like every unused rate, and
//! it is no promise to anybody: the ledger never sees it, and another class takes it back as soon as it needs
//! it. The next guarantee depends only on what the class has, what it needs, and what the others leave.

use core::cmp::min;
use terms::{Bytes, Rate};
use traffic::plan::QueueSpec;

/// A step is this part of the link.
const STEPS: u64 = 16;
/// A guarantee shrinks only when it is so many steps above the one that would do, so that a reservation that
/// comes and goes changes no class.
const SLACK: u64 = 2;
/// A queue grows to so many times its need.
const QUEUE_GROWTH: u64 = 2;
/// A queue shrinks only when it is longer than so many times its need.
const QUEUE_SLACK: u64 = 16;

/// The next guarantee of a class that needs `needs` and has `has`, on a link of rate `link`. The others leave it
/// `room`; if that is less than its need, the need prevails. `empty`: nothing is reserved, so no step is taken.
pub(crate) fn rate(link: Rate, needs: Rate, room: Rate, has: Option<Rate>, empty: bool) -> Rate {
    let room = room.max(needs);
    let step = link.share(1, STEPS).max(Rate::from_bps(1)).as_bps();
    let rounded = Rate::from_bps(needs.as_bps().div_ceil(step).saturating_mul(step));
    let most = min(room, rounded.saturating_add(Rate::from_bps(step.saturating_mul(SLACK))));
    if let Some(has) = has.filter(|has| (needs..=most).contains(has)) {
        return has;
    }
    if empty {
        return needs;
    }
    // Best effort keeps half of what it could lose, so the steps become shorter as the link fills.
    rounded.min(needs.saturating_add(room.saturating_sub(needs).share(1, 2)))
}

/// The next limits of a queue that needs `needs` and has `has`. Both limits grow alike, so that the one that
/// full packets reach first stays the same. `empty`: nothing is reserved, so no step is taken.
pub(crate) fn queue(needs: QueueSpec, has: Option<QueueSpec>, empty: bool) -> QueueSpec {
    let fits = |has: u64, needs: u64| (needs..=needs.saturating_mul(QUEUE_SLACK)).contains(&has);
    let enough =
        |has: &QueueSpec| fits(has.packets.into(), needs.packets.into()) && fits(has.bytes.get(), needs.bytes.get());
    match has.filter(enough) {
        Some(has) => has,
        None if empty => needs,
        None => QueueSpec {
            packets: needs.packets.saturating_mul(QUEUE_GROWTH as u32),
            bytes: Bytes::new(needs.bytes.get().saturating_mul(QUEUE_GROWTH)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Rate = Rate::from_mbps(16);
    const ROOM: Rate = Rate::from_mbps(15);

    fn mbps(n: u64) -> Rate {
        Rate::from_mbps(n)
    }

    #[test]
    fn a_guarantee_grows_to_the_next_step_and_stays_while_it_is_enough() {
        let first = rate(LINK, Rate::from_kbps(100), ROOM, Some(Rate::from_kbps(8)), false);
        assert_eq!(first, mbps(1));
        assert_eq!(rate(LINK, mbps(1), ROOM, Some(first), false), first);
        assert_eq!(rate(LINK, Rate::from_kbps(1_001), ROOM, Some(first), false), mbps(2));
    }

    #[test]
    fn it_shrinks_only_after_two_steps() {
        assert_eq!(rate(LINK, mbps(3), ROOM, Some(mbps(5)), false), mbps(5));
        assert_eq!(rate(LINK, mbps(2), ROOM, Some(mbps(5)), false), mbps(2));
        assert_eq!(rate(LINK, Rate::from_kbps(8), ROOM, Some(mbps(3)), true), mbps(3));
        assert_eq!(rate(LINK, Rate::from_kbps(8), ROOM, Some(mbps(4)), true), Rate::from_kbps(8));
    }

    #[test]
    fn another_class_takes_the_excess_back_and_never_the_need() {
        assert_eq!(
            rate(LINK, Rate::from_kbps(3_100), Rate::from_kbps(3_500), Some(mbps(4)), false),
            Rate::from_kbps(3_300)
        );
        assert_eq!(rate(LINK, mbps(3), mbps(2), Some(mbps(4)), false), mbps(3), "the need prevails");
        assert_eq!(rate(LINK, Rate::from_kbps(14_500), ROOM, None, false), Rate::from_kbps(14_750), "half of the rest");
    }

    #[test]
    fn extremes_are_numbers() {
        for (link, needs) in [(Rate::ZERO, Rate::ZERO), (Rate::INFINITE, Rate::INFINITE), (Rate::ZERO, Rate::INFINITE)]
        {
            assert!(rate(link, needs, Rate::INFINITE, None, false) >= needs);
        }
        let most = QueueSpec { packets: u32::MAX, bytes: Bytes::new(u64::MAX) };
        assert_eq!(queue(most, None, false), most);
    }

    #[test]
    fn a_queue_doubles_and_shrinks_late() {
        let of = |packets: u32| QueueSpec { packets, bytes: Bytes::new(u64::from(packets) * 1_000) };
        assert_eq!(queue(of(32), None, true), of(32), "an empty class takes no step");
        assert_eq!(queue(of(40), Some(of(32)), false), of(80));
        assert_eq!(queue(of(80), Some(of(80)), false), of(80));
        assert_eq!(queue(of(32), Some(of(512)), true), of(512));
        assert_eq!(queue(of(32), Some(of(513)), true), of(32));
    }
}
