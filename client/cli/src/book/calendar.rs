//! `sluice calendar`: the use of resources, drawn in the terminal: one column for each interval, as high as
//! its fullest instant.

use super::args::CalendarArgs;
use super::booking_client::BookingClient;
use super::kept::ListedReservation;
use super::show::{amount, at_most};
use super::times::Calendar;
use crate::complain::Complaint;
use broker_service::ical::{self, CalendarEntry};
use documents::book::{BookFilter, Instant, ReservationDoc, ResourceRow, StepDoc, WindowDoc};
use std::process::ExitCode;
use terms::Time;

/// The default width of a drawing, and the largest, columns.
const COLUMNS: usize = 64;
/// The least width of a drawing beside its words, columns; with fewer the words get a line of their own.
const LEAST: usize = 16;
const BLOCKS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Asks for the resources and draws them.
pub fn run(args: &CalendarArgs) -> Result<ExitCode, Complaint> {
    let calendar = Calendar::here(args.zone.as_deref()).map_err(Complaint::usage)?;
    let window = calendar.window(&args.window).map_err(Complaint::usage)?;
    let start = window.start.unwrap_or_else(|| calendar.now());
    let Some(end) = window.end else { return Err(Complaint::usage("a drawing needs an end")) };
    let mut client = BookingClient::open(&args.book, false)?;
    if args.ics {
        return as_file(args, &mut client, WindowDoc { start, end }, &calendar);
    }
    let rows = client.resources(WindowDoc { start, end });
    let rows = rows.map_err(|failed| failed.complaint(&[], &calendar, args.json))?;
    let wanted = |row: &ResourceRow| args.resources.is_empty() || args.resources.contains(&row.resource);
    let rows: Vec<ResourceRow> = rows.into_iter().filter(wanted).collect();
    if let Some(missing) = args.resources.iter().find(|name| rows.iter().all(|row| row.resource != **name)) {
        return Err(Complaint::usage(format!("there is no resource {missing} here: `sluice calendar` shows all")));
    }
    if args.json {
        println!("{}", serde_json::json!({ "start": start, "end": end, "resources": rows }));
        return Ok(ExitCode::SUCCESS);
    }
    let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    print!("{}", picture(&rows, start, end, &calendar, terminal));
    Ok(ExitCode::SUCCESS)
}

/// Prints the reservations that meet the window as a calendar file.
fn as_file(
    args: &CalendarArgs,
    client: &mut BookingClient,
    window: WindowDoc,
    calendar: &Calendar,
) -> Result<ExitCode, Complaint> {
    let filter = BookFilter { window: Some(window), ..BookFilter::default() };
    let found = client.list(filter).map_err(|failed| failed.complaint(&[], calendar, args.json))?;
    let docs: Vec<ReservationDoc> = found.iter().map(ListedReservation::doc).collect();
    let entries: Vec<CalendarEntry<'_>> = docs
        .iter()
        .map(|doc| CalendarEntry {
            id: &doc.handle,
            owner: &doc.owner,
            label: &doc.label,
            state: &doc.state,
            parts: doc.parts.iter().collect(),
        })
        .collect();
    let name = if args.resources.is_empty() { "Reservations".to_owned() } else { args.resources.join(", ") };
    print!("{}", ical::calendar(&name, &entries, &args.resources, calendar.now()));
    Ok(ExitCode::SUCCESS)
}

/// All resources, a line each, or two where the terminal is narrow; the times below.
fn picture(rows: &[ResourceRow], start: Instant, end: Instant, calendar: &Calendar, terminal: Option<usize>) -> String {
    let words = |row: &ResourceRow| {
        let (capacity, free) = (amount(&row.unit, row.capacity), at_most(&row.unit, row.free));
        format!("of {capacity}, free now {free}")
    };
    let longest = |length: &dyn Fn(&ResourceRow) -> usize| rows.iter().map(length).max().unwrap_or(0);
    let names = longest(&|row| row.resource.chars().count());
    let whole = names + longest(&|row| words(row).chars().count()) + 4;
    let room = terminal.unwrap_or(usize::MAX);
    let (columns, beside) = match room.saturating_sub(whole).min(COLUMNS) {
        columns if columns >= LEAST => (columns, true),
        _ => (room.min(COLUMNS), false),
    };
    let mut text = String::new();
    for row in rows {
        let bar = draw(&row.timeline, row.capacity, start.0, end.0, columns);
        text += &match beside {
            true => format!("{:<names$}  {bar}  {}\n", row.resource, words(row)),
            false => format!("{}  {}\n{bar}\n", row.resource, words(row)),
        };
    }
    let indent = if beside { names + 2 } else { 0 };
    text + &format!("{:<indent$}{}\n", "", axis(calendar, start, end, columns))
}

