//! The bookings in the agent's loop: their journal, their clock, their enforcers on this host.

use super::LocalPolicy;
use super::coordinators::CoordinatorAnswer;
use crate::config::Level;
use crate::drive::Drive;
use crate::mace::booked::NO_HOST;
use booking::Input;
use booking::io::{CalendarOffset, CallId, Order, RecordTable};
use control::core::Core;
use control::resources::{Bookable, Resource};
use node::io::Input as NodeInput;
use terms::book::{Caller, CallerRole, Guarantee, ResourceKind};
use terms::{Amount, Span};

/// The number of calls whose answers go to no connection. Those of connections begin at 1.
const NOBODYS: CallId = CallId(0);
/// The engine is told of a change of the calendar from this size on, ns.
const CLOCK_MOVED: u64 = Span::from_millis(20).as_nanos();

impl Drive {
    /// Restores and enforces the bookings of earlier runs, before the first message is read.
    pub(crate) fn begin_book(&mut self) {
        let now = self.clock.now();
        for stock in self.config.resources.clone() {
            let (capacity, shared) = (Amount::pieces(stock.capacity), Amount::pieces(0));
            let stock = Resource { name: stock.name, guarantee: Guarantee::Reserved, capacity, shared };
            self.node.add_resource(now, stock);
        }
        let agreed: Vec<Resource> = self.config.slas.iter().map(|sla| sla.stock()).collect();
        for stock in self.book.enforcers.stocks().into_iter().chain(agreed) {
            self.node.add_resource(now, stock);
        }
        self.tell_bookable();
        self.tell_clock();
        for record in std::mem::take(&mut self.book.found) {
            self.tell_bookings(Input::Recovering(record));
        }
        self.tell_bookings(Input::Recovered);
        for wrong in self.book.enforcers.settle() {
            self.console.announce(Level::Error, "enforcement", &wrong);
        }
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
            let mace = self.config.mace.as_ref().filter(|mace| mace.interface == state.name);
            if let Some(capacity) = mace.and_then(|mace| mace.bookable(link.spec.rate)) {
                let (name, shared) = (format!("measured/{}", state.name), Amount::zero(capacity.unit()));
                self.node.add_resource(now, Resource { name, guarantee: Guarantee::Reserved, capacity, shared });
            }
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
            self.tell_bookings(Input::Clock(self.book.clock));
        }
        if moved {
            self.date_keys();
        }
    }

    /// Tells the engine one thing and carries out what follows.
    pub(crate) fn tell_bookings(&mut self, input: Input) {
        self.tell(NodeInput::Booking(input));
    }

    /// Takes the answers of the journal, and those of brokers that were asked.
    pub(crate) fn pick_up(&mut self) {
        for answer in self.book.coordinators.answers() {
            match answer {
                CoordinatorAnswer::Decided(call) => {
                    let caller = Caller { role: CallerRole::Broker, ..Caller::default() };
                    self.tell_bookings(Input::Call { id: NOBODYS, caller: Box::new(caller), call });
                }
                CoordinatorAnswer::Unknown(text) => self.console.announce(Level::Error, "undecided", &text),
            }
        }
        let (inputs, dead) = self.book.desk.pick_up();
        self.book.broken = self.book.broken.take().or(dead);
        inputs.into_iter().for_each(|input| self.tell_bookings(input));
        self.reply_audit();
    }

    /// Sends the engine's batches of this round to the journal together, before the loop waits.
    pub(crate) fn send_batches(&mut self) {
        loop {
            let refused = self.book.desk.send();
            if refused.is_empty() {
                return;
            }
            refused.into_iter().for_each(|input| self.tell_bookings(input));
        }
    }

    /// The work of the bookings in each round of the loop.
    pub(crate) fn turn_book(&mut self) {
        self.tell_clock();
        let now = self.clock.now();
        if self.book.enforcers.wake_at().is_some_and(|at| at <= now) {
            for found in self.book.enforcers.wake(now) {
                self.console.announce(found.level, found.name, &found.text);
            }
        }
        self.meter.look(now, self.plane.kernel());
        if self.premium.look(now, self.node.tc(), self.plane.kernel()) && self.node.has_groups() {
            self.tell(node::io::Input::Groups);
        }
    }

    /// Reads the rules of policy again; after a mistake the old ones stay.
    pub(crate) fn reload_policy(&mut self) {
        let files: Vec<String> = [&self.config.policy, &self.config.domain_policy]
            .into_iter()
            .flatten()
            .map(|file| file.display().to_string())
            .collect();
        if files.is_empty() {
            return;
        }
        match LocalPolicy::load(&self.config) {
            Ok((policy, brokers)) => {
                *self.node.policy_mut() = policy;
                self.book.brokers = brokers;
                for client in self.speakers.renew(&self.book.brokers) {
                    self.forget_follower(client);
                }
                self.console.announce(Level::Info, "policy", &format!("{} read again", files.join(", ")));
                self.tell_bookings(Input::Policy);
            }
            Err(mistake) => {
                self.console.announce(Level::Error, "policy", &format!("{mistake}; the rules stay as they were"))
            }
        }
    }

    /// Gives back what is enforced on this host, because the agent stops in good order.
    pub(crate) fn end_book(&mut self) {
        self.book.enforcers.end();
    }

    /// Carries out an order on this host; the engine is told the result.
    pub(crate) fn carry_out(&mut self, order: &Order) {
        if ResourceKind::of(&order.resource) == ResourceKind::Measured {
            let nobody = || NodeInput::Booking(Input::Enforced { id: order.id, result: Err(NO_HOST.to_owned()) });
            return match &mut self.mace {
                Some(host) => host.order(order.clone()),
                None => self.answer_node(nobody()),
            };
        }
        let result = self.book.enforcers.enforce(self.clock.now(), order);
        self.answer_node(NodeInput::Booking(Input::Enforced { id: order.id, result }));
    }

    /// Hands a batch to the journal.
    pub(crate) fn write(&mut self, batch: booking::Batch) {
        for refused in self.book.desk.hand_in(batch) {
            self.answer_node(NodeInput::Booking(refused));
        }
    }

    /// Says that a record of the journal is left out.
    pub(crate) fn say_corrupt(&mut self, table: RecordTable, key: &[u8], what: &str) {
        let text = format!("a record of {table:?} (key {key:02x?}) is left out: {what}");
        self.console.announce(Level::Error, "journal", &text);
    }
}
