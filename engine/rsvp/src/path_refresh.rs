//! PATH REFRESH: RFC 2209 section 2.8. A Path message goes out with our hop, our refresh period, and the
//! Adspec updated for our own outgoing interface; a multicast one on each branch. A sending host is a hop
//! too: its first link is reserved like any other.

use crate::engine::{Env, Rsvp};
use crate::io::Datagram;
use crate::lifetime::jittered;
use crate::neighbour::About;
use crate::psb::{Forwarded, MOST_CREDIT, OutgoingInterfaces, Psb};
use crate::table::BlockId;
use core::net::IpAddr;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{Adspec, IfIndex, Session, Time};
use wire::{Builder, MessageType, RsvpHop};

/// The reason why a message of ours was not sent.
const BEYOND: &str = "more set-up than the link may carry, not sent";

impl<P: ProbeObserver> Rsvp<P> {
    /// Sends a Path for this sender and sets the time of the next.
    pub(crate) fn path_refresh<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>) {
        self.step(ProbePoint::PathRefresh, |rsvp| rsvp.refresh_path(now, env, id));
    }

    fn refresh_path<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>) {
        let out = self.psbs[id].out.clone();
        if out.oifs().is_empty() || self.psbs[id].ttl == 0 {
            self.psbs[id].path_refresh_at = Time::FOREVER;
            return;
        }
        let next = now + jittered(self.config.refresh, &mut self.pcg);
        let psb = &mut self.psbs[id];
        psb.path_refresh_at = next;
        let errors = u8::try_from(out.oifs().len()).unwrap_or(u8::MAX);
        psb.credit = psb.credit.saturating_add(errors).min(MOST_CREDIT.max(errors));
        for oif in out.oifs() {
            if let Some(source) = self.source_on(&out, *oif, id) {
                self.send_path(now, env, id, *oif, source);
            }
        }
    }

    fn send_path<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>, oif: IfIndex, source: IpAddr) {
        let (_, session, template) = self.sender_of(id);
        let psb = &self.psbs[id];
        let mut build = Builder::new(MessageType::Path, psb.ttl)
            .session(&session)
            .hop(&RsvpHop { addr: source, lih: oif.0 })
            .time_values(self.config.refresh);
        for object in psb.forward.iter() {
            build = build.raw(object.class, object.ctype, &object.body);
        }
        build = build.sender_template(&template.into()).sender_tspec(&psb.tspec);
        if let Some(arriving) = psb.adspec {
            let broken = psb.phop().is_some_and(|p| p.non_rsvp);
            let arriving = Adspec { break_bit: arriving.break_bit || broken, ..arriving };
            let unknown = &psb.fragments[..];
            build = build.adspec_and(&env.advertise(now, oif, &arriving), unknown);
        }
        let ttl = psb.ttl;
        if let Some(bytes) = self.finished(build) {
            self.set_up.limit(now, oif, env.set_up_rate(oif));
            if self.goes_out(now, &session, oif, bytes.len()) {
                let out =
                    Datagram { oif: Some(oif), src: template.src, dst: session.dst, ttl, router_alert: true, bytes };
                self.send_about(MessageType::Path, out, Some(About::Path(id)));
            }
        }
    }

    /// Sends a PathTear for this sender by the interfaces that its Paths go out by.
    pub(crate) fn path_tear_on(&mut self, id: BlockId<Psb>, forward: &[Forwarded]) {
        let out = self.psbs[id].out.clone();
        if self.psbs[id].ttl == 0 {
            return;
        }
        for oif in out.oifs() {
            if let Some(source) = self.source_on(&out, *oif, id) {
                self.send_path_tear(id, *oif, source, forward);
            }
        }
    }

    fn send_path_tear(&mut self, id: BlockId<Psb>, oif: IfIndex, source: IpAddr, forward: &[Forwarded]) {
        let (_, session, template) = self.sender_of(id);
        let psb = &self.psbs[id];
        let ttl = psb.ttl;
        let mut build =
            Builder::new(MessageType::PathTear, ttl).session(&session).hop(&RsvpHop { addr: source, lih: oif.0 });
        for object in forward {
            build = build.raw(object.class, object.ctype, &object.body);
        }
        let build = build.sender_template(&template.into()).sender_tspec(&psb.tspec);
        if let Some(bytes) = self.finished(build)
            && self.goes_out(self.now, &session, oif, bytes.len())
        {
            let out = Datagram { oif: Some(oif), src: template.src, dst: session.dst, ttl, router_alert: true, bytes };
            self.send_about(MessageType::PathTear, out, Some(About::Path(id)));
        }
    }

    /// True if a message of `len` bytes about a session may go out by an interface: a session with a
    /// reservation always, any other within the interface's set-up limit.
    fn goes_out(&mut self, now: Time, session: &Session, oif: IfIndex, len: usize) -> bool {
        let goes = self.is_reserved(session) || self.set_up.takes(now, oif, len);
        if !goes {
            *self.counters.dropped.entry(BEYOND).or_insert(0) += 1;
        }
        goes
    }

    /// Our address on one of the outgoing interfaces: as the routing table has it, or the interface's own.
    fn source_on(&self, out: &OutgoingInterfaces, oif: IfIndex, id: BlockId<Psb>) -> Option<IpAddr> {
        match out {
            OutgoingInterfaces::Interface { source, .. } => Some(*source),
            _ => self.address_on(oif, self.psbs.key(id).1.src),
        }
    }
}
