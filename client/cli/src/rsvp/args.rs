//! `sluice rsvp ...` in one definition: options, help and examples.

use crate::places::AgentArgs;
use clap::{Args, Subcommand, ValueEnum};
use documents::agent::{PriorityDoc, SenderId, StyleDoc};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use terms::{Bytes, Rate, Span};

/// `sluice rsvp ...`.
#[derive(Subcommand, Debug)]
pub enum RsvpCommand {
    /// Announce the traffic of a local application (Path messages go out until the command ends)
    #[command(
        after_help = "Example:\n  sluice rsvp send --to 10.0.2.2:5004 --from 10.0.0.1:5004 --rate 3.2mbit --burst 64kb"
    )]
    Send(SendArgs),
    /// Receive a session: show its senders, and reserve for them
    #[command(after_help = RECEIVE)]
    Receive(ReceiveArgs),
    /// Senders and reservations on behalf of hosts that do not signal; the agent keeps them
    #[command(subcommand)]
    Static(StaticCommand),
    /// Interfaces that speak RSVP, with their allocations
    #[command(visible_alias = "interfaces")]
    Interface(ShowArgs),
    /// Neighbours that speak RSVP
    #[command(visible_aliases = ["neighbors", "neighbour", "neighbours"])]
    Neighbor(ShowArgs),
    /// Sessions known to the agent
    #[command(visible_alias = "session")]
    Sessions(ShowArgs),
    /// Path states: senders and their previous hops
    #[command(visible_alias = "senders")]
    Sender(ShowArgs),
    /// Reservation requests to previous hops
    #[command(visible_alias = "requests")]
    Request(ShowArgs),
    /// Reservation states: asked / admitted / installed / measured
    #[command(visible_alias = "reservations")]
    Reservation(ShowArgs),
    /// Reservations in the ledger and in the kernel, by outgoing interface
    Installed(ShowArgs),
    /// Messages by type, and drops by reason
    Counters(ShowArgs),
    /// Messages a second, by interface and type
    #[command(visible_aliases = ["signaling", "rate"])]
    Signalling(ShowArgs),
    /// Read the files of keys again; with a mistake in one of them all stay as they were
    ReloadKeys(AgentArgs),
    /// Show RSVP messages as they come and go, decoded
    #[command(
        after_help = "Examples:\n  sluice rsvp trace --node maui                       every message, a line each\n  \
                      sluice rsvp trace --type path,resv --interface eth0\n  \
                      sluice rsvp trace --pcap trouble.pcap --for 30s     for Wireshark: raw IP\n\n\
                      The agent never waits for the reader: what is too much is left out, and counted."
    )]
    Trace(TraceArgs),
    /// Decode captured messages, one JSON object a line (needs no agent)
    #[command(
        after_help = "Examples:\n  echo 1005...  | sluice rsvp decode --hex            one message in hex a line\n  \
                      echo 46c0...  | sluice rsvp decode --hex --ip       one whole IP packet in hex a line\n  \
                      sluice rsvp decode --pcap trouble.pcap              every RSVP packet of a capture (pcap, pcapng)\n  \
                      sluice rsvp decode --pcap trouble.pcap --keys eth0.keys   and whether its digest is right\n\n\
                      What is refused is printed as {\"error\":\"what is wrong\",\"offset\":where}; with the objects, if it is refused for what it asks."
    )]
    Decode(DecodeArgs),
}

const RECEIVE: &str = "\
Examples:
  sluice rsvp receive --session 10.0.2.2:5004                    show the senders
  sluice rsvp receive --session 10.0.2.2:5004 --reserve same     reserve what each sender says it sends
  sluice rsvp receive --session 10.0.2.2:5004 --reserve 3.2mbit --once
  sluice rsvp receive --session 239.1.1.1:5004 --style wf --reserve 3.2mbit
  sluice rsvp receive --session 10.0.2.2:5004 --style se --filter 10.0.0.1:5004 --filter 10.0.0.3:5004 --reserve 1mbit
  sluice rsvp receive --session 10.0.2.2:5004 --reserve same --service guaranteed --delay 20ms";

/// `sluice rsvp static ...`.
#[derive(Subcommand, Debug)]
pub enum StaticCommand {
    /// Senders on behalf of hosts that do not signal what they send
    #[command(
        after_help = "Example:\n  sluice rsvp static sender add --from 10.0.0.1:5004 --to 10.0.2.2:5004 --rate 3.2mbit"
    )]
    Sender {
        /// The command.
        #[command(subcommand)]
        command: StaticSender,
    },
    /// Reservations on behalf of hosts that receive and do not signal
    #[command(
        after_help = "Example:\n  sluice rsvp static reservation add --session 10.0.2.2:5004 --filter 10.0.0.1:5004 --reserve 3.2mbit"
    )]
    Reservation {
        /// The command.
        #[command(subcommand)]
        command: StaticReservation,
    },
    /// List all of them, with their state
    List(StaticList),
}

