//! Conversion of arguments to the documents of requests.

use super::args::{End, Lasting, PacketArgs, WantArgs, WhoseArgs, end};
use super::booking_client::BookingOrder;
use super::show::kind_of;
use super::times::Calendar;
use crate::complain::Complaint;
use documents::book::{AskDoc, BackgroundDoc, BindingDoc, FlowDoc, Instant, PartDoc, VolumeDoc, WhenDoc};
use documents::rest::{PathWish, Ports};
use documents::units;
use terms::Time;
use terms::book::ResourceKind;

/// The request of the arguments; `packets`: the two hosts of a request between hosts.
pub fn asked(want: &WantArgs, packets: &PacketArgs, calendar: &Calendar) -> Result<BookingOrder, Complaint> {
    let (from, source) = begins(want, packets)?;
    let path = path(want, packets, source)?;
    let ask = windows(want, from, calendar)?;
    if path.is_none() && ask.parts.is_empty() {
        return Err(Complaint::usage(
            "how much of what? name resources, or --forward or --volume with --from and --to",
        ));
    }
    Ok(BookingOrder { ask, path })
}

/// `--from`: a time, an address, or one of each; an address also as `--source`.
pub fn begins<'a>(want: &'a WantArgs, packets: &PacketArgs) -> Result<(Option<&'a String>, Option<End>), Complaint> {
    let (mut when, mut source) = (None, packets.source);
    for text in &want.from {
        let twice = match end(text) {
            Ok(address) => source.replace(address).is_some(),
            Err(_) => when.replace(text).is_some(),
        };
        if twice {
            return Err(Complaint::usage(format!(
                "--from {text}: there is one already; it takes a time and an address"
            )));
        }
    }
    if when.is_some() && want.window.is_some() {
        return Err(Complaint::usage("a window says from when: give --window or --from, not both"));
    }
    Ok((when, source))
}

/// The request between two hosts, if there is one.
fn path(want: &WantArgs, packets: &PacketArgs, source: Option<End>) -> Result<Option<PathWish>, Complaint> {
    let rates = want.forward.is_some() || want.reverse.is_some();
    let alone = want.parts.is_empty() && packets.to.is_some();
    if !rates && !alone {
        return match want.from.iter().find(|text| end(text).is_ok()) {
            // What belongs to a part's binding is said by --source; an enquiry has none.
            Some(text) if packets.to.is_none() => {
                Err(Complaint::usage(format!("from {text}, and where to? give --to")))
            }
            _ => Ok(None),
        };
    }
    if want.meter.is_some() {
        return Err(Complaint::usage("--meter goes with resources that are named, as in net/eth1=10mbit"));
    }
    let (Some(from), Some(to)) = (source, packets.to) else {
        return Err(Complaint::usage("between which hosts? give --from ADDRESS and --to ADDRESS"));
    };
    let rate = |text: &Option<String>| -> Result<(Option<u64>, Option<u64>), Complaint> {
        let Some(text) = text else { return Ok((None, None)) };
        let (most, least) = text.split_once(':').map_or((text.as_str(), None), |(most, least)| (most, Some(least)));
        let read = |text: &str| units::parse_rate(text).map(|rate| rate.as_bps()).map_err(Complaint::usage);
        Ok((Some(read(most)?), least.map(read).transpose()?))
    };
    let ((forward, forward_at_least), (reverse, reverse_at_least)) = (rate(&want.forward)?, rate(&want.reverse)?);
    let ports = Ports { protocol: packets.protocol, from_port: from.port, to_port: to.port };
    Ok(Some(PathWish {
        from: from.address,
        to: to.address,
        forward,
        reverse,
        forward_at_least,
        reverse_at_least,
        background: background(want, ResourceKind::Network).map_err(Complaint::usage)?,
        packet_bytes: packet(want),
        rtt_ms: rtt(want),
        // Without ports it is for later to say whose packets it is for.
        flow: (ports != Ports::default()).then_some(ports),
        tree: false,
    }))
}

fn background(want: &WantArgs, kind: ResourceKind) -> Result<Option<BackgroundDoc>, String> {
    let Some(weight) = want.background else { return Ok(None) };
    let floor = want.floor.as_ref().map(|text| amount_of(kind, text)).transpose()?.unwrap_or(0.0);
    Ok(Some(BackgroundDoc { weight, floor }))
}

fn packet(want: &WantArgs) -> Option<u32> {
    want.packet.map(|packet| u32::try_from(packet.get()).unwrap_or(u32::MAX))
}

fn rtt(want: &WantArgs) -> Option<f64> {
    want.rtt.map(|rtt| rtt.as_nanos() as f64 / 1e6)
}

