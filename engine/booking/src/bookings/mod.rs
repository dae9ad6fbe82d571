//! The bookings: their parts, and the handling of each input.

mod transact;

use crate::background::Background;
use crate::calendar::Calendar;
use crate::calls::create::{Earlier, Request};
use crate::calls::modify::Modify;
use crate::calls::show::Views;
use crate::calls::{Outcome, bind, cancel, commit, enquire, may, show};
use crate::config::Config;
use crate::enforcement::{Due, Enforcement};
use crate::io::{BookingRequest, Call, CallId, Event, Input, Output};
use crate::journal::{Change, Entry, Journal, Purpose, Receipt, Refusals};
use crate::life::{Life, MOVED};
use crate::outbox::Outbox;
use crate::promise::Branches;
use crate::recover;
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Number, Reservations};
use crate::waiting::Waiting;
use alloc::string::ToString;
use alloc::vec::Vec;
use terms::Time;
use terms::book::{Caller, Handle, ResourceId};
use terms::ports::book::PolicyDecision;
use terms::ports::{Ledger, PolicyPort};

/// The bookings of one agent.
///
/// One input, then drain [`Bookings::poll`]; come back at [`Bookings::wake_at`] with [`Input::Wake`]. Before the first call:
/// [`Input::Clock`], every record of the journal, [`Input::Recovered`].
#[derive(Clone)]
pub struct Bookings {
    config: Config,
    started: bool,
    calendar: Calendar,
    table: Reservations,
    enforcement: Enforcement,
    background: Background,
    journal: Journal,
    refusals: Refusals,
    waiting: Waiting,
    branches: Branches,
    out: Outbox,
}

impl Bookings {
    /// Bookings without a reservation. Handles are drawn from `seed`: the system's in a daemon, the run's in
    /// a simulation. No seed is ever used twice.
    pub fn new(config: Config, seed: [u8; 32]) -> Bookings {
        Bookings {
            started: false,
            calendar: Calendar::default(),
            table: Reservations::new(&config, seed),
            enforcement: Enforcement::default(),
            background: Background::default(),
            journal: Journal::new(config.events),
            refusals: Refusals::new(&config),
            waiting: Waiting::new(config.waiting),
            branches: Branches::new(config.promises, config.waiting),
            out: Outbox::default(),
            config,
        }
    }

    /// Takes one input.
    pub fn handle<W: Ledger + PolicyPort>(&mut self, now: Time, world: &mut W, input: Input) {
        debug_assert!(self.out.is_empty(), "one input, then drain");
        self.calendar.advance(now);
        if counts_foreground(&input) {
            self.background.release(world, &self.table, self.calendar.now());
        }
        match input {
            Input::Recovering(record) => {
                let now = self.calendar.today();
                let corrupt =
                    recover::read(&mut self.table, &mut self.journal, (&mut self.branches, now), world, record);
                return corrupt.into_iter().for_each(|output| self.out.say(output));
            }
            Input::Recovered => {
                self.started = true;
                self.journal.restored(&mut self.out, &self.table);
                for corrupt in recover::promises(&mut self.table, &mut self.branches) {
                    self.out.say(corrupt);
                }
                self.life(world).count_anew();
                self.recovered_promises(world);
            }
            Input::Clock(offset) => {
                let moved = self.calendar.set(offset, if self.started { MOVED } else { 0 });
                if moved && self.started {
                    self.life(world).clock_moved();
                    self.participant_clock_moved(world);
                }
            }
            Input::Call { id, .. } if !self.started => {
                return self.out.reply(id, Err(Refusal::plain(RefusalReason::Starting)));
            }
            Input::Call { id, caller, call } => {
                self.table.keep_sums(world.sums());
                self.life(world).pass();
                self.call(world, id, *caller, call);
            }
            Input::Appended(id) => {
                while let Some((purpose, receipt)) = self.journal.written(id) {
                    self.written(world, purpose, receipt);
                }
            }
            Input::AppendFailed { id, text } => {
                if let Some((purpose, receipt)) = self.journal.failed(id, self.calendar.now()) {
                    self.failed(world, purpose, receipt, &text);
                }
            }
            Input::Enforced { id, result } => {
                let news = self.enforcement.enforced(&self.table, self.calendar.now(), id, result);
                news.into_iter().for_each(|(number, what)| self.journal.note(number, what));
            }
            Input::Resource(id) => self.life(world).resource_changed(id),
            Input::Policy | Input::Wake => {}
        }
        if self.started {
            self.wake_participant(world);
            self.catch_up(world);
        }
    }

