//! A database whose disk is full: nothing that was acknowledged is lost, the journal says it, and goes on when there is room.

use crate::postgres::leader;
use crate::script::{Content, batch};
use bench::postgres::PostgresServer;
use std::time::{Duration, Instant};
use store::{Batch, Error, Record, Store, TableId};

/// A batch with a large value, which needs room.
fn large(number: u64) -> Batch {
    let value: Vec<u8> =
        (0..200_000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ number as u8).collect();
    vec![Record::Put { table: TableId(9), key: number.to_be_bytes().to_vec(), value }]
}

#[test]
fn a_full_disk_refuses_and_takes_again_and_loses_nothing() {
    // Of a tmpfs of its own: 120 MB, of which a new server takes some 50.
    let server = match PostgresServer::on_small_disk("full", 120 << 20) {
        Ok(server) => server,
        Err(why) if why.contains("is not installed") || why.contains("needs root") => return bench::skipped(why),
        Err(why) => panic!("{why}"),
    };
    let mut store = leader(&server.connection(), "main");
    for n in 0..3 {
        store.commit(&mut [batch(n)].iter()).unwrap();
    }
    server.fill_disk(3 << 20).unwrap();
    let mut acknowledged = 0;
    let refused = loop {
        assert!(acknowledged < 500, "the disk is not full");
        match store.commit(&mut [large(acknowledged)].iter()) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    println!("{acknowledged} large batches, then: {refused}");
    assert!(matches!(&refused, Error::Full | Error::Dead(_)), "{refused:?}");
    server.empty_disk().unwrap();
    // Where the server itself has fallen, its administrator starts it again.
    let mut server = server;
    if server.sql("SELECT 1").is_err() {
        server.kill();
        server.resume_from_stop().unwrap();
    }
    if !matches!(refused, Error::Full) {
        drop(store);
        store = leader(&server.connection(), "main");
    }
    let begun = Instant::now();
    while let Err(error) = store.commit(&mut [large(1_000)].iter()) {
        assert!(matches!(error, Error::Full) && begun.elapsed() < Duration::from_secs(20), "{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(store);
    let mut found = Vec::new();
    let mut audit = 0;
    let mut again = leader(&server.connection(), "main");
    again
        .scan(&mut |table, key, value| {
            if table == TableId(9) {
                found.push((u64::from_be_bytes(key.try_into().unwrap()), value.len()));
            }
        })
        .unwrap();
    again.audit(1, 100, &mut |_, _| audit += 1).unwrap();
    let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
    let mut whole: Vec<u64> = (0..acknowledged).collect();
    // Of a server that fell in the middle the last one may be there, whole.
    if numbers.contains(&acknowledged) {
        assert!(matches!(refused, Error::Dead(_)), "it was refused, and is there");
        whole.push(acknowledged);
    }
    whole.push(1_000);
    assert_eq!(numbers, whole);
    assert!(found.iter().all(|(_, length)| *length == 200_000));
    assert!(audit > 0 && Content::of(&mut again).is_ok());
}
