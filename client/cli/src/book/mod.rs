//! The commands about bookings: reserve, enquire, modify, bind, commit, cancel, wait, resolve, list, calendar, audit.

pub mod args;
mod ask;
pub mod audit;
pub mod booking_client;
pub mod calendar;
pub mod cancel;
pub mod in_force;
pub mod kept;
pub mod may;
mod recurrence;
pub mod show;
mod take;
pub mod times;
pub mod wait;
pub mod which;

use crate::complain::Complaint;
use crate::screen::shown;
use args::{
    BindArgs, EnquireArgs, HandleArgs, ListArgs, ModifyArgs, PacketArgs, ReserveArgs, ResolveArgs, WantArgs, WhoseArgs,
};
use booking_client::{BookingClient, BookingError, BookingOrder, Changed, EnquiryReply, Told};
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{
    AlternativeDoc, AmountDoc, BindingDoc, BookFilter, Instant as At, RefusalDoc, ReservationDoc, WindowDoc,
};
use documents::units;
use kept::ListedReservation;
use rpc::client::Client;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terms::book::ResourceKind;
use terms::{Span, Time};
use times::Calendar;
use which::WhichArgs;

/// The interval between attempts of `--wait`.
const BETWEEN: Duration = Duration::from_secs(1);

const STATES: [&str; 8] = ["held", "promised", "booked", "active", "suspended", "ended", "cancelled", "expired"];

fn here(zone: Option<&str>) -> Result<Calendar, Complaint> {
    Calendar::here(zone).map_err(Complaint::usage)
}

fn unexpected(other: &impl std::fmt::Debug) -> Complaint {
    Complaint::world(format!("the agent answered {other:?}"))
}

pub fn print_json(value: &impl serde::Serialize) -> Result<(), Complaint> {
    println!("{}", serde_json::to_string(value).map_err(|error| Complaint::world(error.to_string()))?);
    Ok(())
}

fn print(
    kept: Told<ListedReservation>,
    resources: &[String],
    calendar: &Calendar,
    json: bool,
) -> Result<ExitCode, Complaint> {
    let kept = kept.map_err(|failed| failed.complaint(resources, calendar, json))?;
    if json {
        print_json(&kept)?;
    } else {
        print!("{}", kept.text(calendar));
    }
    Ok(ExitCode::SUCCESS)
}

/// The packets, with an address of `--from` as their source if `--source` is missing.
fn from_as_source(want: &WantArgs, packets: PacketArgs) -> PacketArgs {
    let source = packets.source.or_else(|| want.from.iter().find_map(|text| args::end(text).ok()));
    PacketArgs { source, ..packets }
}

/// `sluice reserve`.
pub fn reserve(args: &ReserveArgs) -> Result<ExitCode, Complaint> {
    let (want, whose) = (&args.want, &args.whose);
    let calendar = here(want.zone.as_deref())?;
    if want.duration.is_none() && want.window.is_none() && want.volume.is_none() {
        return Err(Complaint::usage("for how long? --for 1h, a window (-w 14:00..15:30), or --for ever"));
    }
    let mut asked = ask::asked(want, &whose.packets, &calendar)?;
    match &mut asked.path {
        Some(path) if path.forward.is_none() && path.reverse.is_none() && want.volume.is_none() => {
            return Err(Complaint::usage("how much? --forward 3mbit, --reverse 1mbit, or --volume 200gb --by WHEN"));
        }
        Some(path) => path.tree = args.tree,
        None if args.tree => return Err(Complaint::usage("--tree is for a reservation between two hosts")),
        None => {}
    }
    let processes = WhoseArgs { packets: PacketArgs::default(), ..whose.clone() };
    // Between two hosts the addresses are of the path.
    let packets = if asked.path.is_some() { PacketArgs::default() } else { from_as_source(want, whose.packets) };
    if let Some(binding) = ask::whose(&WhoseArgs { packets, ..processes }) {
        ask::bind(&mut asked.ask, binding)?;
    }
    asked.ask.hold_s = args.hold.map(|span| span.as_nanos() as f64 / 1e9);
    asked.ask.notify_s = args.notify.map(|span| span.as_nanos() as f64 / 1e9);
    (asked.ask.key, asked.ask.group) = (args.key.clone(), args.group.clone());
    let resources = asked.resources();
    let mut desk = BookingClient::open(&want.book, asked.path.is_some())?;
    if args.mail.is_some() && matches!(desk, BookingClient::Agent(_)) {
        return Err(Complaint::usage("--mail: brokers send mail, agents do not: name one with --broker"));
    }
    let single = asked.ask.when.windows.is_empty() && asked.ask.when.volume.is_none();
    let path = asked.path.is_some();
    let typed = take::typed();
    let command = |offered: &AlternativeDoc| match single {
        true => take::command(&typed, offered, path, &calendar),
        false => None,
    };
    match patient(&mut desk, asked, args.wait, &resources, &calendar) {
        Err(BookingError::Said(problem)) => {
            Err(show::complaint_with(problem, &resources, &calendar, want.json, &command))
        }
        told => {
            let mailed = match (&told, &args.mail) {
                (Ok(made), Some(address)) => desk.mail(made.handle(), address),
                _ => Ok(()),
            };
            let status = print(told, &resources, &calendar, want.json);
            mailed.map_err(|why| Complaint::refused(format!("it is reserved, but no mail will come: {why}")))?;
            status
        }
    }
}

