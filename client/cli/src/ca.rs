//! `sluice ca`: the authority of a site, its certificates and their revocation.

use crate::complain::Complaint;
use clap::{Args, Subcommand};
use rpc::table::{Align, TextTable};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use terms::{Span, Time};
use trust::{Authority, CertificateRequest, CertificateRole, Identity};

/// The default folder of this machine's authority.
const DIR: &str = "/etc/sluice/trust";

/// `sluice ca`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  sluice ca                                     an authority, a broker for this machine, an operator `root`\n  \
                  sluice ca --broker broker.example.org --requester alice --requester bob --agent maui=10.0.0.1\n  \
                  sluice ca --requester alice --group alice=physics  policies say @physics for all of them\n  \
                  sluice ca list\n  \
                  sluice ca revoke requester/bob                brokers refuse it from now on, on open connections too\n\n\
                  Give a broker: ca.pem, revoked.pem, broker-*.pem, broker-*.key. Give an agent that listens: ca.pem, revoked.pem, agent-*.pem, agent-*.key.\n\
                  Give a requester: ca.pem and its own two files.\n\
                  ca.key stays where it is: who has it is the authority."
)]
pub struct CaArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Option<CaCommand>,
    /// The folder; made if it is not there
    #[arg(long, value_name = "DIR", default_value = DIR, global = true)]
    pub dir: PathBuf,
    /// The site's name, in the authority's certificate
    #[arg(long, value_name = "NAME", default_value = "site")]
    pub name: String,
    /// A host name or address of the broker; may be repeated [default: localhost, its addresses, and this host's name]
    #[arg(long, value_name = "HOST")]
    pub broker: Vec<String>,
    /// A requester, who reserves and sees their own reservations; may be repeated
    #[arg(long, value_name = "NAME")]
    pub requester: Vec<String>,
    /// An operator, who sees and changes everything; may be repeated [default: root]
    #[arg(long, value_name = "NAME")]
    pub operator: Vec<String>,
    /// An auditor, who sees everything and changes nothing; may be repeated
    #[arg(long, value_name = "NAME")]
    pub auditor: Vec<String>,
    /// An agent and a host name or address of it; may be repeated
    #[arg(long, value_name = "NAME=HOST")]
    pub agent: Vec<String>,
    /// A group of one of those named here, as in alice=physics; may be repeated. Policies write it @physics
    #[arg(long, value_name = "NAME=GROUP")]
    pub group: Vec<String>,
    /// The lifetime of the new certificates
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "365d")]
    pub life: Span,
    /// Print one JSON object
    #[arg(long, global = true)]
    pub json: bool,
}

/// `sluice ca ...`.
#[derive(Subcommand, Debug)]
pub enum CaCommand {
    /// List every certificate: its name, its end, and its revocation
    List,
    /// Revoke a certificate
    Revoke {
        /// ROLE/NAME, as `sluice ca list` prints it
        who: String,
    },
}

/// Runs the command.
pub fn run(args: &CaArgs) -> Result<ExitCode, Complaint> {
    let now = linux::clock::Clock::start().now();
    match &args.command {
        None => make(args, now),
        Some(CaCommand::List) => list(args, now),
        Some(CaCommand::Revoke { who }) => revoke(args, who, now),
    }
}

fn make(args: &CaArgs, now: Time) -> Result<ExitCode, Complaint> {
    let wanted = wanted(args)?;
    let (authority, new) = Authority::open_or_make(&args.dir, &args.name, now).map_err(complaint)?;
    let mut rows = Vec::new();
    for request in wanted {
        let files = authority.files_of(request.role, &request.name);
        let made = !files.certificate.exists();
        if made {
            authority.issue(&request, now).map_err(complaint)?;
        } else if !request.groups.is_empty() {
            has_groups(&authority, &request)?;
        }
        rows.push((format!("{}/{}", request.role, request.name), files, made));
    }
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(who, files, made)| json!({"who": who, "certificate": files.certificate, "key": files.key, "made": made}))
            .collect();
        println!("{}", json!({"dir": args.dir, "made": new, "certificates": rows}));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}: {}", args.dir.display(), if new { "a new authority" } else { "the authority that was there" });
    let mut table = TextTable::new(&[("who", Align::Left), ("certificate", Align::Left), ("", Align::Left)]);
    for (who, files, made) in rows {
        let how = if made { "made" } else { "was there" };
        table.row([who, files.certificate.display().to_string(), how.to_owned()]);
    }
    print!("{table}");
    Ok(ExitCode::SUCCESS)
}

/// Checks that an existing certificate has the requested groups, because it is left alone.
fn has_groups(authority: &Authority, request: &CertificateRequest) -> Result<(), Complaint> {
    let file = authority.files_of(request.role, &request.name).certificate;
    let all = authority.list().map_err(complaint)?;
    let has = all.into_iter().find(|one| one.certificate == file).map(|one| one.identity.groups).unwrap_or_default();
    if request.groups.iter().all(|group| has.contains(group)) {
        return Ok(());
    }
    let (who, has) = (format!("{}/{}", request.role, request.name), has.join(", "));
    let what = format!("{who} was there, with the groups [{has}]: revoke it, and move {} away", file.display());
    Err(Complaint::usage(what))
}

