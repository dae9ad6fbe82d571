//! `sluice torture ...`: long runs with faults of every kind, in which invariants are checked all the time.

use crate::complain::{Complaint, INTERRUPTED};
use ::experiments::anomalies;
use ::experiments::crash;
use ::experiments::crash::several::{PlantedFinding, SeveralOptions};
use ::experiments::load;
use ::experiments::torture::{self, TortureOptions};
use ::experiments::transactions::{self, CommitOptions};
use bed::error::Error;
use bed::patience::Patience;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// The number of faults in the short form.
const QUICK: u64 = 40;

/// `sluice torture`.
#[derive(Subcommand, Debug)]
pub enum TortureCommand {
    /// RSVP's soft state in simulated time: loss, duplication, reordering, partitions, crashes, restarts
    SoftState(SoftStateArgs),
    /// Transactions over several agents in simulated time, under every fault of brokers, agents, disks and the network
    Commit(CommitArgs),
    /// Real agents, alone or below a real broker, under load: killed, stopped, cut off, and nothing acknowledged is lost (root)
    Crash(CrashArgs),
    /// A real agent, and a real broker, whose n-th system call of a kind fails, for every n, at start and while it runs (root)
    Anomalies(AnomaliesArgs),
    /// Real agents and a broker under floods of every message, calls, changes of routes, a stop: nothing promised is lost (root)
    Load(LoadArgs),
}

/// `sluice torture load`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice torture load                    five minutes of floods, half with keys on the links, half without\n  \
                        sluice torture load --quick --json     a minute; only losses count\n  \
                        sluice torture load --quick --slow-disk\n\n\
                        Prints what was sent and found. Status 1 if anything was lost or, without --quick, if 99.9 % of the turns of \
                        the agent's loop took more than 10 ms of processor time, or its memory grew by more than 5 MB in the last half."
)]
pub struct LoadArgs {
    /// About a minute in all, judged by losses alone
    #[arg(long)]
    pub quick: bool,
    /// No progress on standard error
    #[arg(long)]
    pub silent: bool,
    /// End with one JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
    /// Every fsync of the flooded agent and of the broker takes 100 ms
    #[arg(long)]
    pub slow_disk: bool,
    /// A third of the quick form, for tests
    #[arg(long, hide = true, requires = "quick")]
    pub short: bool,
    /// Lose a reservation and a booking on purpose: the check must find them
    #[arg(long, hide = true)]
    pub plant_loss: bool,
}

/// `sluice torture crash`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice torture crash --cycles 200                   one agent, killed at random instants\n  \
                        sluice torture crash --agents 3 --cycles 200 --json\n\n\
                        With several agents a broker reserves over them by mutual TLS between network namespaces. In each cycle some\n\
                        of them are killed (kill -9), stopped (SIGSTOP) or cut off, at a write of a journal; then everybody comes back.\n\n\
                        Prints what was found, and exits with status 1 if anything was; with several agents also if no change was\n\
                        acknowledged or no fault happened: such a run proves nothing."
)]
pub struct CrashArgs {
    /// The number of agents; with several, a broker reserves over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub agents: u8,
    /// The number of cycles; with one agent: of times that it is killed
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub cycles: u64,
    /// The seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// No progress on standard error
    #[arg(long)]
    pub silent: bool,
    /// End with one JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
    /// Make a finding on purpose, which the check must find: a test of this test
    #[arg(long, hide = true, value_parser = planted, requires = "agents")]
    pub plant: Option<PlantedFinding>,
}

fn planted(text: &str) -> Result<PlantedFinding, String> {
    PlantedFinding::parse(text).ok_or_else(|| "lost, overbooked, half, diverged or stuck".to_owned())
}

/// `sluice torture anomalies`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice torture anomalies --quick           some of each kind\n  \
                        sluice torture anomalies --json            every write, fsync, open, rename, descriptor, netlink message\n  \
                        sluice torture anomalies --jobs 4 --json   the same by four processes at once: most of it is waiting\n  \
                        sluice torture anomalies --part 2/3        the second of three runs that share them\n\n\
                        After each fault agent or broker are started twice, and all must be as it was acknowledged.\n\
                        Prints what was found, and exits with status 1 if anything was.")]
pub struct AnomaliesArgs {
    /// Only about 40 of all faults
    #[arg(long)]
    pub quick: bool,
    /// Only about this many of all faults
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u64).range(1..))]
    pub faults: Option<u64>,
    /// The K-th of N runs that share the faults
    #[arg(long, value_name = "K/N", default_value = "1/1", value_parser = part)]
    pub part: (u64, u64),
    /// Share the faults among N processes at once
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "part",
          value_parser = clap::value_parser!(u64).range(1..=16))]
    pub jobs: u64,
    /// No progress on standard error
    #[arg(long)]
    pub silent: bool,
    /// End with one JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
    /// Remove acknowledged state on purpose, which the check must find: a test of this test
    #[arg(long, hide = true)]
    pub plant: bool,
}

fn part(text: &str) -> Result<(u64, u64), String> {
    let read = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    read.filter(|(part, of)| (1..=*of).contains(part)).ok_or_else(|| "write K/N, as in 2/3".to_owned())
}

/// `sluice torture soft-state`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice torture soft-state                                     28 simulated days\n  \
                  sluice torture soft-state --days 10958 --record soft.jsonl    30 years; go on with the same command\n\n\
                  A law that does not hold ends the run with status 1; it names the seed and the simulated second."
)]
pub struct SoftStateArgs {
    /// Simulated days, rounded up to whole weeks (a seed each)
    #[arg(long, value_name = "N", default_value_t = 28, value_parser = clap::value_parser!(u64).range(1..=70_000))]
    pub days: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Keep finished seeds in this file, and skip those that it has
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long)]
    pub silent: bool,
    /// End with one JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
}

