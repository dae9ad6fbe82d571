//! A message in transit: the order of the steps, and the fields that are rewritten.
//!
//! A request reserves the forward half on the interface that it leaves by, a reply the reverse half on its own
//! (draft-ahlard, draft-bergkvist-boomerang-framework). A node that refuses sets NACK, lowers the fields to
//! the free rate and forwards the message. After an earlier refusal it lowers fields and reserves nothing.

use super::{Env, NodeSide};
use crate::auth::Standing;
use crate::demand::whose;
use crate::half::{HalfKey, State};
use crate::io::{Event, FailureReason, Output, Replies};
use crate::work::{Outcome, Verdict, Work};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::RouteDecision;
use terms::probe::ProbeObserver;
use terms::{IfIndex, Rate};
use wire::boomerang::{self, Selector, TravelDirection, forwarded};

impl<P: ProbeObserver> NodeSide<P> {
    /// Processes a packet, which it rewrites in place.
    pub(crate) fn packet(&mut self, env: &mut impl Env, iif: Option<IfIndex>, packet: &mut [u8]) -> Verdict {
        let Ok(probe) = boomerang::ProbePacket::parse(packet) else { return plain(env, iif, packet) };
        let (ttl, mut work) = (probe.ttl, Work::of(&probe, iif));
        if !is_somebody(work.src) || work.src.is_multicast() || !is_somebody(work.dst) {
            return Verdict::Dropped(FailureReason::Address);
        }
        match self.proof.standing(&probe, packet, &work) {
            Standing::Proven => work.proven = true,
            Standing::Wrong => self.event(Event::Unproven { initiator: work.initiator }),
            Standing::Unsaid => {}
        }
        let gatherer = work.aggregate.map(|aggregate| aggregate.address);
        work.gathered_here = gatherer.is_some_and(|address| env.route(address, None, None) == RouteDecision::Local);
        let way = env.route(work.dst, Some(work.src), iif);
        // Only now, or whoever says something in another's name would use up what the other may say.
        if !self.may_say(env, &mut work, way, iif) {
            return Verdict::Dropped(FailureReason::TooMany);
        }
        if work.leg == TravelDirection::Reply {
            return self.reply(env, iif, ttl, work, way, packet);
        }
        if work.dst.is_multicast() {
            return self.group(env, iif, ttl, &work, packet);
        }
        match way {
            RouteDecision::Local => self.far_end(env, &work, packet),
            RouteDecision::Out { .. } if iif.is_some() && ttl < 2 => Verdict::Dropped(FailureReason::Ttl),
            RouteDecision::Out { oif, gateway, source } => {
                let outcome = self.leg(env, TravelDirection::Request, &work, oif);
                self.write(&work, &outcome, packet, iif.is_some());
                if iif.is_some() && !forwarded(packet) {
                    return Verdict::Dropped(FailureReason::Ttl);
                }
                self.gathered(&work, (oif, gateway, source), packet).unwrap_or(Verdict::Pass { oif, gateway })
            }
            RouteDecision::Tree(_) | RouteDecision::None => Verdict::Dropped(FailureReason::NoRoute),
        }
    }

