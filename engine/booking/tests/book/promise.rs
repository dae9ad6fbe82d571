//! Promises to coordinators: parts of transactions over several agents (FAULTS.md C1 to C15, as far as one agent sees
//! them).

use crate::world::{Driver, Tables, at, caller, window};
use crate::{ask, create, flow, granted};
use booking::io::{BookingChange, CallResult};
use booking::promise::{DecideCall, PromisesCall};
use booking::{BookingState, BookingView, Call, Config, PrepareAsk, PrepareCall, RefusalReason, Reply};
use commit::coordinator::Serial;
use commit::{Branch, Decision, Epoch, TransactionId};
use terms::Span;
use terms::book::{Caller, CallerRole, Handle, ResourceKind};

pub const NET: &[(&str, u64)] = &[("net/eth1", 10)];
const EPOCH: Epoch = Epoch { number: 3, decisions: 0, nonce: 7 };

pub fn branch(n: u8) -> Branch {
    Branch { transaction: TransactionId([n; 16]), member: 0 }
}

pub fn prepare(n: u8, ask: PrepareAsk) -> Call {
    let serial = Serial { number: n.into(), floor: 1 };
    Call::Prepare(Box::new(PrepareCall { branch: branch(n), coordinator: "main".into(), epoch: EPOCH, serial, ask }))
}

pub fn decide(n: u8, commit: Option<u64>) -> Call {
    let decision = commit.map_or(Decision::Abort, |number| Decision::Commit { number });
    Call::Decide(Box::new(DecideCall { branch: branch(n), coordinator: "main".into(), epoch: EPOCH, decision }))
}

pub fn creation(amount: u64, start: u64, end: u64) -> PrepareAsk {
    PrepareAsk::Create { ask: ask("net/eth1", amount, window(start, end)), key: String::new() }
}

fn amount(amount: u64) -> BookingChange {
    BookingChange { amounts: vec![(0, ResourceKind::Network, amount)], ..BookingChange::default() }
}

pub fn modify(handle: Handle, to: u64) -> PrepareAsk {
    PrepareAsk::Modify { handle, change: amount(to) }
}

fn operator(d: &mut Driver, call: Call) -> Reply {
    let who = Caller { role: CallerRole::Operator, ..caller("root") };
    d.call_as(who, call)
}

pub fn free(d: &Driver, start: u64, end: u64) -> u64 {
    d.world.table(0).available(at(start), at(end)).as_bps()
}

pub fn why(reply: Reply) -> RefusalReason {
    reply.expect_err("it is refused").why
}

pub fn open(d: &mut Driver) -> Vec<(Branch, u64)> {
    let call = PromisesCall { coordinator: "main".into(), epoch: EPOCH, after: None };
    match d.call("broker", Call::Promises(call)) {
        Ok(CallResult::Promises(list)) => list.promises,
        other => panic!("{other:?}"),
    }
}

/// The machine dies and comes back at this second.
pub fn crash(d: &Driver, seconds: u64, life: u8) -> Driver {
    let mut after = Driver::asleep(Config::default(), Tables::new(NET), d.disk.clone(), life);
    after.now = at(seconds);
    after.wake_up();
    after
}

pub fn promised(d: &mut Driver, n: u8, ask: PrepareAsk) -> BookingView {
    let view = granted(d.call("ann", prepare(n, ask)));
    let promise = view.promise.as_ref().expect("it is promised");
    assert_eq!((promise.branch, &*promise.coordinator), (branch(n), "main"));
    view
}

#[test]
fn a_creation_is_promised_and_booked() {
    let mut d = Driver::new(NET);
    let view = promised(&mut d, 1, creation(6, 5, 9));
    assert_eq!((view.state, free(&d, 5, 9)), (BookingState::Promised, 4));
    assert_eq!(open(&mut d), [(branch(1), 3)]);
    let booked = granted(d.call("broker", decide(1, Some(1))));
    assert_eq!((booked.handle, booked.state, booked.promise), (view.handle, BookingState::Booked, None));
    assert!(open(&mut d).is_empty());
    d.until(6);
    assert_eq!(d.view("ann", view.handle).state, BookingState::Active);
    d.until(9);
    assert_eq!(d.view("ann", view.handle).state, BookingState::Ended);
    let names: Vec<_> = d.events.iter().map(|event| event.what.name()).collect();
    assert_eq!(names, ["created", "committed", "opened", "ended"]);
    d.check();
}