/// Draws the used share of a resource as columns, from its free amounts.
fn draw(free: &[StepDoc], capacity: f64, start: Time, end: Time, columns: usize) -> String {
    let whole = end.since(start).as_nanos().max(1);
    let edge = |column: usize| start.as_nanos() + (u128::from(whole) * column as u128 / columns as u128) as u64;
    (0..columns)
        .map(|column| {
            let (from, to) = (edge(column), edge(column + 1));
            let meets =
                |step: &&StepDoc| step.start.0.as_nanos() < to && step.end.is_none_or(|end| end.0.as_nanos() > from);
            let least = free.iter().filter(meets).map(|step| step.amount).reduce(f64::min);
            let Some(least) = least else { return ' ' };
            let taken = if capacity > 0.0 { (1.0 - least / capacity).clamp(0.0, 1.0) } else { 0.0 };
            // Anything at all shows, and only what is full looks full.
            let eighths = if taken >= 1.0 { 8 } else { ((taken * 8.0).ceil() as usize).min(7) };
            BLOCKS[eighths]
        })
        .collect()
}

/// The times below the drawing: the middle one too where there is room.
fn axis(calendar: &Calendar, start: Instant, end: Instant, columns: usize) -> String {
    let middle = Instant(Time::from_nanos(start.0.as_nanos() / 2 + end.0.as_nanos() / 2));
    let (left, centre, right) = (calendar.show(start), calendar.show(middle), calendar.show(end));
    let room = columns.saturating_sub(left.chars().count() + right.chars().count()).max(1);
    let centre = if centre.chars().count() + 2 > room { "" } else { centre.as_str() };
    format!("{left}{centre:^room$}{right}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_shows_the_fullest_instant_of_each_column() {
        let at = |s: u64| Instant(Time::from_nanos(s * 1_000_000_000));
        let step = |from, to, amount| StepDoc { start: at(from), end: Some(at(to)), amount };
        let free = [step(0, 320, 100.0), step(320, 321, 0.0), step(321, 480, 99.0), step(480, 640, 50.0)];
        let bar = draw(&free, 100.0, at(0).0, at(640).0, COLUMNS);
        assert_eq!(bar, format!("{}█{}{}", "·".repeat(32), "▁".repeat(15), "▄".repeat(16)));
        assert_eq!(draw(&[], 100.0, at(0).0, at(640).0, COLUMNS), " ".repeat(COLUMNS));
    }

    #[test]
    fn a_narrow_terminal_has_no_line_that_it_must_break() {
        let calendar = Calendar::here(Some("UTC")).unwrap();
        let at = |s: u64| Instant(Time::from_nanos(s * 1_000_000_000));
        let row = |name: &str| {
            let timeline = vec![StepDoc { start: at(0), end: Some(at(86_400)), amount: 5e7 }];
            let doc = serde_json::json!({ "resource": name, "unit": "bit/s", "kind": "reserved", "capacity": 1e8, "free": 5e7,
                "background": 0.0, "reservations": 1, "timeline": timeline });
            serde_json::from_value::<ResourceRow>(doc).unwrap()
        };
        let rows = [row("net/eth0"), row("net/to-a-far-place")];
        let widths = |terminal| -> Vec<usize> {
            let text = picture(&rows, at(0), at(86_400), &calendar, terminal);
            text.lines().map(|line| line.chars().count()).collect()
        };
        assert_eq!(widths(None), widths(Some(300)));
        for terminal in [60, 79, 80, 120] {
            let all = widths(Some(terminal));
            assert!(all.iter().all(|width| *width <= terminal), "{terminal}: {all:?}");
            assert_eq!(all.len(), if terminal < 70 { 5 } else { 3 }, "{terminal}: {all:?}");
        }
    }
}
