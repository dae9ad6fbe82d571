//! The command line: every command, option and example in one definition; help, completion and man pages come from it.

use crate::book::args::{
    AuditArgs, BindArgs, CalendarArgs, EnquireArgs, HandleArgs, ListArgs, MayArgs, ModifyArgs, ReserveArgs, ResolveArgs,
};
use crate::book::cancel::CancelArgs;
use crate::book::wait::WaitArgs;
use crate::boomerang::args::BoomerangCommand;
use crate::broker::{BrokerArgs, SendMailArgs};
use crate::ca::CaArgs;
use crate::copy::CopyArgs;
use crate::directory::DirectoryArgs;
use crate::lab::args::LabCommand;
use crate::mace::MaceCommand;
use crate::places::{AgentArgs, BookArgs};
use crate::plane::PlaneCommand;
use crate::profile::ProfileArgs;
use crate::rsvp::args::RsvpCommand;
use crate::run::RunArgs;
use crate::slurm::SlurmCommand;
use crate::token::TokenCommand;
use crate::topology::TopologyArgs;
use crate::torture::TortureCommand;
use crate::web::WebArgs;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::net::SocketAddr;
use std::path::PathBuf;
use terms::Span;

/// A guaranteed share of the network for an application, shown as asked, admitted, installed and measured.
#[derive(Parser, Debug)]
#[command(name = "sluice", version, propagate_version = true, after_help = EXAMPLES)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sluice demo                            a video against a flood, without and with a reservation (root)
  sluice up examples/seed.toml           two hosts and two routers in namespaces, an agent on each
  sluice status --node maui              what is asked, admitted, installed and measured there
  sluice rsvp send --node swissvale --to 10.0.2.2:5004 --from 10.0.0.1:5004 --rate 3.2mbit
  sluice rsvp receive --node glenwood --session 10.0.2.2:5004 --reserve 3.2mbit
  sluice down                            leaves nothing behind
  sluice reserve net/eth1=3mbit cpu=0.5 --for 1h           by the book: now or for later, with a handle
  sluice calendar                        how full everything is

Exit status:
  0    done; for a question: yes
  1    no: refused, not shown, not there, or something is broken
  2    the command line, a file or a request is wrong
  3    the world is not as needed: no agent or broker answers, a right or an ability is missing
  130  interrupted
`sluice run` ends as its command does. By command: docs/exit-status.md";

/// Commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Bring a testbed up: hosts and routers in network namespaces, an agent on each
    Up(UpArgs),
    /// Take a testbed down; nothing of it is left
    Down(DownArgs),
    /// A real video against a flood, without and with a reservation: table and figures
    Demo(DemoArgs),
    /// The other experiments: compared with published tables, and on the demonstration's testbed
    #[command(subcommand)]
    Lab(LabCommand),
    /// Long runs with faults of every kind, in which invariants are checked all the time; needs no root
    #[command(subcommand)]
    Torture(TortureCommand),
    /// Run this machine's agent, in the foreground
    #[command(
        after_help = "Example of a configuration (more in docs/two-machines.md):\n  keys = \"eth0.keys\"\n\n  [[interface]]\n  \
                            name = \"eth0\"\n  rate = \"100mbit\""
    )]
    Agent(AgentRunArgs),
    /// The process of an agent that speaks with callers from other machines; only an agent starts it
    #[command(hide = true, name = agent_service::remote::COMMAND)]
    RemoteFront,
    /// The process that puts an agent's question to a broker; only an agent starts it
    #[command(hide = true, name = agent_service::book::question::COMMAND)]
    AskBroker,
    /// The process that sends a broker's mail; only a broker starts it
    #[command(hide = true, name = broker_service::mailer::COMMAND)]
    SendMail(SendMailArgs),
    /// The wire of a testbed's long link; only `sluice up` starts it
    #[command(hide = true, name = bed::wire::COMMAND)]
    DelayLine {
        /// The delay, each way
        #[arg(value_parser = documents::units::parse_span)]
        delay: Span,
        /// The two interfaces that it joins
        #[arg(num_args = 2, required = true)]
        interfaces: Vec<String>,
    },
    /// The agent of a machine without a configuration file; only a broker starts it
    #[command(hide = true, name = agent_service::own::COMMAND)]
    OwnAgent {
        /// Its configuration file
        #[arg(long)]
        config: Option<PathBuf>,
    },
    /// Run a broker, in the foreground: REST, event streams and webhooks over one or more agents
    Broker(BrokerArgs),
    /// Reserve network, processor, disk or licences, now or for later: all or nothing
    Reserve(Box<ReserveArgs>),
    /// Ask for the amount and time that would be granted; nothing is held
    Enquire(Box<EnquireArgs>),
    /// Show the rule of the policy that would decide, and its reason; nothing is requested
    May(Box<MayArgs>),
    /// Change a reservation, also while it runs
    Modify(ModifyArgs),
    /// Bind a reservation to packets or processes
    Bind(BindArgs),
    /// Book a reservation that is held
    Commit(HandleArgs),
    /// Cancel reservations, or single windows of a recurrence
    Cancel(CancelArgs),
    /// Wait until a reservation has begun, is in force, or is over
    Wait(WaitArgs),
    /// Decide a promise of an agent whose broker is gone for ever; for operators
    Resolve(ResolveArgs),
    /// List reservations, or show one with its history
    List(ListArgs),
    /// Draw how full each resource is, in the terminal
    Calendar(CalendarArgs),
    /// Show the domains that a broker knows, what is free between their borders, and paths over them
    Topology(TopologyArgs),
    /// Publish what there is to an LDAP directory, or show what one says; advisory, never for admission
    Directory(Box<DirectoryArgs>),
    /// Show the decisions: caller, request, outcome and rule
    Audit(AuditArgs),
    /// Make, list and revoke certificates for brokers, agents and those who reserve
    Ca(CaArgs),
    /// Make, narrow, approve and show tokens: rights that a virtual organisation gives to its people
    #[command(subcommand)]
    Token(TokenCommand),
    /// Send a file to another machine over a reserved flow, at the rate that the bookings allow
    Copy(Box<CopyArgs>),
    /// Run a command with a share of the processors or a disk, reserved from its start to its end
    Run(RunArgs),
    /// Slurm's hooks: jobs with a share of the network, as their comment asks for it
    #[command(subcommand)]
    Slurm(SlurmCommand),
    /// Simulate the same nodes from a scenario file; needs no root
    #[command(subcommand)]
    Sim(SimCommand),
    /// Traffic conditioning by a queue tree, on captures; needs no root
    #[command(subcommand)]
    Plane(PlaneCommand),
    /// Measure where a reservation spends its time: RSVP and Boomerang, by message and by step, under load
    Profile(ProfileArgs),
    /// Reserve by RSVP, and show its state
    #[command(subcommand)]
    Rsvp(RsvpCommand),
    /// Boomerang: reservations inside ICMP echo, both directions in one round trip
    #[command(subcommand)]
    Boomerang(BoomerangCommand),
    /// Flows that never signalled: recognised by their packets, admitted by what is measured
    #[command(subcommand)]
    Mace(MaceCommand),
    /// Show which features this kernel has, and the substitutes for missing ones
    Doctor(DoctorArgs),
    /// Show every interface and reservation: asked / admitted / installed / measured
    Status(StatusArgs),
    /// Show what is reserved and what it gets, the largest first, again every second
    Top(crate::top::TopArgs),
    /// Show events as they happen
    Watch(WatchArgs),
    /// Show what is broken, at an agent or at a broker and its agents; exit status 1 if something is
    Health(crate::health::HealthArgs),
    /// Print what an agent counts as text for Prometheus, or serve it
    Metrics(crate::metrics::MetricsArgs),
    /// Print a link that signs a browser in at a broker, with the rights of the caller
    Web(WebArgs),
    /// Keep a broker and our certificates, so that no command needs to name them
    Login(crate::login::LoginArgs),
    /// Forget what `sluice login` has kept
    Logout,
    /// Print shell completion
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write man pages
    Man {
        /// The folder.
        dir: PathBuf,
    },
}

/// `sluice up`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice up examples/seed.toml             two hosts, two routers, a bottleneck\n  \
                  sluice up examples/seed.toml --broker --web     the same, with a broker and a link for a browser\n  \
                  sluice up examples/three-domains.toml    ANL, ESnet, LBNL: each with its own authority and broker\n\
