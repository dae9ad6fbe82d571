//! The timer queue: what is due next, in exact order of time and, at equal times, of arming.
//!
//! An indexed binary heap: arming and clearing cost O(log n) and leave nothing behind, so that state which comes and
//! goes quickly cannot grow the queue. Each state block has one [`Alarm`]; blocks whose deadline only moved *later*
//! (every refresh) do not touch the queue at all: they are asked when the old deadline fires and re-arm then. A timing
//! wheel can take this module's place without a change elsewhere.

use alloc::vec::Vec;
use terms::Time;

/// A block's place in the queue.
#[derive(PartialEq, Eq, Debug)]
pub struct Alarm(u32);

impl Alarm {
    /// Not armed.
    pub const OFF: Alarm = Alarm(u32::MAX);

    fn is_off(&self) -> bool {
        self.0 == u32::MAX
    }
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm::OFF
    }
}

/// The queue of armed alarms; `T` says whose.
#[derive(Debug)]
pub struct Timers<T> {
    heap: Vec<Entry<T>>,
    /// Where in the heap each alarm's entry is.
    places: Vec<u32>,
    free: Vec<u32>,
    turns: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    turn: u64,
    alarm: u32,
    what: T,
}

impl<T: Copy> Timers<T> {
    /// An empty queue.
    pub fn new() -> Timers<T> {
        Timers { heap: Vec::new(), places: Vec::new(), free: Vec::new(), turns: 0 }
    }

    /// How many alarms are armed.
    pub fn armed(&self) -> usize {
        self.heap.len()
    }

    /// When the next alarm is due.
    pub fn next(&self) -> Option<Time> {
        self.heap.first().map(|e| e.at)
    }

    /// When this alarm is due, if it is armed.
    pub fn due(&self, alarm: &Alarm) -> Option<Time> {
        if alarm.is_off() { None } else { Some(self.heap[self.places[alarm.0 as usize] as usize].at) }
    }

    /// Arms an alarm, or moves it.
    pub fn set(&mut self, alarm: &mut Alarm, at: Time, what: T) {
        self.clear(alarm);
        let place = self.heap.len() as u32;
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.places.push(0);
                (self.places.len() - 1) as u32
            }
        };
        self.places[id as usize] = place;
        self.heap.push(Entry { at, turn: self.turns, alarm: id, what });
        self.turns += 1;
        self.rise(place as usize);
        *alarm = Alarm(id);
    }

    /// Arms an alarm unless it fires early enough already.
    pub fn set_by(&mut self, alarm: &mut Alarm, at: Time, what: T) {
        if self.due(alarm).is_none_or(|due| due > at) {
            self.set(alarm, at, what);
        }
    }

    /// Disarms an alarm.
    pub fn clear(&mut self, alarm: &mut Alarm) {
        if !alarm.is_off() {
            let place = self.places[alarm.0 as usize] as usize;
            self.take(place);
            *alarm = Alarm::OFF;
        }
    }

    /// What is due at `now`, first things first. It stays armed until its owner sets or clears it; the owner must.
    pub fn due_at(&self, now: Time) -> Option<T> {
        self.heap.first().filter(|e| e.at <= now).map(|e| e.what)
    }

    fn take(&mut self, place: usize) {
        let last = self.heap.len() - 1;
        self.swap(place, last);
        if let Some(gone) = self.heap.pop() {
            self.free.push(gone.alarm);
        }
        if place < self.heap.len() {
            self.sink(place);
            self.rise(place);
        }
    }

    fn before(&self, a: usize, b: usize) -> bool {
        (self.heap[a].at, self.heap[a].turn) < (self.heap[b].at, self.heap[b].turn)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].alarm as usize] = a as u32;
        self.places[self.heap[b].alarm as usize] = b as u32;
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.before(place, (place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let least = if right < self.heap.len() && self.before(right, left) { right } else { left };
            if !self.before(least, place) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }
}

impl<T: Copy> Default for Timers<T> {
    fn default() -> Timers<T> {
        Timers::new()
    }
}

#[cfg(test)]
mod tests;
