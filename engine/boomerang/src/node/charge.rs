//! Charging a message to the account that pays for it: a member's, a known session's, or a stranger's.

use super::{Env, NodeSide};
use crate::half::HalfKey;
use crate::limit::{Account, MESSAGE};
use crate::work::Work;
use terms::IfIndex;
use terms::ports::RouteDecision;
use terms::probe::ProbeObserver;
use wire::boomerang::TravelDirection;

impl<P: ProbeObserver> NodeSide<P> {
    /// Charges a message to its account, which is set in `work`; false if the account is empty.
    pub(super) fn may_say(
        &mut self,
        env: &mut impl Env,
        work: &mut Work,
        way: RouteDecision,
        iif: Option<IfIndex>,
    ) -> bool {
        let Some(iif) = iif else { return true };
        work.account = if work.proven {
            Account::Member(work.src)
        } else {
            let known = self.known_by(env, work, way, iif).and_then(|id| self.blocks.table().hash_at(id));
            known.map_or(Account::Stranger(work.src, iif), Account::Known)
        };
        self.limits.take(self.now, work.account, MESSAGE)
    }

    /// The session block that makes a message part of an existing session: the block that it refreshes, or,
    /// for a reply, the block of its request.
    fn known_by(&self, env: &mut impl Env, work: &Work, way: RouteDecision, iif: IfIndex) -> Option<u32> {
        if let RouteDecision::Tree(tree) = way {
            return tree.oifs.as_slice().iter().find_map(|oif| self.there(work, work.leg, *oif));
        }
        let (leg, oif) = match (way, work.leg) {
            (RouteDecision::Out { oif, .. }, leg) => (leg, Some(oif)),
            // We are the far end: what is reserved here is for the answer.
            (RouteDecision::Local, TravelDirection::Request) => match env.route(work.src, Some(work.dst), None) {
                RouteDecision::Out { oif, .. } => (TravelDirection::Reply, Some(oif)),
                _ => (TravelDirection::Reply, None),
            },
            (_, leg) => (leg, None),
        };
        let there = oif.and_then(|oif| self.there(work, leg, oif));
        if there.is_some() || work.leg == TravelDirection::Request {
            return there;
        }
        let forward = self.there(work, TravelDirection::Request, iif)?;
        self.blocks.get(forward).filter(|(_, half)| half.undo.0 == work.transaction).map(|_| forward)
    }

    fn there(&self, work: &Work, leg: TravelDirection, oif: IfIndex) -> Option<u32> {
        let (classifier, mask) = self.held_as(work, leg);
        let mask_number = self.blocks.table().mask_known(&mask)?;
        self.blocks.table().find(&HalfKey { flow: classifier.flow_under(&mask), oif, mask: mask_number })
    }
}
