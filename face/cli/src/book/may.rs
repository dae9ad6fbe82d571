//! `sluice may`: which rule of the policy would decide, and why.

use super::args::MayArgs;
use super::desk::Desk;
use super::{ask, here, print_json};
use crate::complain::Complaint;
use api::agent::MayDoc;
use std::fmt::Write;
use std::process::ExitCode;

/// The word for whoever asks.
const ME: &str = "me";

/// `sluice may`: exit status 1 if some of it would be refused.
pub fn may(args: &MayArgs) -> Result<ExitCode, Complaint> {
    let want = &args.want;
    let calendar = here(want.zone.as_deref())?;
    let asked = ask::asked(want, &args.packets, &calendar)?;
    if asked.path.is_some() || asked.ask.parts.is_empty() {
        return Err(Complaint::usage("name the resources: policy is about those, as in net/eth1=3mbit"));
    }
    if asked.ask.volume.is_some() {
        return Err(Complaint::usage("how much at once? a policy is about rates: --volume says none"));
    }
    if args.who == ME && !args.member.is_empty() {
        return Err(Complaint::usage("--member is for others: your own groups are known"));
    }
    let who = (args.who != ME).then_some((args.who.as_str(), args.member.as_slice()));
    let resources = asked.resources();
    let mut desk = Desk::open(&want.book, false)?;
    let said = desk.may(who, asked.ask).map_err(|failed| failed.complaint(&resources, &calendar, want.json))?;
    match want.json {
        true => print_json(&said)?,
        false => print!("{}", text(&said)),
    }
    Ok(if said.allowed() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn text(said: &MayDoc) -> String {
    let groups =
        if said.groups.is_empty() { "no groups".to_owned() } else { format!("groups {}", said.groups.join(", ")) };
    let mut text = format!("{} ({groups}), {}\n", said.who, said.role);
    for part in &said.parts {
        let yes = if part.allowed { "yes" } else { "no" };
        let by = if part.rule.is_empty() { String::new() } else { format!(", by the rule {:?}", part.rule) };
        let why = part.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let _ = writeln!(text, "{}: {yes}{by}{why}", part.resource);
    }
    text
}
