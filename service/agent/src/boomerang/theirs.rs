//! One session, one holder: the program in the kernel must not create a session that the engine holds, and a
//! session of the program goes to the engine with the first message that only the engine understands.
//!
//! The engine answers a vector of rates with one pair. The source then asks for that pair, in a form that the
//! program could decide; a session may be asked for with AUTH today and without it tomorrow. So the kernel's
//! table marks each session that the engine holds, and its messages go to the engine
//! ([`FastPath::mark`](linux::boomerang::FastPath::mark)) until the engine drops it.

use super::turn::BoomerangTurn;
use control::granted::GrantedShare;
use linux::boomerang::Taken;
use terms::ports::{Route, RouteDecision};
use terms::{FlowKey, IfIndex, Rate};
use wire::boomerang::{ProbePacket, TravelDirection};

/// The half that a message is about, and the program's state of it.
pub(super) struct Half {
    oif: IfIndex,
    flow: FlowKey,
    /// True if the message asks for nothing in this direction.
    over: bool,
    taken: Option<Taken>,
}

impl BoomerangTurn<'_> {
    /// Before the engine is told a message: returns the program's share of its half to the ledger, for the
    /// engine.
    pub(super) fn take_over(&mut self, iif: IfIndex, packet: &[u8]) -> Option<Half> {
        let probe = ProbePacket::parse(packet).ok().filter(|probe| probe.message.mask.is_exact())?;
        let (message, asked) = (&probe.message, probe.message.qos.asked());
        let (flow, rate) = match message.leg {
            TravelDirection::Request => (message.classifier.flow(), asked.forward),
            TravelDirection::Reply => (message.classifier.turned().flow(), asked.reverse),
        };
        let over = rate == 0 && !message.is_nack();
        let RouteDecision::Out { oif, .. } = self.0.node.route_mut().route(probe.dst, Some(probe.src), Some(iif))
        else {
            return None;
        };
        let taken = self.0.echo.as_ref().filter(|echo| echo.fast.admits(oif))?.path.take_over(oif, &flow);
        if let Some(taken) = &taken {
            let less = self.0.node.tc().granted(oif).saturating_sub(taken.rate());
            self.book_grant(oif, less);
        }
        Some(Half { oif, flow, over, taken })
    }

    /// After the engine was told: keeps the half from the program as long as the engine holds it. A half that
    /// the engine refused stays as it was.
    pub(super) fn keep_apart(&mut self, half: Half) {
        let Half { oif, flow, over, taken } = half;
        if self.engine_holds(oif, &flow) {
            let Some(echo) = &mut self.0.echo else { return };
            if taken.is_some() || echo.path.mark(oif, &flow) {
                echo.fast.theirs.insert((oif, flow));
            }
            return;
        }
        let Some(taken) = taken else { return };
        let more = self.0.node.tc().granted(oif).saturating_add(taken.rate());
        // Nobody else has asked the ledger since.
        let fits = !over && self.book_grant(oif, more);
        let Some(echo) = &self.0.echo else { return };
        match fits {
            true => echo.path.put_back(taken),
            false => echo.path.unmark(oif, &flow),
        }
    }

    /// Releases adopted sessions that the engine no longer holds.
    pub(super) fn sweep_theirs(&mut self) {
        let Some(echo) = &mut self.0.echo else { return };
        let theirs = std::mem::take(&mut echo.fast.theirs);
        let (still, over) = theirs.into_iter().partition(|(oif, flow)| self.engine_holds(*oif, flow));
        let Some(echo) = &mut self.0.echo else { return };
        echo.fast.theirs = still;
        let over: std::collections::BTreeSet<(IfIndex, FlowKey)> = over;
        over.iter().for_each(|(oif, flow)| echo.path.unmark(*oif, flow));
    }

    /// True also for a session of an earlier run that is adopted and has neither been renewed nor expired.
    fn engine_holds(&self, oif: IfIndex, flow: &FlowKey) -> bool {
        let adopted = || self.0.node.tc().reservation(oif, flow).is_some_and(|held| held.adopted_until.is_some());
        self.0.node.boomerang().holds(oif, flow) || adopted()
    }

    fn book_grant(&mut self, oif: IfIndex, whole: Rate) -> bool {
        let now = self.0.clock.now();
        let (Some(echo), Some(config)) = (&self.0.echo, &self.0.config.boomerang) else { return false };
        let share: GrantedShare = echo.share(config, whole);
        let booked = self.0.node.grant(now, oif, share).is_ok();
        self.0.drain();
        booked
    }
}
