//! `sluice topology`: the domains that a broker knows, what is free between their borders, and the paths over them.

use crate::book::times::Calendar;
use crate::complain::Complaint;
use crate::places::BookArgs;
use crate::rates::rate;
use broker_service::client::{Error, PathQuestion};
use clap::Args;
use documents::book::Instant;
use documents::topology::{BorderRow, DomainPathRow, DomainWayRow, DomainsDoc};
use documents::units;
use rpc::table::{Align, TextTable};
use std::net::IpAddr;
use std::process::ExitCode;

/// The most networks of a domain that a line shows.
const NETWORKS: usize = 4;

/// `sluice topology`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice topology --broker unix:/run/sluice/broker.sock            domains, borders, what is free now\n  \
                  sluice topology --from 10.0.0.1 --to 10.0.10.2 --rate 6mbit      the paths with room, the cheapest first\n  \
                  sluice topology --from 10.0.0.1 --to 10.0.10.2 -w 14:00..15:00   what is free on them then\n\
What a domain publishes is coarse and advisory: its own broker decides. Exit status 1: no path is known, or none has room."
)]
pub struct TopologyArgs {
    /// The broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// Paths from this address
    #[arg(long, value_name = "ADDR", requires = "to")]
    pub from: Option<IpAddr>,
    /// Paths to this address
    #[arg(long, value_name = "ADDR", requires = "from")]
    pub to: Option<IpAddr>,
    /// Only paths with so much free
    #[arg(long, value_name = "RATE", requires = "to")]
    pub rate: Option<String>,
    /// In this window
    #[arg(long, short = 'w', value_name = "FROM..UNTIL", default_value = "now..+1h", requires = "to")]
    pub window: String,
    /// The time zone [default: the system's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Asks the broker, and shows what it knows.
pub fn run(args: &TopologyArgs) -> Result<ExitCode, Complaint> {
    let calendar = Calendar::here(args.zone.as_deref()).map_err(Complaint::usage)?;
    let client = args
        .book
        .broker(true)?
        .ok_or_else(|| Complaint::usage("domains are known to brokers, not to agents: name one with --broker"))?;
    let question = match (args.from, args.to) {
        (Some(from), Some(to)) => {
            let window = calendar.window(&args.window).map_err(Complaint::usage)?;
            let rate = args.rate.as_deref().map_or(Ok(0), |text| units::parse_rate(text).map(|rate| rate.as_bps()));
            let rate = rate.map_err(Complaint::usage)?;
            let start = window.start.unwrap_or_else(|| calendar.now());
            let end = window.end.ok_or_else(|| Complaint::usage("the window needs an end"))?;
            Some(PathQuestion { from, to, rate, start, end })
        }
        _ => None,
    };
    let doc = client.topology(question.as_ref()).map_err(|error| match error {
        Error::Said(problem) if (400..500).contains(&problem.status) => Complaint::refused(problem.detail),
        other => Complaint::world(other.to_string()),
    })?;
    match args.json {
        true => println!("{}", serde_json::to_string(&doc).map_err(|error| Complaint::world(error.to_string()))?),
        false => print!("{}", text(&doc, calendar.now(), &calendar)),
    }
    Ok(if doc.paths.as_ref().is_some_and(Vec::is_empty) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn text(doc: &DomainsDoc, now: Instant, calendar: &Calendar) -> String {
    if let Some(paths) = &doc.paths {
        return paths_text(paths);
    }
    let Some(own) = &doc.own else {
        return "this broker has no domain: `domain` and [[neighbour]] in its file, see docs/domains.md\n".to_owned();
    };
    let mut text = String::new();
    let mut domains = TextTable::new(&[
        ("domain", Align::Left),
        ("from", Align::Left),
        ("number", Align::Right),
        ("until", Align::Left),
        ("networks", Align::Left),
    ]);
    let mut ways = TextTable::new(&[
        ("domain", Align::Left),
        ("in by", Align::Left),
        ("out by", Align::Left),
        ("cost", Align::Right),
        ("at most", Align::Right),
        ("free now", Align::Right),
        ("free later", Align::Right),
    ]);
    for row in &doc.domains {
        let one = &row.advertisement;
        let from = row.learnt_from.clone().unwrap_or_else(|| "itself".to_owned());
        let mut networks: Vec<&str> = one.networks.iter().take(NETWORKS).map(String::as_str).collect();
        let more = format!("and {} more", one.networks.len().saturating_sub(NETWORKS));
        if one.networks.len() > NETWORKS {
            networks.push(&more);
        }
        let (number, until) = (one.number.to_string(), calendar.show(one.until));
        domains.row([one.domain.clone(), from, number, until, networks.join(", ")]);
        for way in &one.ways {
            let (free_now, later) = free(way, now);
            ways.row([
                one.domain.clone(),
                port(way.from.as_ref()),
                port(way.to.as_ref()),
                way.cost.to_string(),
                rate(way.rate),
                rate(free_now),
                rate(later),
            ]);
        }
    }
    text += &format!("{domains}\n{ways}");
    if let Some(why) = &doc.unpublished {
        text += &format!("\n{own} itself is not published now: {why}\n");
    }
    for row in &doc.neighbours {
        if let Some(why) = &row.away {
            text += &format!("\nthe broker of {} does not answer: {why}\n", row.neighbour);
        }
        if row.refused > 0 {
            let why = row.why.as_deref().unwrap_or("no reason was kept");
            text += &format!(
                "\nthe broker of {} told {} advertisements that were refused: {why}\n",
                row.neighbour, row.refused
            );
        }
    }
    text
}

/// The amount that is free now, and the least at any later time.
fn free(way: &DomainWayRow, now: Instant) -> (u64, u64) {
    let current = way.free.iter().rposition(|step| step.start <= now);
    let at = current.map_or(0, |number| way.free[number].rate);
    let later = way.free.iter().skip(current.unwrap_or(0)).map(|step| step.rate).min();
    (at, later.unwrap_or(0))
}

fn port(border: Option<&BorderRow>) -> String {
    border.map_or_else(|| "inside".to_owned(), |border| format!("{} {}", border.neighbour, border.link))
}

fn paths_text(paths: &[DomainPathRow]) -> String {
    if paths.is_empty() {
        return "no path is known with so much free\n".to_owned();
    }
    let mut table = TextTable::new(&[("cost", Align::Right), ("free", Align::Right), ("path", Align::Left)]);
    for path in paths {
        let hop = |hop: &documents::topology::DomainHopRow| match &hop.to {
            Some(border) => format!("{} -[{}]-> ", hop.domain, border.link),
            None => hop.domain.clone(),
        };
        let free = path.free.map_or_else(|| "inside".to_owned(), rate);
        table.row([path.cost.to_string(), free, path.hops.iter().map(hop).collect::<String>()]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::topology::{DomainHopRow, FreeRow};
    use terms::Time;

    #[test]
    fn what_is_free_now_and_the_least_later() {
        let at = |s: u64| Instant(Time::from_nanos(s * 1_000_000_000));
        let step = |s, rate| FreeRow { start: at(s), rate };
        let way = |free| DomainWayRow { from: None, to: None, rate: 9, cost: 1, free };
        assert_eq!(free(&way(vec![step(10, 3), step(20, 7), step(30, 5)]), at(25)), (7, 5));
        assert_eq!(free(&way(vec![step(10, 3)]), at(5)), (0, 3));
        assert_eq!(free(&way(Vec::new()), at(5)), (0, 0));
    }

    #[test]
    fn paths_are_lines() {
        let border = |neighbour: &str, link: &str| Some(BorderRow { neighbour: neighbour.into(), link: link.into() });
        let hops = vec![
            DomainHopRow { domain: "anl".into(), from: None, to: border("esnet", "10.0.3.0/30") },
            DomainHopRow { domain: "esnet".into(), from: border("anl", "10.0.3.0/30"), to: None },
        ];
        let shown = paths_text(&[DomainPathRow { cost: 2, free: Some(45_000_000), hops }]);
        assert!(shown.contains("45.00mbit  anl -[10.0.3.0/30]-> esnet"), "{shown}");
        assert!(paths_text(&[]).contains("no path"));
    }
}
