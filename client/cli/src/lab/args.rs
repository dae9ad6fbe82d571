//! The arguments of `sluice lab ...`.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use terms::Span;

/// `sluice lab ...`.
#[derive(Subcommand, Debug)]
#[command(after_help = "Examples:\n  sluice lab list                           what there is\n  \
                        sluice lab run video                      one experiment, its tables beside the published ones\n  \
                        sluice lab run video --quick --json       fewer points; one JSON object on the last line\n  \
                        sluice lab report                         one page of everything that was found: out/lab/report.html")]
pub enum LabCommand {
    /// List the experiments
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run an experiment and print its tables beside the published ones
    #[command(after_help = "Examples:\n  sluice lab run video\n  sluice lab run video --quick --json\n  \
                            sluice lab run setup-time                 those on real packets run with their usual options")]
    Run(LabRunArgs),
    /// One self-contained HTML page of every result that is kept
    #[command(after_help = "Examples:\n  sluice lab report                     from what earlier runs left\n  \
                            sluice lab report --run               runs first what was never run, in its quick form")]
    Report(LabReportArgs),
    /// The time that a reservation over two routers takes, beside the round-trip time
    #[command(after_help = "Example:\n  sluice lab setup-time --count 100 --json")]
    SetupTime {
        /// The number of reservations
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        count: u32,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// A reserved sender sends three times its reservation: who suffers?
    Excess {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// kill -9 of a router's agent in the middle of a reserved stream under flood
    KillRouter {
        /// The time without an agent on the router
        #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "10s")]
        down: Span,
        /// RSVP's refresh period R
        #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "30s")]
        refresh: Span,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// kill -9 of the receiver's agent: how long the reservation lives, and what is left
    KillReceiver {
        /// RSVP's refresh period R; the reservation lives 5.25 R
        #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "1s")]
        refresh: Span,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// The place where an experiment is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum LabPlace {
    /// In simulated time
    Sim,
    /// On real packets, in namespaces: root
    Netns,
}

/// `sluice lab run`.
#[derive(Args, Debug)]
pub struct LabRunArgs {
    /// The experiment's name, from `sluice lab list`
    pub name: String,
    /// Fewer points, fewer seeds: takes seconds
    #[arg(long)]
    pub quick: bool,
    /// The place where an experiment of MACE is played [default: mace-table2 on the simulator, the others on real packets]
    #[arg(long, value_name = "PLACE", value_enum)]
    pub on: Option<LabPlace>,
    /// Independent runs for the mean in each cell [default: the experiment's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub seeds: Option<u64>,
    /// End with one JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
    /// Folder for the results of all experiments, one folder each: CSV, JSON, SVG, PNG, and the runs that are finished
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
    /// Play finished runs again
    #[arg(long)]
    pub fresh: bool,
    /// Show no progress
    #[arg(long)]
    pub silent: bool,
}

/// `sluice lab report`.
#[derive(Args, Debug)]
pub struct LabReportArgs {
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
    /// First run the experiments that were never run, in their quick form
    #[arg(long)]
    pub run: bool,
}
