//! One to many: a message to a multicast group reserves the forward half on every branch of the sender's tree. Nobody answers,
//! so nobody hears of a refusal but by the sender's own node; NO_ECHO must say so, or the group would be an amplifier.

use crate::engine::{Boomerang, Env};
use crate::io::Why;
use crate::transit::{Outcome, Verdict, Work};
use alloc::vec::Vec;
use terms::IfIndex;
use terms::ports::Way;
use terms::probe::Probe;
use wire::boomerang::{Leg, forwarded};

impl<P: Probe> Boomerang<P> {
    pub(crate) fn group(
        &mut self,
        env: &mut impl Env,
        iif: Option<IfIndex>,
        ttl: u8,
        work: &Work,
        packet: &mut [u8],
    ) -> Verdict {
        if !work.no_echo {
            return Verdict::Dropped(Why::NoEcho);
        }
        if (0..work.count()).any(|index| work.rate(Leg::Reply, index) != Some(0)) {
            return Verdict::Dropped(Why::GroupReverse);
        }
        if iif.is_some() && ttl < 2 {
            return Verdict::Dropped(Why::Ttl);
        }
        let (from, branches): (_, Vec<IfIndex>) = match env.route(work.dst, Some(work.src), iif) {
            Way::Tree(tree) => (tree.iif, tree.oifs.as_slice().to_vec()),
            Way::Out { oif, .. } => (None, [oif].into()),
            Way::Local | Way::None => return Verdict::Dropped(Why::NoRoute),
        };
        if from.is_some() && from != iif {
            return Verdict::Dropped(Why::WrongWay);
        }
        let mut refused: Option<Outcome> = None;
        for oif in branches.into_iter().filter(|oif| Some(*oif) != iif) {
            let mut copy = packet.to_vec();
            let outcome = self.leg(env, Leg::Request, work, oif);
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
        Verdict::Dropped(Why::Heard)
    }
}
