//! PATH REFRESH: RFC 2209 section 2.8. A Path message goes out with our hop, our refresh period, and the Adspec after
//! our own outgoing interface. A sending host is a hop too: its first link is reserved like any other.

use crate::engine::{Env, Rsvp};
use crate::io::Datagram;
use crate::lifetime::jittered;
use crate::psb::{Forwarded, MOST_CREDIT, Out, Psb};
use crate::table::Id;
use terms::{Adspec, Time};
use wire::{Builder, MessageType, RsvpHop};

impl Rsvp {
    /// Sends a Path for this sender and sets the time of the next.
    pub(crate) fn path_refresh<E: Env>(&mut self, now: Time, env: &mut E, id: Id<Psb>) {
        let (_, session, template) = self.sender_of(id);
        let psb = &self.psbs[id];
        let Some((oif, source)) = exit(psb) else {
            self.psbs[id].path_refresh_at = Time::FOREVER;
            return;
        };
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
            build = build.adspec(&env.advertise(now, oif, &arriving));
        }
        let ttl = psb.ttl;
        let psb = &mut self.psbs[id];
        psb.path_refresh_at = now + jittered(self.config.refresh, &mut self.pcg);
        psb.credit = psb.credit.saturating_add(1).min(MOST_CREDIT);
        if let Some(bytes) = self.finished(build) {
            let out = Datagram { oif: Some(oif), src: template.src, dst: session.dst, ttl, router_alert: true, bytes };
            self.send(MessageType::Path, out);
        }
    }

    /// A PathTear for this sender, the way its Paths go.
    pub(crate) fn path_tear_on(&mut self, id: Id<Psb>, forward: &[Forwarded]) {
        let (_, session, template) = self.sender_of(id);
        let psb = &self.psbs[id];
        let Some((oif, source)) = exit(psb) else { return };
        let ttl = psb.ttl;
        let mut build =
            Builder::new(MessageType::PathTear, ttl).session(&session).hop(&RsvpHop { addr: source, lih: oif.0 });
        for object in forward {
            build = build.raw(object.class, object.ctype, &object.body);
        }
        let build = build.sender_template(&template.into()).sender_tspec(&psb.tspec);
        if let Some(bytes) = self.finished(build) {
            let out = Datagram { oif: Some(oif), src: template.src, dst: session.dst, ttl, router_alert: true, bytes };
            self.send(MessageType::PathTear, out);
        }
    }
}

/// Where a sender's Paths go, if they go anywhere: not past a TTL of zero.
fn exit(psb: &Psb) -> Option<(terms::IfIndex, core::net::IpAddr)> {
    match psb.out {
        Out::Interface { oif, source, .. } if psb.ttl > 0 => Some((oif, source)),
        Out::Interface { .. } | Out::Local | Out::Nowhere => None,
    }
}
