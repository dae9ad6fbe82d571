//! A journal that was restored from an older copy: nothing is presumed before the participants have been heard that may
//! know better.

use commit::coordinator::{Config, Input, LogBatchId, Outcome, Output};
use commit::record::{CoordinatorRecord, MemberRecord};
use commit::{Branch, Coordinator, Decision, Epoch, TransactionId};
use terms::Time;

const ID: TransactionId = TransactionId([7; 16]);

fn drained(coordinator: &mut Coordinator) -> Vec<Output> {
    std::iter::from_fn(|| coordinator.poll()).collect()
}

/// A coordinator of three agents, whose journal is of the epoch 4 and has these records.
fn started(records: Vec<CoordinatorRecord>) -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default());
    let epoch = CoordinatorRecord::Epoch { number: 4, decisions: 9, forgotten: (0, 0) };
    for record in records.into_iter().chain([epoch]) {
        coordinator.handle(Time::ZERO, Input::Recovering(record));
    }
    for name in ["east", "west", "north"] {
        coordinator.handle(Time::ZERO, Input::Participant(name.into()));
    }
    coordinator.handle(Time::ZERO, Input::Recovered { nonce: 1 });
    drained(&mut coordinator);
    coordinator.handle(Time::ZERO, Input::Written(LogBatchId(1)));
    coordinator
}

/// The transaction of east and west, undecided when the copy was made.
fn undecided() -> CoordinatorRecord {
    let member = |name: &str| MemberRecord { name: name.into(), order: Vec::new() };
    let (epoch, members) = (Epoch { number: 4, decisions: 8, nonce: 3 }, vec![member("east"), member("west")]);
    CoordinatorRecord::Transaction { id: ID, epoch, committed: None, members, note: Vec::new(), above: None }
}

/// The decisions that are told.
fn told(coordinator: &mut Coordinator) -> Vec<(u32, Decision)> {
    let told = |output| match output {
        Output::Decide { branch, decision, .. } => Some((branch.member, decision)),
        _ => None,
    };
    drained(coordinator).into_iter().filter_map(told).collect()
}

#[test]
fn what_the_journal_does_not_know_is_aborted_when_all_participants_were_heard() {
    let mut coordinator = started(Vec::new());
    let promised = || vec![(Branch { transaction: ID, member: 0 }, 4)];
    for (heard, told_now) in [("east", false), ("north", false), ("west", true)] {
        coordinator.handle(Time::ZERO, Input::Promises { promises: promised(), name: "east".into() });
        assert_eq!(told(&mut coordinator), [], "before {heard} was heard");
        coordinator.handle(Time::ZERO, Input::Confirmed(heard.into()));
        let outcome = coordinator.outcome(ID, 4);
        assert_eq!(outcome, if told_now { Outcome::Decided(Decision::Abort) } else { Outcome::Open }, "{heard}");
    }
    coordinator.handle(Time::ZERO, Input::Promises { promises: promised(), name: "east".into() });
    assert_eq!(told(&mut coordinator), [(0, Decision::Abort)]);
    // Of its own epoch it knows everything.
    let young = started(Vec::new());
    assert_eq!(young.outcome(ID, 5), Outcome::Decided(Decision::Abort));
}

#[test]
fn what_the_journal_shows_as_undecided_is_aborted_when_its_members_were_heard() {
    let mut coordinator = started(vec![undecided()]);
    assert_eq!((told(&mut coordinator), coordinator.is_held(ID)), (Vec::new(), true));
    coordinator.handle(Time::ZERO, Input::Connected("east".into()));
    coordinator.handle(Time::ZERO, Input::Confirmed("east".into()));
    assert_eq!((told(&mut coordinator), coordinator.wake_at()), (Vec::new(), None), "west may know better");
    assert_eq!(coordinator.outcome(ID, 4), Outcome::Open);
    coordinator.handle(Time::ZERO, Input::Confirmed("west".into()));
    assert_eq!(told(&mut coordinator), [(0, Decision::Abort), (1, Decision::Abort)], "north has no part in it");
    assert!(!coordinator.is_held(ID));
}

#[test]
fn a_participant_that_knows_better_keeps_it_from_being_aborted() {
    let mut coordinator = started(vec![undecided()]);
    coordinator.handle(Time::ZERO, Input::Confirmed("east".into()));
    let known = Epoch { number: 4, decisions: 10, nonce: 3 };
    coordinator.handle(Time::ZERO, Input::Outdated { known });
    assert!(drained(&mut coordinator).contains(&Output::Outdated { known }));
    coordinator.handle(Time::ZERO, Input::AcceptOlder { known, nonce: 2 });
    drained(&mut coordinator);
    coordinator.handle(Time::ZERO, Input::Written(LogBatchId(2)));
    for name in ["west", "north"] {
        coordinator.handle(Time::ZERO, Input::Confirmed(name.into()));
    }
    assert_eq!(told(&mut coordinator), []);
    assert_eq!(coordinator.outcome(ID, 4), Outcome::Unknown, "an operator decides it at east");
}

#[test]
fn a_copy_that_was_started_twice_unheard_forgets_the_epochs_before_both_starts() {
    let epoch = CoordinatorRecord::Epoch { number: 6, decisions: 9, forgotten: (0, 0) };
    let mut coordinator = Coordinator::new(Config::default());
    coordinator.handle(Time::ZERO, Input::Recovering(epoch));
    coordinator.handle(Time::ZERO, Input::Recovered { nonce: 1 });
    coordinator.handle(Time::ZERO, Input::Written(LogBatchId(1)));
    let known = Epoch { number: 4, decisions: 10, nonce: 3 };
    coordinator.handle(Time::ZERO, Input::Outdated { known });
    coordinator.handle(Time::ZERO, Input::AcceptOlder { known, nonce: 2 });
    coordinator.handle(Time::ZERO, Input::Written(LogBatchId(2)));
    assert_eq!(coordinator.outcome(ID, 4), Outcome::Unknown);
}
