//! The state of Boomerang as documents: asked, admitted, installed, measured.

use super::FEW_SHOWN;
use super::shown::rates_doc;
use super::turn::BoomerangTurn;
use crate::drive::Drive;
use crate::news::{name_of, packets};
use crate::read_back::{self, ReadBack};
use boomerang::{HalfView, SessionPhase};
use documents::agent::{BoomerangDoc, BoomerangSession, Installed, ReservationRow};
use documents::boomerang::{BlockKeeper, BoomerangBlock, InitiatorState, MaskDoc};
use documents::rows::InstalledState;
use linux::boomerang::KernelSession;
use std::net::IpAddr;
use terms::{Bytes, Fault, FlowKey, FlowSpec, Rate, Span, Time, Tspec};
use traffic::plan::ClassId;
use wire::boomerang::Selector;

/// The sessions that this node refreshes.
pub(super) fn sessions(drive: &Drive) -> impl Iterator<Item = BoomerangSession> + '_ {
    drive.node.boomerang().sessions().map(|session| BoomerangSession {
        number: session.app.0,
        far_end: session.asked.far_end,
        flow: packets(&session.asked.classifier.flow_under(&session.asked.mask)),
        state: match session.phase {
            SessionPhase::Asking if session.asked.no_echo => InitiatorState::Told,
            SessionPhase::Asking => InitiatorState::Asking,
            SessionPhase::Held => InitiatorState::Held,
            SessionPhase::Releasing => InitiatorState::Releasing,
        },
        asked: session.asked.rates.iter().copied().map(rates_doc).collect(),
        granted: session.granted.map(rates_doc),
        refresh_s: session.refresh,
        hops_forward: session.hops.map(|(forward, _)| forward),
        hops_reverse: session.hops.map(|(_, reverse)| reverse),
        silent: session.silent,
        transaction: session.transaction,
    })
}

