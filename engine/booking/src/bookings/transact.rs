//! The bookings as a participant of transactions: calls of coordinators, and what the participant says.

use super::Bookings;
use crate::io::{CallId, CallResult, EventKind, Output};
use crate::journal::{Change, Decided, Entry};
use crate::life::dropped_state;
use crate::promise::record;
use crate::promise::{
    Awaits, Contradiction, DecideCall, DecisionQuestion, Preparation, PrepareCall, Preparing, PromiseList,
    PromisesCall, Unprepared,
};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Number, Prepared, Promised, Reservation};
use crate::state::LifeStep;
use ::commit::participant::{DropReason, Input, Output as Said, ParticipantRecord, PromisedChange, WriteId};
use ::commit::{Branch, CoordinatorName, Vote};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use terms::book::{Caller, CallerRole, Handle};
use terms::ports::{Ledger, PolicyPort};

/// Most promises in one answer.
const PAGE: usize = 256;

/// The call of the present input, if there is one.
#[derive(Default)]
struct Occasion<'c> {
    /// The change that is to be promised.
    preparation: Option<(Branch, CoordinatorName, Preparation<'c>)>,
    /// The operator who decides, and the call.
    operator: Option<(&'c Caller, CallId)>,
}

impl Bookings {
    /// Handles a coordinator's question for a promise.
    pub(super) fn prepare<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        caller: Caller,
        call: Box<PrepareCall>,
    ) {
        let branch = call.branch;
        if let Err(refusal) = self.branches.believe(&call.coordinator, call.epoch, Some(branch)) {
            return self.out.reply(id, Err(refusal));
        }
        if self.branches.participant().earlier(branch).is_some() {
            // The same again: the vote is the same.
            match self.branches.wait(branch, Awaits::Vote, id) {
                Ok(()) => self.ask_vote(world, &call, Ok(()), None),
                Err(refusal) => self.out.reply(id, Err(refusal)),
            }
            return;
        }
        let number = match call.ask.handle().map(|handle| self.table.find(&caller, handle, true)) {
            Some(Err(refusal)) => return self.refuse_vote(world, id, &call, refusal, None),
            Some(Ok(number)) => Some(number),
            None => None,
        };
        if let Some(r) = number.and_then(|number| self.table.get(number)) {
            if r.busy.is_some() {
                return self.wait(r.number, id, caller, crate::Call::Prepare(call));
            }
            if let Some(why) = r.undecided() {
                return self.refuse_vote(world, id, &call, Refusal::plain(why), None);
            }
        }
        let (table, background) = (&mut self.table, &mut self.background);
        let mut parts = Preparing { table, background, config: &self.config, calendar: self.calendar };
        if let Err(refusal) = self.branches.wait(branch, Awaits::Vote, id) {
            return self.out.reply(id, Err(refusal));
        }
        let prepared = parts.prepare(world, &caller, &call.ask, number);
        if prepared.is_err() {
            self.branches.waited(branch, Awaits::Vote);
        }
        match prepared {
            Ok(prepared) => self.ask_vote(world, &call, Ok(()), Some(prepared)),
            Err(Unprepared::Later(number)) => self.wait(number, id, caller.clone(), crate::Call::Prepare(call.clone())),
            Err(Unprepared::Refused(no)) => {
                let (refusal, decided) = *no;
                self.refuse_vote(world, id, &call, refusal, decided);
            }
        }
    }

    /// Answers No, and lets the participant know of the coordinator.
    fn refuse_vote<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        call: &PrepareCall,
        refusal: Refusal,
        decided: Option<Decided<'_>>,
    ) {
        self.ask_vote(world, call, Err(refusal.why.name().to_string()), None);
        let outcome = match decided {
            Some(decided) => crate::calls::Outcome::Refused(refusal, decided),
            None => crate::calls::Outcome::Answer(Err(refusal)),
        };
        self.carry_out(world, id, 0, outcome);
    }

    fn ask_vote<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        call: &PrepareCall,
        granted: Result<(), String>,
        preparation: Option<Preparation<'_>>,
    ) {
        let (branch, coordinator) = (call.branch, call.coordinator.clone());
        let until = preparation.as_ref().map_or(terms::Time::FOREVER, |prepared| prepared.until);
        let preparation = preparation.map(|mut prepared| {
            let change = core::mem::replace(&mut prepared.change, Prepared::Create);
            let promised = Promised { branch, coordinator: coordinator.clone(), change };
            self.table.promise(prepared.number, promised);
            (branch, coordinator.clone(), prepared)
        });
        let (epoch, serial) = (call.epoch, call.serial);
        let input = Input::Prepare { branch, coordinator, epoch, serial, granted, until };
        self.transact(world, input, Occasion { preparation, operator: None });
    }

    /// Handles a coordinator's decision.
    pub(super) fn decide<W: Ledger + PolicyPort>(&mut self, world: &mut W, id: CallId, call: DecideCall) {
        let DecideCall { branch, coordinator, epoch, decision } = call;
        if let Err(refusal) = self.branches.believe(&coordinator, epoch, Some(branch)) {
            return self.out.reply(id, Err(refusal));
        }
        // One call too many hears nothing, and its decision counts all the same: those that wait, perhaps for a disk that was
        // full, are answered by it.
        if let Err(refusal) = self.branches.wait(branch, Awaits::Decision, id) {
            self.out.reply(id, Err(refusal));
        }
        self.transact(world, Input::Decide { branch, coordinator, epoch, decision }, Occasion::default());
    }

    /// Handles a coordinator's question for its open promises.
    pub(super) fn promises<W: Ledger + PolicyPort>(&mut self, world: &mut W, id: CallId, call: PromisesCall) {
        let PromisesCall { coordinator, epoch, after } = call;
        if let Err(refusal) = self.branches.believe(&coordinator, epoch, None) {
            return self.out.reply(id, Err(refusal));
        }
        self.transact(world, Input::Connected { coordinator: coordinator.clone(), epoch }, Occasion::default());
        let open = self.branches.participant().promises();
        let its = open.filter(|(branch, name, _)| **name == coordinator && after.is_none_or(|after| *branch > after));
        let mut promises: Vec<(Branch, u64)> =
            its.map(|(branch, _, epoch)| (branch, epoch.number)).take(PAGE + 1).collect();
        let more = promises.len() > PAGE;
        promises.truncate(PAGE);
        let list = PromiseList { promises, more, now: self.calendar.today() };
        self.out.reply(id, Ok(CallResult::Promises(list)));
    }

    /// Handles an operator's decision about a promise.
    pub(super) fn resolve<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        caller: Caller,
        handle: Handle,
        commit: bool,
    ) {
        let refused = |why| Err(Refusal::plain(why));
        let number = match self.table.find(&caller, handle, true) {
            Ok(number) if caller.role == CallerRole::Operator => number,
            _ => return self.out.reply(id, refused(RefusalReason::UnknownHandle)),
        };
        let Some(r) = self.table.get(number) else { return };
        let Some(branch) = r.promise.as_ref().map(|promised| promised.branch) else {
            let refusal = Refusal::meaningless(None, "nothing of it is promised: there is nothing to resolve");
            return self.out.reply(id, Err(refusal));
        };
        if r.busy.is_some() {
            return self.wait(number, id, caller, crate::Call::Resolve { handle, commit });
        }
        if !self.branches.participant().is_promised(branch) {
            let refusal = Refusal::meaningless(None, "its coordinator has decided, and the disk has not taken it yet");
            return self.out.reply(id, Err(refusal));
        }
        let operator = Some((&caller, id));
        self.transact(world, Input::Resolve { branch, commit }, Occasion { preparation: None, operator });
    }

    /// The journal has answered a write of the participant.
    pub(super) fn promise_written<W: Ledger + PolicyPort>(&mut self, world: &mut W, write: WriteId, written: bool) {
        let input = if written { Input::Written(write) } else { Input::WriteFailed(write) };
        self.transact(world, input, Occasion::default());
    }

    /// Tells the participant the time, if it waits for it.
    pub(super) fn wake_participant<W: Ledger + PolicyPort>(&mut self, world: &mut W) {
        let today = self.calendar.today();
        if self.branches.participant().wake_at().is_some_and(|at| at <= today) {
            self.transact(world, Input::Wake, Occasion::default());
        }
    }

    /// Tells the participant that its clock was set: what it waits for may have come, or be further off.
    pub(super) fn participant_clock_moved<W: Ledger + PolicyPort>(&mut self, world: &mut W) {
        self.transact(world, Input::Wake, Occasion::default());
    }

    /// Ends the reading of earlier promises.
    pub(super) fn recovered_promises<W: Ledger + PolicyPort>(&mut self, world: &mut W) {
        self.transact(world, Input::Recovered, Occasion::default());
    }

    /// Tells the participant something, and carries out what it says. Its clock is the calendar, because its
    /// promises are moot when their windows have passed.
    fn transact<W: Ledger + PolicyPort>(&mut self, world: &mut W, input: Input, mut occasion: Occasion<'_>) {
        self.branches.tell(self.calendar.today(), input);
        let mut undone = None;
        while let Some(said) = self.branches.hear() {
            match said {
                Said::Append { id, records, change } => self.append(id, &records, change, &mut occasion),
                Said::Vote { branch, vote } => {
                    undone = undone.or(self.vote(world, branch, vote, &mut occasion));
                }
                Said::Acknowledge(branch) => self.acknowledge(world, branch),
                // The call was refused before the participant heard of it.
                Said::Outdated { .. } => {}
                Said::Ask { branch, coordinator, epoch } => {
                    self.out.say(Output::AskDecision(DecisionQuestion { branch, coordinator, epoch }));
                }
                Said::Contradicted { branch, committed } => self.contradict(branch, committed),
            }
        }
        if let Some(number) = undone {
            self.go_on(world, number);
        }
    }

    /// Writes what the participant wants written, with the change of the reservation.
    fn append(&mut self, write: WriteId, records: &[ParticipantRecord], change: PromisedChange, of: &mut Occasion<'_>) {
        let mut more: Vec<_> = records.iter().map(record::participant).collect();
        more.extend(records.iter().filter_map(over).map(record::deleted));
        let change = match change {
            PromisedChange::Promise(branch) => self.promise_entry(branch, write, &mut more, of),
            PromisedChange::Make(branch) => self.decision_entry(branch, write, &mut more, None, of),
            PromisedChange::Drop(branch, reason) => self.decision_entry(branch, write, &mut more, Some(reason), of),
            PromisedChange::Nothing => None,
        };
        if change.is_none() {
            self.journal.write_noted(&mut self.out, write, more);
        }
    }

    /// Writes a promise with its reservation. `None`: there is none.
    fn promise_entry(
        &mut self,
        branch: Branch,
        write: WriteId,
        more: &mut Vec<crate::JournalRecord>,
        of: &mut Occasion<'_>,
    ) -> Option<()> {
        let (_, _, prepared) = of.preparation.take().filter(|(of, ..)| *of == branch)?;
        let r = self.table.get(prepared.number)?;
        let promised = r.promise.as_ref()?;
        more.push(record::change(&self.table, branch, prepared.number, &promised.change));
        let next = prepared.next.as_deref().unwrap_or(r);
        let entry = Entry {
            next,
            change: Change::Promise(prepared.number),
            events: &prepared.events,
            decided: &prepared.decided,
            reply: None,
            promise: Some((write, core::mem::take(more))),
        };
        let batch = self.journal.write(&mut self.out, &self.table, self.calendar, entry);
        self.table.set_busy(prepared.number, batch);
        self.branches.enter(branch, prepared.number);
        Some(())
    }

    /// Writes how a promise ends, with its reservation. `None`: it has none any more.
    fn decision_entry(
        &mut self,
        branch: Branch,
        write: WriteId,
        more: &mut Vec<crate::JournalRecord>,
        dropped: Option<DropReason>,
        of: &Occasion<'_>,
    ) -> Option<()> {
        let number = self.branches.number(branch)?;
        let r = self.table.get(number)?;
        let promised = r.promise.as_ref().filter(|promised| promised.branch == branch)?;
        let coordinator = Caller {
            name: promised.coordinator.to_string(),
            groups: Vec::new(),
            role: CallerRole::Broker,
            token: None,
        };
        let (who, reply) = of.operator.map_or((&coordinator, None), |(who, id)| (who, Some(id)));
        let verb = match dropped {
            _ if of.operator.is_some() => "resolve",
            None => "keep",
            Some(DropReason::Moot) => "moot",
            Some(_) => "drop",
        };
        let decided = Decided::new(who, verb, Some(r.handle));
        let (next, events) = after(r, &promised.change, dropped, self.calendar.today());
        let change = dropped.map_or(Change::Keep(number), |reason| Change::Drop(number, reason));
        let promise = Some((write, core::mem::take(more)));
        let entry = Entry { next: &next, change, events: &events, decided: &decided, reply, promise };
        let batch = self.journal.write(&mut self.out, &self.table, self.calendar, entry);
        self.table.set_busy(number, batch);
        Some(())
    }

    /// Says a vote. Returns the reservation whose preparation is undone.
    fn vote<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        branch: Branch,
        vote: Vote,
        of: &mut Occasion<'_>,
    ) -> Option<Number> {
        let calls = self.branches.waited(branch, Awaits::Vote);
        let mut undone = None;
        let reply = match vote {
            Vote::Yes => {
                let number = self.branches.number(branch).unwrap_or_default();
                self.views(world).reservation(number)
            }
            Vote::No(text) => {
                if let Some((_, _, prepared)) = of.preparation.take().filter(|(of, ..)| *of == branch) {
                    self.life(world).undo(Change::Promise(prepared.number));
                    undone = Some(prepared.number);
                }
                self.branches.leave(branch);
                Err(Refusal::plain(RefusalReason::NotPromised { text }))
            }
        };
        calls.into_iter().for_each(|id| self.out.reply(id, reply.clone()));
        undone
    }

    /// Answers the calls that wait until a decision is carried out.
    fn acknowledge<L: Ledger>(&mut self, ledger: &L, branch: Branch) {
        let calls = self.branches.waited(branch, Awaits::Decision);
        let reply = match self.branches.leave(branch) {
            Some(number) => self.views(ledger).reservation(number),
            None => Ok(CallResult::Nothing),
        };
        let reply = reply.or(Ok(CallResult::Nothing));
        calls.into_iter().for_each(|id| self.out.reply(id, reply.clone()));
    }

    /// Refuses the calls that wait for a decision which could not be written; it is tried again.
    pub(super) fn refuse_decisions(&mut self, number: Number, refusal: &Refusal) {
        let Some(branch) = self.table.get(number).and_then(|r| r.promise.as_ref()).map(|of| of.branch) else { return };
        for id in self.branches.waited(branch, Awaits::Decision) {
            self.out.reply(id, Err(refusal.clone()));
        }
    }

    fn contradict(&mut self, branch: Branch, committed: bool) {
        let number = self.branches.number(branch);
        let r = number.and_then(|number| self.table.get(number));
        let handle = r.map(|r| r.handle);
        if let Some(r) = r {
            self.journal.note(r.number, EventKind::Contradicted { committed });
        }
        self.out.say(Output::Contradicted(Contradiction { branch, handle, committed }));
    }
}

