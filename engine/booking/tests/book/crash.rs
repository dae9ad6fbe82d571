//! A disk that is slow, fails, and is read again after a crash at every moment: nothing that was acknowledged is lost,
//! nothing is there by half, nothing is over-booked (FAULTS.md D1, D4, I2, I3).

use crate::oracle::{Op, RESOURCES, TICKS};
use crate::random::{Chance, random_op, seeds};
use crate::world::{Driver, Tables, at};
use crate::{flow, part};
use booking::io::{BookingChange, CallId, CallResult, RecordTable};
use booking::{BookingRequest, BookingState, BookingView, Call, Config, When};
use std::collections::BTreeMap;
use terms::Span;
use terms::book::{Handle, ResourceKind};

/// What the caller of a book knows: the last view of each reservation that was acknowledged to it.
type Acknowledged = BTreeMap<Handle, BookingView>;

struct Run {
    driver: Driver,
    chance: Chance,
    /// Calls that are not answered yet.
    open: Vec<CallId>,
    handles: Vec<(Handle, &'static str)>,
    owners: BTreeMap<CallId, &'static str>,
    acknowledged: Acknowledged,
    now: u64,
    /// How often it has come back: no seed is used twice.
    life: u8,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut driver = Driver::with(Config::default(), Tables::new(&RESOURCES));
        (driver.writes, driver.enforces) = (false, false);
        Run {
            driver,
            chance: Chance(seed),
            open: Vec::new(),
            handles: Vec::new(),
            owners: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            now: 0,
            life: 1,
        }
    }

    fn say(&mut self, op: &Op) {
        let of = |run: &Run, k: &usize| run.handles.get(*k % run.handles.len().max(1)).copied();
        let (owner, call) = match op {
            Op::Create { owner, rows, hold, key, notice } => {
                let ask = BookingRequest {
                    parts: rows.iter().map(|row| part(RESOURCES[row.resource].0, row.amount)).collect(),
                    when: When::Window { start: Some(at(rows[0].start)), end: Some(at(rows[0].end)) },
                    notice: notice.map(Span::from_secs).map(Box::new),
                    members: if key.is_empty() { Vec::new() } else { vec!["a.f".into(), "b.f".into()] },
                    ..BookingRequest::default()
                };
                (*owner, Call::Create { ask, hold: hold.map(Span::from_secs), key: key.clone() })
            }
            Op::Commit(k) | Op::Cancel(k) | Op::Modify { k, .. } | Op::Bind { k, .. } => {
                let Some((handle, owner)) = of(self, k) else { return };
                let call = match op {
                    Op::Commit(_) => Call::Commit(handle),
                    Op::Cancel(_) => Call::Cancel(handle),
                    Op::Bind { flow: n, .. } => Call::Bind { handle, part: 0, binding: Some(flow(*n)) },
                    Op::Modify { amount, start, end, .. } => {
                        let view = self.acknowledged.get(&handle);
                        let kind = view.map_or(ResourceKind::Network, |view| view.parts[0].kind);
                        let amounts = amount.map(|amount| (0, kind, amount)).into_iter().collect();
                        let change = BookingChange {
                            amounts,
                            start: start.map(at),
                            end: end.map(at),
                            label: None,
                            without: Vec::new(),
                        };
                        Call::Modify { handle, change }
                    }
                    _ => return,
                };
                (owner, call)
            }
            Op::Pass(t) => {
                self.now = self.now.max(*t);
                return self.driver.until(self.now);
            }
        };
        let id = self.driver.say(owner, call);
        self.open.push(id);
        self.owners.insert(id, owner);
    }

    /// One thing happens: a call, a batch is written or lost, an order is carried out or fails.
    fn step(&mut self) {
        match self.chance.below(10) {
            0..4 => {
                let op = random_op(&mut self.chance, self.now, self.handles.len());
                self.say(&op);
            }
            4..8 if !self.driver.unwritten.is_empty() => match self.chance.below(8) {
                0 => self.driver.lose_one(),
                _ => {
                    let input = self.driver.write_one();
                    self.driver.tell(input);
                }
            },
            _ if !self.driver.orders.is_empty() => {
                let fails = self.chance.below(6) == 0;
                let input = self.driver.enforce_one(if fails { Err("busy".to_owned()) } else { Ok(()) });
                self.driver.tell(input);
            }
            _ => {}
        }
        self.read_replies();
        self.driver.check();
    }

