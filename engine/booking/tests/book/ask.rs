//! Ask like a person: ranges, the earliest time, volumes, series, and what is offered instead.

use crate::world::{Driver, at, window};
use crate::{ask, create, granted, part};
use booking::io::{BookingChange, CallResult, Enquired};
use booking::refusal::AlternativeKind;
use booking::{BookingRequest, Call, Input, Refusal, RefusalReason, When};
use terms::book::RateStep;
use terms::{Span, Window};

const NET: &[(&str, u64)] = &[("net/eth1", 1_000), ("net/eth2", 1_000)];

fn enquired(d: &mut Driver, ask: BookingRequest) -> Enquired {
    match d.call("ann", Call::Enquire(ask)) {
        Ok(CallResult::Enquired(said)) => said,
        other => panic!("{other:?}"),
    }
}

fn with(when: When) -> BookingRequest {
    BookingRequest { parts: vec![part("net/eth1", 600)], when, ..BookingRequest::default() }
}

fn step(start: u64, end: u64, amount: u64) -> RateStep {
    RateStep { window: window(start, end), amount }
}

fn refused(d: &mut Driver, ask: BookingRequest) -> Refusal {
    let before = (d.broker.digest(), d.world.counted());
    let enquired = enquired(d, ask.clone());
    let refusal = d.call("ann", create(ask)).unwrap_err();
    assert_eq!(enquired.refusal.as_ref(), Some(&refusal), "an enquiry says the same");
    assert_eq!((d.broker.digest(), d.world.counted()), before);
    refusal
}

#[test]
fn a_range_takes_what_is_free() {
    let mut d = Driver::new(NET);
    granted(d.call("bob", create(ask("net/eth1", 700, window(10, 20)))));
    let mut range = ask("net/eth1", 600, window(0, 30));
    range.parts[0].least = 200;
    let said = enquired(&mut d, range.clone());
    assert_eq!(
        (said.parts[0].free, said.granted.as_ref().unwrap()[0].steps.as_slice()),
        (300, &[step(0, 30, 300)][..])
    );
    assert_eq!(granted(d.call("ann", create(range))).parts[0].steps, [step(0, 30, 300)]);
    // How much is there at all?
    let mut open = ask("net/eth1", 0, window(0, 30));
    open.parts[0].least = 0;
    assert_eq!(enquired(&mut d, open).parts[0].free, 0);
    d.check();
}

#[test]
fn the_earliest_start_at_which_all_parts_fit() {
    let mut d = Driver::new(NET);
    granted(d.call("bob", create(ask("net/eth1", 700, window(0, 50)))));
    granted(d.call("bob", create(ask("net/eth2", 700, window(60, 90)))));
    let when = |by| When::Earliest { span: Span::from_secs(20), not_before: None, by };
    let one = with(when(None));
    assert_eq!(granted(d.call("ann", create(one))).parts[0].steps, [step(50, 70, 600)]);
    let both = |by| BookingRequest {
        parts: vec![part("net/eth1", 600), part("net/eth2", 600)],
        when: when(by),
        ..BookingRequest::default()
    };
    let v = granted(d.call("ann", create(both(None))));
    assert_eq!((v.parts[0].steps[0], v.parts[1].steps[0]), (step(90, 110, 600), step(90, 110, 600)));
    let refusal = refused(&mut d, both(Some(at(100))));
    assert!(matches!(refusal.why, RefusalReason::NoRoom { .. }), "{refusal:?}");
    d.check();
}

#[test]
fn what_is_offered_instead() {
    let mut d = Driver::new(NET);
    granted(d.call("bob", create(ask("net/eth1", 700, window(10, 20)))));
    let refusal = refused(&mut d, ask("net/eth1", 600, window(0, 30)));
    let RefusalReason::NoRoom { asked: 600, free: 300, window: short, .. } = refusal.why else { panic!("{refusal:?}") };
    assert_eq!(short, window(10, 20));
    let offers: Vec<_> = refusal.alternatives.iter().map(|a| (a.sort, a.parts[0].steps[0])).collect();
    let wanted = [
        (AlternativeKind::Later, step(20, 50, 600)),
        (AlternativeKind::Slower, step(0, 30, 300)),
        (AlternativeKind::Shorter, step(0, 10, 600)),
    ];
    assert_eq!(offers, wanted);
    // Each of them is accepted.
    for (sort, offer) in offers {
        let said = enquired(&mut d, ask("net/eth1", offer.amount, offer.window));
        assert!(said.granted.is_some(), "{sort:?}");
    }
}

