//! The fault table of the ledger (FAULTS.md T1 to T9, T14) and the promises that peers break, one story each.
//! Times are seconds, rates Mb/s.

use admit::{Denied, Limits, SlotChange, SlotId, SlotNotice, SlotOffer, SlotState, SlotTable};
use terms::{Misuse, Rate, Span, Time, Window};

fn at(second: u64) -> Time {
    Time::from_nanos(second * Span::NANOS_PER_SEC)
}

fn from_to(start: u64, end: u64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

fn mb(rate: u64) -> Rate {
    Rate::from_mbps(rate)
}

fn table() -> SlotTable {
    SlotTable::new(SlotOffer::of(mb(10)), Limits::default())
}

fn booked(table: &mut SlotTable, window: Window, rate: Rate) -> Result<SlotId, Denied> {
    let id = table.hold(window, rate, Time::FOREVER)?;
    table.promise(id)?;
    table.commit(id)?;
    Ok(id)
}

/// Checks that the refusal is this one, and that it changed nothing.
fn refused<T: core::fmt::Debug>(
    table: &mut SlotTable,
    ask: impl FnOnce(&mut SlotTable) -> Result<T, Denied>,
    why: Denied,
) {
    let before = table.digest();
    assert_eq!(ask(table).unwrap_err(), why);
    assert_eq!((table.digest(), table.poll(), table.audit()), (before, None, Ok(())));
}

#[test]
fn two_that_start_at_the_same_instant_count_twice() {
    let mut table = table();
    for _ in 0..2 {
        booked(&mut table, from_to(10, 20), mb(5)).unwrap();
    }
    assert_eq!(table.peak(at(10), at(11)), mb(10));
    let full = Denied::Capacity { asked: Rate::from_bps(1), free: Rate::ZERO };
    refused(&mut table, |t| t.hold(from_to(10, 20), Rate::from_bps(1), Time::FOREVER), full);
}

#[test]
fn windows_that_touch_do_not_overlap() {
    let mut table = table();
    for i in 0..100 {
        booked(&mut table, from_to(i, i + 1), mb(10)).unwrap();
    }
    assert_eq!(table.peak(at(0), Time::FOREVER), mb(10));
    assert_eq!(table.edges(), 2, "equal neighbours melt into one stretch");
}

/// Slots that overlap the window in turn, never together, leave room beside the larger: a sum over all that overlap
/// the window would refuse this.
#[test]
fn nothing_is_refused_that_fits_at_every_instant() {
    let mut table = table();
    for i in 0..50 {
        booked(&mut table, from_to(2 * i, 2 * i + 1), mb(6)).unwrap();
    }
    booked(&mut table, from_to(0, 100), mb(4)).unwrap();
    assert_eq!(table.available(at(0), at(100)), Rate::ZERO);
    assert_eq!(table.available(at(1), at(2)), mb(6));
}

#[test]
fn t1_windows_that_mean_nothing_or_much() {
    assert_eq!(Window::new(at(5), at(5)), Err(Misuse::EmptyWindow { start: at(5), end: at(5) }));
    let mut table = table();
    table.expire(at(100));
    let past = Denied::Misuse(Misuse::Past { end: at(100), now: at(100) });
    refused(&mut table, |t| t.hold(from_to(90, 100), mb(1), Time::FOREVER), past);
    refused(&mut table, |t| t.hold(from_to(100, 200), mb(1), at(100)), past);
    let skewed = booked(&mut table, from_to(90, 110), mb(10)).unwrap();
    assert_eq!(table.get(skewed).unwrap().window, from_to(100, 110), "what is before now is cut off");
    let century = 100 * 365 * 86_400;
    booked(&mut table, from_to(century, century + 1), mb(10)).unwrap();
    let endless = booked(&mut table, Window::open(at(century + 1)).unwrap(), mb(10)).unwrap();
    assert_eq!(table.peak(at(110), at(century)), Rate::ZERO);
    assert_eq!(table.available(at(110), Time::FOREVER), Rate::ZERO);
    table.release(endless).unwrap();
    let end_of_time = Time::from_nanos(u64::MAX - 1);
    table.expire(end_of_time);
    assert_eq!(table.peak(end_of_time, Time::FOREVER), Rate::ZERO);
    assert!(table.open(mb(10)).is_ok());
}

#[test]
fn t3_rates_that_mean_nothing_or_too_much() {
    let mut table = table();
    let nothing = Denied::Misuse(Misuse::ZeroRate);
    refused(&mut table, |t| t.hold(from_to(0, 1), Rate::ZERO, Time::FOREVER), nothing);
    refused(&mut table, |t| t.open(Rate::ZERO), nothing);
    for huge in [mb(10).saturating_add(Rate::from_bps(1)), Rate::from_bps(i64::MAX as u64), Rate::INFINITE] {
        let too_much = Denied::Capacity { asked: huge, free: mb(10) };
        refused(&mut table, |t| t.hold(from_to(0, 1), huge, Time::FOREVER), too_much);
        refused(&mut table, |t| t.open(huge), too_much);
        refused(&mut table, |t| t.grant(from_to(0, 1), huge), too_much);
    }
    let a = booked(&mut table, from_to(0, 1), mb(4)).unwrap();
    let rate = Rate::INFINITE;
    let too_much = Denied::Capacity { asked: rate.saturating_sub(mb(4)), free: mb(6) };
    refused(&mut table, |t| t.modify(a, SlotChange::amount(rate)), too_much);
    assert_eq!(table.find(rate, Span::from_secs(1), at(0), Time::FOREVER), Ok(None));
}

#[test]
fn t3_sums_do_not_overflow_under_the_largest_capacity() {
    let mut table = SlotTable::new(SlotOffer::of(Rate::INFINITE), Limits::default());
    let half = Rate::from_bps(1 << 61);
    booked(&mut table, from_to(0, 10), half).unwrap();
    let open = table.open(half).unwrap();
    let full = Denied::Capacity { asked: Rate::from_bps(1), free: Rate::ZERO };
    refused(&mut table, |t| t.open(Rate::from_bps(1)), full);
    refused(&mut table, |t| t.adopt(Rate::INFINITE), Denied::Capacity { asked: Rate::INFINITE, free: Rate::ZERO });
    table.release(open).unwrap();
    assert_eq!(table.free_to_open(), half);
}

#[test]
fn t4_capacity_lowered_below_what_is_booked_is_reported() {
    let mut table = table();
    let a = booked(&mut table, from_to(10, 20), mb(8)).unwrap();
    assert_eq!(table.set_capacity(from_to(0, 10), mb(1)).unwrap(), None, "the windows touch");
    let shortfall = table.set_capacity(from_to(15, 30), mb(5)).unwrap().unwrap();
    assert_eq!((shortfall.first, shortfall.worst), (at(15), mb(3)));
    let who: Vec<SlotId> = table.slots_at(shortfall.first).map(|(id, _)| id).collect();
    assert_eq!(who, [a]);
    refused(
        &mut table,
        |t| t.hold(from_to(19, 21), mb(1), Time::FOREVER),
        Denied::Capacity { asked: mb(1), free: Rate::ZERO },
    );
    assert_eq!(table.modify(a, SlotChange::amount(mb(6))).unwrap().amount, mb(6), "shrinking is always possible");
    assert_eq!(table.shortfall().unwrap().worst, mb(1));
    assert_eq!(table.set_capacity(from_to(15, 30), mb(10)).unwrap(), None);
}

#[test]
fn t5_a_change_that_does_not_fit_leaves_the_old() {
    let mut table = table();
    let a = booked(&mut table, from_to(10, 20), mb(6)).unwrap();
    booked(&mut table, from_to(20, 30), mb(6)).unwrap();
    let too_long = SlotChange { end: Some(at(21)), ..SlotChange::default() };
    refused(&mut table, |t| t.modify(a, too_long), Denied::Capacity { asked: mb(6), free: mb(4) });
    let slower = SlotChange { amount: Some(mb(4)), end: Some(at(25)), start: Some(at(5)) };
    let slot = table.modify(a, slower).unwrap();
    assert_eq!((slot.window, slot.amount), (from_to(5, 25), mb(4)));
    assert_eq!(table.peak(at(0), at(100)), mb(10));
}

#[test]
fn t6_a_slot_that_has_begun_keeps_its_start() {
    let mut table = table();
    let a = booked(&mut table, from_to(10, 20), mb(6)).unwrap();
    table.expire(at(12));
    assert!(matches!(table.poll(), Some(SlotNotice::Opens { id, .. }) if id == a));
    let later = SlotChange { start: Some(at(15)), ..SlotChange::default() };
    refused(&mut table, |t| t.modify(a, later), Denied::Misuse(Misuse::WrongState));
    let over = SlotChange { end: Some(at(12)), ..SlotChange::default() };
    refused(&mut table, |t| t.modify(a, over), Denied::Misuse(Misuse::Past { end: at(12), now: at(12) }));
    let whole = SlotChange::window(from_to(11, 14));
    assert_eq!(table.modify(a, whole).unwrap().window, from_to(10, 14));
    table.expire(at(14));
    assert!(matches!(table.poll(), Some(SlotNotice::Closes { id, slot }) if id == a && slot.begun));
}

#[test]
fn t7_release_races_with_start_and_expiry() {
    let mut table = table();
    let a = table.hold(from_to(10, 20), mb(10), at(5)).unwrap();
    assert_eq!(table.wake_at(), Some(at(5)));
    table.expire(at(5));
    assert!(matches!(table.poll(), Some(SlotNotice::Expired { id, .. }) if id == a));
    assert_eq!(table.release(a), Err(Misuse::UnknownHandle));
    assert_eq!(table.promise(a), Err(Misuse::UnknownHandle));
    let b = booked(&mut table, from_to(10, 20), mb(10)).unwrap();
    table.expire(at(10));
    assert!(matches!(table.poll(), Some(SlotNotice::Opens { id, .. }) if id == b));
    table.release(b).unwrap();
    table.expire(at(20));
    assert_eq!(table.poll(), None, "what was released neither closes nor opens again");
}

#[test]
fn t8_a_million_slots_of_one_second() {
    let mut table = SlotTable::new(SlotOffer::of(mb(10)), Limits::default());
    let ids: Vec<SlotId> = (0..1_000_000).map(|i| table.grant(from_to(2 * i, 2 * i + 1), mb(10)).unwrap()).collect();
    assert_eq!(table.edges(), 2_000_000);
    let gap = table.find(mb(1), Span::from_secs(1), at(999_000), Time::FOREVER);
    assert_eq!(gap, Ok(Some(at(999_001))));
    assert_eq!(table.find(mb(1), Span::from_secs(2), at(0), Time::FOREVER), Ok(Some(at(1_999_999))));
    for id in ids.iter().step_by(2).chain(ids.iter().skip(1).step_by(2)) {
        table.release(*id).unwrap();
    }
    assert_eq!((table.edges(), table.len()), (0, 0));
    assert_eq!(table.peak(at(0), Time::FOREVER), Rate::ZERO);
}

#[test]
fn t14_of_a_series_all_or_the_named_ones() {
    let mut table = table();
    booked(&mut table, from_to(30, 31), mb(10)).unwrap();
    let before = table.peak(at(0), Time::FOREVER);
    let series: Vec<_> = (1..=5).map(|i| table.hold(from_to(10 * i, 10 * i + 5), mb(2), at(9))).collect();
    let failed: Vec<usize> = series.iter().enumerate().filter(|(_, held)| held.is_err()).map(|(i, _)| i).collect();
    assert_eq!(failed, [2], "the third occurrence is named");
    for id in series.into_iter().flatten() {
        table.release(id).unwrap();
    }
    assert_eq!((table.peak(at(0), Time::FOREVER), table.edges()), (before, 2));
}

#[test]
fn what_ends_is_told_before_what_begins() {
    let mut table = table();
    let second = booked(&mut table, from_to(20, 30), mb(10)).unwrap();
    let first = booked(&mut table, from_to(10, 20), mb(10)).unwrap();
    table.expire(at(10));
    assert!(matches!(table.poll(), Some(SlotNotice::Opens { id, .. }) if id == first));
    table.expire(at(20));
    let told = [table.poll(), table.poll(), table.poll()];
    assert!(matches!(told, [Some(SlotNotice::Closes { id: a, .. }), Some(SlotNotice::Opens { id: b, .. }), None]
        if a == first && b == second));
    table.expire(at(10));
    assert_eq!((table.now(), table.poll()), (at(20), None), "time does not run backwards");
}

#[test]
fn a_slot_that_nobody_could_open_closes_unopened() {
    let mut table = table();
    let a = booked(&mut table, from_to(10, 20), mb(10)).unwrap();
    table.expire(at(25));
    assert!(matches!(table.poll(), Some(SlotNotice::Closes { id, slot }) if id == a && !slot.begun));
    assert_eq!(table.poll(), None);
}

#[test]
fn a_promise_outlives_its_window_until_it_is_decided() {
    let mut table = table();
    let a = table.hold(from_to(10, 20), mb(10), at(5)).unwrap();
    table.promise(a).unwrap();
    table.expire(at(1_000));
    assert_eq!((table.poll(), table.get(a).map(|slot| slot.state)), (None, Ok(SlotState::Promised)));
    assert_eq!(table.wake_at(), None, "a participant never ends its promise by a timer of its own");
    table.commit(a).unwrap();
    assert_eq!(table.wake_at(), Some(at(10)));
    table.expire(at(1_000));
    assert!(matches!(table.poll(), Some(SlotNotice::Closes { id, slot }) if id == a && !slot.begun));
    assert_eq!((table.is_empty(), table.edges()), (true, 0));
}

#[test]
fn tables_have_limits() {
    let limits = Limits { slots: 3, undecided: 2, capacity_steps: 4 };
    let mut table = SlotTable::new(SlotOffer::of(mb(10)), limits);
    let a = table.hold(from_to(0, 1), mb(1), at(9)).unwrap();
    table.hold(from_to(0, 1), mb(1), at(9)).unwrap();
    let undecided = Denied::Limit { what: "undecided slots", limit: 2 };
    refused(&mut table, |t| t.hold(from_to(0, 1), mb(1), at(9)), undecided);
    table.promise(a).unwrap();
    refused(&mut table, |t| t.hold(from_to(0, 1), mb(1), at(9)), undecided);
    table.commit(a).unwrap();
    table.hold(from_to(0, 1), mb(1), at(9)).unwrap();
    refused(&mut table, |t| t.open(mb(1)), Denied::Limit { what: "slots", limit: 3 });
    table.set_capacity(from_to(5, 6), mb(5)).unwrap();
    let steps = Denied::Limit { what: "steps of capacity", limit: 4 };
    refused(&mut table, |t| t.set_capacity(from_to(7, 8), mb(5)), steps);
    table.set_capacity(from_to(6, 8), mb(5)).unwrap();
}

/// Seconds since 1970 that other counters do not survive: 2^31 s (2038), 2^63 ns (2262); ours ends in 2554.
#[test]
fn t9_no_year_is_special() {
    let mut table = table();
    for edge in [Time::from_nanos((1 << 31) * Span::NANOS_PER_SEC), Time::from_nanos(1 << 63)] {
        let hour = Span::from_secs(3_600);
        let around = Window::new(edge.saturating_sub(hour), edge + hour).unwrap();
        let id = booked(&mut table, around, mb(10)).unwrap();
        let before = edge.saturating_sub(hour);
        let second = Span::from_secs(1);
        assert_eq!(table.find(mb(1), second, before, Time::FOREVER), Ok(Some(edge + hour)));
        table.expire(edge);
        assert!(matches!(table.poll(), Some(SlotNotice::Opens { id: opened, .. }) if opened == id));
        table.expire(edge + hour);
        assert!(matches!(table.poll(), Some(SlotNotice::Closes { id: closed, .. }) if closed == id));
    }
}

/// The same calls lead to the same state on every machine (FAULTS.md I9); the number changes only with the digest.
#[test]
fn the_digest_is_the_same_everywhere() {
    let mut table = table();
    let a = booked(&mut table, from_to(10, 20), mb(5)).unwrap();
    table.open(mb(2)).unwrap();
    table.hold(from_to(15, 30), mb(3), at(9)).unwrap();
    table.modify(a, SlotChange::amount(mb(4))).unwrap();
    table.set_capacity(from_to(40, 50), mb(7)).unwrap();
    table.expire(at(12));
    assert_eq!(table.digest(), 9_990_652_424_500_828_490);
}
