//! Checks of a leaf: rules, shaper, meter, marker, dropper and queue, each and together.

use super::check::number;
use super::fault::TreeFault;
use super::pipeline;
use super::spec::{DropperSpec, LeafSpec, MeterKind, MultiFieldRule, QueueUnit, ShaperSpec};
use crate::bucket::TokenBucket;
use crate::meter::{Color, Marker};
use crate::shaper::Exponential;
use core::net::IpAddr;
use terms::{Bytes, Rate, Span};

/// The most packets in a leaf's queue.
pub const MAX_QUEUE: u32 = 1 << 20;
/// The most bytes in a queue or shaper.
pub const MAX_BUFFER: Bytes = Bytes::new(1 << 32);

/// The part of the leaf, and its error.
type Fault = (&'static str, TreeFault);

/// Checks a leaf on a link of this rate.
pub(super) fn check_leaf(leaf: &LeafSpec, link: Rate) -> Result<(), Fault> {
    leaf.rules.iter().try_for_each(rule).map_err(|what| ("rules", TreeFault::BadRule(what)))?;
    number("packets", u64::from(leaf.queue.packets), 1, u64::from(MAX_QUEUE)).map_err(|f| ("queue", f))?;
    size("bytes", leaf.queue.bytes, MAX_BUFFER).map_err(|f| ("queue", f))?;
    if let Some(meter) = &leaf.meter {
        rates(&meter.kind, link).map_err(|f| ("meter", f))?;
        pipeline::profile(&meter.kind).map_err(|bad| ("meter", TreeFault::Meter(bad)))?;
        if meter.aware && matches!(meter.kind, MeterKind::TswTcm { .. }) {
            return Err(("meter", TreeFault::TswIsBlind));
        }
        if meter.aware && leaf.marker.is_none() {
            return Err(("meter", TreeFault::AwareNeedsMarker));
        }
    }
    if let Some(marker) = &leaf.marker {
        code_points(marker).map_err(|f| ("marker", f))?;
    }
    if let Some(shaper) = &leaf.shaper {
        check_shaper(shaper, leaf, link).map_err(|f| ("shaper", f))?;
    }
    if let Some(dropper) = &leaf.dropper {
        check_dropper(dropper, leaf).map_err(|f| ("dropper", f))?;
    }
    Ok(())
}

fn rule(rule: &MultiFieldRule) -> Result<(), &'static str> {
    for (net, length) in [rule.src, rule.dst].into_iter().flatten() {
        match net {
            IpAddr::V4(_) if length > 32 => return Err("an IPv4 prefix is 0 to 32 bits long"),
            IpAddr::V6(_) if length > 128 => return Err("an IPv6 prefix is 0 to 128 bits long"),
            _ => {}
        }
    }
    if let (Some((a, _)), Some((b, _))) = (rule.src, rule.dst)
        && a.is_ipv4() != b.is_ipv4()
    {
        return Err("source and destination are of different IP versions: no packet matches");
    }
    if [rule.src_ports, rule.dst_ports].into_iter().flatten().any(|(from, to)| from > to) {
        return Err("a range of ports goes from the lower to the higher");
    }
    if rule.dscp.is_some_and(|dscp| dscp.0 > 63) {
        return Err("a code point is 0 to 63");
    }
    Ok(())
}

fn size(what: &'static str, size: Bytes, most: Bytes) -> Result<(), TreeFault> {
    let least = Bytes::new(1);
    if size < least || size > most { Err(TreeFault::Size { what, size, least, most }) } else { Ok(()) }
}

fn rate(what: &'static str, rate: Rate, least: Rate, most: Rate) -> Result<(), TreeFault> {
    if rate < least || rate > most { Err(TreeFault::Rate { what, rate, least, most }) } else { Ok(()) }
}

/// Checks 0 < CIR <= PIR <= line.
fn rates(meter: &MeterKind, link: Rate) -> Result<(), TreeFault> {
    let least = Rate::from_bps(1);
    match *meter {
        MeterKind::SrTcm { cir, .. } => rate("cir", cir, least, link),
        MeterKind::TrTcm { cir, pir, .. } => {
            rate("pir", pir, least, link)?;
            rate("cir", cir, least, pir)
        }
        MeterKind::Rfc4115 { cir, eir, .. } => {
            rate("cir", cir, least, link)?;
            rate("eir", eir, Rate::ZERO, link)
        }
        MeterKind::TswTcm { ctr, ptr, .. } => {
            rate("ptr", ptr, least, link)?;
            rate("ctr", ctr, least, ptr)
        }
    }
}

fn code_points(marker: &Marker) -> Result<(), TreeFault> {
    [Color::Green, Color::Yellow, Color::Red]
        .into_iter()
        .try_for_each(|color| number("a code point", u64::from(marker.mark(color).0), 0, 63))
}

fn check_shaper(shaper: &ShaperSpec, leaf: &LeafSpec, link: Rate) -> Result<(), TreeFault> {
    let least = Rate::from_bps(1);
    let ras = match *shaper {
        ShaperSpec::Bucket { rate: r, depth, buffer } => {
            rate("rate", r, least, link)?;
            size("depth", depth, TokenBucket::MAX_DEPTH)?;
            return size("buffer", buffer, MAX_BUFFER);
        }
        ShaperSpec::SrRas { ras, .. } | ShaperSpec::TrRas { ras, .. } => ras,
    };
    size("buffer", ras.buffer, MAX_BUFFER)?;
    let (least, most) = (Span::from_micros(1), Exponential::MAX_K);
    if ras.k < least || ras.k > most {
        return Err(TreeFault::Time { what: "k", time: ras.k, least, most });
    }
    pipeline::curve(shaper, link).map_err(TreeFault::Shaper)?;
    let meter = leaf.meter.map(|meter| meter.kind);
    if ras.green && !matches!(meter, Some(MeterKind::SrTcm { .. } | MeterKind::TrTcm { .. })) {
        return Err(TreeFault::GreenNeedsMeter);
    }
    Ok(())
}

/// Checks that the thresholds are in order, and that the queue reaches them.
fn check_dropper(dropper: &DropperSpec, leaf: &LeafSpec) -> Result<(), TreeFault> {
    pipeline::rio(dropper).map_err(TreeFault::Dropper)?;
    let most = match dropper.unit {
        QueueUnit::Packets => u64::from(leaf.queue.packets),
        QueueUnit::Bytes => leaf.queue.bytes.get(),
    };
    let upper = |c: usize| u64::from(dropper.curves[c].max);
    (0..3).try_for_each(|c| number("the upper threshold (the queue must reach it)", upper(c), 1, most))
}
