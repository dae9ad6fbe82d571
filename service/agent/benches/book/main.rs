//! The book down to the disk: creates per second that are acknowledged, in the process and over the agent's socket, beside
//! a loop of one-row INSERT and COMMIT in the same SQLite configuration and directory, in turns in the same run, because a
//! disk's speed drifts; and enquiries over the socket of an agent that holds 10^5 reservations.
//!
//! `sqlite_rows_per_s`: the loop, with nothing of ours in it but the settings. `broker_durable_creates_per_s_c1` and `_c64`:
//! book engine, ledger, journal's thread and SQLite as the agent has them, with one caller and with 64 that each wait for
//! their answer. `broker_socket_creates_per_s_c1` and `_c64`: a whole agent in a network namespace; one client of
//! `rpc::client`, and 64 connections. A ratio is the median over the rounds of ours against the loop's mean of that round.
//!
//! A create is a part of one interface in a window of the coming year, of one of 1,000 owners. The directory is
//! `SLUICE_BENCH_DIR`, or `target`: a disk, and not memory. `make bench` gives all threads and the clients one processor.

mod inside;
mod rows;
mod socket;
mod work;

use bench::{Bench, median, percentile};
use inside::Inside;
use socket::{Agent, Crowd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(500);
/// Enquiries that are timed.
const ENQUIRIES: usize = 20_000;

const CREATES: [&str; 9] = [
    "sqlite_rows_per_s",
    "broker_durable_creates_per_s_c1",
    "broker_durable_creates_per_s_c64",
    "broker_durable_ratio_c1",
    "broker_durable_ratio_c64",
    "broker_socket_creates_per_s_c1",
    "broker_socket_creates_per_s_c64",
    "broker_socket_ratio_c1",
    "broker_socket_ratio_c64",
];
const ENQUIRES: [&str; 3] =
    ["broker_enquire_socket_ns_1e5", "broker_enquire_socket_p99_ns_1e5", "broker_enquire_socket_refused_of_1_1e5"];
const STARTS: [&str; 2] = ["agent_start_s_1e6", "agent_resident_bytes_per_reservation"];

fn main() {
    let bench = Bench::from_args();
    let wants = |names: &[&str]| names.iter().any(|name| bench.wants(name));
    let base =
        std::env::var_os("SLUICE_BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), Into::into);
    let place = Place(base.join(format!("bench-book-{}", std::process::id())));
    if wants(&CREATES) {
        creates(&bench, &place);
    }
    if wants(&ENQUIRES) {
        enquiries(&bench, &place);
    }
    if wants(&STARTS) {
        start(&bench, &place);
    }
}

/// A folder that goes with its holder.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Work as long as a round, repeated; per second.
pub fn rate(mut work: impl FnMut()) -> f64 {
    let (start, mut done) = (Instant::now(), 0_u64);
    while start.elapsed() < ROUND {
        work();
        done += 1;
    }
    done as f64 / start.elapsed().as_secs_f64()
}

fn creates(bench: &Bench, place: &Place) {
    let mut inside = Inside::open(&place.0.join("inside"));
    let mut rows = rows::Rows::open(&place.0.join("rows"));
    let agent = Agent::start(&place.0.join("agent"), "100gbit");
    if let Err(failed) = &agent {
        bench::skipped(format!("no agent, and nothing over its socket: {failed}"));
    }
    let mut socket = agent.as_ref().ok().map(|agent| (agent.client(), Crowd::connect(agent, 64)));
    let mut measured: [Vec<f64>; 5] = Default::default();
    for round in 0..=ROUNDS {
        let first = rows.run();
        let alone = inside.run(1, ROUND);
        let many = inside.run(64, ROUND);
        let second = rows.run();
        let (one, crowd) = match &mut socket {
            Some((client, crowd)) => (client.creates(), crowd.creates()),
            None => (0.0, 0.0),
        };
        let third = rows.run();
        if round > 0 {
            let all = [(first + second + third) / 3.0, alone, many, one, crowd];
            measured.iter_mut().zip(all).for_each(|(values, value)| values.push(value));
        }
    }
    let [rows, ours @ ..] = measured;
    bench.report_beside(&CREATES.join(" "), CREATES[0], median(&mut rows.clone()), "1/s", ROUNDS);
    let names = [(1, 3), (2, 4), (5, 7), (6, 8)];
    for ((name, ratio), mut values) in names.into_iter().zip(ours) {
        if values.iter().all(|value| *value == 0.0) {
            continue;
        }
        let mut ratios: Vec<f64> = values.iter().zip(&rows).map(|(ours, rows)| ours / rows).collect();
        bench.report(CREATES[name], median(&mut values), "1/s", ROUNDS);
        bench.report(CREATES[ratio], median(&mut ratios), "x", ROUNDS);
    }
}

/// Half of the enquiries are about more than is free and get alternatives.
fn enquiries(bench: &Bench, place: &Place) {
    let home = place.0.join("enquiries");
    let mut inside = Inside::open(&home.join("state").join(agent_service::book::journal::FOLDER));
    inside.fill(100_000);
    let rate = inside.median_peak() + work::ENQUIRED;
    drop(inside);
    // What reservations may have is the link's rate without what is kept back (2 %), and their packets have link headers.
    let link = (rate as f64 * 1.014 / 0.98) as u64;
    let agent = match Agent::start(&home, &format!("{link}bit")) {
        Ok(agent) => agent,
        Err(failed) => return bench::skipped(format!("no agent: {failed}")),
    };
    let (mut times, refused) = agent.client().enquiries(ENQUIRIES);
    bench.report(ENQUIRES[0], percentile(&mut times, 0.5), "ns", ENQUIRIES);
    bench.report(ENQUIRES[1], percentile(&mut times, 0.99), "ns", ENQUIRIES);
    bench.report(ENQUIRES[2], refused as f64 / ENQUIRIES as f64, "of 1", ENQUIRIES);
}

/// From the start of an agent with 10^6 reservations in its journal to its first answer, and what it occupies then.
fn start(bench: &Bench, place: &Place) {
    let home = place.0.join("start");
    let count = 1_000_000;
    let mut inside = Inside::open(&home.join("state").join(agent_service::book::journal::FOLDER));
    inside.fill(count);
    drop(inside);
    let before = work::resident_bytes();
    let begun = Instant::now();
    match Agent::start(&home, "100gbit") {
        Ok(agent) => {
            bench.report(STARTS[0], begun.elapsed().as_secs_f64(), "s", 1);
            let grown = work::resident_bytes().saturating_sub(before);
            bench.report(STARTS[1], grown as f64 / count as f64, "B", 1);
            drop(agent);
        }
        Err(failed) => bench::skipped(format!("no agent: {failed}")),
    }
}
