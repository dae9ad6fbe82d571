//! Appendix A of RFC 2963 on real packets: a hundred connections of the kernel's TCP through shapers, markers and RIO of planes
//! in user space, with the appendix's rates and delays ([`site`]).
//!
//! Beside each table stand the published values and those of the simulator, played with the same retransmission timeout.

mod judge;
mod site;
mod tcp;

use super::published::{A2, A3, A4, A5, A6, A7, COLUMNS, Goodput, Throughput, red};
use super::{CustomerResult, LARGE, Run, SMALL, params, play};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::Bed;
use bed::error::Error;
use sim::scenarios::rfc2963::{Params, ROUTERS, Shaping};
use site::LiveSite;
use std::time::{Duration, Instant};
use tcp::Connections;
use terms::Span;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ras-live",
    about: "Rate adaptive shapers before a trTCM on real packets: 100 connections of the kernel's TCP, published and simulated",
    source: "RFC 2963, appendix A (Bonaventure, De Cnodder 2000)",
    takes: "root, 14 minutes",
    run,
};

/// The least retransmission timeouts: that of Linux, and the one with which the simulator fits the tables.
const FLOORS: [Span; 2] = [Span::from_millis(200), Span::from_millis(1_700)];
/// The measured seconds of the whole and of the quick form. The appendix measures 100.
const MEASURED: [u64; 2] = [100, 12];
/// The columns of a customer's row.
const QUANTITIES: [&str; 4] = ["green", "yellow", "red", "total"];

/// One run: its shaper, its CBS in KB, its least retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LiveRun {
    shaping: Shaping,
    kilobytes: u64,
    floor: Span,
}

/// The results of a run, of real packets and of the simulator.
pub(super) struct Both {
    run: LiveRun,
    live: Vec<CustomerResult>,
    simulated: Vec<CustomerResult>,
}

fn runs(quick: bool) -> Vec<LiveRun> {
    let (shapings, floors): (&[Shaping], &[Span]) =
        if quick { (&[Shaping::TrRas], &FLOORS[..1]) } else { (&[Shaping::TrRas, Shaping::Green], &FLOORS) };
    let mut all = Vec::new();
    for &floor in floors {
        for &shaping in shapings {
            all.extend([SMALL, LARGE].map(|kilobytes| LiveRun { shaping, kilobytes, floor }));
        }
    }
    all
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    Bed::possible()?;
    let begun = Instant::now();
    let measured = MEASURED[usize::from(options.quick)];
    let all = runs(options.quick);
    let mut results = Vec::new();
    for (n, run) in all.iter().enumerate() {
        if options.progress {
            eprintln!("{} of {}: {}", n + 1, all.len(), words(run));
        }
        let mut params = params(run.shaping, run.kilobytes, 1);
        params.tcp.rto.floor = run.floor;
        params.duration = params.warm_up + Span::from_secs(measured);
        let live = again_if_void(|| measure(options, &params, run.floor, measured))?;
        let same = Run { shaping: run.shaping, kilobytes: run.kilobytes, params };
        let simulated = play(&same).map_err(|failed| Error::Void(failed.0))?.customers;
        results.push(Both { run: *run, live, simulated });
    }
    let mut finding = Finding::default();
    results.iter().for_each(|both| tell(&mut finding, both));
    finding.shortfalls = judge::shortfalls(&mut finding, &results);
    finding.notes.push(format!(
        "{} runs of {measured} measured seconds in {:.0} s; red is the rest of the published total",
        results.len(),
        begun.elapsed().as_secs_f64()
    ));
    Ok(finding)
}

fn words(run: &LiveRun) -> String {
    let shaping = if run.shaping == Shaping::Green { "G-trRAS" } else { "trRAS" };
    let floor = run.floor.as_nanos() as f64 / 1e9;
    format!("{shaping}, CBS {} KB, least timeout {floor} s", run.kilobytes)
}

/// Measures once more, and once more again, if other work on this machine has spoiled it.
fn again_if_void<T>(mut measure: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..2 {
        match measure() {
            Err(Error::Void(why)) => eprintln!("again: {why}"),
            other => return other,
        }
    }
    measure()
}

