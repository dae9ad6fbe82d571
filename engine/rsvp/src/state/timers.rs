//! The alarms of state blocks, on a timing wheel. Arming, moving and clearing one costs the same with ten of
//! them as with a million, and leaves nothing behind, so that short-lived state cannot grow the queue.
//!
//! Each state block has one [`Alarm`]. A block whose deadline only moved *later* (every refresh) does not
//! touch the wheel at all: it is checked when the old deadline fires and re-arms then.
//!
//! An alarm never fires early, and late by less than a tick of the wheel.

use alloc::vec::Vec;
use terms::Time;
use wheel::Wheel;

/// The exponent of the wheel's tick, which is 2^0 = 1 ns.
const SHIFT: u32 = 0;

/// A block's place in the queue.
#[derive(PartialEq, Eq, Debug)]
pub struct Alarm(u32);

impl Alarm {
    /// An alarm that is not armed.
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

/// The queue of armed alarms; `T` names an alarm's owner.
#[derive(Debug)]
pub struct Timers<T> {
    wheel: Wheel,
    /// The owner of each alarm. The entry of a free alarm has no meaning.
    whose: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Timers<T> {
    /// An empty queue.
    pub fn new() -> Timers<T> {
        Timers { wheel: Wheel::new(SHIFT, Time::ZERO, 0), whose: Vec::new(), free: Vec::new() }
    }

    /// The number of armed alarms.
    pub fn armed(&self) -> usize {
        self.wheel.len()
    }

    /// The time of the next call of [`Timers::due_at`]: not after the next alarm is due, but maybe before. A
    /// time in the past means at once.
    pub fn next(&self) -> Option<Time> {
        self.wheel.wake_at()
    }

    /// The time at which this alarm is due, if it is armed: as it was set, rounded up to a tick.
    pub fn due(&self, alarm: &Alarm) -> Option<Time> {
        self.wheel.due(alarm.0)
    }

    /// Arms an alarm, or moves it.
    pub fn set(&mut self, alarm: &mut Alarm, at: Time, what: T) {
        if alarm.is_off() {
            *alarm = Alarm(self.place(what));
        } else {
            self.whose[alarm.0 as usize] = what;
        }
        self.wheel.set(alarm.0, at);
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
            self.wheel.cancel(alarm.0);
            self.free.push(alarm.0);
            *alarm = Alarm::OFF;
        }
    }

    /// The owner of the next alarm that is due at `now`, the earliest first. The alarm is no longer armed
    /// then; its owner must set it again or clear it.
    pub fn due_at(&mut self, now: Time) -> Option<T> {
        self.wheel.expire(now).map(|alarm| self.whose[alarm as usize])
    }

    fn place(&mut self, what: T) -> u32 {
        if let Some(free) = self.free.pop() {
            self.whose[free as usize] = what;
            return free;
        }
        self.whose.push(what);
        let count = self.whose.len();
        if count.is_power_of_two() {
            self.wheel.reserve(count * 2);
        }
        (count - 1) as u32
    }
}

impl<T: Copy> Default for Timers<T> {
    fn default() -> Timers<T> {
        Timers::new()
    }
}

#[cfg(test)]
mod tests;
