//! The whole test by several processes at once, each with a part of the faults: most of a run is waiting.

use super::{AnomalyOptions, AnomalyReport};
use bed::error::Error;
use bed::patience::Patience;
use bed::program::{self, RunningProgram};
use linux::process::ProcessId;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time for a part to remove its testbed after it was stopped.
const END: Duration = Duration::from_secs(60);
const SIGINT: i32 = 2;

/// A part of the faults on its way.
struct Part {
    number: u64,
    running: RunningProgram,
    /// Reads what the part prints, to its end.
    output: JoinHandle<String>,
}

/// Runs all faults in `jobs` processes. Returns the sums, and each finding in words.
///
/// # Errors
/// The test cannot run here, a part fails, or the user stops it.
pub fn run_in_parts(
    options: &AnomalyOptions,
    jobs: u64,
    patience: &Patience,
) -> Result<(AnomalyReport, Vec<String>), Error> {
    let mut parts = (1..=jobs).map(|number| start(options, number, jobs)).collect::<Result<Vec<Part>, Error>>()?;
    if let Err(stopped) = wait(&mut parts, options.progress, patience) {
        parts.iter_mut().for_each(|part| end(&mut part.running));
        return Err(stopped);
    }
    let (mut report, mut findings) = (AnomalyReport::default(), Vec::new());
    for Part { number, mut running, output } in parts {
        let text = output.join().unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().collect();
        let last = lines.pop().and_then(|line| serde_json::from_str::<AnomalyReport>(line).ok());
        let Some(found) = last else {
            let why = running.ended().errors;
            return Err(Error::Program(format!("part {number} of {jobs} did not end as it should: {}", why.trim())));
        };
        report.faults += found.faults;
        report.lost += found.lost;
        report.stuck += found.stuck;
        findings.extend(lines.into_iter().map(str::to_owned));
    }
    Ok((report, findings))
}

fn start(options: &AnomalyOptions, number: u64, jobs: u64) -> Result<Part, Error> {
    let mut command = Command::new(&options.program);
    command.args(["torture", "anomalies", "--silent", "--json", "--part", &format!("{number}/{jobs}")]);
    if let Some(faults) = options.faults {
        command.args(["--faults", &faults.to_string()]);
    }
    let mut running = program::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let pipe = running.take_stdout();
    let output = std::thread::spawn(move || {
        let mut text = Vec::new();
        // A pipe that breaks ends the text; what is missing is noticed.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    Ok(Part { number, running, output })
}

fn wait(parts: &mut [Part], progress: bool, patience: &Patience) -> Result<(), Error> {
    let mut left = parts.len() + 1;
    loop {
        let running = parts.iter_mut().filter_map(|part| part.running.is_running().then_some(())).count();
        if progress && running != left {
            eprintln!("{running} of {} parts run", parts.len());
        }
        left = running;
        if running == 0 {
            return Ok(());
        }
        patience.wait(Duration::from_millis(200))?;
    }
}

/// Stops a part, and waits until it has removed its testbed.
fn end(running: &mut RunningProgram) {
    if let Some(id) = ProcessId::of(running.id()) {
        // It may have ended by itself.
        let _ = id.signal(SIGINT);
    }
    let until = Instant::now() + END;
    while running.is_running() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
}
