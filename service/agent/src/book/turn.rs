//! Input and output of the bookings' engine in the agent's loop.

use super::Book;
use super::sight::Sight;
use crate::agent::Agent;
use crate::config::Level;
use crate::enforce::{EnforcerContext, Enforcers};
use booking::io::{CalendarOffset, Output};
use booking::{Bookings, Input};
use node::book::{Bookable, Resource};
use node::core::Core;
use terms::book::Guarantee;
use terms::ports::{Ledger, PolicyPort};
use terms::{Span, Time};

/// The engine is told of a change of the calendar from this size on, ns.
const CLOCK_MOVED: u64 = Span::from_millis(20).as_nanos();

impl Agent {
    /// Restores and enforces the bookings of earlier runs, before the first message is read.
    pub(crate) fn begin_book(&mut self) {
        let now = self.clock.now();
        for stock in self.config.resources.clone() {
            let stock =
                Resource { name: stock.name, guarantee: Guarantee::Reserved, capacity: stock.capacity, shared: 0 };
            self.node.add_resource(now, stock);
        }
        for stock in self.book.enforcers.stocks() {
            self.node.add_resource(now, stock);
        }
        self.book.due.clear(); // resources that came before: the book finds them itself
        self.tell_bookable();
        self.tell_clock();
        self.work_book();
        for output in self.recover() {
            self.carry_out(output);
        }
        self.tell_book(Input::Recovered);
        for wrong in self.on_ground(|enforcers, ground| enforcers.settle(ground)) {
            self.announce(Level::Error, "enforcement", &wrong);
        }
    }

    /// Tells the engine all records of the journal at once: there may be a million.
    fn recover(&mut self) -> Vec<Output> {
        let (now, found) = (self.clock.now(), std::mem::take(&mut self.book.found));
        let Book { broker, policy, .. } = &mut self.book;
        self.node.with_book(now, &Sight(policy), |world| {
            let told = found.into_iter().flat_map(|record| said(broker, world, now, Input::Recovering(record)));
            told.collect()
        })
    }

    /// Tells the engine the bookable rates of the interfaces that exist.
    pub(crate) fn tell_bookable(&mut self) {
        let now = self.clock.now();
        for state in self.interfaces.values() {
            let named = self.config.interfaces.iter().find(|interface| interface.name == state.name);
            let (Some(config), Some(link)) = (named, state.link) else { continue };
            let share = config.premium.map(|share| share.of(link.spec.rate));
            let core = Core {
                premium: config.core.premium.of(link.spec.rate),
                background: config.core.background.of(link.spec.rate),
            };
            self.node.bookable(now, state.index, Bookable { share, background: config.background, core });
        }
        self.after();
        self.tell_roles();
    }

    /// Tells the engine the calendar time, if it has moved against our own clock.
    fn tell_clock(&mut self) {
        let (ahead_ns, uncertainty) = self.clock.calendar();
        let told = self.book.clock;
        let moved = ahead_ns.abs_diff(told.ahead_ns) >= CLOCK_MOVED;
        if moved || uncertainty != told.uncertainty {
            self.book.clock = CalendarOffset { ahead_ns, uncertainty };
            self.book.due.push_back(Input::Clock(self.book.clock));
        }
        if moved {
            self.date_keys();
        }
    }

    /// Tells the engine one thing and carries out its outputs, and theirs in turn.
    pub(crate) fn tell_book(&mut self, input: Input) {
        self.book.due.push_back(input);
        self.work_book();
    }

    /// Tells the engine that a resource has come, gone or changed.
    pub(crate) fn note_resource(&mut self, resource: terms::book::ResourceId) {
        self.book.due.push_back(Input::Resource(resource));
    }

    /// Takes the answers of the journal.
    pub(crate) fn pick_up(&mut self) {
        let (inputs, dead) = self.book.desk.pick_up();
        self.book.due.extend(inputs);
        self.book.broken = self.book.broken.take().or(dead);
        self.work_book();
        self.reply_audit();
    }

