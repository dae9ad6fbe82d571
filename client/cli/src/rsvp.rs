//! `sluice rsvp ...`: the commands of applications (`send`, `receive`) and of operators (the tables,
//! `static`, `trace`).

pub mod args;
mod receive;
mod show;
mod statics;
mod trace;

use crate::complain::Complaint;
use crate::flows::flow;
use crate::watch::print_event;
use args::{End, RsvpCommand, SendArgs, SenderArgs, TrafficArgs};
use documents::agent::{EventDoc, FlowSpecDoc, Request, SenderId, SessionId, StaticDoc, TspecDoc, View};
use rpc::client::Client;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terms::{Rate, Span};

/// Runs one of them.
pub fn run(command: &RsvpCommand) -> Result<ExitCode, Complaint> {
    match command {
        RsvpCommand::Send(args) => send(args),
        RsvpCommand::Receive(args) => receive::run(args),
        RsvpCommand::Static(command) => statics::run(command),
        RsvpCommand::Interface(args) => show::run(args, View::Interfaces),
        RsvpCommand::Neighbor(args) => show::run(args, View::Neighbours),
        RsvpCommand::Sessions(args) => show::run(args, View::Sessions),
        RsvpCommand::Sender(args) => show::run(args, View::Senders),
        RsvpCommand::Request(args) => show::run(args, View::Requests),
        RsvpCommand::Reservation(args) => show::run(args, View::Reservations),
        RsvpCommand::Installed(args) => show::run(args, View::Installed),
        RsvpCommand::Counters(args) => show::run(args, View::Counters),
        RsvpCommand::Signalling(args) => show::run(args, View::Signalling),
        RsvpCommand::ReloadKeys(agent) => {
            agent.connect()?.call(Request::ReloadKeys)?;
            Ok(ExitCode::SUCCESS)
        }
        RsvpCommand::Trace(args) => trace::run(args),
        RsvpCommand::Decode(args) => crate::decode::run(args),
    }
}

fn send(args: &SendArgs) -> Result<ExitCode, Complaint> {
    let mut client = args.sender.agent.connect()?;
    let (session, sender, tspec) = sender_of(&args.sender)?;
    client.call(Request::Sender { session, sender, tspec, ttl: args.sender.ttl })?;
    if !args.json {
        eprintln!("sending {} at {}; interrupt to stop", flow(&session, &sender), args.sender.rate);
    }
    follow(&mut client, args.patience, args.json, |_, _| Ok(None))
}

fn sender_of(args: &SenderArgs) -> Result<(SessionId, SenderId, TspecDoc), Complaint> {
    Ok((session_id(&args.to, args.protocol), args.from.into(), tspec(args.rate, &args.traffic)?))
}

/// The same request as a static sender.
fn static_sender(args: &SenderArgs) -> Result<StaticDoc, Complaint> {
    let (session, sender, tspec) = sender_of(args)?;
    Ok(StaticDoc::Sender { session, sender, tspec, ttl: args.ttl })
}

/// Prints events until the time is over or `react` returns the exit status.
fn follow(
    client: &mut Client,
    patience: Option<Span>,
    json: bool,
    mut react: impl FnMut(&mut Client, &EventDoc) -> Result<Option<ExitCode>, Complaint>,
) -> Result<ExitCode, Complaint> {
    let end = patience.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    loop {
        let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        if end.is_some() && left.is_zero() {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some((at_ns, event)) = client.event(left)? {
            print_event(at_ns, &event, json);
            if let Some(code) = react(client, &event)? {
                return Ok(code);
            }
        }
    }
}

fn session_id(end: &End, protocol: u8) -> SessionId {
    // Of ESP and AH this is the virtual destination port.
    SessionId { dst: end.addr, protocol, dst_port: u16::try_from(end.port).unwrap_or(0) }
}

/// Controlled load, or guaranteed service at `rate`.
fn service(tspec: TspecDoc, guaranteed: Option<Rate>) -> FlowSpecDoc {
    match guaranteed {
        None => FlowSpecDoc::ControlledLoad { tspec },
        Some(rate) => FlowSpecDoc::Guaranteed { tspec, rate_bps: rate.as_bps(), slack_us: 0 },
    }
}

/// The Tspec of `--rate` and its companions.
fn tspec(rate: Rate, traffic: &TrafficArgs) -> Result<TspecDoc, Complaint> {
    let narrow = |what: &str, size: terms::Bytes| {
        u32::try_from(size.get()).map_err(|_| Complaint::usage(format!("{what} {size} is too large: at most 4gb")))
    };
    let (m_bytes, max_bytes) = (narrow("--min-unit", traffic.min_unit)?, narrow("--max-packet", traffic.max_packet)?);
    if m_bytes > max_bytes {
        return Err(Complaint::usage(format!("--min-unit {m_bytes}b exceeds --max-packet {max_bytes}b")));
    }
    if rate == Rate::ZERO {
        return Err(Complaint::usage("a rate of zero reserves nothing: leave the command to release"));
    }
    if traffic.peak.is_some_and(|peak| peak < rate) {
        return Err(Complaint::usage(format!("--peak is below the rate {rate}")));
    }
    Ok(TspecDoc {
        r_bps: rate.as_bps(),
        b_bytes: traffic.burst.unwrap_or(documents::units::usual_burst(rate)).get(),
        p_bps: traffic.peak.map(Rate::as_bps),
        m_bytes,
        max_bytes,
    })
}
