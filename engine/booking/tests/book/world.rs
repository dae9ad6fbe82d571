//! A book with a driver around it: a ledger over slot tables, a policy that a test sets, a disk that can fail, a kernel
//! that remembers what it was ordered, and time that a test tells.

use admit::{Denied, Limits, SlotId, SlotOffer as Capacity, SlotTable};
use booking::io::{CalendarOffset, CallId, CallResult, Order, OrderAction, RecordTable};
use booking::promise::{Contradiction, DecisionQuestion};
use booking::{Batch, Bookings, Call, Config, Event, Input, JournalRecord, Output, Reply};
use std::collections::{BTreeMap, VecDeque};
use terms::book::{Binding, Caller, CallerRole, Guarantee, Handle, ResourceId, ResourceKind};
use terms::ports::book::{
    BindQuestion, Demand, Missing, NoRoom, Offer, PolicyDecision, Question, SharedLimits, SlotKey,
};
use terms::ports::{Ledger, PolicyPort};
use terms::{Rate, Span, Time, Window};

/// The slot tables and the policy.
#[derive(Clone)]
pub struct Tables {
    pub tables: Vec<(String, Option<SlotTable>, u64)>,
    /// The most at once that policy allows anybody.
    pub most: u64,
    /// The most that policy allows an owner in all.
    pub together: u64,
    /// Whether policy asks for that.
    pub sums: bool,
    /// Whether policy lets anybody bind anything.
    pub binds: bool,
    /// A real policy, which decides instead.
    pub policy: Option<booking::policy::Policy>,
}

impl Tables {
    pub fn new(resources: &[(&str, u64)]) -> Tables {
        let table = |&(name, capacity): &(&str, u64)| {
            let table = SlotTable::new(Capacity::of(Rate::from_bps(capacity)), Limits::default());
            (name.to_owned(), Some(table), capacity * 9 / 10)
        };
        Tables {
            tables: resources.iter().map(table).collect(),
            most: u64::MAX,
            together: u64::MAX,
            sums: true,
            binds: true,
            policy: None,
        }
    }

    pub fn table(&self, resource: u32) -> &SlotTable {
        self.tables[resource as usize].1.as_ref().unwrap()
    }

    fn told(&mut self, now: Time, resource: ResourceId) -> Result<&mut SlotTable, NoRoom> {
        let at = self.tables.get_mut(resource.0 as usize).and_then(|at| at.1.as_mut());
        let table = at.ok_or(NoRoom::Gone)?;
        table.expire(now);
        while table.poll().is_some() {}
        Ok(table)
    }

    /// What is counted: every slot, whatever its number.
    pub fn counted(&self) -> Vec<Vec<(Window, Rate)>> {
        let of = |table: &SlotTable| {
            let mut slots: Vec<_> = table.slots().map(|(_, slot)| (slot.window, slot.amount)).collect();
            slots.sort_unstable();
            slots
        };
        self.tables.iter().map(|t| t.1.as_ref().map(of).unwrap_or_default()).collect()
    }
}

fn no(denied: Denied) -> NoRoom {
    match denied {
        Denied::Capacity { free, .. } | Denied::Pool { free, .. } => NoRoom::Full { free: free.as_bps() },
        Denied::Limit { limit, .. } => NoRoom::Limit { limit },
        Denied::Misuse(misuse) => NoRoom::Meaningless(misuse),
    }
}

impl Ledger for Tables {
    fn resource(&self, name: &str) -> Option<ResourceId> {
        let place = self.tables.iter().position(|t| t.0 == name && t.1.is_some())?;
        Some(ResourceId(place as u32))
    }

    fn resources(&self) -> Vec<ResourceId> {
        (0..self.tables.len() as u32).map(ResourceId).filter(|id| self.offer(*id).is_some()).collect()
    }

    fn offer(&self, resource: ResourceId) -> Option<Offer> {
        let (name, table, shared) = self.tables.get(resource.0 as usize)?;
        let capacity = table.as_ref()?.capacity().as_bps();
        let kind = ResourceKind::of(name);
        Some(Offer { name: name.clone(), kind, guarantee: Guarantee::Reserved, capacity, shared: *shared })
    }

    fn book(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        let slot = self.told(now, resource)?.grant(window, Rate::from_bps(want.amount));
        slot.map(|slot| SlotKey(slot.as_u64())).map_err(no)
    }

    fn hold(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        let slot = self.told(now, resource)?.hold(window, Rate::from_bps(want.amount), Time::FOREVER);
        slot.map(|slot| SlotKey(slot.as_u64())).map_err(no)
    }

    fn promise(&mut self, now: Time, resource: ResourceId, slot: SlotKey) {
        if let Ok(table) = self.told(now, resource) {
            let _ = table.promise(SlotId::from_u64(slot.0));
        }
    }

    fn commit(&mut self, now: Time, resource: ResourceId, slot: SlotKey) {
        if let Ok(table) = self.told(now, resource) {
            let _ = table.commit(SlotId::from_u64(slot.0));
        }
    }

