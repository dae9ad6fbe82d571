//! `sluice demo` and `sluice lab ...`: the experiments of the laboratory.

pub mod args;

use crate::args::{Cli, Command, DemoArgs, ProtocolName};
use crate::complain::{Complaint, INTERRUPTED};
use ::experiments::demo::{self, DemoOptions, DemoReport};
use ::experiments::experiment::{self, Experiment, Finding, RunOn, RunOptions};
use ::experiments::setup;
use ::experiments::trial::{self, excess, kill_receiver, kill_router};
use args::{LabCommand, LabPlace, LabReportArgs, LabRunArgs};
use bed::error::Error;
use bed::patience::Patience;
use bed::testbed::UpOptions;
use clap::Parser;
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use terms::Span;

/// Runs the demonstration. Exit status 1: it ran, and did not show the effect that it must show.
pub fn demo(args: &DemoArgs) -> Result<ExitCode, Complaint> {
    let out = (!args.quick).then_some(args.out.as_path());
    if args.sim {
        return Ok(show(&demo::simulate(args.quick, out)?, out, args.json));
    }
    let patience = Patience::until_signalled()?;
    let up = options()?;
    let mut options = if args.quick { DemoOptions::quick(up) } else { DemoOptions::full(up, args.out.clone()) };
    options.progress = !args.silent;
    options.web = args.web.then_some(args.web_at);
    options.with = match args.with {
        ProtocolName::Rsvp => demo::VideoProtocol::Rsvp,
        ProtocolName::Boomerang => demo::VideoProtocol::Boomerang,
    };
    let report = match demo::run(&options, &patience) {
        Err(Error::Interrupted) => return Ok(interrupted()),
        result => result?,
    };
    Ok(show(&report, out, args.json))
}