impl BoomerangTurn<'_> {
    /// A page of sessions and session blocks, without the first `skip` of each.
    pub(crate) fn page(&mut self, skip: usize) -> Result<BoomerangDoc, Fault> {
        let read = ReadBack::of(&mut self.0.plane)?;
        let now = self.0.clock.now();
        let engine = self.0.node.boomerang();
        let halves: Vec<HalfView> = engine.halves().skip(skip).take(BoomerangDoc::PAGE).collect();
        let own = engine.len();
        let mut blocks: Vec<BoomerangBlock> = halves.iter().map(|half| self.block(half, &read, now)).collect();
        let left = BoomerangDoc::PAGE - blocks.len();
        blocks
            .extend(self.fast_blocks(skip.saturating_sub(own), left, &read, now)?.into_iter().map(|(_, block)| block));
        let fast = self.0.echo.as_ref().map_or(0, |echo| echo.path.total().0);
        Ok(BoomerangDoc {
            sessions: sessions(self.0).skip(skip).take(BoomerangDoc::PAGE).collect(),
            blocks,
            all_sessions: sessions(self.0).count() as u64,
            all_blocks: (own + fast) as u64,
        })
    }

    /// One half of a session in the engine, as a document.
    fn block(&mut self, half: &HalfView, read: &ReadBack, now: Time) -> BoomerangBlock {
        let view = half.handle.and_then(|handle| self.0.node.tc().reserved(handle));
        let key = view.map(|view| (half.oif, view.flow));
        let entry = key.and_then(|key| read.flow(&key));
        let installed = entry.map(|entry| read_back::installed(view.as_ref(), entry));
        let measured =
            key.filter(|_| entry.is_some()).map(|key| self.0.meter.read(now, key.0, &key.1, read.counted(&key)));
        BoomerangBlock {
            flow: packets(&half.flow),
            mask: half.mask.as_ref().map(mask),
            oif: name_of(half.oif, &self.0.names),
            asked_bps: half.rate.as_bps(),
            admitted_wire_bps: view.map(|view| view.admitted.as_bps()).filter(|_| half.rate > Rate::ZERO),
            installed,
            measured,
            initiator: half.initiator,
            by: BlockKeeper::Agent,
            transaction: half.undo.0,
            expires_in_ms: half.expires.map(|at| left(at, now).as_millis()),
            locked: half.locked,
        }
    }

    /// The sessions of the kernel's table, which does not keep the requester. A session of the table counts
    /// as installed as soon as its class exists.
    fn fast_blocks(
        &mut self,
        skip: usize,
        most: usize,
        read: &ReadBack,
        now: Time,
    ) -> Result<Vec<(KernelSession, BoomerangBlock)>, Fault> {
        let (Some(echo), Some(config)) = (&mut self.0.echo, &self.0.config.boomerang) else { return Ok(Vec::new()) };
        echo.meter.forget(now, FORGOTTEN);
        let there = echo.path.sessions(echo.path.now(), skip, most);
        let mut blocks = Vec::with_capacity(there.len());
        for session in there {
            let counted = echo.path.measured(&session)?;
            let part = echo.share(config, session.rate);
            let holds = session.rate > Rate::ZERO;
            let admitted = self.0.node.tc().part_of_grant(session.oif, part).filter(|_| holds);
            let installed = Installed {
                state: match read.has_class(session.oif, ClassId::CONTROLLED_LOAD) {
                    true => InstalledState::Installed,
                    false => InstalledState::Pending,
                },
                class: read_back::class_name(ClassId::CONTROLLED_LOAD),
                shared: true,
                bucket_bps: session.rate.as_bps(),
                bucket_bytes: part.burst.get(),
            };
            let nobody = if session.flow.src.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
            let block = BoomerangBlock {
                flow: packets(&session.flow),
                mask: None,
                oif: name_of(session.oif, &self.0.names),
                asked_bps: session.rate.as_bps(),
                admitted_wire_bps: admitted.map(Rate::as_bps),
                installed: holds.then_some(installed),
                measured: Some(echo.meter.read(now, session.oif, &session.flow, counted)),
                initiator: nobody,
                by: BlockKeeper::Kernel,
                transaction: session.transaction,
                expires_in_ms: Some((session.left << 26) / 1_000_000),
                locked: false,
            };
            blocks.push((session, block));
        }
        Ok(blocks)
    }

    /// The first sessions of the kernel's table among all other reservations, and how many more there are.
    pub(crate) fn fast_rows(&mut self, read: &ReadBack, now: Time) -> Result<Vec<ReservationRow>, Fault> {
        let min_packet = boomerang::Config::default().min_packet;
        let row = |(session, block): (KernelSession, BoomerangBlock)| {
            let FlowKey { dst, protocol, dst_port, .. } = session.flow;
            let whose = terms::Session { dst, protocol, dst_port };
            let burst = block.installed.as_ref()?.bucket_bytes;
            let (r, b) = (session.rate, Bytes::new(burst));
            Some(ReservationRow {
                session: whose.into(),
                sender: session.flow.sender(&whose).into(),
                prefixes: None,
                oif: Some(block.oif),
                nhop: None,
                style: None,
                asked: FlowSpec::ControlledLoad(Tspec { r, b, p: Rate::INFINITE, m: min_packet, M: 0 }).into(),
                admitted_wire_bps: block.admitted_wire_bps,
                installed: block.installed,
                measured: block.measured,
                expires_in_ms: block.expires_in_ms,
            })
        };
        Ok(self.fast_blocks(0, FEW_SHOWN, read, now)?.into_iter().filter_map(row).collect())
    }
}

/// A session's meter is dropped after this time without a query.
const FORGOTTEN: Span = Span::from_secs(60);

fn left(at: Time, now: Time) -> Span {
    at.since(now)
}

fn mask(mask: &Selector) -> MaskDoc {
    let &Selector { src, dst, src_port, dst_port, protocol, .. } = mask;
    MaskDoc { src, dst, protocol, src_port, dst_port }
}
