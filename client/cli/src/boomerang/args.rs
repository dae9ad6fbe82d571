//! `sluice boomerang ...` in one definition: options, help and examples.

use crate::places::AgentArgs;
use clap::{Args, Subcommand};
use documents::boomerang::SitePrefix;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use terms::{Rate, Span};

/// `sluice boomerang ...`.
#[derive(Subcommand, Debug)]
pub enum BoomerangCommand {
    /// Reserve a flow in both directions by one message that the far end need only echo
    #[command(after_help = RESERVE)]
    Reserve(ReserveArgs),
    /// Give a reservation back
    #[command(after_help = "Example:\n  sluice boomerang release 1 --node swissvale")]
    Release(ReleaseArgs),
    /// Sessions of this node, and those that it holds for others: asked / admitted / installed / measured
    #[command(after_help = SESSIONS)]
    Sessions(SessionsArgs),
    /// Show the messages that the agent handles, as they come and go, decoded
    #[command(
        after_help = "What the kernel's fast path decides by itself does not come to the agent and is not shown."
    )]
    Trace(TraceArgs),
    /// Decode captured messages, one JSON object a line (needs no agent)
    #[command(
        after_help = "Examples:\n  echo 0800...  | sluice boomerang decode --hex        one ICMP message in hex a line\n  \
                      echo 4500...  | sluice boomerang decode --hex --ip   one whole IP packet in hex a line\n\n\
                      What is no message is printed as {\"error\":\"what is wrong\",\"offset\":where}."
    )]
    Decode(DecodeArgs),
}

const SESSIONS: &str = "\
Examples:
  sluice boomerang sessions --node r1
  sluice boomerang sessions --over 0s --most 100000 --json

The first table is of sessions that this agent refreshes, the second of what it holds on its interfaces, one row for
each direction. Column \"by\": the initiating node that the agent decided for, or kernel: the fast path, which keeps no
initiating node.";

const RESERVE: &str = "\
Examples:
  sluice boomerang reserve --to 10.0.2.2:5004 --forward 3mbit --reverse 64kbit
                                   for packets from here to there and back; the far end is 10.0.2.2
  sluice boomerang reserve --to 10.0.2.2:5004 --from 10.0.0.1:5004 --forward 3mbit --at-least 1mbit
  sluice boomerang reserve --to 10.0.2.2:5004 --forward 5mbit --or 3mbit --or 1mbit:0
  sluice boomerang reserve --to 10.2.0.0/16 --from 10.1.0.0/16 --far-end 10.2.0.1 --forward 3mbit --reverse 3mbit
                                   for all that goes between two sites, as one session; 10.2.0.1 answers the ping
  sluice boomerang reserve --to 239.1.1.1:5004 --from 10.0.0.1:5004 --forward 2mbit
                                   one to many: nobody answers

The agent refreshes it until it is released, or with --stay until this command ends. What is interrupted
before its answer is given back.
Exit status: 0 reserved, 1 refused or not answered, 130 interrupted.";

/// `sluice boomerang reserve`.
#[derive(Args, Debug)]
pub struct ReserveArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The destination of the forward packets: a host, or a prefix for all packets to a site
    #[arg(long, value_name = "ADDR[/LENGTH][:PORT]", value_parser = parse_end)]
    pub to: End,
    /// Their source [default: our address on the way, port as --to; of prefixes any port]
    #[arg(long, value_name = "ADDR[/LENGTH][:PORT]", value_parser = parse_end)]
    pub from: Option<End>,
    /// The host that answers the ping [default: the destination]; with a prefix in --to a host there
    #[arg(long, value_name = "ADDR")]
    pub far_end: Option<IpAddr>,
    /// IP protocol: udp, tcp, or a number [default: udp; of prefixes any]
    #[arg(long, value_parser = documents::units::parse_protocol)]
    pub protocol: Option<u8>,
    /// Rate away from here
    #[arg(long, value_name = "RATE", value_parser = parse_bps, default_value = "0bit")]
    pub forward: u32,
    /// Rate towards here
    #[arg(long, value_name = "RATE", value_parser = parse_bps, default_value = "0bit")]
    pub reverse: u32,
    /// Lower rates that would do as well (DOWNGRADE); again for more
    #[arg(long = "or", value_name = "FORWARD[:REVERSE]", value_parser = parse_pair)]
    pub or: Vec<(u32, Option<u32>)>,
    /// If a node refuses, take the rates that it has, if they are at least these
    #[arg(long, value_name = "FORWARD[:REVERSE]", value_parser = parse_pair)]
    pub at_least: Option<(u32, Option<u32>)>,
    /// All packets between the two addresses, with any ports
    #[arg(long)]
    pub any_port: bool,
    /// Time between refreshes, whole seconds
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "3s")]
    pub refresh: Span,
    /// Authenticate the request with this key
    #[arg(long, value_name = "KEY")]
    pub auth: Option<u32>,
    /// User ID and credential of the option Boomerang_UID
    #[arg(long, value_name = "USER:CREDENTIAL", value_parser = parse_uid)]
    pub uid: Option<(u64, u64)>,
    /// Set IPv4's Router Alert
    #[arg(long)]
    pub router_alert: bool,
    /// Change the rates of this session, instead of making another
    #[arg(long, value_name = "NUMBER")]
    pub number: Option<u64>,
    /// Stay, show events, and give the reservation back at the end
    #[arg(long)]
    pub stay: bool,
    /// Without an answer after this time give up and give back; with --stay: the time to stay
    #[arg(long = "for", value_name = "TIME", value_parser = documents::units::parse_span)]
    pub patience: Option<Span>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `sluice boomerang release`.
