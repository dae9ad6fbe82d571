//! Writing a message and sending it through this node's own side, which reserves where it leaves.

use super::{PATIENCE, Session, SessionPhase};
use crate::io::{AppId, BoomerangUpcall};
use crate::transit::Verdict;
use crate::{Boomerang, life};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::{Route, RouteDecision, TrafficControl};
use terms::probe::ProbeObserver;
use wire::boomerang::{AuthOption, BoomerangRequest, Hops, Opt, Rates, TravelDirection, flag};
use wire::ip::Header;

impl<P: ProbeObserver> Boomerang<P> {
    /// Sends a message with a new transaction: a set-up, a change, a refresh or a release.
    pub(super) fn ask<E: Route + TrafficControl>(&mut self, env: &mut E, app: AppId) {
        let transaction = loop {
            let number = self.chance.next_u32();
            if number != 0 && !self.initiator.transactions.contains_key(&number) {
                break number;
            }
        };
        let Some(session) = self.initiator.sessions.get_mut(&app) else { return };
        let old = core::mem::replace(&mut session.transaction, transaction);
        self.initiator.transactions.remove(&old);
        self.initiator.transactions.insert(transaction, app);
        self.tell(env, app);
    }

    /// Sends the present transaction (again), and sets the timer for its reply.
    pub(super) fn tell<E: Route + TrafficControl>(&mut self, env: &mut E, app: AppId) {
        let (now, interval) = {
            let Some(session) = self.initiator.sessions.get_mut(&app) else { return };
            session.answered = false;
            session.sequence = session.sequence.wrapping_add(1);
            (self.now, session.refresh)
        };
        let Some(source) = self.source_for(env, app) else {
            self.upcall(app, BoomerangUpcall::NoRoute);
            self.initiator.forget(app);
            return;
        };
        let wait = match self.initiator.sessions.get(&app).map(|s| (s.phase, s.silent, s.asked.no_echo)) {
            Some((SessionPhase::Held, ..) | (SessionPhase::Asking, _, true)) => {
                self.chance.shortened(life(interval).mul_div_ceil(2, 7))
            }
            Some((_, silent, _)) => PATIENCE.mul_div_ceil(1 << silent.min(6), 1),
            None => return,
        };
        self.initiator.arm(app, now + wait);
        let Some(mut packet) = self.written(app, source) else { return };
        match self.packet(env, None, &mut packet) {
            Verdict::Pass { oif, gateway } => self.send(oif, gateway, packet),
            // A group's copies have been said already; what has no way now may have one with the next message.
            Verdict::Deliver | Verdict::Dropped(_) => self.group_refused(env, app, &packet),
        }
    }

    /// Handles this node's own refusal of a group, for which no replies come: reports it, and releases everything.
    fn group_refused<E: Route + TrafficControl>(&mut self, env: &mut E, app: AppId, packet: &[u8]) {
        let Ok(probe) = wire::boomerang::ProbePacket::parse(packet) else { return };
        let available = probe.message.qos.asked();
        if !probe.message.is_no_echo() || !probe.message.is_nack() {
            return;
        }
        let Some(session) = self.initiator.sessions.get_mut(&app) else { return };
        session.phase = SessionPhase::Releasing;
        session.wanted = [Rates::default()].into();
        self.ask(env, app);
        self.initiator.forget(app);
        self.upcall(app, BoomerangUpcall::Refused { available, kept: Rates::default() });
    }

    fn source_for<E: Route + TrafficControl>(&mut self, env: &mut E, app: AppId) -> Option<IpAddr> {
        let asked = &self.initiator.sessions.get(&app)?.asked;
        match asked.source {
            Some(source) => Some(source),
            None => match env.route(asked.far_end, Some(asked.classifier.src), None) {
                RouteDecision::Out { source, .. } => Some(source),
                RouteDecision::Tree(_) => Some(asked.classifier.src),
                RouteDecision::Local | RouteDecision::None => None,
            },
        }
    }

    fn written(&mut self, app: AppId, source: IpAddr) -> Option<Vec<u8>> {
        self.initiator.auth_sequence = self.initiator.auth_sequence.max(self.now.as_nanos() / 1_000_000) + 1;
        let sequence = self.initiator.auth_sequence;
        let session = self.initiator.sessions.get(&app)?;
        let asked = &session.asked;
        let mut options = Vec::new();
        options.extend(asked.uid.map(Opt::Uid));
        options.extend(asked.count.then_some(Opt::Hops(Hops::default())));
        options.extend(self.auth_for(session, sequence).map(Opt::Auth));
        let request = BoomerangRequest {
            leg: TravelDirection::Request,
            id: session.id,
            sequence: session.sequence,
            transaction: session.transaction,
            flags: if asked.no_echo { flag::NO_ECHO } else { 0 },
            refresh: session.refresh,
            key: session.key,
            classifier: asked.classifier,
            mask: asked.mask,
            rates: &session.wanted,
            policy: 0,
            options: &options,
        };
        let header = Header {
            src: source,
            dst: asked.far_end,
            protocol: 0,
            ttl: asked.ttl,
            tos: 0,
            // IPv6's has no number for Boomerang, and RSVP's would wake RSVP.
            router_alert: asked.router_alert && source.is_ipv4(),
        };
        let mut packet = Vec::new();
        request.write(&header, &mut packet).ok()?;
        if asked.auth.is_some() {
            self.keys.sign((source, asked.far_end), &mut packet);
        }
        Some(packet)
    }

    fn auth_for(&self, session: &Session, sequence: u64) -> Option<AuthOption> {
        let key_id = session.asked.auth.filter(|id| self.keys.has(*id))?;
        let asked = session.wanted.first().copied().unwrap_or_default();
        Some(AuthOption {
            key_id,
            sequence,
            forward: asked.forward,
            reverse: asked.reverse,
            refresh: session.refresh,
            origin: [0; 32],
            hop: [0; 16],
        })
    }
}
