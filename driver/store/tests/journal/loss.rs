//! Power is lost at every sync of the script, in every way that the model knows, and from the very first byte of a new
//! journal on. What was acknowledged is there; what was not is there whole or not at all.

use crate::disk::{Disk, LOSSES, Loss};
use crate::script::{Content, Scratch, TRANSACTIONS, batch, options, scratch};
use crate::vfs::Layer;
use bench::Draw;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use store::sqlite::{SEAL, Sqlite};
use store::{Damage, Error, Store};

/// The files after a power loss, and what was acknowledged by then.
struct Crash {
    loss: Loss,
    files: BTreeMap<String, Vec<u8>>,
    acknowledged: u64,
    at: u64,
}

#[derive(Default)]
struct Found {
    crashes: u64,
    /// The transaction that was being written was there.
    with_unacknowledged: u64,
    /// The header of the log was in the sector that was spoilt: refused by name, and not taken for an empty log.
    refused: u64,
}

#[test]
fn nothing_acknowledged_is_lost_at_any_sync() {
    let directory = scratch("loss");
    let layer = Layer::register("power-loss");
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (crashes, waiting) = mpsc::sync_channel(16);
    let checker = std::thread::spawn(move || check(&waiting));
    let (told, place) = (acknowledged.clone(), directory.0.clone());
    let (mut draw, mut at) = (Draw::new(7), 0);
    layer.state.lock().unwrap().before_sync = Some(Box::new(move |disk| {
        at += 1;
        for loss in LOSSES {
            let files = files(&place, disk, loss, &mut draw);
            let acknowledged = told.load(Ordering::SeqCst);
            // When the checker has failed, its own words are what matters.
            let _ = crashes.send(Crash { loss, files, acknowledged, at });
        }
    }));
    let mut store = Sqlite::open(&directory.0, options(Some(&layer.name))).unwrap();
    let mut posts = 0;
    for n in 0..TRANSACTIONS {
        store.commit(&mut [batch(n)].iter()).unwrap();
        acknowledged.store(n + 1, Ordering::SeqCst);
        store.tidy(true).unwrap();
        posts += u64::from(store.unposted() == 0);
    }
    assert!(posts > 30, "the log table was posted {posts} times");
    assert_eq!(Content::of(&mut store).unwrap(), Content::after(TRANSACTIONS));
    drop(store);
    layer.state.lock().unwrap().before_sync = None;
    let found = checker.join().unwrap();
    assert!(found.crashes > 4 * (TRANSACTIONS + 40), "syncs of commits and of write-backs: {}", found.crashes);
    assert!(found.with_unacknowledged > 10, "some losses keep everything: {}", found.with_unacknowledged);
    assert!(found.refused < found.crashes / 50, "{} of {} refused", found.refused, found.crashes);
}

/// Everything that would be in the directory.
fn files(place: &Path, disk: &Disk, loss: Loss, draw: &mut Draw) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut files: BTreeMap<String, Vec<u8>> =
        disk.iter().map(|(path, model)| (name(path), model.after(loss, draw))).collect();
    if let Ok(seal) = std::fs::read(place.join(SEAL)) {
        files.insert(SEAL.to_owned(), seal);
    }
    files
}

fn check(crashes: &mpsc::Receiver<Crash>) -> Found {
    let Scratch(ref place) = scratch("loss-after");
    let mut found = Found::default();
    let mut expected = (0, Content::default());
    for crash in crashes {
        found.crashes += 1;
        let _ = std::fs::remove_dir_all(place);
        std::fs::create_dir_all(place).unwrap();
        for (name, bytes) in &crash.files {
            std::fs::write(place.join(name), bytes).unwrap();
        }
        let context = format!("sync {}, {:?}, {} acknowledged", crash.at, crash.loss, crash.acknowledged);
        let content = match Sqlite::open(place, options(None)).and_then(|mut store| Content::of(&mut store)) {
            Ok(content) => content,
            Err(Error::Damaged(Damage::LogGone(_))) if crash.loss == Loss::Garbage => {
                found.refused += 1;
                continue;
            }
            Err(error) => panic!("{context}: {error}"),
        };
        while expected.0 < crash.acknowledged {
            expected.1.apply(&batch(expected.0));
            expected.0 += 1;
        }
        if content == expected.1 {
            continue;
        }
        let mut with_next = expected.1.clone();
        with_next.apply(&batch(crash.acknowledged));
        assert!(content == with_next, "{context}: neither what was acknowledged nor that and the next");
        found.with_unacknowledged += 1;
    }
    found
}
