//! `cancel`: what it held is free as soon as that is written.

use crate::broker::Broker;
use crate::io::{Answer, CallId, What};
use crate::journal::{Decided, Written};
use crate::refusal::{Refusal, Why};
use crate::reservation::Number;
use crate::state::{Act, State};
use alloc::vec::Vec;
use terms::book::Caller;
use terms::ports::{Ledger, Policy};

impl Broker {
    pub(crate) fn cancel<W: Ledger + Policy>(&mut self, world: &mut W, id: CallId, number: Number, caller: &Caller) {
        let today = self.today();
        let Some(r) = self.all.get(&number) else { return };
        let state = match r.state.after(Act::Cancel) {
            Ok(state) => state,
            // The same again.
            Err(_) if r.state == State::Cancelled => {
                let view = self.view(world, number).map(Answer::Reservation);
                return self.reply(id, view.ok_or_else(|| Refusal::plain(Why::UnknownHandle)));
            }
            Err(_) => return self.reply(id, Err(Refusal::plain(Why::WrongState(r.state)))),
        };
        let decided = Decided { caller, verb: "cancel", handle: Some(r.handle), rules: Vec::new() };
        let mut next = (**r).clone();
        (next.state, next.over, next.version) = (state, today, next.version + 1);
        self.write(&next, Written::Cancel(number), &[What::Over(state)], id, &decided);
    }
}
