//! From arguments to the book's documents.

use super::args::{End, WantArgs, WhoseArgs};
use super::times::Calendar;
use crate::complain::Complaint;
use api::book::{AskDoc, BackgroundDoc, BindingDoc, FlowDoc, PartDoc, VolumeDoc};
use api::units;
use terms::book::Kind;

/// The request that the arguments are.
pub fn asked(want: &WantArgs, calendar: &Calendar) -> Result<AskDoc, Complaint> {
    let bad = Complaint::usage;
    let time = |text: &Option<String>| text.as_ref().map(|text| calendar.time(text)).transpose().map_err(bad);
    let mut ask = AskDoc {
        parts: want.parts.iter().map(|text| part(text, want)).collect::<Result<_, _>>().map_err(bad)?,
        start: time(&want.from)?,
        duration_s: want.duration.map(|span| span.as_nanos() as f64 / 1e9),
        earliest: want.earliest,
        label: want.label.clone(),
        ..AskDoc::default()
    };
    let by = time(&want.by)?;
    match (&want.volume, by) {
        (Some(text), Some(deadline)) => {
            let bytes = units::parse_bytes(&text.to_lowercase()).map_err(bad)?.get();
            ask.volume = Some(VolumeDoc { bytes, deadline });
        }
        (None, Some(_)) if !want.earliest => {
            return Err(bad("--by goes with --volume or --earliest".to_owned()));
        }
        (_, by) => ask.end = by,
    }
    let Some(window) = &want.window else { return Ok(ask) };
    let window = calendar.window(window).map_err(bad)?;
    let Some(repeat) = want.repeat else {
        (ask.start, ask.end) = (window.start, window.end);
        return Ok(ask);
    };
    let until = time(&want.until)?;
    ask.windows = calendar.repeated(&window, repeat, want.times, until).map_err(bad)?;
    if want.some {
        ask.may_fail = (0..ask.windows.len()).collect();
    }
    Ok(ask)
}

/// `net/eth1=30mbit:10mbit`: at most, at least.
fn part(text: &str, want: &WantArgs) -> Result<PartDoc, String> {
    let (resource, amount) = match text.split_once('=') {
        Some((resource, amount)) => (resource, Some(amount)),
        None if want.volume.is_some() => (text, None),
        None => return Err(format!("how much of {text}? write {text}=3mbit, cpu=0.5, licence/solver=2")),
    };
    let (most, least) = match amount.map(|amount| amount.split_once(':').unwrap_or((amount, ""))) {
        Some((most, "")) => (Some(most), None),
        Some((most, least)) => (Some(most), Some(least)),
        None => (None, None),
    };
    let kind = Kind::of(resource);
    let mut part = PartDoc { resource: resource.to_owned(), ..PartDoc::default() };
    if let Some(most) = most {
        let amount = amount_of(kind, most)?;
        match kind {
            Kind::Network => part.rate = Some(amount as u64),
            Kind::Disk => part.bytes_per_s = Some(amount as u64),
            Kind::Cpu => part.cores = Some(amount),
            Kind::Countable => part.count = Some(amount as u64),
        }
    }
    part.at_least = least.map(|least| amount_of(kind, least)).transpose()?;
    part.background = want.background.map(|weight| BackgroundDoc { weight, floor: 0.0 });
    Ok(part)
}

/// An amount in the unit that documents count the kind in.
pub fn amount_of(kind: Kind, text: &str) -> Result<f64, String> {
    match kind {
        Kind::Network => units::parse_rate(text).map(|rate| rate.as_bps() as f64),
        Kind::Disk => units::parse_rate(text).map(|rate| (rate.as_bps() / 8) as f64),
        Kind::Cpu => {
            let cores = text.parse::<f64>().ok().filter(|cores| cores.is_finite() && *cores >= 0.0);
            cores.ok_or_else(|| format!("{text:?} is no number of cores: write 2 or 0.5"))
        }
        Kind::Countable => {
            let pieces = text.parse::<u32>().map(f64::from);
            pieces.map_err(|_| format!("{text:?} is no number of pieces"))
        }
    }
}

/// Whose, if anybody was named.
pub fn whose(args: &WhoseArgs) -> Option<BindingDoc> {
    let all =
        [args.pid.map(BindingDoc::Pid), args.tid.map(BindingDoc::Tid), args.cgroup.clone().map(BindingDoc::Cgroup)];
    if let Some(found) = all.into_iter().flatten().next() {
        return Some(found);
    }
    let address = |end: Option<End>| end.map(|end| end.address);
    let port = |end: Option<End>| end.and_then(|end| end.port);
    let flow = FlowDoc {
        src: address(args.source),
        dst: address(args.to),
        protocol: args.protocol,
        src_port: port(args.source),
        dst_port: port(args.to),
    };
    (flow != FlowDoc::default()).then_some(BindingDoc::Flow(flow))
}

/// Gives the part that a binding fits to this binding.
///
/// # Errors
/// There is none, or there are several.
pub fn bind(ask: &mut AskDoc, binding: BindingDoc) -> Result<(), Complaint> {
    let packets = matches!(binding, BindingDoc::Flow(_));
    let fits = |part: &&mut PartDoc| match Kind::of(&part.resource) {
        Kind::Network => packets,
        Kind::Cpu | Kind::Disk => !packets,
        Kind::Countable => false,
    };
    let mut fitting: Vec<&mut PartDoc> = ask.parts.iter_mut().filter(fits).collect();
    if !packets {
        // A process may have a processor and a disk.
        fitting.iter_mut().for_each(|part| part.binding = Some(binding.clone()));
    } else if let [part] = fitting.as_mut_slice() {
        part.binding = Some(binding);
        return Ok(());
    }
    if packets || fitting.is_empty() {
        return Err(Complaint::usage(
            "this binding fits no part, or several: say it later with `sluice bind --part N`",
        ));
    }
    Ok(())
}