/// The request for single resources, with its windows.
fn windows(want: &WantArgs, from: Option<&String>, calendar: &Calendar) -> Result<AskDoc, Complaint> {
    let bad = Complaint::usage;
    let time = |text: Option<&String>| text.map(|text| calendar.time(text)).transpose().map_err(bad);
    let mut ask = AskDoc {
        parts: want.parts.iter().map(|text| part(text, want)).collect::<Result<_, _>>().map_err(bad)?,
        label: want.label.clone(),
        ..AskDoc::default()
    };
    ask.when = WhenDoc {
        start: time(from)?,
        duration_s: match want.duration {
            Some(Lasting::Span(span)) => Some(span.as_nanos() as f64 / 1e9),
            Some(Lasting::Ever) if want.earliest => {
                return Err(Complaint::usage("as early as it fits, and for how long?"));
            }
            Some(Lasting::Ever) | None => None,
        },
        earliest: want.earliest,
        ..WhenDoc::default()
    };
    let by = time(want.by.as_ref())?;
    match (&want.volume, by) {
        (Some(text), Some(deadline)) => {
            let bytes = units::parse_volume(&text.to_lowercase()).map_err(bad)?.get();
            ask.when.volume = Some(VolumeDoc { bytes, deadline });
        }
        (None, Some(_)) if !want.earliest => {
            return Err(bad("--by goes with --volume or --earliest".to_owned()));
        }
        (_, by) => ask.when.end = by,
    }
    let forever = Instant(Time::FOREVER);
    if want.duration == Some(Lasting::Ever) && want.volume.is_none() {
        ask.when.end = Some(forever);
    }
    let Some(window) = &want.window else { return Ok(ask) };
    let window = calendar.window(window).map_err(bad)?;
    let Some(repeat) = want.repeat else {
        (ask.when.start, ask.when.end) = (window.start, window.end.or(Some(forever)));
        return Ok(ask);
    };
    let until = want.until.as_ref().map(|text| calendar.end(text)).transpose().map_err(bad)?;
    ask.when.windows = calendar.repeated(&window, repeat, want.times, until).map_err(bad)?;
    if want.some {
        ask.when.may_fail = (0..ask.when.windows.len()).collect();
    }
    Ok(ask)
}

/// `net/eth1=30mbit:10mbit`: the highest and the least amount.
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
    let kind = kind_of(resource);
    if let (ResourceKind::Countable, false, Some(most)) = (kind, resource.contains('/'), most)
        && units::parse_rate(most).is_ok()
    {
        return Err(format!(
            "{resource:?} is no resource that has a rate; did you mean net/{resource}={most}? `sluice calendar` lists them"
        ));
    }
    let mut part = PartDoc { resource: resource.to_owned(), ..PartDoc::default() };
    if let Some(most) = most {
        let amount = amount_of(kind, most)?;
        match kind {
            ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => part.rate = Some(amount as u64),
            ResourceKind::Disk => part.bytes_per_s = Some(amount as u64),
            ResourceKind::Cpu => part.cores = Some(amount),
            ResourceKind::Countable => part.count = Some(amount as u64),
        }
    }
    part.at_least = least.map(|least| amount_of(kind, least)).transpose()?;
    part.background = background(want, kind)?;
    if kind.has_packets() {
        (part.packet_bytes, part.rtt_ms) = (packet(want), rtt(want));
    }
    part.meter = want.meter.clone();
    Ok(part)
}

/// An amount in the unit that documents use for its kind.
pub fn amount_of(kind: ResourceKind, text: &str) -> Result<f64, String> {
    match kind {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => {
            units::parse_rate(text).map(|rate| rate.as_bps() as f64)
        }
        ResourceKind::Disk => units::parse_rate(text).map(|rate| (rate.as_bps() / 8) as f64),
        ResourceKind::Cpu => {
            let cores = text.parse::<f64>().ok().filter(|cores| cores.is_finite() && *cores >= 0.0);
            cores.ok_or_else(|| format!("{text:?} is no number of cores: write 2 or 0.5"))
        }
        ResourceKind::Countable => {
            let pieces = text.parse::<u32>().map(f64::from);
            pieces.map_err(|_| format!("{text:?} is no number of pieces"))
        }
    }
}

/// The binding that the arguments name, if any.
pub fn whose(args: &WhoseArgs) -> Option<BindingDoc> {
    let all =
        [args.pid.map(BindingDoc::Pid), args.tid.map(BindingDoc::Tid), args.cgroup.clone().map(BindingDoc::Cgroup)];
    if let Some(found) = all.into_iter().flatten().next() {
        return Some(found);
    }
    let address = |end: Option<End>| end.map(|end| end.address);
    let port = |end: Option<End>| end.and_then(|end| end.port);
    let PacketArgs { to, source, protocol } = args.packets;
    let flow = FlowDoc { src: address(source), dst: address(to), protocol, src_port: port(source), dst_port: port(to) };
    (flow != FlowDoc::default()).then_some(BindingDoc::Flow(flow))
}

/// Gives this binding to the one part that fits it.
///
/// # Errors
/// No part fits, or several do.
pub fn bind(ask: &mut AskDoc, binding: BindingDoc) -> Result<(), Complaint> {
    let packets = matches!(binding, BindingDoc::Flow(_));
    let fits = |part: &&mut PartDoc| match kind_of(&part.resource) {
        ResourceKind::Network | ResourceKind::Measured => packets,
        ResourceKind::Cpu | ResourceKind::Disk => !packets,
        ResourceKind::Countable | ResourceKind::Sla => false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        reserve: crate::book::args::ReserveArgs,
    }

    #[test]
    fn an_interface_without_its_kind_is_asked_after() {
        let of = |text: &str| part(text, &Words::parse_from(["x", text]).reserve.want);
        let text = of("eth0=3mbit").unwrap_err();
        assert!(text.contains("did you mean net/eth0=3mbit?"), "{text}");
        assert_eq!(of("net/eth0=3mbit").unwrap().rate, Some(3_000_000));
        assert_eq!(of("solver=2").unwrap().count, Some(2));
    }
}
