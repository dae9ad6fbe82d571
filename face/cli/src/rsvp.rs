//! `sluice rsvp send | receive | sessions | senders | reservations | counters | decode`.

use crate::args::{End, ListArgs, Protocol, ReceiveArgs, Reserve, RsvpCommand, SendArgs, Service, TrafficArgs};
use crate::complain::Complaint;
use crate::watch::{flow, print_event, rate};
use api::agent::{
    Answer, CounterRow, EventDoc, FlowSpecDoc, Request, SenderId, SenderRow, SessionId, SessionRow, StyleDoc, TspecDoc,
};
use api::client::Client;
use api::table::{Align, Table};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terms::{Rate, Span};

/// Runs one of them.
pub fn run(command: &RsvpCommand) -> Result<ExitCode, Complaint> {
    match command {
        RsvpCommand::Send(args) => send(args),
        RsvpCommand::Receive(args) => receive(args),
        RsvpCommand::Sessions(args) => list(args, Request::Sessions),
        RsvpCommand::Senders(args) => list(args, Request::Senders),
        RsvpCommand::Reservations(args) => list(args, Request::Reservations),
        RsvpCommand::Counters(args) => list(args, Request::Counters),
        RsvpCommand::Decode(args) => crate::decode::run(args),
    }
}

fn send(args: &SendArgs) -> Result<ExitCode, Complaint> {
    let mut client = args.agent.connect()?;
    let session = session_id(&args.to, args.protocol);
    let sender = SenderId { src: args.from.addr, src_port: args.from.port.into() };
    let tspec = tspec(args.rate, &args.traffic)?;
    client.call(Request::Sender { session, sender, tspec, ttl: args.ttl })?;
    if !args.json {
        eprintln!("sending {} at {}; interrupt to stop", flow(&session, &sender), args.rate);
    }
    follow(&mut client, args.patience, args.json, |_, _| Ok(None))
}

fn receive(args: &ReceiveArgs) -> Result<ExitCode, Complaint> {
    let mut client = args.agent.connect()?;
    let session = session_id(&args.session, args.protocol);
    client.call(Request::Receiver { session })?;
    let mut wanted: Vec<(SenderId, FlowSpecDoc)> = Vec::new();
    let mut pending = 0usize;
    let only = args.sender.as_ref().map(|end| SenderId { src: end.addr, src_port: end.port.into() });
    follow(&mut client, args.patience, args.json, |client, event| match event {
        EventDoc::Path { sender, tspec, .. } => {
            let Some(reserve) = args.reserve else { return Ok(None) };
            let flowspec = flowspec(args, reserve, tspec)?;
            if only.is_some_and(|only| only != *sender) || wanted.contains(&(*sender, flowspec)) {
                return Ok(None);
            }
            wanted.retain(|(known, _)| known != sender);
            wanted.push((*sender, flowspec));
            pending += 1;
            client.call(Request::Reserve {
                session,
                style: StyleDoc::Ff,
                senders: wanted.iter().map(|(sender, _)| *sender).collect(),
                flowspecs: wanted.iter().map(|(_, flowspec)| *flowspec).collect(),
                confirm: true,
            })?;
            Ok(None)
        }
        EventDoc::Confirm { .. } if args.once => {
            pending = pending.saturating_sub(1);
            Ok((pending == 0).then_some(ExitCode::SUCCESS))
        }
        EventDoc::Error { answers, .. } if args.once && answers == "resv" => Ok(Some(ExitCode::from(1))),
        _ => Ok(None),
    })
}

/// Prints events until the patience is over or `react` says with which status to end.
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

fn session_id(end: &End, protocol: Protocol) -> SessionId {
    SessionId { dst: end.addr, protocol: protocol.number(), dst_port: end.port }
}

