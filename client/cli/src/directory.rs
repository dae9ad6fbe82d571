//! `sluice directory`: what there is, published to an LDAP directory once or again and again, and read back.

use crate::book::times::Calendar;
use crate::complain::Complaint;
use crate::places::BookArgs;
use ::directory::place::password;
use ::directory::publish::{PublishSettings, SiteSnapshot, ToPublish, entries};
use ::directory::server::{DirectoryLook, MAX_ENTRIES};
use ::directory::sync::{DirectoryChange, DirectoryReport, DirectoryUpdate, plan};
use ::directory::{DirectoryError, DirectoryPlace, DirectoryServer, Login, ldif};
use clap::{Args, Subcommand};
use documents::agent::{Answer, Request};
use documents::book::{BookAnswer, Instant, WindowDoc};
use documents::overview::AgentRow;
use documents::units;
use linux::clock::Clock;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use terms::Span;

mod show;

/// How long entries of a single round may be believed.
const ONCE: Span = Span::from_secs(300);
/// The pause before the next attempt, where the period is longer.
const AGAIN: Duration = Duration::from_secs(10);

/// `sluice directory`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  sluice directory --ldif                          what would be published, on standard output; needs no server\n  \
                  sluice directory --server ldapi:/// --base ou=sluice,dc=example,dc=org --check\n  \
                  sluice directory --server ldapi:/// --base ou=sluice,dc=example,dc=org --every 60s\n  \
                  sluice directory --server ldaps://ldap.example.org --server-ca ca.pem --base ou=sluice,dc=example,dc=org \\\n    \
                  --bind-dn cn=sluice,dc=example,dc=org --password-file /etc/sluice/ldap.password\n  \
                  sluice directory show --server ldapi:/// --base ou=sluice,dc=example,dc=org --json\n\
It asks the broker (--broker), or one agent (--socket, --node), with the rights of whoever runs it: a certificate of an auditor \
is enough. Exit status 1: some entries were refused; 3: the directory, the broker or the agent is away. The schema: \
dist/ldap; see docs/directory.md."
)]
pub struct DirectoryArgs {
    /// Another action.
    #[command(subcommand)]
    pub command: Option<DirectoryCommand>,
    /// The broker or the agent.
    #[command(flatten)]
    pub book: BookArgs,
    /// The directory.
    #[command(flatten)]
    pub at: DirectoryAt,
    /// Publish again and again, at this interval
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, conflicts_with_all = ["ldif", "check"])]
    pub every: Option<Span>,
    /// How long an entry may be believed [default: three intervals, or 5m]
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub valid: Option<Span>,
    /// The name by which we know our own entries again [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    pub publisher: Option<String>,
    /// The address at which to reserve, for readers [default: the broker or agent, if it is on another machine]
    #[arg(long, value_name = "URL")]
    pub contact: Vec<String>,
    /// How far ahead the next change is looked for
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "7d")]
    pub ahead: Span,
    /// Print the entries as LDIF instead
    #[arg(long, conflicts_with = "check")]
    pub ldif: bool,
    /// Look whether it would work, and what it would change; write nothing
    #[arg(long)]
    pub check: bool,
}

/// `sluice directory show`.
#[derive(Subcommand, Debug)]
pub enum DirectoryCommand {
    /// Show what a directory says and may still be believed
    #[command(
        after_help = "Examples:\n  sluice directory show --server ldapi:/// --base ou=sluice,dc=example,dc=org\n  \
                            sluice directory show --server ldaps://ldap.example.org --server-ca ca.pem --base ou=sluice,dc=example,dc=org --json"
    )]
    Show(show::ShowArgs),
}

/// A directory, and who we are there.
#[derive(Args, Debug)]
pub struct DirectoryAt {
    /// ldapi:///, ldapi://%2FPATH%2FTO%2FSOCKET or ldaps://HOST[:PORT]
    #[arg(long, value_name = "URL", env = "SLUICE_DIRECTORY")]
    pub server: Option<String>,
    /// The entry below which everything is: ou=sluice,dc=example,dc=org
    #[arg(long, value_name = "DN", env = "SLUICE_DIRECTORY_BASE")]
    pub base: Option<String>,
    /// For ldaps://: the authority that vouches for the server
    #[arg(long, value_name = "FILE")]
    pub server_ca: Option<PathBuf>,
    /// Our name there [default: on a socket the user of this process, elsewhere none]
    #[arg(long, value_name = "DN", requires = "password_file")]
    pub bind_dn: Option<String>,
    /// The file with its password, which no other user may read
    #[arg(long, value_name = "FILE", requires = "bind_dn")]
    pub password_file: Option<PathBuf>,
    /// The longest wait for an answer of the directory
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "10s")]
    pub patience: Span,
}