/// Asks until there is room, or for so long.
fn patient(
    desk: &mut BookingClient,
    asked: BookingOrder,
    wait: Option<Span>,
    resources: &[String],
    calendar: &Calendar,
) -> Told<ListedReservation> {
    let until = wait.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    let mut is_told = false;
    loop {
        let problem = match desk.create(asked.clone()) {
            Err(BookingError::Said(problem)) => problem,
            told => return told,
        };
        let Some(refusal) = problem.refusal.as_ref().filter(|refusal| refusal.reason == "no_room") else {
            return Err(BookingError::Said(problem));
        };
        match until {
            Some(until) if Instant::now() < until => {
                if !is_told {
                    let said = show::refused(
                        &RefusalDoc { alternatives: Vec::new(), ..(**refusal).clone() },
                        resources,
                        calendar,
                    );
                    eprintln!("sluice: waiting: {}", said.trim_end());
                    is_told = true;
                }
                std::thread::sleep(BETWEEN.min(until.saturating_duration_since(Instant::now())));
            }
            _ => return Err(BookingError::Said(problem)),
        }
    }
}

/// `sluice enquire`: exit status 1 if it would be refused.
pub fn enquire(args: &EnquireArgs) -> Result<ExitCode, Complaint> {
    let want = &args.want;
    let calendar = here(want.zone.as_deref())?;
    let asked = ask::asked(want, &args.packets, &calendar)?;
    let resources = asked.resources();
    let mut desk = BookingClient::open(&want.book, asked.path.is_some())?;
    let said = desk.enquire(asked).map_err(|failed| failed.complaint(&resources, &calendar, want.json))?;
    let (accepted, text) = match &said {
        EnquiryReply::Agent(doc) => (doc.accepted, show::enquired(doc, &resources, &calendar)),
        EnquiryReply::Broker(doc) => (doc.accepted, show::enquired_of(doc, &calendar)),
    };
    match (&said, want.json) {
        (_, false) => print!("{text}"),
        (EnquiryReply::Agent(doc), true) => print_json(doc)?,
        (EnquiryReply::Broker(doc), true) => print_json(&booking_client::NamedReply::all(doc))?,
    }
    Ok(if accepted { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// `sluice modify`.
pub fn modify(args: &ModifyArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(args.zone.as_deref())?;
    let mut desk = BookingClient::open(&args.book, args.forward.is_some() || args.reverse.is_some())?;
    let complain = |failed: BookingError| failed.complaint(&[], &calendar, args.json);
    let handle = args.which.handle(&mut desk).map_err(complain)?;
    let found = desk.show(&handle).map_err(complain)?;
    let mut changed = Changed::default();
    changed.doc.label.clone_from(&args.label);
    let resources: Vec<String> = found.doc().parts.into_iter().map(|part| part.resource).collect();
    if let Some(text) = &args.amount {
        if found.is_of_path(args.part) {
            let what =
                "this reservation is between two hosts: change it everywhere on the way, with --forward or --reverse";
            return Err(Complaint::usage(what));
        }
        changed.doc.amounts.push(new_amount(&resources, args.part, text)?);
    }
    let rate = |text: &Option<String>| {
        text.as_ref()
            .map(|text| units::parse_rate(text).map(|rate| rate.as_bps()))
            .transpose()
            .map_err(Complaint::usage)
    };
    changed.rates = (rate(&args.forward)?, rate(&args.reverse)?);
    let time = |text: &Option<String>| -> Result<Option<At>, Complaint> {
        match text.as_deref() {
            None => Ok(None),
            Some("forever") => Ok(Some(At(Time::FOREVER))),
            Some(text) => calendar.time(text).map(Some).map_err(Complaint::usage),
        }
    };
    // `--end +1h` is an hour more than there is.
    let ends = found.doc().parts.iter().flat_map(|part| &part.steps).map(|step| step.end).collect::<Option<Vec<_>>>();
    let longer = match (args.end.as_deref().and_then(|text| text.trim().strip_prefix('+')), ends) {
        (Some(_), None) => return Err(Complaint::usage("it has no end that could be later")),
        (Some(span), Some(ends)) => {
            let span = units::parse_span(span).map_err(Complaint::usage)?;
            ends.into_iter().max().map(|end| At(end.0.saturating_add(span)))
        }
        (None, _) => None,
    };
    changed.doc.start = time(&args.start)?;
    changed.doc.end = if longer.is_some() { longer } else { time(&args.end)? };
    if changed == Changed::default() {
        return Err(Complaint::usage(
            "what is to change? give --amount, --forward, --reverse, --start, --end or --label",
        ));
    }
    print(desk.modify(&handle, changed), &resources, &calendar, args.json)
}

/// A new amount of a part.
fn new_amount(resources: &[String], part: usize, text: &str) -> Result<AmountDoc, Complaint> {
    let resource = resources
        .get(part)
        .ok_or_else(|| Complaint::usage(format!("it has no part {part}: it has {}", resources.len())))?;
    let kind = show::kind_of(resource);
    let amount = ask::amount_of(kind, text).map_err(Complaint::usage)?;
    let mut doc = AmountDoc { part, ..AmountDoc::default() };
    match kind {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => doc.rate = Some(amount as u64),
        ResourceKind::Disk => doc.bytes_per_s = Some(amount as u64),
        ResourceKind::Cpu => doc.cores = Some(amount),
        ResourceKind::Countable => doc.count = Some(amount as u64),
    }
    Ok(doc)
}

/// `sluice bind`.
pub fn bind(args: &BindArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(None)?;
    let binding: Option<BindingDoc> = ask::whose(&args.whose);
    if binding.is_none() && !args.nobody {
        return Err(Complaint::usage("for whom? give --to and --source, --pid, --tid, --cgroup, or --nobody"));
    }
    let mut desk = BookingClient::open(&args.book, false)?;
    let told = args.which.handle(&mut desk).and_then(|handle| desk.bind(&handle, args.part, binding));
    print(told, &[], &calendar, args.json)
}

/// `sluice commit`.
pub fn commit(args: &HandleArgs) -> Result<ExitCode, Complaint> {
    each(args, BookingClient::commit)
}

fn each(
    args: &HandleArgs,
    order: impl Fn(&mut BookingClient, &str) -> Told<ListedReservation>,
) -> Result<ExitCode, Complaint> {
    let calendar = here(None)?;
    let mut desk = BookingClient::open(&args.book, false)?;
    let newest = WhichArgs { handle: None, last: true };
    let named = args.handles.iter().map(|handle| WhichArgs { handle: Some(handle.clone()), last: false });
    for which in named.chain(Some(newest).filter(|_| args.last)) {
        let told = which.handle(&mut desk).and_then(|handle| order(&mut desk, &handle));
        let named = |failed: BookingError| failed.about(which.handle.as_deref().unwrap_or("--last"));
        let kept = told.map_err(|failed| named(failed).complaint(&[], &calendar, args.json))?;
        if args.json {
            print_json(&kept)?;
        } else {
            println!("{}  {}", kept.handle(), kept.state());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `sluice resolve`.
pub fn resolve(args: &ResolveArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(None)?;
    let mut desk = BookingClient::Agent(args.agent.connect()?);
    let told = args.which.handle(&mut desk).and_then(|handle| desk.resolve(&handle, args.commit));
    let kept = told.map_err(|failed| failed.complaint(&[], &calendar, args.json))?;
    if args.json {
        print_json(&kept)?;
    } else {
        println!("{}  {}", kept.handle(), kept.state());
    }
    Ok(ExitCode::SUCCESS)
}

/// `sluice list`.
pub fn list(args: &ListArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(args.zone.as_deref())?;
    let mut desk = BookingClient::open(&args.book, false)?;
    let complain = |failed: BookingError| failed.complaint(&[], &calendar, args.json);
    if args.handle.is_some() || args.last {
        let which = WhichArgs { handle: args.handle.clone(), last: args.last };
        let handle = which.handle(&mut desk).map_err(complain)?;
        return one(&mut desk, &handle, &calendar, args.json).map_err(complain);
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
        let (start, end) = (window.start.unwrap_or_else(|| calendar.now()), window.end.unwrap_or(At(Time::FOREVER)));
        filter.window = Some(WindowDoc { start, end });
    }
    let rows = desk.list(filter).map_err(complain)?;
    if args.json {
        print_json(&rows)?;
    } else if rows.is_empty() {
        println!("no reservations");
    } else {
        let rows: Vec<ReservationDoc> = rows.iter().map(ListedReservation::doc).collect();
        print!("{}", shown(show::table(&rows, &calendar), &["label", "owner"]));
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything of an agent that matches, page by page.
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
fn one(desk: &mut BookingClient, handle: &str, calendar: &Calendar, json: bool) -> Told<ExitCode> {
    let (kept, events) = (desk.show(handle)?, desk.history(handle)?);
    if json {
        let printed = print_json(&serde_json::json!({ "reservation": kept, "history": events }));
        return printed.map(|()| ExitCode::SUCCESS).map_err(BookingError::World);
    }
    print!("{}", kept.whole(calendar));
    for event in &events {
        println!("  {}  {}", calendar.show(event.at()), event.text());
    }
    Ok(ExitCode::SUCCESS)
}
