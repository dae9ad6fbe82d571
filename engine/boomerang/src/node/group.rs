//! Multicast: a message to a group reserves the forward half on every branch of the sender's tree. There are no
//! replies, so only the sender's node learns of a refusal. NO_ECHO must be set, or the group would be an amplifier.

use super::{Env, NodeSide};
use crate::io::FailureReason;
use crate::work::{Outcome, Verdict, Work};
use alloc::vec::Vec;
use terms::IfIndex;
use terms::ports::RouteDecision;
use terms::probe::ProbeObserver;
use wire::boomerang::{TravelDirection, forwarded};

impl<P: ProbeObserver> NodeSide<P> {
    pub(super) fn group(
        &mut self,
        env: &mut impl Env,
        iif: Option<IfIndex>,
        ttl: u8,
        work: &Work,
        packet: &mut [u8],
    ) -> Verdict {
        if !work.no_echo {
            return Verdict::Dropped(FailureReason::NoEcho);
        }
        if (0..work.count()).any(|index| work.rate(TravelDirection::Reply, index) != Some(0)) {
            return Verdict::Dropped(FailureReason::GroupReverse);
        }
        if iif.is_some() && ttl < 2 {
            return Verdict::Dropped(FailureReason::Ttl);
        }
        let (from, branches): (_, Vec<IfIndex>) = match env.route(work.dst, Some(work.src), iif) {
            RouteDecision::Tree(tree) => (tree.iif, tree.oifs.as_slice().to_vec()),
            RouteDecision::Out { oif, .. } => (None, [oif].into()),
            RouteDecision::Local | RouteDecision::None => return Verdict::Dropped(FailureReason::NoRoute),
        };
        if from.is_some() && from != iif {
            return Verdict::Dropped(FailureReason::WrongWay);
        }
        let mut refused: Option<Outcome> = None;
        for oif in branches.into_iter().filter(|oif| Some(*oif) != iif) {
            let mut copy = packet.to_vec();
            let outcome = self.leg(env, TravelDirection::Request, work, oif);
            self.write(work, &outcome, &mut copy, iif.is_some());
            if outcome.refused && refused.is_none_or(|worst| outcome.free < worst.free) {
                refused = Some(outcome);
            }
            if iif.is_none() || forwarded(&mut copy) {
                self.send(oif, None, copy);
            }
        }
        // Whose own it is hears of it.
        if let (None, Some(outcome)) = (iif, refused) {
            self.write(work, &outcome, packet, false);
        }
        Verdict::Dropped(FailureReason::Heard)
    }
}
