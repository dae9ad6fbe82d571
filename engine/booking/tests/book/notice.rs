//! The notice before an end: once for each end, at its time, also when the disk fails or the process dies in between.

use crate::world::{Driver, at, window};
use crate::{ask, create, granted};
use booking::io::{BookingChange, EventKind, RecordTable};
use booking::{BookingRequest, BookingState, Call, RefusalReason, When};
use terms::book::Handle;
use terms::{Span, Time};

const NET: &[(&str, u64)] = &[("net/eth1", 100)];

fn noticed(seconds: u64, when: (u64, u64)) -> BookingRequest {
    BookingRequest { notice: Some(Box::new(Span::from_secs(seconds))), ..ask("net/eth1", 60, window(when.0, when.1)) }
}

/// The ends that were told, each with the second in which it was.
fn told(d: &Driver) -> Vec<(u64, u64)> {
    let seconds = |t: Time| t.since(at(0)).as_nanos() / Span::NANOS_PER_SEC;
    let of = |event: &booking::io::Event| match event.what {
        EventKind::EndsSoon { end } => Some((seconds(event.at), seconds(end))),
        _ => None,
    };
    d.events.iter().filter_map(of).collect()
}

fn end(d: &mut Driver, handle: Handle, seconds: u64) {
    let change = BookingChange { end: Some(at(seconds)), ..BookingChange::default() };
    granted(d.call("ann", Call::Modify { handle, change }));
}

#[test]
fn it_comes_once_at_its_time_and_never_after_the_end() {
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(noticed(5, (10, 20)))));
    assert_eq!(view.notice, Some(Span::from_secs(5)));
    d.until(14);
    assert_eq!(told(&d), []);
    d.until(19);
    assert_eq!(told(&d), [(15, 20)]);
    d.until(30);
    assert_eq!(told(&d), [(15, 20)]);
    let names: Vec<&str> = d.events.iter().map(|event| event.what.name()).collect();
    assert_eq!(names, ["created", "opened", "ends_soon", "ended"]);
    // One that is longer than the reservation comes when it is booked.
    granted(d.call("ann", create(noticed(3_600, (40, 50)))));
    assert_eq!(told(&d), [(15, 20), (30, 50)]);
    d.check();
}

#[test]
fn another_end_is_told_anew_and_the_same_one_is_not() {
    let mut d = Driver::new(NET);
    let handle = granted(d.call("ann", create(noticed(5, (10, 100))))).handle;
    d.until(12);
    // A shorter one that is inside already is told at once.
    end(&mut d, handle, 15);
    assert_eq!(told(&d), [(12, 15)]);
    end(&mut d, handle, 40);
    d.until(34);
    assert_eq!(told(&d), [(12, 15)]);
    d.until(35);
    assert_eq!(told(&d), [(12, 15), (35, 40)]);
    let change = BookingChange { label: Some("x".to_owned()), ..BookingChange::default() };
    granted(d.call("ann", Call::Modify { handle, change }));
    assert_eq!(told(&d).len(), 2, "a label is no other end");
    // Open at its end: nothing is near; then it gets one.
    let change = BookingChange { end: Some(Time::FOREVER), ..BookingChange::default() };
    granted(d.call("ann", Call::Modify { handle, change }));
    d.until(60);
    assert_eq!(told(&d).len(), 2);
    end(&mut d, handle, 62);
    assert_eq!(told(&d).last(), Some(&(60, 62)));
    d.check();
}

