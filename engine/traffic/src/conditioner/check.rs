//! Checks of a conditioner and its queue: shaper, meter, marker, dropper and queue, each and together.

use super::spec::{ConditionerSpec, DropperSpec, MeterKind, QueueUnit, ShaperSpec};
use super::{ConditionerFault, dropper, meter, shaper};
use crate::bucket::TokenBucket;
use crate::meter::{Color, Marker};
use crate::shaper::Exponential;
use crate::spec::QueueSpec;
use terms::{Bytes, Rate, Span};

/// The most packets in a queue.
pub const MAX_QUEUE: u32 = 1 << 20;
/// The most bytes in a queue or shaper.
pub const MAX_BUFFER: Bytes = Bytes::new(1 << 32);

/// The part of the leaf, and its error.
type Fault = (&'static str, ConditionerFault);

/// Checks a conditioner and the queue behind it, on a link of this rate.
pub(crate) fn check(spec: &ConditionerSpec, queue: &QueueSpec, link: Rate) -> Result<(), Fault> {
    number("packets", u64::from(queue.packets), 1, u64::from(MAX_QUEUE)).map_err(|f| ("queue", f))?;
    size("bytes", queue.bytes, MAX_BUFFER).map_err(|f| ("queue", f))?;
    if let Some(meter) = &spec.meter {
        rates(&meter.kind, link).map_err(|f| ("meter", f))?;
        meter::profile(&meter.kind).map_err(|bad| ("meter", ConditionerFault::Meter(bad)))?;
        if meter.aware && matches!(meter.kind, MeterKind::TswTcm { .. }) {
            return Err(("meter", ConditionerFault::TswIsBlind));
        }
        if meter.aware && spec.marker.is_none() {
            return Err(("meter", ConditionerFault::AwareNeedsMarker));
        }
    }
    if let Some(marker) = &spec.marker {
        code_points(marker).map_err(|f| ("marker", f))?;
    }
    if let Some(shaper) = &spec.shaper {
        check_shaper(shaper, spec, link).map_err(|f| ("shaper", f))?;
    }
    if let Some(dropper) = &spec.dropper {
        check_dropper(dropper, queue).map_err(|f| ("dropper", f))?;
    }
    Ok(())
}

/// Refuses a number outside its range.
pub(crate) fn number(what: &'static str, number: u64, least: u64, most: u64) -> Result<(), ConditionerFault> {
    if (least..=most).contains(&number) { Ok(()) } else { Err(ConditionerFault::Number { what, number, least, most }) }
}

fn size(what: &'static str, size: Bytes, most: Bytes) -> Result<(), ConditionerFault> {
    let least = Bytes::new(1);
    if size < least || size > most { Err(ConditionerFault::Size { what, size, least, most }) } else { Ok(()) }
}

fn rate(what: &'static str, rate: Rate, least: Rate, most: Rate) -> Result<(), ConditionerFault> {
    if rate < least || rate > most { Err(ConditionerFault::Rate { what, rate, least, most }) } else { Ok(()) }
}

/// Checks 0 < CIR <= PIR <= line.
fn rates(meter: &MeterKind, link: Rate) -> Result<(), ConditionerFault> {
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

fn code_points(marker: &Marker) -> Result<(), ConditionerFault> {
    [Color::Green, Color::Yellow, Color::Red]
        .into_iter()
        .try_for_each(|color| number("a code point", u64::from(marker.mark(color).0), 0, 63))
}

fn check_shaper(shaper: &ShaperSpec, spec: &ConditionerSpec, link: Rate) -> Result<(), ConditionerFault> {
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
        return Err(ConditionerFault::Time { what: "k", time: ras.k, least, most });
    }
    shaper::curve(shaper, link).map_err(ConditionerFault::Shaper)?;
    let meter = spec.meter.map(|meter| meter.kind);
    if ras.green && !matches!(meter, Some(MeterKind::SrTcm { .. } | MeterKind::TrTcm { .. })) {
        return Err(ConditionerFault::GreenNeedsMeter);
    }
    Ok(())
}

/// Checks that the thresholds are in order, and that the queue reaches them.
fn check_dropper(dropper: &DropperSpec, queue: &QueueSpec) -> Result<(), ConditionerFault> {
    dropper::profile(dropper).map_err(ConditionerFault::Dropper)?;
    let most = match dropper.unit {
        QueueUnit::Packets => u64::from(queue.packets),
        QueueUnit::Bytes => queue.bytes.get(),
    };
    let upper = |c: usize| u64::from(dropper.curves[c].max);
    (0..3).try_for_each(|c| number("the upper threshold (the queue must reach it)", upper(c), 1, most))
}