#[derive(Args, Debug)]
pub struct ReleaseArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The session's number, as `reserve` and `sessions` show it
    pub number: u64,
}

/// `sluice boomerang sessions`.
#[derive(Args, Debug)]
pub struct SessionsArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The measuring time; 0s: what was measured since the last query
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "1s")]
    pub over: Span,
    /// Show at most this many rows of each list, and the number of those left out
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    pub most: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sluice boomerang trace`.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Stop after this many messages
    #[arg(long)]
    pub count: Option<u64>,
    /// Stop after this time [default: until interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = documents::units::parse_span)]
    pub patience: Option<Span>,
    /// Print all fields of a message, one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `sluice boomerang decode`.
#[derive(Args, Debug)]
pub struct DecodeArgs {
    /// Lines of hexadecimal digits
    #[arg(long, required = true)]
    pub hex: bool,
    /// Each line is a whole IP packet, not an ICMP message
    #[arg(long)]
    pub ip: bool,
    /// The file [default: standard input]
    pub file: Option<PathBuf>,
}

/// An address, or a prefix, and a port.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Address.
    pub at: SitePrefix,
    /// The port, if one was given.
    pub port: Option<u16>,
}

fn parse_end(text: &str) -> Result<End, String> {
    if let Ok(end) = text.parse::<SocketAddr>() {
        return Ok(End { at: SitePrefix::host(end.ip()), port: Some(end.port()) });
    }
    let wrong = || {
        format!(
            "{text:?} is no ADDRESS[/LENGTH][:PORT]: write 10.0.0.1:5004, [2001:db8::1]:5004, 10.1.0.0/16 or 10.1.0.0/16:5004"
        )
    };
    let Some((addr, rest)) = text.split_once('/') else {
        return text.parse().map(|addr| End { at: SitePrefix::host(addr), port: None }).map_err(|_| wrong());
    };
    let addr = addr.trim_start_matches('[').trim_end_matches(']');
    let (length, port) = rest.split_once(':').map_or((rest, None), |(length, port)| (length, Some(port)));
    let port = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)).transpose()?;
    Ok(End { at: format!("{addr}/{length}").parse()?, port })
}

fn parse_bps(text: &str) -> Result<u32, String> {
    // Nothing is nothing in any unit.
    if text == "0" {
        return Ok(0);
    }
    let rate: Rate = documents::units::parse_rate(text).map_err(|wrong| wrong.to_string())?;
    u32::try_from(rate.as_bps()).map_err(|_| format!("{rate} is more than a message can say: at most 4294967295bit"))
}

fn parse_pair(text: &str) -> Result<(u32, Option<u32>), String> {
    match text.split_once(':') {
        None => Ok((parse_bps(text)?, None)),
        Some((forward, reverse)) => Ok((parse_bps(forward)?, Some(parse_bps(reverse)?))),
    }
}

fn parse_uid(text: &str) -> Result<(u64, u64), String> {
    let pair = text.split_once(':').and_then(|(user, credential)| Some((user.parse().ok()?, credential.parse().ok()?)));
    pair.ok_or_else(|| format!("{text:?} is no USER:CREDENTIAL: two numbers below 2^64"))
}
