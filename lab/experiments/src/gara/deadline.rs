//! Data delivered by a deadline (seed 002, section 2.1): a file that must arrive in time under a flood, and
//! one that cannot and is refused before a byte is sent, with the earliest possible time.

use super::garnet::Garnet;
use super::meter::{ClassMeter, Second};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
use bed::program::{ExitReport, RunningProgram};
use std::time::{Duration, Instant};
use terms::Rate;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "deadline",
    about: "A file by a deadline under a flood: one that is there in time, one that is refused up front",
    source: "Foster, Roy, Sander, Winkler: End-to-End Quality of Service for High-End Applications (2000), section 2.1",
    takes: "root, 9 minutes",
    run,
};

const TABLE: &str = "deadline";
/// The rate of the flood, Mb/s.
const FLOOD: u64 = 95;
/// The file in bytes and its deadline in seconds: 2 GB at 36 Mb/s take 7 minutes 25 seconds; in the quick
/// form 24 MB take 5.3 seconds.
const WHOLE: (u64, u64) = (2_000_000_000, 480);
const QUICK: (u64, u64) = (24_000_000, 8);
/// The largest rate of premium, Mb/s.
const MOST: f64 = 45.0;
/// The interval between two readings of the classes.
const READ: Duration = Duration::from_millis(200);
/// The longest delay after the deadline before a transfer is given up.
const LATE: Duration = Duration::from_secs(60);

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let (bytes, seconds) = if options.quick { QUICK } else { WHOLE };
    let garnet = Garnet::up()?;
    let _receiver = garnet.receiver()?;
    let _flood = garnet.flood(Rate::from_mbps(FLOOD))?;
    let mut meter = garnet.meter()?;
    let file = garnet.file("deadline.dat", bytes)?;
    let mut finding = Finding::default();
    finding.title(TABLE, "a file by a deadline under a flood of 95 Mb/s, in 100 Mb/s of which 45 are premium");
    // One that cannot be: a quarter of the time that the whole premium channel takes.
    let least = bytes as f64 * 8e-6 / MOST;
    let soon = format!("now+{}ms", (least * 250.0) as u64);
    let refused = ended(garnet.copy(&file, &["--by", &soon])?, &mut meter, Duration::from_secs(30), options)?;
    let told = refused.errors.trim().to_owned();
    finding.notes.push(format!("refused up front: {told}"));
    if refused.code != Some(1) || !told.contains('T') || !told.contains('Z') {
        let code = refused.code;
        finding.shortfalls.push(format!("a transfer that cannot be is not refused with a time ({code:?}: {told})"));
    }
    finding.cell(TABLE, "impossible", "refused", Some(1.0), &[f64::from(u8::from(refused.code == Some(1)))]);
    finding.cell(TABLE, "impossible", "seconds", None, &[refused.took.as_secs_f64()]);
    // One that can.
    let by = format!("now+{seconds}s");
    let limit = Duration::from_secs(seconds) + LATE;
    let done = ended(garnet.copy(&file, &["--by", &by])?, &mut meter, limit, options)?;
    let took = done.took.as_secs_f64();
    finding.cell(TABLE, "possible", "MB", None, &[bytes as f64 / 1e6]);
    finding.cell(TABLE, "possible", "deadline s", None, &[seconds as f64]);
    finding.cell(TABLE, "possible", "seconds", None, &[took]);
    finding.cell(TABLE, "possible", "premium Mb/s", None, &[done.premium / took]);
    finding.cell(TABLE, "possible", "best effort Mb/s", None, &[done.best_effort / took]);
    finding.value("deadline_s", seconds as f64);
    finding.value("took_s", took);
    if done.code != Some(0) {
        finding.shortfalls.push(format!("the transfer failed: {}", done.errors.trim()));
    } else if took > seconds as f64 {
        finding.shortfalls.push(format!("the transfer took {took:.1} s, and had {seconds} s"));
    }
    Ok(finding)
}

/// The exit of a program, and the time that it took.
struct Done {
    code: Option<i32>,
    errors: String,
    took: Duration,
    /// The traffic that left meanwhile, Mbit of IP bytes.
    premium: f64,
    best_effort: f64,
}

/// Waits for a program's end, and counts the traffic meanwhile, because the class disappears with the
/// reservation.
fn ended(
    mut running: RunningProgram,
    meter: &mut ClassMeter,
    limit: Duration,
    options: &RunOptions,
) -> Result<Done, Error> {
    let begun = Instant::now();
    let (mut premium, mut best_effort) = (0.0, 0.0);
    let mut last = meter.read(|| 0)?;
    while running.is_running() {
        if begun.elapsed() > limit {
            return Err(Error::Void(format!("a transfer did not end within {} s", limit.as_secs())));
        }
        options.patience.wait(Duration::from_millis(5))?;
        if last.at.elapsed() > READ {
            let now = meter.read(|| 0)?;
            let passed = Second::between(&last, &now);
            premium += passed.foreground * passed.length;
            best_effort += passed.best_effort * passed.length;
            last = now;
        }
    }
    let took = begun.elapsed();
    let ExitReport { code, errors } = running.ended();
    Ok(Done { code, errors, took, premium, best_effort })
}
