//! `sluice plane check | run | live`: a queue tree on a capture, in the capture's own time, or on real packets; and
//! `serve | show`: the plane that an agent drives.

mod live;
mod serve;

use crate::complain::Complaint;
use ::experiments::plane::NodeKind;
use ::experiments::plane::{self, PlaneReport, TreeFile, charts};
use bed::testbed::UpOptions;
use clap::{Args, Subcommand};
use rpc::table::{Align, TextTable};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `sluice plane ...`.
#[derive(Subcommand, Debug)]
pub enum PlaneCommand {
    /// Check a tree for mistakes; runs nothing
    #[command(after_help = "Example:\n  sluice plane check examples/tree.toml")]
    Check {
        /// The tree
        file: PathBuf,
    },
    /// Send a capture's packets through a tree, and write the departing packets as a capture
    #[command(after_help = "Examples:\n  sluice plane run examples/tree.toml --in a.pcap --out b.pcap\n  \
                      sluice plane run tree.toml --in a.pcap --out b.pcap --figures out/plane    arrivals, departures, delay as SVG and PNG\n  \
                      sluice plane run tree.toml --in a.pcap --out b.pcap --json                 the counters for a script\n\n\
                      Time is the capture's: a packet arrives at its time stamp, and leaves with the time at which the tree's link begins to send it.")]
    Run(PlaneArgs),
    /// Send real packets between two interfaces through a tree, until Ctrl-C
    #[command(after_help = "Examples:\n  sluice plane live tree.toml --in eth1 --out eth2\n  \
                      sluice plane live tree.toml --in eth1 --out eth2 --every 1s --json    counters by class for a script\n  \
                      sluice plane live tree.toml --in eth1 --out eth2 --delay 20ms --loss 0.001    a long and bad link behind it\n\n\
                      The two interfaces are joined like two ends of a cable: neither may have an IPv4 address or be part of a bridge. \
                      When the command ends, nothing passes between them and nothing else stays. Needs root (CAP_NET_RAW, CAP_NET_ADMIN).")]
    Live(live::LiveArgs),
    /// Queue the packets of interfaces in user space, as an agent says, until Ctrl-C
    #[command(
        after_help = "Example of a file:\n  [[pair]]\n  interface = \"lan0\"      # has the addresses; the agent's file names it, with plane = \"user\"\n  \
                      inside = \"lan0p\"        # its other end: ip link add lan0 type veth peer name lan0p\n  \
                      outside = \"eth1\"\n  delay_bound = \"25ms\"   # offers guaranteed service with this D\n\n\
                      Examples:\n  sluice plane serve plane.toml\n  sluice plane serve plane.toml --check    say what is wrong with the file\n  sluice plane serve plane.toml --release  give the pairs back to the kernel\n\n\
                      Root and the file's `user` may drive it, by its socket. A killed agent changes nothing for packets; when this process \
                      ends, nothing passes, or with when_dead = \"open\" the kernel passes everything, unqueued. Needs root (CAP_NET_RAW, CAP_NET_ADMIN). See docs/traffic/serve.md."
    )]
    Serve(serve::ServeArgs),
    /// Show the pairs of a plane that serves, and how long packets stay in each class
    #[command(after_help = "Examples:\n  sluice plane show\n  sluice plane show --json")]
    Show(serve::ShowArgs),
    /// Play one plan and one script of packets on three planes: the engine, the plane in user space, the kernel's
    #[command(
        after_help = "Examples:\n  sluice plane agree\n  sluice plane agree --json    the differences for a script\n\n\
                      Takes half a minute, in namespaces of its own. Exit status 1: they do not agree. Needs root."
    )]
    Agree(AgreeArgs),
}

