//! A reservation's life, told from outside.

use crate::world::{Driver, at, window};
use crate::{ask, create, flow, granted, part};
use booking::io::{BookingChange, CallResult, EventKind, OrderAction};
use booking::view::Enforced;
use booking::{BookingRequest, BookingState, Call, Input, PartAsk, RefusalReason, When};
use terms::book::{Background, Binding, ResourceId, ResourceKind, Task};
use terms::{Span, Time};

const NET: &[(&str, u64)] = &[("net/eth1", 100), ("cpu", 2_000_000), ("licence/x", 2)];

fn whats(driver: &Driver) -> Vec<&'static str> {
    driver.events.iter().map(|event| event.what.name()).collect()
}

#[test]
fn booked_bound_opened_and_over() {
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(ask("net/eth1", 60, window(10, 20)))));
    assert_eq!((view.state, view.version, view.owner.as_str()), (BookingState::Booked, 1, "ann"));
    d.until(5);
    let view = granted(d.call("ann", Call::Bind { handle: view.handle, part: 0, binding: Some(flow(1)) }));
    assert_eq!(view.parts[0].enforced, Enforced::Idle);
    assert!(d.kernel.is_empty(), "not before its time");
    d.until(9);
    assert!(d.kernel.is_empty(), "not before its time");
    d.until(10);
    assert_eq!(d.kernel.values().collect::<Vec<_>>(), [&(Some(flow(1)), 60)]);
    let now = d.view("ann", view.handle);
    assert_eq!((now.state, now.parts[0].now, &now.parts[0].enforced), (BookingState::Active, 60, &Enforced::InForce));
    d.until(20);
    assert!(d.kernel.is_empty());
    assert_eq!(d.view("ann", view.handle).state, BookingState::Ended);
    assert_eq!(whats(&d), ["created", "bound", "opened", "ended"]);
    d.check();
}

#[test]
fn parts_come_together_or_not_at_all() {
    let mut d = Driver::new(NET);
    let both = |cpu| BookingRequest {
        parts: vec![part("net/eth1", 60), part("cpu", cpu), part("licence/x", 1)],
        when: When::Now { span: Span::from_secs(60) },
        ..BookingRequest::default()
    };
    granted(d.call("ann", create(both(1_500_000))));
    let before = (d.broker.digest(), d.world.counted());
    let refusal = d.call("bob", create(both(1_000_000))).unwrap_err();
    let RefusalReason::NoRoom { part, resource, asked, free, window: short } = refusal.why else {
        panic!("{refusal:?}")
    };
    assert_eq!((part, resource.as_str(), asked, free), (0, "net/eth1", 60, 40));
    assert_eq!((short.start(), short.end()), (at(0), at(60)));
    assert_eq!((d.broker.digest(), d.world.counted()), before, "a refusal changes nothing");
    // A licence needs no binding: it is in force at once.
    assert_eq!(d.kernel.len(), 1);
    d.check();
}

#[test]
fn a_hold_is_committed_or_expires() {
    let mut d = Driver::new(NET);
    let hold = |key: &str| Call::Create {
        ask: ask("net/eth1", 60, window(10, 50)),
        hold: Some(Span::from_secs(5)),
        key: key.to_owned(),
    };
    let first = granted(d.call("ann", hold("a")));
    assert_eq!((first.state, first.hold_until), (BookingState::Held, Some(at(5))));
    d.until(4);
    assert!(d.call("bob", create(ask("net/eth1", 60, window(10, 50)))).is_err());
    d.until(5);
    assert_eq!(d.view("ann", first.handle).state, BookingState::Expired);
    let second = granted(d.call("ann", hold("b")));
    let second = granted(d.call("ann", Call::Commit(second.handle)));
    assert_eq!((second.state, second.hold_until), (BookingState::Booked, None));
    assert_eq!(granted(d.call("ann", Call::Commit(second.handle))).version, second.version, "the same again");
    assert!(matches!(
        d.call("ann", Call::Commit(first.handle)).unwrap_err().why,
        RefusalReason::WrongState(BookingState::Expired)
    ));
    // Policy may have changed between hold and commit (FAULTS.md T13).
    let third = granted(d.call(
        "ann",
        Call::Create { ask: ask("cpu", 9, window(10, 50)), hold: Some(Span::from_secs(9)), key: String::new() },
    ));
    d.world.most = 5;
    assert!(matches!(
        d.call("ann", Call::Commit(third.handle)).unwrap_err().why,
        RefusalReason::Policy { part: 0, .. }
    ));
    assert_eq!(d.view("ann", third.handle).state, BookingState::Held);
    // What was decided over several agents when all held is booked all the same: the hold was the word.
    assert_eq!(granted(d.call("ann", Call::Decided(third.handle))).state, BookingState::Booked);
    assert_eq!(granted(d.call("ann", Call::Decided(third.handle))).state, BookingState::Booked, "the same again");
    assert!(matches!(
        d.call("ann", Call::Decided(first.handle)).unwrap_err().why,
        RefusalReason::WrongState(BookingState::Expired)
    ));
    d.check();
}

