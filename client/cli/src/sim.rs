//! `sluice sim run | check`.

use crate::args::{SimArgs, SimCommand};
use crate::complain::{Complaint, INTERRUPTED};
use ::experiments::scenario::{PlayOptions, ScenarioFile, capture, play};
use bed::error::Error;
use bed::patience::Patience;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Runs one of them.
pub fn run(command: &SimCommand) -> Result<ExitCode, Complaint> {
    match command {
        SimCommand::Run(args) => run_file(args),
        SimCommand::Check { file } => {
            let found = load(file)?;
            let points = found.sweep.points().len();
            println!(
                "{}: {} nodes, {} links, {} sources, {} TCP connections, {} reservations, {} points with {} seed(s) each",
                found.name,
                found.scenario.nodes.len(),
                found.scenario.links.len(),
                found.sources.len(),
                found.connections.len(),
                found.reservations.len(),
                points,
                found.sweep.seeds
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
    if let Some(seeds) = args.seeds {
        file.sweep.seeds = seeds;
    }
    match tell(&file, args) {
        Err(Error::Interrupted) => {
            let how = if args.out.is_some() { "; the same command goes on with what is finished" } else { "" };
            eprintln!("sluice: stopped{how}");
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(Error::Void(what)) => Err(Complaint::world(what)),
        result => Ok(result?),
    }
}

fn load(file: &Path) -> Result<ScenarioFile, Complaint> {
    ScenarioFile::load(file).map_err(|mistake| Complaint::usage(mistake.to_string()))
}

fn tell(file: &ScenarioFile, args: &SimArgs) -> Result<ExitCode, Error> {
    let start = Instant::now();
    let kept = args.out.as_ref().map(|out| out.join("runs.jsonl"));
    let patience = Patience::until_signalled()?;
    if let Some(link) = &args.pcap {
        let folder = args.out.clone().unwrap_or_default();
        let (written, packets) = capture::write(file, link, &folder)?;
        eprintln!("{packets} packets: {}", written.display());
    }
    let outcome = play(file, &PlayOptions { kept, progress: !args.silent, patience, threads: None })?;
    if let Some(out) = &args.out {
        outcome.write(out)?;
    }
    if args.json {
        println!("{}", outcome.json());
    } else if args.csv {
        print!("{}", outcome.csv());
    } else {
        print!("{outcome}");
        let (seconds, seed) = (start.elapsed().as_secs_f64(), file.scenario.seed);
        let (points, packets, events) = (outcome.points.len(), outcome.packets, outcome.events);
        println!("\n{points} points, {packets} packets, {events} events in {seconds:.2} s, seed {seed}");
        if let Some(out) = &args.out {
            println!("tables and figures: {}", out.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}