    fn adopt(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        let slot = self.told(now, resource)?.adopt_booked(window, Rate::from_bps(want.amount));
        slot.map(|slot| SlotKey(slot.as_u64())).map_err(no)
    }

    fn release(&mut self, now: Time, resource: ResourceId, slot: SlotKey) {
        if let Ok(table) = self.told(now, resource) {
            let _ = table.release(SlotId::from_u64(slot.0));
        }
    }

    fn free(&self, resource: ResourceId, window: Window, _: u32) -> u64 {
        self.table(resource.0).available(window.start(), window.end()).as_bps()
    }

    fn lend(&mut self, now: Time, resource: ResourceId, by: Time, want: Demand) -> Option<SlotKey> {
        let rate = Rate::from_bps(want.amount);
        let table = self.told(now, resource).ok()?;
        let by = table.lasts(rate, by)?;
        Some(SlotKey(table.grant(Window::new(now, by).ok()?, rate).ok()?.as_u64()))
    }

    fn find(&self, resource: ResourceId, want: Demand, span: Span, earliest: Time, latest: Time) -> Option<Time> {
        self.table(resource.0).find(Rate::from_bps(want.amount), span, earliest, latest).ok()?
    }

    fn stretches(&self, resource: ResourceId, window: Window, _: u32, most: usize) -> Vec<(Window, u64)> {
        let found = self.table(resource.0).stretches(window.start(), window.end(), most);
        found.into_iter().map(|(window, rate)| (window, rate.as_bps())).collect()
    }

    fn missing(&self, resource: ResourceId) -> Option<Missing> {
        let short = self.tables[resource.0 as usize].1.as_ref()?.shortfall()?;
        Some(Missing { first: short.first, worst: short.worst.as_bps() })
    }
}

impl PolicyPort for Tables {
    fn sums(&self) -> bool {
        self.policy.as_ref().map_or(self.sums, PolicyPort::sums)
    }

    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        self.policy.as_ref().map_or_else(SharedLimits::default, |policy| policy.shared(question))
    }

    fn decide(&self, question: &Question<'_>) -> PolicyDecision {
        if let Some(policy) = &self.policy {
            return policy.decide(question);
        }
        let denied = if question.amount > self.most {
            Some(format!("at most {} at once", self.most))
        } else if question.together > self.together {
            Some(format!("at most {} in all", self.together))
        } else {
            None
        };
        PolicyDecision { rule: "the test's".to_owned(), denied, ..PolicyDecision::default() }
    }

    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision {
        let denied = (!self.binds).then(|| format!("{} binds nothing", question.caller.name));
        PolicyDecision { rule: "of bindings".to_owned(), denied, ..PolicyDecision::default() }
    }
}

/// What the kernel has of a part.
pub type Kernel = BTreeMap<(Handle, usize), (Option<Binding>, u64)>;

/// A driver.
#[derive(Clone)]
pub struct Driver {
    pub broker: Bookings,
    pub world: Tables,
    pub now: Time,
    pub clock: CalendarOffset,
    pub disk: BTreeMap<(RecordTable, Vec<u8>), Vec<u8>>,
    /// Batches said and not answered.
    pub unwritten: VecDeque<Batch>,
    /// Whether batches are written at once.
    pub writes: bool,
    pub orders: VecDeque<Order>,
    /// Whether orders are carried out at once.
    pub enforces: bool,
    pub kernel: Kernel,
    /// Every order that was carried out.
    pub carried: Vec<Order>,
    pub events: Vec<Event>,
    pub replies: BTreeMap<CallId, Reply>,
    /// Questions to coordinators, and their contradictions.
    pub questions: Vec<DecisionQuestion>,
    pub contradicted: Vec<Contradiction>,
    pub batches: u64,
    /// How many corrupt records were reported; `None`: none is expected.
    pub corrupt: Option<usize>,
    next: u64,
}

pub const T0: Time = Time::from_nanos(1_795_269_600_000_000_000);

pub fn at(seconds: u64) -> Time {
    T0 + Span::from_secs(seconds)
}

