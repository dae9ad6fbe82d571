//! The book for people: reservations, what would be granted, refusals with their alternatives, events.

use super::times::Calendar;
use crate::complain::Complaint;
use crate::watch::rate;
use api::agent::Problem;
use api::book::{BindingDoc, BookEvent, EnquiredDoc, PartRow, RefusalDoc, ReservationDoc, StepDoc};
use api::client::Error;
use api::table::{Align, Table};
use std::fmt::Write;

/// Steps that are written out; of more there is a number.
const MOST_STEPS: usize = 6;

/// An amount with its unit.
pub fn amount(unit: &str, amount: f64) -> String {
    match unit {
        "bit/s" => rate(amount as u64),
        "bytes/s" => format!("{:.2}MB/s", amount / 1e6),
        // Measured cores have more digits than anybody reads.
        "cores" => format!("{} cores", (amount * 1e4).round() / 1e4),
        _ => format!("{amount}"),
    }
}

fn step(unit: &str, step: &StepDoc, calendar: &Calendar) -> String {
    let end = step.end.map_or("for ever".to_owned(), |end| calendar.show(end));
    format!("{}  {} .. {end}", amount(unit, step.amount), calendar.show(step.start))
}

fn steps(unit: &str, all: &[StepDoc], calendar: &Calendar) -> Vec<String> {
    let mut text: Vec<String> = all.iter().take(MOST_STEPS).map(|one| step(unit, one, calendar)).collect();
    if all.len() > MOST_STEPS {
        text.push(format!("and {} more", all.len() - MOST_STEPS));
    }
    text
}

/// The unit of a resource.
fn unit_of(resource: &str) -> &'static str {
    api::book::shown::unit(terms::book::Kind::of(resource))
}

/// What was measured, in words.
fn measured(part: &PartRow) -> String {
    let Some(seen) = &part.measured else { return "not measured".to_owned() };
    let shown = |value: f64| amount(&part.unit, value);
    let mut text = format!("measured {} over {:.1} s", shown(seen.amount), seen.interval_s);
    if let Some(refused) = seen.refused.filter(|refused| *refused > 0.0) {
        let _ = write!(text, " ({} more was dropped)", shown(refused));
    }
    if let Some(rest) = seen.unreserved {
        let _ = write!(text, " (all that is not reserved: {})", shown(rest));
    }
    text
}

/// One reservation.
pub fn reservation(doc: &ReservationDoc, calendar: &Calendar) -> String {
    let mut text = format!("{}  {}", doc.handle, doc.state);
    if let Some(until) = doc.hold_until {
        let _ = write!(text, " until {} (book it with: sluice commit {})", calendar.show(until), doc.handle);
    }
    if !doc.label.is_empty() {
        let _ = write!(text, "  {:?}", doc.label);
    }
    text.push('\n');
    for (n, part) in doc.parts.iter().enumerate() {
        let kind = if part.kind.as_deref() == Some("cap") { " (a cap, no guarantee)" } else { "" };
        let fault = part.fault.as_ref().map_or(String::new(), |fault| format!(": {fault}"));
        let _ = writeln!(text, "  {n}  {}{kind}  {}{fault}", part.resource, part.enforced.replace('_', " "));
        let shown = |value: f64| amount(&part.unit, value);
        let _ =
            write!(text, "       bound to {}; ", part.binding.as_ref().map_or("nobody".to_owned(), |b| whose(Some(b))));
        let (asked, admitted, installed) = (shown(part.asked), shown(part.now), shown(part.installed));
        let _ = writeln!(text, "asked {asked}, admitted {admitted}, installed {installed}, {}", measured(part));
        if let Some(means) = &part.means {
            let _ = writeln!(text, "       by {means}");
        }
        for line in steps(&part.unit, &part.steps, calendar) {
            let _ = writeln!(text, "       {line}");
        }
    }
    text
}

/// Whose packets or processes, in a word.
fn whose(binding: Option<&BindingDoc>) -> String {
    match binding {
        None => "-".to_owned(),
        Some(BindingDoc::Pid(pid)) => format!("pid {pid}"),
        Some(BindingDoc::Tid(tid)) => format!("tid {tid}"),
        Some(BindingDoc::Cgroup(path)) => path.clone(),
        Some(BindingDoc::Flow(flow)) => {
            let end = |address: Option<std::net::IpAddr>, port: Option<u16>| {
                let address = address.map_or("*".to_owned(), |address| address.to_string());
                port.map_or(address.clone(), |port| format!("{address}:{port}"))
            };
            format!("{} > {}", end(flow.src, flow.src_port), end(flow.dst, flow.dst_port))
        }
    }
}