/// `sluice rsvp static sender ...`.
#[derive(Subcommand, Debug)]
pub enum StaticSender {
    /// Add one; it outlives this command and the agent
    Add(SenderArgs),
    /// Remove one
    Remove(StaticRemove),
    /// List all of them
    List(StaticList),
}

/// `sluice rsvp static reservation ...`.
#[derive(Subcommand, Debug)]
pub enum StaticReservation {
    /// Add one; it outlives this command and the agent
    Add(StaticReservationArgs),
    /// Remove one
    Remove(StaticRemove),
    /// List all of them
    List(StaticList),
}

/// `... remove`.
#[derive(Args, Debug)]
pub struct StaticRemove {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The number, as `list` shows it
    pub number: u64,
}

/// `... list`.
#[derive(Args, Debug)]
pub struct StaticList {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sluice rsvp static reservation add`.
#[derive(Args, Debug)]
pub struct StaticReservationArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The request.
    #[command(flatten)]
    pub ask: AskArgs,
    /// The rate to reserve
    #[arg(long, value_name = "RATE", value_parser = documents::units::parse_rate)]
    pub reserve: Rate,
    /// The rest of the Tspec.
    #[command(flatten)]
    pub traffic: TrafficArgs,
}

/// `sluice rsvp interface`, `neighbor`, ...
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Only this destination
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_end)]
    pub session: Option<End>,
    /// Only state of this interface, in or out
    #[arg(long, short = 'i', value_name = "NAME")]
    pub interface: Option<String>,
    /// The most rows that are shown
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Repeat the output at this interval
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, num_args = 0..=1, default_missing_value = "1s")]
    pub watch: Option<Span>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sluice rsvp trace`.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Only messages in or out by this interface
    #[arg(long, short = 'i', value_name = "NAME")]
    pub interface: Option<String>,
    /// Only messages from or to this address
    #[arg(long, value_name = "ADDR")]
    pub address: Option<IpAddr>,
    /// Only incoming messages
    #[arg(long = "in", conflicts_with = "out")]
    pub incoming: bool,
    /// Only outgoing messages
    #[arg(long)]
    pub out: bool,
    /// Only these types: path, resv, patherr, resverr, pathtear, resvtear, resvconf, ... or numbers
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = parse_type)]
    pub types: Vec<u8>,
    /// Write a capture of raw IP packets; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print all fields of each message, one JSON object a line
    #[arg(long, conflicts_with = "pcap")]
    pub json: bool,
    /// Stop after this many messages
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Stop after this time [default: until interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = documents::units::parse_span)]
    pub patience: Option<Span>,
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
    /// Check each INTEGRITY by the keys of this file, as the agent has it: good, bad, unknown key, or none
    #[arg(long, value_name = "KEYS")]
    pub keys: Option<PathBuf>,
    /// With --hex: read this file [default: standard input]
    #[arg(conflicts_with = "pcap", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// The traffic of a sender, or a request.
#[derive(Args, Debug)]
pub struct TrafficArgs {
    /// Depth of the token bucket [default: a quarter of a second at the rate, at least 8kb]
    #[arg(long, value_name = "SIZE", value_parser = documents::units::parse_bytes)]
    pub burst: Option<Bytes>,
    /// Peak rate [default: not bounded]
    #[arg(long, value_name = "RATE", value_parser = documents::units::parse_rate)]
    pub peak: Option<Rate>,
    /// Minimum policed unit: a shorter packet counts as this long
    #[arg(long, value_name = "SIZE", value_parser = documents::units::parse_bytes, default_value = "64b")]
    pub min_unit: Bytes,
    /// Largest packet
    #[arg(long, value_name = "SIZE", value_parser = documents::units::parse_bytes, default_value = "1500b")]
    pub max_packet: Bytes,
}

/// The traffic of a sender.
#[derive(Args, Debug)]
pub struct SenderArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The destination of the packets
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_end)]
    pub to: End,
    /// Their source
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_end)]
    pub from: End,
    /// IP protocol: udp, tcp, or a number; one without ports is written without ports
    #[arg(long, value_parser = documents::units::parse_protocol, default_value = "udp")]
    pub protocol: u8,
    /// Rate of IP bytes, headers included
    #[arg(long, value_name = "RATE", value_parser = documents::units::parse_rate)]
    pub rate: Rate,
    /// The rest of the Tspec.
    #[command(flatten)]
    pub traffic: TrafficArgs,
    /// TTL of the data packets
    #[arg(long, default_value_t = 64)]
    pub ttl: u8,
}

/// `sluice rsvp send`.
#[derive(Args, Debug)]
pub struct SendArgs {
    /// The sender.
    #[command(flatten)]
    pub sender: SenderArgs,
    /// Stop after this time [default: until interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = documents::units::parse_span)]
    pub patience: Option<Span>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// A request of a receiver.
#[derive(Args, Debug)]
pub struct AskArgs {
    /// The destination of the session
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_end)]
    pub session: End,
    /// IP protocol: udp, tcp, or a number
    #[arg(long, value_parser = documents::units::parse_protocol, default_value = "udp")]
    pub protocol: u8,
    /// Style: ff (one reservation for each sender), se (one for those named), wf (one for all)
    #[arg(long, default_value = "ff", value_parser = parse_style)]
    pub style: StyleDoc,
    /// Only this sender; again for more [default: every sender that appears]
    #[arg(long = "filter", visible_alias = "sender", value_name = "ADDR[:PORT]", value_parser = parse_end)]
    pub filters: Vec<End>,
    /// Service
    #[arg(long, value_enum, default_value = "controlled-load")]
    pub service: ServiceName,
    /// Guaranteed service: R [default: the reserved rate]
    #[arg(long, value_name = "RATE", value_parser = documents::units::parse_rate)]
    pub service_rate: Option<Rate>,
}

