//! The log table and the tables: what is read is both as one, and whatever happens while the one is posted to the others,
//! nothing is lost and nothing is there twice.

use crate::disk::{Disk, LOSSES, Loss, Model};
use crate::script::{Content, Scratch, batch, options, scratch};
use crate::vfs::Layer;
use bench::Draw;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use store::sqlite::{FILE, SEAL, Sqlite, SqliteOptions, configure};
use store::{Damage, Error, Record, Store, TableId};

/// A journal that posts only when it is told to.
fn patient(vfs: Option<&str>) -> SqliteOptions {
    SqliteOptions { idle_bytes: 1, most_bytes: usize::MAX, ..options(vfs) }
}

fn write(store: &mut Sqlite, from: u64, upto: u64) {
    for n in from..upto {
        store.commit(&mut [batch(n)].iter()).unwrap();
    }
}

fn read(place: &Path) -> Content {
    Sqlite::open(place, options(None)).and_then(|mut store| Content::of(&mut store)).unwrap()
}

#[test]
fn what_is_read_is_the_tables_and_the_daybook() {
    let place = scratch("merged");
    let mut store = Sqlite::open(&place.0, patient(None)).unwrap();
    let (mut expected, mut draw) = (Content::default(), Draw::new(5));
    for n in 0..120 {
        store.commit(&mut [batch(n)].iter()).unwrap();
        expected.apply(&batch(n));
        let waiting = store.unposted();
        match n % 17 {
            16 => {
                store.tidy(true).unwrap();
                assert_eq!(store.unposted(), 0);
            }
            11 => {
                drop(store);
                store = Sqlite::open(&place.0, patient(None)).unwrap();
                assert_eq!(store.unposted(), waiting, "what waited waits still");
            }
            _ => assert!(waiting > 0),
        }
        let mut keys = Vec::new();
        store.scan(&mut |table, key, _| keys.push((table, key.to_vec()))).unwrap();
        assert!(keys.is_sorted_by(|a, b| a < b), "in order, and each once");
        assert!(Content::of(&mut store).unwrap() == expected);
        let (from, most) = (1 + draw.next_u64() % (n + 2), draw.next_u64() % 40);
        let mut page = Vec::new();
        store.audit(from, most, &mut |link, body| page.push((link.number, body.to_vec()))).unwrap();
        let whole = expected.audit.iter().enumerate().map(|(at, body)| (at as u64 + 1, body.clone()));
        let stretch: Vec<_> = whole.filter(|(number, _)| (from..from + most).contains(number)).collect();
        assert_eq!(page, stretch, "{most} from {from} of {}", n + 1);
    }
    assert_eq!(store.audit(123, 1, &mut |_, _| {}), Err(Error::Damaged(Damage::Audit(122))), "past the end");
}

/// The program is gone at any write, its own files are not: of what was being posted all is there, once.
#[test]
fn killed_at_every_write() {
    let directory = scratch("killed");
    let layer = Layer::register("killed");
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (left, found) = mpsc::sync_channel::<(u64, BTreeMap<String, Vec<u8>>)>(16);
    let checker = std::thread::spawn(move || {
        let after = scratch("killed-after");
        let (mut kills, mut posting) = (0_u64, 0_u64);
        for (acknowledged, files) in found {
            kills += 1;
            lay_out(&after, &files);
            let mut store = Sqlite::open(&after.0, options(None)).unwrap();
            posting += u64::from(store.unposted() > 4_000);
            let content = Content::of(&mut store).unwrap();
            let fits = content == Content::after(acknowledged) || content == Content::after(acknowledged + 1);
            assert!(fits, "kill {kills}, {acknowledged} acknowledged");
        }
        (kills, posting)
    });
    let mut store = Sqlite::open(&directory.0, options(Some(&layer.name))).unwrap();
    let (told, place) = (acknowledged.clone(), directory.0.clone());
    layer.state.lock().unwrap().before_write = Some(Box::new(move |disk| {
        // When the checker has failed, its own words are what matters.
        let _ = left.send((told.load(Ordering::SeqCst), files(&place, disk, Model::written)));
    }));
    for n in 0..30 {
        if n % 7 == 6 {
            // While it is opened, too, with whatever waits in its log table.
            drop(store);
            store = Sqlite::open(&directory.0, options(Some(&layer.name))).unwrap();
        }
        store.commit(&mut [batch(n)].iter()).unwrap();
        acknowledged.store(n + 1, Ordering::SeqCst);
        store.tidy(true).unwrap();
    }
    layer.state.lock().unwrap().before_write = None;
    let (kills, posting) = checker.join().unwrap();
    assert!(kills > 200 && posting > 40, "{kills} kills, {posting} of them while much waited to be posted");
}

