//! Events as bytes, and back.

use super::{UNKNOWN, VERSION, one_of, place, read_binding, time, write_binding};
use crate::io::{Event, EventKind};
use crate::state::BookingState;
use alloc::vec::Vec;
use terms::book::{Handle, ResourceKind};
use terms::codec::{Corrupt, RecordReader, RecordWriter};

impl Event {
    /// Encodes the event.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = RecordWriter::default();
        w.byte(VERSION);
        w.number(self.seq);
        w.number(self.at.as_nanos());
        w.raw(&self.handle.0);
        w.text(&self.owner);
        w.text(&self.group);
        write_what(&mut w, &self.what);
        w.into_bytes()
    }

    /// Decodes an event.
    ///
    /// # Errors
    /// [`Corrupt`]: the mistake.
    pub fn decode(bytes: &[u8]) -> Result<Event, Corrupt> {
        let mut r = RecordReader::new(bytes);
        if r.byte()? != VERSION {
            return Err(UNKNOWN);
        }
        let event = Event {
            seq: r.number()?,
            at: time(&mut r)?,
            handle: Handle(r.array()?),
            owner: r.text()?,
            group: r.text()?,
            what: read_what(&mut r)?,
        };
        r.end()?;
        Ok(event)
    }
}

fn write_what(w: &mut RecordWriter, what: &EventKind) {
    match what {
        EventKind::Created(state) => w.raw(&[0, place(&BookingState::ALL, state)]),
        EventKind::Committed => w.byte(1),
        EventKind::Modified => w.byte(2),
        EventKind::Bound { part, binding } => {
            w.byte(3);
            w.number(*part as u64);
            w.option(binding, write_binding);
        }
        EventKind::Opened => w.byte(4),
        EventKind::Paused => w.byte(5),
        EventKind::Over(state) => w.raw(&[6, place(&BookingState::ALL, state)]),
        EventKind::Share { part, kind, from, to } => {
            w.byte(7);
            w.number(*part as u64);
            w.byte(place(&ResourceKind::ALL, kind));
            w.number(*from);
            w.number(*to);
        }
        EventKind::Failing { part, text } => {
            w.byte(8);
            w.number(*part as u64);
            w.text(text);
        }
        EventKind::InForce { part } => {
            w.byte(9);
            w.number(*part as u64);
        }
        EventKind::Short { part, kind, first, missing } => {
            w.byte(10);
            w.number(*part as u64);
            w.byte(place(&ResourceKind::ALL, kind));
            w.number(first.as_nanos());
            w.number(*missing);
        }
        EventKind::Contradicted { committed } => w.raw(&[11, u8::from(*committed)]),
        EventKind::EndsSoon { end } => {
            w.byte(12);
            w.number(end.as_nanos());
        }
    }
}

fn read_what(r: &mut RecordReader<'_>) -> Result<EventKind, Corrupt> {
    Ok(match r.byte()? {
        0 => EventKind::Created(one_of(&BookingState::ALL, r.byte()?)?),
        1 => EventKind::Committed,
        2 => EventKind::Modified,
        3 => EventKind::Bound { part: r.small()?, binding: r.option(read_binding)? },
        4 => EventKind::Opened,
        5 => EventKind::Paused,
        6 => EventKind::Over(one_of(&BookingState::ALL, r.byte()?)?),
        7 => EventKind::Share {
            part: r.small()?,
            kind: one_of(&ResourceKind::ALL, r.byte()?)?,
            from: r.number()?,
            to: r.number()?,
        },
        8 => EventKind::Failing { part: r.small()?, text: r.text()? },
        9 => EventKind::InForce { part: r.small()? },
        10 => EventKind::Short {
            part: r.small()?,
            kind: one_of(&ResourceKind::ALL, r.byte()?)?,
            first: time(r)?,
            missing: r.number()?,
        },
        11 => EventKind::Contradicted { committed: one_of(&[false, true], r.byte()?)? },
        12 => EventKind::EndsSoon { end: time(r)? },
        _ => return Err(Corrupt("an event of no known sort")),
    })
}
