//! Records of the journal as bytes, and back. The first octet is the version of the form. Bytes are read only
//! if writing the result gives the same bytes, so that equal states have equal bytes.

mod audited;
mod events;
mod meter;

pub(crate) use audited::audit;
pub use audited::{Audited, AuditedAsk, AuditedPart};
pub(crate) use meter::write_meter;

use crate::notice::Notice;
use crate::reservations::grants::Grant;
use crate::reservations::reservation::KeyMark;
use crate::state::BookingState;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::book::{Background, Binding, BoundFlow, Handle, PacketShape, RateStep, Task};
use terms::codec::{Corrupt, RecordReader, RecordWriter};
use terms::{Span, Time, Window};

const VERSION: u8 = 1;
/// Numbers added to the version: if the group names its members, and if the parts say by which rule of policy
/// they were granted.
const WITH_MEMBERS: u8 = 1;
const GRANTED: u8 = 2;
/// And if its owner wants a notice before its end.
const NOTICED: u8 = 4;
/// And if a part has a meter.
const METERED: u8 = 8;
const ALL_FORMS: u8 = WITH_MEMBERS + GRANTED + NOTICED + METERED;
const UNKNOWN: Corrupt = Corrupt("a version that this program does not know");

/// A reservation as the journal has it: with names, and without fields that recovery computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored(StoredFields);

/// The fields of a stored reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredFields {
    pub handle: Handle,
    pub number: u64,
    pub owner: String,
    pub label: String,
    pub group: String,
    pub members: Vec<Box<str>>,
    pub key: Option<KeyMark>,
    pub created: Time,
    pub over: Time,
    pub version: u64,
    pub state: BookingState,
    pub hold_until: Time,
    pub notice: Option<Notice>,
    pub parts: Vec<StoredPart>,
}

/// A part of a stored reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredPart {
    pub resource: String,
    pub steps: Vec<RateStep>,
    pub background: Option<Background>,
    pub shape: PacketShape,
    pub binding: Option<Binding>,
    pub grant: Grant,
}

/// The fields of a reservation to write, borrowed from where they are.
pub(crate) struct Writing<'a, P> {
    pub handle: Handle,
    pub number: u64,
    pub owner: &'a str,
    pub label: &'a str,
    pub group: &'a str,
    pub members: &'a [Box<str>],
    pub key: Option<&'a KeyMark>,
    pub created: Time,
    pub over: Time,
    pub version: u64,
    pub state: BookingState,
    pub hold_until: Time,
    pub notice: Option<Notice>,
    pub parts: P,
}

/// A part of a reservation to write.
pub(crate) struct WritingPart<'a> {
    pub resource: &'a str,
    pub steps: &'a [RateStep],
    pub background: Option<Background>,
    pub shape: PacketShape,
    pub binding: &'a Option<Binding>,
    pub grant: &'a Grant,
}

impl<'a, P: ExactSizeIterator<Item = WritingPart<'a>> + Clone> Writing<'_, P> {
    /// Encodes the reservation.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut w = RecordWriter::with_capacity(160);
        // What is not known is not written: such a reservation is as earlier builds wrote it.
        let granted = self.parts.clone().any(|part| *part.grant != Grant::default());
        let members = if self.members.is_empty() { 0 } else { WITH_MEMBERS };
        let noticed = if self.notice.is_some() { NOTICED } else { 0 };
        let metered = self.parts.clone().any(|part| part.shape.meter.is_some());
        let forms = if granted { GRANTED } else { 0 } + if metered { METERED } else { 0 };
        w.byte(VERSION + members + noticed + forms);
        w.raw(&self.handle.0);
        w.number(self.number);
        w.text(self.owner);
        w.text(self.label);
        w.text(self.group);
        if !self.members.is_empty() {
            w.list(self.members, |w, member| w.text(member));
        }
        w.option(&self.key, |w, mark| {
            w.text(&mark.key);
            w.raw(&mark.digest);
        });
        w.number(self.created.as_nanos());
        w.number(self.over.as_nanos());
        w.number(self.version);
        w.byte(place(&BookingState::ALL, &self.state));
        w.number(self.hold_until.as_nanos());
        if let Some(notice) = self.notice {
            w.number(notice.before.as_nanos());
            w.number(notice.told.as_nanos());
        }
        w.number(self.parts.len() as u64);
        for part in self.parts {
            w.text(part.resource);
            write_steps(&mut w, part.steps);
            w.option(&part.background, |w, b| {
                w.number(b.weight.into());
                w.number(b.floor);
            });
            w.number(part.shape.packet.into());
            w.number(part.shape.rtt.as_nanos());
            w.option(part.binding, write_binding);
            if granted {
                write_grant(&mut w, part.grant);
            }
            if metered {
                w.option(&part.shape.meter, write_meter);
            }
        }
        w.into_bytes()
    }
}

