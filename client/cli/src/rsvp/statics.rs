//! `sluice rsvp static ...`: senders and reservations on behalf of hosts that do not signal.

use super::args::{
    ServiceName, StaticCommand, StaticList, StaticRemove, StaticReservation, StaticReservationArgs, StaticSender,
};
use super::receive::check_ask;
use super::{service, session_id, static_sender, tspec};
use crate::complain::Complaint;
use crate::flows::{end, flow, wanted};
use crate::places::AgentArgs;
use crate::rates::rate;
use documents::agent::{Answer, Request, StaticDoc, StaticRow, StyleDoc};
use documents::show::{PAGE, Skip};
use documents::statics::StaticState;
use rpc::table::{Align, TextTable};
use std::process::ExitCode;

/// Runs one of them.
pub fn run(command: &StaticCommand) -> Result<ExitCode, Complaint> {
    let senders = |row: &StaticRow| matches!(row.what, StaticDoc::Sender { .. });
    match command {
        StaticCommand::Sender { command: StaticSender::Add(args) } => add(&args.agent, static_sender(args)?),
        StaticCommand::Reservation { command: StaticReservation::Add(args) } => add(&args.agent, reservation(args)?),
        StaticCommand::Sender { command: StaticSender::Remove(args) } => remove(args, senders, "sender"),
        StaticCommand::Reservation { command: StaticReservation::Remove(args) } => {
            remove(args, |row| !senders(row), "reservation")
        }
        StaticCommand::Sender { command: StaticSender::List(args) } => list(args, senders),
        StaticCommand::Reservation { command: StaticReservation::List(args) } => list(args, |row| !senders(row)),
        StaticCommand::List(args) => list(args, |_| true),
    }
}

fn reservation(args: &StaticReservationArgs) -> Result<StaticDoc, Complaint> {
    let ask = &args.ask;
    check_ask(ask)?;
    if ask.style != StyleDoc::Wf && ask.filters.is_empty() {
        return Err(Complaint::usage("name the senders by --filter, or write --style wf for all that appear"));
    }
    let guaranteed = (ask.service == ServiceName::Guaranteed).then(|| ask.service_rate.unwrap_or(args.reserve));
    let flowspec = service(tspec(args.reserve, &args.traffic)?, guaranteed);
    let flowspecs = vec![flowspec; if ask.style == StyleDoc::Ff { ask.filters.len() } else { 1 }];
    Ok(StaticDoc::Reservation {
        session: session_id(&ask.session, ask.protocol),
        style: ask.style,
        senders: ask.filters.iter().map(|&end| end.into()).collect(),
        flowspecs,
    })
}

fn add(agent: &AgentArgs, what: StaticDoc) -> Result<ExitCode, Complaint> {
    let rows = rows(agent, Request::AddStatic { what })?;
    print!("{}", table(&rows));
    Ok(match rows.first() {
        Some(row) if row.state == StaticState::Refused => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

fn remove(args: &StaticRemove, is_one: impl Fn(&StaticRow) -> bool, what: &str) -> Result<ExitCode, Complaint> {
    let number = args.number;
    let known = all(&args.agent)?;
    if !known.iter().any(|row| row.number == number && is_one(row)) {
        return Err(Complaint::refused(format!("there is no static {what} number {number}")));
    }
    rows(&args.agent, Request::RemoveStatic { number })?;
    Ok(ExitCode::SUCCESS)
}

fn list(args: &StaticList, which: impl Fn(&StaticRow) -> bool) -> Result<ExitCode, Complaint> {
    let mut rows = all(&args.agent)?;
    rows.retain(which);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows).map_err(|e| Complaint::world(e.to_string()))?);
    } else if rows.is_empty() {
        println!("none");
    } else {
        print!("{}", table(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// All of them, page by page.
fn all(agent: &AgentArgs) -> Result<Vec<StaticRow>, Complaint> {
    let mut all = Vec::new();
    loop {
        let page = rows(agent, Request::Statics(Skip { skip: all.len() as u64 }))?;
        let last = page.len() < PAGE;
        all.extend(page);
        if last {
            return Ok(all);
        }
    }
}

fn rows(agent: &AgentArgs, request: Request) -> Result<Vec<StaticRow>, Complaint> {
    match agent.connect()?.call(request)? {
        Answer::Statics(rows) => Ok(rows),
        other => Err(Complaint::world(format!("the agent answered {other:?} to a static call"))),
    }
}

fn table(rows: &[StaticRow]) -> TextTable {
    let mut table = TextTable::new(&[
        ("number", Align::Right),
        ("kind", Align::Left),
        ("flow", Align::Left),
        ("how much", Align::Left),
        ("state", Align::Left),
        ("set up by", Align::Left),
        ("", Align::Left),
    ]);
    for row in rows {
        let (kind, who, how_much) = match &row.what {
            StaticDoc::Sender { session, sender, tspec, .. } => {
                let how_much = format!("{} burst {}", rate(tspec.r_bps), terms::Bytes::new(tspec.b_bytes));
                ("sender", flow(session, sender), how_much)
            }
            StaticDoc::Reservation { session, style, senders, flowspecs } => {
                let to = end(session.dst, session.dst_port.into());
                let from: Vec<String> = senders.iter().map(|s| end(s.src, s.src_port)).collect();
                let from = if from.is_empty() { "any".to_owned() } else { from.join(", ") };
                let how_much = flowspecs.first().map(wanted).unwrap_or_default();
                ("reservation", format!("{from} -> {to}"), format!("{style:?} {how_much}"))
            }
        };
        table.row([
            row.number.to_string(),
            kind.to_owned(),
            who,
            how_much,
            row.state.to_string(),
            if row.from_file { "configuration" } else { "operator" }.to_owned(),
            row.said.clone().unwrap_or_default(),
        ]);
    }
    table
}
