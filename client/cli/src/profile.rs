//! `sluice profile`: both protocols, step by step; and any node as a black box.

use crate::complain::{Complaint, INTERRUPTED};
use ::profile::blackbox::{self, BlackboxPlan};
use ::profile::ends;
use ::profile::tester::Tester;
use ::profile::transit::Protocol;
use ::profile::{self, ProfileOptions};
use bed::error::Error;
use bed::patience::Patience;
use clap::{Args, Subcommand, ValueEnum};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

/// `sluice profile`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct ProfileArgs {
    /// Measure another node instead
    #[command(subcommand)]
    pub command: Option<ProfileCommand>,
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
  sluice profile             Tables 1 to 9, Figures 2 to 6; up to a million sessions: some minutes (root)
  sluice profile --quick     few samples, up to 10,000 sessions: seconds
  sluice profile --json      the nine tables as one JSON object on the last line
  sluice profile bench --help

A quiet machine measures best; what other work disturbed is dropped and counted. docs/profile.md says how.";

/// `sluice profile ...`.
#[derive(Subcommand, Debug)]
pub enum ProfileCommand {
    /// Measure any node that speaks RSVP or Boomerang, as a black box, by the words of RFC 4883 (root)
    Bench(BenchArgs),
}

/// `sluice profile bench`.
#[derive(Args, Debug)]
#[command(after_help = BENCH_EXAMPLES)]
pub struct BenchArgs {
    /// The node's address on the link by which messages reach it
    #[arg(long, value_name = "ADDRESS")]
    pub target: Ipv4Addr,
    /// Our interface on that link; by default the one that the address is reached by
    #[arg(long, value_name = "[NETNS:]INTERFACE")]
    pub from: Option<String>,
    /// Our interface on the link that they leave by; by default the only other one beside --from
    #[arg(long, value_name = "[NETNS:]INTERFACE")]
    pub to: Option<String>,
    /// RSVP: the network of the sessions, a /24 that the node routes by way of --to; by default they go to
    /// --to itself, 16,383 at the most
    #[arg(long, value_name = "NETWORK")]
    pub behind: Option<Ipv4Addr>,
    /// The protocol
    #[arg(long, value_enum, default_value = "rsvp")]
    pub protocol: Spoken,
    /// The most sessions to try
    #[arg(long, value_name = "COUNT", default_value = "10000")]
    pub sessions: u64,
    /// Few samples, low limits
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long)]
    pub silent: bool,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  sluice profile bench --target 10.0.1.1
  sluice profile bench --target 10.0.1.1 --protocol boomerang --sessions 2000
  sluice profile bench --target 10.0.1.1 --from eth1 --to eth2 --behind 10.0.3.0
  sluice profile bench --target 10.0.1.1 --from west:eth0 --to east:eth0 --json

Finds by itself, and says what it tries: the handling time of each message, the maximum signalling burst, the maximum
signalling load, the maximum session load, and handling times against both loads.

The tester stands on both sides of the node, on one machine; its two interfaces may be in network namespaces. It plays
the sender's side at --from and the receiver's at --to. The node must be allowed to speak to us without keys.";

/// A protocol's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Spoken {
    /// RSVP (RFC 2205)
    Rsvp,
    /// Boomerang (draft-bergkvist-boomerang-spec)
    Boomerang,
}

/// Runs it.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Complaint> {
    let patience = Patience::until_signalled()?;
    let done = match &args.command {
        Some(ProfileCommand::Bench(bench)) => black_box(bench, &patience),
        None => tables(args, &patience),
    };
    match done {
        Err(Error::Interrupted) => {
            eprintln!("sluice: {}", Error::Interrupted);
            Ok(ExitCode::from(INTERRUPTED))
        }
        result => Ok(result.map(|()| ExitCode::SUCCESS)?),
    }
}

fn tables(args: &ProfileArgs, patience: &Patience) -> Result<(), Error> {
    let options = ProfileOptions { quick: args.quick, progress: !args.silent };
    let report = profile::run(&options, patience)?;
    print!("{}", report.text());
    report.write(&args.out)?;
    println!("figures, tables and values: {}", args.out.display());
    if args.json {
        println!("{}", report.json());
    }
    Ok(())
}

fn black_box(args: &BenchArgs, patience: &Patience) -> Result<(), Error> {
    let protocol = match args.protocol {
        Spoken::Rsvp => Protocol::Rsvp,
        Spoken::Boomerang => Protocol::Boomerang,
    };
    let [(at_up, up), (at_down, down)] = ends::choose(args.target, args.from.as_deref(), args.to.as_deref())?;
    let mut tester = Tester::new((&at_up, up), (&at_down, down), args.target, args.behind)?;
    let plan = BlackboxPlan::new(protocol, args.quick, args.sessions);
    let mut say = |line: String| {
        if !args.silent {
            eprintln!("{line}");
        }
    };
    let found = blackbox::run(&mut tester, plan, patience, &mut say)?;
    match args.json {
        true => println!("{}", found.json()),
        false => print!("{}", found.text(&args.target.to_string())),
    }
    Ok(())
}
