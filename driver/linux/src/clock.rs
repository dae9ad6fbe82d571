//! The only module that reads a clock.
//!
//! [`Clock::now`] is the boot clock (it counts suspended time and never steps) plus an offset to Unix time
//! that is fixed when the process starts. Calendar edges are different: see `ARCHITECTURE.md`, "Time".

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicI64, Ordering};
use terms::{Span, Time};

/// The boot clock with a fixed offset.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_ns: u64,
    step: Option<&'static ClockAdjustment>,
}

/// An offset of the wall clock from the machine's, and extra time of suspension, both ns: tests step a clock
/// and suspend with it, not with the machine's clock.
#[derive(Debug, Default)]
pub struct ClockAdjustment {
    wall: AtomicI64,
    slept: AtomicI64,
}

impl ClockAdjustment {
    /// Sets the offset of the wall clock, ns.
    pub fn set(&self, nanos: i64) {
        self.wall.store(nanos, Ordering::SeqCst);
    }

    /// Simulates a suspension: the boot clock and the wall clock go on, the monotonic clock does not.
    pub fn suspend(&self, nanos: i64) {
        self.slept.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock {
    /// A clock with its offset fixed now.
    pub fn start() -> Clock {
        Clock::begin(None)
    }

    /// The same, with a wall clock that a test can step.
    pub fn stepped(step: &'static ClockAdjustment) -> Clock {
        Clock::begin(Some(step))
    }

    fn begin(step: Option<&'static ClockAdjustment>) -> Clock {
        let clock = Clock { offset_ns: 0, step };
        Clock { offset_ns: clock.wall().saturating_sub(clock.boot()), step }
    }

    fn wall(&self) -> u64 {
        let of = |step: &ClockAdjustment| step.wall.load(Ordering::SeqCst) + step.slept.load(Ordering::SeqCst);
        read(ClockId::Realtime).saturating_add_signed(self.step.map_or(0, of))
    }

    fn boot(&self) -> u64 {
        let slept = self.step.map_or(0, |step| step.slept.load(Ordering::SeqCst));
        read(ClockId::Boottime).saturating_add_signed(slept)
    }

    /// Calendar time as known now; it steps when the clock is set. For dates made elsewhere, such as those of
    /// certificates and keys, and for people. Timers never use it.
    pub fn today(&self) -> Time {
        Time::from_nanos(self.wall())
    }

    /// Nanoseconds that look like Unix time but never step and never run backwards.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.boot().saturating_add(self.offset_ns))
    }

    /// Converts a recent wall-clock stamp of the kernel, ns, to our time; without a stamp, returns now. Only
    /// a step of the wall clock since the stamp makes it wrong.
    pub fn from_wall(&self, stamp: Option<u64>) -> Time {
        let age = stamp.map_or(0, |stamp| self.wall().saturating_sub(stamp));
        Time::from_nanos(self.now().as_nanos().saturating_sub(age))
    }

    /// The lead of calendar time over [`Clock::now`] at this moment, ns, and its uncertainty: the kernel's
    /// maximum error if the clock is synchronised (adjtimex(2)). An unsynchronised clock defines calendar
    /// time itself, so its uncertainty is zero.
    pub fn calendar(&self) -> (i64, Span) {
        let before = self.boot();
        let wall = self.wall();
        let after = self.boot();
        let ours = (before + (after - before) / 2).saturating_add(self.offset_ns);
        let ahead = i128::from(wall) - i128::from(ours);
        (i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX }), uncertainty())
    }

    /// The reading of the boot clock at `at`, ns: for the kernel's timers.
    pub fn boot_nanos(&self, at: Time) -> u64 {
        at.as_nanos().saturating_sub(self.offset_ns)
    }
}

/// The kernel's coarse monotonic clock, which eBPF programs read too, ns.
pub fn monotonic_coarse() -> u64 {
    read(ClockId::MonotonicCoarse)
}

/// The wall clock, ns: for ages of what the kernel stamped by it, never for state.
pub(crate) fn wall() -> u64 {
    read(ClockId::Realtime)
}

/// Processor time of the calling thread so far, ns.
pub fn thread_cpu() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// The total time of suspension: boot clock minus monotonic clock, ns.
pub fn slept() -> u64 {
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}

fn uncertainty() -> Span {
    // SAFETY: an all-zero timex is valid, and asks without changing anything.
    let mut found: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is a valid timex that outlives the call.
    let state = unsafe { libc::adjtimex(&mut found) };
    if state < 0 || found.status & libc::STA_UNSYNC != 0 {
        return Span::ZERO;
    }
    Span::from_micros(u64::try_from(found.maxerror).unwrap_or(0))
}

fn read(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_time_is_where_it_was_at_the_start() {
        let (ahead, _) = Clock::start().calendar();
        assert!(ahead.abs() < 1_000_000_000, "{ahead} ns since a moment ago");
    }

    /// A machine that boots in 1970 and gets the time later: timers are unaffected, the calendar is right at once.
    #[test]
    fn a_step_moves_the_calendar_and_no_timer() {
        const DAY: u64 = 86_400_000_000_000;
        let step: &'static ClockAdjustment = Box::leak(Box::default());
        let right = Clock::start().today();
        // Five seconds more than this machine has been up.
        let young = read(ClockId::Boottime) + 5_000_000_000;
        step.set(young as i64 - right.as_nanos() as i64);
        let clock = Clock::stepped(step);
        let before = clock.now();
        assert!(clock.today().as_nanos() < young + DAY && before.as_nanos() < young + DAY, "1970");
        assert!(clock.calendar().0.abs() < 1_000_000_000);
        step.set(0);
        assert!(clock.today().since(right).as_nanos() < DAY && clock.today() >= right);
        assert!(clock.now().since(before).as_nanos() < DAY, "timers do not step");
        let (ahead, _) = clock.calendar();
        let calendar = clock.now().as_nanos().saturating_add_signed(ahead);
        assert!(calendar.abs_diff(clock.today().as_nanos()) < 1_000_000_000);
        // And back again: timers do not run backwards.
        let last = clock.now();
        step.set(-3_600_000_000_000);
        assert!(clock.now() >= last && clock.today() < right);
    }

    /// A machine that slept for eight hours: overdue timers expire at once, and the calendar has not stepped.
    #[test]
    fn what_the_machine_slept_counts_for_timers_and_the_calendar() {
        const HOURS: u64 = 8 * 3_600_000_000_000;
        const SECOND: u64 = 1_000_000_000;
        let step: &'static ClockAdjustment = Box::leak(Box::default());
        let clock = Clock::stepped(step);
        let (now, today) = (clock.now(), clock.today());
        let due = now + Span::from_secs(30);
        let (boot, stamp) = (clock.boot_nanos(due), today.as_nanos());
        step.suspend(HOURS as i64);
        assert!(clock.now().since(now).as_nanos().abs_diff(HOURS) < SECOND && clock.now() > due);
        assert!(clock.today().since(today).as_nanos().abs_diff(HOURS) < SECOND);
        assert!(clock.calendar().0.abs() < SECOND as i64, "no step");
        assert_eq!(clock.boot_nanos(due), boot, "the kernel's timers of before stand");
        let age = clock.now().since(clock.from_wall(Some(stamp))).as_nanos();
        assert!(age.abs_diff(HOURS) < SECOND, "what the kernel stamped before is as old as the sleep was long");
    }

    #[test]
    fn never_runs_backwards() {
        let clock = Clock::start();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
