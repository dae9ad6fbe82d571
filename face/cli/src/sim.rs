//! `sluice sim run | check`.

use crate::args::{SimArgs, SimCommand};
use crate::complain::Complaint;
use ::lab::scenario::{Outcome, ScenarioFile, play};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Runs one of them.
pub fn run(command: &SimCommand) -> Result<ExitCode, Complaint> {
    match command {
        SimCommand::Run(args) => run_file(args),
        SimCommand::Check { file } => {
            let found = load(file)?;
            println!(
                "{}: {} nodes, {} links, {} sources, {} reservations, {} points",
                found.name,
                found.scenario.nodes.len(),
                found.scenario.links.len(),
                found.sources.len(),
                found.reservations.len(),
                found.points.len()
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_file(args: &SimArgs) -> Result<ExitCode, Complaint> {
    let mut file = load(&args.file)?;
    if let Some(seed) = args.seed {
        file.scenario.seed = seed;
    }
    tell(&file, args.json)
}

fn load(file: &Path) -> Result<ScenarioFile, Complaint> {
    ScenarioFile::load(file).map_err(|mistake| Complaint::usage(mistake.to_string()))
}

fn tell(file: &ScenarioFile, json: bool) -> Result<ExitCode, Complaint> {
    let start = Instant::now();
    let points = file.points.len();
    let mut shown = 0;
    let outcome = play(file, |done| {
        let percent = done * 100 / points;
        // Short sweeps are over before anybody could read it.
        if start.elapsed().as_secs() >= 1 && percent > shown {
            shown = percent;
            eprint!("\r{percent} %  ");
        }
    });
    let outcome: Outcome = outcome
        .map_err(|failed| Complaint::world(format!("the run ended early (seed {}): {failed:?}", file.scenario.seed)))?;
    if shown > 0 {
        eprint!("\r        \r");
    }
    if json {
        println!("{}", serde_json::to_string(&outcome).map_err(|e| Complaint::world(e.to_string()))?);
    } else {
        print!("{outcome}");
        let seconds = start.elapsed().as_secs_f64();
        println!("\n{points} points, {} events in {seconds:.2} s, seed {}", outcome.events, file.scenario.seed);
    }
    Ok(ExitCode::SUCCESS)
}