/// `sluice plane agree`.
#[derive(Args, Debug)]
pub struct AgreeArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice plane run`.
#[derive(Args, Debug)]
pub struct PlaneArgs {
    /// The tree
    pub file: PathBuf,
    /// The capture of arriving packets (pcap, pcapng)
    #[arg(long = "in", value_name = "FILE")]
    pub input: PathBuf,
    /// The capture of departing packets (pcap, nanoseconds)
    #[arg(long = "out", value_name = "FILE")]
    pub output: PathBuf,
    /// Write pictures (SVG, PNG) into this folder
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
    /// The seed, instead of the file's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs one of them.
pub fn run(command: &PlaneCommand) -> Result<ExitCode, Complaint> {
    match command {
        PlaneCommand::Check { file } => {
            let found = load(file)?;
            let leaves = found.spec.nodes.iter().filter(|n| matches!(n.kind, NodeKind::Leaf(_))).count();
            let (link, inner) = (found.spec.link, found.spec.nodes.len() - leaves);
            println!(
                "{}: link {} with {} bytes of overhead a packet, {}; leaves: {leaves}, inner nodes: {inner}",
                found.name,
                link.rate,
                link.overhead,
                link.scheduler.name(),
            );
            Ok(ExitCode::SUCCESS)
        }
        PlaneCommand::Run(args) => play(args),
        PlaneCommand::Live(args) => live::run(args),
        PlaneCommand::Serve(args) => serve::serve(args),
        PlaneCommand::Show(args) => serve::show(args),
        PlaneCommand::Agree(args) => agree(args),
    }
}

fn agree(args: &AgreeArgs) -> Result<ExitCode, Complaint> {
    let options = UpOptions::usual().map_err(|failed| Complaint::world(failed.to_string()))?;
    let found = ::experiments::agree::run(&options)?;
    if args.json {
        println!("{}", serde_json::to_string(&found).map_err(|e| Complaint::world(e.to_string()))?);
    } else {
        let head = [("class", Align::Right)].into_iter().chain(found.planes.iter().map(|name| (*name, Align::Right)));
        let mut table = TextTable::new(&head.collect::<Vec<_>>());
        for (class, shares) in &found.shares {
            let shares = shares.iter().map(|share| format!("{:.3} %", share * 100.0));
            table.row(std::iter::once(class.to_string()).chain(shares));
        }
        print!("shares of the link while every class has more than its due:\n{table}");
        println!(
            "classified differently: {}, admitted differently: {}, reordered: {}, shares differ by at most {:.3} %",
            found.classified_differently,
            found.admitted_differently,
            found.reordered,
            found.share_worst * 100.0
        );
    }
    found.differences.iter().for_each(|words| eprintln!("sluice: {words}"));
    Ok(if found.holds() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn load(file: &Path) -> Result<TreeFile, Complaint> {
    TreeFile::load(file).map_err(|mistake| Complaint::usage(mistake.to_string()))
}

fn play(args: &PlaneArgs) -> Result<ExitCode, Complaint> {
    let file = load(&args.file)?;
    let input = std::fs::read(&args.input)
        .map_err(|e| Complaint::world(format!("cannot read {}: {e}", args.input.display())))?;
    let played = plane::run(&file, args.seed.unwrap_or(file.seed), &input)
        .map_err(|wrong| Complaint::world(format!("{}: {wrong}", args.input.display())))?;
    write(&args.output, &played.capture)?;
    if let Some(folder) = &args.figures {
        draw(folder, &played.report)?;
    }
    if args.json {
        println!("{}", serde_json::to_string(&played.report).map_err(|e| Complaint::world(e.to_string()))?);
    } else {
        print!("{}", played.report);
        println!("\nwritten: {}", args.output.display());
        if let Some(folder) = &args.figures {
            println!("figures: {}", folder.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn draw(folder: &Path, report: &PlaneReport) -> Result<(), Complaint> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Complaint::world(format!("cannot make the folder {}: {e}", folder.display())))?;
    for (name, chart) in charts::all(report) {
        write(&folder.join(format!("{name}.svg")), chart.svg().as_bytes())?;
        write(&folder.join(format!("{name}.png")), &chart.png())?;
    }
    Ok(())
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Complaint> {
    std::fs::write(file, bytes).map_err(|e| Complaint::world(format!("cannot write {}: {e}", file.display())))
}
