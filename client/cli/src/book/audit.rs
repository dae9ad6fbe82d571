//! `sluice audit`: the decisions about bookings, page by page; the agent proves each against the one before.

use super::args::AuditArgs;
use super::booking_client::BookingError;
use super::show::amount;
use super::{here, print_json, unexpected};
use crate::book::times::Calendar;
use crate::complain::Complaint;
use crate::rates::rate;
use documents::agent::{Answer, AuditPage, Request};
use documents::book::{AskedDoc, AskedPartDoc, AuditAsk, AuditRow, Instant};
use rpc::client::Client;
use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Duration;

/// The default number of entries.
const USUAL: usize = 50;
/// The interval between queries for new decisions.
const FOLLOW: Duration = Duration::from_millis(500);

/// `sluice audit`.
pub fn run(args: &AuditArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(args.zone.as_deref())?;
    if let Some(broker) = &args.broker {
        return accepted(args, broker, &calendar);
    }
    let since = args.since.as_deref().map(|text| past(&calendar, text)).transpose()?;
    let mut client = args.agent.connect()?;
    let asks_nothing = since.is_none() && args.handle.is_none() && args.who.is_none();
    let last = args.last.or(asks_nothing.then_some(USUAL));
    let from = match (since, last) {
        (Some(since), _) => first_since(&mut client, since)?,
        // Without a question every entry matches: only the last are read.
        (None, Some(last)) if args.handle.is_none() && args.who.is_none() => {
            (page(&mut client, AuditAsk { limit: Some(0), ..AuditAsk::default() })?.last + 1)
                .saturating_sub(last as u64)
        }
        _ => 1,
    };
    let mut kept = VecDeque::new();
    let mut ask = AuditAsk { from: Some(from), handle: args.handle.clone(), who: args.who.clone(), limit: None };
    loop {
        let found = page(&mut client, ask.clone())?;
        let new = found.entries.into_iter().filter(|row| since.is_none_or(|since| row.at >= since));
        match last {
            None => new.into_iter().try_for_each(|row| print(&row, &calendar, args.json))?,
            Some(last) => {
                kept.extend(new);
                kept.drain(..kept.len().saturating_sub(last));
            }
        }
        let done = found.next > found.last;
        ask.from = Some(found.next);
        if done {
            break;
        }
    }
    kept.iter().try_for_each(|row| print(row, &calendar, args.json))?;
    if !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let found = page(&mut client, ask.clone())?;
        found.entries.iter().try_for_each(|row| print(row, &calendar, args.json))?;
        ask.from = Some(found.next);
        if found.next > found.last {
            std::thread::sleep(FOLLOW);
        }
    }
}

/// Shows the acceptances of the domains on the way of reservations, as a broker keeps them.
fn accepted(args: &AuditArgs, broker: &str, calendar: &Calendar) -> Result<ExitCode, Complaint> {
    let client = args.agent.papers.broker(broker)?;
    let found = client.acceptances(args.handle.as_deref(), args.who.as_deref());
    let found = found.map_err(|error| BookingError::from(error).complaint(&[], calendar, args.json))?.acceptances;
    let first = args.last.map_or(0, |last| found.len().saturating_sub(last));
    for row in &found[first..] {
        if args.json {
            print_json(row)?;
            continue;
        }
        let said = &row.accepted;
        let of = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        let rates = format!("{} {}", rate(said.forward), rate(said.reverse));
        let over = if row.over { "  given back" } else { "" };
        println!(
            "{}  {:<12} {:<8} from {} to {}  {rates}  {}{over}",
            calendar.show(row.at),
            row.owner,
            said.domain,
            of(&said.entry),
            of(&said.exit),
            row.reservation,
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A time in the past: a time of day alone is its last occurrence here, and its next elsewhere.
fn past(calendar: &Calendar, text: &str) -> Result<Instant, Complaint> {
    let at = calendar.last(text).map_err(Complaint::usage)?;
    if at > calendar.now() {
        return Err(Complaint::usage(format!("{text:?} is ahead: nothing was decided since then")));
    }
    Ok(at)
}

/// The number of the first entry that is not older, by halves: entries are in the order in which they were made. (A clock
/// that was set back makes some of them look older than those before; these are then left out or in with their neighbours.)
fn first_since(client: &mut Client, since: Instant) -> Result<u64, Complaint> {
    let (mut low, mut high) = (1, page(client, AuditAsk { limit: Some(0), ..AuditAsk::default() })?.last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = page(client, AuditAsk { from: Some(middle), limit: Some(1), ..AuditAsk::default() })?;
        match found.entries.first() {
            Some(row) if row.at < since => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

fn page(client: &mut Client, ask: AuditAsk) -> Result<AuditPage, Complaint> {
    match client.call(Request::BookAudit(ask))? {
        Answer::Audit(page) => Ok(page),
        other => Err(unexpected(&other)),
    }
}

fn print(row: &AuditRow, calendar: &Calendar, json: bool) -> Result<(), Complaint> {
    if json {
        return print_json(row);
    }
    let rules = match row.rules.as_slice() {
        [] => String::new(),
        rules => format!("  by {}", rules.iter().map(|rule| named(rule)).collect::<Vec<_>>().join(", ")),
    };
    let handle = row.handle.as_deref().unwrap_or("-");
    let AuditRow { number, who, verb, outcome, .. } = row;
    let asked = row.asked.as_ref().map_or_else(String::new, |doc| format!("  {}", asked(doc, calendar)));
    println!("{number:>7}  {}  {who:<12} {verb:<7} {outcome:<10} {handle}{asked}{rules}", calendar.dated(row.at));
    Ok(())
}

/// The request: `net/eth1 3.00mbit, cpu 0.5 cores from Mon 2026-11-30 09:00 until 10:00`.
fn asked(doc: &AskedDoc, calendar: &Calendar) -> String {
    let part = |part: &AskedPartDoc| {
        let of = |value| amount(&part.unit, value);
        let most = part.amount.map_or_else(|| "all that is free".to_owned(), of);
        match part.least {
            Some(least) => format!("{} {} to {most}", part.resource, of(least)),
            None => format!("{} {most}", part.resource),
        }
    };
    let parts: Vec<String> = doc.parts.iter().map(part).collect();
    let volume = doc.volume.map_or_else(String::new, |bytes| format!(", {:.2} GB", bytes as f64 / 1e9));
    let length = doc.seconds.map_or_else(String::new, |seconds| format!(" for {seconds} s"));
    let windows = doc.windows.map_or_else(String::new, |windows| format!(", {windows} windows"));
    let end = doc.end.map_or_else(|| "for ever".to_owned(), |end| format!("until {}", calendar.show(end)));
    format!("{}{volume}{length} from {} {end}{windows}", parts.join(", "), calendar.show(doc.start))
}

/// The name of a deciding rule; a request without a matching rule is denied.
fn named(rule: &str) -> &str {
    if rule.is_empty() { "no rule" } else { rule }
}