    fn read_replies(&mut self) {
        let (driver, acknowledged, handles, owners) =
            (&mut self.driver, &mut self.acknowledged, &mut self.handles, &self.owners);
        self.open.retain(|id| match driver.replies.remove(id) {
            None => true,
            Some(Ok(CallResult::Reservation(view))) => {
                if !acknowledged.contains_key(&view.handle) {
                    handles.push((view.handle, owners[id]));
                }
                acknowledged.insert(view.handle, view);
                false
            }
            Some(_) => false,
        });
    }

    /// The machine dies and comes back, later.
    fn crash(&self, later: u64) -> Driver {
        let (tables, disk) = (Tables::new(&RESOURCES), self.driver.disk.clone());
        let mut driver = Driver::asleep(Config::default(), tables, disk, self.life + 1);
        driver.now = at(self.now + later);
        driver.wake_up();
        driver
    }
}

/// What was acknowledged is there, as it was or, if a call about it is still open, as that would make it.
fn nothing_lost(run: &Run, after: &mut Driver) {
    after.check();
    for resource in 0..RESOURCES.len() {
        let table = after.world.table(resource as u32);
        assert_eq!(table.shortfall(), None, "over-booked");
    }
    for (handle, owner) in &run.handles {
        let told = &run.acknowledged[handle];
        let view = after.view(owner, *handle);
        assert!(view.version >= told.version, "{told:?} became {view:?}");
        if told.state.is_over() {
            assert_eq!(view.state, told.state, "what is over stays over");
        }
        if view.version == told.version {
            let steps = |view: &BookingView| {
                view.parts.iter().map(|p| (p.steps.clone(), p.binding.clone())).collect::<Vec<_>>()
            };
            assert_eq!(steps(&view), steps(told));
        }
    }
    let mut seqs: Vec<u64> = after
        .disk
        .keys()
        .filter(|(table, _)| *table == RecordTable::Event)
        .map(|(_, key)| u64::from_be_bytes(key[..].try_into().expect("eight bytes")))
        .collect();
    let all = seqs.len();
    seqs.dedup();
    assert_eq!(seqs.len(), all, "every event has its own number");
}

fn case(seed: u64) -> usize {
    let mut run = Run::new(seed);
    let mut crashes = 0;
    while run.now + 3 < TICKS && crashes < 150 {
        let disk = run.driver.disk.len();
        run.step();
        // After everything that reached the disk, and now and then at another moment.
        if run.driver.disk.len() != disk || run.chance.below(10) == 0 {
            let later = run.chance.below(3);
            let mut after = run.crash(later);
            nothing_lost(&run, &mut after);
            crashes += 1;
            if crashes % 40 == 0 {
                // It goes on from there: what was on its way is answered by nobody, what was written holds.
                run.driver = after;
                (run.driver.writes, run.driver.enforces) = (false, false);
                (run.now, run.life) = (run.now + later, run.life + 1);
                run.open.clear();
            }
        }
    }
    crashes
}

#[test]
fn recovery_at_every_prefix_of_the_journal() {
    let mut crashes = 0;
    for seed in 0..seeds(40) {
        let result = std::panic::catch_unwind(|| case(seed));
        crashes += result.unwrap_or_else(|_| panic!("the case of seed {seed} failed"));
    }
    println!("{crashes} crashes, nothing lost, nothing over-booked");
    assert!(crashes > 1_000);
}

