//! FAULTS.md T: windows, amounts, capacity, races and policy that go wrong; and the book's own life (I8).

use crate::world::{Driver, T0, Tables, at, window};
use crate::{ask, create, flow, granted, part};
use booking::io::{BookingChange, CalendarOffset, CallResult, EventKind, Matching};
use booking::view::Enforced;
use booking::{BookingRequest, BookingState, Call, Config, Input, LifeStep, Refusal, RefusalReason, When};
use terms::book::{Background, Binding, BoundFlow, ResourceId, ResourceKind, Task};
use terms::{Rate, Span, Time, Window};

const NET: &[(&str, u64)] = &[("net/eth1", 100), ("cpu", 2_000_000), ("disk/sda", 800), ("licence/x", 2)];

fn why(d: &mut Driver, call: Call) -> RefusalReason {
    let before = (d.broker.digest(), d.world.counted());
    let refusal = d.call("ann", call).expect_err("refused");
    assert_eq!((d.broker.digest(), d.world.counted()), before, "a refusal changes nothing");
    refusal.why
}

fn in_window(start: Option<Time>, end: Option<Time>) -> Call {
    let when = When::Window { start, end };
    create(BookingRequest { parts: vec![part("net/eth1", 10)], when, ..BookingRequest::default() })
}

fn meaningless(why: &RefusalReason) -> bool {
    matches!(why, RefusalReason::Meaningless { .. })
}

/// The table of edges, written out again: what is not here does not happen.
#[test]
fn every_edge_and_no_other() {
    use BookingState::*;
    use LifeStep::*;
    let edges = [
        (Held, Commit, Booked),
        (Held, Expire, Expired),
        (Held, Modify, Held),
        (Held, Bind, Held),
        (Held, Cancel, Cancelled),
        (Held, Promise, Promised),
        (Promised, Keep, Booked),
        (Promised, Withdraw, Held),
        (Promised, Expire, Expired),
        (Promised, Cancel, Cancelled),
        (Booked, Open, Active),
        (Booked, End, Ended),
        (Booked, Modify, Booked),
        (Booked, Bind, Booked),
        (Booked, Cancel, Cancelled),
        (Active, Pause, Booked),
        (Active, End, Ended),
        (Active, Suspend, Suspended),
        (Active, Modify, Active),
        (Active, Bind, Active),
        (Active, Cancel, Cancelled),
        (Suspended, Pause, Booked),
        (Suspended, End, Ended),
        (Suspended, Resume, Active),
        (Suspended, Modify, Suspended),
        (Suspended, Bind, Suspended),
        (Suspended, Cancel, Cancelled),
    ];
    for state in BookingState::ALL {
        for act in LifeStep::ALL {
            let edge = edges.iter().find(|(from, by, _)| (*from, *by) == (state, act)).map(|(.., to)| *to);
            assert_eq!(state.after(act).ok(), edge, "{state:?} {act:?}");
            assert!(!state.is_over() || edge.is_none(), "what is over stays over");
        }
    }
}

#[test]
fn t1_windows_that_make_no_sense() {
    let mut d = Driver::new(NET);
    d.until(50);
    let year = Span::from_secs(366 * 86_400);
    let century = (0..100).fold(T0, |t, _| t + year);
    for (start, end) in [
        (Some(at(60)), Some(at(60))),
        (Some(at(70)), Some(at(60))),
        (Some(at(10)), Some(at(50))),
        (None, Some(at(50))),
        (None, Some(Time::ZERO)),
        (Some(century), None),
        (Some(at(60)), Some(century)),
        (Some(Time::from_nanos(u64::MAX - 1)), Some(Time::FOREVER)),
    ] {
        assert!(meaningless(&why(&mut d, in_window(start, end))), "{start:?}..{end:?}");
    }
    // A start in the past counts as now; an open end is for ever.
    let view = granted(d.call("ann", in_window(Some(at(10)), None)));
    assert_eq!(view.parts[0].steps[0].window, Window::new(at(50), Time::FOREVER).unwrap());
    assert_eq!(view.state, BookingState::Active);
    let spans = [When::Now { span: Span::ZERO }, When::Now { span: Span::MAX }];
    for when in spans {
        let ask = BookingRequest { parts: vec![part("net/eth1", 1)], when, ..BookingRequest::default() };
        assert!(meaningless(&why(&mut d, create(ask))));
    }
}

