//! Classes of code points that are guaranteed by configuration: an interface in the middle of a domain of differentiated
//! services, which knows no flow and keeps no book (RFC 2475; seed 002, section 4.1: "core nodes need only classify by code
//! point"). What is set apart is one booked slot of the interface's ledger, so that nothing that is signalled or booked
//! there is promised the same again.

use crate::classes::{Premium, PremiumDemand};
use crate::link::Link;
use crate::tc::Tc;
use admit::SlotId;
use terms::book::{PacketShape, burst};
use terms::{IfIndex, Rate, Time, Window};
use traffic::plan::{BucketSpec, LinkSpec};

/// No packet is shorter, as far as the length of a queue goes.
const SHORTEST: u64 = 64;

/// What the classes of an interface get whatever is booked on it. IP bytes, in packets of 1,000 octets or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Core {
    /// EF: premium foreground (RFC 3246).
    pub premium: Rate,
    /// AF1x: premium background (RFC 2597).
    pub background: Rate,
}

/// What that is on a link, and its slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SetApart {
    served: Premium,
    slot: Option<SlotId>,
}

impl Core {
    /// On a link: wire rates, and room for the bursts that the edges let through.
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
    /// What the premium classes serve: what is booked, and what is set apart.
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

    /// Counts what is set apart, whether or not it fits beside what is there: it was configured. Where it does not, the
    /// ledger tells what is missing.
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
    /// What the premium classes of an interface get by configuration from now on; an interface that is made anew is told
    /// again.
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
