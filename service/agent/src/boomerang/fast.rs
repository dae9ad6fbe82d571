//! The kernel's fast path in the agent: the program at ingress admits by itself, out of a grant per interface that the
//! node's ledger has booked as one slot.
//!
//! The slot grows before the program's share does and shrinks after it. A message that needs more than the
//! grant has free comes here; the grant grows, if the ledger has room, and the program gets the message
//! again. Expired sessions are swept out here. After a kill, the next agent finds the table and the grants,
//! and books them before it reads.

use super::config::{BoomerangConfig, FastPathUse, against};
use super::turn::BoomerangTurn;
use crate::drive::Drive;
use crate::log::Level;
use boomerang::Replies;
use linux::boomerang::{Hanging, PASS, REDIRECT, Reason, UserMessage};
use linux::bpf::entry::MAJOR;
use linux::netlink::route::{RouteAnswer, RouteQuery};
use std::collections::BTreeMap;
use terms::ports::TrafficControl;
use terms::{Fault, IfIndex, Rate, Span};
use traffic::plan::ClassId;
use wire::boomerang::{ProbePacket, TravelDirection, forwarded};

/// A grant grows by a message's rate and this share of the interface's link, and keeps as much free when it shrinks.
const STEP: (u64, u64) = (1, 32);
/// The interval between sweeps of expired sessions.
const SWEEP_EVERY: Span = Span::from_millis(500);
/// The class of admitted sessions.
const CLASS: u32 = (MAJOR as u32) << 16 | ClassId::CONTROLLED_LOAD.0 as u32;

