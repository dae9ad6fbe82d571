//! The decoder's torture, as long as one likes.
//!
//! ```text
//! cargo run --release -p sluice-wire --example torture -- 1000000000 [first seed]
//! ```
//!
//! says every ten seconds how far it is, and at the end how many executions, how many accepted, how many a second. A
//! failure prints its seed, by which it can be had again: `torture 1 SEED`. The codec's tests run the same mill.

mod mill;

use mill::Report;
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("how many, first seed"));
    let count = args.next().unwrap_or(10_000_000);
    let first = args.next().unwrap_or(0);
    let begun = Instant::now();
    let mut told = Instant::now();
    let report = mill::run(first, count, |r| {
        if told.elapsed().as_secs() >= 10 {
            told = Instant::now();
            println!("{} of {count}, {} accepted, {} crashes", r.executions, r.accepted, r.crashes);
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let Report { executions, accepted, neighbourly, crashes } = report;
    let rate = executions as f64 / seconds;
    println!(
        "{executions} executions, {accepted} accepted ({neighbourly} between neighbours), {crashes} crashes, {rate:.0} a second"
    );
    std::process::exit(i32::from(crashes > 0));
}
