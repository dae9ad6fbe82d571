//! `sluice calendar`: how full resources are, drawn in the terminal: one column for each stretch of time, its height the
//! fullest instant in it.

use super::args::CalendarArgs;
use super::show::amount;
use super::times::Calendar;
use crate::complain::Complaint;
use api::agent::{Answer, BookAnswer, Request, WindowDoc};
use api::book::{Instant, ResourceRow, StepDoc};
use std::process::ExitCode;
use terms::Time;

/// Columns of a drawing.
const COLUMNS: usize = 64;
const BLOCKS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Asks and draws.
pub fn run(args: &CalendarArgs) -> Result<ExitCode, Complaint> {
    let calendar = Calendar::here(args.zone.as_deref()).map_err(Complaint::usage)?;
    let window = calendar.window(&args.window).map_err(Complaint::usage)?;
    let start = window.start.unwrap_or_else(|| calendar.now());
    let Some(end) = window.end else { return Err(Complaint::usage("a drawing needs an end")) };
    let timeline = Some(WindowDoc { start, end });
    let rows = match args.agent.connect()?.call(Request::Resources { timeline })? {
        Answer::Book(BookAnswer::Resources(rows)) => rows,
        other => return Err(Complaint::world(format!("the agent answered {other:?}"))),
    };
    let wanted = |row: &ResourceRow| args.resources.is_empty() || args.resources.contains(&row.resource);
    let rows: Vec<ResourceRow> = rows.into_iter().filter(wanted).collect();
    if let Some(missing) = args.resources.iter().find(|name| rows.iter().all(|row| row.resource != **name)) {
        return Err(Complaint::usage(format!("there is no resource {missing} here: `sluice calendar` shows all")));
    }
    if args.json {
        println!("{}", serde_json::json!({ "start": start, "end": end, "resources": rows }));
        return Ok(ExitCode::SUCCESS);
    }
    let width = rows.iter().map(|row| row.resource.chars().count()).max().unwrap_or(0);
    for row in &rows {
        let bar = draw(&row.timeline, row.capacity, start.0, end.0);
        let (capacity, free) = (amount(&row.unit, row.capacity), amount(&row.unit, row.free));
        println!("{:<width$}  {bar}  of {capacity}, free now {free}", row.resource);
    }
    println!("{:<width$}  {}", "", axis(&calendar, start, end));
    Ok(ExitCode::SUCCESS)
}

/// What is free, as columns of what is taken.
fn draw(free: &[StepDoc], capacity: f64, start: Time, end: Time) -> String {
    let whole = end.since(start).as_nanos().max(1);
    let edge = |column: usize| start.as_nanos() + (u128::from(whole) * column as u128 / COLUMNS as u128) as u64;
    (0..COLUMNS)
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

/// The times below the drawing.
fn axis(calendar: &Calendar, start: Instant, end: Instant) -> String {
    let middle = Instant(Time::from_nanos(start.0.as_nanos() / 2 + end.0.as_nanos() / 2));
    let (left, centre, right) = (calendar.show(start), calendar.show(middle), calendar.show(end));
    let room = COLUMNS.saturating_sub(left.chars().count() + right.chars().count());
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
        let bar = draw(&free, 100.0, at(0).0, at(640).0);
        assert_eq!(bar, format!("{}█{}{}", "·".repeat(32), "▁".repeat(15), "▄".repeat(16)));
        assert_eq!(draw(&[], 100.0, at(0).0, at(640).0), " ".repeat(COLUMNS));
    }
}
