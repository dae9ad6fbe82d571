//! Classes of code points with a configured guarantee: an interface inside a domain of differentiated
//! services, which knows no flow and keeps no bookings (RFC 2475; seed 002, section 4.1: "core nodes need
//! only classify by code point"). The guarantee is one booked slot of the interface's ledger, so that no
//! reservation or booking is promised the same rate again.

use crate::classes::{Premium, PremiumDemand};
use admit::SlotId;
use terms::Rate;
use terms::book::{PacketShape, burst};
use traffic::plan::{BucketSpec, LinkSpec};

/// The shortest packet for the length of a queue, in bytes.
const SHORTEST: u64 = 64;

/// The configured guarantees of an interface's classes, in IP bytes, for packets of 1,000 octets or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Core {
    /// EF: premium foreground (RFC 3246).
    pub premium: Rate,
    /// AF1x: premium background (RFC 2597).
    pub background: Rate,
}

/// The configured guarantees on a link, and their slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SetApart {
    pub(crate) served: Premium,
    pub(crate) slot: Option<SlotId>,
}

impl Core {
    /// The guarantees on a link, as wire rates, with room for the bursts that the edges let through.
    pub(crate) fn premium_on(&self, link: &LinkSpec) -> Premium {
        let class = |rate: Rate| {
            if rate == Rate::ZERO {
                return PremiumDemand::default();
            }
            let shape = PacketShape::default();
            let depth = burst(rate, shape.rtt, true);
            let all = PremiumDemand::default().plus(link, &BucketSpec { rate, depth, min_unit: shape.packet });
            PremiumDemand { packets: depth.get() / SHORTEST + 1, ..all }
        };
        Premium { foreground: class(self.premium), background: class(self.background) }
    }
}