#[test]
fn t3_amounts_that_make_no_sense() {
    let mut d = Driver::new(NET);
    for amount in [0, (1 << 62) + 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert!(meaningless(&why(&mut d, create(ask("net/eth1", amount, window(1, 2))))), "{amount}");
    }
    for amount in [101, 1 << 62] {
        let said = why(&mut d, create(ask("net/eth1", amount, window(1, 2))));
        assert!(matches!(said, RefusalReason::NoRoom { free: 100, .. }), "{amount}: {said:?}");
    }
    // Sums of parts do not wrap around.
    let parts = vec![part("net/eth1", 1 << 62); 9];
    let when = When::Now { span: Span::from_secs(9) };
    assert!(matches!(
        why(&mut d, create(BookingRequest { parts, when, ..BookingRequest::default() })),
        RefusalReason::NoRoom { .. }
    ));
    let mut range = ask("net/eth1", 5, window(1, 2));
    range.parts[0].least = 6;
    assert!(meaningless(&why(&mut d, create(range))));
    assert_eq!(
        why(&mut d, create(ask("net/eth9", 5, window(1, 2)))),
        RefusalReason::NoResource { part: 0, name: "net/eth9".into() }
    );
    assert!(meaningless(&why(&mut d, create(BookingRequest::default()))), "no parts");
    let many = BookingRequest { parts: vec![part("licence/x", 1); 17], ..BookingRequest::default() };
    assert!(matches!(why(&mut d, create(many)), RefusalReason::Limit { limit: 16, .. }));
    let named = BookingRequest { label: "a\u{1b}[31m".into(), ..ask("net/eth1", 5, window(1, 2)) };
    assert!(meaningless(&why(&mut d, create(named))), "no escapes in what goes into logs (Y8)");
}

/// T2 is `adjacent_windows_never_overlap_in_the_kernel`; T10 `one_key_one_effect`; T13 in `a_hold_is_committed_or_expires`.
#[test]
fn t4_capacity_lowered_under_what_is_booked() {
    let mut d = Driver::new(NET);
    let first = granted(d.call("ann", create(ask("net/eth1", 60, window(10, 20)))));
    granted(d.call("bob", create(ask("net/eth1", 40, window(30, 40)))));
    let ever = Window::open(T0).unwrap();
    d.world.tables[0].1.as_mut().unwrap().set_capacity(ever, Rate::from_bps(50)).unwrap();
    d.tell(Input::Resource(ResourceId(0)));
    let told: Vec<_> = d.events.iter().filter(|event| matches!(event.what, EventKind::Short { .. })).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].handle, first.handle);
    assert!(matches!(told[0].what, EventKind::Short { first, missing: 10, .. } if first == at(10)));
    let Ok(CallResult::Resources(all)) = d.call("ann", Call::Resources { timeline: Some(window(0, 50)) }) else {
        panic!()
    };
    assert_eq!((all[0].capacity, all[0].missing), (50, Some((at(10), 10))));
    let free: Vec<u64> = all[0].timeline.iter().map(|step| step.amount).collect();
    assert_eq!(free, [50, 0, 50, 10, 50]);
    // Nothing was taken back, and what shrinks may shrink.
    assert_eq!(d.view("ann", first.handle).state, BookingState::Booked);
    let change = BookingChange { amounts: vec![(0, ResourceKind::Network, 55)], ..BookingChange::default() };
    granted(d.call("ann", Call::Modify { handle: first.handle, change }));
    d.check();
}

