//! Liveness: everybody is up, all messages under way are lost, and from here on nothing fails. Then every transaction
//! ends, by its timers alone.

use super::counts::Seen;
use super::message::Message;
use super::{Checked, Fault, Site, World};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Mutex;

/// The most ticks until every transaction has ended.
const PATIENCE: u8 = 8;

/// The faults that follow from states of the processes, by their hash.
#[derive(Default)]
pub struct Settled([Mutex<HashMap<u64, Option<Fault>>>; 16]);

impl Settled {
    fn of(&self, key: u64) -> &Mutex<HashMap<u64, Option<Fault>>> {
        &self.0[(key % 16) as usize]
    }
}

impl Checked {
    /// The first fault between this state and the end of all transactions.
    pub fn settle(&self, world: &World) -> Option<Fault> {
        if !world.sent.is_empty() || !world.under_way.is_empty() {
            self.counts.add(Seen::LostMessage);
        }
        let mut world = world.clone();
        let mut under_way = VecDeque::new();
        let first = digest(&world);
        if let Some(known) = self.settled.of(first).lock().expect("no search panics").get(&first).copied() {
            return known;
        }
        let mut passed = vec![first];
        let mut fault = Some(Fault::Stuck);
        for _ in 0..=PATIENCE {
            self.drain(&mut world, &mut under_way);
            let key = digest(&world);
            let known = self.settled.of(key).lock().expect("no search panics").get(&key).copied();
            if let Some(known) = known {
                fault = known;
                break;
            }
            passed.push(key);
            fault = self.fault(&world);
            if fault.is_some() || has_ended(&world) {
                fault = fault.or_else(|| self.unequal(&world));
                break;
            }
            fault = Some(Fault::Stuck);
            for site in self.sites() {
                under_way.extend(self.wake(&mut world, site));
            }
        }
        for key in passed {
            self.settled.of(key).lock().expect("no search panics").insert(key, fault);
        }
        fault
    }

    /// Every message arrives, once and in order, and every write reaches the disk.
    fn drain(&self, world: &mut World, under_way: &mut VecDeque<Message>) {
        loop {
            for site in self.sites() {
                while world.pending(site) > 0 {
                    under_way.extend(self.write(world, site, world.pending(site)));
                }
            }
            let Some(message) = under_way.pop_front() else { return };
            under_way.extend(self.deliver(world, &message).into_iter().flatten());
        }
    }

    /// All sites.
    pub fn sites(&self) -> impl Iterator<Item = Site> + use<> {
        [Site::Coordinator].into_iter().chain((0..self.scope.participants).map(Site::Participant))
    }
}

fn digest(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&world.coordinator, &world.participants).hash(&mut hasher);
    hasher.finish()
}

/// No transaction is open at the coordinator, and no promise at a participant.
fn has_ended(world: &World) -> bool {
    let engine = &world.coordinator.engine;
    let is_idle = engine.is_open() && engine.transactions().next().is_none();
    is_idle && world.participants.iter().all(|site| site.engine.promises().next().is_none())
}