#[test]
fn one_key_one_effect() {
    let mut d = Driver::new(NET);
    let keyed =
        |amount| Call::Create { ask: ask("net/eth1", amount, window(10, 20)), hold: None, key: "k1".to_owned() };
    // The same call twice before anything is written: one reservation, two equal answers.
    d.writes = false;
    let (a, b) = (d.say("ann", keyed(30)), d.say("ann", keyed(30)));
    assert!(d.replies.is_empty(), "no answer before it is written");
    d.writes = true;
    d.tell(Input::Wake);
    let (a, b) = (granted(d.replies.remove(&a).unwrap()), granted(d.replies.remove(&b).unwrap()));
    assert_eq!(a, b);
    assert_eq!(granted(d.call("ann", keyed(30))), a);
    assert_eq!(d.call("ann", keyed(31)).unwrap_err().why, RefusalReason::KeyUsed);
    assert_ne!(granted(d.call("bob", keyed(30))).handle, a.handle, "a key is its owner's own");
    assert_eq!(d.broker.live(), 2);
    // What is over does not come back for its key without a word.
    granted(d.call("ann", Call::Cancel(a.handle)));
    let over = RefusalReason::KeyOver { handle: a.handle, state: BookingState::Cancelled };
    assert_eq!(d.call("ann", keyed(30)).unwrap_err().why, over);
    assert_eq!(d.call("ann", keyed(31)).unwrap_err().why, RefusalReason::KeyUsed);
    d.check();
}

#[test]
fn what_cannot_be_written_never_was() {
    let mut d = Driver::new(NET);
    d.writes = false;
    let before = (d.broker.digest(), d.world.counted());
    let id = d.say("ann", create(ask("net/eth1", 60, window(0, 20))));
    let other = d.say("bob", create(ask("net/eth1", 60, window(0, 20))));
    d.lose_one();
    assert!(matches!(d.replies.remove(&id).unwrap().unwrap_err().why, RefusalReason::NotWritten { .. }));
    assert_eq!((d.broker.digest(), d.world.counted()), before);
    // Bob was refused while Ann's was on its way: that was true then.
    d.writes = true;
    d.tell(Input::Wake);
    assert!(matches!(d.replies.remove(&other).unwrap().unwrap_err().why, RefusalReason::NoRoom { .. }));
    assert!(d.kernel.is_empty() && d.events.is_empty());
    d.check();
}

#[test]
fn modify_keeps_the_old_until_the_new_is_written() {
    let mut d = Driver::new(NET);
    let v = granted(d.call("ann", create(ask("net/eth1", 60, window(0, 20)))));
    granted(d.call("ann", Call::Bind { handle: v.handle, part: 0, binding: Some(flow(1)) }));
    let rate = |amount| Call::Modify {
        handle: v.handle,
        change: BookingChange { amounts: vec![(0, ResourceKind::Network, amount)], ..BookingChange::default() },
    };
    // Less: what it gives up is not given to others before it is written.
    d.writes = false;
    let less = d.say("ann", rate(20));
    let other = d.say("bob", create(ask("net/eth1", 60, window(0, 20))));
    d.lose_one();
    assert!(d.replies.remove(&less).unwrap().is_err());
    d.writes = true;
    d.tell(Input::Wake);
    assert!(d.replies.remove(&other).unwrap().is_err());
    assert_eq!(d.view("ann", v.handle).parts[0].steps[0].amount, 60);
    // More than there is: the old stays.
    let before = (d.broker.digest(), d.world.counted());
    let refusal = d.call("ann", rate(101)).unwrap_err();
    assert!(matches!(refusal.why, RefusalReason::NoRoom { asked: 101, free: 100, .. }), "{refusal:?}");
    assert_eq!((d.broker.digest(), d.world.counted()), before);
    let more = granted(d.call("ann", rate(100)));
    assert_eq!((more.parts[0].now, &more.parts[0].enforced), (100, &Enforced::Pending));
    assert_eq!(d.kernel.values().collect::<Vec<_>>(), [&(Some(flow(1)), 100)]);
    // Longer, and its start cannot change any more.
    let longer = BookingChange { end: Some(at(40)), ..BookingChange::default() };
    granted(d.call("ann", Call::Modify { handle: v.handle, change: longer }));
    d.until(10);
    let later = BookingChange { start: Some(at(15)), ..BookingChange::default() };
    assert!(d.call("ann", Call::Modify { handle: v.handle, change: later }).is_err());
    d.until(30);
    assert_eq!(d.kernel.len(), 1);
    d.until(40);
    assert!(d.kernel.is_empty());
    d.check();
}

