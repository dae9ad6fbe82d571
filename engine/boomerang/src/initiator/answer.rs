//! Replies at the initiating side: without NACK, their values are adopted; with NACK, a node has refused.

use super::{Initiator, LOWERINGS, Session, SessionPhase, UNLOCKS, upcall};
use crate::auth::{Keys, auth_of};
use crate::io::{AppId, BoomerangUpcall, Event};
use crate::node::{Env, NodeSide};
use terms::probe::ProbeObserver;
use wire::boomerang::{self, Opt, Rates};

/// The values of a reply.
struct Answer {
    rates: Rates,
    refresh: u8,
    key: u64,
    nack: bool,
    hops: Option<(u16, u16)>,
}

impl Initiator {
    /// Processes a reply; false if it belongs to none of this node's messages.
    pub(crate) fn answered<P: ProbeObserver>(
        &mut self,
        node: &mut NodeSide<P>,
        env: &mut impl Env,
        transaction: u32,
        packet: &[u8],
    ) -> bool {
        let Some(app) = self.transactions.get(&transaction).copied() else { return false };
        let Some(session) = self.sessions.get(&app) else { return false };
        let Ok(probe) = boomerang::ProbePacket::parse(packet) else { return false };
        let unexpected = session.answered
            || probe.src != session.asked.far_end
            || !plausible(session, &probe)
            || !believable(node.keys(), session, &probe, packet);
        if unexpected {
            node.event(Event::Unexpected { transaction });
            return true;
        }
        let hops = probe.message.options().find_map(|(_, option)| match option {
            Opt::Hops(hops) => Some((hops.forward, hops.reverse)),
            _ => None,
        });
        let answer = Answer {
            rates: probe.message.qos.asked(),
            refresh: probe.message.refresh,
            key: probe.message.key,
            nack: probe.message.is_nack(),
            hops,
        };
        self.heard(node, env, app, &answer);
        true
    }

    fn heard<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, app: AppId, answer: &Answer) {
        let Some(session) = self.sessions.get_mut(&app) else { return };
        session.answered = true;
        session.silent = 0;
        match session.phase {
            SessionPhase::Releasing => {
                self.forget(app);
                upcall(node, app, BoomerangUpcall::Released);
            }
            _ if answer.nack => self.refused(node, env, app, answer),
            _ if answer.key > 1 && session.key != answer.key && session.unlocks < UNLOCKS => {
                session.key = answer.key;
                session.unlocks += 1;
                self.tell(node, env, app);
            }
            _ => self.granted(node, env, app, answer),
        }
    }

    fn granted<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, app: AppId, answer: &Answer) {
        let now = node.now();
        let Some(session) = self.sessions.get_mut(&app) else { return };
        let refresh = answer.refresh.min(session.refresh);
        let news = session.phase == SessionPhase::Asking
            || session.granted != Some(answer.rates)
            || refresh != session.refresh;
        let moved = answer.hops != session.hops;
        // What a node could not have all of, those before it must not hold all of either.
        let uneven = session.wanted.first() != Some(&answer.rates);
        session.phase = SessionPhase::Held;
        session.granted = Some(answer.rates);
        session.wanted = [answer.rates].into();
        session.refresh = refresh;
        session.hops = answer.hops;
        if !uneven {
            let wait = self.chance.shortened(terms::Span::from_secs(u64::from(refresh.max(1))));
            self.arm(app, now + wait);
        }
        if news {
            upcall(node, app, BoomerangUpcall::Reserved { rates: answer.rates, refresh, hops: answer.hops });
        }
        if let Some((forward, reverse)) = answer.hops.filter(|(forward, reverse)| moved && forward != reverse) {
            upcall(node, app, BoomerangUpcall::HopMismatch { forward, reverse });
        }
        if uneven {
            self.ask(node, env, app);
        }
    }

    fn refused<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, app: AppId, answer: &Answer) {
        let Some(session) = self.sessions.get_mut(&app) else { return };
        let (available, least) = (answer.rates, session.asked.at_least);
        let enough = !least.is_zero() && available.forward >= least.forward && available.reverse >= least.reverse;
        if enough && session.lowered < LOWERINGS {
            session.lowered += 1;
            session.phase = SessionPhase::Asking;
            session.wanted = [available].into();
            return self.ask(node, env, app);
        }
        // What was there before a change that was refused is said again at once, so that every node has it.
        let asked = session.wanted.first().copied();
        if let Some(kept) = session.granted.filter(|kept| Some(*kept) != asked) {
            session.wanted = [kept].into();
            session.phase = SessionPhase::Held;
            upcall(node, app, BoomerangUpcall::Refused { available, kept });
            return self.ask(node, env, app);
        }
        upcall(node, app, BoomerangUpcall::Refused { available, kept: Rates::default() });
        self.give_up(node, env, app);
    }

    /// Sends rate zero once, so that no node keeps a useless reservation, and forgets the session.
    pub(super) fn give_up<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, app: AppId) {
        if let Some(session) = self.sessions.get_mut(&app) {
            session.wanted = [Rates::default()].into();
            session.phase = SessionPhase::Releasing;
        }
        self.ask(node, env, app);
        self.forget(app);
    }
}

/// True if a reply matches the request and exceeds none of its rates.
fn plausible(session: &Session, probe: &boomerang::ProbePacket<'_>) -> bool {
    let (message, asked) = (&probe.message, session.wanted.first().copied().unwrap_or_default());
    let said = message.qos.asked();
    let same = message.classifier == session.asked.classifier && message.mask == session.asked.mask;
    let within = said.forward <= asked.forward && said.reverse <= asked.reverse;
    // Without NACK the rates are one of the pairs that were said.
    same && within && (message.is_nack() || session.wanted.contains(&said))
}

/// Checks the last node's digest if the session has a key, or anyone could lower the reply's rates.
fn believable(keys: &Keys, session: &Session, probe: &boomerang::ProbePacket<'_>, packet: &[u8]) -> bool {
    if !session.asked.auth.is_some_and(|id| keys.has(id)) {
        return true;
    }
    let message = packet.get(probe.at..probe.total);
    let auth = auth_of(&probe.message).zip(message);
    auth.is_some_and(|(auth, message)| keys.verify(probe, &auth, message))
}
