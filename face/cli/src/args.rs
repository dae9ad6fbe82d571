//! The command line: every command, option and example in one definition; help, completion and man pages come from it.

use crate::places::AgentArgs;
use crate::plane::PlaneCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::net::IpAddr;
use std::path::PathBuf;
use terms::{Bytes, Rate, Span};

/// A guaranteed share of the network for an application, shown as asked, admitted, installed and measured.
#[derive(Parser, Debug)]
#[command(name = "sluice", version, propagate_version = true, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
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
  sluice down                            leaves nothing behind";

/// Commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Bring a testbed up: hosts and routers in network namespaces, an agent on each
    Up(UpArgs),
    /// Take a testbed down; nothing of it is left
    Down(DownArgs),
    /// A real video against a flood, without and with a reservation: table and figures
    Demo(DemoArgs),
    /// The other experiments: held against published tables, and on the demonstration's testbed
    #[command(subcommand)]
    Lab(LabCommand),
    /// Run this machine's agent, in the foreground
    #[command(
        after_help = "Example of a configuration (more in docs/two-machines.md):\n  auth = \"none\"\n\n  [[interface]]\n  \
                            name = \"eth0\"\n  rate = \"100mbit\""
    )]
    Agent(AgentRunArgs),
    /// The same nodes in simulated time, from a scenario file; needs no root
    #[command(subcommand)]
    Sim(SimCommand),
    /// Traffic conditioning by a queue tree, on captures; needs no root
    #[command(subcommand)]
    Plane(PlaneCommand),
    /// Reserve by RSVP, and look at its state
    #[command(subcommand)]
    Rsvp(RsvpCommand),
    /// What this kernel can and cannot do, and what is used instead
    Doctor(DoctorArgs),
    /// Every interface and reservation: asked / admitted / installed / measured
    Status(StatusArgs),
    /// Events as they happen
    Watch(WatchArgs),
    /// Print shell completion
    Completions {
        /// For which shell.
        shell: Shell,
    },
    /// Write man pages
    Man {
        /// Into this folder.
        dir: PathBuf,
    },
}

/// `sluice up`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sluice up examples/seed.toml")]
pub struct UpArgs {
    /// The topology: nodes, links, rates
    pub file: PathBuf,
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
    /// Every testbed
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
}

/// `sluice demo`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice demo                the whole sweep: about 4 minutes; table, and figures in out/demo\n  \
                        sluice demo --quick        before and after at one point: under a minute\n  \
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
    /// Show no progress
    #[arg(long)]
    pub silent: bool,
}

/// `sluice lab ...`.
#[derive(Subcommand, Debug)]
#[command(after_help = "Examples:\n  sluice lab list                           what there is\n  \
                        sluice lab run video                      one experiment, its tables beside the published ones\n  \
                        sluice lab run video --quick --json       fewer points; one JSON object on the last line\n  \
                        sluice lab report                         one page of everything that was found: out/lab/report.html")]
