//! `cancel`: the amounts are free as soon as the change is written.

use crate::broker::Bookings;
use crate::io::{CallId, CallResult, EventKind};
use crate::journal::{Decided, Written};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservation::Number;
use crate::state::{BookingState, LifeStep};
use alloc::vec::Vec;
use terms::book::Caller;
use terms::ports::{Ledger, PolicyPort};

impl Bookings {
    pub(crate) fn cancel<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        number: Number,
        caller: &Caller,
    ) {
        let today = self.today();
        let Some(r) = self.all.get(&number) else { return };
        let state = match r.state.after(LifeStep::Cancel) {
            Ok(state) => state,
            // The same again.
            Err(_) if r.state == BookingState::Cancelled => {
                let view = self.view(world, number).map(CallResult::Reservation);
                return self.reply(id, view.ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle)));
            }
            Err(_) => return self.reply(id, Err(Refusal::plain(RefusalReason::WrongState(r.state)))),
        };
        let decided = Decided { caller, verb: "cancel", handle: Some(r.handle), rules: Vec::new() };
        let mut next = (**r).clone();
        (next.state, next.over, next.version) = (state, today, next.version + 1);
        self.write(&next, Written::Cancel(number), &[EventKind::Over(state)], id, &decided);
    }
}
