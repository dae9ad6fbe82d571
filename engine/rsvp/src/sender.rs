//! SENDER, RFC 2205 section 3.11.1: a local application announces its traffic, or stops.

use crate::engine::{Env, Rsvp, api_refusal};
use crate::heard::UNHEARD;
use crate::io::{AppId, Gone, Upcall};
use crate::psb::{Origin, Psb};
use crate::refusal::{Refusal, api};
use crate::short_list::Few;
use crate::table::BlockId;
use crate::timers::Alarm;
use alloc::format;
use alloc::string::ToString;
use terms::probe::ProbeObserver;
use terms::{Adspec, Bytes, Rate, SenderTemplate, Session, Time, Tspec};
use wire::float;
use wire::iana::error;

/// A SENDER call.
pub(crate) struct Offer {
    pub app: AppId,
    pub session: Session,
    pub template: SenderTemplate,
    pub tspec: Tspec,
    pub ttl: u8,
}

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn sender<E: Env>(&mut self, now: Time, env: &mut E, offer: &Offer) {
        let offered = self.offer(now, env, offer);
        if let Err(refusal) = offered {
            let (session, template) = (offer.session, Some(offer.template));
            let error = refusal.report(offer.template.src, None);
            self.tell(offer.app, Upcall::Error { session, template, resv: false, error });
        }
    }

    fn offer<E: Env>(&mut self, now: Time, env: &mut E, offer: &Offer) -> Result<(), Refusal> {
        let Offer { app, session, template, ttl, .. } = offer;
        self.check_offer(offer)?;
        let tspec = as_on_the_wire(&offer.tspec);
        let known = self.sessions.find(session).and_then(|sid| self.psb_of(sid, template));
        let out = match session.dst.is_multicast() {
            true => self.tree_from_here(env, session, template.src),
            false => self.way_out(env, session, template.src, None),
        };
        let id = match known {
            Some(id) if self.local_sender(id) == Some(*app) => {
                self.offer_again(now, env, id, &tspec, *ttl);
                return Ok(());
            }
            Some(_) => return Err(api_refusal(api::TAKEN, "another application sends this already".to_string())),
            None => {
                let mtus = out.oifs().iter().filter_map(|oif| self.interfaces.get(oif)).map(|i| i.mtu);
                let mtu = mtus.min().unwrap_or(u32::MAX);
                let psb = Psb {
                    origin: Origin::Local(*app),
                    tspec,
                    adspec: Some(Adspec::origin(mtu)),
                    fragments: Few::NONE,
                    ttl: *ttl,
                    out,
                    forward: Few::NONE,
                    refresh: self.config.refresh,
                    expires: Time::FOREVER,
                    heard: UNHEARD,
                    path_refresh_at: Time::FOREVER,
                    credit: 0,
                    phop_since: now,
                    other: None,
                    confirm: None,
                    blockade: None,
                    entry: false,
                    request: None,
                    alarm: Alarm::OFF,
                };
                self.add_path_state(session, template, psb)?
            }
        };
        self.path_came(now, env, id);
        Ok(())
    }

    fn offer_again<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>, tspec: &Tspec, ttl: u8) {
        let psb = &mut self.psbs[id];
        let changed = psb.tspec != *tspec;
        psb.tspec = *tspec;
        psb.ttl = ttl;
        if changed {
            self.sender_changed(now, env, id);
        }
        self.path_event(id);
        self.path_refresh(now, env, id);
        self.arm_path(id);
    }

    fn check_offer(&self, offer: &Offer) -> Result<(), Refusal> {
        let Offer { session, template, .. } = offer;
        if session.dst.is_ipv4() != template.src.is_ipv4() {
            let text = format!("{} and {} are of different address families", session.dst, template.src);
            return Err(api_refusal(api::ADDRESS, text));
        }
        if !self.is_ours(template.src) && !self.is_proxy(offer.app) {
            return Err(api_refusal(api::ADDRESS, format!("{} is not an address of this node", template.src)));
        }
        check_tspec(&offer.tspec, error::TC_BAD_TSPEC)?;
        if offer.tspec.M == 0 {
            return Err(bad("maximum packet size M is 0", error::TC_BAD_TSPEC));
        }
        if session.dst_port == 0 && template.src_port != 0 {
            return Err(Refusal::code(error::BAD_SNDPORT, 0));
        }
        Ok(())
    }

    pub(crate) fn sender_gone<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        app: AppId,
        session: &Session,
        template: &SenderTemplate,
    ) {
        let known = self.sessions.find(session).and_then(|sid| self.psb_of(sid, template));
        if let Some(id) = known.filter(|id| self.local_sender(*id) == Some(app)) {
            self.end_path(now, env, id, Gone::Torn);
        }
    }
}

/// Checks that a token bucket is meaningful (RFC 2215 section 3.6); the codec refuses the same on the wire.
pub(crate) fn check_tspec(t: &Tspec, value: u16) -> Result<(), Refusal> {
    if t.p < t.r {
        return Err(bad("peak rate p is below the token rate r", value));
    }
    if t.M != 0 && t.m > t.M {
        return Err(bad("minimum policed unit m is above the maximum packet size M", value));
    }
    Ok(())
}

/// The refusal of a meaningless value (error code 21).
pub(crate) fn bad(what: &str, value: u16) -> Refusal {
    Refusal { code: error::TRAFFIC_CONTROL, value, in_place: false, text: Some(what.to_string()) }
}

/// A Tspec as the next node will read it: rates and sizes that RFC 2210's floats cannot hold are rounded up
/// here as there, so that the values that come back can be compared.
pub(crate) fn as_on_the_wire(t: &Tspec) -> Tspec {
    Tspec { r: rate_on_the_wire(t.r), b: bytes_on_the_wire(t.b), p: peak_on_the_wire(t.p), m: t.m, M: t.M }
}

/// A rate as the next node will read it.
pub(crate) fn rate_on_the_wire(rate: Rate) -> Rate {
    float::demanded_rate(float::from_demanded_rate(rate)).unwrap_or(Rate::from_bps(float::LARGEST))
}

fn peak_on_the_wire(rate: Rate) -> Rate {
    float::peak_rate(float::from_demanded_rate(rate)).unwrap_or(Rate::INFINITE)
}

fn bytes_on_the_wire(bytes: Bytes) -> Bytes {
    float::demanded_bytes(float::from_demanded_bytes(bytes)).unwrap_or(Bytes::new(float::LARGEST))
}
