//! The bookings: their tables, and the handling of each input.

use crate::config::Config;
use crate::draw::{ByHandle, Draw};
use crate::enforce::Force;
use crate::grants::Grants;
use crate::io::{CalendarOffset, Call, CallId, Event, EventKind, Input, JournalRecord, Output, Reply};
use crate::journal::Pending;
use crate::refusal::{Refusal, RefusalReason};
use crate::refusals::Refusals;
use crate::reservation::{Number, Part, Reservation};
use crate::tables::{Owners, Resources};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use hashbrown::HashMap;
use terms::Time;
use terms::book::{Caller, CallerRole, Handle, foreign};
use terms::ports::{Ledger, PolicyPort};

/// The bookings of one agent.
///
/// One input, then drain [`Bookings::poll`]; come back at [`Bookings::wake_at`] with [`Input::Wake`]. Before the first call:
/// [`Input::Clock`], every record of the journal, [`Input::Recovered`].
#[derive(Clone)]
pub struct Bookings {
    pub(crate) config: Config,
    pub(crate) draw: Draw,
    pub(crate) clock: CalendarOffset,
    /// The agent's clock, as of the last input.
    pub(crate) now: Time,
    pub(crate) started: bool,
    pub(crate) owners: Owners,
    pub(crate) grants: Grants,
    pub(crate) resources: Resources,
    pub(crate) handles: HashMap<Handle, Number, ByHandle>,
    pub(crate) all: BTreeMap<Number, Box<Reservation>>,
    pub(crate) keys: BTreeMap<(u32, Box<str>), Number>,
    pub(crate) next_number: Number,
    /// Reservations that are not over.
    pub(crate) live: usize,
    /// Reservations that are over, oldest first.
    pub(crate) finished: BTreeSet<(Time, Number)>,
    /// The next check of each reservation; calendar time.
    pub(crate) agenda: BTreeSet<(Time, Number)>,
    /// Batches on their way, oldest first.
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) next_batch: u64,
    /// Calls that wait until a change of their reservation is written.
    pub(crate) waiting: BTreeMap<Number, VecDeque<(CallId, Caller, Call)>>,
    /// Events that time alone caused and that are not on their way to the store yet.
    pub(crate) facts: BTreeMap<Number, Vec<EventKind>>,
    /// Records to delete.
    pub(crate) doomed: Vec<JournalRecord>,
    /// The earliest time at which a failed write is repeated; the agent's clock.
    pub(crate) write_again: Time,
    pub(crate) events: VecDeque<Event>,
    pub(crate) next_seq: u64,
    /// True if the oldest events are no longer kept.
    pub(crate) lost_events: bool,
    pub(crate) force: Force,
    /// The refusals of each caller.
    pub(crate) refusals: Refusals,
    pub(crate) out: VecDeque<Output>,
}

impl Bookings {
    /// Bookings without a reservation. Handles are drawn from `seed`: the system's in a daemon, the run's in
    /// a simulation. No seed is ever used twice.
    pub fn new(config: Config, seed: [u8; 32]) -> Bookings {
        Bookings {
            config,
            draw: Draw::new(seed),
            clock: CalendarOffset::default(),
            now: Time::ZERO,
            started: false,
            owners: Owners::default(),
            grants: Grants::default(),
            resources: Resources::default(),
            handles: HashMap::default(),
            all: BTreeMap::new(),
            keys: BTreeMap::new(),
            next_number: 1,
            live: 0,
            finished: BTreeSet::new(),
            agenda: BTreeSet::new(),
            pending: VecDeque::new(),
            next_batch: 1,
            waiting: BTreeMap::new(),
            facts: BTreeMap::new(),
            doomed: Vec::new(),
            write_again: Time::ZERO,
            events: VecDeque::new(),
            next_seq: 1,
            lost_events: false,
            force: Force::default(),
            refusals: Refusals::default(),
            out: VecDeque::new(),
        }
    }