#[test]
fn t6_t7_changes_race_with_edges() {
    let mut d = Driver::new(NET);
    let mut booked = ask("net/eth1", 60, window(10, 20));
    booked.parts[0].binding = Some(flow(1));
    let view = granted(d.call("ann", create(booked)));
    // A change is on its way to the disk while the window begins: the kernel follows the clock at once.
    d.writes = false;
    let change = BookingChange { amounts: vec![(0, ResourceKind::Network, 80)], ..BookingChange::default() };
    let id = d.say("ann", Call::Modify { handle: view.handle, change });
    d.until(10);
    assert_eq!(d.kernel.values().map(|(_, amount)| *amount).collect::<Vec<_>>(), [60], "what is written");
    d.writes = true;
    d.tell(Input::Wake);
    assert_eq!(granted(d.replies.remove(&id).unwrap()).state, BookingState::Active);
    assert_eq!(d.kernel.values().map(|(_, amount)| *amount).collect::<Vec<_>>(), [80]);
    // A cancel is on its way while the window ends.
    d.writes = false;
    let id = d.say("ann", Call::Cancel(view.handle));
    d.until(25);
    assert!(d.kernel.is_empty(), "no late end, however slow the disk is");
    d.writes = true;
    d.tell(Input::Wake);
    assert_eq!(granted(d.replies.remove(&id).unwrap()).state, BookingState::Cancelled);
    // And one that is lost: then it has ended.
    let view = granted(d.call("ann", create(ask("net/eth1", 60, window(30, 40)))));
    d.writes = false;
    let id = d.say("ann", Call::Cancel(view.handle));
    d.until(41);
    d.lose_one();
    assert!(matches!(d.replies.remove(&id).unwrap().unwrap_err().why, RefusalReason::NotWritten { .. }));
    d.writes = true;
    d.until(45);
    assert_eq!(d.view("ann", view.handle).state, BookingState::Ended);
    d.check();
}

/// D12: however many there are, and of however many steps, an answer has a bounded size, and the next page follows.
#[test]
fn d12_lists_are_paged_by_what_is_in_them() {
    let mut d = Driver::new(NET);
    let series = |steps: u64| BookingRequest {
        parts: vec![part("net/eth1", 1)],
        when: When::Series {
            windows: (0..steps).map(|n| window(10 + 2 * n, 11 + 2 * n)).collect(),
            may_fail: Vec::new(),
        },
        ..BookingRequest::default()
    };
    // Two of a thousand steps, each a page of its own, and forty of ninety, five to a page.
    let all = [1_000; 2].into_iter().chain([90; 40]);
    let made: Vec<_> = all.map(|steps| granted(d.call("ann", create(series(steps)))).handle).collect();
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let matching = Matching { after: found.last().copied(), ..Matching::default() };
        let Ok(CallResult::List { views, more }) = d.call("ann", Call::List(matching)) else { panic!() };
        let steps: usize = views.iter().flat_map(|view| &view.parts).map(|part| part.steps.len()).sum();
        assert!(views.len() == 1 || (!views.is_empty() && steps <= 512), "{} with {steps} steps", views.len());
        found.extend(views.iter().map(|view| view.handle));
        pages += 1;
        if !more {
            break;
        }
    }
    assert_eq!((found, pages), (made, 2 + 8));
}

#[test]
fn t8_many_short_ones() {
    let mut d = Driver::new(NET);
    let windows: Vec<Window> = (0..1_000).map(|n| window(10 + 2 * n, 11 + 2 * n)).collect();
    let series = |windows: Vec<Window>| BookingRequest {
        parts: vec![part("net/eth1", 60)],
        when: When::Series { windows, may_fail: Vec::new() },
        ..BookingRequest::default()
    };
    granted(d.call("ann", create(series(windows.clone()))));
    let long = BookingRequest {
        parts: vec![part("net/eth1", 60)],
        when: When::Earliest { span: Span::from_secs(2), not_before: Some(at(10)), by: None },
        ..BookingRequest::default()
    };
    assert_eq!(granted(d.call("ann", create(long))).parts[0].steps[0].window, window(2_009, 2_011));
    let more: Vec<Window> = (0..2_000).map(|n| window(3_000 + n, 3_001 + n)).collect();
    assert!(matches!(why(&mut d, create(series(more))), RefusalReason::Limit { .. }));
    let order = vec![window(20, 30), window(10, 15)];
    assert!(meaningless(&why(&mut d, create(series(order)))));
    d.check();
}

#[test]
fn t9_the_clock_is_set() {
    let mut d = Driver::new(NET);
    let mut booked = ask("net/eth1", 60, window(100, 200));
    booked.parts[0].binding = Some(flow(1));
    granted(d.call("ann", create(booked)));
    // Time of day was 90 s behind: the window begins 90 s earlier by our own clock.
    d.tell(Input::Clock(CalendarOffset { ahead_ns: 90_000_000_000, uncertainty: Span::ZERO }));
    d.until(9);
    assert!(d.kernel.is_empty());
    d.until(10);
    assert_eq!(d.kernel.len(), 1);
    assert_eq!(d.world.table(0).peak(at(10), at(11)).as_bps(), 60, "the ledger counts by our own clock");
    // And back again: it has not begun yet, and does not count at this time.
    d.tell(Input::Clock(CalendarOffset { ahead_ns: 0, uncertainty: Span::ZERO }));
    assert_eq!(d.world.table(0).peak(at(10), at(11)).as_bps(), 0);
    assert!(d.kernel.is_empty());
    d.until(100);
    assert_eq!(d.kernel.len(), 1);
    // Not certain enough: no new promises, but enquiries, cancels and what is promised go on.
    d.tell(Input::Clock(CalendarOffset { ahead_ns: 0, uncertainty: Span::from_secs(2) }));
    let late = create(ask("net/eth1", 1, window(300, 400)));
    assert!(matches!(why(&mut d, late), RefusalReason::Clock { .. }));
    assert!(d.call("ann", Call::Enquire(ask("net/eth1", 1, window(300, 400)))).is_ok());
    d.until(200);
    assert!(d.kernel.is_empty());
    d.check();
}

