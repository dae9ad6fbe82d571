//! `sluice profile`: both protocols, step by step.

use crate::complain::{Complaint, INTERRUPTED};
use ::lab::error::Error;
use ::lab::patience::Patience;
use ::lab::profile::{self, Options};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// `sluice profile`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ProfileArgs {
    /// Few samples, few sessions
    #[arg(long)]
    pub quick: bool,
    /// End with one JSON object on a line of its own: the nine tables, the loads, the figures' values
    #[arg(long)]
    pub json: bool,
    /// Folder for the figures (SVG, PNG), the tables and all values as JSON
    #[arg(long, value_name = "DIR", default_value = "out/profile")]
    pub out: PathBuf,
    /// Show no progress
    #[arg(long)]
    pub silent: bool,
}

const EXAMPLES: &str = "\
Examples:
  sluice profile             Tables 1 to 9, Figures 2 to 6; up to a million sessions: some minutes
  sluice profile --quick     few samples, up to 10,000 sessions: seconds
  sluice profile --json      the nine tables as one JSON object on the last line

A quiet machine measures best; what other work disturbed is dropped and counted. docs/profile.md says how.";

/// Runs it.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Complaint> {
    let patience = Patience::until_signalled()?;
    let options = Options { quick: args.quick, progress: !args.silent };
    let report = match profile::run(&options, &patience) {
        Err(Error::Interrupted) => {
            eprintln!("sluice: {}", Error::Interrupted);
            return Ok(ExitCode::from(INTERRUPTED));
        }
        result => result?,
    };
    print!("{}", report.text());
    report.write(&args.out)?;
    println!("figures, tables and values: {}", args.out.display());
    if args.json {
        println!("{}", report.json());
    }
    Ok(ExitCode::SUCCESS)
}
