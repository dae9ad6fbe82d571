//! The far end, if it is an aware node: it reserves the reverse half on the interface that its own packets
//! leave by, and replies. Any other host that answers ping works too, without a reservation on its own link.

use super::{Env, NodeSide};
use crate::io::FailureReason;
use crate::work::{Verdict, Work};
use terms::ports::RouteDecision;
use terms::probe::ProbeObserver;
use wire::boomerang::{self, TravelDirection};

impl<P: ProbeObserver> NodeSide<P> {
    pub(super) fn far_end(&mut self, env: &mut impl Env, work: &Work, packet: &mut [u8]) -> Verdict {
        if work.no_echo {
            return Verdict::Dropped(FailureReason::Unanswered);
        }
        let RouteDecision::Out { oif, gateway, .. } = env.route(work.src, Some(work.dst), None) else {
            return Verdict::Deliver;
        };
        if !boomerang::answered(packet) {
            return Verdict::Deliver;
        }
        let back = work.turned();
        let outcome = self.leg(env, TravelDirection::Reply, &back, oif);
        self.write(&back, &outcome, packet, false);
        Verdict::Pass { oif, gateway }
    }
}
