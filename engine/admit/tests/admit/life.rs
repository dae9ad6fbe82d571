//! The life of a slot (FAULTS.md I8): every edge, every non-edge, and handles that are over.

use admit::state::After;
use admit::{Limits, SlotChange, SlotId, SlotNotice, SlotOffer, SlotState, SlotStep, SlotTable};
use std::collections::BTreeSet;
use terms::{Misuse, Rate, Span, Time, Window};

const EDGES: [(SlotState, SlotStep, After); 12] = [
    (SlotState::Held, SlotStep::Promise, After::Goes(SlotState::Promised)),
    (SlotState::Held, SlotStep::Modify, After::Goes(SlotState::Held)),
    (SlotState::Held, SlotStep::Release, After::Over),
    (SlotState::Held, SlotStep::Expire, After::Over),
    (SlotState::Promised, SlotStep::Commit, After::Goes(SlotState::Committed)),
    (SlotState::Promised, SlotStep::Release, After::Over),
    (SlotState::Committed, SlotStep::Modify, After::Goes(SlotState::Committed)),
    (SlotState::Committed, SlotStep::Release, After::Over),
    (SlotState::Committed, SlotStep::Close, After::Over),
    (SlotState::Open, SlotStep::Modify, After::Goes(SlotState::Open)),
    (SlotState::Open, SlotStep::Release, After::Over),
    (SlotState::Open, SlotStep::Displace, After::Over),
];

const ONE: Rate = Rate::from_bps(1);

fn table() -> SlotTable {
    SlotTable::new(SlotOffer::of(Rate::from_mbps(1)), Limits::default())
}

fn window() -> Window {
    Window::new(Time::from_nanos(10), Time::from_nanos(20)).unwrap()
}

/// A slot in this state.
fn slot_in(table: &mut SlotTable, state: SlotState) -> SlotId {
    if state == SlotState::Open {
        return table.open(ONE).unwrap();
    }
    let id = table.hold(window(), ONE, Time::from_nanos(5)).unwrap();
    if state != SlotState::Held {
        table.promise(id).unwrap();
    }
    if state == SlotState::Committed {
        table.commit(id).unwrap();
    }
    id
}

#[test]
fn the_table_of_edges_is_this_one() {
    for state in SlotState::ALL {
        for step in SlotStep::ALL {
            let edge = EDGES.iter().find(|edge| (edge.0, edge.1) == (state, step)).map(|edge| edge.2);
            assert_eq!(state.after(step).ok(), edge, "{state:?} {step:?}");
        }
    }
}

#[test]
fn the_slot_table_keeps_to_it() {
    for state in SlotState::ALL {
        for step in [SlotStep::Promise, SlotStep::Commit, SlotStep::Release, SlotStep::Modify] {
            let mut table = table();
            let id = slot_in(&mut table, state);
            assert_eq!(table.get(id).unwrap().state, state);
            let before = table.digest();
            let said = match step {
                SlotStep::Promise => table.promise(id),
                SlotStep::Commit => table.commit(id),
                SlotStep::Release => table.release(id).map(drop),
                _ => table.modify(id, SlotChange::amount(ONE)).map(drop).map_err(|_| Misuse::WrongState),
            };
            match state.after(step) {
                Ok(After::Goes(next)) => assert_eq!(table.get(id).map(|slot| slot.state), Ok(next)),
                Ok(After::Over) => assert_eq!(table.get(id), Err(Misuse::UnknownHandle)),
                Err(misuse) => assert_eq!((said, table.digest()), (Err(misuse), before), "{state:?} {step:?}"),
            }
            assert_eq!(table.audit(), Ok(()));
        }
    }
}

#[test]
fn what_is_over_is_over() {
    let mut table = table();
    for state in SlotState::ALL {
        let id = slot_in(&mut table, state);
        table.release(id).unwrap();
        assert_eq!(table.get(id), Err(Misuse::UnknownHandle));
        assert_eq!(table.release(id), Err(Misuse::UnknownHandle));
        assert_eq!(table.promise(id), Err(Misuse::UnknownHandle));
        assert_eq!(table.commit(id), Err(Misuse::UnknownHandle));
        assert!(table.modify(id, SlotChange::amount(ONE)).is_err());
    }
}

#[test]
fn a_stale_handle_is_never_another_slot() {
    let mut table = table();
    let mut seen = BTreeSet::new();
    for _ in 0..1_000 {
        let id = table.open(ONE).unwrap();
        assert!(seen.insert(id), "{id:?} was given out twice");
        assert_eq!(SlotId::from_u64(id.as_u64()), id);
        table.release(id).unwrap();
    }
    let last = table.open(ONE).unwrap();
    for id in seen {
        assert_eq!(table.release(id), Err(Misuse::UnknownHandle));
    }
    for guess in (0..64).map(|bit| 1u64 << bit).chain([u64::MAX]) {
        if SlotId::from_u64(guess) != last {
            assert_eq!(table.get(SlotId::from_u64(guess)), Err(Misuse::UnknownHandle));
        }
    }
}

