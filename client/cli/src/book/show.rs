//! Bookings as text for people: reservations, answers to enquiries, refusals with their alternatives, events.

use super::recurrence::Recurrence;
use super::times::Calendar;
use crate::complain::Complaint;
use crate::rates::rate;
use documents::agent::Problem;
use documents::book::{
    AlternativeDoc, BindingDoc, BookEvent, ColorDoc, ColorsDoc, EnquiredDoc, PartRow, RefusalDoc, ReservationDoc,
    StepDoc,
};
use documents::rest::{Enquiry, Event};
use rpc::table::{Align, TextTable};
use std::fmt::Write;
use terms::book::ResourceKind;

/// The most steps that are written out; the others are counted.
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

/// The same for a free amount, rounded down: a request for the amount shown will fit.
pub fn at_most(unit: &str, value: f64) -> String {
    let digits = |value: f64, scale: f64, places: i32| {
        let fine = scale / 10f64.powi(places);
        (value / fine).floor() * fine
    };
    let rounded = match unit {
        "bit/s" if value >= 1e9 => digits(value, 1e9, 2),
        "bit/s" if value >= 1e6 => digits(value, 1e6, 2),
        "bit/s" if value >= 1e3 => digits(value, 1e3, 1),
        "bytes/s" => digits(value, 1e6, 2),
        "cores" => digits(value, 1.0, 4),
        _ => value,
    };
    // What a division made a hair too small is not a digit less when it is shown.
    amount(unit, if rounded >= 1e3 { rounded.round() } else { rounded })
}

fn step(unit: &str, step: &StepDoc, calendar: &Calendar) -> String {
    let end = step.end.map_or("for ever".to_owned(), |end| calendar.show(end));
    format!("{}  {} .. {end}", at_most(unit, step.amount), calendar.show(step.start))
}

fn steps(unit: &str, all: &[StepDoc], calendar: &Calendar) -> Vec<String> {
    let mut text: Vec<String> = all.iter().take(MOST_STEPS).map(|one| step(unit, one, calendar)).collect();
    if all.len() > MOST_STEPS {
        text.push(format!("and {} more", all.len() - MOST_STEPS));
    }
    text
}

/// The kind of a resource: an agent's `net/eth1`, or a broker's `maui/net/eth1`.
pub fn kind_of(resource: &str) -> ResourceKind {
    let first = resource.split('/').next().unwrap_or_default();
    match resource.split_once('/') {
        Some((_, rest)) if !["net", "cpu", "disk", "licence", "sla", "measured"].contains(&first) => {
            ResourceKind::of(rest)
        }
        _ => ResourceKind::of(resource),
    }
}

/// The unit of a resource.
fn unit_of(resource: &str) -> &'static str {
    documents::book::unit(kind_of(resource))
}

/// The measured use, in words.
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

/// The packets of each colour, in words.
fn by_color(colors: &ColorsDoc) -> String {
    let of = |name: &str, one: ColorDoc| format!("{name} {} packets ({} B)", one.packets, one.bytes);
    [of("green", colors.green), of("yellow", colors.yellow), of("red", colors.red)].join(", ")
}

/// The windows of a part: the first of them, or all with their numbers.
fn windows(part: &PartRow, calendar: &Calendar, whole: bool) -> Vec<String> {
    let recurrence = Recurrence::of(&part.steps, calendar);
    let heading = recurrence.as_ref().map(|found| format!("{} ({})", found.text(), calendar.zone()));
    let lines = match (whole, recurrence) {
        (true, Some(_)) => {
            let numbered = (1..).zip(&part.steps);
            numbered.map(|(number, one)| format!("#{number:<3} {}", step(&part.unit, one, calendar))).collect()
        }
        (true, None) => part.steps.iter().map(|one| step(&part.unit, one, calendar)).collect(),
        (false, _) => steps(&part.unit, &part.steps, calendar),
    };
    heading.into_iter().chain(lines).collect()
}

/// One reservation; `whole`: all of its windows.
pub fn reservation(doc: &ReservationDoc, calendar: &Calendar, whole: bool) -> String {
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
        if let Some(colors) = &part.colors {
            let _ = writeln!(text, "       {}", by_color(colors));
        }
        for line in windows(part, calendar, whole) {
            let _ = writeln!(text, "       {line}");
        }
    }
    text
}