#[test]
fn t11_limits_and_quotas() {
    let config = Config { reservations: 4, of_owner: 2, holds: 1, ..Config::default() };
    let mut d = Driver::with(config, Tables::new(NET));
    let hold =
        || Call::Create { ask: ask("net/eth1", 1, window(10, 20)), hold: Some(Span::from_secs(9)), key: String::new() };
    granted(d.call("ann", hold()));
    assert!(matches!(why(&mut d, hold()), RefusalReason::Limit { limit: 1, .. }), "holds of one owner");
    granted(d.call("ann", create(ask("net/eth1", 1, window(10, 20)))));
    assert!(matches!(why(&mut d, create(ask("net/eth1", 1, window(10, 20)))), RefusalReason::Limit { limit: 2, .. }));
    granted(d.call("bob", create(ask("net/eth1", 1, window(10, 20)))));
    granted(d.call("bob", create(ask("net/eth1", 1, window(10, 20)))));
    assert!(d.call("cat", create(ask("net/eth1", 1, window(10, 20)))).is_err(), "reservations in all");
    // Two calls at once do not both get the last place: what is on its way counts.
    let mut d = Driver::with(Config::default(), Tables { together: 10, ..Tables::new(NET) });
    d.writes = false;
    let (a, b) = (
        d.say("ann", create(ask("net/eth1", 6, window(10, 20)))),
        d.say("ann", create(ask("net/eth1", 6, window(15, 25)))),
    );
    d.writes = true;
    d.tell(Input::Wake);
    assert!(d.replies.remove(&a).unwrap().is_ok());
    assert!(matches!(d.replies.remove(&b).unwrap().unwrap_err().why, RefusalReason::Policy { .. }));
    // Sums that nobody asked for are made when somebody does.
    let mut late = Driver::with(Config::default(), Tables { sums: false, ..Tables::new(NET) });
    granted(late.call("ann", create(ask("net/eth1", 6, window(10, 20)))));
    (late.world.together, late.world.sums) = (10, true);
    let refusal = late.call("ann", create(ask("net/eth1", 6, window(10, 20)))).unwrap_err();
    assert!(matches!(refusal.why, RefusalReason::Policy { .. }));
    late.check();
    // Beside, in time, it may; and a change is asked about instead of what it changes, not beside it.
    let beside = granted(d.call("ann", create(ask("net/eth1", 6, window(20, 25)))));
    let rate = |amount| BookingChange { amounts: vec![(0, ResourceKind::Network, amount)], ..BookingChange::default() };
    granted(d.call("ann", Call::Modify { handle: beside.handle, change: rate(10) }));
    assert!(matches!(
        why(&mut d, Call::Modify { handle: beside.handle, change: rate(11) }),
        RefusalReason::Policy { .. }
    ));
    d.check();
}

/// Who may have nothing learns nothing about what is free.
#[test]
fn t12_the_denied_learn_nothing() {
    let mut d = Driver::new(NET);
    granted(d.call("bob", create(ask("net/eth1", 90, window(10, 20)))));
    d.world.most = 0;
    assert!(matches!(why(&mut d, create(ask("net/eth1", 50, window(10, 20)))), RefusalReason::Policy { .. }));
    let Ok(CallResult::Enquired(said)) = d.call("ann", Call::Enquire(ask("net/eth1", 50, window(10, 20)))) else {
        panic!()
    };
    assert!(matches!(said.refusal.unwrap().why, RefusalReason::Policy { .. }));
    assert_eq!(said.parts[0].free, 0);
}