/// Everything that would be in the directory.
fn files(place: &Path, disk: &Disk, mut left: impl FnMut(&Model) -> Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut files: BTreeMap<String, Vec<u8>> = disk.iter().map(|(path, model)| (name(path), left(model))).collect();
    if let Ok(seal) = fs::read(place.join(SEAL)) {
        files.insert(SEAL.to_owned(), seal);
    }
    files
}

fn lay_out(place: &Scratch, files: &BTreeMap<String, Vec<u8>>) {
    let _ = fs::remove_dir_all(&place.0);
    fs::create_dir_all(&place.0).unwrap();
    for (name, bytes) in files {
        fs::write(place.0.join(name), bytes).unwrap();
    }
}

/// The disk is full from any write of a post on.
#[test]
fn a_post_that_finds_no_room_waits() {
    let layer = Layer::register("full-post");
    let (mut at, mut stopped) = (1, 0);
    loop {
        let place = scratch("full-post");
        let mut store = Sqlite::open(&place.0, patient(Some(&layer.name))).unwrap();
        write(&mut store, 0, 12);
        let waiting = store.unposted();
        layer.state.lock().unwrap().full_in = Some(at);
        assert_eq!(store.tidy(true), Ok(()), "at write {at}");
        let filled = {
            let mut state = layer.state.lock().unwrap();
            state.full_in = None;
            std::mem::take(&mut state.full)
        };
        assert!(store.unposted() == waiting || store.unposted() == 0, "all or nothing");
        stopped += u64::from(store.unposted() == waiting);
        assert!(Content::of(&mut store).unwrap() == Content::after(12), "at write {at}");
        // There is room again: what comes next is written, and posted in its time.
        write(&mut store, 12, 30);
        store.tidy(true).unwrap();
        assert_eq!(store.unposted(), 0, "at write {at}");
        assert!(Content::of(&mut store).unwrap() == Content::after(30), "at write {at}");
        drop(store);
        assert!(read(&place.0) == Content::after(30), "at write {at}");
        if !filled {
            break;
        }
        at += 1;
    }
    assert!(stopped > 10, "{stopped} of {at}");
}

#[test]
fn after_a_failed_sync_of_a_post_nothing_more_is_asked_of_the_disk() {
    let directory = scratch("eio-post");
    let layer = Layer::register("eio-post");
    let mut store = Sqlite::open(&directory.0, patient(Some(&layer.name))).unwrap();
    write(&mut store, 0, 12);
    layer.state.lock().unwrap().fail_sync_in = Some(1);
    assert!(matches!(store.tidy(true), Err(Error::Dead(_))));
    let asked = || {
        let state = layer.state.lock().unwrap();
        (state.writes, state.syncs)
    };
    let before = asked();
    assert!(matches!(store.commit(&mut [batch(12)].iter()), Err(Error::Dead(_))));
    assert!(matches!(store.tidy(true), Err(Error::Dead(_))));
    drop(store);
    assert_eq!(asked(), before, "nothing was written or synced after the failure");
    assert!(read(&directory.0) == Content::after(12));
}

/// A group that is too large for the log table goes to the tables with all that waits, or not at all.
#[test]
fn a_large_group_goes_past_the_daybook() {
    let directory = scratch("past");
    let layer = Layer::register("past");
    let mut store = Sqlite::open(&directory.0, patient(Some(&layer.name))).unwrap();
    write(&mut store, 0, 7);
    let (waiting, head) = (store.unposted(), store.head());
    let mut large = batch(7);
    large.push(Record::Put { table: TableId(5), key: vec![1], value: vec![7; 1 << 19] });
    large.push(Record::Audit { body: b"large".to_vec() });
    layer.state.lock().unwrap().full_in = Some(3);
    assert_eq!(store.commit(&mut [large.clone()].iter()), Err(Error::Full));
    assert_eq!((store.unposted(), store.head()), (waiting, head), "as before");
    assert!(Content::of(&mut store).unwrap() == Content::after(7));
    {
        let mut state = layer.state.lock().unwrap();
        (state.full, state.full_in) = (false, None);
    }
    let mut expected = Content::after(7);
    for (n, large) in [(None, Some(&large)), (Some(8), None), (None, Some(&large)), (Some(9), None)] {
        let batch = n.map(batch).or(large.cloned()).unwrap();
        store.commit(&mut [batch.clone()].iter()).unwrap();
        expected.apply(&batch);
        assert_eq!(store.unposted() == 0, n.is_none());
        assert!(Content::of(&mut store).unwrap() == expected);
    }
    drop(store);
    assert!(read(&directory.0) == expected);
}

