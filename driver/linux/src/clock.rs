//! The one place that reads a clock.
//!
//! [`Clock::now`] is the boot clock (it counts suspended time and never steps) plus an offset to Unix time that is
//! fixed when the process starts. Calendar edges are another matter: see `ARCHITECTURE.md`, "Time".

use std::sync::atomic::{AtomicI64, Ordering};
use terms::{Span, Time};

/// The boot clock with a fixed offset.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_ns: u64,
    step: Option<&'static ClockAdjustment>,
}

/// By how much the wall clock is off what the machine's says, and how long the machine has slept beside what it says, nanoseconds: so
/// that tests step a clock and suspend, and never the machine's.
#[derive(Debug, Default)]
pub struct ClockAdjustment {
    wall: AtomicI64,
    slept: AtomicI64,
}

impl ClockAdjustment {
    /// Off by so much from now on.
    pub fn set(&self, nanos: i64) {
        self.wall.store(nanos, Ordering::SeqCst);
    }

    /// The machine was suspended so long: the boot clock and the wall clock went on, the monotonic one did not.
    pub fn suspend(&self, nanos: i64) {
        self.slept.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock {
    /// Fixes the offset now.
    pub fn start() -> Clock {
        Clock::begin(None)
    }

    /// The same with a wall clock that a test can step.
    pub fn stepped(step: &'static ClockAdjustment) -> Clock {
        Clock::begin(Some(step))
    }

    fn begin(step: Option<&'static ClockAdjustment>) -> Clock {
        let clock = Clock { offset_ns: 0, step };
        Clock { offset_ns: clock.wall().saturating_sub(clock.boot()), step }
    }

    fn wall(&self) -> u64 {
        let of = |step: &ClockAdjustment| step.wall.load(Ordering::SeqCst) + step.slept.load(Ordering::SeqCst);
        read(libc::CLOCK_REALTIME).saturating_add_signed(self.step.map_or(0, of))
    }

    fn boot(&self) -> u64 {
        let slept = self.step.map_or(0, |step| step.slept.load(Ordering::SeqCst));
        read(libc::CLOCK_BOOTTIME).saturating_add_signed(slept)
    }

    /// Calendar time as it is known now, which steps when somebody sets the clock: for what is dated by others, as
    /// certificates and keys are, and for what people read. Nothing is timed by it.
    pub fn today(&self) -> Time {
        Time::from_nanos(self.wall())
    }

    /// Nanoseconds that look like Unix time but never step and never run backwards.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.boot().saturating_add(self.offset_ns))
    }

    /// Our time of an instant of the recent past that the kernel named by the wall clock, nanoseconds; without one,
    /// now. A step of the wall clock in between is the only error.
    pub fn from_wall(&self, stamp: Option<u64>) -> Time {
        let age = stamp.map_or(0, |stamp| self.wall().saturating_sub(stamp));
        Time::from_nanos(self.now().as_nanos().saturating_sub(age))
    }

    /// By how much calendar time is ahead of [`Clock::now`] at this moment, nanoseconds, and how far it may be off: as far as
    /// the kernel says where something keeps it in step with the world (adjtimex(2)). Where nothing does, calendar time is
    /// what this machine's clock says, and by that measure it is exact.
    pub fn calendar(&self) -> (i64, Span) {
        let before = self.boot();
        let wall = self.wall();
        let after = self.boot();
        let ours = (before + (after - before) / 2).saturating_add(self.offset_ns);
        let ahead = i128::from(wall) - i128::from(ours);
        (i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX }), uncertainty())
    }

    /// What the boot clock itself shows at `at`, in nanoseconds: for the kernel's own timers.
    pub fn boot_nanos(&self, at: Time) -> u64 {
        at.as_nanos().saturating_sub(self.offset_ns)
    }
}

/// The kernel's monotonic clock, as coarsely as the kernel's own programs read it, ns.
pub fn monotonic_coarse() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// Processor time of the calling thread so far, ns.
pub fn thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// What the machine has slept: the boot clock less the monotonic clock, ns.
pub fn slept() -> u64 {
    read(libc::CLOCK_BOOTTIME).saturating_sub(read(libc::CLOCK_MONOTONIC))
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

fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid timespec that outlives the call.
    let rc = unsafe { libc::clock_gettime(clock, &mut ts) };
    assert_eq!(rc, 0, "clock_gettime cannot fail for a clock that every supported kernel has");
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_time_is_where_it_was_at_the_start() {
        let (ahead, _) = Clock::start().calendar();
        assert!(ahead.abs() < 1_000_000_000, "{ahead} ns since a moment ago");
    }

    /// A machine that boots in 1970 and is told the time later: timers go on as they were, the calendar is right at once.
    #[test]
    fn a_step_moves_the_calendar_and_no_timer() {
        const DAY: u64 = 86_400_000_000_000;
        let step: &'static ClockAdjustment = Box::leak(Box::default());
        let right = Clock::start().today();
        // Five seconds more than this machine has been up.
        let young = read(libc::CLOCK_BOOTTIME) + 5_000_000_000;
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

    /// A machine that slept for eight hours: timers that were due are due at once, and the calendar is no step ahead of them.
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
