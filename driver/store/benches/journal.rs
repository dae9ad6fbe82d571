//! What group commit costs and gains: creates through the journal with 1 and with 64 callers, beside a loop of one-row
//! INSERT and COMMIT in the same SQLite configuration and directory, in turns in the same run, because a disk's speed drifts.
//!
//! A create here is what the book writes for one: a reservation of 160 bytes and an event of 120, each under the next number, and
//! an audit entry of 160. The directory is `SLUICE_BENCH_DIR`, or `target` of this workspace: a disk, and
//! not memory.

mod callers;

use bench::{Bench, median};
use callers::Callers;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::sqlite::{Sqlite, SqliteOptions};
use store::{Batch, Record, Store, TableId};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);

fn main() {
    let bench = Bench::from_args();
    if !["journal_appends_per_s_c1", "journal_appends_per_s_c64", "journal_rows_per_s"]
        .iter()
        .any(|name| bench.wants(name))
    {
        return;
    }
    let base = std::env::var_os("SLUICE_BENCH_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let directory = base.join(format!("bench-journal-{}", std::process::id()));
    let (ours, theirs) = (directory.join("journal"), directory.join("loop"));
    let mut row = Sqlite::open(&theirs, SqliteOptions::default()).expect("a journal");
    let store = Sqlite::open(&ours, SqliteOptions::default()).expect("a journal");
    let callers = Callers::start(store, create, ROUND);
    let (mut one, mut many, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let mut number = 0;
    for round in 0..=ROUNDS {
        let measured = [
            callers.run(1),
            rate(|| {
                number += 1;
                let record =
                    Record::Put { table: TableId(0), key: u64::to_be_bytes(number).to_vec(), value: vec![7; 100] };
                row.commit(&mut [vec![record]].iter()).expect("committed");
                row.tidy(true).expect("tidied");
            }),
            callers.run(64),
        ];
        if round > 0 {
            one.push(measured[0]);
            rows.push(measured[1]);
            many.push(measured[2]);
        }
    }
    let ratio = |ours: &[f64]| median(&mut ours.iter().zip(&rows).map(|(a, b)| a / b).collect::<Vec<_>>());
    let (first, second) = (ratio(&one), ratio(&many));
    bench.report("journal_appends_per_s_c1", median(&mut one), "1/s", ROUNDS);
    bench.report("journal_appends_per_s_c64", median(&mut many), "1/s", ROUNDS);
    bench.report("journal_rows_per_s", median(&mut rows), "1/s", ROUNDS);
    bench.report("journal_ratio_c1", first, "x", ROUNDS);
    bench.report("journal_ratio_c64", second, "x", ROUNDS);
    drop(callers);
    let _ = std::fs::remove_dir_all(directory);
}

fn rate(mut work: impl FnMut()) -> f64 {
    let (start, mut done) = (Instant::now(), 0_u64);
    while start.elapsed() < ROUND {
        work();
        done += 1;
    }
    done as f64 / start.elapsed().as_secs_f64()
}

fn create(number: u64) -> Batch {
    vec![
        Record::Put { table: TableId(0), key: number.to_be_bytes().to_vec(), value: vec![1; 160] },
        Record::Put { table: TableId(1), key: number.to_be_bytes().to_vec(), value: vec![2; 120] },
        Record::Audit { body: vec![3; 160] },
    ]
}
