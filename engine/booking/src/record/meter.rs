//! The meter of a part as bytes, and back.

use super::{one_of, place};
use terms::book::{MeterForm, MeterTerms};
use terms::codec::{Corrupt, RecordReader, RecordWriter};
use terms::{Bytes, Rate};

const AWARE: u8 = 1;
const MARKS_RED: u8 = 2;

pub(crate) fn write_meter(w: &mut RecordWriter, meter: &MeterTerms) {
    w.byte(place(&MeterForm::ALL, &meter.form()));
    w.option(&meter.rate(), |w, rate| w.number(rate.as_bps()));
    w.option(&meter.burst(), |w, burst| w.number(burst.get()));
    w.option(&meter.second_burst(), |w, burst| w.number(burst.get()));
    let aware = if meter.is_aware() { AWARE } else { 0 };
    w.byte(aware + if meter.marks_red() { MARKS_RED } else { 0 });
}

pub(super) fn read_meter(r: &mut RecordReader<'_>) -> Result<MeterTerms, Corrupt> {
    let meter = MeterTerms::new(one_of(&MeterForm::ALL, r.byte()?)?);
    let meter = meter.with_rate(r.option(|r| r.number().map(Rate::from_bps))?);
    let burst = r.option(|r| r.number().map(Bytes::new))?;
    let meter = meter.with_bursts(burst, r.option(|r| r.number().map(Bytes::new))?);
    let flags = r.byte()?;
    if flags & !(AWARE + MARKS_RED) != 0 {
        return Err(Corrupt("a meter of no known sort"));
    }
    Ok(meter.aware(flags & AWARE != 0).marking_red(flags & MARKS_RED != 0))
}