impl DirectoryAt {
    fn base(&self) -> Result<&str, Complaint> {
        let base = self.base.as_deref().filter(|base| base.contains('=') && base.len() <= 1024);
        let odd = || Complaint::usage("--base ou=sluice,dc=example,dc=org: the entry below which everything is");
        base.filter(|base| !base.chars().any(char::is_control)).ok_or_else(odd)
    }

    /// Connects.
    fn open(&self) -> Result<DirectoryServer, Complaint> {
        let text = self.server.as_deref().ok_or_else(|| Complaint::usage("--server: which directory?"))?;
        let place = DirectoryPlace::parse(text).map_err(Complaint::usage)?;
        let login = match (&self.bind_dn, &self.password_file) {
            (Some(name), Some(file)) => Login::Password(name.clone(), password(file).map_err(Complaint::usage)?),
            _ if matches!(place, DirectoryPlace::Socket(_)) => Login::External,
            _ => Login::Anonymous,
        };
        let patience = Duration::from_nanos(self.patience.as_nanos().max(1));
        DirectoryServer::open(&place, self.server_ca.as_deref(), &login, patience).map_err(complaint)
    }
}

fn complaint(error: DirectoryError) -> Complaint {
    match error {
        DirectoryError::Away(_) => Complaint::world(error.to_string()),
        DirectoryError::Refused { .. } => Complaint::refused(error.to_string()),
    }
}

/// Publishes, prints or checks.
pub fn run(args: &DirectoryArgs) -> Result<ExitCode, Complaint> {
    if let Some(DirectoryCommand::Show(args)) = &args.command {
        return show::run(args);
    }
    let settings = settings(args)?;
    if args.ldif {
        let found = entries(&ask(args)?, &settings);
        said(&found);
        print!("{}", ldif::text(&found.entries, args.at.base.as_deref().unwrap_or("ou=sluice")));
        return Ok(ExitCode::SUCCESS);
    }
    args.at.base()?;
    if args.check {
        return check(args, &settings);
    }
    let Some(every) = args.every else {
        let (report, left_out) = round(args, &settings)?;
        println!("{}", line(&report));
        return Ok(if report.failed > 0 || left_out > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS });
    };
    again_and_again(args, &settings, Duration::from_nanos(every.as_nanos()))
}

/// Publishes at this interval, for ever; a line says what is not as it was the last time.
fn again_and_again(args: &DirectoryArgs, settings: &PublishSettings, every: Duration) -> Result<ExitCode, Complaint> {
    let mut before = String::new();
    loop {
        let begun = std::time::Instant::now();
        let (now, pause) = match round(args, settings) {
            Ok((report, _)) => (line(&report), every),
            // What is wrong with the command line does not mend itself.
            Err(complaint) if complaint.exit_code() == 2 => return Err(complaint),
            Err(complaint) => (complaint.to_string(), every.min(AGAIN)),
        };
        if now != before {
            eprintln!("sluice: {now}");
            before = now;
        }
        std::thread::sleep(pause.saturating_sub(begun.elapsed()));
    }
}

fn settings(args: &DirectoryArgs) -> Result<PublishSettings, Complaint> {
    let every = args.every.unwrap_or(Span::ZERO);
    if args.every.is_some() && !(Span::from_secs(1)..=Span::from_secs(86_400)).contains(&every) {
        return Err(Complaint::usage("--every: from 1s to 24h"));
    }
    let usual = args.every.map_or(ONCE, |every| every.saturating_add(every).saturating_add(every));
    let valid = args.valid.unwrap_or(usual);
    if valid <= every || valid < Span::from_secs(1) {
        return Err(Complaint::usage(
            "--valid: longer than the interval, or entries are too old before they are renewed",
        ));
    }
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    let publisher = args.publisher.clone().map_or_else(host, Ok)?;
    if publisher.is_empty() || publisher.len() > 256 || publisher.chars().any(char::is_control) {
        return Err(Complaint::usage("--publisher: a name of 1 to 256 bytes"));
    }
    let place = args.book.broker.clone().or_else(|| args.book.agent.socket.clone()).unwrap_or_default();
    let afar = place.split(',').filter(|place| place.starts_with("https://") || place.starts_with("tls://"));
    let contact = if args.contact.is_empty() { afar.map(str::to_owned).collect() } else { args.contact.clone() };
    Ok(PublishSettings { publisher, valid, contact, most: MAX_ENTRIES })
}