/// A journal as the version before the log table wrote it, and its log.
fn of_format_1(place: &Path, count: u64) {
    let mut store = Sqlite::open(place, patient(None)).unwrap();
    write(&mut store, 0, count);
    store.tidy(true).unwrap();
    drop(store);
    let connection = rusqlite::Connection::open(place.join(FILE)).unwrap();
    configure(&connection).unwrap();
    connection.execute_batch("BEGIN; DROP TABLE daybook; PRAGMA user_version = 1; COMMIT;").unwrap();
}

#[test]
fn a_journal_of_the_earlier_format_goes_on_whatever_happens_meanwhile() {
    let (whole, after) = (scratch("format-1"), scratch("format-1-after"));
    of_format_1(&whole.0, 25);
    let before: BTreeMap<String, Vec<u8>> = [FILE.to_owned(), format!("{FILE}-wal"), SEAL.to_owned()]
        .map(|name| (name.clone(), fs::read(whole.0.join(name)).unwrap()))
        .into();
    let layer = Layer::register("format-1");
    let (mut draw, place, crashes) = (Draw::new(3), whole.0.clone(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let kept = crashes.clone();
    layer.state.lock().unwrap().before_sync = Some(Box::new(move |disk| {
        for loss in LOSSES {
            kept.lock().unwrap().push((loss, files(&place, disk, |model| model.after(loss, &mut draw))));
        }
    }));
    let mut store = Sqlite::open(&whole.0, options(Some(&layer.name))).unwrap();
    assert!(Content::of(&mut store).unwrap() == Content::after(25));
    layer.state.lock().unwrap().before_sync = None;
    write(&mut store, 25, 30);
    drop(store);
    assert!(read(&whole.0) == Content::after(30));
    let crashes = std::mem::take(&mut *crashes.lock().unwrap());
    assert!(crashes.len() >= 12, "the step, its number, the epoch: {}", crashes.len());
    for (loss, files) in crashes {
        lay_out(&after, &files);
        match Sqlite::open(&after.0, options(None)) {
            Ok(mut store) => assert!(Content::of(&mut store).unwrap() == Content::after(25), "{loss:?}"),
            Err(Error::Damaged(Damage::LogGone(_))) if loss == Loss::Garbage => {}
            Err(error) => panic!("{loss:?}: {error}"),
        }
    }
    lay_out(&after, &before);
    assert!(read(&after.0) == Content::after(25), "the earlier one is what it was");
}

#[test]
fn a_row_of_the_daybook_that_is_changed_or_missing_is_found() {
    for (deed, wrong) in [
        ("DELETE FROM daybook WHERE number = 3", 3),
        ("UPDATE daybook SET number = 99 WHERE number = 12", 12),
        ("UPDATE daybook SET body = substr(body, 2) WHERE number = 5", 5),
        ("DELETE FROM daybook WHERE number = 1", 1),
        ("DELETE FROM daybook", 1),
        ("DELETE FROM audit WHERE number = 6", 0),
        ("UPDATE audit SET hash = zeroblob(32) WHERE number = 6", 0),
    ] {
        let place = scratch("row");
        let mut store = Sqlite::open(&place.0, patient(None)).unwrap();
        write(&mut store, 0, 6);
        // The trail that is in its table is what the first row follows.
        if deed.contains("audit") {
            store.tidy(true).unwrap();
        }
        write(&mut store, 6, 12);
        drop(store);
        // The checkpoint of another opening knows of all the rows.
        drop(Sqlite::open(&place.0, patient(None)).unwrap());
        let connection = rusqlite::Connection::open(place.0.join(FILE)).unwrap();
        configure(&connection).unwrap();
        assert!(connection.execute(deed, ()).unwrap() > 0, "{deed}");
        drop(connection);
        match Sqlite::open(&place.0, options(None)).map(|_| ()).unwrap_err() {
            Error::Damaged(Damage::LogTable(row)) => assert_eq!(row, wrong, "{deed}"),
            Error::Damaged(Damage::Mixed(_) | Damage::Audit(6)) => assert_eq!(wrong, 0, "{deed}"),
            error => panic!("{deed}: {error}"),
        }
    }
}
