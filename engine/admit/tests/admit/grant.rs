//! Grants: the ledger sees one slot, the inside never exceeds it, and a plane that follows a new division step by
//! step never carries more than the grant.

use admit::{Denied, Grant, Inside, Limits, PartChange, PartId, SlotOffer, SlotTable};
use proptest::prelude::*;
use std::collections::BTreeMap;
use terms::{Misuse, Rate, Time, Window};

fn bps(rate: u64) -> Rate {
    Rate::from_bps(rate)
}

fn table() -> SlotTable {
    SlotTable::new(SlotOffer::of(bps(100)), Limits::default())
}

fn grant(table: &mut SlotTable, rate: u64, inside: Inside) -> Grant {
    Grant::take(table, Window::open(Time::ZERO).unwrap(), bps(rate), inside, 4).unwrap()
}

#[test]
fn the_ledger_sees_only_the_grant() {
    let mut table = table();
    let mut grant = grant(&mut table, 60, Inside::Exact);
    let before = table.digest();
    let a = grant.add(bps(40)).unwrap();
    assert_eq!(grant.add(bps(21)), Err(Denied::Capacity { asked: bps(21), free: bps(20) }));
    let b = grant.add(bps(20)).unwrap();
    assert_eq!(table.digest(), before);
    assert_eq!((grant.free(), table.free_to_open()), (Rate::ZERO, bps(40)));
    assert_eq!(grant.remove(a), Ok(bps(40)));
    assert_eq!(grant.remove(a), Err(Misuse::UnknownHandle));
    assert_eq!(grant.parts().collect::<Vec<_>>(), [(b, bps(20))]);
    grant.give_back(&mut table);
    assert_eq!(table.free_to_open(), bps(100));
}

#[test]
fn decreases_come_before_increases() {
    let mut table = table();
    let mut grant = grant(&mut table, 60, Inside::Exact);
    let [a, b, c] = [30, 20, 10].map(|rate| grant.add(bps(rate)).unwrap());
    let changes = grant.redivide(&[(a, bps(40)), (b, bps(20)), (c, Rate::ZERO)]).unwrap();
    let change = |part, from, to| PartChange { part, from: bps(from), to: bps(to) };
    assert_eq!(changes, [change(c, 10, 0), change(a, 30, 40)]);
    assert_eq!(grant.redivide(&[(a, bps(41))]), Err(Denied::Capacity { asked: bps(61), free: bps(60) }));
    assert_eq!(grant.redivide(&[(c, bps(1))]), Err(Denied::Misuse(Misuse::UnknownHandle)));
    assert_eq!(grant.parts().collect::<Vec<_>>(), [(a, bps(40)), (b, bps(20))]);
}

#[test]
fn a_grant_grows_in_the_ledger_and_never_shrinks_below_its_inside() {
    let mut table = table();
    let mut grant = grant(&mut table, 60, Inside::Exact);
    grant.add(bps(50)).unwrap();
    assert_eq!(grant.resize(&mut table, bps(101)), Err(Denied::Capacity { asked: bps(41), free: bps(40) }));
    assert_eq!(grant.resize(&mut table, bps(49)), Err(Denied::Capacity { asked: bps(50), free: bps(49) }));
    grant.resize(&mut table, bps(100)).unwrap();
    assert_eq!((grant.free(), table.free_to_open()), (bps(50), Rate::ZERO));
    grant.resize(&mut table, bps(50)).unwrap();
    assert_eq!((grant.rate(), grant.free(), table.free_to_open()), (bps(50), Rate::ZERO, bps(50)));
}

#[test]
fn a_statistical_inside_may_add_up_to_more_and_says_so() {
    let mut table = table();
    let mut grant = grant(&mut table, 60, Inside::Statistical);
    for _ in 0..4 {
        grant.add(bps(60)).unwrap();
    }
    assert_eq!(grant.inside(), Inside::Statistical);
    let first = grant.parts().next().unwrap().0;
    let larger_than_all = Err(Denied::Capacity { asked: bps(61), free: bps(60) });
    assert_eq!(grant.redivide(&[(first, bps(61))]), larger_than_all, "no part alone exceeds the grant");
    assert_eq!(grant.add(bps(1)), Err(Denied::Limit { what: "parts of a grant", limit: 4 }));
    assert_eq!(grant.resize(&mut table, bps(59)), Err(Denied::Capacity { asked: bps(60), free: bps(59) }));
    assert_eq!(table.peak(Time::ZERO, Time::FOREVER), bps(60));
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn no_division_exceeds_the_grant(steps in prop::collection::vec((0..6u64, 0..40u64, 0..6u64, 0..40u64), 1..60)) {
        let mut table = table();
        let mut grant = grant(&mut table, 60, Inside::Exact);
        let mut plane: BTreeMap<PartId, u64> = BTreeMap::new();
        for (p, x, q, y) in steps {
            if let Ok(part) = grant.add(bps(x)) {
                plane.insert(part, x);
            }
            if let Ok(changes) = grant.redivide(&[(PartId(p), bps(x)), (PartId(q), bps(y))]) {
                for change in changes {
                    prop_assert_eq!(plane.insert(change.part, change.to.as_bps()), Some(change.from.as_bps()));
                    prop_assert!(plane.values().sum::<u64>() <= 60, "a plane that follows carries too much");
                }
            }
            plane.retain(|_, rate| *rate > 0);
            let said: BTreeMap<PartId, u64> = grant.parts().map(|(part, rate)| (part, rate.as_bps())).collect();
            prop_assert_eq!(&said, &plane);
            prop_assert_eq!(grant.free().as_bps(), 60 - plane.values().sum::<u64>());
        }
    }
}