#[test]
fn a_volume_at_a_constant_rate_or_in_steps() {
    let mut d = Driver::new(NET);
    let volume = |bytes, deadline| BookingRequest {
        parts: vec![part("net/eth1", 0)],
        when: When::Volume { bytes, not_before: None, deadline: at(deadline) },
        ..BookingRequest::default()
    };
    // 1,000 bytes in 100 s: 80 bit/s.
    assert_eq!(enquired(&mut d, volume(1_000, 100)).granted.unwrap()[0].steps, [step(0, 100, 80)]);
    granted(d.call("bob", create(ask("net/eth1", 800, window(20, 60)))));
    // 7,000 bytes are 56,000 bits: a constant 560 does not fit beside 800; the flattest steps do.
    let v = granted(d.call("ann", create(volume(7_000, 100))));
    assert_eq!(v.parts[0].steps, [step(0, 20, 800), step(20, 60, 200), step(60, 100, 800)]);
    // Nothing more by then; the refusal says when it would be done at the earliest.
    let refusal = refused(&mut d, volume(5_000, 100));
    let RefusalReason::NoRoom { asked: 400, free: 0, .. } = refusal.why else { panic!("{refusal:?}") };
    let steps = &refusal.alternatives[0].parts[0].steps;
    assert_eq!(refusal.alternatives[0].sort, AlternativeKind::Later);
    // 200 for 20 s and for 40 s, which is 12,000 bits, then 1,000 for 28 s.
    assert_eq!(steps[..], [step(0, 20, 200), step(60, 100, 200), step(100, 128, 1_000)]);
    d.check();
}

#[test]
fn a_series_all_or_the_named_subset() {
    let mut d = Driver::new(NET);
    granted(d.call("bob", create(ask("net/eth1", 800, window(100, 150)))));
    let windows = vec![window(10, 20), window(110, 120), window(210, 220)];
    let series = |may_fail| with(When::Series { windows: windows.clone(), may_fail });
    let refusal = refused(&mut d, series(vec![0]));
    assert!(
        matches!(&refusal.why, RefusalReason::NoRoom { window: short, .. } if *short == window(110, 120)),
        "{refusal:?}"
    );
    let v = granted(d.call("ann", create(series(vec![1]))));
    assert_eq!(v.parts[0].steps, [step(10, 20, 600), step(210, 220, 600)]);
    d.until(215);
    let whats: Vec<_> = d.events.iter().filter(|e| e.handle == v.handle).map(|e| e.what.name()).collect();
    assert_eq!(whats, ["created", "opened", "paused", "opened"]);
    d.check();
}

/// Single windows of a series are given back: one that is to come, and one that runs, which ends at once.
#[test]
fn a_window_of_a_series_is_given_back() {
    let mut d = Driver::new(NET);
    let windows = vec![window(10, 20), window(110, 120), window(210, 220)];
    let v = granted(d.call("ann", create(with(When::Series { windows, may_fail: Vec::new() }))));
    let without = |all: &[(u64, u64)]| {
        let without = all.iter().map(|(start, end)| window(*start, *end)).collect();
        Call::Modify { handle: v.handle, change: BookingChange { without, ..BookingChange::default() } }
    };
    for (all, words) in [
        (&[(30, 40)][..], "none of its windows"),
        (&[(10, 20), (30, 40)], "none of its windows"),
        (&[(0, 300)], "no window would be left"),
    ] {
        let refusal = d.call("ann", without(all)).unwrap_err();
        assert!(format!("{refusal:?}").contains(words), "{refusal:?}");
    }
    granted(d.call("bob", create(ask("net/eth1", 400, window(110, 120)))));
    refused(&mut d, ask("net/eth1", 600, window(110, 120)));
    let left = granted(d.call("ann", without(&[(115, 116)])));
    assert_eq!(left.parts[0].steps, [step(10, 20, 600), step(210, 220, 600)]);
    granted(d.call("bob", create(ask("net/eth1", 600, window(110, 120)))));
    d.until(15);
    let left = granted(d.call("ann", without(&[(10, 20)])));
    assert_eq!(left.parts[0].steps, [step(10, 15, 600), step(210, 220, 600)]);
    granted(d.call("bob", create(ask("net/eth1", 1_000, window(15, 20)))));
    let refusal = d.call("ann", without(&[(10, 20)])).unwrap_err();
    assert!(format!("{refusal:?}").contains("over already"), "{refusal:?}");
    d.until(215);
    let whats: Vec<_> = d.events.iter().filter(|e| e.handle == v.handle).map(|e| e.what.name()).collect();
    assert_eq!(whats, ["created", "modified", "opened", "modified", "paused", "opened"]);
    d.check();
}

/// Whoever types what is offered types whole seconds.
#[test]
fn what_is_offered_begins_and_ends_at_whole_seconds() {
    let mut d = Driver::new(NET);
    let fraction = Span::from_millis(262);
    let end = at(20).saturating_add(fraction);
    let held = Window::new(at(0), end).unwrap();
    granted(d.call("bob", create(ask("net/eth1", 700, held))));
    d.now = at(3).saturating_add(fraction);
    d.tell(Input::Wake);
    let span = Span::from_secs(60);
    let refusal = refused(&mut d, with(When::Now { span }));
    let later = refusal.alternatives.iter().find(|one| one.sort == AlternativeKind::Later).unwrap();
    let window = later.parts[0].steps[0].window;
    assert_eq!((window.start(), window.end()), (at(21), at(81)), "{refusal:?}");
    granted(d.call("ann", create(with(When::Window { start: Some(at(21)), end: Some(at(81)) }))));
    // What lasts a while from now on ends at a whole second, too.
    let mut small = with(When::Now { span });
    small.parts[0].amount = 100;
    small.parts[0].least = 100;
    assert_eq!(granted(d.call("ann", create(small))).parts[0].steps[0].window.end(), at(64));
    d.check();
}
