//! The end of a path state.

use super::PathLife;
use crate::io::{Event, Gone, Upcall};
use crate::links::Env;
use crate::state::psb::{Origin, OutgoingInterfaces, Psb};
use crate::state::table::BlockId;
use terms::probe::ProbeObserver;

impl<P: ProbeObserver, E: Env> PathLife<'_, P, E> {
    /// Ends a path state: sends PathTear downstream, releases the reservations under it, tells applications.
    ///
    /// A previous hop that sent a tear has no reservation for us any more; one whose refreshes failed to come
    /// still holds one, so it gets a ResvTear.
    pub(crate) fn end_path(&mut self, id: BlockId<Psb>, why: Gone) {
        if self.state.key(id).2.is_some() {
            return self.state.drop_aside(id);
        }
        self.onward().path_tear_on(id, &[]);
        self.forget_path(id, why);
    }

    pub(crate) fn forget_path(&mut self, id: BlockId<Psb>, why: Gone) {
        let (sid, session, template) = self.state.sender_of(id);
        self.state.sum_follows(id, false);
        let out = core::mem::replace(&mut self.state[id].out, OutgoingInterfaces::Nowhere);
        self.ending().drop_reservations_of(sid, &template, Gone::PathGone);
        match self.state[id].origin {
            Origin::Hop(_) if why != Gone::Torn => self.upstream().resv_tear_upstream(id),
            _ => {}
        }
        let receivers = self.state[sid].receivers.clone();
        for app in receivers.iter().copied() {
            if out.is_heard_here() || self.signalling.applications().is_proxy(app) {
                self.signalling.tell(app, Upcall::PathGone { session, template });
            }
        }
        self.state.remove_path(id);
        self.signalling.say(Event::PathRemoved { session, template, why });
        self.take_up_aside(sid, &template);
        self.state.drop_if_idle(sid);
    }
}