#[test]
fn a_loose_slot_makes_way_for_a_booking_with_notice() {
    let mb = Rate::from_mbps;
    let holding = Some(Span::from_secs(60));
    let offer = SlotOffer { capacity: mb(10), signalled_share: None, assumed_holding: holding };
    let mut table = SlotTable::new(offer, Limits::default());
    let at = |second: u64| Time::from_nanos(second * Span::NANOS_PER_SEC);
    let old = table.open(mb(6)).unwrap();
    table.expire(at(30));
    let young = table.open(mb(4)).unwrap();
    let tomorrow = Window::new(at(86_400), at(90_000)).unwrap();
    let soon = Window::new(at(59), at(100)).unwrap();
    assert!(table.hold(soon, mb(1), Time::FOREVER).is_err(), "both are sheltered still");
    table.grant(tomorrow, mb(7)).unwrap();
    table.expire(at(80_000));
    assert_eq!((table.poll(), table.open_sum()), (None, mb(10)), "nobody needs their place yet");
    assert!(table.open(Rate::from_bps(1)).is_err(), "no signalled slot takes their place");
    assert_eq!(table.wake_at(), Some(at(86_400)));
    table.expire(at(86_400));
    assert!(matches!(table.poll(), Some(SlotNotice::Displaced { id, .. }) if id == old));
    assert!(matches!(table.poll(), Some(SlotNotice::Displaced { id, .. }) if id == young));
    assert!(matches!(table.poll(), Some(SlotNotice::Opens { .. })));
    assert_eq!((table.poll(), table.free_to_open(), table.audit()), (None, mb(3), Ok(())));
}

#[test]
fn a_promise_displaces_too_and_the_table_wakes_for_it() {
    let offer = SlotOffer { capacity: ONE, signalled_share: None, assumed_holding: Some(Span::ZERO) };
    let mut table = SlotTable::new(offer, Limits::default());
    let loose = table.open(ONE).unwrap();
    assert_eq!(table.wake_at(), None, "loose at once, and nothing to wait for");
    let later = Window::new(Time::from_nanos(30), Time::from_nanos(40)).unwrap();
    table.hold(later, ONE, Time::from_nanos(25)).unwrap();
    let promised = table.hold(window(), ONE, Time::from_nanos(5)).unwrap();
    table.promise(promised).unwrap();
    assert_eq!(table.wake_at(), Some(Time::from_nanos(10)), "the promised window comes before the hold's deadline");
    table.expire(Time::from_nanos(10));
    assert!(matches!(table.poll(), Some(SlotNotice::Displaced { id, .. }) if id == loose));
    assert_eq!((table.poll(), table.audit()), (None, Ok(())));
}

#[test]
fn what_is_loose_goes_first_when_capacity_is_lost() {
    let mb = Rate::from_mbps;
    let holding = Some(Span::from_nanos(10));
    let offer = SlotOffer { capacity: mb(10), signalled_share: None, assumed_holding: holding };
    let mut table = SlotTable::new(offer, Limits::default());
    let old = table.open(mb(4)).unwrap();
    table.expire(Time::from_nanos(10));
    let young = table.open(mb(4)).unwrap();
    let ever = Window::open(table.now()).unwrap();
    let shortfall = table.set_capacity(ever, mb(3)).unwrap().unwrap();
    assert_eq!(shortfall.worst, mb(1), "what is sheltered stays, and is missing");
    assert!(matches!(table.poll(), Some(SlotNotice::Displaced { id, .. }) if id == old));
    assert_eq!((table.poll(), table.get(young).is_ok()), (None, true));
}

#[test]
fn without_an_assumed_holding_no_open_slot_is_ever_displaced() {
    let mb = Rate::from_mbps;
    let mut table = SlotTable::new(SlotOffer::of(mb(10)), Limits::default());
    let next_year = Window::new(Time::from_nanos(1 << 54), Time::from_nanos(1 << 55)).unwrap();
    table.grant(next_year, mb(7)).unwrap();
    assert_eq!(table.free_to_open(), mb(3), "an open slot counts under every instant ahead");
    table.open(mb(3)).unwrap();
    assert!(table.hold(next_year, Rate::from_bps(1), Time::FOREVER).is_err());
    assert_eq!(table.available(Time::ZERO, Time::from_nanos(1 << 54)), mb(7));
    table.expire(Time::from_nanos(1 << 54));
    assert!(matches!(table.poll(), Some(SlotNotice::Opens { .. })));
    assert_eq!(table.poll(), None);
}
