//! Records of the audit: who asked for what, the outcome, and the rules that decided. What was asked stands at the end, so
//! that records from before it was written are read as well.

use super::{time, version};
use crate::io::{BookingRequest, When};
use crate::reservations::{Part, Resources};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use terms::book::Handle;
use terms::codec::{Corrupt, RecordReader, RecordWriter};
use terms::{Span, Time};

/// The amounts and times of a request for a reservation, or for a change of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditedAsk {
    /// The parts.
    pub parts: Vec<AuditedPart>,
    /// The earliest start; calendar time.
    pub from: Time,
    /// The latest end; calendar time; [`Time::FOREVER`]: open.
    pub until: Time,
    /// The number of windows: 1, or more of a recurrence.
    pub windows: u64,
    /// The length, where any window of it within these times would do.
    pub length: Option<Span>,
    /// The volume to be moved within these times, in bytes.
    pub volume: Option<u64>,
}

/// An amount of one resource that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditedPart {
    /// The resource's name.
    pub resource: String,
    /// The most that was wanted, in the unit of the resource's kind; 0: all that is free.
    pub amount: u64,
    /// The least that was acceptable.
    pub least: u64,
}

impl AuditedAsk {
    /// The amounts and times of a request that is made on this day.
    pub(crate) fn of(ask: &BookingRequest, today: Time) -> AuditedAsk {
        let part = |part: &crate::io::PartAsk| {
            let (resource, amount, least) = (part.resource.clone(), part.amount, part.least);
            AuditedPart { resource, amount, least }
        };
        let none = AuditedAsk {
            parts: ask.parts.iter().map(part).collect(),
            from: today,
            until: Time::FOREVER,
            windows: 1,
            length: None,
            volume: None,
        };
        match &ask.when {
            When::Window { start, end } => {
                AuditedAsk { from: start.unwrap_or(today), until: end.unwrap_or(Time::FOREVER), ..none }
            }
            When::Now { span } => AuditedAsk { until: today.saturating_add(*span), ..none },
            When::Earliest { span, not_before, by } => AuditedAsk {
                from: not_before.unwrap_or(today),
                until: by.unwrap_or(Time::FOREVER),
                length: Some(*span),
                ..none
            },
            When::Volume { bytes, not_before, deadline } => {
                AuditedAsk { from: not_before.unwrap_or(today), until: *deadline, volume: Some(*bytes), ..none }
            }
            When::Series { windows, .. } => AuditedAsk {
                from: windows.first().map_or(today, |window| window.start()),
                until: windows.last().map_or(today, |window| window.end()),
                windows: windows.len() as u64,
                ..none
            },
        }
    }

    /// The parts that a change makes different, as they would be; `None`: it changes none.
    pub(crate) fn changed(resources: &Resources, old: &[Part], next: &[Part]) -> Option<AuditedAsk> {
        let different = || old.iter().zip(next).filter(|(old, next)| old.steps != next.steps).map(|(_, next)| next);
        let steps = || different().flat_map(|part| &part.steps);
        let part = |part: &Part| {
            let amount = part.steps.iter().map(|step| step.amount).max().unwrap_or(0);
            AuditedPart { resource: resources.get(part.resource).name().to_string(), amount, least: amount }
        };
        Some(AuditedAsk {
            from: steps().map(|step| step.window.start()).min()?,
            until: steps().map(|step| step.window.end()).max()?,
            parts: different().map(part).collect(),
            windows: 1,
            length: None,
            volume: None,
        })
    }

    fn write(&self, w: &mut RecordWriter) {
        w.list(&self.parts, |w, part| {
            w.text(&part.resource);
            w.number(part.amount);
            w.number(part.least);
        });
        w.number(self.from.as_nanos());
        w.number(self.until.as_nanos());
        w.number(self.windows);
        w.option(&self.length, |w, length| w.number(length.as_nanos()));
        w.option(&self.volume, |w, bytes| w.number(*bytes));
    }

