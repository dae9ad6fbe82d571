//! `sluice mace ...`: flows that never signalled, as the agent recognised and admitted them.

mod watch;

use crate::complain::Complaint;
use crate::places::AgentArgs;
use crate::rates::rate;
use clap::{Args, Subcommand};
use documents::agent::{Answer, Request, RowFilter, Rows, TableDoc, View};
use documents::mace::MaceDoc;
use rpc::client::Client;
use rpc::table::{Align, TextTable};
use std::process::ExitCode;

/// `sluice mace ...`.
#[derive(Subcommand, Debug)]
#[command(
    after_help = "Examples:\n  sluice mace flows                 the flows that were recognised and promoted\n  \
                        sluice mace estimate --json       what is allocated, measured, estimated; what other rules would say\n  \
                        sluice mace applications          the list, and how many of each asked\n  \
                        sluice mace admit                 what each rule decided, or would have\n  \
                        sluice mace watch --for 1m        a picture that grows"
)]
pub enum MaceCommand {
    /// Flows that never signalled and are promoted now
    Flows(MaceArgs),
    /// The rates that are allocated, measured and estimated, and the answers of rules in shadow
    Estimate(MaceArgs),
    /// The application list, and how many flows of each asked and were admitted
    Applications(MaceArgs),
    /// The last decisions, and what each rule in shadow would have decided; and now, about one more flow
    Admit(MaceArgs),
    /// A picture that grows: what promoted flows bring and count as, a line each second
    Watch(watch::MaceWatchArgs),
}

/// Options of these commands.
#[derive(Args, Debug)]
pub struct MaceArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Print JSON: everything that the agent says about it
    #[arg(long)]
    pub json: bool,
}

const L: Align = Align::Left;
const R: Align = Align::Right;
/// The answer where there is nothing to show.
const NOWHERE: &str = "no interface recognises flows: [mace] in the agent's file says where (docs/mace.md)";

/// Runs one of them.
pub fn run(command: &MaceCommand) -> Result<ExitCode, Complaint> {
    let (args, page): (_, fn(&MaceDoc) -> String) = match command {
        MaceCommand::Flows(args) => (args, flows),
        MaceCommand::Estimate(args) => (args, estimate),
        MaceCommand::Applications(args) => (args, applications),
        MaceCommand::Admit(args) => (args, admit),
        MaceCommand::Watch(args) => return watch::run(args),
    };
    let rows = ask(&mut args.agent.connect()?)?;
    if args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(|e| Complaint::world(e.to_string()))?;
        println!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        println!("{NOWHERE}");
    }
    rows.iter().for_each(|doc| print!("{}", page(doc)));
    Ok(ExitCode::SUCCESS)
}

/// The agent's interfaces with recognition: one, or none.
fn ask(client: &mut Client) -> Result<Vec<MaceDoc>, Complaint> {
    let request = Request::Show { view: View::Mace, filter: RowFilter::default() };
    match client.call(request)? {
        Answer::Shown(TableDoc { rows: Rows::Mace(rows), .. }) => Ok(rows),
        other => Err(Complaint::world(format!("the agent answered {other:?} to a show call"))),
    }
}

fn flows(doc: &MaceDoc) -> String {
    let mut table = TextTable::new(&[
        ("from", L),
        ("to", L),
        ("application", L),
        ("declared", R),
        ("age", R),
        ("silent", R),
        ("state", L),
    ]);
    for row in &doc.flows {
        table.row([
            end(row.sender.src, row.sender.src_port),
            end(row.session.dst, row.session.dst_port.into()),
            if row.application.is_empty() { "-".to_owned() } else { row.application.clone() },
            rate(row.declared_wire_bps),
            seconds(row.age_ms),
            format!("{} of {}", seconds(row.silent_ms), seconds(row.timeout_ms)),
            if row.installed { "promoted" } else { "on its way" }.to_owned(),
        ]);
    }
    let more = doc.promoted.saturating_sub(doc.flows.len());
    match (table.is_empty(), more) {
        (true, _) => format!("{}: no promoted flows\n", doc.interface),
        (false, 0) => table.to_string(),
        (false, more) => format!("{table}and {more} more\n"),
    }
}

