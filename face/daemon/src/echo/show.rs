//! What Boomerang has here, as documents: asked, admitted, installed, measured.

use super::calls::rates_doc;
use crate::agent::Agent;
use crate::news::packets;
use crate::status::ReadBack;
use api::agent::{BoomerangDoc, BoomerangSession};
use api::boomerang::{BoomerangBlock, MaskDoc};
use boomerang::{HalfView, Phase};
use std::collections::BTreeMap;
use std::net::IpAddr;
use terms::{Fault, Rate, Span, Time};
use wire::boomerang::Selector;

/// Sessions that this node keeps up.
pub(super) fn sessions(agent: &Agent) -> impl Iterator<Item = BoomerangSession> + '_ {
    agent.node.boomerang().sessions().map(|session| BoomerangSession {
        number: session.app.0,
        far_end: session.asked.far_end,
        flow: packets(&session.asked.classifier.flow()),
        state: match session.phase {
            Phase::Asking => "asking",
            Phase::Held => "held",
            Phase::Releasing => "releasing",
        }
        .to_owned(),
        asked: session.asked.rates.iter().copied().map(rates_doc).collect(),
        granted: session.granted.map(rates_doc),
        refresh_s: session.refresh,
        hops_forward: session.hops.map(|(forward, _)| forward),
        hops_reverse: session.hops.map(|(_, reverse)| reverse),
        silent: session.silent,
        transaction: session.transaction,
    })
}

impl Agent {
    /// Sessions and session blocks.
    pub(crate) fn boomerang(&mut self) -> Result<BoomerangDoc, Fault> {
        let read = ReadBack::of(self)?;
        let now = self.clock.now();
        let held: BTreeMap<_, _> = self.node.reservations().map(|view| (view.handle, view)).collect();
        let halves: Vec<HalfView> = self.node.boomerang().halves().collect();
        let mut blocks = Vec::with_capacity(halves.len());
        for half in halves {
            let view = half.handle.and_then(|handle| held.get(&handle));
            let key = view.map(|view| (half.oif, view.flow));
            let entry = key.and_then(|key| read.flow(&key));
            let installed = entry.map(|entry| crate::status::installed(view, entry));
            let measured = key.filter(|_| entry.is_some()).map(|key| {
                let counted = read.counted(&key);
                self.meter.read(now, key.0, &key.1, counted)
            });
            blocks.push(BoomerangBlock {
                flow: packets(&half.flow),
                mask: half.mask.as_ref().map(mask),
                oif: self.names.get(&half.oif).cloned().unwrap_or_else(|| half.oif.0.to_string()),
                asked_bps: half.rate.as_bps(),
                admitted_wire_bps: view.map(|view| view.admitted.as_bps()).filter(|_| half.rate > Rate::ZERO),
                installed,
                measured,
                initiator: half.initiator,
                transaction: half.undo.0,
                expires_in_ms: half.expires.map(|at| left(at, now).as_millis()),
                locked: half.locked,
            });
        }
        blocks.extend(self.fast_blocks(now)?);
        Ok(BoomerangDoc { sessions: sessions(self).collect(), blocks })
    }
}

impl Agent {
    /// What the kernel's table holds; it does not keep who asked.
    fn fast_blocks(&mut self, now: Time) -> Result<Vec<BoomerangBlock>, Fault> {
        let Some(echo) = &self.echo else { return Ok(Vec::new()) };
        let there = echo.path.sessions(echo.path.now(), 0, MOST_SHOWN);
        let mut blocks = Vec::with_capacity(there.len());
        for session in there {
            let counted = echo.path.measured(&session)?;
            let nobody = if session.flow.src.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
            blocks.push(BoomerangBlock {
                flow: packets(&session.flow),
                mask: None,
                oif: self.names.get(&session.oif).cloned().unwrap_or_else(|| session.oif.0.to_string()),
                asked_bps: session.rate.as_bps(),
                admitted_wire_bps: None,
                installed: None,
                measured: Some(self.meter.read(now, session.oif, &session.flow, counted)),
                initiator: nobody,
                transaction: session.transaction,
                expires_in_ms: Some((session.left << 26) / 1_000_000),
                locked: false,
            });
        }
        Ok(blocks)
    }
}

/// At most so many sessions of the kernel's table are shown.
const MOST_SHOWN: usize = 65_536;

fn left(at: Time, now: Time) -> Span {
    at.since(now)
}

fn mask(mask: &Selector) -> MaskDoc {
    let &Selector { src, dst, src_port, dst_port, protocol, .. } = mask;
    MaskDoc { src, dst, protocol, src_port, dst_port }
}
