//! The plane reports on what traffic control admitted. Only now does a reservation go on upstream, and only now is it
//! confirmed: whoever hears of it can rely on every hop behind.

use crate::engine::{Env, Rsvp};
use crate::io::Gone;
use crate::psb::Psb;
use crate::refusal::Refusal;
use crate::resv_err::Erring;
use crate::resv_refresh::Push;
use crate::rsb::{Confirm, NextHop};
use crate::table::Id;
use crate::tcsb::TcsbKey;
use terms::ports::{Preemption, RHandle};
use terms::{Fault, Time};

impl Rsvp {
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
                    block.installed = Some(block.admitted);
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

    /// What is reserved here for a sender is in the plane: requests for confirmation move on, and so does the Resv.
    pub(crate) fn reserved(&mut self, now: Time, at: &TcsbKey) {
        let (sid, oif, filter) = *at;
        let Some(psb) = self.psb_of(sid, &filter) else { return };
        let Some(installed) = self.tcsbs.find(at).and_then(|id| self.tcsbs[id].installed) else { return };
        let session = self.sessions.key(sid);
        for id in self.reservations_of(sid, &filter) {
            let on_this = self.rsbs.key(id).1.oif() == Some(oif);
            let Some(Confirm::Receiver(receiver)) = self.rsbs[id].confirm.filter(|_| on_this) else { continue };
            self.rsbs[id].confirm = None;
            let flowspec = self.rsbs[id].flowspec;
            if flowspec == installed {
                self.psbs[psb].confirm = Some(receiver);
            } else {
                // Merged into a larger one that is in place already: confirmed here (RFC 2205 section 2.6).
                self.send_resv_conf(psb, &session, receiver, &flowspec);
            }
        }
        self.push_upstream(now, psb);
    }

    fn push_upstream(&mut self, now: Time, psb: Id<Psb>) {
        let push = if self.psbs[psb].confirm.is_some() { Push::Now } else { Push::IfNew };
        self.resv_refresh(now, psb, push);
        self.arm_path(psb);
    }

    /// The plane failed, or somebody else has the capacity now: the reservation is undone, everybody who asked for it is
    /// told, upstream is torn.
    fn undone<E: Env>(&mut self, now: Time, env: &mut E, at: &TcsbKey, refusal: &Refusal) {
        let (sid, oif, filter) = *at;
        let session = self.sessions.key(sid);
        for id in self.reservations_of(sid, &filter) {
            if let (_, NextHop::Hop { oif: on, addr }, _) = self.rsbs.key(id)
                && on == oif
            {
                let rsb = &self.rsbs[id];
                let by = if rsb.direct { Some(oif) } else { None };
                let (style, flowspec) = (rsb.style, Some(rsb.flowspec));
                let erring = Erring { session, style, filter: Some(filter), flowspec };
                self.send_resv_err(oif, by, addr, &erring, refusal);
            }
        }
        self.drop_reservations_of(now, env, sid, &filter, Some(oif), Gone::Replaced);
        if let Some(psb) = self.psb_of(sid, &filter) {
            self.resv_refresh(now, psb, Push::IfNew);
            self.arm_path(psb);
        }
        self.drop_if_idle(sid);
    }
}
