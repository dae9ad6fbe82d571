//! `sluice may`: the rule of the policy that would decide, and its reason.

use super::args::MayArgs;
use super::booking_client::{BookingClient, BookingOrder};
use super::times::Calendar;
use super::{ask, here, print_json};
use crate::complain::Complaint;
use documents::agent::{MayDoc, SignalDoc};
use documents::event::Direction;
use documents::units;
use std::fmt::Write;
use std::process::ExitCode;

/// The word for the caller itself.
const ME: &str = "me";

/// `sluice may`: exit status 1 if some of it would be refused.
pub fn may(args: &MayArgs) -> Result<ExitCode, Complaint> {
    let want = &args.want;
    let calendar = here(want.zone.as_deref())?;
    if args.who == ME && !args.member.is_empty() {
        return Err(Complaint::usage("--member is for others: your own groups are known"));
    }
    let who = (args.who != ME).then_some((args.who.as_str(), args.member.as_slice()));
    let said = match signal(args)? {
        Some(signal) => {
            let mut desk = BookingClient::open(&want.book, false)?;
            let said = desk.may_signal(who, args.at.as_deref(), signal);
            said.map_err(|failed| failed.complaint(&[], &calendar, want.json))?
        }
        None => {
            let asked = booked(args, &calendar)?;
            let resources = asked.resources();
            let mut desk = BookingClient::open(&want.book, false)?;
            desk.may(who, asked.ask).map_err(|failed| failed.complaint(&resources, &calendar, want.json))?
        }
    };
    match want.json {
        true => print_json(&said)?,
        false => print!("{}", text(&said)),
    }
    Ok(if said.allowed() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The booking in question.
fn booked(args: &MayArgs, calendar: &Calendar) -> Result<BookingOrder, Complaint> {
    let asked = ask::asked(&args.want, &args.packets, calendar)?;
    if asked.path.is_some() || asked.ask.parts.is_empty() {
        return Err(Complaint::usage("name the resources: policy is about those, as in net/eth1=3mbit"));
    }
    if asked.ask.when.volume.is_some() {
        return Err(Complaint::usage("how much at once? a policy is about rates: --volume says none"));
    }
    Ok(asked)
}

/// The signalled request in question, if there is one.
fn signal(args: &MayArgs) -> Result<Option<SignalDoc>, Complaint> {
    let (Some(how), Some(to)) = (args.signal, args.packets.to) else { return Ok(None) };
    let rate = |text: &Option<String>| {
        let rate = text.as_ref().map(|text| units::parse_rate(text)).transpose().map_err(Complaint::usage)?;
        Ok::<u64, Complaint>(rate.map_or(0, |rate| rate.as_bps()))
    };
    let (when, from) = ask::begins(&args.want, &args.packets)?;
    if when.is_some() {
        return Err(Complaint::usage("what is signalled begins now: --from says from which host"));
    }
    let (rate, reverse) = (rate(&args.want.forward)?, rate(&args.want.reverse)?);
    let src = from.map(|from| from.address.to_string());
    Ok(Some(SignalDoc { how, src, dst: to.address.to_string(), rate, reverse, priority: args.priority }))
}

fn text(said: &MayDoc) -> String {
    let groups =
        if said.groups.is_empty() { "no groups".to_owned() } else { format!("groups {}", said.groups.join(", ")) };
    let mut text = format!("{} ({groups}), {}\n", said.who, said.role);
    for part in &said.parts {
        let yes = if part.allowed { "yes" } else { "no" };
        let by = if part.rule.is_empty() { String::new() } else { format!(", by the rule {:?}", part.rule) };
        let why = part.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let resource = if part.resource.is_empty() { "no interface in particular" } else { &part.resource };
        let way = part.way.map(|way| if way == Direction::In { " in" } else { " out" }).unwrap_or_default();
        let _ = writeln!(text, "{resource}{way}: {yes}{by}{why}");
    }
    text
}
