//! `sluice demo` and `sluice lab ...`: the experiments of the laboratory.

use crate::args::{DemoArgs, LabCommand};
use crate::complain::Complaint;
use ::lab::demo::{self, DemoOptions};
use ::lab::error::Error;
use ::lab::patience::Patience;
use daemon::testbed::UpOptions;
use std::process::ExitCode;

/// The exit status of a program that the user interrupted.
const INTERRUPTED: u8 = 130;

/// Runs the demonstration. Exit status 1: it ran, and did not show what it must.
pub fn demo(args: &DemoArgs) -> Result<ExitCode, Complaint> {
    let patience = Patience::until_signalled()?;
    let up = options()?;
    let mut options = if args.quick { DemoOptions::quick(up) } else { DemoOptions::full(up, args.out.clone()) };
    options.progress = !args.silent;
    let report = match demo::run(&options, &patience) {
        Err(Error::Interrupted) => return Ok(interrupted()),
        result => result?,
    };
    print!("{}", report.text());
    if let Some(out) = &options.out {
        println!("figures, table and values: {}", out.display());
    }
    if args.json {
        println!("{}", report.json());
    }
    Ok(if report.shortfalls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Runs one of the other experiments.
pub fn run(command: &LabCommand) -> Result<ExitCode, Complaint> {
    let patience = Patience::until_signalled()?;
    match command {
        LabCommand::SetupTime { count, json } => {
            let found = match ::lab::setup::alone(&options()?, *count as usize, &patience) {
                Err(Error::Interrupted) => return Ok(interrupted()),
                result => result?,
            };
            if *json {
                println!("{}", serde_json::to_string(&found).map_err(|e| Complaint::world(e.to_string()))?);
            } else {
                println!("{}", found.line());
            }
            Ok(ExitCode::SUCCESS)
        }
    }
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