/// The part of a transaction whose record says that nothing more is to be known of it.
fn over(record: &ParticipantRecord) -> Option<Branch> {
    match record {
        ParticipantRecord::Branch { branch, made: Some(_), alone: false, .. } => Some(*branch),
        ParticipantRecord::Forget(branch) => Some(*branch),
        _ => None,
    }
}

/// The reservation after the end of its promise, and the events.
fn after(
    r: &Reservation,
    change: &Prepared,
    dropped: Option<DropReason>,
    today: terms::Time,
) -> (Box<Reservation>, Vec<EventKind>) {
    let mut next = Box::new(r.clone());
    let stepped = |step| r.state.after(step).unwrap_or(r.state);
    let event = match (change, dropped) {
        (Prepared::Create | Prepared::Hold, None) => {
            next.state = stepped(LifeStep::Keep);
            Some(EventKind::Committed)
        }
        (Prepared::Modify { next: parts, label, .. }, None) => {
            (next.parts, next.label) = (parts.clone(), label.clone());
            Some(EventKind::Modified)
        }
        (Prepared::Bind { part, binding }, None) => {
            if let Some(at) = next.parts.get_mut(*part) {
                at.binding = binding.clone();
            }
            Some(EventKind::Bound { part: *part, binding: binding.clone() })
        }
        (Prepared::Create, Some(reason)) => {
            (next.state, next.over, next.key) = (dropped_state(reason), today, None);
            Some(EventKind::Over(next.state))
        }
        (Prepared::Hold, Some(_)) => {
            next.state = stepped(LifeStep::Withdraw);
            None
        }
        (Prepared::Modify { .. } | Prepared::Bind { .. }, Some(_)) => return (next, Vec::new()),
    };
    next.version += 1;
    (next, event.into_iter().collect())
}
