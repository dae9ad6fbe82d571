//! The tables, in the columns that an operator of routers knows: To, From, Pro, DPort, Sport, hop, I/F, BPS.

use super::args::ShowArgs;
use crate::complain::Complaint;
use crate::rates::rate;
use documents::agent::{
    Answer, CounterRow, FlowSpecDoc, Request, ReservationRow, RowFilter, Rows, SenderId, SenderRow, SessionId,
    SessionRow, StyleDoc, TableDoc, View,
};
use documents::show::{
    HelloStateDoc, InstalledRow, NeighbourKeyDoc, NeighbourRow, RequestRow, RsvpInterfaceRow, SignallingRow,
};
use rpc::client::Client;
use rpc::table::{Align, TextTable};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Prints one table, once or at an interval.
pub fn run(args: &ShowArgs, view: View) -> Result<ExitCode, Complaint> {
    let filter = RowFilter {
        interface: args.interface.clone(),
        dst: args.session.map(|end| end.addr),
        dst_port: args.session.and_then(|end| u16::try_from(end.port).ok()).filter(|port| *port != 0),
        limit: args.limit,
    };
    let mut client = args.agent.connect()?;
    loop {
        let text = page(&mut client, args, view, &filter)?;
        let mut out = std::io::stdout().lock();
        if args.watch.is_some() && !args.json && out.is_terminal() {
            write!(out, "\x1b[H\x1b[2J")?;
        }
        write!(out, "{text}").and_then(|()| out.flush())?;
        let Some(every) = args.watch else { return Ok(ExitCode::SUCCESS) };
        std::thread::sleep(Duration::from_nanos(every.as_nanos().max(100_000_000)));
    }
}

fn page(client: &mut Client, args: &ShowArgs, view: View, filter: &RowFilter) -> Result<String, Complaint> {
    let shown = match client.call(Request::Show { view, filter: filter.clone() })? {
        Answer::Shown(shown) => shown,
        other => return Err(Complaint::world(format!("the agent answered {other:?} to a show call"))),
    };
    if args.json {
        // The rows are an enum; the list inside is what was asked for.
        let value = serde_json::to_value(&shown.rows).map_err(|e| Complaint::world(e.to_string()))?;
        let inner = value.as_object().and_then(|o| o.values().next()).unwrap_or(&value);
        let write = if args.watch.is_some() { serde_json::to_string } else { serde_json::to_string_pretty };
        return Ok(write(inner).map_err(|e| Complaint::world(e.to_string()))? + "\n");
    }
    let (table, what) = table(&shown);
    Ok(match (table.is_empty(), shown.more) {
        (true, _) => format!("no {what}\n"),
        (false, 0) => table.to_string(),
        (false, more) => format!("{table}and {more} more: narrow them by --session or --interface\n"),
    })
}

fn table(shown: &TableDoc) -> (TextTable, &'static str) {
    match &shown.rows {
        Rows::Interfaces(rows) => (interfaces(rows), "interfaces"),
        Rows::Neighbours(rows) => (neighbours(rows), "neighbours"),
        Rows::Sessions(rows) => (sessions(rows), "sessions"),
        Rows::Senders(rows) => (senders(rows), "senders"),
        Rows::Requests(rows) => (requests(rows), "requests"),
        Rows::Reservations(rows) => (reservations(rows), "reservations"),
        Rows::Installed(rows) => (installed(rows), "installed reservations"),
        Rows::Counters(rows) => (counters(rows), "messages"),
        Rows::Signalling(rows) => (signalling(rows), "messages"),
        // `sluice mace` prints these; no view of this command asks for them.
        Rows::Mace(_) => (TextTable::new(&[("flows", L)]), "flows"),
    }
}

const L: Align = Align::Left;
const R: Align = Align::Right;
/// The columns of a flow, with which each row about a flow begins.
const FLOW: [(&str, Align); 5] = [("To", L), ("From", L), ("Pro", R), ("DPort", R), ("Sport", R)];