    /// Takes one input.
    pub fn handle<W: Ledger + PolicyPort>(&mut self, now: Time, world: &mut W, input: Input) {
        debug_assert!(self.out.is_empty(), "one input, then drain");
        self.now = self.now.max(now);
        if counts_foreground(&input) {
            self.release_background(world);
        }
        match input {
            Input::Recovering(record) => return self.recovering(world, record),
            Input::Recovered => self.recovered(world),
            Input::Clock(clock) => self.set_clock(world, clock),
            Input::Call { id, .. } if !self.started => {
                return self.say(Output::Reply { id, reply: Err(Refusal::plain(RefusalReason::Starting)) });
            }
            Input::Call { id, caller, call } => {
                self.sum_up(world.sums());
                self.pass(world);
                self.call(world, id, caller, call);
            }
            Input::Appended(id) => self.appended(world, id),
            Input::AppendFailed { id, text } => self.append_failed(world, id, &text),
            Input::Enforced { id, result } => self.enforced(id, result),
            Input::Resource(id) => self.resource_changed(world, id),
            Input::Policy | Input::Wake => {}
        }
        if self.started {
            self.pass(world);
            self.divide_background(world);
            self.issue_orders();
            self.flush();
            self.count_refusals();
        }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time for [`Input::Wake`], if nothing else happens; the agent's clock.
    pub fn wake_at(&self) -> Option<Time> {
        if !self.started {
            return None;
        }
        let edge = self.agenda.first().map(|(at, _)| self.clock.agents(*at));
        let write = (self.pending.is_empty() && !self.facts.is_empty()).then_some(self.write_again);
        let count = self.refusals.wake_at().map(|due| due.max(self.write_again));
        [edge, self.force.wake_at(), write, count].into_iter().flatten().min()
    }

    /// True if every record has been read.
    pub fn started(&self) -> bool {
        self.started
    }

    /// Reservations that are not over.
    pub fn live(&self) -> usize {
        self.live
    }

    /// The state of a reservation, for callers that may see everything.
    pub fn peek(&self, handle: Handle) -> Option<crate::BookingState> {
        self.all.get(self.handles.get(&handle)?).filter(|r| !r.unborn).map(|r| r.state)
    }

    /// Calendar time, as of the last input.
    pub fn today(&self) -> Time {
        self.clock.calendar(self.now)
    }

    /// Computes the sums of every owner, if policy needs them and they are missing; or drops them.
    pub(crate) fn sum_up(&mut self, wanted: bool) {
        if wanted == self.owners.summed() {
            return;
        }
        self.owners.set_summed(wanted);
        self.grants.clear_sums();
        let all = core::mem::take(&mut self.all);
        for r in all.values().filter(|r| wanted && !r.state.is_over()) {
            r.parts.iter().for_each(|part| self.sum(r.owner, part, 1));
        }
        self.all = all;
    }

    /// Adds an owner's part to all sums that policy may need (or, with a sign of -1, takes it out).
    pub(crate) fn sum(&mut self, owner: u32, part: &Part, sign: i64) {
        self.owners.sum(owner, part, sign);
        if self.owners.summed() {
            self.grants.sum(part, sign);
        }
    }

    fn call<W: Ledger + PolicyPort>(&mut self, world: &mut W, id: CallId, caller: Caller, call: Call) {
        let reply = match call {
            Call::Enquire(ask) => self.enquire(world, &caller, ask),
            Call::Create { ask, hold, key } => return self.create(world, id, caller, ask, hold, key),
            Call::Commit(handle)
            | Call::Decided(handle)
            | Call::Modify { handle, .. }
            | Call::Bind { handle, .. }
            | Call::Cancel(handle) => match self.find(&caller, handle, true) {
                Ok(number) => return self.change(world, id, number, caller, call),
                Err(refusal) => Err(refusal),
            },
            Call::Show(handle) => self.show(world, &caller, handle),
            Call::List(matching) => self.list(world, &caller, &matching),
            Call::History(handle, after) => self.history(&caller, handle, after),
            Call::Since { seq, most } => self.since(&caller, seq, most),
            Call::Resources { timeline } => self.show_resources(world, timeline),
        };
        self.reply(id, reply);
    }

    /// Handles a call that changes a reservation: at once, or when an earlier change of it has been written.
    pub(crate) fn change<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        number: Number,
        caller: Caller,
        call: Call,
    ) {
        let Some(r) = self.all.get(&number) else {
            return self.reply(id, Err(Refusal::plain(RefusalReason::UnknownHandle)));
        };
        if r.busy.is_some() {
            return self.wait(number, id, caller, call);
        }
        match call {
            Call::Commit(_) => self.commit(world, id, number, &caller, false),
            Call::Decided(_) => self.commit(world, id, number, &caller, true),
            Call::Modify { change, .. } => self.modify(world, id, number, &caller, change),
            Call::Bind { part, binding, .. } => self.bind(world, id, number, &caller, part, binding),
            Call::Cancel(_) => self.cancel(world, id, number, &caller),
            Call::Create { ask, hold, key } => self.create(world, id, caller, ask, hold, key),
            // No other call waits for a reservation.
            _ => self.reply(id, Err(Refusal::plain(RefusalReason::UnknownHandle))),
        }
    }

    pub(crate) fn wait(&mut self, number: Number, id: CallId, caller: Caller, call: Call) {
        let limit = self.config.waiting;
        let queue = self.waiting.entry(number).or_default();
        if queue.len() < limit {
            return queue.push_back((id, caller, call));
        }
        self.reply(
            id,
            Err(Refusal::plain(RefusalReason::Limit { what: "calls that wait for one reservation", limit })),
        );
    }

    /// The reservation of this handle, for a caller who may read it, or also write it. A caller who may not
    /// learns nothing.
    pub(crate) fn find(&self, caller: &Caller, handle: Handle, write: bool) -> Result<Number, Refusal> {
        let number = self.handles.get(&handle).copied();
        let r = number.and_then(|number| self.all.get(&number)).filter(|r| !r.unborn && self.may(caller, r, write));
        r.map(|r| r.number).ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle))
    }

    pub(crate) fn may(&self, caller: &Caller, r: &Reservation, write: bool) -> bool {
        let owner = &*self.owners.get(r.owner).name;
        match caller.role {
            CallerRole::Operator => true,
            CallerRole::Auditor if !write => true,
            CallerRole::Auditor | CallerRole::Owner => *owner == *caller.name,
            // What names no members was made by no broker.
            CallerRole::Broker => !r.members.is_empty() && foreign(owner) == caller.domain(),
        }
    }

    pub(crate) fn reply(&mut self, id: CallId, reply: Reply) {
        self.say(Output::Reply { id, reply });
    }

    pub(crate) fn say(&mut self, output: Output) {
        self.out.push_back(output);
    }
}

/// True if this input counts foreground, so that background's slots must be given back first.
fn counts_foreground(input: &Input) -> bool {
    match input {
        Input::Call { call, .. } => {
            matches!(call, Call::Enquire(_) | Call::Create { .. } | Call::Modify { .. } | Call::Resources { .. })
        }
        // Calls that waited follow what was written.
        Input::Appended(_) | Input::AppendFailed { .. } | Input::Clock(_) | Input::Resource(_) | Input::Recovered => {
            true
        }
        _ => false,
    }
}