    /// Everything that time and the input have made due.
    fn catch_up<L: Ledger>(&mut self, ledger: &mut L) {
        let mut life = self.life(ledger);
        life.pass();
        life.divide();
        self.enforcement.issue(&self.table, self.calendar.now(), &mut self.out);
        self.journal.flush(&mut self.out, &self.table, self.calendar);
        let now = self.calendar.now();
        if self.refusals.wake_at().is_some_and(|due| due <= now) && self.journal.write_again() <= now {
            self.journal.write_counts(&mut self.out, self.calendar.today(), self.refusals.take());
        }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.next()
    }

    /// The time for [`Input::Wake`], if nothing else happens; the agent's clock.
    pub fn wake_at(&self) -> Option<Time> {
        if !self.started {
            return None;
        }
        let edge = self.table.next_check().map(|at| self.calendar.offset().agents(at));
        let promise = self.branches.participant().wake_at().filter(|at| *at != Time::FOREVER);
        let promise = promise.map(|at| self.calendar.offset().agents(at));
        let count = self.refusals.wake_at().map(|due| due.max(self.journal.write_again()));
        [edge, self.enforcement.wake_at(), self.journal.wake_at(), count, promise].into_iter().flatten().min()
    }

    /// The same with a secret from `seed` for handles. Call it before the first input.
    pub fn keyed(&mut self, seed: [u8; 32]) {
        self.table.keyed(seed);
    }

    /// True if background parts share what others leave of a resource.
    pub fn has_background(&self, id: ResourceId) -> bool {
        let mut resources = self.table.resources().iter();
        resources.any(|(place, resource)| resource.id() == Some(id) && self.background.is_shared(place))
    }

    /// True if every record has been read.
    pub fn started(&self) -> bool {
        self.started
    }

    /// Reservations that are not over.
    pub fn live(&self) -> usize {
        self.table.live()
    }

    /// The state of a reservation, for callers that may see everything.
    pub fn peek(&self, handle: Handle) -> Option<crate::BookingState> {
        self.table.get(self.table.number_of(handle)?).filter(|r| !r.unborn).map(|r| r.state)
    }

    /// Calendar time, as of the last input.
    pub fn today(&self) -> Time {
        self.calendar.today()
    }

