//! Aggregation (RESV_AGGREGATION): a node adds an option that names an aggregate of which the session is a
//! part; nodes behind it hold the aggregate and nothing for the part. The node removes its option from the
//! reply. The option concerns only the forward direction.

use super::NodeSide;
use crate::io::Gather;
use crate::work::{Verdict, Work};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::IfIndex;
use terms::probe::ProbeObserver;
use wire::boomerang::{Aggregate, Opt, option_type, with_option, without_option};

impl<P: ProbeObserver> NodeSide<P> {
    /// Sends a request that joins an aggregate as another, longer packet.
    pub(super) fn gathered(
        &mut self,
        work: &Work,
        (oif, gateway, source): (IfIndex, Option<IpAddr>, IpAddr),
        packet: &[u8],
    ) -> Option<Verdict> {
        if work.aggregate.is_some() || work.nack {
            return None;
        }
        let of = |gather: &&Gather| {
            let under = work.classifier.under(&gather.mask) == gather.classifier.under(&gather.mask);
            gather.oif == oif && work.mask.is_exact() && under
        };
        let gather = self.config.gather.iter().find(of).copied()?;
        let aggregate = Aggregate {
            address: source,
            transaction: work.transaction,
            classifier: gather.classifier.under(&gather.mask),
            mask: gather.mask,
            rate: gather.rate,
        };
        let longer = with_option(packet, &Opt::Aggregation(aggregate))?;
        Some(self.instead(work, oif, gateway, longer))
    }

    /// Removes this node's option from the reply to such a request.
    pub(super) fn ungathered(
        &mut self,
        work: &Work,
        (oif, gateway): (IfIndex, Option<IpAddr>),
        packet: &[u8],
    ) -> Option<Verdict> {
        if !work.gathered_here {
            return None;
        }
        let shorter = without_option(packet, option_type::AGGREGATION)?;
        Some(self.instead(work, oif, gateway, shorter))
    }

    /// Sends another packet instead of the one from the input.
    fn instead(&mut self, work: &Work, oif: IfIndex, gateway: Option<IpAddr>, mut packet: Vec<u8>) -> Verdict {
        if work.proven {
            self.proof.seal(work, &mut packet);
        }
        self.send(oif, gateway, packet);
        Verdict::Dropped(crate::io::FailureReason::Heard)
    }
}