    /// Processes a reply on its way back.
    fn reply(
        &mut self,
        env: &mut impl Env,
        iif: Option<IfIndex>,
        ttl: u8,
        mut work: Work,
        way: RouteDecision,
        packet: &mut [u8],
    ) -> Verdict {
        if work.no_echo || work.dst.is_multicast() {
            return Verdict::Dropped(FailureReason::NoEcho);
        }
        let RouteDecision::Out { oif, gateway, .. } = way else {
            if way != RouteDecision::Local {
                return Verdict::Dropped(FailureReason::NoRoute);
            }
            if work.nack {
                self.revert(env, &work, iif);
            }
            return Verdict::Answer { transaction: work.transaction };
        };
        if iif.is_some() && ttl < 2 {
            return Verdict::Dropped(FailureReason::Ttl);
        }
        let forward = iif.and_then(|iif| self.half_of(&work, TravelDirection::Request, iif));
        let ours = forward.and_then(|id| self.blocks.get(id)).filter(|(_, half)| half.undo.0 == work.transaction);
        let (known, lost) = (ours.is_some(), ours.is_some_and(|(_, half)| half.state == State::Lost));
        work.request_locked = ours.map(|(_, half)| half.lock.is_some());
        if work.nack || lost {
            self.revert(env, &work, iif);
        } else if !known && !self.welcome(&work, oif) {
            self.event(Event::Stranger { flow: work.classifier.turned().flow() });
            let alive = forwarded(packet);
            return if alive { Verdict::Pass { oif, gateway } } else { Verdict::Dropped(FailureReason::Ttl) };
        }
        let outcome = match lost {
            true => Outcome { free: Some(0), refused: true, ..Outcome::default() },
            false => self.leg(env, TravelDirection::Reply, &work, oif),
        };
        self.write(&work, &outcome, packet, iif.is_some());
        if iif.is_some() && !forwarded(packet) {
            return Verdict::Dropped(FailureReason::Ttl);
        }
        self.ungathered(&work, (oif, gateway), packet).unwrap_or(Verdict::Pass { oif, gateway })
    }

    /// True if a reply without a request that passed here may make state.
    fn welcome(&mut self, work: &Work, oif: IfIndex) -> bool {
        let allowed = match self.config.replies {
            Replies::Known => false,
            Replies::Authenticated => work.proven,
            Replies::Any => true,
        };
        allowed
            || work.rate(TravelDirection::Reply, 0) == Some(0)
            || self.half_of(work, TravelDirection::Reply, oif).is_some()
    }

    /// The session block of one half, if there is one.
    pub(super) fn half_of(&mut self, work: &Work, leg: TravelDirection, oif: IfIndex) -> Option<u32> {
        let (classifier, mask) = self.held_as(work, leg);
        let mask_number = self.blocks.table().mask_known(&mask)?;
        self.find(&HalfKey { flow: classifier.flow_under(&mask), oif, mask: mask_number })
    }

    /// The classifier and the mask of the block for a leg: the session's own, or the aggregate's.
    pub(super) fn held_as(&self, work: &Work, leg: TravelDirection) -> (Selector, Selector) {
        match (leg, &work.aggregate) {
            (TravelDirection::Request, Some(aggregate)) if !work.gathered_here => {
                (aggregate.classifier, aggregate.mask)
            }
            _ => work.flow(leg),
        }
    }

    /// Reserves one half of the session on the interface that its packets leave by.
    pub(super) fn leg(&mut self, env: &mut impl Env, leg: TravelDirection, work: &Work, oif: IfIndex) -> Outcome {
        let (classifier, mask) = self.held_as(work, leg);
        let there = self.half_of(work, leg, oif);
        let held = there.and_then(|id| self.blocks.get(id)).map_or(0, |(_, half)| half.rate);
        let refused = |free| Outcome { free: Some(free), refused: true, ..Outcome::default() };
        if work.nack {
            let offer = env.offers(self.now, oif, self.config.min_packet).as_bps();
            let free = u32::try_from(offer.saturating_add(u64::from(held))).unwrap_or(u32::MAX);
            return Outcome { free: Some(free), ..Outcome::default() };
        }
        let local = work.entry && leg == TravelDirection::Request;
        if (self.config.require_auth && !work.proven && !local) || !self.lock_fits(work, there) {
            return refused(0);
        }
        let flow = classifier.flow_under(&mask);
        let named = (!mask.is_exact()).then_some(&mask);
        let asked = |index| match (leg, &work.aggregate) {
            (TravelDirection::Request, Some(aggregate)) if !work.gathered_here => {
                (index == 0).then_some(aggregate.rate)
            }
            _ => work.rate(leg, index),
        };
        let first = asked(0).unwrap_or(0);
        let mut free = 0;
        if first == 0 {
            let lock = self.nothing(env, leg, work, there, oif);
            return Outcome { lock, ..Outcome::default() };
        }
        let Some(whose) = whose(&flow, named) else {
            self.event(Event::Refused { flow, oif, asked: rate(first), free: Rate::ZERO });
            return refused(0);
        };
        let id = match there {
            Some(id) => id,
            None => match self.create(work, flow, &mask, oif) {
                Some(id) => id,
                None => return refused(0),
            },
        };
        for index in 0..work.count() {
            let Some(wanted) = asked(index) else { break };
            if wanted == 0 {
                break;
            }
            match self.manage(env, id, work, &whose, wanted) {
                Ok(lock) => return Outcome { index, lock, ..Outcome::default() },
                Err(there_is) => free = free.max(there_is),
            }
        }
        if there.is_none() {
            self.remove(env, id);
        }
        self.event(Event::Refused { flow, oif, asked: rate(first), free: rate(free) });
        refused(free)
    }

