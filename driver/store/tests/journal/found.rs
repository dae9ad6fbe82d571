//! What is found at start: a journal that is whole opens, and one that is not is refused with the reason, never taken for
//! another and never half read. Faults D6 to D11 and D16 of the catalogue.

use crate::script::{Content, Scratch, batch, options, scratch};
use std::fs;
use std::path::Path;
use store::sqlite::{FILE, SEAL, Sqlite, restore, verify};
use store::{Batch, Damage, Error, Journal, Record, Store, TableId, Ticket};

/// A journal with the first `count` transactions, closed.
fn made(name: &str, count: u64) -> Scratch {
    let place = scratch(name);
    let mut store = Sqlite::open(&place.0, options(None)).unwrap();
    write(&mut store, 0, count);
    place
}

fn write(store: &mut Sqlite, from: u64, upto: u64) {
    for n in from..upto {
        store.commit(&mut [batch(n)].iter()).unwrap();
    }
}

fn read(place: &Path) -> Result<Content, Error> {
    Sqlite::open(place, options(None)).and_then(|mut store| Content::of(&mut store))
}

#[test]
fn what_was_written_is_found_and_openings_are_counted() {
    let place = made("whole", 30);
    assert!(read(&place.0).unwrap() == Content::after(30));
    let store = Sqlite::open(&place.0, options(None)).unwrap();
    assert_eq!((store.epoch(), store.head().number), (3, 30));
    for (name, wanted) in [("synchronous", "2"), ("journal_mode", "wal"), ("locking_mode", "exclusive")] {
        assert_eq!(store.pragma(name).unwrap(), wanted, "{name}");
    }
    drop(store);
    assert_eq!(verify(&place.0).unwrap().1.number, 30);
    assert!(!place.0.join(format!("{FILE}-shm")).exists(), "its index is in memory: there is no file to lose");
}

/// A seal that cannot be written ends a start and nothing else, however often (as on a full disk, whose room was used up
/// before it was the seal's turn): with room the next start has everything.
#[test]
fn starts_that_cannot_write_the_seal_lock_nobody_out() {
    let place = made("no-room-for-the-seal", 12);
    let obstacle = place.0.join("journal.seal.new");
    fs::create_dir(&obstacle).unwrap();
    for _ in 0..5 {
        assert!(matches!(read(&place.0), Err(Error::Failed { .. })), "the seal cannot be written");
    }
    fs::remove_dir(&obstacle).unwrap();
    assert!(read(&place.0).unwrap() == Content::after(12));
}

/// Kills on either side of the database's count, any number of them: between, the seal says that an opening has begun.
#[test]
fn starts_that_die_beside_the_seal_lock_nobody_out() {
    let place = made("dies-beside-the-seal", 12);
    let seal = place.0.join(SEAL);
    for round in 0..6 {
        // Before the count: the intention alone is there.
        let begun = read_seal(&seal).replace('\n', " and again\n");
        fs::write(&seal, &begun).unwrap();
        if round % 3 == 0 {
            // After the count: the seal's last word was not written.
            let store = Sqlite::open(&place.0, options(None)).unwrap();
            let said = format!("opened {}\n", store.epoch());
            assert!(read_seal(&seal).ends_with(&said), "{said}");
            drop(store);
            fs::write(&seal, &begun).unwrap();
        }
        assert!(read(&place.0).unwrap() == Content::after(12), "round {round}");
    }

    // A journal two openings behind is a backup's, and one that is not begun may be no opening behind.
    let old: Vec<_> = [FILE.to_owned(), format!("{FILE}-wal")]
        .map(|name| (place.0.join(&name), fs::read(place.0.join(&name)).unwrap()))
        .into();
    for _ in 0..2 {
        assert!(read(&place.0).is_ok());
    }
    let (now, count) = (read_seal(&seal), |n: u64| format!("opened {n}"));
    let epoch: u64 = now.trim().rsplit(' ').next().unwrap().parse().unwrap();
    for seal_says in [now.clone(), now.replace('\n', " and again\n"), now.replace(&count(epoch), &count(epoch - 1))] {
        old.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        fs::write(&seal, &seal_says).unwrap();
        assert!(matches!(read(&place.0), Err(Error::Damaged(Damage::Mixed(_)))), "{seal_says}");
    }
}

