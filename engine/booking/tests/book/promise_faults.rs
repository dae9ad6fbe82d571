//! Promises to coordinators, when disk, clock and resources fail (FAULTS.md C2, C4, C7, D4, D6).

use super::promise::{NET, crash, creation, decide, free, modify, open, prepare, promised, why};
use crate::world::{Driver, Tables, at, window};
use crate::{ask, create, granted};
use booking::io::RecordTable;
use booking::{BookingState, Config, Input, RefusalReason};

/// The disk fails: a promise that is not on the disk is none; a decision is written again until it is (C2, D4).
#[test]
fn a_disk_that_fails() {
    let mut d = Driver::new(NET);
    d.writes = false;
    let id = d.say("ann", prepare(1, creation(6, 5, 9)));
    assert!(d.replies.is_empty() && free(&d, 5, 9) == 4);
    d.lose_one();
    assert!(d.replies.remove(&id).expect("an answer").is_err());
    assert_eq!(free(&d, 5, 9), 10);
    d.check();
    let id = d.say("ann", prepare(2, creation(6, 5, 9)));
    let input = d.write_one();
    d.tell(input);
    let view = granted(d.replies.remove(&id).expect("an answer"));
    let id = d.say("broker", decide(2, Some(1)));
    assert!(!d.replies.contains_key(&id), "it is not on the disk");
    d.lose_one();
    assert!(matches!(why(d.replies.remove(&id).expect("an answer")), RefusalReason::NotWritten { .. }));
    assert_eq!(d.view("ann", view.handle).state, BookingState::Promised);
    let id = d.say("broker", decide(2, Some(1)));
    d.writes = true;
    d.until(3);
    let booked = granted(d.replies.remove(&id).expect("it is written again by itself"));
    assert_eq!(
        (booked.state, crash(&d, 4, 2).broker.peek(view.handle)),
        (BookingState::Booked, Some(BookingState::Booked))
    );
    d.check();
}

/// The disk stays full for longer than calls may wait: the decision about a promise that time has ended is heard as soon as
/// there is room (C11, D4).
#[test]
fn a_disk_that_stays_full_keeps_no_decision_out() {
    let mut d = Driver::new(NET);
    promised(&mut d, 1, creation(6, 5, 9));
    d.until(10);
    d.writes = false;
    for _ in 0..100 {
        d.say("broker", decide(1, None));
        if !d.unwritten.is_empty() {
            d.lose_one();
        }
    }
    d.writes = true;
    d.say("broker", decide(1, None));
    d.drain();
    assert_eq!(d.broker.audit(), Ok(()));
    assert_eq!(open(&mut d), []);
    d.check();
}

/// The decision overtakes the vote: it is carried out as soon as the promise is on the disk (C4).
#[test]
fn a_decision_that_comes_too_early() {
    let mut d = Driver::new(NET);
    d.writes = false;
    let vote = d.say("ann", prepare(1, creation(6, 5, 9)));
    let decision = d.say("broker", decide(1, None));
    d.writes = true;
    let input = d.write_one();
    d.tell(input);
    assert!(d.replies.remove(&vote).expect("an answer").is_ok());
    assert_eq!(granted(d.replies.remove(&decision).expect("an answer")).state, BookingState::Cancelled);
    assert_eq!(free(&d, 5, 9), 10);
    d.check();
}

/// Calendar time moves, a resource goes and comes back: what is promised is counted again, old and grown.
#[test]
fn what_is_promised_is_counted_anew() {
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(ask("net/eth1", 4, window(50, 90)))));
    promised(&mut d, 1, modify(view.handle, 7));
    promised(&mut d, 2, creation(1, 50, 90));
    d.clock.ahead_ns = 10_000_000_000;
    d.tell(Input::Clock(d.clock));
    assert_eq!((free(&d, 40, 80), free(&d, 80, 90)), (2, 10), "ten seconds earlier by the agent's clock");
    d.check();
    let table = d.world.tables[0].1.take();
    d.tell(Input::Resource(terms::book::ResourceId(0)));
    d.world.tables[0].1 = Tables::new(NET).tables.remove(0).1;
    drop(table);
    d.tell(Input::Resource(terms::book::ResourceId(0)));
    assert_eq!(free(&d, 40, 80), 2);
    granted(d.call("broker", decide(1, None)));
    assert_eq!(free(&d, 40, 80), 5);
    d.check();
}

/// A damaged record is said and left out; no bytes on the disk make a panic.
#[test]
fn damaged_records_of_promises() {
    let mut d = Driver::new(NET);
    let view = granted(d.call("ann", create(ask("net/eth1", 4, window(50, 90)))));
    promised(&mut d, 1, modify(view.handle, 7));
    promised(&mut d, 2, creation(1, 50, 90));
    let ours: Vec<_> = d.disk.iter().filter(|((table, _), _)| *table == RecordTable::Promise).collect();
    assert_eq!(ours.len(), 1 + 2 + 2, "the coordinator, two promises, two changes");
    let mut chance = crate::random::Chance(4);
    let mut reported = 0;
    for round in 0..2_000 {
        let mut disk = d.disk.clone();
        let (key, mut value) = {
            let (k, v) = ours[round % ours.len()];
            (k.clone(), v.clone())
        };
        let place = chance.below(value.len() as u64) as usize;
        match chance.below(3) {
            0 => value.truncate(place),
            1 => value.insert(place, chance.draw() as u8),
            _ => value[place] = chance.draw() as u8,
        }
        disk.insert(key, value);
        let mut after = Driver::asleep(Config::default(), Tables::new(NET), disk, 2);
        after.corrupt = Some(0);
        after.now = at(1);
        after.wake_up();
        reported += after.corrupt.unwrap_or(0);
        let _ = after.call("broker", decide(1, Some(1)));
        let _ = after.call("broker", decide(2, None));
        after.check();
    }
    assert!(reported > 200, "{reported}");
}