    /// Sends the engine's batches of this round to the journal together, before the loop waits.
    pub(crate) fn send_batches(&mut self) {
        loop {
            let refused = self.book.desk.send();
            if refused.is_empty() {
                return;
            }
            self.book.due.extend(refused);
            self.work_book();
        }
    }

    /// The work of the bookings in each round of the loop.
    pub(crate) fn turn_book(&mut self) {
        self.tell_clock();
        let now = self.clock.now();
        if self.book.broker.wake_at().is_some_and(|at| at <= now) {
            self.book.due.push_back(Input::Wake);
        }
        self.work_book();
        if self.book.enforcers.wake_at().is_some_and(|at| at <= now) {
            for found in self.on_ground(|enforcers, ground| enforcers.wake(ground)) {
                self.announce(found.level, found.name, &found.text);
            }
        }
    }

    /// Reads the rules of policy again; after a mistake the old ones stay.
    pub(crate) fn reload_policy(&mut self) {
        let Some(file) = self.config.policy.clone() else { return };
        match super::policy_file::load(&file) {
            Ok(super::policy_file::PolicyFile { policy, brokers }) => {
                (self.book.policy, self.book.brokers) = (policy, brokers);
                for client in self.speakers.renew(&self.book.brokers) {
                    self.forget_follower(client);
                }
                self.announce(Level::Info, "policy", &format!("{} read again", file.display()));
                self.tell_book(Input::Policy);
            }
            Err(mistake) => self.announce(Level::Error, "policy", &format!("{mistake}; the rules stay as they were")),
        }
    }

    /// Gives back everything that is enforced, because the agent stops in good order.
    pub(crate) fn end_book(&mut self) {
        self.on_ground(|enforcers, ground| enforcers.end(ground));
    }

    /// Runs `deed` with the enforcers' context, and carries out the node's outputs.
    pub(crate) fn on_ground<T>(&mut self, deed: impl FnOnce(&mut Enforcers, &mut EnforcerContext<'_>) -> T) -> T {
        let mut said = Vec::new();
        let Agent { clock, plane, names, node, book, .. } = self;
        let mut ground = EnforcerContext { now: clock.now(), plane, names, node, said: &mut said };
        let result = deed(&mut book.enforcers, &mut ground);
        said.into_iter().for_each(|output| self.output(output));
        self.after();
        result
    }

    pub(super) fn work_book(&mut self) {
        while let Some(input) = self.book.due.pop_front() {
            for output in self.ask_book(input) {
                self.carry_out(output);
            }
        }
    }

    /// Tells the engine one thing and returns its outputs.
    pub(super) fn ask_book(&mut self, input: Input) -> Vec<Output> {
        let now = self.clock.now();
        let Book { broker, policy, .. } = &mut self.book;
        let said = self.node.with_book(now, &Sight(policy), |world| said(broker, world, now, input));
        self.after();
        said
    }

    pub(super) fn carry_out(&mut self, output: Output) {
        match output {
            Output::Append(batch) => self.book.due.extend(self.book.desk.hand_in(batch)),
            Output::Reply { id, reply } => self.reply_book(id, reply),
            Output::Enforce(order) => {
                let result = self.on_ground(|enforcers, ground| enforcers.enforce(ground, &order));
                self.book.due.push_back(Input::Enforced { id: order.id, result });
            }
            Output::Event(event) => self.tell_followers(event),
            Output::Corrupt { table, key, what } => {
                let text = format!("a record of {table:?} (key {key:02x?}) is left out: {what}");
                self.announce(Level::Error, "journal", &text);
            }
        }
    }
}

/// One input, then drain.
fn said<W: Ledger + PolicyPort>(broker: &mut Bookings, world: &mut W, now: Time, input: Input) -> Vec<Output> {
    broker.handle(now, world, input);
    std::iter::from_fn(|| broker.poll()).collect()
}