fn flowspec(args: &ReceiveArgs, reserve: Reserve, sender: &TspecDoc) -> Result<FlowSpecDoc, Complaint> {
    let tspec = match reserve {
        Reserve::Same => *sender,
        Reserve::Rate(rate) => tspec(rate, &args.traffic)?,
    };
    Ok(match args.service {
        Service::ControlledLoad => FlowSpecDoc::ControlledLoad { tspec },
        Service::Guaranteed => FlowSpecDoc::Guaranteed {
            tspec,
            rate_bps: args.service_rate.map_or(tspec.r_bps, Rate::as_bps),
            slack_us: 0,
        },
    })
}

/// The Tspec of `--rate` and its companions; the default burst is a quarter of a second, at least 8 KB.
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
    let default_burst = rate.demands(Span::from_millis(250)).max(terms::Bytes::new(8 << 10));
    Ok(TspecDoc {
        r_bps: rate.as_bps(),
        b_bytes: traffic.burst.unwrap_or(default_burst).get(),
        p_bps: traffic.peak.map(Rate::as_bps),
        m_bytes,
        max_bytes,
    })
}

fn list(args: &ListArgs, request: Request) -> Result<ExitCode, Complaint> {
    let answer = args.agent.connect()?.call(request)?;
    if args.json {
        // The answer is an enum; the list inside is what was asked for.
        let value = serde_json::to_value(&answer).map_err(|e| Complaint::world(e.to_string()))?;
        let inner = value.as_object().and_then(|o| o.values().next()).unwrap_or(&value);
        println!("{}", serde_json::to_string_pretty(inner).map_err(|e| Complaint::world(e.to_string()))?);
        return Ok(ExitCode::SUCCESS);
    }
    let (what, table) = match &answer {
        Answer::Sessions(rows) => ("sessions", sessions(rows)),
        Answer::Senders(rows) => ("senders", senders(rows)),
        Answer::Reservations(rows) => ("reservations", crate::status::reservations(rows)),
        Answer::Counters(rows) => ("messages", counters(rows)),
        other => return Err(Complaint::world(format!("the agent answered {other:?} to a list call"))),
    };
    if table.is_empty() {
        println!("no {what}");
    } else {
        print!("{table}");
    }
    Ok(ExitCode::SUCCESS)
}

fn sessions(rows: &[SessionRow]) -> Table {
    let head = [
        ("session", Align::Left),
        ("protocol", Align::Right),
        ("senders", Align::Right),
        ("reservations", Align::Right),
        ("receivers here", Align::Right),
    ];
    let mut table = Table::new(&head);
    for row in rows {
        table.row([
            std::net::SocketAddr::new(row.session.dst, row.session.dst_port).to_string(),
            row.session.protocol.to_string(),
            row.senders.to_string(),
            row.reservations.to_string(),
            row.receivers.to_string(),
        ]);
    }
    table
}

fn senders(rows: &[SenderRow]) -> Table {
    let mut table = Table::new(&[
        ("flow", Align::Left),
        ("rate", Align::Right),
        ("burst", Align::Right),
        ("previous hop", Align::Left),
        ("in by", Align::Left),
        ("out by", Align::Left),
        ("expires", Align::Right),
        ("", Align::Left),
    ]);
    let here = || "here".to_string();
    for row in rows {
        table.row([
            flow(&row.session, &row.sender),
            rate(row.tspec.r_bps),
            terms::Bytes::new(row.tspec.b_bytes).to_string(),
            row.phop.map_or_else(here, |hop| hop.to_string()),
            row.iif.clone().unwrap_or_else(here),
            row.oif.clone().unwrap_or_else(here),
            row.expires_in_ms.map_or_else(|| "-".to_string(), |ms| format!("{:.1}s", ms as f64 / 1000.0)),
            if row.non_rsvp_hop { "a hop without RSVP before us" } else { "" }.to_string(),
        ]);
    }
    table
}

fn counters(rows: &[CounterRow]) -> Table {
    let mut table = Table::new(&[("message", Align::Left), ("received", Align::Right), ("sent", Align::Right)]);
    for row in rows {
        table.row([row.name.clone(), row.received.to_string(), row.sent.to_string()]);
    }
    table
}