pub fn window(start: u64, end: u64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

pub fn caller(name: &str) -> Caller {
    Caller { name: name.to_owned(), groups: Vec::new(), role: CallerRole::Owner, token: None }
}

impl Driver {
    pub fn new(resources: &[(&str, u64)]) -> Driver {
        Driver::with(Config::default(), Tables::new(resources))
    }

    pub fn with(config: Config, world: Tables) -> Driver {
        let mut driver = Driver::asleep(config, world, BTreeMap::new(), 1);
        driver.wake_up();
        driver
    }

    pub fn asleep(config: Config, world: Tables, disk: BTreeMap<(RecordTable, Vec<u8>), Vec<u8>>, life: u8) -> Driver {
        Driver {
            broker: Bookings::new(config, [life; 32]),
            world,
            now: T0,
            clock: CalendarOffset::default(),
            disk,
            unwritten: VecDeque::new(),
            writes: true,
            orders: VecDeque::new(),
            enforces: true,
            kernel: Kernel::new(),
            carried: Vec::new(),
            events: Vec::new(),
            replies: BTreeMap::new(),
            questions: Vec::new(),
            contradicted: Vec::new(),
            batches: 0,
            corrupt: None,
            next: 1,
        }
    }

    /// Reads the disk, as after a crash.
    pub fn wake_up(&mut self) {
        self.tell(Input::Clock(self.clock));
        for ((table, key), value) in self.disk.clone() {
            self.tell(Input::Recovering(JournalRecord { table, key, value: Some(value) }));
        }
        self.tell(Input::Recovered);
    }

    /// One input, and all that follows.
    pub fn tell(&mut self, input: Input) {
        self.broker.handle(self.now, &mut self.world, input);
        self.drain();
    }

    pub fn drain(&mut self) {
        loop {
            while let Some(output) = self.broker.poll() {
                match output {
                    Output::Append(batch) => {
                        self.batches += 1;
                        self.unwritten.push_back(batch);
                    }
                    Output::Reply { id, reply } => assert!(self.replies.insert(id, reply).is_none(), "replied twice"),
                    Output::Enforce(order) => self.orders.push_back(order),
                    Output::Event(event) => self.events.push(event),
                    Output::AskDecision(question) => self.questions.push(question),
                    Output::Contradicted(what) => self.contradicted.push(what),
                    Output::Corrupt { table, what, .. } => match &mut self.corrupt {
                        Some(counted) => *counted += 1,
                        None => panic!("{table:?}: {what}"),
                    },
                }
            }
            let input = match () {
                () if self.writes && !self.unwritten.is_empty() => self.write_one(),
                () if self.enforces && !self.orders.is_empty() => self.enforce_one(Ok(())),
                () => return,
            };
            self.broker.handle(self.now, &mut self.world, input);
        }
    }

    /// Writes the oldest batch.
    pub fn write_one(&mut self) -> Input {
        let batch = self.unwritten.pop_front().expect("a batch");
        for record in batch.records {
            match record.value {
                Some(value) => _ = self.disk.insert((record.table, record.key), value),
                None => _ = self.disk.remove(&(record.table, record.key)),
            }
        }
        Input::Appended(batch.id)
    }

    /// Loses the oldest batch.
    pub fn lose_one(&mut self) {
        let batch = self.unwritten.pop_front().expect("a batch");
        self.tell(Input::AppendFailed { id: batch.id, text: "no space left".to_owned() });
    }

    pub fn enforce_one(&mut self, result: Result<(), String>) -> Input {
        let order = self.orders.pop_front().expect("an order");
        if result.is_ok() {
            let place = (order.handle, order.part);
            match order.action.clone() {
                OrderAction::Enable { binding, amount } => {
                    let had = self.kernel.insert(place, (binding, amount.count()));
                    assert_eq!(had, None, "enabled twice");
                }
                OrderAction::Change { binding, amount } => {
                    let had = self.kernel.insert(place, (binding.clone(), amount.count()));
                    assert_eq!(had.map(|had| had.0), Some(binding), "changed what is not there");
                }
                OrderAction::Disable { binding } => {
                    let had = self.kernel.remove(&place);
                    assert_eq!(had.map(|had| had.0), Some(binding), "disabled what is not there");
                }
            }
            self.carried.push(order.clone());
        }
        Input::Enforced { id: order.id, result }
    }

    /// Says a call and returns its number.
    pub fn say(&mut self, who: &str, call: Call) -> CallId {
        self.say_as(caller(who), call)
    }

    fn say_as(&mut self, caller: Caller, call: Call) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        self.tell(Input::Call { id, caller: Box::new(caller), call });
        id
    }

    /// As [`Driver::call`], for a caller with a role.
    pub fn call_as(&mut self, who: Caller, call: Call) -> Reply {
        let id = self.say_as(who, call);
        self.replies.remove(&id).expect("an answer")
    }

    /// Says a call; the answer must have come by then.
    pub fn call(&mut self, who: &str, call: Call) -> Reply {
        let id = self.say(who, call);
        self.replies.remove(&id).expect("an answer")
    }

    /// Lets time pass to so many seconds after the start, waking whenever the book wants to be woken.
    pub fn until(&mut self, seconds: u64) {
        let end = at(seconds);
        while let Some(wake) = self.broker.wake_at().filter(|wake| *wake <= end) {
            assert!(wake > self.now, "woken for nothing at {wake:?}");
            self.now = wake;
            self.tell(Input::Wake);
        }
        self.now = end;
        self.tell(Input::Wake);
    }

    /// The view of one reservation.
    pub fn view(&mut self, who: &str, handle: Handle) -> booking::BookingView {
        match self.call(who, Call::Show(handle)) {
            Ok(CallResult::Reservation(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    /// Everything that is promised agrees with everything that is counted.
    pub fn check(&self) {
        assert_eq!(self.broker.audit(), Ok(()));
        for (name, table, _) in &self.world.tables {
            if let Some(table) = table {
                assert_eq!(table.audit(), Ok(()), "{name}");
            }
        }
    }
}
