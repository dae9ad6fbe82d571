//! The pauses of a participant when its clock, which is the calendar, is set back.

use commit::coordinator::Serial;
use commit::participant::{Config, Input, Output, WriteId};
use commit::{Branch, Decision, Epoch, Participant, TransactionId};
use terms::{Span, Time};

const BRANCH: Branch = Branch { transaction: TransactionId([7; 16]), member: 0 };
const EPOCH: Epoch = Epoch { number: 1, decisions: 0, nonce: 1 };

fn drained(participant: &mut Participant) -> Vec<Output> {
    std::iter::from_fn(|| participant.poll()).collect()
}

fn day(n: u64) -> Time {
    Time::ZERO + Span::from_secs(86_400 * n)
}

/// A participant that has promised on this day.
fn promised(at: Time) -> Participant {
    let mut participant = Participant::new(Config::default());
    participant.handle(at, Input::Recovered);
    let prepare = Input::Prepare {
        branch: BRANCH,
        coordinator: "b".into(),
        epoch: EPOCH,
        serial: Serial { number: 1, floor: 1 },
        granted: Ok(()),
        until: Time::FOREVER,
    };
    participant.handle(at, prepare);
    participant.handle(at, Input::Written(WriteId(1)));
    drained(&mut participant);
    participant
}

#[test]
fn a_write_that_failed_is_repeated_soon_also_if_the_clock_was_set_back_by_a_day() {
    let mut participant = promised(day(9));
    let decide = || Input::Decide { branch: BRANCH, coordinator: "b".into(), epoch: EPOCH, decision: Decision::Abort };
    participant.handle(day(9), decide());
    participant.handle(day(9), Input::WriteFailed(WriteId(2)));
    drained(&mut participant);
    participant.handle(day(8), Input::Wake);
    let again = participant.wake_at().expect("it waits for its next attempt");
    assert!(again <= day(8) + Config::default().longest_pause, "{again:?}");
    participant.handle(again, Input::Wake);
    assert!(drained(&mut participant).iter().any(|output| matches!(output, Output::Append { .. })));
}

#[test]
fn a_coordinator_is_asked_soon_also_if_the_clock_was_set_back_by_a_day() {
    let mut participant = promised(day(9));
    participant.handle(day(8), Input::Wake);
    let ask = participant.wake_at().expect("it asks");
    assert!(ask <= day(8) + Config::default().longest_pause, "{ask:?}");
    participant.handle(ask, Input::Wake);
    assert!(drained(&mut participant).iter().any(|output| matches!(output, Output::Ask { .. })));
}
