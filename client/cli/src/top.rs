//! `sluice top`: what is reserved and what it really gets, the largest first, again every second.

use crate::book::booking_client::BookingClient;
use crate::book::show::amount;
use crate::book::times::Calendar;
use crate::complain::Complaint;
use crate::flows::flow;
use crate::places::BookArgs;
use crate::screen;
use clap::Args;
use documents::agent::{Answer, Request, ReservationRow};
use documents::book::{BookFilter, Instant, ReservationDoc, ResourceRow, WindowDoc};
use rpc::client::Client;
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;
use terms::Span;

/// The number of lines where the terminal has no size.
const USUAL_LINES: usize = 40;
/// The width of the bar of a resource, in characters.
const BAR: usize = 30;

/// `sluice top`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice top                      of this machine's agent, until Ctrl-C\n  sluice top --node maui --sort share\n  \
                  sluice top --broker https://broker.example.org:8443    the bookings of all its agents\n  \
                  sluice top --once --json        one reading, for a script\n\n\
                  got is measured over the last second: of a flow in bit/s of IP, of processors in cores. share is got of what was admitted. \
                  A broker knows bookings, an agent what was signalled as well."
)]
pub struct TopArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// The order: what they get, what they may have, the share of it, or their owner
    #[arg(long, value_enum, default_value = "got")]
    pub sort: TopOrder,
    /// The interval between readings
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "1s")]
    pub every: Span,
    /// Read once, and end
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object a reading, with every row
    #[arg(long)]
    pub json: bool,
}

/// The order of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum TopOrder {
    /// The measured use
    Got,
    /// The admitted amount
    Admitted,
    /// The use as a share of the admitted amount
    Share,
    /// The owner's name
    Owner,
}

/// One reserved amount and its use.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct TopRow {
    /// The handle of a booking, or a signalled flow.
    what: String,
    owner: String,
    label: String,
    resource: String,
    unit: String,
    admitted: f64,
    /// `None`: it is not measured.
    got: Option<f64>,
    state: String,
}

impl TopRow {
    fn share(&self) -> Option<f64> {
        self.got.filter(|_| self.admitted > 0.0).map(|got| got / self.admitted)
    }
}

/// A reading.
#[derive(Debug, Serialize)]
struct Reading {
    resources: Vec<ResourceRow>,
    rows: Vec<TopRow>,
}

/// Reads and prints, again and again.
pub fn run(args: &TopArgs) -> Result<ExitCode, Complaint> {
    let calendar = Calendar::here(None).map_err(Complaint::usage)?;
    let mut desk = BookingClient::open(&args.book, false)?;
    // What was signalled is the agent's own to tell.
    let mut agent = match desk {
        BookingClient::Agent(_) => Some(args.book.agent.connect()?),
        BookingClient::Broker(_) => None,
    };
    loop {
        let mut reading = read(&mut desk, agent.as_mut(), &calendar)?;
        sort(&mut reading.rows, args.sort);
        if args.json {
            crate::book::print_json(&reading)?;
        } else {
            if !args.once && screen::height().is_some() {
                print!("{}", screen::CLEAR);
            }
            print(&reading);
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_nanos(args.every.as_nanos().max(100_000_000)));
    }
}

fn read(desk: &mut BookingClient, agent: Option<&mut Client>, calendar: &Calendar) -> Result<Reading, Complaint> {
    let now = linux::clock::Clock::start().now();
    let window = WindowDoc { start: Instant(now), end: Instant(now.saturating_add(Span::from_secs(1))) };
    let complain = |error: crate::book::booking_client::BookingError| error.complaint(&[], calendar, false);
    let states = ["active", "suspended"].map(str::to_owned).to_vec();
    let booked = desk.list(BookFilter { states, ..BookFilter::default() }).map_err(complain)?;
    let mut rows: Vec<TopRow> = booked.iter().flat_map(|one| of_booking(&one.doc())).collect();
    if let Some(agent) = agent {
        match agent.call(Request::Status)? {
            Answer::Status(status) => rows.extend(status.reservations.iter().map(of_signalled)),
            other => return Err(Complaint::world(format!("the agent answered {other:?} to a status call"))),
        }
    }
    Ok(Reading { resources: desk.resources(window).map_err(complain)?, rows })
}