/// Measures one run on real packets.
fn measure(options: &RunOptions, params: &Params, floor: Span, seconds: u64) -> Result<Vec<CustomerResult>, Error> {
    let site = LiveSite::up(params, floor)?;
    let connections = Connections::start(&site, params.seed)?;
    options.patience.wait(Duration::from_nanos(params.warm_up.as_nanos()))?;
    let (begun, marked, received) = (Instant::now(), site.marked(), connections.received());
    options.patience.wait(Duration::from_secs(seconds))?;
    let (marked_then, received_then) = (site.marked(), connections.received());
    let seconds = begun.elapsed().as_secs_f64();
    if let Some(why) = site.spoiled() {
        return Err(Error::Void(why));
    }
    let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
    let one = |customer: usize| {
        let color = |n: usize| mbps(marked_then[customer][n] - marked[customer][n]);
        CustomerResult {
            green: color(0),
            yellow: color(1),
            total: color(0) + color(1) + color(2),
            goodput: mbps(received_then[customer] - received[customer]),
        }
    };
    Ok((0..ROUTERS).map(one).collect())
}

/// The name of a table with its timeout.
fn named(table: &str, floor: Span) -> String {
    format!("{table} ({} s)", floor.as_nanos() as f64 / 1e9)
}

fn tell(finding: &mut Finding, both: &Both) {
    let green = both.run.shaping == Shaping::Green;
    if both.run.kilobytes == SMALL {
        let tables: [(&str, &Throughput); 2] =
            if green { [("A.5", &A5), ("A.6", &A6)] } else { [("A.2", &A2), ("A.3", &A3)] };
        for (half, (table, published)) in tables.into_iter().enumerate() {
            throughput(finding, table, both, published, 5 * half);
        }
    }
    let (table, published): (&str, &Goodput) = if green { ("A.7", &A7) } else { ("A.4", &A4) };
    for (place, customers) in [("", &both.live), (" simulated", &both.simulated)] {
        let table = format!("{}{place}", named(table, both.run.floor));
        if both.run.kilobytes == SMALL {
            finding.title(&table, format!("goodput in Mb/s by CBS in KB; {}", words(&both.run)));
        }
        for (kilobytes, row) in published.iter().filter(|(kilobytes, _)| *kilobytes == both.run.kilobytes) {
            for ((column, customer), &published) in COLUMNS.into_iter().zip(row) {
                finding.cell(&table, &kilobytes.to_string(), column, Some(published), &[customers[customer].goodput]);
            }
        }
    }
}

fn throughput(finding: &mut Finding, table: &str, both: &Both, published: &Throughput, first: usize) {
    for (place, customers) in [("", &both.live), (" simulated", &both.simulated)] {
        let table = format!("{}{place}", named(table, both.run.floor));
        let whose = if first == 0 { "unshaped" } else { "shaped" };
        finding.title(&table, format!("throughput in Mb/s, {whose}; {}", words(&both.run)));
        for (n, row) in published.iter().enumerate() {
            let (found, row) = (customers[first + n], [row[0], row[1], red(*row), row[2]]);
            let measured = [found.green, found.yellow, red([found.green, found.yellow, found.total]), found.total];
            for ((column, published), measured) in QUANTITIES.into_iter().zip(row).zip(measured) {
                finding.cell(&table, &format!("C{}", first + n + 1), column, Some(published), &[measured]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_form_has_every_shaper_bucket_and_timeout_and_the_quick_one_a_part() {
        let (whole, quick) = (runs(false), runs(true));
        assert_eq!((whole.len(), quick.len()), (8, 2));
        assert!(quick.iter().all(|run| whole.contains(run)));
        assert_eq!(words(&whole[7]), "G-trRAS, CBS 100 KB, least timeout 1.7 s");
        assert_eq!(named("A.2", FLOORS[0]), "A.2 (0.2 s)");
        assert_eq!((red(A2[0]), red(A3[3])), (0.22, 0.0), "C9's colours sum to more than its total");
    }
}
