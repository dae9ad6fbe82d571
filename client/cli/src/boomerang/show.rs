//! `sluice boomerang sessions`.

use super::args::SessionsArgs;
use crate::complain::Complaint;
use documents::agent::{Answer, BoomerangDoc, Request};
use documents::boomerang::{BlockKeeper, RatesDoc};
use rpc::table::{Align, TextTable};
use std::process::ExitCode;
use std::time::Duration;
use terms::Rate;

/// Asks twice, so that the measurement covers a known time, and prints.
pub fn run(args: &SessionsArgs) -> Result<ExitCode, Complaint> {
    let mut client = args.agent.connect()?;
    let mut doc = fetch(&mut client, args.most)?;
    if !doc.blocks.is_empty() && args.over.as_nanos() > 0 {
        std::thread::sleep(Duration::from_nanos(args.over.as_nanos()));
        doc = fetch(&mut client, args.most)?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&doc).map_err(|e| Complaint::world(e.to_string()))?);
        return Ok(ExitCode::SUCCESS);
    }
    if doc.sessions.is_empty() && doc.blocks.is_empty() {
        println!("no sessions");
    }
    if !doc.sessions.is_empty() {
        print!("{}", crate::screen::shown(sessions(&doc), &[]));
    }
    if !doc.blocks.is_empty() {
        if !doc.sessions.is_empty() {
            println!();
        }
        print!("{}", crate::screen::shown(blocks(&doc), &[]));
    }
    for (what, all, shown) in
        [("sessions", doc.all_sessions, doc.sessions.len()), ("session blocks", doc.all_blocks, doc.blocks.len())]
    {
        let more = all.saturating_sub(shown as u64);
        if more > 0 {
            println!("and {more} more {what}: --most says how many are shown");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The first `most` rows of either list, page by page.
fn fetch(client: &mut rpc::client::Client, most: usize) -> Result<BoomerangDoc, Complaint> {
    let mut page = |skip: usize| match client.call(Request::BoomerangSessions { skip: skip as u64 })? {
        Answer::Boomerang(doc) => Ok(doc),
        other => Err(Complaint::world(format!("the agent answered {other:?} to a call for sessions"))),
    };
    let mut all = page(0)?;
    let mut skip = BoomerangDoc::PAGE;
    while skip < most {
        let next = page(skip)?;
        if next.sessions.is_empty() && next.blocks.is_empty() {
            break;
        }
        all.sessions.extend(next.sessions);
        all.blocks.extend(next.blocks);
        skip += BoomerangDoc::PAGE;
    }
    all.sessions.truncate(most);
    all.blocks.truncate(most);
    Ok(all)
}

fn pair(rates: &RatesDoc) -> String {
    let rate = |bps: u32| Rate::from_bps(bps.into());
    format!("{}/{}", rate(rates.forward_bps), rate(rates.reverse_bps))
}

/// The sessions that this node refreshes.
fn sessions(doc: &BoomerangDoc) -> TextTable {
    let mut table = TextTable::new(&[
        ("session", Align::Right),
        ("flow", Align::Left),
        ("far end", Align::Left),
        ("state", Align::Left),
        ("asked", Align::Right),
        ("granted", Align::Right),
        ("refresh", Align::Right),
        ("hops", Align::Right),
    ]);
    for session in &doc.sessions {
        let hops = session.hops_forward.zip(session.hops_reverse).map(|(out, back)| format!("{out}/{back}"));
        table.row([
            session.number.to_string(),
            session.flow.clone(),
            session.far_end.to_string(),
            session.state.to_string(),
            session.asked.first().map(pair).unwrap_or_default(),
            session.granted.as_ref().map_or_else(|| "-".to_owned(), pair),
            format!("{}s", session.refresh_s),
            hops.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

/// The reservations that it holds.
fn blocks(doc: &BoomerangDoc) -> TextTable {
    let mut table = TextTable::new(&[
        ("flow", Align::Left),
        ("interface", Align::Left),
        ("asked", Align::Right),
        ("admitted (wire)", Align::Right),
        ("installed", Align::Left),
        ("measured", Align::Right),
        ("by", Align::Left),
        ("left", Align::Right),
    ]);
    let none = || "-".to_owned();
    for block in &doc.blocks {
        // Of prefixes the flow says it itself.
        let mask = if block.mask.is_some() && block.flow.matches('/').count() < 2 { " (masked)" } else { "" };
        let installed = block.installed.as_ref().map_or_else(none, |i| format!("{} {}", i.state, i.class));
        let installed = if block.locked { format!("{installed}, locked") } else { installed };
        let measured = block.measured.as_ref().map(|m| Rate::from_bps((m.bps / 1_000.0).round() as u64 * 1_000));
        table.row([
            format!("{}{mask}", block.flow),
            block.oif.clone(),
            Rate::from_bps(block.asked_bps).to_string(),
            block.admitted_wire_bps.map_or_else(none, crate::rates::rate),
            installed,
            measured.map_or_else(none, |rate| rate.to_string()),
            if block.by == BlockKeeper::Kernel { "kernel".to_owned() } else { block.initiator.to_string() },
            block.expires_in_ms.map_or_else(none, |ms| format!("{}.{}s", ms / 1_000, ms / 100 % 10)),
        ]);
    }
    table
}