/// The bound packets or processes, in a word.
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
pub fn in_force(rows: &[ReservationDoc]) -> TextTable {
    let mut table = TextTable::new(&[
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

/// Reservations as a table.
pub fn table(rows: &[ReservationDoc], calendar: &Calendar) -> TextTable {
    let repeats = |part: &PartRow| Recurrence::of(&part.steps, calendar);
    let is_repeated = rows.iter().flat_map(|doc| &doc.parts).any(|part| repeats(part).is_some());
    let from = format!("from ({})", calendar.zone());
    let mut headings = vec![
        ("handle", Align::Left),
        ("owner", Align::Left),
        ("state", Align::Left),
        ("resource", Align::Left),
        ("amount", Align::Right),
        (&*from, Align::Left),
        ("until", Align::Left),
        ("label", Align::Left),
    ];
    if is_repeated {
        headings.insert(7, ("repeats", Align::Left));
    }
    let mut table = TextTable::new(&headings);
    for doc in rows {
        for (n, part) in doc.parts.iter().enumerate() {
            let of_first = |text: &str| if n == 0 { text.to_owned() } else { String::new() };
            // Of a recurrence the next window; of a use in steps all of it.
            let recurrence = repeats(part);
            let next = recurrence.as_ref().and_then(|found| part.steps.get(found.next));
            let (first, last) = (next.or(part.steps.first()), next.or(part.steps.last()));
            let mut cells = vec![
                of_first(&doc.handle),
                of_first(&doc.owner),
                of_first(&doc.state),
                part.resource.clone(),
                first.map_or(String::new(), |step| amount(&part.unit, step.amount)),
                first.map_or(String::new(), |step| calendar.show(step.start)),
                last.map_or(String::new(), |step| step.end.map_or("for ever".to_owned(), |end| calendar.show(end))),
                of_first(&doc.label),
            ];
            if is_repeated {
                cells.insert(7, recurrence.map_or("-".to_owned(), |found| found.text()));
            }
            table.row(cells);
        }
    }
    table
}

/// The answer of an agent to an enquiry.
pub fn enquired(doc: &EnquiredDoc, resources: &[String], calendar: &Calendar) -> String {
    let mut text = String::new();
    for (n, resource) in resources.iter().enumerate() {
        let unit = unit_of(resource);
        let free = doc.free.get(n).map_or(String::new(), |free| format!("  up to {}", at_most(unit, *free)));
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

/// The answer of a broker to an enquiry.
pub fn enquired_of(doc: &Enquiry, calendar: &Calendar) -> String {
    let mut text = String::new();
    for (way, most) in [("forward", doc.forward), ("reverse", doc.reverse)] {
        if let Some(most) = most {
            let _ = writeln!(text, "{way}  up to {}", at_most("bit/s", most as f64));
        }
    }
    for part in &doc.parts {
        let unit = unit_of(&part.resource);
        let way = part.way.as_ref().map_or(String::new(), |way| format!("  {way}"));
        let cap = if part.kind == "cap" { "  (a cap, no guarantee)" } else { "" };
        let _ = writeln!(text, "{}{way}  up to {}{cap}", part.resource, at_most(unit, part.free));
        for line in steps(unit, &part.granted, calendar) {
            let _ = writeln!(text, "    {line}");
        }
    }
    match &doc.refusal {
        Some(refusal) if !doc.accepted => text += &format!("refused: {}", refused(refusal, &[], calendar)),
        _ if doc.parts.iter().all(|part| part.granted.is_empty()) => {}
        _ => text += "it would be granted\n",
    }
    text
}

/// A refusal and its alternatives.
pub fn refused(refusal: &RefusalDoc, resources: &[String], calendar: &Calendar) -> String {
    refused_with(refusal, resources, calendar, &|_| None)
}

/// The same, each alternative with the command that takes it.
fn refused_with(refusal: &RefusalDoc, resources: &[String], calendar: &Calendar, command: Commands<'_>) -> String {
    let mut text = format!("{}\n", reason(refusal, calendar));
    for alternative in &refusal.alternatives {
        for (n, part) in alternative.parts.iter().enumerate() {
            let resource = alternative.resources.get(n).or(resources.get(n)).map_or("", String::as_str);
            for line in steps(unit_of(resource), part, calendar) {
                let _ = writeln!(text, "  {}: {resource}  {line}", alternative.sort.replace('_', " "));
            }
        }
        if let Some(command) = command(alternative) {
            let _ = writeln!(text, "    {command}");
        }
    }
    text
}

/// The resource, the time and the free amount, as people read it; any other reason in the agent's own words.
fn reason(refusal: &RefusalDoc, calendar: &Calendar) -> String {
    let (Some(resource), Some(asked), Some(free), Some(start)) =
        (&refusal.resource, refusal.asked, refusal.free, refusal.start)
    else {
        return refusal.message.clone();
    };
    let unit = unit_of(resource);
    let (asked, free) = (amount(unit, asked), at_most(unit, free));
    let end = refusal.end.map_or("for ever".to_owned(), |end| calendar.show(end));
    format!("{resource}: asked {asked}, free {free} from {} to {end}", calendar.show(start))
}

/// The command that takes an alternative, if one can.
pub type Commands<'a> = &'a dyn Fn(&AlternativeDoc) -> Option<String>;

/// A refusal, with its alternatives; on standard output as JSON where that was asked for.
pub fn complaint(problem: Problem, resources: &[String], calendar: &Calendar, json: bool) -> Complaint {
    complaint_with(problem, resources, calendar, json, &|_| None)
}

/// The same, each alternative with the command that takes it.
pub fn complaint_with(
    problem: Problem,
    resources: &[String],
    calendar: &Calendar,
    json: bool,
    command: Commands<'_>,
) -> Complaint {
    let Problem { kind, message, refusal } = problem;
    let text = match &refusal {
        Some(refusal) => {
            if json {
                println!("{}", serde_json::json!({ "kind": kind, "message": message, "refusal": refusal }));
            }
            refused_with(refusal, resources, calendar, command).trim_end().to_owned()
        }
        None => message,
    };
    match kind.as_str() {
        "refused" => Complaint::refused(text),
        "misuse" => Complaint::usage(text),
        _ => Complaint::world(text),
    }
}

/// An event in one line.
pub fn event(event: &BookEvent) -> String {
    line(&event.handle, &event.seq.to_string(), event)
}

/// The same of a broker's.
pub fn event_of(event: &Event) -> String {
    let way = event.way.as_ref().map_or(String::new(), |way| format!(" {way}"));
    line(&format!("{}{way}", event.reservation), &format!("{}:{}", event.agent, event.event.seq), &event.event)
}

fn line(whose: &str, number: &str, event: &BookEvent) -> String {
    let mut text = format!("{:<9} #{number} {whose}", event.event);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_had_is_rounded_down() {
        for (unit, value, shown) in [
            ("bit/s", 2_659_999.0, "2.65mbit"),
            ("bit/s", 9_660_000.0, "9.66mbit"),
            ("bit/s", 1_100_000.0, "1.10mbit"),
            ("bit/s", 999.0, "999bit"),
            ("bit/s", 1_999.0, "1.9kbit"),
            ("bit/s", 999_999.0, "999.9kbit"),
            ("bit/s", 4_019_999_999.0, "4.01gbit"),
            ("bytes/s", 19_999_999.0, "19.99MB/s"),
            ("cores", 0.59999, "0.5999 cores"),
            ("cores", 1.7, "1.7 cores"),
            ("pieces", 3.0, "3"),
        ] {
            assert_eq!(at_most(unit, value), shown);
        }
        for rate in (1_000..4_000_000).step_by(977) {
            let shown = documents::units::parse_rate(&at_most("bit/s", f64::from(rate))).unwrap().as_bps();
            assert!(shown <= u64::from(rate as u32), "{rate}: {shown}");
        }
    }

    #[test]
    fn kinds_of_agents_and_brokers_resources() {
        for (name, kind) in [
            ("net/eth1", ResourceKind::Network),
            ("maui/net/eth1", ResourceKind::Network),
            ("cpu", ResourceKind::Cpu),
            ("maui/cpu", ResourceKind::Cpu),
            ("disk/data", ResourceKind::Disk),
            ("maui/disk/data", ResourceKind::Disk),
            ("licence/solver", ResourceKind::Countable),
            ("licence/net", ResourceKind::Countable),
            ("maui/licence/solver", ResourceKind::Countable),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}