    fn read(r: &mut RecordReader<'_>) -> Result<AuditedAsk, Corrupt> {
        let part =
            |r: &mut RecordReader<'_>| Ok(AuditedPart { resource: r.text()?, amount: r.number()?, least: r.number()? });
        Ok(AuditedAsk {
            parts: r.list(part)?,
            from: time(r)?,
            until: time(r)?,
            windows: r.number()?,
            length: r.option(|r| r.number().map(Span::from_nanos))?,
            volume: r.option(|r| r.number())?,
        })
    }
}

/// The bytes of an audit record: who called, what (`verb`, about this reservation), the outcome, the rules that decided, and
/// what was asked.
pub(crate) fn audit(
    at: Time,
    who: &str,
    (verb, handle): (&str, Option<Handle>),
    outcome: &str,
    rules: &[Box<str>],
    asked: Option<&AuditedAsk>,
) -> Vec<u8> {
    let mut w = RecordWriter::default();
    w.byte(super::VERSION);
    w.number(at.as_nanos());
    w.text(who);
    w.text(verb);
    w.option(&handle, |w, handle| w.raw(&handle.0));
    w.text(outcome);
    w.list(rules, |w, rule| w.text(rule));
    if let Some(asked) = asked {
        asked.write(&mut w);
    }
    w.into_bytes()
}

/// A record of [`crate::io::RecordTable::Audit`], read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audited {
    /// The time; calendar time.
    pub at: Time,
    /// The caller's name.
    pub who: String,
    /// `create`, `commit`, `modify`, `bind` or `cancel`; of promises `prepare`, `keep`, `drop`, `moot` or `resolve`;
    /// `refused` for a count of refusals.
    pub verb: String,
    /// The handle of the reservation, if there is one.
    pub handle: Option<Handle>,
    /// `granted`, the name of the refusal, or a count of refusals.
    pub outcome: String,
    /// The rules of policy that decided, part by part.
    pub rules: Vec<String>,
    /// The request; `None`: the call asks for no amount, or the record is of an older version.
    pub asked: Option<AuditedAsk>,
}

impl Audited {
    /// Decodes an audit record.
    ///
    /// # Errors
    /// [`Corrupt`]: the mistake.
    pub fn decode(bytes: &[u8]) -> Result<Audited, Corrupt> {
        let mut r = RecordReader::new(bytes);
        version(&mut r)?;
        let mut audited = Audited {
            at: time(&mut r)?,
            who: r.text()?,
            verb: r.text()?,
            handle: r.option(|r| Ok(Handle(r.array()?)))?,
            outcome: r.text()?,
            rules: r.list(|r| r.text())?,
            asked: None,
        };
        if r.end().is_err() {
            audited.asked = Some(AuditedAsk::read(&mut r)?);
        }
        r.end()?;
        Ok(audited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// A record of before there was a field for it ends after its rules.
    #[test]
    fn a_record_without_what_was_asked_is_read_and_one_with_it_comes_back() {
        let at = Time::from_nanos(7);
        let part = AuditedPart { resource: "net/eth1".to_string(), amount: 3_000_000, least: 1_000_000 };
        let asked = AuditedAsk {
            parts: vec![part],
            from: at,
            until: Time::FOREVER,
            windows: 10,
            length: Some(Span::from_secs(60)),
            volume: Some(5),
        };
        for asked in [None, Some(asked)] {
            let bytes = audit(at, "uid:1000", ("create", None), "no_room", &["hours".into()], asked.as_ref());
            let read = Audited::decode(&bytes).unwrap();
            assert_eq!((read.asked, read.rules), (asked, vec!["hours".to_string()]));
            let whole = asked_len(&bytes);
            assert!((1..bytes.len()).filter(|len| *len != whole).all(|len| Audited::decode(&bytes[..len]).is_err()));
        }
    }

    /// The length of the record without what was asked.
    fn asked_len(bytes: &[u8]) -> usize {
        let read = Audited::decode(bytes).unwrap();
        let rules: Vec<Box<str>> = read.rules.iter().map(|rule| rule.as_str().into()).collect();
        audit(read.at, &read.who, (&read.verb, read.handle), &read.outcome, &rules, None).len()
    }
}
