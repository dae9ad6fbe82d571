//! `sluice health`: the faults of an agent, or of a broker and all its agents; for people and for monitoring.

use crate::complain::Complaint;
use crate::places::BookArgs;
use broker_service::client::{BrokerClient, Error};
use clap::Args;
use documents::book::{BookFilter, ReservationDoc, ResourceRow};
use documents::overview::Doctors;
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::process::ExitCode;
use terms::{Span, Time};

/// A certificate that ends sooner is noted.
const SOON: Span = Span::from_secs(14 * 86_400);

/// The reservations of one answer.
const PAGE: usize = 1000;

/// `sluice health`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice health                           this machine's agent\n  \
                  sluice health --broker https://broker.example.org:8443 --json\n\
Exit status 0: healthy, perhaps with notes; 1: something is broken; 3: no answer. It asks with the rights of \
whoever runs it: operators and auditors see everything.")]
pub struct HealthArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub at: BookArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// A promise does not hold, or an agent does not answer.
    Broken,
    /// It holds, and should be looked at.
    Note,
}

/// One thing that was found.
#[derive(Debug, Serialize)]
struct HealthFinding {
    severity: Severity,
    /// The agent, resource or reservation.
    of: String,
    what: String,
}

/// All that was found.
#[derive(Debug, Serialize)]
struct Health {
    healthy: bool,
    findings: Vec<HealthFinding>,
}

/// Asks, prints what was found; exit status 1 if something is broken.
pub fn run(args: &HealthArgs) -> Result<ExitCode, Complaint> {
    let findings = match args.at.broker(false)? {
        Some(client) => of_broker(&client)?,
        None => of_agent(args)?,
    };
    let healthy = findings.iter().all(|one| one.severity == Severity::Note);
    let health = Health { healthy, findings };
    match args.json {
        true => println!("{}", serde_json::json!(health)),
        false => print(&health),
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print(health: &Health) {
    let mut table = TextTable::new(&[("", Align::Left), ("of", Align::Left), ("what", Align::Left)]);
    for one in &health.findings {
        let word = if one.severity == Severity::Broken { "broken" } else { "note" };
        table.row([word.to_owned(), one.of.clone(), one.what.clone()]);
    }
    if !health.findings.is_empty() {
        print!("{}", crate::screen::shown(table, &[]));
    }
    println!("{}", if health.healthy { "healthy" } else { "not healthy" });
}

fn broken(of: impl Into<String>, what: impl Into<String>) -> HealthFinding {
    HealthFinding { severity: Severity::Broken, of: of.into(), what: what.into() }
}

fn note(of: impl Into<String>, what: impl Into<String>) -> HealthFinding {
    HealthFinding { severity: Severity::Note, of: of.into(), what: what.into() }
}

/// The shortage of a resource, if it has one.
fn short(row: &ResourceRow) -> Option<HealthFinding> {
    let missing = row.missing?;
    let when = row.missing_from.as_ref().map(|at| format!(" from {at} on")).unwrap_or_default();
    Some(broken(&row.resource, format!("{missing} {} less than is promised{when}", row.unit)))
}

fn of_agent(args: &HealthArgs) -> Result<Vec<HealthFinding>, Complaint> {
    let figures = crate::metrics::ask(&args.at.agent)?;
    let status = figures.status;
    let mut found: Vec<_> = status.notes.iter().map(|text| note(&status.agent.node, text)).collect();
    found.extend(figures.resources.iter().filter_map(short));
    let mut client = args.at.agent.connect()?;
    let states = ["active", "suspended"].map(str::to_owned).to_vec();
    let rows = crate::book::matching(&mut client, BookFilter { states, ..BookFilter::default() })?;
    found.extend(rows.iter().flat_map(not_in_force));
    Ok(found)
}

/// The parts of a reservation that are not in force.
fn not_in_force(row: &ReservationDoc) -> impl Iterator<Item = HealthFinding> + '_ {
    let name = if row.label.is_empty() { &row.handle } else { &row.label };
    row.parts.iter().filter_map(move |part| {
        let why = part.fault.clone().or_else(|| (part.enforced == "failed").then(|| "not in force".to_owned()))?;
        Some(broken(name, format!("{}: {why}", part.resource)))
    })
}

fn of_broker(client: &BrokerClient) -> Result<Vec<HealthFinding>, Complaint> {
    let told = |error: Error| match error {
        Error::Said(problem) => Complaint::refused(problem.detail.clone()),
        other => Complaint::world(other.to_string()),
    };
    let mut found = Vec::new();
    for row in client.agents().map_err(told)?.agents {
        found.extend(row.away.map(|why| broken(row.agent, why)));
    }
    let resources = client.resources(None).map_err(told)?.resources;
    found.extend(resources.iter().filter_map(short));
    let mut filter = BookFilter { limit: Some(PAGE), ..BookFilter::default() };
    loop {
        let page = client.list(&filter).map_err(told)?;
        found.extend(page.reservations.into_iter().filter(|one| one.state == "broken").map(|one| {
            let lacks: Vec<&str> = one.missing.iter().chain(&one.away).map(String::as_str).collect();
            let name = if one.label.is_empty() { one.id } else { one.label };
            broken(name, format!("reservation of {}: not whole ({})", one.owner, lacks.join(", ")))
        }));
        filter.after = page.next;
        if filter.after.is_none() {
            break;
        }
    }
    match client.doctor() {
        Ok(doctors) => found.extend(machines(&doctors)),
        Err(Error::Said(problem)) if problem.status == 403 => {
            found.push(note("the agents' machines", "not examined: that is for operators and auditors"));
        }
        Err(other) => return Err(told(other)),
    }
    Ok(found)
}

/// The faults of agents' machines, and certificates that end.
fn machines(doctors: &Doctors) -> Vec<HealthFinding> {
    let mut found = Vec::new();
    for one in &doctors.agents {
        // A machine that is still being examined has no kernel yet.
        if !one.found.kernel.is_empty() && !one.found.can_reserve {
            found.push(broken(&one.agent, "its kernel enforces no reservation: see `sluice doctor` there"));
        }
        found.extend(
            one.found.warnings.iter().map(|warning| note(format!("{} {}", one.agent, warning.of), &warning.text)),
        );
    }
    let today = linux::clock::Clock::start().today();
    for one in &doctors.certificates {
        let what = |end: &str| format!("the certificate of {} {end} {}", one.name, one.until);
        if one.until.0 <= today {
            found.push(broken(&one.of, what("ended")));
        } else if ends_soon(one.until.0, today) {
            found.push(note(&one.of, what("ends")));
        }
    }
    found
}

fn ends_soon(until: Time, today: Time) -> bool {
    until <= today.saturating_add(SOON)
}
