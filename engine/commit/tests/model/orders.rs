//! Orders: changes that no member can refuse, written down and then driven to their end.

use commit::coordinator::{Config, Input, LogBatchId, Output, TransactionKind};
use commit::record::MemberRecord;
use commit::{Coordinator, Decision, TransactionId};
use terms::Time;

const ID: TransactionId = TransactionId([7; 16]);

fn drained(coordinator: &mut Coordinator) -> Vec<Output> {
    std::iter::from_fn(|| coordinator.poll()).collect()
}

/// A coordinator that has begun its epoch.
fn open() -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default());
    coordinator.handle(Time::ZERO, Input::Recovered { nonce: 1 });
    drained(&mut coordinator);
    coordinator.handle(Time::ZERO, Input::Written(LogBatchId(1)));
    drained(&mut coordinator);
    let member = |name: &str| MemberRecord { name: name.into(), order: b"cancel".to_vec() };
    let members = vec![member("east"), member("west")];
    let kind = TransactionKind::Order;
    coordinator.handle(Time::ZERO, Input::Begin { id: ID, kind, members, note: Vec::new(), above: None });
    coordinator
}

#[test]
fn an_order_that_is_written_is_told_to_each_member() {
    let mut coordinator = open();
    let Some(Output::Append { batch, forced: true, .. }) = coordinator.poll() else { panic!("it is written first") };
    assert_eq!(drained(&mut coordinator), [], "and nothing is said before");
    coordinator.handle(Time::ZERO, Input::Written(batch));
    let told = drained(&mut coordinator);
    let commit = Decision::Commit { number: 1 };
    let is = |output: &&Output| matches!(output, Output::Decide { decision, .. } if *decision == commit);
    assert_eq!(told.iter().filter(is).count(), 2, "{told:?}");
}

#[test]
fn an_order_that_cannot_be_written_reaches_nobody_and_ends() {
    let mut coordinator = open();
    let Some(Output::Append { batch, .. }) = coordinator.poll() else { panic!("it is written first") };
    coordinator.handle(Time::ZERO, Input::WriteFailed(batch, "no space left".into()));
    let told = drained(&mut coordinator);
    assert!(told.iter().all(|output| !matches!(output, Output::Decide { .. })), "nobody was asked: {told:?}");
    assert!(told.iter().any(|output| matches!(output, Output::Decided { decision: Decision::Abort, .. })), "{told:?}");
    assert!(told.contains(&Output::Ended(ID)), "{told:?}");
    assert_eq!(coordinator.transactions().count(), 0);
    assert_eq!(coordinator.wake_at(), None);
}
