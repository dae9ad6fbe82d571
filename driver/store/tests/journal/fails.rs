//! A disk that fails: after an fsync that said no the journal is dead and asks nothing more of the disk; a full disk refuses a
//! batch whole and is forgiven.

use crate::script::{Content, batch, options, scratch};
use crate::vfs::Layer;
use store::sqlite::Sqlite;
use store::{Error, Store};

#[test]
fn after_a_failed_sync_nothing_more_is_asked_of_the_disk() {
    let directory = scratch("eio");
    let layer = Layer::register("eio");
    let mut store = Sqlite::open(&directory.0, options(Some(&layer.name))).unwrap();
    for n in 0..3 {
        store.commit(&mut [batch(n)].iter()).unwrap();
    }
    layer.state.lock().unwrap().fail_sync_in = Some(1);
    assert!(matches!(store.commit(&mut [batch(3)].iter()), Err(Error::Dead(_))));
    let asked = || {
        let state = layer.state.lock().unwrap();
        (state.writes, state.syncs)
    };
    let before = asked();
    for n in 4..8 {
        assert!(matches!(store.commit(&mut [batch(n)].iter()), Err(Error::Dead(_))), "the disk says yes again");
        assert!(matches!(store.tidy(true), Err(Error::Dead(_))));
    }
    drop(store);
    assert_eq!(asked(), before, "nothing was written or synced after the failure");
    let mut again = Sqlite::open(&directory.0, options(None)).unwrap();
    let found = Content::of(&mut again).unwrap();
    assert!(found == Content::after(3) || found == Content::after(4), "whole or not at all");
}

#[test]
fn a_failed_sync_of_a_write_back_ends_it_too() {
    let directory = scratch("eio-back");
    let layer = Layer::register("eio-back");
    let mut store = Sqlite::open(&directory.0, options(Some(&layer.name))).unwrap();
    let mut acknowledged = 0;
    for n in 0..60 {
        store.commit(&mut [batch(n)].iter()).unwrap();
        acknowledged = n + 1;
        layer.state.lock().unwrap().fail_sync_in = Some(2); // the first is of the log, the second of the database
        if store.tidy(true).is_err() {
            break;
        }
        layer.state.lock().unwrap().fail_sync_in = None;
    }
    assert!(acknowledged < 60, "it was written back meanwhile");
    assert!(matches!(store.commit(&mut [batch(99)].iter()), Err(Error::Dead(_))));
    drop(store);
    let mut again = Sqlite::open(&directory.0, options(None)).unwrap();
    assert!(Content::of(&mut again).unwrap() == Content::after(acknowledged));
}

#[test]
fn a_full_disk_refuses_a_batch_whole_and_takes_the_next_when_there_is_room() {
    let directory = scratch("full");
    let layer = Layer::register("full");
    let mut store = Sqlite::open(&directory.0, options(Some(&layer.name))).unwrap();
    store.commit(&mut [batch(0)].iter()).unwrap();
    layer.state.lock().unwrap().full = true;
    for _ in 0..3 {
        assert_eq!(store.commit(&mut [batch(1)].iter()), Err(Error::Full));
    }
    assert_eq!(store.tidy(true), Ok(()));
    assert!(Content::of(&mut store).unwrap() == Content::after(1), "as before");
    layer.state.lock().unwrap().full = false;
    for n in 1..40 {
        store.commit(&mut [batch(n)].iter()).unwrap();
        layer.state.lock().unwrap().full = n % 3 == 0;
        assert_eq!(store.tidy(true), Ok(()), "a write-back that finds no room waits");
        layer.state.lock().unwrap().full = false;
    }
    drop(store);
    let mut again = Sqlite::open(&directory.0, options(None)).unwrap();
    assert!(Content::of(&mut again).unwrap() == Content::after(40));
}