pub enum LabCommand {
    /// What can be run
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
    /// How long a reservation over two routers takes, beside the round-trip time
    #[command(after_help = "Example:\n  sluice lab setup-time --count 100 --json")]
    SetupTime {
        /// How many reservations are made
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
        /// How long the router has no agent
        #[arg(long, value_name = "TIME", value_parser = api::units::parse_span, default_value = "10s")]
        down: Span,
        /// RSVP's refresh period R
        #[arg(long, value_name = "TIME", value_parser = api::units::parse_span, default_value = "30s")]
        refresh: Span,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// kill -9 of the receiver's agent: how long the reservation lives, and what is left
    KillReceiver {
        /// RSVP's refresh period R; the reservation lives 5.25 R
        #[arg(long, value_name = "TIME", value_parser = api::units::parse_span, default_value = "1s")]
        refresh: Span,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// `sluice lab run`.
#[derive(Args, Debug)]
pub struct LabRunArgs {
    /// Its name, from `sluice lab list`
    pub name: String,
    /// Fewer points, fewer seeds: seconds
    #[arg(long)]
    pub quick: bool,
    /// How many independent runs each cell is the mean of [default: the experiment's own]
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
    /// Run first what was never run, in its quick form
    #[arg(long)]
    pub run: bool,
}

/// `sluice sim ...`.
#[derive(Subcommand, Debug)]
pub enum SimCommand {
    /// Play a scenario and print what arrived
    #[command(after_help = "Example:\n  sluice sim run examples/video.toml")]
    Run(SimArgs),
    /// Read a scenario and say what is wrong with it; plays nothing
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
    /// Another seed than the file's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
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
    /// How much is logged, instead of what the file says: error, warn, info or debug
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<daemon::Level>,
    /// Look for mistakes in the file, and stop
    #[arg(long)]
    pub check: bool,
}

/// `sluice status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Which agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Measure over this long before answering
    #[arg(long, value_name = "TIME", value_parser = api::units::parse_span, default_value = "1s")]
    pub over: Span,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice watch`.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// Which agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Stop after this long
    #[arg(long = "for", value_name = "TIME", value_parser = api::units::parse_span)]
    pub patience: Option<Span>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `sluice rsvp ...`.
#[derive(Subcommand, Debug)]
pub enum RsvpCommand {
    /// Say what a local application sends (Path messages go out until it ends)
    #[command(
        after_help = "Example:\n  sluice rsvp send --to 10.0.2.2:5004 --from 10.0.0.1:5004 --rate 3.2mbit --burst 64kb"
    )]
    Send(SendArgs),
    /// Receive a session: show its senders, and reserve for them
    #[command(
        after_help = "Examples:\n  sluice rsvp receive --session 10.0.2.2:5004                    show the senders\n  \
                      sluice rsvp receive --session 10.0.2.2:5004 --reserve same     reserve what each sender says it sends\n  \
                      sluice rsvp receive --session 10.0.2.2:5004 --reserve 3.2mbit --once"
    )]
    Receive(ReceiveArgs),
    /// Sessions known to the agent
    Sessions(ListArgs),
    /// Path states
    Senders(ListArgs),
    /// Reservation states: asked / admitted / installed / measured
    Reservations(ListArgs),
    /// Messages by type, and drops by reason
    Counters(ListArgs),
    /// Print what captured messages say, one JSON object a line (needs no agent)
    #[command(
        after_help = "Examples:\n  echo 1005...  | sluice rsvp decode --hex            one message in hex a line\n  \
                      echo 46c0...  | sluice rsvp decode --hex --ip       one whole IP packet in hex a line\n  \
                      sluice rsvp decode --pcap trouble.pcap              every RSVP packet of a capture (pcap, pcapng)\n\n\
                      What is refused is printed as {\"error\":\"what is wrong\",\"offset\":where}."
    )]
    Decode(DecodeArgs),
}

/// `sluice rsvp decode`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("input").required(true).args(["hex", "pcap"]))]
pub struct DecodeArgs {
    /// Read hex, one message a line; `#` begins a comment line
    #[arg(long)]
    pub hex: bool,
    /// With --hex: each line is a whole IP packet
    #[arg(long, conflicts_with = "pcap")]
    pub ip: bool,
    /// Read a capture file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// With --hex: read this file [default: standard input]
    #[arg(conflicts_with = "pcap", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Lists.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Which agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The traffic of a sender, or a request.
#[derive(Args, Debug)]
pub struct TrafficArgs {
    /// Depth of the token bucket [default: a quarter of a second at the rate, at least 8kb]
    #[arg(long, value_name = "SIZE", value_parser = api::units::parse_bytes)]
    pub burst: Option<Bytes>,
    /// Peak rate [default: not bounded]
    #[arg(long, value_name = "RATE", value_parser = api::units::parse_rate)]
    pub peak: Option<Rate>,
    /// Minimum policed unit: a shorter packet counts as this long
    #[arg(long, value_name = "SIZE", value_parser = api::units::parse_bytes, default_value = "64b")]
    pub min_unit: Bytes,
    /// Largest packet
    #[arg(long, value_name = "SIZE", value_parser = api::units::parse_bytes, default_value = "1500b")]
    pub max_packet: Bytes,
}

/// `sluice rsvp send`.
#[derive(Args, Debug)]
pub struct SendArgs {
    /// Which agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Where the packets go
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_end)]
    pub to: End,
    /// Where they come from
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_end)]
    pub from: End,
    /// IP protocol
    #[arg(long, value_enum, default_value = "udp")]
    pub protocol: Protocol,
    /// Rate of IP bytes, headers included
    #[arg(long, value_name = "RATE", value_parser = api::units::parse_rate)]
    pub rate: Rate,
    /// The rest of the Tspec.
    #[command(flatten)]
    pub traffic: TrafficArgs,
    /// TTL of the data packets
    #[arg(long, default_value_t = 64)]
    pub ttl: u8,
    /// Stop after this long [default: until interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = api::units::parse_span)]
    pub patience: Option<Span>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `sluice rsvp receive`.
#[derive(Args, Debug)]
pub struct ReceiveArgs {
    /// Which agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The destination of the session
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_end)]
    pub session: End,
    /// IP protocol
    #[arg(long, value_enum, default_value = "udp")]
    pub protocol: Protocol,
    /// Reserve this rate for each sender; `same`: what the sender says it sends
    #[arg(long, value_name = "RATE|same", value_parser = parse_reserve)]
    pub reserve: Option<Reserve>,
    /// Only for this sender [default: every sender that appears]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_end)]
    pub sender: Option<End>,
    /// Service
    #[arg(long, value_enum, default_value = "controlled-load")]
    pub service: Service,
    /// Guaranteed service: R [default: the reserved rate]
    #[arg(long, value_name = "RATE", value_parser = api::units::parse_rate)]
    pub service_rate: Option<Rate>,
    /// The rest of the Tspec, where it is not the sender's.
    #[command(flatten)]
    pub traffic: TrafficArgs,
    /// Stop at the first confirmation (status 0) or refusal (status 1); the reservation goes with the command
    #[arg(long)]
    pub once: bool,
    /// Stop after this long [default: until interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = api::units::parse_span)]
    pub patience: Option<Span>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// An address and a port.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Address.
    pub addr: IpAddr,
    /// Port.
    pub port: u16,
}

/// `--reserve`.
#[derive(Clone, Copy, Debug)]
pub enum Reserve {
    /// What the sender says it sends.
    Same,
    /// This rate.
    Rate(Rate),
}

/// Protocols by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Protocol {
    /// 17
    Udp,
    /// 6
    Tcp,
}

impl Protocol {
    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Udp => 17,
            Protocol::Tcp => 6,
        }
    }
}

/// Services.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Service {
    /// RFC 2211
    ControlledLoad,
    /// RFC 2212
    Guaranteed,
}

fn parse_end(text: &str) -> Result<End, String> {
    match text.parse::<std::net::SocketAddr>() {
        Ok(end) => Ok(End { addr: end.ip(), port: end.port() }),
        Err(_) => Err(format!("{text:?} is no ADDRESS:PORT: write 10.0.0.1:5004 or [2001:db8::1]:5004")),
    }
}

fn parse_reserve(text: &str) -> Result<Reserve, String> {
    if text == "same" { Ok(Reserve::Same) } else { api::units::parse_rate(text).map(Reserve::Rate) }
}