/// A crash while a window is open: it is enforced again, and events go on where they were.
#[test]
fn what_is_open_is_enforced_again() {
    let mut d = Driver::new(&RESOURCES);
    let mut ask = crate::ask("net/eth1", 4, crate::world::window(1, 9));
    ask.parts[0].binding = Some(flow(1));
    let view = crate::granted(d.call("ann", crate::create(ask)));
    d.until(2);
    let last = d.events.last().expect("it opened").seq;
    let mut after = Driver::asleep(Config::default(), Tables::new(&RESOURCES), d.disk.clone(), 2);
    after.now = at(3);
    after.wake_up();
    assert_eq!(after.kernel.len(), 1);
    assert_eq!(after.view("ann", view.handle).state, BookingState::Active);
    assert!(after.events.is_empty(), "it has not opened again: {:?}", after.events);
    after.until(9);
    assert!(after.events[0].seq > last && after.kernel.is_empty());
    let Ok(CallResult::Events { events, lost: false, .. }) = after.call("ann", Call::Since { seq: 0, most: 0 }) else {
        panic!("no events");
    };
    assert_eq!(events.iter().map(|e| e.what.name()).collect::<Vec<_>>(), ["created", "opened", "ended"]);
}

/// Whatever stands on the disk: no panic, no unbounded memory; what is read is what would be written.
#[test]
fn no_record_is_too_strange() {
    use booking::record::{Audited, Stored};
    let mut run = Run::new(3);
    while run.now + 3 < TICKS {
        run.step();
    }
    let mut chance = Chance(9);
    let (mut read, mut refused) = (0, 0);
    for ((table, _), value) in run.driver.disk.iter() {
        for round in 0..200 {
            let mut bytes = value.clone();
            if round > 0 {
                for _ in 0..1 + chance.below(3) {
                    let place = chance.below(bytes.len() as u64) as usize;
                    match chance.below(4) {
                        0 => bytes.truncate(place),
                        1 => bytes.insert(place, chance.draw() as u8),
                        _ => bytes[place] = chance.draw() as u8,
                    }
                    if bytes.is_empty() {
                        break;
                    }
                }
            }
            let again = match table {
                RecordTable::Reservation => Stored::decode(&bytes).map(|stored| stored.encode()),
                RecordTable::Event => booking::Event::decode(&bytes).map(|event| event.encode()),
                RecordTable::Audit | RecordTable::Promise => Audited::decode(&bytes).map(|_| bytes.clone()),
            };
            match again {
                Ok(again) => {
                    assert_eq!(again, bytes, "{table:?}");
                    read += 1;
                }
                Err(_) => refused += 1,
            }
            assert!(round > 0 || refused == 0 || read > 0, "what we wrote is read");
        }
    }
    assert!(read > 1_000 && refused > 1_000, "{read} read, {refused} refused");
}

/// Earlier builds kept a reservation under its handle: it is read, and lies under its number from then on.
#[test]
fn records_under_their_handles_are_moved() {
    let mut run = Run::new(5);
    while run.now + 3 < TICKS {
        run.step();
    }
    // In a record the handle follows the version of its form.
    let handle = |value: &Vec<u8>| value[1..17].to_vec();
    let old = |((table, key), value): (&(RecordTable, Vec<u8>), &Vec<u8>)| match table {
        RecordTable::Reservation => ((*table, handle(value)), value.clone()),
        _ => ((*table, key.clone()), value.clone()),
    };
    let disk: BTreeMap<_, _> = run.driver.disk.iter().map(old).collect();
    let reservations = |driver: &Driver| {
        let of = |((table, key), value): (&(RecordTable, Vec<u8>), &Vec<u8>)| {
            (*table == RecordTable::Reservation).then(|| (key.len(), handle(value)))
        };
        driver.disk.iter().filter_map(of).collect::<Vec<_>>()
    };
    let mut handles: Vec<_> = reservations(&run.driver).into_iter().map(|(_, handle)| handle).collect();
    assert!(handles.len() > 5);
    let mut driver = Driver::asleep(Config::default(), Tables::new(&RESOURCES), disk, 9);
    driver.now = run.driver.now;
    driver.wake_up();
    driver.check();
    let mut moved = reservations(&driver);
    assert!(moved.iter().all(|(len, _)| *len == 8), "{moved:?}");
    moved.sort();
    handles.sort();
    assert_eq!(moved.into_iter().map(|(_, handle)| handle).collect::<Vec<_>>(), handles);
}