#[test]
fn an_abort_gives_everything_back_and_frees_the_key() {
    let mut d = Driver::new(NET);
    let keyed = |n| prepare(n, PrepareAsk::Create { ask: ask("net/eth1", 6, window(5, 9)), key: "k".into() });
    let view = granted(d.call("ann", keyed(1)));
    assert!(matches!(why(d.call("ann", keyed(2))), RefusalReason::Undecided { .. }), "another transaction has it");
    let over = granted(d.call("broker", decide(1, None)));
    assert_eq!((over.handle, over.state, free(&d, 0, 20)), (view.handle, BookingState::Cancelled, 10));
    let again = granted(d.call("ann", keyed(3)));
    assert_ne!(again.handle, view.handle);
    granted(d.call("broker", decide(3, Some(1))));
    assert_eq!(why(d.call("ann", keyed(4))), RefusalReason::KeyUsed);
    let mut after = crash(&d, 1, 2);
    assert_eq!(after.view("ann", again.handle).state, BookingState::Booked);
    assert_eq!(why(after.call("ann", keyed(5))), RefusalReason::KeyUsed);
    after.check();
}

/// No timer ends a promise, also not over a crash at every moment (C1, C2, C3, C5).
#[test]
fn a_promise_outlives_crashes_and_waits() {
    let mut d = Driver::new(NET);
    let view = promised(&mut d, 1, creation(6, 1_000, 2_000));
    d.until(500);
    let mut after = crash(&d, 600, 2);
    assert_eq!((after.view("ann", view.handle).state, free(&after, 1_000, 2_000)), (BookingState::Promised, 4));
    assert_eq!(open(&mut after), [(branch(1), 3)]);
    // The window begins; nothing is in force before the decision.
    after.until(1_500);
    assert_eq!(after.view("ann", view.handle).state, BookingState::Promised);
    let mut after = crash(&after, 1_600, 3);
    let booked = granted(after.call("broker", decide(1, Some(9))));
    assert_eq!(booked.state, BookingState::Active);
    let mut after = crash(&after, 1_700, 4);
    assert_eq!(after.view("ann", view.handle).state, BookingState::Active);
    assert!(open(&mut after).is_empty());
    after.check();
}

/// It asks by itself, at growing intervals, and at once after a crash.
#[test]
fn who_hears_nothing_asks() {
    let mut d = Driver::new(NET);
    promised(&mut d, 1, creation(6, 1_000, 2_000));
    d.until(600);
    let asked = d.questions.len();
    assert!((10..20).contains(&asked), "{asked} questions in ten minutes");
    assert!(d.questions.iter().all(|one| one.branch == branch(1) && &*one.coordinator == "main" && one.epoch == EPOCH));
    let after = crash(&d, 601, 2);
    assert_eq!(after.questions.len(), 1);
    granted(d.call("broker", decide(1, Some(1))));
    d.until(900);
    assert_eq!(d.questions.len(), asked, "it has heard");
}

#[test]
fn a_promise_whose_windows_have_passed_is_moot() {
    let mut d = Driver::new(NET);
    let view = promised(&mut d, 1, creation(6, 5, 9));
    d.until(8);
    assert_eq!(d.view("ann", view.handle).state, BookingState::Promised);
    d.until(9);
    assert_eq!(d.view("ann", view.handle).state, BookingState::Expired);
    // The coordinator is still asked, and contradicts.
    assert_eq!(open(&mut d), [(branch(1), 3)]);
    let told = granted(d.call("broker", decide(1, Some(1))));
    assert_eq!(told.state, BookingState::Expired, "what is over stays over");
    assert_eq!(d.contradicted.len(), 1);
    assert!(d.contradicted[0].committed && d.contradicted[0].handle == Some(view.handle));
    assert!(open(&mut d).is_empty());
    d.check();
}