fn of_booking(doc: &ReservationDoc) -> Vec<TopRow> {
    let row = |part: &documents::book::PartRow| TopRow {
        what: doc.handle.clone(),
        owner: doc.owner.clone(),
        label: doc.label.clone(),
        resource: part.resource.clone(),
        unit: part.unit.clone(),
        admitted: part.now,
        got: part.measured.as_ref().map(|measured| measured.amount),
        state: part.enforced.replace('_', " "),
    };
    doc.parts.iter().map(row).collect()
}

fn of_signalled(row: &ReservationRow) -> TopRow {
    let measured = row.measured.as_ref().filter(|measured| measured.interval_ms > 0);
    TopRow {
        what: row.prefixes.clone().unwrap_or_else(|| flow(&row.session, &row.sender)),
        owner: "signalled".to_owned(),
        label: String::new(),
        resource: row.oif.as_ref().map_or_else(|| "here".to_owned(), |name| format!("net/{name}")),
        unit: "bit/s".to_owned(),
        admitted: row.admitted_wire_bps.unwrap_or(0) as f64,
        got: measured.map(|measured| measured.bps),
        state: row.installed.as_ref().map_or_else(|| "-".to_owned(), |found| found.state.to_string()),
    }
}

/// Rows without a measurement come last; rows that are equal by the order stay in the order of their names, so that they do not
/// jump about.
fn sort(rows: &mut [TopRow], order: TopOrder) {
    let falling = |a: Option<f64>, b: Option<f64>| b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0));
    rows.sort_by(|a, b| {
        let first = match order {
            TopOrder::Got => falling(a.got, b.got),
            TopOrder::Admitted => falling(Some(a.admitted), Some(b.admitted)),
            TopOrder::Share => falling(a.share(), b.share()),
            TopOrder::Owner => a.owner.cmp(&b.owner),
        };
        first.then_with(|| (&a.what, &a.resource).cmp(&(&b.what, &b.resource)))
    });
}

fn print(reading: &Reading) {
    let mut lines = screen::height().unwrap_or(USUAL_LINES).saturating_sub(4);
    for resource in reading.resources.iter().take(lines / 2) {
        println!("{}", bar(resource));
        lines -= 1;
    }
    println!();
    if reading.rows.is_empty() {
        println!("nothing is reserved");
        return;
    }
    let mut table = TextTable::new(&[
        ("reservation", Align::Left),
        ("owner", Align::Left),
        ("resource", Align::Left),
        ("admitted", Align::Right),
        ("got", Align::Right),
        ("share", Align::Right),
        ("state", Align::Left),
        ("label", Align::Left),
    ]);
    for row in reading.rows.iter().take(lines) {
        table.row([
            row.what.clone(),
            row.owner.clone(),
            row.resource.clone(),
            amount(&row.unit, row.admitted),
            row.got.map_or_else(|| "-".to_owned(), |got| amount(&row.unit, got)),
            row.share().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            row.state.clone(),
            row.label.clone(),
        ]);
    }
    print!("{}", screen::shown(table, &["label", "owner", "state"]));
    if reading.rows.len() > lines {
        println!("and {} more", reading.rows.len() - lines);
    }
}

/// `net/eth1            ###########...................  3.00mbit of 10.00mbit reserved`.
fn bar(row: &ResourceRow) -> String {
    let used = (row.capacity - row.free).max(0.0);
    let share = if row.capacity > 0.0 { (used / row.capacity).min(1.0) } else { 0.0 };
    let full = (share * BAR as f64).round() as usize;
    let drawn = "#".repeat(full) + &".".repeat(BAR - full);
    format!("{:<24} {drawn}  {} of {}", row.resource, amount(&row.unit, used), amount(&row.unit, row.capacity))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, admitted: f64, got: Option<f64>) -> TopRow {
        let text = String::new;
        let (unit, what) = ("bit/s".to_owned(), what.to_owned());
        TopRow { what, owner: text(), label: text(), resource: text(), unit, admitted, got, state: text() }
    }

    #[test]
    fn the_largest_comes_first_and_what_is_not_measured_last() {
        let mut rows =
            [row("a", 9.0, None), row("b", 4.0, Some(1.0)), row("c", 8.0, Some(3.0)), row("d", 1.0, Some(1.0))];
        let mut order = |order| {
            sort(&mut rows, order);
            rows.iter().map(|row| row.what.as_str()).collect::<String>()
        };
        assert_eq!((order(TopOrder::Got), order(TopOrder::Admitted)), ("cbda".to_owned(), "acbd".to_owned()));
        assert_eq!(order(TopOrder::Share), "dcba");
    }
}