fn about_flows(rest: &[(&'static str, Align)]) -> TextTable {
    TextTable::new(&[&FLOW[..], rest].concat())
}

fn flow(session: &SessionId, sender: &SenderId) -> [String; 5] {
    let protocol = match session.protocol {
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        other => other.to_string(),
    };
    // A wildcard names no sender.
    let from = if sender.src.is_unspecified() { "*".to_owned() } else { sender.src.to_string() };
    [session.dst.to_string(), from, protocol, session.dst_port.to_string(), sender.src_port.to_string()]
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn or_here<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "here".to_owned(), |value| value.to_string())
}

fn seconds(ms: Option<u64>) -> String {
    or_dash(ms.map(|ms| format!("{:.1}s", ms as f64 / 1000.0)))
}

/// `FF`, as IOS abbreviates filter styles.
fn style(style: Option<StyleDoc>) -> String {
    or_dash(style.map(|style| match style {
        StyleDoc::Ff => "FF",
        StyleDoc::Se => "SE",
        StyleDoc::Wf => "WF",
    }))
}

/// `LOAD` and `RATE`, as IOS abbreviates controlled load and guaranteed service, and the rate.
fn service(flowspec: &FlowSpecDoc) -> [String; 2] {
    match flowspec {
        FlowSpecDoc::ControlledLoad { tspec } => ["LOAD".to_owned(), rate(tspec.r_bps)],
        FlowSpecDoc::Guaranteed { rate_bps, .. } => ["RATE".to_owned(), rate(*rate_bps)],
    }
}

fn interfaces(rows: &[RsvpInterfaceRow]) -> TextTable {
    let mut table = TextTable::new(&[
        ("interface", L),
        ("state", L),
        ("address", L),
        ("allocated", R),
        ("i/f max", R),
        ("reservations", R),
        ("neighbors", R),
        ("auth", L),
        ("refresh", R),
        ("in", R),
        ("out", R),
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            if row.up { "up" } else { "down" }.to_owned(),
            row.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            rate(row.allocated_wire_bps),
            or_dash(row.reservable_wire_bps.map(rate)),
            row.reservations.to_string(),
            row.neighbours.to_string(),
            row.auth.clone(),
            seconds(Some(row.refresh_ms)),
            row.received.to_string(),
            row.sent.to_string(),
        ]);
    }
    table
}

fn neighbours(rows: &[NeighbourRow]) -> TextTable {
    let mut table = TextTable::new(&[
        ("interface", L),
        ("neighbor", L),
        ("senders", R),
        ("reservations", R),
        ("heard", R),
        ("in", R),
        ("out", R),
        ("refresh", L),
        ("hello", L),
        ("keys", L),
        ("", L),
    ]);
    for row in rows {
        table.row([
            row.interface.clone(),
            row.address.to_string(),
            row.paths.to_string(),
            row.reservations.to_string(),
            or_dash(row.heard_ms_ago.map(|ms| format!("{:.1}s ago", ms as f64 / 1000.0))),
            row.received.to_string(),
            row.sent.to_string(),
            or_dash(row.refresh_reduction.map(|reduced| if reduced { "reduced" } else { "in full" })),
            (if row.hello == HelloStateDoc::Unheard { "-" } else { row.hello.as_str() }).to_owned(),
            keys(&row.keys),
            if row.direct { "" } else { "behind a hop without RSVP" }.to_owned(),
        ]);
    }
    table
}

/// `1 hmac-sha-256`, of each.
fn keys(keys: &[NeighbourKeyDoc]) -> String {
    let one = |key: &NeighbourKeyDoc| format!("{} {}", key.id, key.algorithm.as_deref().unwrap_or("(gone)"));
    if keys.is_empty() { "-".to_owned() } else { keys.iter().map(one).collect::<Vec<_>>().join(", ") }
}

fn sessions(rows: &[SessionRow]) -> TextTable {
    let head = [("To", L), ("Pro", R), ("DPort", R), ("senders", R), ("reservations", R), ("receivers here", R)];
    let mut table = TextTable::new(&head);
    for row in rows {
        table.row([
            row.session.dst.to_string(),
            row.session.protocol.to_string(),
            row.session.dst_port.to_string(),
            row.senders.to_string(),
            row.reservations.to_string(),
            row.receivers.to_string(),
        ]);
    }
    table
}