    /// All parts that are to be enforced at this instant, in order of creation.
    pub fn due(&self) -> impl Iterator<Item = Due> + '_ {
        self.enforcement.all_due(&self.table)
    }

    /// At most `most` events that a caller may see after number `seq`, oldest first, and the number of the newest
    /// event that there is.
    pub fn events_after(&self, caller: &Caller, seq: u64, most: usize) -> (Vec<Event>, u64) {
        show::events_after(self.journal.log(), caller, seq, most)
    }

    /// Policy's answer to a caller about each part; for a part without an amount, about its least. `None`:
    /// the windows are over.
    pub fn would_allow<P: PolicyPort>(
        &self,
        policy: &P,
        caller: &Caller,
        ask: &BookingRequest,
    ) -> Option<Vec<PolicyDecision>> {
        may::would_allow(&self.table, policy, self.calendar, caller, ask)
    }

    /// A digest of every reservation, its owner, and the sums: equal states, equal digests. Counters of calls
    /// (numbers of batches, events and orders) are not part of it.
    pub fn digest(&self) -> u64 {
        self.table.digest()
    }

    /// Checks that each part keeps its invariant. Takes time in proportion to the reservations.
    ///
    /// # Errors
    /// The index or sum that does not agree; our own fault.
    pub fn audit(&self) -> Result<(), &'static str> {
        self.table.audit()?;
        self.enforcement.audit(&self.table)?;
        self.background.audit(&self.enforcement)
    }

    fn life<'a, L: Ledger>(&'a mut self, ledger: &'a mut L) -> Life<'a, L> {
        Life {
            ledger,
            table: &mut self.table,
            enforcement: &mut self.enforcement,
            background: &mut self.background,
            journal: &mut self.journal,
            calendar: self.calendar,
            most_finished: self.config.finished,
        }
    }

    fn views<'a, L: Ledger>(&'a self, ledger: &'a L) -> Views<'a, L> {
        Views {
            ledger,
            table: &self.table,
            enforcement: &self.enforcement,
            background: &self.background,
            calendar: self.calendar,
            rows: self.config.rows,
        }
    }

    fn call<W: Ledger + PolicyPort>(&mut self, world: &mut W, id: CallId, caller: Caller, call: Call) {
        let (table, log, rows) = (&self.table, self.journal.log(), self.config.rows);
        let reply = match call {
            Call::Enquire(ask) => enquire::enquire(table, world, (&self.config, self.calendar), &caller, ask),
            Call::Create { ask, hold, key } => return self.create(world, id, caller, ask, hold, key),
            Call::Prepare(call) => return self.prepare(world, id, caller, call),
            Call::Decide(call) => return self.decide(world, id, *call),
            Call::Promises(call) => return self.promises(world, id, call),
            Call::Resolve { handle, commit } => return self.resolve(world, id, caller, handle, commit),
            Call::Commit(handle)
            | Call::Decided(handle)
            | Call::Modify { handle, .. }
            | Call::Bind { handle, .. }
            | Call::Cancel(handle) => match table.find(&caller, handle, true) {
                Ok(number) => return self.change(world, id, number, caller, call),
                Err(refusal) => Err(refusal),
            },
            Call::Show(handle) => self.views(world).show(&caller, handle),
            Call::List(matching) => self.views(world).list(&caller, &matching),
            Call::History(handle, after) => show::history(table, log, &caller, handle, after, rows),
            Call::Since { seq, most } => show::since(log, &caller, seq, most, rows),
            Call::Resources { timeline } => self.views(world).resources(timeline),
        };
        self.out.reply(id, reply);
    }

    /// Handles a call that changes a reservation: at once, or when an earlier change of it has been written.
    fn change<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        number: Number,
        caller: Caller,
        call: Call,
    ) {
        let (table, calendar) = (&mut self.table, self.calendar);
        let outcome = match (table.get(number), call) {
            (Some(r), call) if r.busy.is_some() => return self.wait(number, id, caller, call),
            (Some(r), _) if r.promise.is_some() => {
                Outcome::no(Refusal::plain(r.undecided().unwrap_or(RefusalReason::UnknownHandle)))
            }
            (Some(_), Call::Commit(_)) => commit::commit(table, world, (&self.config, calendar), number, &caller),
            (Some(_), Call::Decided(_)) => commit::decided(table, number, &caller),
            (Some(_), Call::Modify { change, .. }) => {
                let background = &mut self.background;
                let mut parts = Modify { table, background, config: &self.config, calendar, holds: false };
                parts.modify(world, number, &caller, &change)
            }
            (Some(_), Call::Bind { part, binding, .. }) => bind::bind(table, world, number, &caller, part, binding),
            (Some(r), Call::Cancel(_)) => cancel::cancel(r, calendar.today(), &caller),
            // No other call waits for a reservation.
            _ => Outcome::unknown(),
        };
        self.carry_out(world, id, number, outcome);
    }

    fn create<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        caller: Caller,
        ask: BookingRequest,
        hold: Option<terms::Span>,
        key: alloc::string::String,
    ) {
        let request = Request::new(&caller, &ask, hold, &key);
        match request.earlier(&self.table) {
            Some(Earlier::Unborn(number)) => self.wait(number, id, caller, Call::Create { ask, hold, key }),
            Some(Earlier::Same(number)) => self.carry_out(world, id, number, Outcome::Unchanged),
            Some(Earlier::Refused(refusal)) => self.out.reply(id, Err(refusal)),
            None => {
                let number = self.table.next_number();
                let outcome = request.create(&mut self.table, world, &self.config, self.calendar);
                self.carry_out(world, id, number, outcome);
            }
        }
    }

    /// Lets a call wait for a reservation.
    fn wait(&mut self, number: Number, id: CallId, caller: Caller, call: Call) {
        if let Err(refusal) = self.waiting.push(number, id, caller, call) {
            self.out.reply(id, Err(refusal));
        }
    }

    /// Answers a call about a reservation, or writes what it changes: then the answer comes with its batch.
    fn carry_out<L: Ledger>(&mut self, ledger: &L, id: CallId, number: Number, outcome: Outcome<'_>) {
        let (out, table, calendar) = (&mut self.out, &mut self.table, self.calendar);
        match outcome {
            Outcome::Answer(reply) => out.reply(id, reply),
            Outcome::Unchanged => {
                let reply = self.views(ledger).reservation(number);
                self.out.reply(id, reply);
            }
            Outcome::Refused(refusal, decided) => {
                if self.refusals.has_row(calendar.now(), decided.who()) {
                    self.journal.write_refusal(out, calendar.today(), id, refusal, &decided);
                } else {
                    out.reply(id, Err(refusal));
                }
            }
            Outcome::Change(proposal) => {
                let Some(next) = proposal.next.as_deref().or_else(|| table.get(number)) else { return };
                let (change, events, decided) = (proposal.change, &proposal.events, &proposal.decided);
                let entry = Entry { next, change, events, decided, reply: Some(id), promise: None };
                let batch = self.journal.write(out, table, calendar, entry);
                table.set_busy(number, batch);
            }
        }
    }

    /// A batch is on the disk: what it was for is true now, and its call is answered.
    fn written<W: Ledger + PolicyPort>(&mut self, world: &mut W, purpose: Purpose, receipt: Receipt) {
        let write = receipt.carries();
        match purpose {
            Purpose::Change(change) => {
                let number = change.number();
                self.life(world).complete(change);
                let reply = self.views(world).reservation(number);
                self.journal.acknowledge(&mut self.out, receipt, reply);
                if let Some(write) = write {
                    self.promise_written(world, write, true);
                }
                self.go_on(world, number);
            }
            Purpose::Noted => {
                if let Some(write) = write {
                    self.promise_written(world, write, true);
                }
            }
            Purpose::Refused(refusal) => self.journal.acknowledge(&mut self.out, receipt, Err(refusal)),
            Purpose::Facts(_) | Purpose::Counted(_) => self.journal.publish(&mut self.out, receipt),
        }
    }

    /// Nothing of a batch is on the disk: what it was for is undone, and its call is refused.
    fn failed<W: Ledger + PolicyPort>(&mut self, world: &mut W, purpose: Purpose, receipt: Receipt, text: &str) {
        let refusal = Refusal::plain(RefusalReason::NotWritten { text: text.to_string() });
        let write = receipt.carries();
        match purpose {
            Purpose::Change(change) => {
                let number = change.number();
                if let Change::Keep(_) | Change::Drop(..) = change {
                    self.refuse_decisions(number, &refusal);
                }
                self.life(world).undo(change);
                receipt.refuse(&mut self.out, refusal);
                if let Some(write) = write {
                    self.promise_written(world, write, false);
                }
                self.life(world).follow(number);
                self.go_on(world, number);
            }
            Purpose::Refused(refused) => receipt.refuse(&mut self.out, refused),
            Purpose::Counted(counted) => self.refusals.again(self.calendar.now(), counted),
            Purpose::Facts(_) => {}
            Purpose::Noted => {
                if let Some(write) = write {
                    self.promise_written(world, write, false);
                }
            }
        }
    }

    /// Continues the calls that wait for a reservation, until one has to wait again.
    fn go_on<W: Ledger + PolicyPort>(&mut self, world: &mut W, number: Number) {
        while self.table.get(number).is_none_or(|r| r.busy.is_none()) {
            match self.waiting.pop(number) {
                Some((id, caller, Call::Create { ask, hold, key })) => self.create(world, id, caller, ask, hold, key),
                Some((id, caller, Call::Prepare(call))) => self.prepare(world, id, caller, call),
                Some((id, caller, Call::Resolve { handle, commit })) => {
                    self.resolve(world, id, caller, handle, commit);
                }
                Some((id, caller, call)) => self.change(world, id, number, caller, call),
                None => return,
            }
        }
    }
}

/// True if this input counts foreground, so that background's slots must be given back first.
fn counts_foreground(input: &Input) -> bool {
    match input {
        Input::Call { call, .. } => {
            matches!(
                call,
                Call::Enquire(_)
                    | Call::Create { .. }
                    | Call::Modify { .. }
                    | Call::Resources { .. }
                    | Call::Prepare(_)
            )
        }
        // Calls that waited follow what was written.
        Input::Appended(_) | Input::AppendFailed { .. } | Input::Clock(_) | Input::Resource(_) | Input::Recovered => {
            true
        }
        _ => false,
    }
}
