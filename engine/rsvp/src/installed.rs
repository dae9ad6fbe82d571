//! The data plane reports on a reservation that traffic control admitted. Only now does it go on upstream,
//! and only now is it confirmed: a receiver of the Resv or the ResvConf can rely on every hop behind.

use crate::io::Gone;
use crate::links::Env;
use crate::procedure::procedure;
use crate::refusal::Refusal;
use crate::refuse::{Erring, Refusing};
use crate::resv_conf::Confirmations;
use crate::resv_refresh::{Push, ResvRefresh};
use crate::resv_tear::ResvTearing;
use crate::state::keys::TcsbKey;
use crate::state::psb::Psb;
use crate::state::rsb::{Confirm, NextHop, Rsb};
use crate::state::table::BlockId;
use crate::update_traffic_control::UpdateTrafficControl;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::{Preemption, RHandle};
use terms::probe::ProbeObserver;
use terms::{Fault, FlowSpec};

procedure! {
    /// The reports of the data plane, and what follows from them.
    Installation
}

impl<P: ProbeObserver, E: Env> Installation<'_, P, E> {
    pub(crate) fn installed(&mut self, handle: RHandle, result: Result<(), Fault>) {
        // Torn meanwhile: nothing to do.
        let Some(id) = self.state.of_handle(handle) else { return };
        let at = self.state.key(id);
        match result {
            Ok(()) => {
                let block = &mut self.state[id];
                block.pending = block.pending.saturating_sub(1);
                if block.pending == 0 {
                    block.install();
                    self.reserved(&at);
                }
            }
            Err(fault) => {
                let refusal = Refusal::fault(&self.state.config().node_name, &fault);
                self.undone(&at, &refusal);
            }
        }
    }

    /// Traffic control gave the reservation's capacity to another (RFC 2205 appendix B, error 12).
    pub(crate) fn displaced(&mut self, handle: RHandle, by: Option<Preemption>) {
        let Some(id) = self.state.of_handle(handle) else { return };
        let at = self.state.key(id);
        let refusal = Refusal::displaced(&self.state.config().node_name, by);
        self.undone(&at, &refusal);
    }

    /// Called when a reservation is in the plane: requests for confirmation move on, and so does the Resv.
    pub(crate) fn reserved(&mut self, at: &TcsbKey) {
        if self.state.tcsb(at).and_then(|id| self.state[id].installed()).is_none() {
            return;
        }
        let senders = self.state.senders_at(at);
        let waiting = self.state.reservations_at(at).filter_map(|id| match self.state[id].confirm {
            Some(Confirm::Receiver(receiver)) => Some((id, receiver)),
            _ => None,
        });
        let waiting: Vec<_> = waiting.collect();
        for (id, receiver) in waiting {
            self.state[id].confirm = None;
            self.pass_confirmation(&senders, id, receiver);
        }
        let (waiting, others): (Vec<_>, Vec<_>) = senders.into_iter().partition(|id| self.state[*id].confirm.is_some());
        self.upstream().refresh_upstream(waiting, Push::Now);
        self.upstream().refresh_upstream(others, Push::IfNew);
    }

    /// Handles a receiver's request for a confirmation. It goes upstream with the reservation request if that
    /// is larger than all others it is merged with (RFC 2205 section 3.1.4); otherwise the installed
    /// reservation answers it (section 2.6); past a blockade it is dropped.
    fn pass_confirmation(&mut self, senders: &[BlockId<Psb>], id: BlockId<Rsb>, receiver: IpAddr) {
        let (sid, _, _) = self.state.key(id);
        let (flowspec, style) = (self.state[id].flowspec, self.state[id].style);
        let mut answered = None;
        for psb in senders {
            if !self.state.is_for(id, &self.state.key(*psb).1) {
                continue;
            }
            if self.state[*psb].blockade.as_deref().is_some_and(|b| b.blocks(self.signalling.now(), &flowspec)) {
                continue;
            }
            match self.others_merged(*psb, id) {
                Some(others) if others.serves(&flowspec) || !flowspec.serves(&others) => {
                    answered.get_or_insert(*psb);
                }
                _ => self.state[*psb].confirm = Some(receiver),
            }
        }
        if let Some(psb) = answered {
            let session = self.state.key(sid);
            let whose: Vec<_> = match self.state.key(id).2 {
                Some(filter) => alloc::vec![filter],
                None => self.state[id].listed().collect(),
            };
            self.confirmations().send_resv_conf(psb, &session, receiver, &flowspec, style, &whose);
        }
    }

    /// The merge of the other requests for a sender that are in place and not blockaded.
    fn others_merged(&self, psb: BlockId<Psb>, but: BlockId<Rsb>) -> Option<FlowSpec> {
        let (sid, _, filter) = self.state.sender_of(psb);
        let blockade = self.state[psb].blockade.as_deref();
        let mut sum: Option<FlowSpec> = None;
        for id in self.state.rsbs_of(sid).filter(|id| *id != but && self.state.is_for(*id, &filter)) {
            let one = self.state[id].flowspec;
            let here = match self.state.key(id).1.oif() {
                None => true,
                Some(oif) => {
                    let installed = self.state.held_for(sid, oif, &filter).and_then(|t| self.state[t].installed());
                    self.state[psb].out.takes(oif) && installed.is_some_and(|i| i.serves(&one))
                }
            };
            if here && !blockade.is_some_and(|b| b.blocks(self.signalling.now(), &one)) {
                sum = Some(sum.and_then(|sum| sum.merged(&one)).unwrap_or(one));
            }
        }
        sum
    }

    /// Undoes a reservation after the plane failed or its capacity went to another. Every next hop that asked
    /// for it gets a ResvErr; upstream gets a tear.
    fn undone(&mut self, at: &TcsbKey, refusal: &Refusal) {
        let (sid, oif, _) = *at;
        let session = self.state.key(sid);
        let senders = self.state.senders_at(at);
        let all: Vec<_> = self.state.reservations_at(at).collect();
        for id in &all {
            if let (_, NextHop::Hop { addr, .. }, of) = self.state.key(*id) {
                let rsb = &self.state[*id];
                let by = if rsb.direct { Some(oif) } else { None };
                let erring = Erring {
                    session,
                    style: rsb.style,
                    filters: of.map_or_else(|| rsb.listed().collect(), |f| alloc::vec![f]),
                    flowspec: Some(rsb.flowspec),
                    scope: rsb.scope().map(<[IpAddr]>::to_vec),
                };
                self.errors().send_resv_err(oif, by, addr, &erring, refusal);
            }
        }
        for id in all {
            self.ending().remove_reservation(id, Gone::Replaced);
        }
        self.control().release_traffic_control(at);
        self.upstream().refresh_upstream(senders, Push::IfNew);
        self.state.drop_if_idle(sid);
    }

    fn ending(&mut self) -> ResvTearing<'_, P, E> {
        ResvTearing::new(self.env, self.state, self.signalling, self.probe)
    }

    fn upstream(&mut self) -> ResvRefresh<'_, P> {
        ResvRefresh::new(self.state, self.signalling, self.probe)
    }

    fn control(&mut self) -> UpdateTrafficControl<'_, E> {
        UpdateTrafficControl::new(self.signalling.now(), self.env, self.state)
    }

    fn confirmations(&mut self) -> Confirmations<'_> {
        Confirmations::new(self.state, self.signalling)
    }

    fn errors(&mut self) -> Refusing<'_> {
        Refusing::new(self.state, self.signalling)
    }
}
