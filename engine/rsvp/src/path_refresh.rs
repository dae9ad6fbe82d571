//! PATH REFRESH: RFC 2209 section 2.8. A Path message goes out with our hop, our refresh period, and the
//! Adspec updated for our own outgoing interface; a multicast one on each branch. A sending host is a hop
//! too: its first link is reserved like any other.

use crate::io::Datagram;
use crate::links::Env;
use crate::neighbour::About;
use crate::procedure::procedure;
use crate::state::psb::{Forwarded, MOST_CREDIT, OutgoingInterfaces, Psb};
use crate::state::table::BlockId;
use core::net::IpAddr;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{Adspec, IfIndex, Time};
use wire::{Builder, MessageType, RsvpHop};

procedure! {
    /// The Paths and PathTears that go out for a sender.
    PathRefresh, measured
}

impl<P: ProbeObserver, E: Env> PathRefresh<'_, P, E> {
    /// Sends a Path for this sender and sets the time of the next.
    pub(crate) fn path_refresh(&mut self, id: BlockId<Psb>) {
        self.step(ProbePoint::PathRefresh, |rsvp| rsvp.refresh_path(id));
    }

    fn refresh_path(&mut self, id: BlockId<Psb>) {
        let out = self.state[id].out.clone();
        if out.oifs().is_empty() || self.state[id].ttl == 0 {
            self.state[id].path_refresh_at = Time::FOREVER;
            return;
        }
        let next = self.state.next_refresh(self.signalling.now());
        let psb = &mut self.state[id];
        psb.path_refresh_at = next;
        let errors = u8::try_from(out.oifs().len()).unwrap_or(u8::MAX);
        psb.credit = psb.credit.saturating_add(errors).min(MOST_CREDIT.max(errors));
        for oif in out.oifs() {
            if let Some(source) = self.source_on(&out, *oif, id) {
                self.send_path(id, *oif, source);
            }
        }
    }

    fn send_path(&mut self, id: BlockId<Psb>, oif: IfIndex, source: IpAddr) {
        let (_, session, template) = self.state.sender_of(id);
        let psb = &self.state[id];
        let mut build = Builder::new(MessageType::Path, psb.ttl)
            .session(&session)
            .hop(&RsvpHop { addr: source, lih: oif.0 })
            .time_values(self.state.config().refresh);
        for object in psb.forward.iter() {
            build = build.raw(object.class, object.ctype, &object.body);
        }
        build = build.sender_template(&template.into()).sender_tspec(&psb.tspec);
        if let Some(arriving) = psb.adspec {
            let broken = psb.phop().is_some_and(|p| p.non_rsvp);
            let arriving = Adspec { break_bit: arriving.break_bit || broken, ..arriving };
            let unknown = &psb.fragments[..];
            build = build.adspec_and(&self.env.advertise(self.signalling.now(), oif, &arriving), unknown);
        }
        let ttl = psb.ttl;
        if let Some(bytes) = self.signalling.out().finished(build) {
            self.signalling.limit_set_up(oif, self.env.set_up_rate(oif));
            if self.signalling.goes_out(self.state, &session, oif, bytes.len()) {
                let out =
                    Datagram { oif: Some(oif), src: template.src, dst: session.dst, ttl, router_alert: true, bytes };
                self.signalling.send_about(self.state, MessageType::Path, out, Some(About::Path(id)));
            }
        }
    }

    /// Sends a PathTear for this sender by the interfaces that its Paths go out by.
    pub(crate) fn path_tear_on(&mut self, id: BlockId<Psb>, forward: &[Forwarded]) {
        let out = self.state[id].out.clone();
        if self.state[id].ttl == 0 {
            return;
        }
        for oif in out.oifs() {
            if let Some(source) = self.source_on(&out, *oif, id) {
                self.send_path_tear(id, *oif, source, forward);
            }
        }
    }

    fn send_path_tear(&mut self, id: BlockId<Psb>, oif: IfIndex, source: IpAddr, forward: &[Forwarded]) {
        let (_, session, template) = self.state.sender_of(id);
        let psb = &self.state[id];
        let ttl = psb.ttl;
        let mut build =
            Builder::new(MessageType::PathTear, ttl).session(&session).hop(&RsvpHop { addr: source, lih: oif.0 });
        for object in forward {
            build = build.raw(object.class, object.ctype, &object.body);
        }
        let build = build.sender_template(&template.into()).sender_tspec(&psb.tspec);
        if let Some(bytes) = self.signalling.out().finished(build)
            && self.signalling.goes_out(self.state, &session, oif, bytes.len())
        {
            let out = Datagram { oif: Some(oif), src: template.src, dst: session.dst, ttl, router_alert: true, bytes };
            self.signalling.send_about(self.state, MessageType::PathTear, out, Some(About::Path(id)));
        }
    }

    /// Our address on one of the outgoing interfaces: as the routing table has it, or the interface's own.
    fn source_on(&self, out: &OutgoingInterfaces, oif: IfIndex, id: BlockId<Psb>) -> Option<IpAddr> {
        match out {
            OutgoingInterfaces::Interface { source, .. } => Some(*source),
            _ => self.signalling.links().address_on(oif, self.state.key(id).1.src),
        }
    }
}