Ctrl-C while it is coming up removes what was made until then."
)]
pub struct UpArgs {
    /// The topology: nodes, links, rates
    pub file: PathBuf,
    /// Also a broker over all nodes, on this machine; a testbed of domains has one in each
    #[arg(long)]
    pub broker: bool,
    /// The broker listens for browsers, and a link is printed that signs one in
    #[arg(long, requires = "broker")]
    pub web: bool,
    /// The broker's address for browsers; port 0: one that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", requires = "web")]
    pub web_at: SocketAddr,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sluice down`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice down          the testbed that is up\n  sluice down seed     this one\n  sluice down --all"
)]
pub struct DownArgs {
    /// The testbed's name [default: the only one that is up]
    pub name: Option<String>,
    /// All testbeds
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
}

/// `sluice demo`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice demo                the whole sweep: about 4 minutes; table, and figures in out/demo\n  \
                        sluice demo --quick        before and after at one point: under a minute\n  \
                        sluice demo --web          the same sweep, and a link by which a browser looks on\n  \
                        sluice demo --quick --json    the same, and one JSON object on the last line\n  \
                        sluice demo --sim          the whole sweep in simulated time: no root, some seconds"
)]
pub struct DemoArgs {
    /// Before and after at one saturated point
    #[arg(long)]
    pub quick: bool,
    /// End with one JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
    /// Folder for the figures (SVG, PNG), the table and all values as JSON
    #[arg(long, value_name = "DIR", default_value = "out/demo", conflicts_with = "quick")]
    pub out: PathBuf,
    /// The same nodes in simulated time: needs no root, takes seconds
    #[arg(long)]
    pub sim: bool,
    /// The protocol that reserves for the video
    #[arg(long, value_enum, default_value = "rsvp", conflicts_with = "sim")]
    pub with: ProtocolName,
    /// Print a link by which a browser looks on: the map, classes, pictures per second, loss
    #[arg(long, conflicts_with_all = ["sim", "silent"])]
    pub web: bool,
    /// The address for browsers; port 0: one that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", requires = "web")]
    pub web_at: SocketAddr,
    /// Show no progress
    #[arg(long)]
    pub silent: bool,
}

/// A protocol that reserves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum ProtocolName {
    /// The sender announces, the receiver reserves
    Rsvp,
    /// The receiver reserves both directions by one ping
    Boomerang,
}

/// `sluice sim ...`.
#[derive(Subcommand, Debug)]
pub enum SimCommand {
    /// Play a scenario and print its results
    #[command(after_help = "Examples:\n  sluice sim run examples/video.toml\n  \
                            sluice sim run examples/dumbbell.toml --out out/sim/dumbbell    tables, CSV, JSON, figures; goes on where it was interrupted\n  \
                            sluice sim run examples/dumbbell.toml --pcap left-right         what crosses a link, for Wireshark\n  \
                            sluice sim run examples/mace.toml                               flows that never signalled, admitted by measurement\n  \
                            sluice sim run examples/faults.toml --json")]
    Run(SimArgs),
    /// Check a scenario for mistakes; plays nothing
    #[command(after_help = "Example:\n  sluice sim check examples/rfc2963.toml")]
    Check {
        /// The scenario
        file: PathBuf,
    },
}

/// `sluice sim run`.
#[derive(Args, Debug)]
pub struct SimArgs {
    /// The scenario
    pub file: PathBuf,
    /// The first seed, instead of the file's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Independent runs of each point, instead of the file's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: Option<u64>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print every value as CSV
    #[arg(long)]
    pub csv: bool,
    /// Write tables, CSV, JSON and figures (SVG, PNG) here, and keep finished runs
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the first point's packets of this link, NODE-NODE: LINK.pcap in the folder of --out, or here
    #[arg(long, value_name = "LINK")]
    pub pcap: Option<String>,
    /// Show no progress
    #[arg(long)]
    pub silent: bool,
}

/// `sluice doctor`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice doctor\n  sluice doctor --disk /srv/data          what that disk gives, for [[disk]] of the \
agent's file\n  sluice doctor --disk /dev/sdb --span 10s --yes"
)]
pub struct DoctorArgs {
    /// The agent's configuration file, if there is one: interfaces without a role are reported too
    #[arg(long, value_name = "FILE", default_value = "/etc/sluice/agent.toml")]
    pub config: PathBuf,
    /// Measure the disk of this folder (files are made there and removed again) or this device (which is only read)
    #[arg(long, value_name = "PATH")]
    pub disk: Option<PathBuf>,
    /// The time for each of reading, writing, and both at once
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "2s", requires = "disk")]
    pub span: terms::Span,
    /// The size of one request
    #[arg(long, value_name = "SIZE", value_parser = documents::units::parse_bytes, default_value = "1mb", requires = "disk")]
    pub request: terms::Bytes,
    /// Do not ask before a long measurement
    #[arg(long, requires = "disk")]
    pub yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice agent`.
#[derive(Args, Debug)]
pub struct AgentRunArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/sluice/agent.toml")]
    pub config: PathBuf,
    /// Pin the kernel's programs and maps in this folder of a bpffs, instead of mounting one under the state directory: for a
    /// service without CAP_SYS_ADMIN
    #[arg(long, value_name = "DIR")]
    pub pins: Option<PathBuf>,
    /// The log level, instead of the file's: error, warn, info or debug
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<agent_service::Level>,
    /// Check the file, its keys, policy and certificates, and the interfaces and disks that it names, for mistakes, and stop; nothing is changed
    #[arg(long)]
    pub check: bool,
}

/// `sluice status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Measure for this time before the answer [default: the agent's own last reading, which is a second old at
    /// most unless there are many flows]
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span)]
    pub over: Option<Span>,
    /// Show it again every second, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice watch`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice watch --node maui\n  sluice watch --after 0 --json            what happened to reservations, from the oldest that is kept\n  \
                        sluice watch --broker https://broker.example.org:8443    of all its agents; goes on when it comes back"
)]
pub struct WatchArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// Begin with the events of reservations after event N (0: with the oldest that is kept), and go on from
    /// there; of a broker: after this place, such as maui:17,glenwood:5, which each event has
    #[arg(long, value_name = "N")]
    pub after: Option<String>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = documents::units::parse_span)]
    pub patience: Option<Span>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}