#[test]
fn an_operator_resolves() {
    for commit in [true, false] {
        let mut d = Driver::new(NET);
        let view = promised(&mut d, 1, creation(6, 5, 9));
        let resolve = Call::Resolve { handle: view.handle, commit };
        assert_eq!(why(d.call("ann", resolve.clone())), RefusalReason::UnknownHandle);
        let after = granted(operator(&mut d, resolve.clone()));
        let expected = if commit { BookingState::Booked } else { BookingState::Cancelled };
        assert_eq!((after.state, free(&d, 5, 9)), (expected, if commit { 4 } else { 10 }));
        assert!(matches!(why(operator(&mut d, resolve)), RefusalReason::Meaningless { .. }));
        // The same decision is no contradiction; the other one is. Also after a crash, by its handle.
        let mut d = crash(&d, 1, 2);
        granted(d.call("broker", decide(1, None)));
        assert_eq!(
            d.contradicted.iter().map(|one| one.handle).collect::<Vec<_>>(),
            vec![Some(view.handle); commit.into()]
        );
        assert_eq!(d.view("ann", view.handle).state, expected);
        d.check();
    }
}

#[test]
fn the_same_again_has_one_effect() {
    let mut d = Driver::new(NET);
    let first = promised(&mut d, 1, creation(6, 5, 9));
    let again = promised(&mut d, 1, creation(6, 5, 9));
    assert_eq!((first.handle, free(&d, 5, 9)), (again.handle, 4));
    granted(d.call("broker", decide(1, Some(1))));
    assert_eq!(d.call("broker", decide(1, Some(1))), Ok(CallResult::Nothing), "it is acknowledged again");
    assert!(matches!(why(d.call("ann", prepare(1, creation(6, 5, 9)))), RefusalReason::NotPromised { .. }), "late");
    assert_eq!(d.call("broker", decide(9, None)), Ok(CallResult::Nothing), "it was never promised");
    // A late Prepare of a transaction that has ended, and was forgotten (C4).
    let mut late = prepare(2, creation(1, 5, 9));
    if let Call::Prepare(call) = &mut late {
        call.serial = Serial { number: 4, floor: 4 };
    }
    granted(d.call("ann", late));
    assert!(matches!(why(d.call("ann", prepare(3, creation(1, 5, 9)))), RefusalReason::NotPromised { .. }));
    assert_eq!(free(&d, 5, 9), 3);
    d.check();
}

#[test]
fn older_starts_and_strangers_are_refused() {
    let mut d = Driver::new(NET);
    promised(&mut d, 1, creation(6, 5, 9));
    let older = Epoch { number: 2, ..EPOCH };
    let twin = Epoch { nonce: 8, ..EPOCH };
    for epoch in [older, twin] {
        let known = RefusalReason::Outdated { known: EPOCH };
        let decision = Decision::Abort;
        let call = DecideCall { branch: branch(1), coordinator: "main".into(), epoch, decision };
        assert_eq!(why(d.call("broker", Call::Decide(Box::new(call)))), known);
        let call = PromisesCall { coordinator: "main".into(), epoch, after: None };
        assert_eq!(why(d.call("broker", Call::Promises(call))), known);
        let mut call = prepare(2, creation(1, 5, 9));
        if let Call::Prepare(call) = &mut call {
            call.epoch = epoch;
        }
        assert_eq!(why(d.call("ann", call)), known);
    }
    // Another coordinator neither joins nor decides, nor sees.
    let (coordinator, decision) = ("other", Decision::Abort);
    let call = DecideCall { branch: branch(1), coordinator: coordinator.into(), epoch: EPOCH, decision };
    assert!(matches!(why(d.call("x", Call::Decide(Box::new(call)))), RefusalReason::NotPromised { .. }));
    let mut call = prepare(1, creation(6, 5, 9));
    if let Call::Prepare(call) = &mut call {
        call.coordinator = coordinator.into();
    }
    assert!(matches!(why(d.call("x", call)), RefusalReason::NotPromised { .. }));
    let call = PromisesCall { coordinator: coordinator.into(), epoch: EPOCH, after: None };
    let Ok(CallResult::Promises(list)) = d.call("x", Call::Promises(call)) else { panic!("no list") };
    assert!(list.promises.is_empty());
    assert_eq!((open(&mut d).len(), free(&d, 5, 9)), (1, 4));
}