#[test]
fn what_is_only_held_or_given_back_is_not_told() {
    let mut d = Driver::new(NET);
    let hold = Call::Create { ask: noticed(50, (10, 40)), hold: Some(Span::from_secs(5)), key: String::new() };
    let held = granted(d.call("ann", hold)).handle;
    let gone = granted(
        d.call("ann", create(BookingRequest { parts: vec![crate::part("net/eth1", 10)], ..noticed(5, (10, 40)) })),
    );
    granted(d.call("ann", Call::Cancel(gone.handle)));
    d.until(3);
    assert_eq!(told(&d), []);
    granted(d.call("ann", Call::Commit(held)));
    assert_eq!(told(&d), [(3, 40)]);
    d.until(50);
    assert_eq!(told(&d), [(3, 40)]);
    let no = |notice| {
        let ask = BookingRequest { notice: Some(Box::new(notice)), ..ask("net/eth1", 1, window(60, 70)) };
        Driver::new(NET).call("ann", create(ask)).unwrap_err().why
    };
    for wrong in [Span::ZERO, Span::from_secs(20 * 366 * 86_400)] {
        assert!(matches!(no(wrong), RefusalReason::Meaningless { .. }));
    }
}

#[test]
fn the_last_window_of_a_recurrence_is_its_end() {
    let mut d = Driver::new(NET);
    let windows = vec![window(10, 20), window(30, 40), window(50, 60)];
    let ask = BookingRequest { when: When::Series { windows, may_fail: Vec::new() }, ..noticed(4, (10, 20)) };
    granted(d.call("ann", create(ask)));
    d.until(55);
    assert_eq!(told(&d), []);
    d.until(56);
    assert_eq!(told(&d), [(56, 60)]);
}

/// The request is another one with a notice, and the same one without: keys of earlier builds stay good.
#[test]
fn a_notice_is_part_of_the_request() {
    let mut d = Driver::new(NET);
    let keyed = |ask: BookingRequest| Call::Create { ask, hold: None, key: "k".to_owned() };
    let first = granted(d.call("ann", keyed(noticed(5, (10, 20))))).handle;
    assert_eq!(granted(d.call("ann", keyed(noticed(5, (10, 20))))).handle, first);
    assert_eq!(d.call("ann", keyed(noticed(6, (10, 20)))).unwrap_err().why, RefusalReason::KeyUsed);
    assert_eq!(d.call("ann", keyed(ask("net/eth1", 60, window(10, 20)))).unwrap_err().why, RefusalReason::KeyUsed);
}

/// The process dies at every moment around the notice: it is told once by what is on the disk, before or after.
#[test]
fn a_crash_before_or_after_tells_it_once() {
    for dies in 10..=20 {
        for written in [true, false] {
            let mut d = Driver::new(NET);
            let handle = granted(d.call("ann", create(noticed(5, (10, 20))))).handle;
            d.until(dies - 1);
            d.writes = written;
            d.until(dies);
            let before = told(&d);
            let mut next = Driver::asleep(booking::Config::default(), d.world.clone(), d.disk.clone(), 2);
            next.now = d.now;
            next.wake_up();
            next.until(dies);
            next.until(30);
            let all = [before.clone(), told(&next)].concat();
            // Down over the end: nobody needs to be told of it any more.
            let late = dies == 20 && !written && before.is_empty();
            assert_eq!(all.len(), usize::from(!late), "{dies} {written}: {all:?}");
            assert!(all.iter().all(|(at, end)| (15..20).contains(at) && *end == 20), "{all:?}");
            assert_eq!(next.view("ann", handle).state, BookingState::Ended);
            let on_disk = next.disk.iter().filter(|((table, _), _)| *table == RecordTable::Event);
            let events = on_disk.map(|(_, value)| booking::io::Event::decode(value).unwrap());
            let ends = events.filter(|event| matches!(event.what, EventKind::EndsSoon { .. })).count();
            assert_eq!(ends, all.len(), "{dies} {written}: what is told is kept");
            next.check();
        }
    }
}

/// A disk that fails makes it late, and not lost.
#[test]
fn a_notice_that_cannot_be_written_comes_when_it_can() {
    let mut d = Driver::new(NET);
    granted(d.call("ann", create(noticed(5, (10, 60)))));
    d.until(54);
    d.writes = false;
    d.until(55);
    assert_eq!(told(&d), []);
    d.lose_one();
    d.writes = true;
    d.until(58);
    let all = told(&d);
    assert!(all.len() == 1 && all[0].1 == 60 && (55..=58).contains(&all[0].0), "{all:?}");
    d.until(70);
    assert_eq!(told(&d).len(), 1);
}
