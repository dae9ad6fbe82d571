//! The description of a traffic conditioner (RFC 2475 section 2.3): shaper, meter, marker and dropper, as plain data that
//! plans, trees and scenario files share.
//!
//! Units: rates and sizes are bytes of the IP packet, as the RFCs count.

use crate::dropper::{Coupling, RedCurve};
use crate::meter::Marker;
use terms::{Bytes, Rate, Span};

/// The conditioner of a class. Packets pass its parts in this order (RFC 2475 figure 1, with the shaper in front of the
/// meter as in RFC 2963 figure 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConditionerSpec {
    /// The shaper, which holds packets back before they are metered.
    pub shaper: Option<ShaperSpec>,
    /// The meter, which colours packets; without it all are green.
    pub meter: Option<MeterSpec>,
    /// The marker, which writes the colour into the packet; without it the code point stays.
    pub marker: Option<Marker>,
    /// The dropper, which decides before the queue; without it the queue drops at its tail.
    pub dropper: Option<DropperSpec>,
}

/// A shaper, in IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShaperSpec {
    /// A token bucket: a packet leaves when there are tokens for it.
    Bucket {
        /// The fill rate.
        rate: Rate,
        /// The depth; a larger packet is dropped, because it would never leave.
        depth: Bytes,
        /// The bytes that may wait.
        buffer: Bytes,
    },
    /// srRAS (RFC 2963 section 2.2).
    SrRas {
        /// The committed and the maximum rate.
        rates: [Rate; 2],
        /// CIR_th, MIR_th.
        thresholds: [Bytes; 2],
        /// The other values.
        ras: RasSpec,
    },
    /// trRAS (RFC 2963 section 2.4).
    TrRas {
        /// The committed, the peak and the maximum rate.
        rates: [Rate; 3],
        /// CIR_th, PIR_th, MIR_th.
        thresholds: [Bytes; 3],
        /// The other values.
        ras: RasSpec,
    },
}

impl ShaperSpec {
    /// The bytes that may wait.
    pub const fn buffer(&self) -> Bytes {
        match self {
            ShaperSpec::Bucket { buffer, .. } => *buffer,
            ShaperSpec::SrRas { ras, .. } | ShaperSpec::TrRas { ras, .. } => ras.buffer,
        }
    }
}

/// The common values of single and two rate adaptive shapers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RasSpec {
    /// The bytes that may wait.
    pub buffer: Bytes,
    /// K: the time constant of the average rate.
    pub k: Span,
    /// G-srRAS, G-trRAS (RFC 2963 section 3): also release packets that the leaf's own meter would colour green.
    pub green: bool,
}

/// A meter, in IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeterSpec {
    /// The kind of meter.
    pub kind: MeterKind,
    /// Colour-aware: the incoming colour, which the leaf's marker reads from the code point, is never improved.
    pub aware: bool,
}

/// The meters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeterKind {
    /// RFC 2697.
    SrTcm {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: Bytes,
        /// Excess burst size.
        ebs: Bytes,
    },
    /// RFC 2698.
    TrTcm {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: Bytes,
        /// Peak information rate.
        pir: Rate,
        /// Peak burst size.
        pbs: Bytes,
    },
    /// RFC 4115.
    Rfc4115 {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: Bytes,
        /// Excess information rate.
        eir: Rate,
        /// Excess burst size.
        ebs: Bytes,
    },
    /// RFC 2859.
    TswTcm {
        /// Committed target rate.
        ctr: Rate,
        /// Peak target rate.
        ptr: Rate,
        /// Averaging interval.
        interval: Span,
    },
}

/// RED or RIO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropperSpec {
    /// Green, yellow, red.
    pub curves: [RedCurve; 3],
    /// The weight of the average, in 2^-32.
    pub weight: u64,
    /// The time that a typical packet takes to leave.
    pub slot: Span,
    /// The packets that an average counts.
    pub coupling: Coupling,
    /// The unit of thresholds and averages.
    pub unit: QueueUnit,
}

/// The unit that a dropper counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueUnit {
    /// Packets.
    Packets,
    /// IP bytes.
    Bytes,
}