/// `sluice torture commit`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice torture commit --seeds 1000 --json\n  \
                  sluice torture commit --seeds 100000 --record commit.jsonl    go on with the same command\n\n\
                  A seed is an hour of two brokers and three agents, and the quiet after it. Status 1 if a change was half, what was\n\
                  acknowledged was lost, a capacity was exceeded, or anything had no end; or if, in 500 seeds or more, some kind of\n\
                  fault never happened.")]
pub struct CommitArgs {
    /// The number of seeds
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seeds: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    pub seed: u64,
    /// Keep finished seeds in this file, and skip those that it has
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long)]
    pub silent: bool,
    /// End with one JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
}

/// Runs it.
pub fn run(command: &TortureCommand) -> Result<ExitCode, Complaint> {
    match command {
        TortureCommand::SoftState(args) => soft_state(args),
        TortureCommand::Commit(args) => commit(args),
        TortureCommand::Crash(args) => crash(args),
        TortureCommand::Anomalies(args) => anomalies(args),
        TortureCommand::Load(args) => under_load(args),
    }
}

fn under_load(args: &LoadArgs) -> Result<ExitCode, Complaint> {
    let length = std::time::Duration::from_secs(match (args.quick, args.plant_loss || args.short) {
        (_, true) => 3,
        (true, false) => 12,
        (false, false) => 300,
    });
    let rounds = if args.plant_loss || args.short { 1 } else { 2 };
    let program = std::env::current_exe()?;
    let options = load::LoadOptions {
        length,
        program,
        progress: !args.silent,
        plant: args.plant_loss,
        slow_disk: args.slow_disk,
        rounds,
    };
    let (report, told) = load::run(&options, &Patience::until_signalled()?)?;
    if args.silent {
        told.iter().for_each(|line| println!("{line}"));
    }
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(|error| Complaint::world(error.to_string()))?);
    }
    let fine = report.is_lossless() && (args.quick || report.is_steady());
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn crash(args: &CrashArgs) -> Result<ExitCode, Complaint> {
    let program = std::env::current_exe()?;
    if args.agents > 1 {
        return crash_of_several(args, program);
    }
    let options = crash::CrashOptions { cycles: args.cycles, seed: args.seed, program, progress: !args.silent };
    let (report, told) = crash::run(&options, &Patience::until_signalled()?)?;
    print!("{}", told.text());
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(|error| Complaint::world(error.to_string()))?);
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn crash_of_several(args: &CrashArgs, program: PathBuf) -> Result<ExitCode, Complaint> {
    let (agents, cycles, seed) = (args.agents.into(), args.cycles, args.seed);
    let options = SeveralOptions { agents, cycles, seed, program, progress: !args.silent, plant: args.plant };
    let (report, findings) = crash::several::run(&options, &Patience::until_signalled()?)?;
    findings.iter().for_each(|finding| println!("{finding}"));
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(|error| Complaint::world(error.to_string()))?);
    } else {
        print!("{}", report.text());
    }
    if !report.is_proof() {
        eprintln!("sluice: this run proves nothing: no change was acknowledged, or no fault happened; try more cycles");
    }
    Ok(if report.is_clean() && report.is_proof() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn anomalies(args: &AnomaliesArgs) -> Result<ExitCode, Complaint> {
    let faults = if args.quick { Some(QUICK) } else { args.faults };
    let program = std::env::current_exe()?;
    let (part, progress, plant) = (args.part, !args.silent, args.plant);
    let options = anomalies::AnomalyOptions { program, faults, part, progress, plant };
    let patience = Patience::until_signalled()?;
    let (report, findings) = match args.jobs {
        1 => anomalies::run(&options, &patience)?,
        jobs => anomalies::run_in_parts(&options, jobs, &patience)?,
    };
    findings.iter().for_each(|finding| println!("{finding}"));
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(|error| Complaint::world(error.to_string()))?);
    } else {
        let anomalies::AnomalyReport { faults, lost, stuck } = report;
        println!("{faults} faults: {lost} lost, {stuck} stuck");
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The number of seeds from which every kind of fault must have happened.
const ENOUGH: u64 = 500;

fn commit(args: &CommitArgs) -> Result<ExitCode, Complaint> {
    let (seeds, first, record, progress) = (args.seeds, args.seed, args.record.clone(), !args.silent);
    let options = CommitOptions { seeds, first, record, progress };
    let (report, found) = match transactions::run(&options, &Patience::until_signalled()?) {
        Err(Error::Interrupted) => {
            eprintln!("sluice: stopped; with --record the same command goes on where it was");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        result => result?,
    };
    found.iter().for_each(|line| println!("{line}"));
    print!("{}", report.text());
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(|error| Complaint::world(error.to_string()))?);
    }
    let fine = report.is_clean() && (seeds < ENOUGH || report.missing.is_empty());
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn soft_state(args: &SoftStateArgs) -> Result<ExitCode, Complaint> {
    let patience = Patience::until_signalled()?;
    let (days, first, record, progress) = (args.days, args.seed, args.record.clone(), !args.silent);
    let report = match torture::soft_state(&TortureOptions { days, first, record, progress }, &patience) {
        Err(Error::Interrupted) => {
            eprintln!("sluice: stopped; with --record the same command goes on where it was");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(Error::Void(broken)) => {
            eprintln!("sluice: a law does not hold: seed {broken}");
            return Ok(ExitCode::from(1));
        }
        result => result?,
    };
    print!("{}", report.text());
    if args.json {
        println!("{}", report.json());
    }
    Ok(ExitCode::SUCCESS)
}
