//! Classes of code points with a configured guarantee: an interface inside a domain of differentiated
//! services, which knows no flow and keeps no bookings (RFC 2475; seed 002, section 4.1: "core nodes need
//! only classify by code point"). The guarantee is one booked slot of the interface's ledger, so that no
//! reservation or booking is promised the same rate again.

use crate::classes::{Premium, PremiumDemand};
use crate::link::Link;
use crate::tc::Tc;
use admit::SlotId;
use terms::book::{PacketShape, burst};
use terms::{IfIndex, Rate, Time, Window};
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
    served: Premium,
    slot: Option<SlotId>,
}

impl Core {
    /// The guarantees on a link, as wire rates, with room for the bursts that the edges let through.
    fn premium_on(&self, link: &LinkSpec) -> Premium {
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

impl Link {
    /// The load of the premium classes: the booked and the configured one.
    pub(crate) fn served(&self) -> Premium {
        let apart = self.apart.served;
        let sum = |a: PremiumDemand, b: PremiumDemand| PremiumDemand {
            rate: a.rate.saturating_add(b.rate),
            depth: a.depth + b.depth,
            packets: a.packets.saturating_add(b.packets),
        };
        Premium {
            foreground: sum(self.premium.foreground, apart.foreground),
            background: sum(self.premium.background, apart.background),
        }
    }

    /// Counts the configured guarantees even if they do not fit beside other slots. The ledger then reports
    /// the shortfall.
    fn set_apart(&mut self, now: Time, served: Premium) {
        self.ledger.expire(now);
        if let Some(slot) = self.apart.slot.take() {
            // It never ends by itself.
            let _ = self.ledger.release(now, slot);
        }
        let rate = served.foreground.rate.saturating_add(served.background.rate);
        let slot = Window::open(now).ok().filter(|_| rate > Rate::ZERO);
        let slot = slot.and_then(|ever| self.ledger.table_mut().adopt_booked(ever, rate).ok());
        self.apart = SetApart { served, slot };
    }
}

impl Tc {
    /// Sets the configured guarantees of an interface's premium classes from now on; a new interface needs
    /// the call again.
    pub(crate) fn set_apart(&mut self, now: Time, oif: IfIndex, core: Core) {
        let Some(link) = self.links.get_mut(&oif) else { return };
        let served = core.premium_on(&link.terms.spec);
        if link.apart.served != served {
            link.set_apart(now, served);
            self.sync(oif, &[], None);
            self.read_ledger(now, oif);
        }
    }
}
