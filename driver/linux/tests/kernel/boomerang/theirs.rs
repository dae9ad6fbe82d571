//! Sessions that user space has: the program tells all their messages, and gets them back as they were. And the table's size.

use super::bed::{Bed, Say, bed, granted, open_in};
use crate::scratch::in_netns;
use linux::boomerang::{DROP, Reason, rows_for};
use terms::Rate;
use wire::boomerang::Rates;

const MBIT: u32 = 1_000_000;

fn told(bed: &mut Bed, say: &Say) -> Reason {
    assert_eq!(bed.hear(say).verdict, DROP, "{say:?}");
    let told = bed.path.next_told().expect("told");
    assert_eq!(told.packet, say.packet());
    told.reason
}

#[test]
fn what_user_space_has_is_told_whatever_its_form() {
    in_netns(|| {
        let mut bed = bed(64, Rate::from_mbps(10));
        let east = bed.east;
        for say in [Say::flow(1, 3 * MBIT, MBIT), Say::flow(1, 3 * MBIT, MBIT).v6()] {
            assert!(bed.path.mark(east, &say.flow) && bed.path.mark(east, &say.flow), "once");
            assert_eq!(bed.path.marked(), [(east, say.flow)]);
            let away = Say { rates: vec![Rates::default()], ..say.clone() };
            for say in [say.clone(), away, say.clone().nack(), say.clone().reply().nack()] {
                assert_eq!(told(&mut bed, &say), Reason::Rare, "{say:?}");
            }
            assert_eq!(told(&mut bed, &say.clone().reply()), Reason::Stranger, "its request was not decided here");
            // A mark is no session: it has nothing, is not swept, and the next agent finds it.
            assert_eq!((bed.path.total(), bed.path.free(east)), ((0, Rate::ZERO), Rate::from_mbps(10)));
            let late = bed.tick() + (1 << 24);
            assert!(bed.path.sweep(late, usize::MAX).is_empty());
            assert_eq!(open_in(bed.dir(), 64).marked(), [(east, say.flow)]);
            assert_eq!(bed.heard(&Say::flow(9, MBIT, 0)), granted(MBIT, 0), "another flow");
            assert_eq!(bed.heard(&Say::flow(9, 0, 0)), granted(0, 0));
            bed.path.unmark(east, &say.flow);
            assert!(bed.path.marked().is_empty());
            assert_eq!(bed.heard(&say), granted(3 * MBIT, MBIT), "it is the program's");
            assert!(!bed.path.mark(east, &say.flow), "what the program has is taken, not marked");
            back_and_forth(&mut bed, &say);
            assert_eq!(bed.heard(&Say { rates: vec![Rates::default()], ..say.transaction(3) }), granted(0, 0));
            assert_eq!(bed.path.free(east), Rate::from_mbps(10));
        }
    });
}

/// A session of the program's goes to user space and comes back as it was.
fn back_and_forth(bed: &mut Bed, say: &Say) {
    let before = bed.sessions();
    let taken = bed.path.take_over(bed.east, &say.flow).expect("it was there");
    assert_eq!((taken.rate(), bed.path.free(bed.east)), (Rate::from_mbps(3), Rate::from_mbps(7)));
    assert!(bed.sessions().is_empty() && bed.path.take_over(bed.east, &say.flow).is_none());
    assert_eq!(told(bed, say), Reason::Rare);
    bed.path.put_back(taken);
    assert_eq!(bed.sessions().len(), 1);
    assert_eq!((bed.sessions()[0].tag, bed.sessions()[0].rate), (before[0].tag, before[0].rate));
    assert_eq!(bed.heard(&say.clone().transaction(2)), granted(3 * MBIT, MBIT), "refreshed");
}

#[test]
fn a_table_takes_another_size_when_nobody_is_in_it() {
    assert_eq!([1, 48_000, 1_000_000, 12_000_000].map(rows_for), [1 << 8, 1 << 14, 1 << 19, 1 << 22]);
    in_netns(|| {
        let bed = bed(64, Rate::from_mbps(10));
        assert_eq!((bed.path.rows(), bed.heard(&Say::flow(1, MBIT, 0))), (64, granted(MBIT, 0)));
        assert_eq!(open_in(bed.dir(), 256).rows(), 64, "there is a session in it");
        assert_eq!(bed.heard(&Say::flow(1, 0, 0)), granted(0, 0));
        let next = open_in(bed.dir(), 256);
        assert_eq!((next.rows(), next.total().0), (256, 0));
        assert!(next.hanging(bed.west).is_none(), "what hung there went with the old table");
        assert_eq!(open_in(bed.dir(), 256).rows(), 256);
    });
}