fn senders(rows: &[SenderRow]) -> TextTable {
    let mut table =
        about_flows(&[("Prev Hop", L), ("I/F", L), ("out", L), ("BPS", R), ("burst", R), ("expires", R), ("", L)]);
    for row in rows {
        let rest = [
            or_here(row.phop),
            or_here(row.iif.clone()),
            or_here(row.oif.clone()),
            rate(row.tspec.r_bps),
            terms::Bytes::new(row.tspec.b_bytes).to_string(),
            seconds(row.expires_in_ms),
            if row.non_rsvp_hop { "a hop without RSVP before us" } else { "" }.to_owned(),
        ];
        table.row(flow(&row.session, &row.sender).into_iter().chain(rest));
    }
    table
}

fn requests(rows: &[RequestRow]) -> TextTable {
    let mut table = about_flows(&[("Prev Hop", L), ("I/F", L), ("Fi", L), ("Serv", L), ("BPS", R), ("refresh in", R)]);
    for row in rows {
        let [serv, bps] = service(&row.asked);
        let (hop, interface) = (or_here(row.phop), or_here(row.interface.clone()));
        let rest = [hop, interface, style(row.style), serv, bps, seconds(row.refresh_in_ms)];
        table.row(flow(&row.session, &row.sender).into_iter().chain(rest));
    }
    table
}

fn reservations(rows: &[ReservationRow]) -> TextTable {
    let mut table = about_flows(&[
        ("Next Hop", L),
        ("I/F", L),
        ("Fi", L),
        ("Serv", L),
        ("BPS", R),
        ("admitted (wire)", R),
        ("installed", L),
        ("measured", R),
        ("expires", R),
    ]);
    for row in rows {
        let [serv, bps] = service(&row.asked);
        let installed = row.installed.as_ref().map(|i| format!("{} {}", i.class, i.state));
        let measured = row.measured.as_ref().filter(|m| m.interval_ms > 0).map(|m| rate(m.bps as u64));
        let rest = [
            or_here(row.nhop),
            or_here(row.oif.clone()),
            style(row.style),
            serv,
            bps,
            or_dash(row.admitted_wire_bps.map(rate)),
            or_dash(installed),
            or_dash(measured),
            seconds(row.expires_in_ms),
        ];
        table.row(flow(&row.session, &row.sender).into_iter().chain(rest));
    }
    table
}

fn installed(rows: &[InstalledRow]) -> TextTable {
    let mut table = about_flows(&[
        ("I/F", L),
        ("Serv", L),
        ("BPS", R),
        ("wire", R),
        ("class", L),
        ("state", L),
        ("bucket", R),
        ("depth", R),
        ("packets", R),
        ("excess", R),
        ("adopted for", R),
    ]);
    for row in rows {
        let [serv, bps] = service(&row.asked);
        let rest = [
            row.interface.clone(),
            serv,
            bps,
            rate(row.admitted_wire_bps),
            format!("{}{}", row.class, if row.shared { " shared" } else { "" }),
            row.state.to_string(),
            or_dash(row.bucket_bps.map(rate)),
            or_dash(row.bucket_bytes.map(terms::Bytes::new)),
            row.packets.to_string(),
            row.excess_packets.to_string(),
            seconds(row.adopted_for_ms),
        ];
        table.row(flow(&row.session, &row.sender).into_iter().chain(rest));
    }
    table
}

fn counters(rows: &[CounterRow]) -> TextTable {
    let mut table = TextTable::new(&[("message", L), ("received", R), ("sent", R)]);
    for row in rows {
        table.row([row.name.clone(), row.received.to_string(), row.sent.to_string()]);
    }
    table
}

fn signalling(rows: &[SignallingRow]) -> TextTable {
    let mut table = TextTable::new(&[
        ("interface", L),
        ("message", L),
        ("in", R),
        ("in/s", R),
        ("peak/s", R),
        ("out", R),
        ("out/s", R),
        ("peak/s", R),
    ]);
    for row in rows {
        table.row([
            row.interface.clone(),
            row.message.clone(),
            row.received.to_string(),
            format!("{:.1}", row.received_per_s),
            row.received_peak_per_s.to_string(),
            row.sent.to_string(),
            format!("{:.1}", row.sent_per_s),
            row.sent_peak_per_s.to_string(),
        ]);
    }
    table
}