/// Parts, four words each: asked, admitted, installed, measured.
pub fn in_force(rows: &[ReservationDoc]) -> Table {
    let mut table = Table::new(&[
        ("handle", Align::Left),
        ("part", Align::Right),
        ("resource", Align::Left),
        ("kind", Align::Left),
        ("bound to", Align::Left),
        ("asked", Align::Right),
        ("admitted", Align::Right),
        ("installed", Align::Right),
        ("measured", Align::Right),
        ("over", Align::Right),
        ("enforced", Align::Left),
    ]);
    for doc in rows {
        for (n, part) in doc.parts.iter().enumerate() {
            let shown = |value: f64| amount(&part.unit, value);
            let seen = part.measured.as_ref();
            table.row([
                if n == 0 { doc.handle.clone() } else { String::new() },
                n.to_string(),
                part.resource.clone(),
                part.kind.clone().unwrap_or_else(|| "-".to_owned()),
                whose(part.binding.as_ref()),
                shown(part.asked),
                shown(part.now),
                shown(part.installed),
                seen.map_or("-".to_owned(), |seen| shown(seen.amount)),
                seen.map_or("-".to_owned(), |seen| format!("{:.1}s", seen.interval_s)),
                part.enforced.replace('_', " "),
            ]);
        }
    }
    table
}

/// Many, as a table.
pub fn table(rows: &[ReservationDoc], calendar: &Calendar) -> Table {
    let mut table = Table::new(&[
        ("handle", Align::Left),
        ("owner", Align::Left),
        ("state", Align::Left),
        ("resource", Align::Left),
        ("amount", Align::Right),
        ("from", Align::Left),
        ("until", Align::Left),
        ("label", Align::Left),
    ]);
    for doc in rows {
        for (n, part) in doc.parts.iter().enumerate() {
            let of_first = |text: &str| if n == 0 { text.to_owned() } else { String::new() };
            let (first, last) = (part.steps.first(), part.steps.last());
            table.row([
                of_first(&doc.handle),
                of_first(&doc.owner),
                of_first(&doc.state),
                part.resource.clone(),
                first.map_or(String::new(), |step| amount(&part.unit, step.amount)),
                first.map_or(String::new(), |step| calendar.show(step.start)),
                last.map_or(String::new(), |step| step.end.map_or("for ever".to_owned(), |end| calendar.show(end))),
                of_first(&doc.label),
            ]);
        }
    }
    table
}

/// What would be granted.
pub fn enquired(doc: &EnquiredDoc, resources: &[String], calendar: &Calendar) -> String {
    let mut text = String::new();
    for (n, resource) in resources.iter().enumerate() {
        let unit = unit_of(resource);
        let free = doc.free.get(n).map_or(String::new(), |free| format!("  up to {}", amount(unit, *free)));
        let cap = if doc.kinds.get(n).is_some_and(|kind| kind == "cap") { "  (a cap, no guarantee)" } else { "" };
        let _ = writeln!(text, "{resource}{free}{cap}");
        for line in doc.granted.get(n).map(|all| steps(unit, all, calendar)).unwrap_or_default() {
            let _ = writeln!(text, "    {line}");
        }
    }
    match &doc.refusal {
        Some(refusal) if !doc.accepted => text += &format!("refused: {}", refused(refusal, resources, calendar)),
        _ => text += "it would be granted\n",
    }
    text
}

/// Why not, and what would be possible.
pub fn refused(refusal: &RefusalDoc, resources: &[String], calendar: &Calendar) -> String {
    let mut text = format!("{}\n", refusal.message);
    for alternative in &refusal.alternatives {
        for (n, part) in alternative.parts.iter().enumerate() {
            let resource = resources.get(n).map_or("", String::as_str);
            for line in steps(unit_of(resource), part, calendar) {
                let _ = writeln!(text, "  {}: {resource}  {line}", alternative.sort.replace('_', " "));
            }
        }
    }
    text
}

/// A refusal of the book, with its alternatives; on standard output as JSON where that was asked for.
pub fn complaint(error: Error, resources: &[String], calendar: &Calendar, json: bool) -> Complaint {
    match error {
        Error::Agent(Problem { kind, message, refusal: Some(refusal) }) => {
            if json {
                println!("{}", serde_json::json!({ "kind": kind, "message": message, "refusal": refusal }));
            }
            let text = refused(&refusal, resources, calendar);
            Complaint::refused(text.trim_end().to_owned())
        }
        other => other.into(),
    }
}

/// An event in one line.
pub fn event(event: &BookEvent) -> String {
    let mut text = format!("{:<9} #{} {}", event.event, event.seq, event.handle);
    if let Some(part) = event.part {
        let _ = write!(text, " part {part}");
    }
    if let (Some(from), Some(to)) = (event.from, event.to) {
        let _ = write!(text, " {from} -> {to}");
    } else if let Some(to) = event.to {
        let _ = write!(text, " {to}");
    }
    if let Some(words) = &event.text {
        let _ = write!(text, " {words}");
    }
    text
}