#[test]
fn others_do_not_exist() {
    let mut d = Driver::new(NET);
    let v = granted(d.call("ann", create(ask("net/eth1", 60, window(0, 20)))));
    let mut unknown = v.handle;
    unknown.0[3] ^= 1;
    for handle in [v.handle, unknown] {
        let calls = [
            Call::Show(handle),
            Call::Cancel(handle),
            Call::Commit(handle),
            Call::History(handle, 0),
            Call::Bind { handle, part: 0, binding: None },
            Call::Modify { handle, change: BookingChange::default() },
        ];
        for call in calls {
            assert_eq!(d.call("eve", call).unwrap_err().why, RefusalReason::UnknownHandle);
        }
    }
    assert!(
        matches!(d.call("eve", Call::List(Default::default())), Ok(CallResult::List { views, more: false }) if views.is_empty())
    );
    assert!(
        matches!(d.call("eve", Call::Since { seq: 0, most: 0 }), Ok(CallResult::Events { events, .. }) if events.is_empty())
    );
    d.check();
}

#[test]
fn background_takes_what_foreground_leaves() {
    // GARA's figure 4 in small: 45 of premium, nine tenths of it shared.
    let mut d = Driver::new(&[("net/eth1", 45)]);
    d.world.tables[0].2 = 40;
    let bulk = |floor, weight| {
        let mut bulk = part("net/eth1", 100);
        bulk.background = Some(Background { weight, floor });
        bulk.binding = Some(flow(weight as u16));
        BookingRequest { parts: vec![bulk], when: When::default(), ..BookingRequest::default() }
    };
    let first = granted(d.call("ann", create(bulk(0, 1))));
    assert_eq!(d.view("ann", first.handle).parts[0].now, 40);
    let mut foreground = ask("net/eth1", 36, window(25, 48));
    foreground.parts[0].binding = Some(flow(99));
    let fore = granted(d.call("bob", create(foreground)));
    d.until(25);
    assert_eq!(d.view("ann", first.handle).parts[0].now, 4);
    let last: Vec<_> = d.carried.iter().rev().take(2).map(|order| order.action.clone()).collect();
    assert!(
        matches!(last[1], OrderAction::Change { amount, .. } if amount == ResourceKind::Network.amount(4)),
        "background makes way before foreground comes: {last:?}"
    );
    assert!(matches!(last[0], OrderAction::Enable { amount, .. } if amount == ResourceKind::Network.amount(36)));
    // A second one of three times the weight, with a floor: suspended until there is more.
    let second = granted(d.call("cat", create(bulk(10, 3))));
    assert_eq!(d.view("cat", second.handle).state, BookingState::Suspended);
    assert_eq!(d.view("ann", first.handle).parts[0].now, 4);
    granted(d.call("bob", Call::Cancel(fore.handle)));
    assert_eq!(d.view("cat", second.handle).parts[0].now, 30);
    assert_eq!(d.view("cat", second.handle).state, BookingState::Active);
    assert_eq!(d.view("ann", first.handle).parts[0].now, 10);
    let shares = d.events.iter().filter_map(|event| match event.what {
        EventKind::Share { from, to, .. } => Some((event.owner.as_str(), from, to)),
        _ => None,
    });
    let wanted = [("ann", 0, 40), ("ann", 40, 4), ("cat", 0, 0), ("ann", 4, 10), ("cat", 0, 30)];
    assert_eq!(shares.collect::<Vec<_>>(), wanted);
    d.check();
}

#[test]
fn packets_belong_to_one_reservation_at_a_time() {
    let mut d = Driver::new(NET);
    let mut mine = ask("net/eth1", 10, window(10, 300));
    mine.parts[0].binding = Some(flow(1));
    let first = granted(d.call("ann", create(mine.clone())));
    // Its owner hears which reservation has them; somebody else only until when.
    let taken = |by| RefusalReason::Taken { part: 0, by, until: at(300) };
    assert_eq!(d.call("ann", create(mine.clone())).unwrap_err().why, taken(Some((first.handle, "ann".into()))));
    assert_eq!(d.call("bob", create(mine)).unwrap_err().why, taken(None));
    let other = granted(d.call("bob", create(ask("net/eth1", 10, window(20, 30)))));
    let bind = Call::Bind { handle: other.handle, part: 0, binding: Some(flow(1)) };
    assert_eq!(d.call("bob", bind).unwrap_err().why, taken(None));
    d.check();
}

