//! The record of a reservation that the plane keeps beside each of its flows, so that an agent without memory can adopt
//! it: request and promise. Its form is fixed, because the pinned maps of a running kernel hold it.

use core::net::IpAddr;
use terms::ports::Preemption;
use terms::{Bytes, FlowSpec, Rate, Rspec, Session, Span, Tspec};
use traffic::plan::OwnerRecord;

/// Controlled load (RFC 2211), as the service numbers of RFC 2210 have it.
const CONTROLLED_LOAD: u8 = 5;
/// Guaranteed service (RFC 2212).
const GUARANTEED: u8 = 2;

/// The request and the promise of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// The RSVP session (or the like).
    pub session: Session,
    /// The admitted flowspec.
    pub flowspec: FlowSpec,
    /// The Tspec of the sender.
    pub sender_tspec: Tspec,
    /// The rate that the ledger counts on this interface, overhead included.
    pub admitted: Rate,
    /// The lifetime without a refresh.
    pub lifetime: Span,
    /// Its priorities in pre-emption (RFC 3181).
    pub priority: Preemption,
}

impl FlowRecord {
    /// The record as the plane keeps it: little-endian fields, in the order of the struct.
    pub fn encode(&self) -> OwnerRecord {
        let mut out = Writer { bytes: [0; OwnerRecord::LEN], at: 0 };
        let (family, dst) = match self.session.dst {
            IpAddr::V4(v4) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&v4.octets());
                (4, bytes)
            }
            IpAddr::V6(v6) => (6, v6.octets()),
        };
        out.put(&[family]);
        out.put(&dst);
        out.put(&[self.session.protocol]);
        out.put(&self.session.dst_port.to_le_bytes());
        match self.flowspec {
            FlowSpec::ControlledLoad(tspec) => {
                out.put(&[CONTROLLED_LOAD]);
                out.tspec(&tspec);
                out.put(&[0; 16]);
            }
            FlowSpec::Guaranteed(tspec, rspec) => {
                out.put(&[GUARANTEED]);
                out.tspec(&tspec);
                out.u64(rspec.R.as_bps());
                out.u64(rspec.S.as_nanos());
            }
        }
        out.tspec(&self.sender_tspec);
        out.u64(self.admitted.as_bps());
        out.u64(self.lifetime.as_nanos());
        out.put(&self.priority.preempting.to_le_bytes());
        out.put(&self.priority.defending.to_le_bytes());
        OwnerRecord(out.bytes)
    }

    /// The record in these bytes; `None`: no build of ours wrote them.
    pub fn decode(record: &OwnerRecord) -> Option<FlowRecord> {
        let mut from = Reader { bytes: &record.0 };
        let family = from.take::<1>()?[0];
        let bytes = from.take::<16>()?;
        let dst = match family {
            4 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
            6 => IpAddr::from(bytes),
            _ => return None,
        };
        let protocol = from.take::<1>()?[0];
        let dst_port = u16::from_le_bytes(from.take()?);
        let service = from.take::<1>()?[0];
        let tspec = from.tspec()?;
        let rspec = Rspec { R: from.rate()?, S: Span::from_nanos(from.u64()?) };
        let flowspec = match service {
            CONTROLLED_LOAD => FlowSpec::ControlledLoad(tspec),
            GUARANTEED => FlowSpec::Guaranteed(tspec, rspec),
            _ => return None,
        };
        Some(FlowRecord {
            session: Session { dst, protocol, dst_port },
            flowspec,
            sender_tspec: from.tspec()?,
            admitted: from.rate()?,
            lifetime: Span::from_nanos(from.u64()?),
            priority: Preemption {
                preempting: u16::from_le_bytes(from.take()?),
                defending: u16::from_le_bytes(from.take()?),
            },
        })
    }
}

/// Writes fields into a record; they always fit (a test writes the longest record).
struct Writer {
    bytes: [u8; OwnerRecord::LEN],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn tspec(&mut self, tspec: &Tspec) {
        self.u64(tspec.r.as_bps());
        self.u64(tspec.b.get());
        self.u64(tspec.p.as_bps());
        self.put(&tspec.m.to_le_bytes());
        self.put(&tspec.M.to_le_bytes());
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    fn rate(&mut self) -> Option<Rate> {
        Some(Rate::from_bps(self.u64()?))
    }

    fn tspec(&mut self) -> Option<Tspec> {
        Some(Tspec {
            r: self.rate()?,
            b: Bytes::new(self.u64()?),
            p: self.rate()?,
            m: u32::from_le_bytes(self.take()?),
            M: u32::from_le_bytes(self.take()?),
        })
    }
}
