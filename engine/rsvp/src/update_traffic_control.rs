//! UPDATE TRAFFIC CONTROL: RFC 2209 section 2.9. What the next hops on one interface ask for one sender is merged and
//! put before traffic control, which admits it at once or changes nothing.

use crate::engine::{Env, Rsvp};
use crate::psb::Psb;
use crate::refusal::Refusal;
use crate::rsb::NextHop;
use crate::session::SessionState;
use crate::table::Id;
use crate::tcsb::{Tcsb, TcsbKey};
use terms::ports::{Police, TcRequest};
use terms::{FilterSpec, FlowSpec, Refused, Rspec, Span, Style, Time, Tspec};
use wire::iana::error;

/// The least flowspec that serves both (RFC 2210, RFC 2212 section 6). Two services do not merge (error 21, value 1).
pub(crate) fn merge(a: &FlowSpec, b: &FlowSpec) -> Result<FlowSpec, Refusal> {
    match (a, b) {
        (FlowSpec::ControlledLoad(a), FlowSpec::ControlledLoad(b)) => {
            Ok(FlowSpec::ControlledLoad(a.least_upper_bound(b)))
        }
        (FlowSpec::Guaranteed(ta, ra), FlowSpec::Guaranteed(tb, rb)) => {
            let rspec = Rspec { R: ra.R.max(rb.R), S: ra.S.min(rb.S) };
            Ok(FlowSpec::Guaranteed(ta.least_upper_bound(tb), rspec))
        }
        _ => Err(Refusal::code(error::TRAFFIC_CONTROL, error::TC_SERVICE_CONFLICT)),
    }
}

impl Rsvp {
    /// What the next hops of one interface ask for one sender together; with `new`, as if that hop had asked it.
    pub(crate) fn merged(&self, at: &TcsbKey, new: Option<(NextHop, FlowSpec)>) -> Result<Option<FlowSpec>, Refusal> {
        let (sid, oif, filter) = at;
        let mut sum = new.map(|(_, flowspec)| flowspec);
        for id in self.rsbs.chain(&self.sessions[*sid].rsbs) {
            let (_, nhop, of) = self.rsbs.key(id);
            let replaced = new.is_some_and(|(by, _)| by == nhop);
            if of == *filter && nhop.oif() == Some(*oif) && !replaced {
                let one = &self.rsbs[id].flowspec;
                sum = Some(match sum {
                    Some(sum) => merge(&sum, one)?,
                    None => *one,
                });
            }
        }
        Ok(sum)
    }

    /// Puts a merged request before traffic control.
    ///
    /// # Errors
    /// [`Refused`]: what was there is there still.
    pub(crate) fn update_traffic_control<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        at: &TcsbKey,
        merged: FlowSpec,
        path_te: Tspec,
        lifetime: Span,
    ) -> Result<(), Refused> {
        let (sid, oif, filter) = *at;
        let police = self.psb_of(sid, &filter).is_some_and(|psb| self.local_sender(psb).is_some());
        let session = self.sessions.key(sid);
        let request = TcRequest {
            oif,
            session,
            style: Style::Ff,
            filters: &[filter],
            flowspec: merged,
            path_te,
            police: Police { entry: police, ..Police::default() },
            lifetime,
            priority: None,
        };
        let Some(id) = self.tcsbs.find(at) else {
            let handle = env.add(now, &request)?;
            let block = Tcsb { handle, asked: merged, admitted: merged, installed: None, path_te, pending: 1 };
            let id = self.tcsbs.insert(&mut self.sessions[sid].tcsbs, *at, block);
            self.handles.insert_alone(handle, id);
            return Ok(());
        };
        let block = &mut self.tcsbs[id];
        block.asked = merged;
        if (block.admitted, block.path_te) == (merged, path_te) {
            return Ok(());
        }
        env.modify(now, block.handle, &request)?;
        block.admitted = merged;
        block.path_te = path_te;
        block.pending += 1;
        Ok(())
    }

    /// Gives back what traffic control holds for one sender on one interface, if anything.
    pub(crate) fn release_traffic_control<E: Env>(&mut self, now: Time, env: &mut E, at: &TcsbKey) {
        let Some(id) = self.tcsbs.find(at) else { return };
        let gone = self.tcsbs.remove(&mut self.sessions[at.0].tcsbs, id);
        if let Some(handle) = self.handles.find(&gone.handle) {
            self.handles.remove_alone(handle);
        }
        env.remove(now, gone.handle);
    }

    /// The sender says something else about its traffic: `Path_Te` changes, the reservation does not. If traffic control
    /// refuses, it goes by the old one.
    pub(crate) fn sender_changed<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        sid: Id<SessionState>,
        filter: &FilterSpec,
        psb: Id<Psb>,
    ) {
        let Some(oif) = self.psbs[psb].out.oif() else { return };
        let at = (sid, oif, *filter);
        let Some(id) = self.tcsbs.find(&at) else { return };
        let flowspec = self.tcsbs[id].admitted;
        let (tspec, life) = (self.psbs[psb].tspec, self.longest_life(&at));
        let asked = self.tcsbs[id].asked;
        let _kept = self.update_traffic_control(now, env, &at, flowspec, tspec, life);
        self.tcsbs[id].asked = asked;
    }
}