#[test]
fn adjacent_windows_never_overlap_in_the_kernel() {
    let mut d = Driver::new(NET);
    let (mut a, mut b) = (ask("net/eth1", 100, window(10, 20)), ask("net/eth1", 100, window(20, 30)));
    a.parts[0].binding = Some(flow(1));
    b.parts[0].binding = Some(flow(1));
    granted(d.call("ann", create(a)));
    granted(d.call("bob", create(b)));
    d.until(19);
    d.enforces = false;
    d.until(20);
    assert_eq!(d.orders.len(), 1, "the second waits until the first is gone");
    assert!(matches!(d.orders[0].action, OrderAction::Disable { .. }));
    d.enforces = true;
    d.tell(Input::Wake);
    assert_eq!(d.kernel.values().map(|(_, amount)| *amount).collect::<Vec<_>>(), [100]);
    d.check();
}

#[test]
fn what_the_kernel_refuses_is_tried_again_and_told_once() {
    let mut d = Driver::new(NET);
    let mut mine = ask("net/eth1", 100, window(10, 300));
    mine.parts[0].binding = Some(flow(1));
    let v = granted(d.call("ann", create(mine)));
    d.enforces = false;
    d.until(10);
    let mut tries = 0;
    while d.now < at(100) {
        if !d.orders.is_empty() {
            let input = d.enforce_one(Err("no such device".to_owned()));
            d.tell(input);
            tries += 1;
        }
        let next = d.broker.wake_at().unwrap_or(Time::FOREVER).min(at(100));
        d.now = next;
        d.tell(Input::Wake);
    }
    assert!((4..10).contains(&tries), "{tries} tries in 90 s, ever later");
    assert_eq!(d.view("ann", v.handle).parts[0].enforced, Enforced::Failed("no such device".to_owned()));
    d.enforces = true;
    d.until(200);
    assert_eq!(d.view("ann", v.handle).parts[0].enforced, Enforced::InForce);
    assert_eq!(whats(&d), ["created", "opened", "failing", "in_force"]);
}

/// However much happened to one, an answer is a page, and pages together are all of it, once, in order.
#[test]
fn a_long_history_comes_in_pages() {
    let mut d = Driver::new(NET);
    let mut both = [1, 2].map(|_| granted(d.call("ann", create(ask("net/eth1", 6, window(10, 20))))).handle);
    for n in 0..2_500_u16 {
        // Each in its turn is bound to a flow of its own, and to nobody.
        let binding = (n / 2 % 2 == 0).then(|| flow(1 + n % 2));
        granted(d.call("ann", Call::Bind { handle: both[0], part: 0, binding }));
        both.swap(0, 1);
    }
    for handle in both {
        let (mut all, mut sizes, mut after) = (Vec::new(), Vec::new(), 0);
        loop {
            let Ok(CallResult::Events { events, lost: false, .. }) = d.call("ann", Call::History(handle, after)) else {
                panic!("a page")
            };
            assert!(events.iter().all(|event| event.handle == handle && event.seq > after));
            sizes.push(events.len());
            let Some(last) = events.last() else { break };
            after = last.seq;
            all.extend(events);
        }
        assert_eq!((sizes, all.len()), (vec![1_000, 251, 0], 1_251));
        assert!(all.is_sorted_by_key(|event| event.seq) && all[0].what.name() == "created");
    }
}

/// A resource goes: the same reservation's parts of other resources stay in the kernel as they are.
#[test]
fn a_resource_that_goes_leaves_other_parts_alone() {
    let mut d = Driver::new(&[("net/eth1", 100), ("disk/sda", 800)]);
    let mut both = ask("net/eth1", 60, window(0, 20));
    both.parts[0].binding = Some(flow(1));
    let binding = Some(Binding::Process(Task::numbered(7)));
    both.parts.push(PartAsk { binding, ..part("disk/sda", 8) });
    let handle = granted(d.call("ann", create(both))).handle;
    assert_eq!((d.kernel.len(), d.carried.len()), (2, 2));
    d.world.tables[0].1 = None;
    d.kernel.remove(&(handle, 0));
    d.tell(Input::Resource(ResourceId(0)));
    assert_eq!(d.carried.len(), 2, "no order: the disk's part is in force already");
    d.until(30);
    assert!(d.kernel.is_empty());
    d.check();
}