    /// Handles a rate of zero: releases the reservation. A request that asks for the reverse direction leaves
    /// an empty block, so that its reply is recognized. Returns the factor for KEY.
    fn nothing(
        &mut self,
        env: &mut impl Env,
        leg: TravelDirection,
        work: &Work,
        there: Option<u32>,
        oif: IfIndex,
    ) -> Option<u64> {
        let expects = leg == TravelDirection::Request
            && work.rate(TravelDirection::Reply, 0).is_some_and(|rate| rate > 0)
            && !work.entry;
        if let Some((id, flow)) = there.and_then(|id| Some((id, self.blocks.get(id)?.0.flow))) {
            if self.blocks.get(id).is_some_and(|(_, half)| half.rate > 0) {
                self.event(Event::Released { flow, oif });
            }
            if !expects {
                self.remove(env, id);
                return None;
            }
            self.empty(env, id);
            return self.keep(id, work);
        }
        if !expects {
            return None;
        }
        let (classifier, mask) = self.held_as(work, leg);
        let id = self.create(work, classifier.flow_under(&mask), &mask, oif)?;
        self.keep(id, work)
    }

    /// Writes the outcome of a leg into its message.
    pub(super) fn write(&mut self, work: &Work, outcome: &Outcome, packet: &mut [u8], counts: bool) {
        let mut rewrite = work.places.within(packet);
        rewrite.refresh(self.config.most_refresh);
        if outcome.refused {
            rewrite.nack();
            rewrite.key(0);
        } else if let Some(prime) = outcome.lock {
            rewrite.key(work.key.max(1).saturating_mul(prime));
        }
        let chosen = work.rates(outcome.index).unwrap_or_default();
        for index in 0..work.count() {
            let Some(mut rates) = work.rates(index) else { break };
            if index < outcome.index {
                rates = chosen;
            }
            if let Some(free) = outcome.free {
                let field = if work.leg == TravelDirection::Request { &mut rates.forward } else { &mut rates.reverse };
                *field = (*field).min(free);
            }
            rewrite.rates(index, rates);
        }
        if counts {
            rewrite.count();
        }
        if work.proven {
            self.proof.seal(work, packet);
        }
    }

    /// Sends another packet, beside the one from the input.
    pub(crate) fn send(&mut self, oif: IfIndex, gateway: Option<IpAddr>, packet: Vec<u8>) {
        self.say(Output::Send { oif, gateway, packet });
    }
}

/// Forwards a packet without a Boomerang message as any router does.
fn plain(env: &mut impl Env, iif: Option<IfIndex>, packet: &mut [u8]) -> Verdict {
    let Ok(header) = wire::ip::Packet::parse(packet) else { return Verdict::Dropped(FailureReason::Address) };
    match env.route(header.dst(), Some(header.src()), iif) {
        RouteDecision::Local => Verdict::Deliver,
        RouteDecision::Out { oif, gateway, .. } if iif.is_none() || forwarded(packet) => Verdict::Pass { oif, gateway },
        RouteDecision::Out { .. } => Verdict::Dropped(FailureReason::Ttl),
        RouteDecision::Tree(_) | RouteDecision::None => Verdict::Dropped(FailureReason::NoRoute),
    }
}

/// True if a host or a group can have the address: not broadcast, unspecified or loopback.
fn is_somebody(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.octets()[0] >= 240 || v4.octets()[0] == 0);
    !(broadcast || address.is_unspecified() || address.is_loopback())
}

fn rate(bps: u32) -> Rate {
    Rate::from_bps(u64::from(bps))
}
