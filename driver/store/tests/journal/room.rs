//! What has no end by itself is bounded: the audit trail keeps so many entries and proves them; and on a full disk what gives
//! something back is still written, into room that is kept for it (fault D4).

use crate::script::{options, scratch};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::sqlite::{FILE, Sqlite, SqliteOptions, verify};
use store::{Batch, ChainLink, Completion, Error, Journal, PendingBatch, Record, Store, Ticket, Visit};

const KEEP: u64 = 5_000;

fn body(n: u64) -> Vec<u8> {
    format!("entry {n} of an audit that somebody fills").into_bytes()
}

fn kept(store: &mut Sqlite, from: u64) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    store.audit(from, u64::MAX, &mut |link, bytes| found.push((link.number, bytes.to_vec()))).unwrap();
    found
}

#[test]
fn the_audit_keeps_so_many_entries_and_proves_them() {
    let place = scratch("audit-keeps");
    let usual = || SqliteOptions { audit_keep: KEEP, ..options(None) };
    let size = |place: &Path| fs::metadata(place.join(FILE)).unwrap().len();
    let mut store = Sqlite::open(&place.0, usual()).unwrap();
    let (mut next, mut early) = (1, 0);
    for round in 0..100 {
        let batch: Batch = (next..next + 1_000).map(|n| Record::Audit { body: body(n) }).collect();
        next += 1_000;
        store.commit(&mut [batch].iter()).unwrap();
        store.tidy(true).unwrap();
        if round == 20 {
            early = size(&place.0);
        }
    }
    let last = next - 1;
    assert_eq!(store.head().number, last);
    let found = kept(&mut store, 1);
    let first = found[0].0;
    assert!((last - KEEP - 8_192..=last - KEEP + 1).contains(&first), "{first} is the first of those up to {last}");
    assert!(found.iter().cloned().eq((first..=last).map(|n| (n, body(n)))));
    assert!(kept(&mut store, first + 10)[0].0 == first + 10 && kept(&mut store, last + 1).is_empty());
    drop(store);
    assert!(size(&place.0) <= early + early / 4, "{} bytes after {early}", size(&place.0));
    // It is proved as before, by an opening and whole; the first that is left hangs on what went.
    assert_eq!(verify(&place.0).unwrap().1.number, last);
    let spoil = |sql: &str| {
        let direct = rusqlite::Connection::open(place.0.join(FILE)).unwrap();
        assert_eq!(direct.execute(sql, [i64::try_from(first).unwrap()]).unwrap(), 1);
        drop(direct);
    };
    let before = fs::read(place.0.join(FILE)).unwrap();
    for sql in ["DELETE FROM audit WHERE number = ?1", "UPDATE audit SET body = x'00' WHERE number = ?1"] {
        spoil(sql);
        let wrong = Sqlite::open(&place.0, usual()).and_then(|mut store| store.audit(1, 10, &mut |_, _| {}));
        assert!(matches!(wrong, Err(Error::Damaged(_))), "{sql}: {wrong:?}");
        fs::write(place.0.join(FILE), &before).unwrap();
    }
}

/// A store whose disk has so much room, and so much beside that is kept.
struct Small {
    room: Arc<Mutex<(usize, usize)>>,
    there: bool,
}

impl Store for Small {
    fn commit(&mut self, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error> {
        let mut room = self.room.lock().unwrap();
        room.0 = room.0.checked_sub(batches.count()).ok_or(Error::Full)?;
        Ok(())
    }

    fn relieve(&mut self) -> bool {
        let mut room = self.room.lock().unwrap();
        self.there = false;
        let kept = std::mem::take(&mut room.1);
        room.0 += kept;
        kept > 0
    }

    fn is_short(&mut self) -> bool {
        let mut room = self.room.lock().unwrap();
        if !self.there && room.0 > 5 {
            (room.0, room.1, self.there) = (room.0 - 5, 5, true);
        }
        !self.there
    }

    fn scan(&mut self, _: &mut Visit<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn audit(&mut self, _: u64, _: u64, _: &mut dyn FnMut(&ChainLink, &[u8])) -> Result<(), Error> {
        Ok(())
    }

    fn tidy(&mut self, _: bool) -> Result<(), Error> {
        Ok(())
    }

    fn epoch(&self) -> u64 {
        1
    }

    fn head(&self) -> ChainLink {
        ChainLink::default()
    }
}

#[test]
fn what_gives_back_is_written_when_nothing_else_is() {
    let room = Arc::new(Mutex::new((4, 5)));
    let answers = Arc::new(Mutex::new(Vec::<Completion>::new()));
    let tray = answers.clone();
    let store = Small { room: room.clone(), there: true };
    let journal = Journal::start(store, move |told| tray.lock().unwrap().append(told)).unwrap();
    let mut next = 0;
    let mut hand_in = |urgent: &[bool]| -> Vec<bool> {
        let pieces = urgent.iter().map(|&urgent| {
            next += 1;
            PendingBatch { ticket: Ticket(next), batch: vec![Record::Audit { body: body(next) }], urgent }
        });
        assert!(journal.append_all(pieces.collect()).is_empty());
        let begun = Instant::now();
        loop {
            let mut told = answers.lock().unwrap();
            if told.len() == urgent.len() {
                assert!(told.iter().all(|a| a.result.is_ok() || a.result == Err(Error::Full)));
                return told.drain(..).map(|answer| answer.result.is_ok()).collect();
            }
            drop(told);
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    assert_eq!(hand_in(&[false, false, true]), [true, true, true]);
    // One place is left, and five are kept: what is new never takes those.
    assert_eq!(hand_in(&[false, false]), [false, false]);
    assert_eq!(hand_in(&[false, true, false]), [false, true, false]);
    assert_eq!(hand_in(&[true, false, true, true]), [true, false, true, true], "the kept room is thrown in");
    assert_eq!(hand_in(&[false]), [false], "two places are left, for what gives back");
    assert_eq!(hand_in(&[true]), [true]);
    // With room for both, everything goes on.
    room.lock().unwrap().0 += 10;
    assert_eq!(hand_in(&[false, true]), [true, true]);
    assert_eq!(room.lock().unwrap().1, 5, "and it is kept again");
}
