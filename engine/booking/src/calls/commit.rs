//! `commit`: a hold becomes a booking. Policy is asked again, because it may have changed since (FAULTS.md
//! T13). It is not asked if a coordinator has decided over several agents: if one member refused then, the
//! others would have booked already.

use super::permit::{rules, rules_of};
use crate::broker::Bookings;
use crate::io::{CallId, CallResult, EventKind};
use crate::journal::{Decided, Written};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservation::Number;
use crate::state::{BookingState, LifeStep};
use alloc::vec::Vec;
use terms::book::Caller;
use terms::ports::{Ledger, PolicyPort};

/// In the audit, in place of a rule: the group's coordinator decided.
const DECIDED: &str = "(decided when all held)";

impl Bookings {
    pub(crate) fn commit<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        number: Number,
        caller: &Caller,
        decided_by_all: bool,
    ) {
        let Some(r) = self.all.get(&number) else { return };
        let mut decided = Decided { caller, verb: "commit", handle: Some(r.handle), rules: Vec::new() };
        let state = match r.state.after(LifeStep::Commit) {
            Ok(state) => state,
            // The same again: it is booked.
            Err(_) if !r.state.is_over() => {
                let view = self.view(world, number).map(CallResult::Reservation);
                return self.reply(id, view.ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle)));
            }
            Err(_) => return self.reply(id, Err(Refusal::plain(RefusalReason::WrongState(r.state)))),
        };
        let mut next = (**r).clone();
        if decided_by_all {
            decided.rules = alloc::vec![DECIDED.into()];
            (next.state, next.version) = (state, next.version + 1);
            self.write(&next, Written::Commit(number), &[EventKind::Committed], id, &decided);
            return;
        }
        if let Err(refusal) = self.clock_is_good() {
            return self.reply(id, Err(refusal));
        }
        match self.permitted_anew(world, caller, next.owner, &next, &next) {
            Ok(granted) => decided.rules = rules(&granted),
            Err(refusal) => {
                decided.rules = rules_of(&refusal);
                return self.refuse(id, refusal, &decided);
            }
        }
        (next.state, next.version) = (state, next.version + 1);
        self.write(&next, Written::Commit(number), &[EventKind::Committed], id, &decided);
    }

    pub(crate) fn committed(&mut self, number: Number) {
        self.settled(number);
        let Some(r) = self.all.get_mut(&number) else { return };
        r.state = BookingState::Booked;
        r.version += 1;
        self.owners.get_mut(r.owner).held -= 1;
    }
}
