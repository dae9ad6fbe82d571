//! The data plane reports on a reservation that traffic control admitted. Only now does it go on upstream,
//! and only now is it confirmed: a receiver of the Resv or the ResvConf can rely on every hop behind.

use crate::engine::{Env, Rsvp};
use crate::io::Gone;
use crate::psb::Psb;
use crate::refusal::Refusal;
use crate::resv_err::Erring;
use crate::resv_refresh::Push;
use crate::rsb::{Confirm, NextHop, Rsb};
use crate::table::BlockId;
use crate::tcsb::TcsbKey;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::{Preemption, RHandle};
use terms::probe::ProbeObserver;
use terms::{Fault, FlowSpec, Time};

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn installed<E: Env>(&mut self, now: Time, env: &mut E, handle: RHandle, result: Result<(), Fault>) {
        // Torn meanwhile: nothing to do.
        let Some(entry) = self.handles.find(&handle) else { return };
        let id = self.handles[entry];
        let at = self.tcsbs.key(id);
        match result {
            Ok(()) => {
                let block = &mut self.tcsbs[id];
                block.pending = block.pending.saturating_sub(1);
                if block.pending == 0 {
                    block.install();
                    self.reserved(now, &at);
                }
            }
            Err(fault) => {
                let refusal = Refusal::fault(&self.config.node_name, &fault);
                self.undone(now, env, &at, &refusal);
            }
        }
    }

    /// Traffic control gave the reservation's capacity to another (RFC 2205 appendix B, error 12).
    pub(crate) fn displaced<E: Env>(&mut self, now: Time, env: &mut E, handle: RHandle, by: Option<Preemption>) {
        let Some(entry) = self.handles.find(&handle) else { return };
        let at = self.tcsbs.key(self.handles[entry]);
        let refusal = Refusal::displaced(&self.config.node_name, by);
        self.undone(now, env, &at, &refusal);
    }

    /// Called when a reservation is in the plane: requests for confirmation move on, and so does the Resv.
    pub(crate) fn reserved(&mut self, now: Time, at: &TcsbKey) {
        if self.tcsbs.find(at).and_then(|id| self.tcsbs[id].installed()).is_none() {
            return;
        }
        let senders = self.senders_at(at);
        let waiting = self.reservations_at(at).filter_map(|id| match self.rsbs[id].confirm {
            Some(Confirm::Receiver(receiver)) => Some((id, receiver)),
            _ => None,
        });
        let waiting: Vec<_> = waiting.collect();
        for (id, receiver) in waiting {
            self.rsbs[id].confirm = None;
            self.pass_confirmation(now, &senders, id, receiver);
        }
        let (waiting, others): (Vec<_>, Vec<_>) = senders.into_iter().partition(|id| self.psbs[*id].confirm.is_some());
        self.refresh_upstream(now, waiting, Push::Now);
        self.refresh_upstream(now, others, Push::IfNew);
    }

    /// Handles a receiver's request for a confirmation. It goes upstream with the reservation request if that
    /// is larger than all others it is merged with (RFC 2205 section 3.1.4); otherwise the installed
    /// reservation answers it (section 2.6); past a blockade it is dropped.
    fn pass_confirmation(&mut self, now: Time, senders: &[BlockId<Psb>], id: BlockId<Rsb>, receiver: IpAddr) {
        let (sid, _, _) = self.rsbs.key(id);
        let (flowspec, style) = (self.rsbs[id].flowspec, self.rsbs[id].style);
        let mut answered = None;
        for psb in senders {
            if !self.is_for(id, &self.psbs.key(*psb).1) {
                continue;
            }
            if self.psbs[*psb].blockade.as_deref().is_some_and(|b| b.blocks(now, &flowspec)) {
                continue;
            }
            match self.others_merged(now, *psb, id) {
                Some(others) if others.serves(&flowspec) || !flowspec.serves(&others) => {
                    answered.get_or_insert(*psb);
                }
                _ => self.psbs[*psb].confirm = Some(receiver),
            }
        }
        if let Some(psb) = answered {
            let session = self.sessions.key(sid);
            let whose: Vec<_> = match self.rsbs.key(id).2 {
                Some(filter) => alloc::vec![filter],
                None => self.rsbs[id].listed().collect(),
            };
            self.send_resv_conf(psb, &session, receiver, &flowspec, style, &whose);
        }
    }

    /// The merge of the other requests for a sender that are in place and not blockaded.
    fn others_merged(&self, now: Time, psb: BlockId<Psb>, but: BlockId<Rsb>) -> Option<FlowSpec> {
        let (sid, _, filter) = self.sender_of(psb);
        let blockade = self.psbs[psb].blockade.as_deref();
        let mut sum: Option<FlowSpec> = None;
        for id in self.rsbs.chain(&self.sessions[sid].rsbs).filter(|id| *id != but && self.is_for(*id, &filter)) {
            let one = self.rsbs[id].flowspec;
            let here = match self.rsbs.key(id).1.oif() {
                None => true,
                Some(oif) => {
                    let installed = self.held_for(sid, oif, &filter).and_then(|t| self.tcsbs[t].installed());
                    self.psbs[psb].out.takes(oif) && installed.is_some_and(|i| i.serves(&one))
                }
            };
            if here && !blockade.is_some_and(|b| b.blocks(now, &one)) {
                sum = Some(sum.and_then(|sum| sum.merged(&one)).unwrap_or(one));
            }
        }
        sum
    }

    /// Undoes a reservation after the plane failed or its capacity went to another. Every next hop that asked
    /// for it gets a ResvErr; upstream gets a tear.
    fn undone<E: Env>(&mut self, now: Time, env: &mut E, at: &TcsbKey, refusal: &Refusal) {
        let (sid, oif, _) = *at;
        let session = self.sessions.key(sid);
        let senders = self.senders_at(at);
        let all: Vec<_> = self.reservations_at(at).collect();
        for id in &all {
            if let (_, NextHop::Hop { addr, .. }, of) = self.rsbs.key(*id) {
                let rsb = &self.rsbs[*id];
                let by = if rsb.direct { Some(oif) } else { None };
                let erring = Erring {
                    session,
                    style: rsb.style,
                    filters: of.map_or_else(|| rsb.listed().collect(), |f| alloc::vec![f]),
                    flowspec: Some(rsb.flowspec),
                    scope: rsb.scope().map(<[IpAddr]>::to_vec),
                };
                self.send_resv_err(oif, by, addr, &erring, refusal);
            }
        }
        for id in all {
            self.remove_reservation(id, Gone::Replaced);
        }
        self.release_traffic_control(now, env, at);
        self.refresh_upstream(now, senders, Push::IfNew);
        self.drop_if_idle(sid);
    }
}
