//! The commands of the book: reserve, enquire, modify, bind, commit, cancel, list, calendar, audit.

pub mod args;
mod ask;
pub mod audit;
pub mod calendar;
pub mod show;
pub mod times;

use crate::complain::Complaint;
use api::agent::{Answer, BookAnswer, Request};
use api::book::{AmountDoc, BookFilter, ChangeDoc, Instant, ReservationDoc, WindowDoc};
use api::client::Client;
use args::{BindArgs, EnquireArgs, HandleArgs, ListArgs, ModifyArgs, ReserveArgs};
use std::process::ExitCode;
use terms::Time;
use terms::book::Kind;
use times::Calendar;

const STATES: [&str; 7] = ["held", "booked", "active", "suspended", "ended", "cancelled", "expired"];

fn here(zone: Option<&str>) -> Result<Calendar, Complaint> {
    Calendar::here(zone).map_err(Complaint::usage)
}

fn unexpected(other: &impl std::fmt::Debug) -> Complaint {
    Complaint::world(format!("the agent answered {other:?}"))
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Complaint> {
    println!("{}", serde_json::to_string(value).map_err(|error| Complaint::world(error.to_string()))?);
    Ok(())
}

/// One call whose answer is a reservation.
fn call(
    client: &mut Client,
    request: Request,
    resources: &[String],
    calendar: &Calendar,
    json: bool,
) -> Result<ReservationDoc, Complaint> {
    match client.call(request) {
        Ok(Answer::Book(BookAnswer::Reservation(doc))) => Ok(doc),
        Ok(other) => Err(unexpected(&other)),
        Err(error) => Err(show::complaint(error, resources, calendar, json)),
    }
}

fn print(doc: &ReservationDoc, calendar: &Calendar, json: bool) -> Result<(), Complaint> {
    if json {
        return print_json(doc);
    }
    print!("{}", show::reservation(doc, calendar));
    Ok(())
}

/// `sluice reserve`.
pub fn reserve(args: &ReserveArgs) -> Result<ExitCode, Complaint> {
    let want = &args.want;
    let calendar = here(want.zone.as_deref())?;
    let mut ask = ask::asked(want, &calendar)?;
    if let Some(binding) = ask::whose(&args.whose) {
        ask::bind(&mut ask, binding)?;
    }
    ask.hold_s = args.hold.map(|span| span.as_nanos() as f64 / 1e9);
    (ask.key, ask.group) = (args.key.clone(), args.group.clone());
    let resources: Vec<String> = ask.parts.iter().map(|part| part.resource.clone()).collect();
    let mut client = want.agent.connect()?;
    let doc = call(&mut client, Request::BookCreate(ask), &resources, &calendar, want.json)?;
    print(&doc, &calendar, want.json)?;
    Ok(ExitCode::SUCCESS)
}

/// `sluice enquire`: exit status 1 if it would be refused.
pub fn enquire(args: &EnquireArgs) -> Result<ExitCode, Complaint> {
    let want = &args.want;
    let calendar = here(want.zone.as_deref())?;
    let ask = ask::asked(want, &calendar)?;
    let resources: Vec<String> = ask.parts.iter().map(|part| part.resource.clone()).collect();
    let doc = match want.agent.connect()?.call(Request::BookEnquire(ask)) {
        Ok(Answer::Book(BookAnswer::Enquired(doc))) => doc,
        Ok(other) => return Err(unexpected(&other)),
        Err(error) => return Err(show::complaint(error, &resources, &calendar, want.json)),
    };
    if want.json {
        print_json(&doc)?;
    } else {
        print!("{}", show::enquired(&doc, &resources, &calendar));
    }
    Ok(if doc.accepted { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// `sluice modify`.
pub fn modify(args: &ModifyArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(args.zone.as_deref())?;
    let mut client = args.agent.connect()?;
    let found = Request::BookShow { handle: Some(args.handle.clone()), filter: BookFilter::default() };
    let found = call(&mut client, found, &[], &calendar, args.json)?;
    let mut change = ChangeDoc { label: args.label.clone(), ..ChangeDoc::default() };
    if let Some(text) = &args.amount {
        let part = found.parts.get(args.part).ok_or_else(|| {
            Complaint::usage(format!("{} has no part {}: it has {}", args.handle, args.part, found.parts.len()))
        })?;
        let kind = Kind::of(&part.resource);
        let amount = ask::amount_of(kind, text).map_err(Complaint::usage)?;
        let mut doc = AmountDoc { part: args.part, ..AmountDoc::default() };
        match kind {
            Kind::Network => doc.rate = Some(amount as u64),
            Kind::Disk => doc.bytes_per_s = Some(amount as u64),
            Kind::Cpu => doc.cores = Some(amount),
            Kind::Countable => doc.count = Some(amount as u64),
        }
        change.amounts.push(doc);
    }
    let time = |text: &Option<String>| -> Result<Option<Instant>, Complaint> {
        match text.as_deref() {
            None => Ok(None),
            Some("forever") => Ok(Some(Instant(Time::FOREVER))),
            Some(text) => calendar.time(text).map(Some).map_err(Complaint::usage),
        }
    };
    (change.start, change.end) = (time(&args.start)?, time(&args.end)?);
    if change == ChangeDoc::default() {
        return Err(Complaint::usage("what is to change? give --amount, --start, --end or --label"));
    }
    let resources: Vec<String> = found.parts.iter().map(|part| part.resource.clone()).collect();
    let request = Request::BookModify { handle: args.handle.clone(), change };
    let doc = call(&mut client, request, &resources, &calendar, args.json)?;
    print(&doc, &calendar, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// `sluice bind`.
pub fn bind(args: &BindArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(None)?;
    let binding = ask::whose(&args.whose);
    if binding.is_none() && !args.nobody {
        return Err(Complaint::usage("for whom? give --to and --source, --pid, --tid, --cgroup, or --nobody"));
    }
    let request = Request::BookBind { handle: args.handle.clone(), part: args.part, binding };
    let doc = call(&mut args.agent.connect()?, request, &[], &calendar, args.json)?;
    print(&doc, &calendar, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// `sluice cancel`.
pub fn cancel(args: &HandleArgs) -> Result<ExitCode, Complaint> {
    each(args, |handle| Request::BookCancel { handle })
}

/// `sluice commit`.
pub fn commit(args: &HandleArgs) -> Result<ExitCode, Complaint> {
    each(args, |handle| Request::BookCommit { handle })
}

fn each(args: &HandleArgs, request: impl Fn(String) -> Request) -> Result<ExitCode, Complaint> {
    let calendar = here(None)?;
    let mut client = args.agent.connect()?;
    for handle in &args.handles {
        let doc = call(&mut client, request(handle.clone()), &[], &calendar, args.json)?;
        if args.json {
            print_json(&doc)?;
        } else {
            println!("{}  {}", doc.handle, doc.state);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `sluice list`.
pub fn list(args: &ListArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(None)?;
    let mut client = args.agent.connect()?;
    if let Some(handle) = &args.handle {
        return one(&mut client, handle, &calendar, args.json);
    }
    let mut filter = BookFilter {
        owner: args.owner.clone(),
        group: args.group.clone(),
        label: args.label.clone(),
        resource: args.resource.clone(),
        states: args.states.clone(),
        ..BookFilter::default()
    };
    if args.all {
        filter.states = STATES.map(str::to_owned).to_vec();
    }
    if let Some(text) = &args.window {
        let window = calendar.window(text).map_err(Complaint::usage)?;
        let (start, end) =
            (window.start.unwrap_or_else(|| calendar.now()), window.end.unwrap_or(Instant(Time::FOREVER)));
        filter.window = Some(WindowDoc { start, end });
    }
    let rows = matching(&mut client, filter)?;
    if args.json {
        print_json(&rows)?;
    } else if rows.is_empty() {
        println!("no reservations");
    } else {
        print!("{}", show::table(&rows, &calendar));
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything that matches, page by page.
pub fn matching(client: &mut Client, mut filter: BookFilter) -> Result<Vec<ReservationDoc>, Complaint> {
    let mut rows: Vec<ReservationDoc> = Vec::new();
    loop {
        match client.call(Request::BookShow { handle: None, filter: filter.clone() })? {
            Answer::Book(BookAnswer::Reservations { rows: page, more }) => {
                rows.extend(page);
                match rows.last() {
                    Some(last) if more => filter.after = Some(last.handle.clone()),
                    _ => return Ok(rows),
                }
            }
            other => return Err(unexpected(&other)),
        }
    }
}

/// One reservation with its history.
fn one(client: &mut Client, handle: &str, calendar: &Calendar, json: bool) -> Result<ExitCode, Complaint> {
    let request = Request::BookShow { handle: Some(handle.to_owned()), filter: BookFilter::default() };
    let doc = call(client, request, &[], calendar, json)?;
    let events = match client.call(Request::BookHistory { handle: handle.to_owned() })? {
        Answer::Book(BookAnswer::Events(events)) => events.events,
        other => return Err(unexpected(&other)),
    };
    if json {
        print_json(&serde_json::json!({ "reservation": doc, "history": events }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", show::reservation(&doc, calendar));
    for event in &events {
        println!("  {}  {}", calendar.show(event.at), show::event(event));
    }
    Ok(ExitCode::SUCCESS)
}
