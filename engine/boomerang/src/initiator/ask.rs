//! Writing a message and sending it through this node's own side, which reserves where it leaves.

use super::{Initiator, PATIENCE, Session, SessionPhase, upcall};
use crate::auth::Keys;
use crate::half::life;
use crate::io::{AppId, BoomerangUpcall};
use crate::node::{Env, NodeSide};
use crate::work::Verdict;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::Time;
use terms::ports::RouteDecision;
use terms::probe::ProbeObserver;
use wire::boomerang::{AuthOption, BoomerangRequest, Hops, Opt, Rates, TravelDirection, flag};
use wire::ip::Header;

impl Initiator {
    /// Sends a message with a new transaction: a set-up, a change, a refresh or a release.
    pub(super) fn ask<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, app: AppId) {
        let transaction = loop {
            let number = self.chance.next_u32();
            if number != 0 && !self.transactions.contains_key(&number) {
                break number;
            }
        };
        let Some(session) = self.sessions.get_mut(&app) else { return };
        let old = core::mem::replace(&mut session.transaction, transaction);
        self.transactions.remove(&old);
        self.transactions.insert(transaction, app);
        self.tell(node, env, app);
    }

    /// Sends the present transaction (again), and sets the timer for its reply.
    pub(super) fn tell<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, app: AppId) {
        let (now, interval) = {
            let Some(session) = self.sessions.get_mut(&app) else { return };
            session.answered = false;
            session.sequence = session.sequence.wrapping_add(1);
            (node.now(), session.refresh)
        };
        let Some(source) = self.source_for(env, app) else {
            upcall(node, app, BoomerangUpcall::NoRoute);
            self.forget(app);
            return;
        };
        let wait = match self.sessions.get(&app).map(|s| (s.phase, s.silent, s.asked.no_echo)) {
            Some((SessionPhase::Held, ..) | (SessionPhase::Asking, _, true)) => {
                self.chance.shortened(life(interval).mul_div_ceil(2, 7))
            }
            Some((_, silent, _)) => PATIENCE.mul_div_ceil(1 << silent.min(6), 1),
            None => return,
        };
        self.arm(app, now + wait);
        let Some(mut packet) = self.written(node.now(), node.keys(), app, source) else { return };
        match node.packet(env, None, &mut packet) {
            Verdict::Pass { oif, gateway } => node.send(oif, gateway, packet),
            // A group's copies have been said already; what has no way now may have one with the next message.
            Verdict::Deliver | Verdict::Answer { .. } | Verdict::Dropped(_) => {
                self.group_refused(node, env, app, &packet)
            }
        }
    }

    /// Handles this node's own refusal of a group, for which no replies come: reports it, and releases everything.
    fn group_refused<P: ProbeObserver>(
        &mut self,
        node: &mut NodeSide<P>,
        env: &mut impl Env,
        app: AppId,
        packet: &[u8],
    ) {
        let Ok(probe) = wire::boomerang::ProbePacket::parse(packet) else { return };
        let available = probe.message.qos.asked();
        if !probe.message.is_no_echo() || !probe.message.is_nack() {
            return;
        }
        let Some(session) = self.sessions.get_mut(&app) else { return };
        session.phase = SessionPhase::Releasing;
        session.wanted = [Rates::default()].into();
        self.ask(node, env, app);
        self.forget(app);
        upcall(node, app, BoomerangUpcall::Refused { available, kept: Rates::default() });
    }

    fn source_for(&self, env: &mut impl Env, app: AppId) -> Option<IpAddr> {
        let asked = &self.sessions.get(&app)?.asked;
        match asked.source {
            Some(source) => Some(source),
            None => match env.route(asked.far_end, Some(asked.classifier.src), None) {
                RouteDecision::Out { source, .. } => Some(source),
                RouteDecision::Tree(_) => Some(asked.classifier.src),
                RouteDecision::Local | RouteDecision::None => None,
            },
        }
    }

    fn written(&mut self, now: Time, keys: &Keys, app: AppId, source: IpAddr) -> Option<Vec<u8>> {
        self.auth_sequence = self.auth_sequence.max(now.as_nanos() / 1_000_000) + 1;
        let sequence = self.auth_sequence;
        let session = self.sessions.get(&app)?;
        let asked = &session.asked;
        let mut options = Vec::new();
        options.extend(asked.uid.map(Opt::Uid));
        options.extend(asked.count.then_some(Opt::Hops(Hops::default())));
        options.extend(auth_for(keys, session, sequence).map(Opt::Auth));
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
            keys.sign((source, asked.far_end), &mut packet);
        }
        Some(packet)
    }
}

fn auth_for(keys: &Keys, session: &Session, sequence: u64) -> Option<AuthOption> {
    let key_id = session.asked.auth.filter(|id| keys.has(*id))?;
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