/// One round: asks, and brings the directory up to date. How many entries were left out is beside the report.
fn round(args: &DirectoryArgs, settings: &PublishSettings) -> Result<(DirectoryReport, usize), Complaint> {
    let asked = ask(args);
    // If nobody answers, what is too old must go all the same.
    let found = asked.as_ref().map_or_else(|_| ToPublish::nothing(), |seen| entries(seen, settings));
    said(&found);
    let mut server = args.at.open()?;
    let now = Instant(Clock::start().today());
    let mut update = DirectoryUpdate::new(&mut server, args.at.base()?, &settings.publisher, now);
    update.make_base().map_err(complaint)?;
    let known = update.known(&found).map_err(complaint)?;
    let (report, ended) = update.carry_out(&plan(&known, &found, now));
    report.reasons.iter().for_each(|why| eprintln!("sluice: {why}"));
    ended.map_err(|error| Complaint::world(format!("{error}; until then: {}", line(&report))))?;
    asked?;
    Ok((report, found.left_out.len()))
}

fn said(found: &ToPublish) {
    found.left_out.iter().for_each(|why| eprintln!("sluice: not published: {why}"));
}

fn line(report: &DirectoryReport) -> String {
    let DirectoryReport { added, renewed, removed, failed, .. } = report;
    let failed = if *failed > 0 { format!(", {failed} refused") } else { String::new() };
    format!("published: {added} new, {renewed} renewed, {removed} removed{failed}")
}

/// Looks at everything that publishing needs, and writes nothing.
fn check(args: &DirectoryArgs, settings: &PublishSettings) -> Result<ExitCode, Complaint> {
    let found = entries(&ask(args)?, settings);
    said(&found);
    let mut server = args.at.open()?;
    let base = args.at.base()?;
    match server.has_schema().map_err(complaint)? {
        Some(true) => {}
        Some(false) => return Err(Complaint::refused("the directory has not our schema: add dist/ldap/sluice.ldif")),
        None => println!("the directory does not show its schema: whether it has ours is not known"),
    }
    if server.look(base).map_err(complaint)? == DirectoryLook::Nothing {
        println!("{base} is not there: it would be made");
    }
    let now = Instant(Clock::start().today());
    let known = DirectoryUpdate::new(&mut server, base, &settings.publisher, now).known(&found).map_err(complaint)?;
    let changes = plan(&known, &found, now);
    let count = |wanted: fn(&DirectoryChange) -> bool| changes.iter().filter(|change| wanted(change)).count();
    println!(
        "no mistake found: {} would be new, {} renewed, {} removed",
        count(|change| matches!(change, DirectoryChange::Add(_))),
        count(|change| matches!(change, DirectoryChange::Replace(..))),
        count(|change| matches!(change, DirectoryChange::Remove(..)))
    );
    Ok(if found.left_out.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Asks the broker or the agent.
fn ask(args: &DirectoryArgs) -> Result<SiteSnapshot, Complaint> {
    let at = Instant(Clock::start().today());
    let window = WindowDoc { start: at, end: Instant(at.0.saturating_add(args.ahead)) };
    let Some(client) = args.book.broker(true)? else { return ask_agent(args, at, window) };
    let told = |error: broker_service::client::Error| Complaint::world(error.to_string());
    let agents = client.agents().map_err(told)?.agents;
    let resources = client.resources(Some(window)).map_err(told)?.resources;
    let domains = client.topology(None).map_err(told)?;
    let own = domains.domains.into_iter().find(|row| row.learnt_from.is_none());
    Ok(SiteSnapshot { at, agents, resources, domain: own.map(|row| row.advertisement) })
}

fn ask_agent(args: &DirectoryArgs, at: Instant, window: WindowDoc) -> Result<SiteSnapshot, Complaint> {
    let mut client = args.book.agent.connect()?;
    let odd = |what: &str| Complaint::world(format!("the agent's answer to {what} makes no sense"));
    let Answer::Hello(hello) = client.call(Request::Hello)? else { return Err(odd("hello")) };
    let Answer::Book(BookAnswer::Resources(mut resources)) = client.call(Request::resources(Some(window)))? else {
        return Err(odd("resources"));
    };
    resources.iter_mut().for_each(|row| row.resource = format!("{}/{}", hello.node, row.resource));
    let (node, version) = (Some(hello.node.clone()), Some(hello.version));
    let row = AgentRow { agent: hello.node, node, version, uptime_ms: Some(hello.uptime_ms), away: None };
    Ok(SiteSnapshot { at, agents: vec![row], resources, domain: None })
}

/// The calendar of what is shown.
fn calendar() -> Result<Calendar, Complaint> {
    Calendar::here(None).map_err(Complaint::usage)
}
