//! SENDER, RFC 2205 section 3.11.1: a local application announces its traffic, or stops.

use crate::io::{AppId, Gone, Upcall};
use crate::links::Env;
use crate::path_life::PathLife;
use crate::path_refresh::PathRefresh;
use crate::procedure::procedure;
use crate::refusal::{Refusal, api, api_refusal};
use crate::short_list::Few;
use crate::state::psb::{News, Origin, Psb};
use crate::state::table::BlockId;
use crate::update_traffic_control::UpdateTrafficControl;
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

procedure! {
    /// The calls of local senders.
    Senders
}

impl<P: ProbeObserver, E: Env> Senders<'_, P, E> {
    pub(crate) fn sender(&mut self, offer: &Offer) {
        let offered = self.offer(offer);
        if let Err(refusal) = offered {
            let (session, template) = (offer.session, Some(offer.template));
            let error = refusal.report(offer.template.src, None);
            self.signalling.tell(offer.app, Upcall::Error { session, template, resv: false, error });
        }
    }

    fn offer(&mut self, offer: &Offer) -> Result<(), Refusal> {
        let Offer { app, session, template, ttl, .. } = offer;
        self.check_offer(offer)?;
        let tspec = as_on_the_wire(&offer.tspec);
        let known = self.state.session(session).and_then(|sid| self.state.psb_of(sid, template));
        let out = match session.dst.is_multicast() {
            true => self.signalling.links().tree_from_here(self.env, session, template.src),
            false => self.signalling.links().way_out(self.env, session, template.src, None),
        };
        let id = match known {
            Some(id) if self.state.local_sender(id) == Some(*app) => {
                self.offer_again(id, &tspec, *ttl);
                return Ok(());
            }
            Some(_) => return Err(api_refusal(api::TAKEN, "another application sends this already".to_string())),
            None => {
                let mtus = out.oifs().iter().filter_map(|oif| self.signalling.links().mtu(*oif));
                let mtu = mtus.min().unwrap_or(u32::MAX);
                let news = News {
                    origin: Origin::Local(*app),
                    tspec,
                    adspec: Some(Adspec::origin(mtu)),
                    fragments: Few::NONE,
                    ttl: *ttl,
                    forward: Few::NONE,
                    refresh: self.state.config().refresh,
                    entry: false,
                };
                let psb = Psb::new(self.signalling.now(), news, out, Time::FOREVER);
                self.life().add_path_state(session, template, psb)?
            }
        };
        self.life().path_came(id);
        Ok(())
    }

    fn offer_again(&mut self, id: BlockId<Psb>, tspec: &Tspec, ttl: u8) {
        let psb = &mut self.state[id];
        let changed = psb.tspec != *tspec;
        psb.tspec = *tspec;
        psb.ttl = ttl;
        if changed {
            self.control().sender_changed(id);
        }
        self.life().path_event(id);
        self.onward().path_refresh(id);
        self.state.arm_path(id);
    }

    fn check_offer(&self, offer: &Offer) -> Result<(), Refusal> {
        let Offer { session, template, .. } = offer;
        if session.dst.is_ipv4() != template.src.is_ipv4() {
            let text = format!("{} and {} are of different address families", session.dst, template.src);
            return Err(api_refusal(api::ADDRESS, text));
        }
        if !self.signalling.links().is_ours(template.src) && !self.signalling.applications().is_proxy(offer.app) {
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

    pub(crate) fn sender_gone(&mut self, app: AppId, session: &Session, template: &SenderTemplate) {
        let known = self.state.session(session).and_then(|sid| self.state.psb_of(sid, template));
        if let Some(id) = known.filter(|id| self.state.local_sender(*id) == Some(app)) {
            self.life().end_path(id, Gone::Torn);
        }
    }

    fn life(&mut self) -> PathLife<'_, P, E> {
        PathLife::new(self.env, self.state, self.signalling, self.probe)
    }

    fn onward(&mut self) -> PathRefresh<'_, P, E> {
        PathRefresh::new(self.env, self.state, self.signalling, self.probe)
    }

    fn control(&mut self) -> UpdateTrafficControl<'_, E> {
        UpdateTrafficControl::new(self.signalling.now(), self.env, self.state)
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
