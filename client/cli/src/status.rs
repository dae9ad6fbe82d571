//! `sluice status`: every reservation as asked / admitted / installed / measured.

use crate::args::StatusArgs;
use crate::book::matching;
use crate::book::show::in_force;
use crate::complain::Complaint;
use crate::flows::{flow, wanted};
use crate::rates::rate;
use crate::screen::{CLEAR, shown};
use documents::agent::{Answer, InterfaceRow, Request, ReservationRow, Status};
use documents::book::{BookFilter, ReservationDoc};
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// The interval of `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Asks and prints, with `--watch` again and again.
pub fn run(args: &StatusArgs) -> Result<ExitCode, Complaint> {
    let mut client = args.agent.connect()?;
    loop {
        let whole = ask(args, &mut client)?;
        if args.json {
            let line = if args.watch { serde_json::to_string(&whole) } else { serde_json::to_string_pretty(&whole) };
            println!("{}", line.map_err(|e| Complaint::world(e.to_string()))?);
        } else {
            if args.watch && std::io::stdout().is_terminal() {
                print!("{CLEAR}");
            }
            print(&whole.status, &whole.booked);
        }
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Asks once; with `--over` twice, so that the measurement covers a known time.
fn ask(args: &StatusArgs, client: &mut rpc::client::Client) -> Result<WithBookings, Complaint> {
    let mut status = fetch(client)?;
    let states = ["active", "suspended"].map(str::to_owned).to_vec();
    let booked = matching(client, BookFilter { states, ..BookFilter::default() })?;
    if let Some(over) = args.over.filter(|over| !status.reservations.is_empty() && over.as_nanos() > 0) {
        std::thread::sleep(Duration::from_nanos(over.as_nanos()));
        status = fetch(client)?;
    }
    Ok(WithBookings { status, booked })
}

/// The JSON output: the agent's status, and the bookings whose window is open.
#[derive(Serialize)]
struct WithBookings {
    #[serde(flatten)]
    status: Status,
    booked: Vec<ReservationDoc>,
}

fn fetch(client: &mut rpc::client::Client) -> Result<Status, Complaint> {
    match client.call(Request::Status)? {
        Answer::Status(status) => Ok(status),
        other => Err(Complaint::world(format!("the agent answered {other:?} to a status call"))),
    }
}

fn print(status: &Status, booked: &[ReservationDoc]) {
    let agent = &status.agent;
    println!(
        "{}  sluice {}  pid {}  up {}.{}s",
        agent.node,
        agent.version,
        agent.pid,
        agent.uptime_ms / 1000,
        agent.uptime_ms / 100 % 10
    );
    println!();
    print!("{}", shown(interfaces(&status.interfaces), &["services", "address"]));
    println!();
    if status.reservations.is_empty() {
        println!("no {}reservations", if booked.is_empty() { "" } else { "signalled " });
    } else {
        print!("{}", shown(reservations(&status.reservations), &["packets", "excess", "expires"]));
    }
    if !booked.is_empty() {
        println!();
        print!("{}", shown(in_force(booked), &["over", "kind", "part"]));
    }
    for note in &status.notes {
        println!("note: {note}");
    }
}

fn interfaces(rows: &[InterfaceRow]) -> TextTable {
    let mut table = TextTable::new(&[
        ("interface", Align::Left),
        ("address", Align::Left),
        ("link", Align::Right),
        ("signalled", Align::Right),
        ("booked", Align::Right),
        ("free", Align::Right),
        ("plane", Align::Left),
        ("services", Align::Left),
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            row.rate_wire_bps.map_or_else(|| "unknown".to_string(), rate),
            rate(row.reserved_wire_bps),
            rate(row.booked_wire_bps),
            rate(row.free_wire_bps),
            row.plane.clone().unwrap_or_else(|| "-".to_string()),
            if row.services.is_empty() { "-".to_string() } else { row.services.join(" ") },
        ]);
    }
    table
}

/// Reservations, four words each: asked, admitted, installed, measured.
pub fn reservations(rows: &[ReservationRow]) -> TextTable {
    let mut table = TextTable::new(&[
        ("flow", Align::Left),
        ("out by", Align::Left),
        ("asked", Align::Left),
        ("admitted (wire)", Align::Right),
        ("installed", Align::Left),
        ("measured", Align::Right),
        ("excess", Align::Right),
        ("packets", Align::Right),
        ("expires", Align::Right),
    ]);
    for row in rows {
        let installed = row.installed.as_ref().map_or_else(
            || "-".to_string(),
            |i| format!("{} {}{}", i.class, i.state, if i.shared { ", shared" } else { "" }),
        );
        let measured = row.measured.as_ref();
        let over = |bps: f64, interval: u64| if interval == 0 { "-".to_string() } else { rate(bps as u64) };
        table.row([
            row.prefixes.clone().unwrap_or_else(|| flow(&row.session, &row.sender)),
            row.oif.clone().unwrap_or_else(|| "here".to_string()),
            wanted(&row.asked),
            row.admitted_wire_bps.map_or_else(|| "-".to_string(), rate),
            installed,
            measured.map_or_else(|| "-".to_string(), |m| over(m.bps, m.interval_ms)),
            measured.map_or_else(|| "-".to_string(), |m| over(m.excess_bps, m.interval_ms)),
            measured.map_or_else(|| "-".to_string(), |m| m.packets.to_string()),
            row.expires_in_ms.map_or_else(|| "-".to_string(), |ms| format!("{:.1}s", ms as f64 / 1000.0)),
        ]);
    }
    table
}