#[test]
fn bindings_that_make_no_sense() {
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(ask("net/eth1", 10, window(10, 20)))));
    let bind = |part, binding| Call::Bind { handle: view.handle, part, binding: Some(binding) };
    let flow_of = |flow: BoundFlow| Binding::Flow(flow);
    for binding in [
        flow_of(BoundFlow::default()),
        flow_of(BoundFlow { dst_port: Some(5), ..BoundFlow::default() }),
        flow_of(BoundFlow { protocol: Some(1), dst_port: Some(5), ..BoundFlow::default() }),
        flow_of(BoundFlow {
            src: Some([1, 2, 3, 4].into()),
            dst: Some("::1".parse().unwrap()),
            ..BoundFlow::default()
        }),
        Binding::Process(Task::numbered(1)),
        Binding::Cgroup("../x".into()),
    ] {
        assert!(meaningless(&why(&mut d, bind(0, binding))));
    }
    assert!(meaningless(&why(&mut d, bind(1, flow(1)))), "no such part");
    granted(d.call("ann", bind(0, flow(1))));
    // The same packets twice at one time: no. At another time: yes.
    let mut other = ask("net/eth1", 10, window(15, 25));
    other.parts[0].binding = Some(flow(1));
    assert!(matches!(why(&mut d, create(other.clone())), RefusalReason::Taken { part: 0, .. }));
    other.when = When::Window { start: Some(at(20)), end: Some(at(25)) };
    granted(d.call("bob", create(other)));
    let disk = granted(d.call("ann", create(ask("disk/sda", 10, window(10, 20)))));
    for path in ["", "../up", "a/../b", "a\nb"] {
        let call = Call::Bind { handle: disk.handle, part: 0, binding: Some(Binding::Cgroup(path.into())) };
        assert!(meaningless(&why(&mut d, call)), "{path:?}");
    }
    d.check();
}

/// Whose packets or processes a part is for is asked of policy as how much is: at creation, in an enquiry, and whenever
/// it is said; what is bound stays bound when policy changes its mind, also over a restart.
#[test]
fn policy_is_asked_about_bindings() {
    let mut d = Driver::new(NET);
    let early = granted(d.call("ann", create(ask("net/eth1", 10, window(10, 20)))));
    let bind = |binding| Call::Bind { handle: early.handle, part: 0, binding };
    granted(d.call("ann", bind(Some(flow(1)))));
    d.world.binds = false;
    let policy = |refusal: Refusal| matches!(refusal.why, RefusalReason::Policy { part: 0, ref rule, .. } if rule == "of bindings");
    assert!(policy(d.call("ann", bind(Some(flow(2)))).unwrap_err()));
    assert_eq!(d.view("ann", early.handle).parts[0].binding, Some(flow(1)), "what was stays");
    granted(d.call("ann", bind(Some(flow(1))))); // the same again is no new binding
    let mut with = ask("net/eth1", 10, window(30, 40));
    with.parts[0].binding = Some(flow(3));
    assert!(policy(d.call("ann", create(with.clone())).unwrap_err()));
    let Ok(CallResult::Enquired(said)) = d.call("ann", Call::Enquire(with)) else { panic!() };
    assert!(policy(said.refusal.unwrap()));
    // Who asks for it may not learn who has it.
    let other = granted(d.call("bob", create(ask("net/eth1", 10, window(10, 20)))));
    let taken = Call::Bind { handle: other.handle, part: 0, binding: Some(flow(1)) };
    assert!(policy(d.call("bob", taken).unwrap_err()));
    // An amount may change without a word about the binding, and nobody's it may always be.
    let rate = BookingChange { amounts: vec![(0, ResourceKind::Network, 11)], ..BookingChange::default() };
    granted(d.call("ann", Call::Modify { handle: early.handle, change: rate }));
    let tables = Tables { binds: false, ..Tables::new(NET) };
    let mut d = Driver::asleep(Config::default(), tables, d.disk.clone(), 2);
    d.wake_up();
    assert_eq!(d.view("ann", early.handle).parts[0].binding, Some(flow(1)));
    let cpu = granted(d.call("ann", create(ask("cpu", 1, window(10, 20)))));
    d.world.binds = true;
    for binding in [Binding::Process(Task { number: 7, start: 1 << 40 }), Binding::Thread(Task::numbered(7))] {
        granted(d.call("ann", Call::Bind { handle: cpu.handle, part: 0, binding: Some(binding.clone()) }));
        let mut again = Driver::asleep(Config::default(), Tables::new(NET), d.disk.clone(), 3);
        again.wake_up();
        assert_eq!(again.view("ann", cpu.handle).parts[0].binding, Some(binding), "with its start, from the journal");
    }
    granted(d.call("ann", bind(None)));
    d.check();
}

