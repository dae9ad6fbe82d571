//! `sluice demo` and `sluice lab ...`: the experiments of the laboratory.

use crate::args::{DemoArgs, LabCommand};
use crate::complain::Complaint;
use ::lab::demo::{self, DemoOptions, Report};
use ::lab::error::Error;
use ::lab::patience::Patience;
use ::lab::setup;
use ::lab::trial::{self, excess, kill_receiver, kill_router};
use daemon::testbed::UpOptions;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use terms::Span;

/// The exit status of a program that the user interrupted.
const INTERRUPTED: u8 = 130;

/// Runs the demonstration. Exit status 1: it ran, and did not show what it must.
pub fn demo(args: &DemoArgs) -> Result<ExitCode, Complaint> {
    let out = (!args.quick).then_some(args.out.as_path());
    if args.sim {
        return Ok(show(&demo::simulate(args.quick, out)?, out, args.json));
    }
    let patience = Patience::until_signalled()?;
    let up = options()?;
    let mut options = if args.quick { DemoOptions::quick(up) } else { DemoOptions::full(up, args.out.clone()) };
    options.progress = !args.silent;
    let report = match demo::run(&options, &patience) {
        Err(Error::Interrupted) => return Ok(interrupted()),
        result => result?,
    };
    Ok(show(&report, out, args.json))
}

/// Prints what the demonstration found.
fn show(report: &Report, out: Option<&Path>, json: bool) -> ExitCode {
    print!("{}", report.text());
    if let Some(out) = out {
        println!("figures, table and values: {}", out.display());
    }
    if json {
        println!("{}", report.json());
    }
    if report.shortfalls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Runs one of the other experiments.
pub fn run(command: &LabCommand) -> Result<ExitCode, Complaint> {
    let patience = Patience::until_signalled()?;
    match experiment(command, &patience) {
        Err(Error::Interrupted) => Ok(interrupted()),
        result => result.map_err(Complaint::from),
    }
}

fn experiment(command: &LabCommand, patience: &Patience) -> Result<ExitCode, Error> {
    let options = UpOptions::usual()?;
    match *command {
        LabCommand::SetupTime { count, json } => {
            let found = setup::alone(&options, count as usize, patience)?;
            Ok(tell(&found, &found.line(), &[], json))
        }
        LabCommand::Excess { json } => {
            let (bed, _scratch) = trial::bed(Span::from_secs(30), &options)?;
            let found = excess::run(&bed, Duration::from_secs(5), patience)?;
            Ok(tell(&found, &found.to_string(), &found.shortfalls(), json))
        }
        LabCommand::KillRouter { down, refresh, json } => {
            let (bed, _scratch) = trial::bed(refresh, &options)?;
            let (found, _agent) = kill_router::run(&bed, Duration::from_nanos(down.as_nanos()), patience)?;
            Ok(tell(&found, &found.to_string(), &found.shortfalls(), json))
        }
        LabCommand::KillReceiver { refresh, json } => {
            let (bed, _scratch) = trial::bed(refresh, &options)?;
            let found = kill_receiver::run(&bed, refresh, patience)?;
            Ok(tell(&found, &found.to_string(), &found.shortfalls(MACHINE_SLACK_MS), json))
        }
    }
}

/// What a busy machine may add to a time.
const MACHINE_SLACK_MS: f64 = 500.0;

/// Prints what was found. Exit status 1: something that must hold did not.
fn tell(found: &impl Serialize, text: &str, shortfalls: &[String], json: bool) -> ExitCode {
    match serde_json::to_string(found) {
        Ok(line) if json => println!("{line}"),
        _ => println!("{text}"),
    }
    for shortfall in shortfalls {
        eprintln!("sluice: NOT SHOWN: {shortfall}");
    }
    if shortfalls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn options() -> Result<UpOptions, Complaint> {
    UpOptions::usual().map_err(|failed| Complaint::world(failed.to_string()))
}

fn interrupted() -> ExitCode {
    eprintln!("sluice: {}", Error::Interrupted);
    ExitCode::from(INTERRUPTED)
}

impl From<Error> for Complaint {
    fn from(error: Error) -> Complaint {
        match error {
            Error::Agent(error) => error.into(),
            other => Complaint::world(other.to_string()),
        }
    }
}