/// Prints what the demonstration found.
fn show(report: &DemoReport, out: Option<&Path>, json: bool) -> ExitCode {
    print!("{}", report.text());
    if let Some(out) = out {
        println!("figures, table and values: {}", out.display());
    }
    if json {
        println!("{}", report.json());
    }
    if report.shortfalls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// The experiments on real packets: a command of their own each, with its own options.
const TRIALS: [(&str, &str); 4] = [
    ("setup-time", "How long a reservation over two routers takes, beside the round-trip time"),
    ("excess", "A reserved sender sends three times its reservation: who suffers?"),
    ("kill-router", "kill -9 of a router's agent in the middle of a reserved stream under flood"),
    ("kill-receiver", "kill -9 of the receiver's agent: how long the reservation lives, and what is left"),
];

/// Runs one of the other experiments.
pub fn run(command: &LabCommand) -> Result<ExitCode, Complaint> {
    match command {
        LabCommand::List { json } => return list(*json),
        LabCommand::Run(args) => return run_named(args),
        LabCommand::Report(args) => return report(args),
        _ => {}
    }
    let patience = Patience::until_signalled()?;
    match experiment(command, &patience) {
        Err(Error::Interrupted) => Ok(interrupted()),
        result => result.map_err(Complaint::from),
    }
}

fn list(json: bool) -> Result<ExitCode, Complaint> {
    if json {
        let named = |(name, about, source, takes): (&str, &str, &str, &str)| serde_json::json!({ "name": name, "about": about, "source": source, "takes": takes });
        let experiments =
            experiment::ALL.iter().map(|found| named((found.name, found.about, found.source, found.takes)));
        let trials = TRIALS.iter().map(|(name, about)| named((name, about, "", "")));
        let all: Vec<_> = experiments.chain(trials).collect();
        println!("{}", serde_json::json!({ "experiments": all }));
        return Ok(ExitCode::SUCCESS);
    }
    let left = Align::Left;
    let mut table = TextTable::new(&[("experiment", left), ("takes", left), ("what it shows", left)]);
    for found in experiment::ALL {
        table.row([found.name, found.takes, found.about].map(str::to_string));
        table.row(["", "", &format!("  {}", found.source)].map(str::to_string));
    }
    for (name, about) in TRIALS {
        table.row([name, "root", about].map(str::to_string));
    }
    print!("{table}");
    println!("\nsluice lab run NAME; those that need root run on real packets");
    Ok(ExitCode::SUCCESS)
}

fn run_named(args: &LabRunArgs) -> Result<ExitCode, Complaint> {
    let Some(found) = experiment::find(&args.name) else { return run_trial(args) };
    if args.on.is_some() && !experiment::is_on_both(found) {
        return Err(Complaint::usage(format!("{} is played in one place only: leave --on out", found.name)));
    }
    let out = experiment::folder(&args.out, found.name);
    let finding = match one(found, args, &out) {
        Err(Error::Interrupted) => {
            eprintln!("sluice: stopped; the same command goes on with what is finished in {}", out.display());
            return Ok(ExitCode::from(INTERRUPTED));
        }
        result => result?,
    };
    print!("{}", finding.text());
    println!("tables and figures: {}", out.display());
    for shortfall in &finding.shortfalls {
        eprintln!("sluice: NOT SHOWN: {shortfall}");
    }
    if args.json {
        println!("{}", finding.json());
    }
    Ok(if finding.shortfalls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn one(found: &Experiment, args: &LabRunArgs, out: &Path) -> Result<Finding, Error> {
    let patience = Patience::until_signalled()?;
    let (quick, seeds, progress) = (args.quick, args.seeds, !args.silent);
    let on = args.on.map(|on| match on {
        LabPlace::Sim => RunOn::Sim,
        LabPlace::Netns => RunOn::Netns,
    });
    let options = RunOptions { quick, seeds, out: Some(out.to_path_buf()), on, progress, patience, fresh: args.fresh };
    experiment::run(found, &options)
}

/// A trial by its name: the command of that name, with its usual options.
fn run_trial(args: &LabRunArgs) -> Result<ExitCode, Complaint> {
    if !TRIALS.iter().any(|(name, _)| *name == args.name) {
        let known = experiment::ALL.iter().map(|found| found.name).chain(TRIALS.iter().map(|(name, _)| *name));
        let known: Vec<&str> = known.collect();
        return Err(Complaint::usage(format!("there is no experiment {:?}: {}", args.name, known.join(", "))));
    }
    if args.quick || args.seeds.is_some() || args.on.is_some() {
        let name = &args.name;
        return Err(Complaint::usage(format!("{name} has options of its own: sluice lab {name} --help")));
    }
    let words = ["sluice", "lab", args.name.as_str()].into_iter().chain(args.json.then_some("--json"));
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Lab(command)) => run(&command),
        _ => unreachable!("every trial is a command whose options have defaults"),
    }
}

fn report(args: &LabReportArgs) -> Result<ExitCode, Complaint> {
    let mut found = Vec::new();
    for experiment in experiment::ALL {
        let folder = experiment::folder(&args.out, experiment.name);
        let kept = Finding::read(&folder);
        if kept.is_none() && args.run {
            let (out, patience) = (Some(folder.clone()), Patience::until_signalled()?);
            experiment::run(experiment, &RunOptions { out, patience, progress: true, ..RunOptions::quick() })?;
        }
        match Finding::read(&folder) {
            Some(finding) => found.push((finding, folder)),
            None => eprintln!("sluice: no results of {0} yet: sluice lab run {0}", experiment.name),
        }
    }
    if found.is_empty() {
        let wrong = format!("no results in {}: run an experiment first, or add --run", args.out.display());
        return Err(Complaint::world(wrong));
    }
    let page =
        experiment::report::html(&found.iter().map(|(f, folder)| (f.clone(), folder.as_path())).collect::<Vec<_>>())?;
    bed::results::put(&args.out, "report.html", page.as_bytes())?;
    println!("{}", args.out.join("report.html").display());
    Ok(ExitCode::SUCCESS)
}

fn experiment(command: &LabCommand, patience: &Patience) -> Result<ExitCode, Error> {
    let options = UpOptions::usual()?;
    match *command {
        LabCommand::List { .. } | LabCommand::Run(_) | LabCommand::Report(_) => {
            unreachable!("these are not trials: `run` has dealt with them")
        }
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

/// The time that a busy machine may add to a measurement, ms.
const MACHINE_SLACK_MS: f64 = 500.0;

/// Prints the findings. Exit status 1: a required result is missing.
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
            Error::Interrupted => Complaint::interrupted(error.to_string()),
            other => Complaint::world(other.to_string()),
        }
    }
}