/// Until it is decided the greater of old and new counts at every instant, also over a crash.
#[test]
fn a_change_counts_the_greater_of_old_and_new() {
    for (to, commit, then) in [(8, true, 2), (8, false, 6), (2, true, 8), (2, false, 6)] {
        let mut d = Driver::new(NET);
        let view = granted(d.call("ann", create(ask("net/eth1", 4, window(5, 9)))));
        let said = promised(&mut d, 1, modify(view.handle, to));
        assert_eq!((said.state, said.parts[0].steps[0].amount), (BookingState::Booked, 4), "as it was");
        let most = to.max(4);
        assert_eq!(free(&d, 5, 9), 10 - most);
        d.until(6);
        assert_eq!(d.view("ann", view.handle).parts[0].now, 4);
        let mut d = crash(&d, 7, 2);
        d.check();
        assert_eq!(free(&d, 7, 9), 10 - most);
        let after = granted(d.call("broker", decide(1, commit.then_some(1))));
        assert_eq!((after.parts[0].steps[0].amount, after.parts[0].now), if commit { (to, to) } else { (4, 4) });
        assert_eq!((free(&d, 7, 9), after.version), (then, if commit { 2 } else { 1 }));
        d.until(9);
        assert_eq!((free(&d, 0, 99), d.view("ann", view.handle).state), (10, BookingState::Ended));
        d.check();
    }
}

/// A change of the end: it neither ends before the decision, nor is the decision too late for it.
#[test]
fn a_longer_reservation_does_not_end_before_the_decision() {
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(ask("net/eth1", 4, window(5, 9)))));
    let change = BookingChange { end: Some(at(20)), ..BookingChange::default() };
    promised(&mut d, 1, PrepareAsk::Modify { handle: view.handle, change });
    d.until(12);
    assert_eq!(d.view("ann", view.handle).state, BookingState::Booked);
    let after = granted(d.call("broker", decide(1, Some(1))));
    assert_eq!(after.state, BookingState::Active);
    d.until(20);
    assert_eq!(d.view("ann", view.handle).state, BookingState::Ended);
    // Aborted, it ends at once.
    let view = granted(d.call("ann", create(ask("net/eth1", 4, window(25, 29)))));
    let change = BookingChange { end: Some(at(40)), ..BookingChange::default() };
    promised(&mut d, 2, PrepareAsk::Modify { handle: view.handle, change });
    d.until(32);
    assert_eq!(granted(d.call("broker", decide(2, None))).state, BookingState::Ended);
    d.check();
}

#[test]
fn what_is_promised_cannot_be_changed() {
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(ask("net/eth1", 4, window(5, 9)))));
    promised(&mut d, 1, modify(view.handle, 6));
    let handle = view.handle;
    for call in [
        Call::Cancel(handle),
        Call::Modify { handle, change: amount(5) },
        Call::Bind { handle, part: 0, binding: Some(flow(1)) },
        prepare(2, modify(handle, 7)),
    ] {
        assert!(matches!(why(d.call("ann", call)), RefusalReason::Undecided { .. }));
    }
    let created = promised(&mut d, 3, creation(1, 5, 9));
    for call in [Call::Cancel(created.handle), Call::Commit(created.handle)] {
        assert!(matches!(why(d.call("ann", call)), RefusalReason::Undecided { .. }));
    }
    granted(d.call("broker", decide(1, Some(1))));
    assert_eq!(granted(d.call("ann", Call::Cancel(handle))).state, BookingState::Cancelled);
    d.check();
}

#[test]
fn a_binding_is_taken_from_the_promise_on() {
    let mut d = Driver::new(NET);
    let bound = |n| PrepareAsk::Bind { handle: Handle([0; 16]), part: 0, binding: Some(flow(n)) };
    let of = |handle, ask| match ask {
        PrepareAsk::Bind { part, binding, .. } => PrepareAsk::Bind { handle, part, binding },
        other => other,
    };
    let mut own = ask("net/eth1", 4, window(5, 9));
    own.parts[0].binding = Some(flow(1));
    let view = granted(d.call("ann", create(own)));
    let other = granted(d.call("bob", create(ask("net/eth1", 4, window(5, 9)))));
    promised(&mut d, 1, of(view.handle, bound(2)));
    let bind = |n| Call::Bind { handle: other.handle, part: 0, binding: Some(flow(n)) };
    for n in [1, 2] {
        assert!(matches!(why(d.call("bob", bind(n))), RefusalReason::Taken { .. }), "old and new");
    }
    let mut d = crash(&d, 1, 2);
    for n in [1, 2] {
        assert!(matches!(why(d.call("bob", bind(n))), RefusalReason::Taken { .. }), "old and new");
    }
    let after = granted(d.call("broker", decide(1, Some(1))));
    assert_eq!(after.parts[0].binding, Some(flow(2)));
    assert!(matches!(why(d.call("bob", bind(2))), RefusalReason::Taken { .. }));
    granted(d.call("bob", bind(1)));
    d.check();
}

