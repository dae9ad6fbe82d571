//! `sluice directory show`: what a directory says, as tables or JSON.

use super::{DirectoryAt, calendar, complaint};
use crate::book::show::amount;
use crate::book::times::Calendar;
use crate::complain::Complaint;
use ::directory::read::{DirectoryDoc, DirectoryRow, read};
use clap::Args;
use rpc::table::{Align, TextTable};
use std::process::ExitCode;

/// `sluice directory show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The directory.
    #[command(flatten)]
    pub at: DirectoryAt,
    /// Also what is too old to be believed
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Reads, and prints.
pub fn run(args: &ShowArgs) -> Result<ExitCode, Complaint> {
    let base = args.at.base()?;
    let calendar = calendar()?;
    let doc = read(&mut args.at.open()?, base, calendar.now(), args.all).map_err(complaint)?;
    match args.json {
        true => println!("{}", serde_json::to_string(&doc).map_err(|error| Complaint::world(error.to_string()))?),
        false => print!("{}", text(&doc, &calendar)),
    }
    Ok(ExitCode::SUCCESS)
}

fn text(doc: &DirectoryDoc, calendar: &Calendar) -> String {
    let of = |kind: &str| doc.entries.iter().filter(|row| row.kind == kind).collect::<Vec<_>>();
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    let until =
        |row: &DirectoryRow| row.valid_until.map_or_else(|| "it does not say".to_owned(), |at| calendar.show(at));
    let mut agents = TextTable::new(
        &["agent", "state", "version", "ask at", "published by", "until"].map(|name| (name, Align::Left)),
    );
    for row in of("agent") {
        let cells = [word(&row.agent), word(&row.state), word(&row.version), row.contact.join(", ")];
        agents.row(cells.into_iter().chain([row.publisher.clone(), until(row)]));
    }
    let mut resources = amounts(&["resource"]);
    for row in of("resource") {
        let name = format!("{}/{}", word(&row.agent), word(&row.resource));
        resources.row([name].into_iter().chain(figures(row, calendar)).chain([until(row)]));
    }
    let mut ways = amounts(&["domain", "way"]);
    for row in of("way") {
        ways.row([word(&row.domain), word(&row.way)].into_iter().chain(figures(row, calendar)).chain([until(row)]));
    }
    let tables = [agents, resources, ways].into_iter().filter(|table| !table.is_empty());
    let mut all: Vec<String> = tables.map(|table| table.to_string()).collect();
    if all.is_empty() {
        all.push("nothing is published there that may be believed now\n".to_owned());
    }
    if doc.old > 0 {
        all.push(format!("{} entries are too old to be believed\n", doc.old));
    }
    if doc.more {
        all.push("the directory has more than it says at once\n".to_owned());
    }
    all.join("\n")
}

fn amounts(first: &[&str]) -> TextTable {
    let first = first.iter().map(|name| (*name, Align::Left));
    let numbers = ["at most", "free"].map(|name| (name, Align::Right));
    let last = [("changes", Align::Left), ("to", Align::Right), ("until", Align::Left)];
    TextTable::new(&first.chain(numbers).chain(last).collect::<Vec<_>>())
}

fn figures(row: &DirectoryRow, calendar: &Calendar) -> [String; 4] {
    let shown = |value: Option<u64>| match (value, row.unit.as_deref().unwrap_or_default()) {
        (None, _) => String::new(),
        (Some(value), "millicores") => amount("cores", value as f64 / 1_000.0),
        (Some(value), unit) => amount(unit, value as f64),
    };
    let change = row.next_change.map(|at| calendar.show(at)).unwrap_or_default();
    [shown(row.capacity), shown(row.free), change, shown(row.next_free)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_directory_is_said_and_units_are_those_of_people() {
        let calendar = Calendar::at(1_800_000_000_000_000_000, jiff::tz::TimeZone::UTC);
        let mut doc = DirectoryDoc { entries: Vec::new(), old: 3, more: true };
        let empty = text(&doc, &calendar);
        assert!(empty.contains("nothing is published") && empty.contains("3 entries are too old"), "{empty}");
        doc.entries.push(DirectoryRow {
            kind: "resource",
            agent: Some("maui".into()),
            resource: Some("cpu".into()),
            unit: Some("millicores".into()),
            capacity: Some(1_500),
            free: Some(250),
            ..DirectoryRow::default()
        });
        let shown = text(&doc, &calendar);
        assert!(shown.contains("maui/cpu") && shown.contains("1.5") && shown.contains("0.25"), "{shown}");
        assert!(shown.contains("it does not say"), "{shown}");
    }
}