impl BoomerangTurn<'_> {
    /// Opens the fast path on every interface that takes reservations, and closes it on others; grants of an
    /// earlier agent's program are booked first.
    pub(super) fn renew_fast(&mut self) {
        let Some(config) = self.0.config.boomerang.clone() else { return };
        let links: BTreeMap<IfIndex, Rate> = match against(&config) {
            Some(_) => BTreeMap::new(),
            None => {
                // A grant cannot be displaced by a booking: what is in it was promised to many.
                let stays = |oif: &IfIndex| {
                    let link = self.0.interfaces.get(oif).and_then(|state| state.link);
                    link.is_some_and(|terms| terms.assumed_holding.is_none())
                };
                let links: BTreeMap<IfIndex, Rate> = self.0.node.links().map(|link| (link.oif, link.rate)).collect();
                // All or none: the engine would not know the replies to requests that the kernel let out elsewhere.
                if links.keys().all(stays) { links } else { BTreeMap::new() }
            }
        };
        let Some(echo) = &mut self.0.echo else { return };
        // Also what an earlier agent with another configuration left: nothing is admitted that the ledger does not know.
        let gone: Vec<IfIndex> = echo.path.admitting().filter(|oif| !links.contains_key(oif)).collect();
        for oif in gone {
            echo.fast.links.remove(&oif);
            echo.path.close(oif);
            // What cannot be taken away now polices what expires soon.
            let _left = echo.path.leave_unpoliced(oif);
        }
        let new: Vec<(IfIndex, Rate)> =
            links.into_iter().filter(|(oif, _)| !echo.fast.links.contains_key(oif)).collect();
        for (oif, rate) in new {
            if let Err(fault) = self.open_fast(&config, oif, rate) {
                let name = self.0.names.get(&oif).cloned().unwrap_or_default();
                let level = if config.fast_path == FastPathUse::Auto { Level::Info } else { Level::Error };
                self.0.console.announce(
                    level,
                    "boomerang_fast_path",
                    &format!("{name}: every message goes to the agent: {fault}"),
                );
            }
        }
        self.tell_room();
    }

    fn open_fast(&mut self, config: &BoomerangConfig, oif: IfIndex, rate: Rate) -> Result<(), Fault> {
        let now = self.0.clock.now();
        let Some(echo) = &mut self.0.echo else { return Ok(()) };
        echo.path.police(oif)?;
        echo.path.trust_replies(oif, config.replies == Replies::Any)?;
        let there = echo.path.reclaim(oif)?;
        let share = echo.share(config, there);
        echo.fast.links.insert(oif, rate);
        echo.fast.sweep_at = echo.fast.sweep_at.or(Some(now + SWEEP_EVERY));
        echo.path.grow(oif, Rate::ZERO, CLASS)?;
        if self.0.node.adopt_grant(now, oif, share).is_err() {
            return Err(Fault { what: "book the fast path's grant", code: 0 });
        }
        self.0.drain();
        self.0.settle();
        Ok(())
    }

    /// Tells the program how much the ledger could still add.
    pub(crate) fn tell_room(&mut self) {
        let (now, least) = (self.0.clock.now(), boomerang::Config::default().min_packet);
        let Some(echo) = &self.0.echo else { return };
        for &oif in echo.fast.links.keys() {
            echo.path.set_room(oif, self.0.node.tc().offers(now, oif, least));
        }
    }

    /// Grows a grant by a step, at least by `least`: the ledger first. True if it has grown enough.
    fn grow_grant(&mut self, oif: IfIndex, least: Rate) -> bool {
        let Some(config) = self.0.config.boomerang.clone() else { return false };
        let (now, packet) = (self.0.clock.now(), boomerang::Config::default().min_packet);
        let room = self.0.node.tc().offers(now, oif, packet);
        let Some(echo) = &self.0.echo else { return false };
        let Some(step) = echo.fast.links.get(&oif).map(|rate| rate.share(STEP.0, STEP.1)) else { return false };
        let by = least.saturating_add(step).min(room);
        let whole = self.0.node.tc().granted(oif).saturating_add(by);
        let share = echo.share(&config, whole);
        if by < least || by == Rate::ZERO || self.0.node.grant(now, oif, share).is_err() {
            return false;
        }
        self.0.drain();
        self.0.settle();
        let Some(echo) = &self.0.echo else { return false };
        echo.path.grow(oif, by, CLASS).is_ok()
    }

    /// Handles a message that needs more than the grant has free. True if the program took it after all.
    pub(super) fn again(&mut self, told: &UserMessage) -> bool {
        if told.reason != Reason::Exhausted {
            return false;
        }
        let Ok(probe) = ProbePacket::parse(&told.packet) else { return false };
        let asked = probe.message.qos.asked();
        let rate = if probe.message.leg == TravelDirection::Request { asked.forward } else { asked.reverse };
        let query = RouteQuery { dst: probe.dst, src: Some(probe.src), iif: Some(told.iif) };
        let Ok(RouteAnswer::Out { oif, .. }) = self.0.netlink.route(&query) else { return false };
        let enough = self.grow_grant(oif, Rate::from_bps(u64::from(rate)));
        self.tell_room();
        let Some(echo) = &self.0.echo else { return false };
        if !enough && echo.path.free(oif) < Rate::from_bps(u64::from(rate)) {
            return false;
        }
        let mut frame = vec![0; 12];
        let kind: u16 = if probe.dst.is_ipv4() { 0x0800 } else { 0x86dd };
        frame.extend(kind.to_be_bytes());
        frame.extend(&told.packet);
        let ran = match echo.path.hanging(told.iif) {
            Some(Hanging::Native) => echo.path.run(&frame, told.iif),
            _ => echo.path.run_ingress(&frame, told.iif),
        };
        let Ok(mut ran) = ran else { return false };
        let passed = [PASS, REDIRECT, TC_NEXT, TC_REDIRECT].contains(&ran.verdict);
        let Some(packet) = ran.packet.get_mut(14..).filter(|_| passed) else { return false };
        // Where the program has not sent it by itself, the kernel's own forwarding would have counted this hop.
        if [PASS, TC_NEXT].contains(&ran.verdict) && !forwarded(packet) {
            return true;
        }
        let packet = packet.to_vec();
        let Drive { echo, messages, console, names, .. } = &mut *self.0;
        if let Some(echo) = echo {
            echo.send(oif, &packet, messages, console, names);
        }
        true
    }

    /// Sweeps the table, and gives back what the grants have free beyond a step.
    pub(crate) fn sweep_fast(&mut self) {
        let now = self.0.clock.now();
        let Some(config) = self.0.config.boomerang.clone() else { return };
        let Some(echo) = &mut self.0.echo else { return };
        if echo.fast.sweep_at.is_none_or(|at| at > now) {
            return;
        }
        echo.fast.sweep_at = Some(now + SWEEP_EVERY);
        let tick = echo.path.now();
        let over = echo.path.sweep(tick, usize::MAX).len();
        for (oif, rate) in echo.fast.links.clone() {
            let Some(echo) = &self.0.echo else { return };
            let step = rate.share(STEP.0, STEP.1);
            let spare = echo.path.free(oif).saturating_sub(step.saturating_add(step));
            let taken = echo.path.shrink(oif, spare);
            if taken == Rate::ZERO {
                continue;
            }
            let share = echo.share(&config, self.0.node.tc().granted(oif).saturating_sub(taken));
            // Less than there is always fits.
            let _less = self.0.node.grant(now, oif, share);
            self.0.drain();
        }
        self.sweep_theirs();
        self.0.settle();
        self.tell_room();
        if over > 0 {
            self.0.console.announce(
                Level::Info,
                "boomerang_expired",
                &format!("{over} sessions of the kernel's fast path"),
            );
        }
    }

    /// Gives the grants back, because the agent ends in good order.
    pub(super) fn end_fast(&mut self) {
        let now = self.0.clock.now();
        let Some(echo) = &mut self.0.echo else { return };
        let links: Vec<IfIndex> = std::mem::take(&mut echo.fast.links).into_keys().collect();
        if links.is_empty() {
            return;
        }
        for &oif in &links {
            echo.path.close(oif);
        }
        std::mem::take(&mut echo.fast.theirs).iter().for_each(|(oif, flow)| echo.path.unmark(*oif, flow));
        let never = echo.path.now() + FAR_AHEAD;
        echo.path.sweep(never, usize::MAX);
        for oif in links {
            echo.path.close(oif);
            // What cannot be taken away now stays pinned, and the next agent finds it.
            let _left = echo.path.leave_unpoliced(oif);
            let _given_back = self.0.node.grant(now, oif, echo.share(&BoomerangConfig::default(), Rate::ZERO));
        }
    }
}

/// Further ahead, in ticks, than any session lives.
const FAR_AHEAD: u64 = 1 << 24;
/// Verdicts of the form for traffic control: let the next program see it; sent out of another interface.
const TC_NEXT: u32 = u32::MAX;
const TC_REDIRECT: u32 = 7;