impl Stored {
    /// Encodes the reservation.
    pub fn encode(&self) -> Vec<u8> {
        let parts = self.0.parts.iter().map(|part| WritingPart {
            resource: &part.resource,
            steps: &part.steps,
            background: part.background,
            shape: part.shape,
            binding: &part.binding,
            grant: &part.grant,
        });
        Writing {
            handle: self.0.handle,
            number: self.0.number,
            owner: &self.0.owner,
            label: &self.0.label,
            group: &self.0.group,
            members: &self.0.members,
            key: self.0.key.as_ref(),
            created: self.0.created,
            over: self.0.over,
            version: self.0.version,
            state: self.0.state,
            hold_until: self.0.hold_until,
            notice: self.0.notice,
            parts,
        }
        .encode()
    }

    /// The fields, for the table of reservations.
    pub(crate) fn into_fields(self) -> StoredFields {
        self.0
    }

    /// Decodes a reservation.
    ///
    /// # Errors
    /// [`Corrupt`]: the mistake.
    pub fn decode(bytes: &[u8]) -> Result<Stored, Corrupt> {
        let mut r = RecordReader::new(bytes);
        let form = r.byte()?.checked_sub(VERSION).filter(|form| form & !ALL_FORMS == 0).ok_or(UNKNOWN)?;
        let has = |bit: u8| form & bit != 0;
        let (with_members, granted, noticed, metered) = (has(WITH_MEMBERS), has(GRANTED), has(NOTICED), has(METERED));
        let stored = StoredFields {
            handle: Handle(r.array()?),
            number: r.number()?,
            owner: r.text()?,
            label: r.text()?,
            group: r.text()?,
            members: if with_members { r.list(|r| Ok(r.text()?.into_boxed_str()))? } else { Vec::new() },
            key: r.option(|r| Ok(KeyMark { key: r.text()?.into_boxed_str(), digest: r.array()? }))?,
            created: time(&mut r)?,
            over: time(&mut r)?,
            version: r.number()?,
            state: one_of(&BookingState::ALL, r.byte()?)?,
            hold_until: time(&mut r)?,
            notice: if noticed { Some(read_notice(&mut r)?) } else { None },
            parts: r.list(|r| read_part(r, granted, metered))?,
        };
        r.end()?;
        if with_members && stored.members.is_empty() {
            return Err(Corrupt("a group without members"));
        }
        if stored.parts.is_empty() {
            return Err(Corrupt("a reservation without parts"));
        }
        if granted && stored.parts.iter().all(|part| part.grant == Grant::default()) {
            return Err(Corrupt("a form that nothing needs"));
        }
        if metered && stored.parts.iter().all(|part| part.shape.meter.is_none()) {
            return Err(Corrupt("a form that nothing needs"));
        }
        Ok(Stored(stored))
    }
}

fn read_notice(r: &mut RecordReader<'_>) -> Result<Notice, Corrupt> {
    let notice = Notice { before: Span::from_nanos(r.number()?), told: time(r)? };
    if notice.before == Span::ZERO { Err(Corrupt("a notice that is none")) } else { Ok(notice) }
}

fn read_part(r: &mut RecordReader<'_>, granted: bool, metered: bool) -> Result<StoredPart, Corrupt> {
    let mut part = StoredPart {
        resource: r.text()?,
        steps: read_steps(r)?,
        background: r.option(|r| Ok(Background { weight: r.small()?, floor: r.number()? }))?,
        shape: PacketShape { packet: r.small()?, rtt: Span::from_nanos(r.number()?), meter: None },
        binding: r.option(read_binding)?,
        grant: if granted { read_grant(r)? } else { Grant::default() },
    };
    if metered {
        part.shape.meter = r.option(meter::read_meter)?;
    }
    Ok(part)
}

pub(crate) fn write_grant(w: &mut RecordWriter, grant: &Grant) {
    w.text(grant.rule());
    w.list(grant.groups(), |w, group| w.text(group));
}

pub(crate) fn read_grant(r: &mut RecordReader<'_>) -> Result<Grant, Corrupt> {
    let rule = r.text()?.into_boxed_str();
    Ok(Grant::new(rule, r.list(|r| Ok(r.text()?.into_boxed_str()))?))
}