/// The certificates that the arguments ask for.
fn wanted(args: &CaArgs) -> Result<Vec<CertificateRequest>, Complaint> {
    let request = |role, name: &str, hosts| CertificateRequest {
        role,
        name: name.to_owned(),
        hosts,
        groups: Vec::new(),
        life: args.life,
    };
    let brokers = if args.broker.is_empty() { own_names() } else { args.broker.clone() };
    let mut wanted = vec![request(CertificateRole::Broker, "main", brokers)];
    let root = ["root".to_owned()];
    let operators = if args.operator.is_empty() { &root[..] } else { &args.operator };
    for (role, names) in [
        (CertificateRole::Operator, operators),
        (CertificateRole::Auditor, &args.auditor[..]),
        (CertificateRole::Requester, &args.requester[..]),
    ] {
        wanted.extend(names.iter().map(|name| request(role, name, Vec::new())));
    }
    for agent in &args.agent {
        let (name, host) = agent
            .split_once('=')
            .ok_or_else(|| Complaint::usage(format!("{agent:?}: an agent is NAME=HOST, as in maui=10.0.0.1")))?;
        match wanted.iter_mut().find(|other| other.role == CertificateRole::Agent && other.name == name) {
            Some(same) => same.hosts.push(host.to_owned()),
            None => wanted.push(request(CertificateRole::Agent, name, vec![host.to_owned()])),
        }
    }
    for group in &args.group {
        let wrong = |what: &str| Complaint::usage(format!("--group {group}: {what}"));
        let (name, group) = group.split_once('=').ok_or_else(|| wrong("write NAME=GROUP, as in alice=physics"))?;
        let mut named = wanted.iter_mut().filter(|one| !one.role.serves() && one.name == name).peekable();
        if named.peek().is_none() {
            return Err(wrong("name the requester, operator or auditor beside it, as in --requester alice"));
        }
        named.for_each(|one| one.groups.push(group.to_owned()));
    }
    Ok(wanted)
}

/// The names of this machine: the loopback's, and its host name.
fn own_names() -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    if !host.is_empty() && host != "localhost" && host.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)) {
        names.push(host.to_owned());
    }
    names
}

fn list(args: &CaArgs, now: Time) -> Result<ExitCode, Complaint> {
    let all = Authority::open(&args.dir).and_then(|authority| authority.list()).map_err(complaint)?;
    let state = |identity: &Identity, revoked: bool| match (revoked, now >= identity.not_after) {
        (true, _) => "revoked",
        (false, true) => "expired",
        (false, false) => "good",
    };
    if args.json {
        let rows: Vec<_> = all
            .iter()
            .map(|one| {
                let who = &one.identity;
                json!({"who": who.to_string(), "groups": who.groups, "serial": who.serial_text(), "not_after_s": who.not_after.as_secs(),
                       "state": state(who, one.revoked), "certificate": one.certificate})
            })
            .collect();
        println!("{}", json!({"dir": args.dir, "certificates": rows}));
        return Ok(ExitCode::SUCCESS);
    }
    let head = [
        ("who", Align::Left),
        ("groups", Align::Left),
        ("is", Align::Left),
        ("days left", Align::Right),
        ("serial", Align::Left),
    ];
    let mut table = TextTable::new(&head);
    for one in all {
        let days = one.identity.not_after.since(now).as_nanos() / 86_400_000_000_000;
        let is = state(&one.identity, one.revoked).to_owned();
        let groups = one.identity.groups.join(",");
        table.row([one.identity.to_string(), groups, is, days.to_string(), one.identity.serial_text()]);
    }
    print!("{table}");
    Ok(ExitCode::SUCCESS)
}

fn revoke(args: &CaArgs, who: &str, now: Time) -> Result<ExitCode, Complaint> {
    let wrong =
        || Complaint::usage(format!("{who:?}: write ROLE/NAME, as in requester/alice; `sluice ca list` shows them"));
    let (role, name) = who.split_once('/').ok_or_else(wrong)?;
    let role = CertificateRole::named(role).ok_or_else(wrong)?;
    let authority = Authority::open(&args.dir).map_err(complaint)?;
    let new = authority.revoke(role, name, now).map_err(complaint)?;
    let list = authority.revoked_file();
    if args.json {
        println!("{}", json!({"who": who, "revoked": true, "new": new, "list": list}));
    } else {
        let how = if new { "is revoked" } else { "was revoked before" };
        println!("{who} {how}: {} says so; brokers elsewhere need a copy of it", list.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn complaint(error: trust::Error) -> Complaint {
    match error {
        trust::Error::Misuse(what) => Complaint::usage(what),
        other => Complaint::world(other.to_string()),
    }
}