/// A hold is promised: it has no deadline then; aborted, it has its deadline again.
#[test]
fn a_hold_is_promised() {
    for (commit, then) in [(true, BookingState::Booked), (false, BookingState::Expired)] {
        let mut d = Driver::new(NET);
        let hold = Some(Span::from_secs(3));
        let held = Call::Create { ask: ask("net/eth1", 4, window(20, 29)), hold, key: String::new() };
        let view = granted(d.call("ann", held));
        let said = promised(&mut d, 1, PrepareAsk::Hold(view.handle));
        assert_eq!((said.state, said.version), (BookingState::Promised, 2));
        d.until(10);
        let mut d = crash(&d, 11, 2);
        d.check();
        assert_eq!(d.view("ann", view.handle).state, BookingState::Promised);
        granted(d.call("broker", decide(1, commit.then_some(1))));
        assert_eq!(d.view("ann", view.handle).state, then);
        d.check();
    }
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(ask("net/eth1", 4, window(20, 29)))));
    let not_held = why(d.call("ann", prepare(1, PrepareAsk::Hold(view.handle))));
    assert_eq!(not_held, RefusalReason::WrongState(BookingState::Booked));
}

/// What is refused leaves no trace but the coordinator's epoch.
#[test]
fn a_refusal_changes_nothing() {
    let mut d = Driver::new(NET);
    d.world.most = 8;
    let view = granted(d.call("ann", create(ask("net/eth1", 4, window(5, 9)))));
    let before = (d.broker.digest(), d.world.counted());
    for (ask, policy) in [
        (creation(9, 5, 9), true),
        (creation(7, 5, 9), false),
        (modify(view.handle, 9), true),
        (PrepareAsk::Modify { handle: view.handle, change: amount(0) }, false),
        (PrepareAsk::Hold(view.handle), false),
        (PrepareAsk::Hold(Handle([9; 16])), false),
    ] {
        let said = why(d.call("ann", prepare(1, ask)));
        assert_eq!(matches!(said, RefusalReason::Policy { .. }), policy, "{said:?}");
    }
    assert_eq!((d.broker.digest(), d.world.counted()), before);
    assert!(open(&mut d).is_empty());
    assert_eq!(why(d.call("bob", prepare(2, modify(view.handle, 5)))), RefusalReason::UnknownHandle);
}

/// A coordinator cannot take everything: its open promises are limited.
#[test]
fn the_promises_of_a_coordinator_are_limited() {
    let mut config = Config::default();
    config.promises.promises = 2;
    let mut d = Driver::with(config, Tables::new(NET));
    promised(&mut d, 1, creation(1, 5, 9));
    promised(&mut d, 2, creation(1, 5, 9));
    let before = d.world.counted();
    assert!(matches!(why(d.call("ann", prepare(3, creation(1, 5, 9)))), RefusalReason::NotPromised { .. }));
    assert_eq!(d.world.counted(), before);
    granted(d.call("broker", decide(1, None)));
    promised(&mut d, 4, creation(1, 5, 9));
    d.check();
}

/// Sums of policy count a promised growth, so that two promises cannot come true together against the rule.
#[test]
fn sums_count_what_is_promised() {
    let mut d = Driver::new(NET);
    d.world.together = 6;
    let a = granted(d.call("ann", create(ask("net/eth1", 2, window(5, 9)))));
    let b = granted(d.call("ann", create(ask("net/eth1", 2, window(5, 9)))));
    promised(&mut d, 1, modify(a.handle, 4));
    assert!(matches!(why(d.call("ann", prepare(2, modify(b.handle, 3)))), RefusalReason::Policy { .. }));
    granted(d.call("broker", decide(1, None)));
    promised(&mut d, 3, modify(b.handle, 3));
    d.check();
}