/// `sluice rsvp receive`.
#[derive(Args, Debug)]
pub struct ReceiveArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The request.
    #[command(flatten)]
    pub ask: AskArgs,
    /// The rate to reserve; `same`: the traffic that each sender announces (shared styles: the largest)
    #[arg(long, value_name = "RATE|same", value_parser = parse_reserve)]
    pub reserve: Option<Reserve>,
    /// Guaranteed service: R is chosen so that no packet is queued for longer than this on the whole path
    #[arg(long, value_name = "BOUND", value_parser = documents::units::parse_span, conflicts_with = "service_rate")]
    pub delay: Option<Span>,
    /// Pre-emption priority (RFC 3181): how far it may displace others, and what it takes to displace it
    #[arg(long, value_name = "PREEMPTING[:DEFENDING]", value_parser = parse_priority)]
    pub priority: Option<PriorityDoc>,
    /// Ask for no confirmation
    #[arg(long, conflicts_with = "once")]
    pub no_confirm: bool,
    /// The rest of the Tspec, where it is not the sender's.
    #[command(flatten)]
    pub traffic: TrafficArgs,
    /// Stop at the first confirmation (status 0) or refusal (status 1); the reservation goes with the command
    #[arg(long)]
    pub once: bool,
    /// Stop after this time [default: until interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = documents::units::parse_span)]
    pub patience: Option<Span>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// An address and a port; port 0 where the protocol has none. Of a sender by ESP or AH (`@SPI`), the security parameter
/// index (RFC 2207).
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Address.
    pub addr: IpAddr,
    /// Port, or security parameter index.
    pub port: u32,
}

impl From<End> for SenderId {
    fn from(end: End) -> SenderId {
        SenderId { src: end.addr, src_port: end.port }
    }
}

/// `--reserve`.
#[derive(Clone, Copy, Debug)]
pub enum Reserve {
    /// The traffic that each sender announces.
    Same,
    /// This rate.
    Rate(Rate),
}

/// Services.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ServiceName {
    /// RFC 2211
    ControlledLoad,
    /// RFC 2212
    Guaranteed,
}

fn parse_end(text: &str) -> Result<End, String> {
    if let Ok(end) = text.parse::<SocketAddr>() {
        return Ok(End { addr: end.ip(), port: end.port().into() });
    }
    if let Some((addr, spi)) = text.split_once('@') {
        let number = spi.strip_prefix("0x").map_or_else(|| spi.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
        if let (Ok(addr), Some(port)) = (addr.parse(), number) {
            return Ok(End { addr, port });
        }
    }
    match text.parse::<IpAddr>() {
        Ok(addr) => Ok(End { addr, port: 0 }),
        Err(_) => Err(format!(
            "{text:?} is no ADDRESS:PORT: write 10.0.0.1:5004 or [2001:db8::1]:5004, or only the address where there \
             are no ports, or ADDRESS@SPI of a sender by ESP or AH"
        )),
    }
}

fn parse_reserve(text: &str) -> Result<Reserve, String> {
    if text == "same" { Ok(Reserve::Same) } else { documents::units::parse_rate(text).map(Reserve::Rate) }
}

fn parse_style(text: &str) -> Result<StyleDoc, String> {
    match text {
        "ff" => Ok(StyleDoc::Ff),
        "se" => Ok(StyleDoc::Se),
        "wf" => Ok(StyleDoc::Wf),
        _ => Err(format!("{text:?} is no style: ff, se or wf")),
    }
}

fn parse_priority(text: &str) -> Result<PriorityDoc, String> {
    let (preempting, defending) = text.split_once(':').unwrap_or((text, text));
    match (preempting.parse(), defending.parse()) {
        (Ok(preempting), Ok(defending)) if defending >= preempting => Ok(PriorityDoc { preempting, defending }),
        _ => Err(format!("{text:?} is no priority: two numbers up to 65535, the second not below the first")),
    }
}

/// A message type by its name, in any case, or its number.
fn parse_type(text: &str) -> Result<u8, String> {
    let known = (1..=u8::MAX).filter_map(wire::MessageType::from_number);
    let mut named = known.filter(|kind| kind.name().eq_ignore_ascii_case(text));
    match named.next().map(|kind| kind.number()).or_else(|| text.parse().ok()) {
        Some(number) => Ok(number),
        None => {
            Err(format!("{text:?} is no type of RSVP message: path, resv, patherr, resverr, pathtear, resvtear, ..."))
        }
    }
}