fn end(address: std::net::IpAddr, port: u32) -> String {
    if address.is_ipv6() { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn seconds(ms: u64) -> String {
    format!("{:.1}s", ms as f64 / 1000.0)
}

fn estimate(doc: &MaceDoc) -> String {
    let MaceDoc { counts, .. } = doc;
    let measured = doc.measured_wire_bps.map_or_else(|| "not yet".to_owned(), rate);
    let doubt = if doc.in_doubt { " (declared: the measurement is in doubt)" } else { "" };
    let mut text = format!(
        "interface  {}\nrule       {}, a sample each {}, windows of {}\nallocated  {}\ndeclared   {} by {} flows\n\
         measured   {measured}\nestimated  {}{doubt}\nasked      {}: admitted {}, refused {}, failed {}\n\
         demoted    {} silent, {} ended\nsamples    {}, not believed or missed {}\n",
        doc.interface,
        doc.rule,
        seconds(doc.period_ms),
        doc.window,
        rate(doc.allocated_wire_bps),
        rate(doc.declared_wire_bps),
        doc.promoted,
        rate(doc.estimate_wire_bps),
        counts.asked,
        counts.admitted,
        counts.refused,
        counts.failed,
        counts.silent,
        counts.ended,
        counts.samples,
        counts.doubted,
    );
    if let Some(signalled) = doc.signalled {
        text.push_str(&format!("signalled  {signalled} reservations by measurement, among what is declared\n"));
    }
    if !doc.shadows.is_empty() {
        let mut table = TextTable::new(&[("in shadow", L), ("estimated", R), ("would admit", R), ("would refuse", R)]);
        for row in &doc.shadows {
            let (admitted, refused) = (row.admitted.to_string(), row.refused.to_string());
            table.row([row.rule.clone(), rate(row.estimate_wire_bps), admitted, refused]);
        }
        text.push_str(&table.to_string());
    }
    text
}

fn applications(doc: &MaceDoc) -> String {
    let mut table = TextTable::new(&[
        ("name", L),
        ("protocol", L),
        ("ports", L),
        ("rate", R),
        ("bucket", R),
        ("packets", R),
        ("timeout", R),
        ("asked", R),
        ("admitted", R),
    ]);
    for row in &doc.applications {
        let ports = match (row.first_port, row.last_port) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        table.row([
            row.name.clone(),
            if row.protocol == 6 { "tcp" } else { "udp" }.to_owned(),
            ports,
            rate(row.rate_bps),
            format!("{}b", row.bucket_bytes),
            row.threshold.to_string(),
            seconds(row.timeout_ms),
            row.asked.to_string(),
            row.admitted.to_string(),
        ]);
    }
    if table.is_empty() { format!("{}: the list is empty\n", doc.interface) } else { table.to_string() }
}

/// The columns of the rules: that in force, and those in shadow.
fn rules(doc: &MaceDoc) -> Vec<&str> {
    [doc.rule.as_str()].into_iter().chain(doc.shadows.iter().map(|shadow| shadow.rule.as_str())).collect()
}

fn admit(doc: &MaceDoc) -> String {
    let rules = rules(doc);
    let yes = |said: &[String], rule: &str| if said.iter().any(|one| one == rule) { "yes" } else { "no" }.to_owned();
    let columns = |first: &[(&str, Align)]| -> Vec<(String, Align)> {
        first
            .iter()
            .copied()
            .chain(rules.iter().map(|rule| (*rule, L)))
            .map(|(name, side)| (name.to_owned(), side))
            .collect()
    };
    let mut next = TextTable::new(&columns(&[("one more", L), ("declares", R)]));
    for row in &doc.applications {
        let said = rules.iter().map(|rule| yes(&row.would_admit, rule));
        next.row([row.name.clone(), rate(row.declared_wire_bps)].into_iter().chain(said));
    }
    let mut last = TextTable::new(&columns(&[
        ("ago", R),
        ("from", L),
        ("to", L),
        ("application", L),
        ("declared", R),
        ("beside", R),
    ]));
    for row in &doc.decisions {
        let force = if row.admitted { "yes" } else { "no" }.to_owned();
        let shadows = rules.iter().skip(1).map(|rule| yes(&row.would_admit, rule));
        let cells = [
            seconds(row.age_ms),
            end(row.sender.src, row.sender.src_port),
            end(row.session.dst, row.session.dst_port.into()),
            row.application.clone(),
            rate(row.declared_wire_bps),
            rate(row.estimate_wire_bps),
        ];
        last.row(cells.into_iter().chain([force]).chain(shadows));
    }
    let decided = if last.is_empty() { "no flow has asked yet\n".to_owned() } else { last.to_string() };
    format!("{}: {} decides\n{next}\n{decided}", doc.interface, doc.rule)
}