/// Bound again while it runs: what it had goes before what it gets.
#[test]
fn bound_again_while_it_runs() {
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(ask("net/eth1", 10, window(0, 20)))));
    assert_eq!(d.view("ann", view.handle).parts[0].enforced, Enforced::Unbound);
    for (binding, kernel) in [(Some(flow(1)), 1), (Some(flow(2)), 1), (None, 0), (Some(flow(1)), 1)] {
        granted(d.call("ann", Call::Bind { handle: view.handle, part: 0, binding: binding.clone() }));
        assert_eq!(d.kernel.len(), kernel);
        assert!(d.kernel.values().all(|(bound, _)| *bound == binding));
    }
    d.check();
}

#[test]
fn a_resource_goes_and_comes_back() {
    let mut d = Driver::new(NET);
    let mut booked = ask("net/eth1", 60, window(0, 20));
    booked.parts[0].binding = Some(flow(1));
    let view = granted(d.call("ann", create(booked)));
    assert_eq!(d.kernel.len(), 1);
    let table = d.world.tables[0].1.take();
    d.kernel.clear();
    d.tell(Input::Resource(ResourceId(0)));
    assert!(matches!(why(&mut d, create(ask("net/eth1", 1, window(1, 2)))), RefusalReason::NoResource { .. }));
    assert_eq!(d.view("ann", view.handle).parts[0].guarantee, None);
    // It comes back under another number, with an empty ledger.
    let (name, shared) = (d.world.tables[0].0.clone(), d.world.tables[0].2);
    drop(table);
    let fresh = Tables::new(&[("net/eth1", 100)]).tables.remove(0).1;
    d.world.tables.push((name, fresh, shared));
    d.tell(Input::Resource(ResourceId(4)));
    assert_eq!(d.world.table(4).peak(at(0), at(20)).as_bps(), 60, "what was promised is counted again");
    assert_eq!(d.view("ann", view.handle).parts[0].enforced, Enforced::InForce);
    d.check();
}

#[test]
fn lists_pages_and_what_is_forgotten() {
    let config = Config { rows: 3, finished: 2, retention: Span::from_secs(100), events: 6, ..Config::default() };
    let mut d = Driver::with(config, Tables::new(NET));
    let all: Vec<_> = (0..7).map(|n| granted(d.call("ann", create(ask("net/eth1", 1, window(10, 20 + n)))))).collect();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let matching = Matching { after, ..Matching::default() };
        let Ok(CallResult::List { views, more }) = d.call("ann", Call::List(matching)) else { panic!() };
        after = views.last().map(|view| view.handle);
        seen.extend(views.into_iter().map(|view| view.handle));
        if !more {
            break;
        }
    }
    assert_eq!(seen, all.iter().map(|view| view.handle).collect::<Vec<_>>());
    d.until(22);
    // Three have ended, of which two are shown still.
    assert_eq!(d.call("ann", Call::Show(all[0].handle)).unwrap_err().why, RefusalReason::UnknownHandle);
    assert_eq!(d.view("ann", all[1].handle).state, BookingState::Ended);
    d.until(200);
    assert_eq!(d.call("ann", Call::Show(all[2].handle)).unwrap_err().why, RefusalReason::UnknownHandle);
    let Ok(CallResult::Events { events, lost: true, .. }) = d.call("ann", Call::Since { seq: 0, most: 9 }) else {
        panic!()
    };
    assert_eq!(events.len(), 3, "a page of the six that are kept");
    d.check();
}

#[test]
fn background_that_makes_no_sense() {
    let mut d = Driver::new(NET);
    d.world.tables[1].2 = 0;
    let with = |resource: &str, weight, floor| {
        let mut ask = ask(resource, 50, window(10, 20));
        ask.parts[0].background = Some(Background { weight, floor });
        create(ask)
    };
    assert!(meaningless(&why(&mut d, with("net/eth1", 0, 0))), "no weight");
    assert!(meaningless(&why(&mut d, with("net/eth1", 1, 51))), "a floor above the most");
    assert!(meaningless(&why(&mut d, with("cpu", 1, 0))), "a resource that takes none");
}