/// Writes each step as the gap before it, its length, and its amount.
pub(crate) fn write_steps(w: &mut RecordWriter, steps: &[RateStep]) {
    let mut at = Time::ZERO;
    w.list(steps, |w, step| {
        w.number(step.window.start().since(at).as_nanos());
        w.number(step.window.span().as_nanos());
        w.number(step.amount);
        at = step.window.end();
    });
}

pub(crate) fn read_steps(r: &mut RecordReader<'_>) -> Result<Vec<RateStep>, Corrupt> {
    let mut at = Time::ZERO;
    let steps = r.list(|r| {
        let over = Corrupt("a window past the end of time");
        let start = at.as_nanos().checked_add(r.number()?).ok_or(over)?;
        let end = start.checked_add(r.number()?).ok_or(over)?;
        let window = Window::new(Time::from_nanos(start), Time::from_nanos(end));
        let window = window.map_err(|_| Corrupt("an empty window"))?;
        at = window.end();
        let amount = r.number()?;
        if amount > i64::MAX as u64 {
            return Err(Corrupt("an amount that nothing has"));
        }
        Ok(RateStep { window, amount })
    })?;
    if steps.is_empty() { Err(Corrupt("a part without steps")) } else { Ok(steps) }
}

pub(crate) fn write_binding(w: &mut RecordWriter, binding: &Binding) {
    match binding {
        Binding::Flow(flow) => {
            w.byte(0);
            w.option(&flow.src, write_address);
            w.option(&flow.dst, write_address);
            w.option(&flow.protocol, |w, protocol| w.byte(*protocol));
            w.option(&flow.src_port, |w, port| w.number((*port).into()));
            w.option(&flow.dst_port, |w, port| w.number((*port).into()));
        }
        Binding::Process(task) => write_task(w, [1, 4], task),
        Binding::Thread(task) => write_task(w, [2, 5], task),
        Binding::Cgroup(path) => {
            w.byte(3);
            w.text(path);
        }
    }
}

/// Writes a task in its old form if its start is unknown; else in the form with the start behind it.
fn write_task(w: &mut RecordWriter, [plain, started]: [u8; 2], task: &Task) {
    w.byte(if task.start == 0 { plain } else { started });
    w.number(task.number.into());
    if task.start != 0 {
        w.number(task.start);
    }
}

pub(crate) fn read_binding(r: &mut RecordReader<'_>) -> Result<Binding, Corrupt> {
    Ok(match r.byte()? {
        0 => Binding::Flow(BoundFlow {
            src: r.option(read_address)?,
            dst: r.option(read_address)?,
            protocol: r.option(|r| r.byte())?,
            src_port: r.option(|r| r.small())?,
            dst_port: r.option(|r| r.small())?,
        }),
        1 => Binding::Process(Task::numbered(r.small()?)),
        2 => Binding::Thread(Task::numbered(r.small()?)),
        3 => Binding::Cgroup(r.text()?),
        4 => Binding::Process(Task { number: r.small()?, start: r.number()? }),
        5 => Binding::Thread(Task { number: r.small()?, start: r.number()? }),
        _ => return Err(Corrupt("a binding of no known sort")),
    })
}

fn write_address(w: &mut RecordWriter, address: &IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            w.byte(4);
            w.raw(&v4.octets());
        }
        IpAddr::V6(v6) => {
            w.byte(6);
            w.raw(&v6.octets());
        }
    }
}

fn read_address(r: &mut RecordReader<'_>) -> Result<IpAddr, Corrupt> {
    match r.byte()? {
        4 => Ok(IpAddr::from(r.array::<4>()?)),
        6 => Ok(IpAddr::from(r.array::<16>()?)),
        _ => Err(Corrupt("an address of no known family")),
    }
}

fn version(r: &mut RecordReader<'_>) -> Result<(), Corrupt> {
    if r.byte()? == VERSION { Ok(()) } else { Err(UNKNOWN) }
}

fn time(r: &mut RecordReader<'_>) -> Result<Time, Corrupt> {
    r.number().map(Time::from_nanos)
}

fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|item| item == one).unwrap_or(usize::from(u8::MAX)) as u8
}

pub(crate) fn one_of<T: Copy>(all: &[T], place: u8) -> Result<T, Corrupt> {
    all.get(usize::from(place)).copied().ok_or(Corrupt("a number that stands for nothing"))
}
