//! A trail of many entries (fault D12): it opens, is read and goes on whatever its length. `SLUICE_AUDIT_ROWS` says how many
//! entries; with more than the usual 30,000 it lies on a disk and not in memory, and the times are printed.

use crate::script::{Scratch, options, scratch};
use std::path::PathBuf;
use std::time::Instant;
use store::sqlite::{FILE, Sqlite, SqliteOptions, verify};
use store::{Record, Store};

const USUAL: u64 = 30_000;
/// Entries in one transaction.
const TOGETHER: u64 = 10_000;
/// What an agent looks at for one call of `sluice audit`.
const PAGE: u64 = 1_024;

#[test]
fn a_long_trail_opens_and_is_read_like_a_short_one() {
    let rows = std::env::var("SLUICE_AUDIT_ROWS").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL);
    let place = match rows > USUAL {
        true => Scratch(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("many-{}", std::process::id()))),
        false => scratch("many"),
    };
    // As an agent has it, and so small that the trail is not checked whole even where it is short.
    let usual = || SqliteOptions {
        check_bytes: 1 << 20,
        any_filesystem: true,
        audit_keep: u64::MAX,
        ..SqliteOptions::default()
    };
    let mut store = Sqlite::open(&place.0, usual()).unwrap();
    let body = |n: u64| [&n.to_be_bytes()[..], &[7; 152]].concat();
    let begun = Instant::now();
    let mut next = 1;
    while next <= rows {
        let batch =
            (next..(next + TOGETHER).min(rows + 1)).map(|n| Record::Audit { body: body(n) }).collect::<Vec<_>>();
        next += batch.len() as u64;
        store.commit(&mut [batch].iter()).unwrap();
        store.tidy(true).unwrap();
    }
    let head = store.head();
    assert_eq!(head.number, rows);
    drop(store);
    println!("{rows} entries written in {:.1?}", begun.elapsed());
    let size = std::fs::metadata(place.0.join(FILE)).unwrap().len();
    println!("the database has {:.1} MB", size as f64 / 1e6);
    let begun = Instant::now();
    let mut store = Sqlite::open(&place.0, usual()).unwrap();
    println!("opened in {:.1?}", begun.elapsed());
    assert_eq!(store.head(), head);
    for from in [1, rows / 2, rows - PAGE + 1] {
        let (begun, mut found) = (Instant::now(), Vec::new());
        store.audit(from, PAGE, &mut |link, bytes| found.push((link.number, bytes.to_vec()))).unwrap();
        println!("a page from {from} on in {:.1?}", begun.elapsed());
        let expected: Vec<_> = (from..from + PAGE).map(|n| (n, body(n))).collect();
        assert!(found == expected, "from {from}");
    }
    store.commit(&mut [vec![Record::Audit { body: body(rows + 1) }]].iter()).unwrap();
    drop(store);
    assert_eq!(Sqlite::open(&place.0, options(None)).unwrap().head().number, rows + 1);
    let begun = Instant::now();
    assert_eq!(verify(&place.0).unwrap().1.number, rows + 1);
    println!("proved whole in {:.1?}", begun.elapsed());
}