fn read_seal(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_second_to_open_it_is_refused() {
    let place = made("held", 5);
    let mut store = Sqlite::open(&place.0, options(None)).unwrap();
    assert!(matches!(Sqlite::open(&place.0, options(None)), Err(Error::Held(_))));
    write(&mut store, 5, 10);
    drop(store);
    assert!(read(&place.0).unwrap() == Content::after(10), "the first was not disturbed");
}

#[test]
fn a_log_that_is_gone_or_of_another_is_not_passed_over() {
    let log = format!("{FILE}-wal");
    let place = made("log-gone", 20);
    fs::remove_file(place.0.join(&log)).unwrap();
    assert!(matches!(read(&place.0), Err(Error::Damaged(Damage::LogGone(_)))));
    fs::remove_file(place.0.join(SEAL)).unwrap();
    assert!(read(&place.0).is_ok(), "whoever takes the seal away goes on with what is left");

    let (place, other) = (made("log-mine", 20), made("log-other", 3));
    fs::copy(other.0.join(&log), place.0.join(&log)).unwrap();
    assert!(matches!(read(&place.0), Err(Error::Damaged(_))));

    // A snapshot of the database alone, put back under a log and a seal that went on.
    let place = made("snapshot", 20);
    let old = fs::read(place.0.join(FILE)).unwrap();
    for from in [20, 25] {
        let mut store = Sqlite::open(&place.0, options(None)).unwrap();
        write(&mut store, from, from + 5);
    }
    fs::write(place.0.join(FILE), old).unwrap();
    match read(&place.0) {
        Ok(content) => {
            let at = (0..=30).find(|&n| content == Content::after(n));
            assert_eq!(at, Some(30), "the log had it all; {} entries of the audit", content.audit.len());
        }
        Err(error) => assert!(matches!(error, Error::Damaged(_)), "{error}"),
    }

    // The same while a log goes on and begins anew, with whatever of it is posted or not.
    for since in 0..40 {
        let place = made("snapshot-later", 20);
        let mut store = Sqlite::open(&place.0, options(None)).unwrap();
        let old = fs::read(place.0.join(FILE)).unwrap();
        for n in 20..=20 + since {
            write(&mut store, n, n + 1);
            store.tidy(true).unwrap();
        }
        drop(store);
        fs::write(place.0.join(FILE), old).unwrap();
        match read(&place.0) {
            Ok(content) => assert!(content == Content::after(21 + since), "after {since}: something else was read"),
            Err(error) => assert!(matches!(error, Error::Damaged(_)), "{error}"),
        }
    }

    let (place, other) = (made("mine", 20), made("others", 20));
    fs::copy(other.0.join(FILE), place.0.join(FILE)).unwrap();
    fs::copy(other.0.join(&log), place.0.join(&log)).unwrap();
    assert!(matches!(read(&place.0), Err(Error::Damaged(Damage::Mixed(_)))), "another journal under our seal");
}

/// One bit in each page of the database, in its header, and all along the log: what is read is what was written, or it is
/// refused. Of the log's last transaction alone a bit may look as if the power had gone before it was whole.
#[test]
fn a_bit_that_flips_is_found() {
    let count = 40;
    let place = made("flips", count);
    {
        // Half in the database, half in the log.
        let mut store = Sqlite::open(&place.0, options(None)).unwrap();
        store.tidy(true).unwrap();
        write(&mut store, count, 2 * count);
        assert!(store.unposted() > 0, "of what is in the log, some is in the log table alone");
    }
    let (all, before_last) = (Content::after(2 * count), Content::after(2 * count - 1));
    let log = format!("{FILE}-wal");
    let whole: Vec<(String, Vec<u8>)> = [FILE.to_owned(), log.clone(), SEAL.to_owned()]
        .into_iter()
        .map(|name| (name.clone(), fs::read(place.0.join(name)).unwrap()))
        .collect();
    let scratch = scratch("flipped");
    let (mut refused, mut harmless, mut large) = (0, 0, false);
    for (name, bytes) in &whole[..2] {
        let step = if *name == log { 4096 + 24 } else { 4096 };
        let flips = (0..bytes.len()).step_by(step).flat_map(|page| [0, 3, 21, 60, 100, 2000, 4000].map(|at| page + at));
        for at in flips.filter(|&at| at < bytes.len()) {
            for (name, bytes) in &whole {
                fs::write(scratch.0.join(name), bytes).unwrap();
            }
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 1 << (at % 8);
            fs::write(scratch.0.join(name), &spoilt).unwrap();
            // Every other time as a large database, which is not checked whole before it is read.
            large = !large;
            let check_bytes = if large { 0 } else { u64::MAX };
            let found = Sqlite::open(&scratch.0, store::sqlite::SqliteOptions { check_bytes, ..options(None) });
            match found.and_then(|mut store| Content::of(&mut store)) {
                Ok(content) => {
                    let last = *name == log && content == before_last;
                    assert!(content == all || last, "{name} byte {at}: something else was read");
                    harmless += 1;
                }
                Err(Error::Newer { .. }) => refused += 1,
                Err(Error::Damaged(_) | Error::Failed { .. } | Error::Held(_)) => refused += 1,
                Err(error) => panic!("{name} byte {at}: {error:?}"),
            }
        }
    }
    assert!(refused > 100 && harmless > 0, "{refused} refused, {harmless} harmless");
}

#[test]
fn a_changed_audit_trail_is_found() {
    let place = made("audit", 20);
    Sqlite::open(&place.0, store::sqlite::SqliteOptions { idle_bytes: 1, ..options(None) })
        .unwrap()
        .tidy(true)
        .unwrap();
    let connection = rusqlite::Connection::open(place.0.join(FILE)).unwrap();
    connection.execute("UPDATE audit SET body = x'00' WHERE number = 7", ()).unwrap();
    drop(connection);
    fs::remove_file(place.0.join(SEAL)).unwrap(); // SQLite's own tool wrote the log back and took it away
    assert_eq!(read(&place.0).unwrap_err(), Error::Damaged(Damage::Audit(7)));
}

#[test]
fn a_later_format_is_refused_untouched() {
    let place = made("newer", 5);
    let connection = rusqlite::Connection::open(place.0.join(FILE)).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    fs::remove_file(place.0.join(SEAL)).unwrap();
    let before = fs::read(place.0.join(FILE)).unwrap();
    assert!(matches!(read(&place.0), Err(Error::Newer { found: 999, .. })));
    assert!(fs::read(place.0.join(FILE)).unwrap() == before);
    assert!(!place.0.join(SEAL).exists());
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let place = scratch("foreign");
    let connection = rusqlite::Connection::open(place.0.join(FILE)).unwrap();
    connection.execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1;").unwrap();
    drop(connection);
    assert!(matches!(read(&place.0), Err(Error::Failed { .. })));
    fs::write(place.0.join(FILE), b"this is no database at all, and long enough to be looked at").unwrap();
    assert!(matches!(read(&place.0), Err(Error::Damaged(_))));
}

#[test]
fn a_backup_while_it_writes_is_a_point_in_time_and_its_owner_is_new() {
    let (place, target) = (scratch("backup"), scratch("restored"));
    let store = Sqlite::open(&place.0, options(None)).unwrap();
    let epoch = store.epoch();
    let (send, answers) = std::sync::mpsc::channel();
    let journal =
        Journal::start(store, move |all| all.drain(..).for_each(|answer| send.send(answer).unwrap())).unwrap();
    let copy = place.0.join("copy.db");
    let (copied, backup) = std::sync::mpsc::channel();
    for n in 0..100 {
        journal.append(Ticket(n), batch(n)).unwrap();
        if n == 60 {
            let (copy, copied) = (copy.clone(), copied.clone());
            journal.look(move |store| copied.send(store.backup(&copy)).unwrap()).unwrap();
        }
    }
    drop(journal);
    assert!(answers.iter().all(|answer| answer.result.is_ok()));
    backup.recv().unwrap().unwrap();
    restore(&copy, &target.0).unwrap();
    let mut restored = Sqlite::open(&target.0, options(None)).unwrap();
    assert!(Content::of(&mut restored).unwrap() == Content::after(61), "everything before it and nothing after");
    assert!(restored.epoch() > epoch);
    assert!(read(&place.0).unwrap() == Content::after(100));
    assert!(restore(&copy, &place.0).is_err(), "a journal that is there is not written over");
}

#[test]
fn what_is_too_large_is_refused_and_there_is_room_for_much() {
    let place = scratch("large");
    let store = Sqlite::open(&place.0, options(None)).unwrap();
    let journal = Journal::start(store, |_| {}).unwrap();
    let put = |key: usize, value: usize| -> Batch {
        vec![Record::Put { table: TableId(1), key: vec![1; key], value: vec![1; value] }]
    };
    assert!(matches!(journal.append(Ticket(1), put(1025, 1)), Err(Error::TooLarge { .. })));
    assert!(matches!(journal.append(Ticket(1), put(1, (1 << 20) + 1)), Err(Error::TooLarge { .. })));
    let many = vec![Record::Audit { body: Vec::new() }; (1 << 16) + 1];
    assert!(matches!(journal.append(Ticket(1), many), Err(Error::TooLarge { .. })));
    drop(journal);
    // A transaction of 100 MB, many times the log's size.
    let mut store = Sqlite::open(&place.0, options(None)).unwrap();
    let large: Batch =
        (0..100_u8).map(|n| Record::Put { table: TableId(2), key: vec![n], value: vec![n; 1 << 20] }).collect();
    store.commit(&mut [large].iter()).unwrap();
    store.tidy(false).unwrap();
    drop(store);
    let mut bytes = 0;
    Sqlite::open(&place.0, options(None)).unwrap().scan(&mut |_, _, value| bytes += value.len()).unwrap();
    assert_eq!(bytes, 100 << 20);
}

/// A real overlay (FAULTS.md D10): refused before anything is made there, and taken where that is said.
#[test]
fn an_overlay_is_refused() {
    let place = scratch("overlay");
    let dirs = ["lower", "upper", "work", "merged"].map(|name| place.0.join(name));
    dirs.iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
    let [lower, upper, work, merged] = dirs.each_ref().map(|dir| dir.display());
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "overlay", "sluice-test", "-o", &format!("lowerdir={lower},upperdir={upper},workdir={work}")]);
    if !mount.arg(merged.to_string()).output().is_ok_and(|output| output.status.success()) {
        return bench::skipped("an overlay cannot be mounted here (root, a kernel that has it)");
    }
    let journal = dirs[3].join("book");
    let refused = Sqlite::open(&journal, store::sqlite::SqliteOptions { any_filesystem: false, ..options(None) });
    let left = fs::read_dir(&journal).map_or(0, |files| files.count());
    let taken = Sqlite::open(&journal, store::sqlite::SqliteOptions { any_filesystem: true, ..options(None) });
    let taken = taken.map(drop);
    assert!(std::process::Command::new("umount").arg("-l").arg(&dirs[3]).status().unwrap().success());
    assert!(matches!(&refused, Err(Error::Place { filesystem, .. }) if filesystem == "overlay"), "{refused:?}");
    assert_eq!(left, 0);
    taken.unwrap();
}
