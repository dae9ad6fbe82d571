//! The processor's time-stamp counter, and a probe that reads it at an engine's checkpoints (`terms::probe`).
//!
//! Why not the clock: a step of an engine is 10 to 2,000 ns long, and reading the clock is 20 to 60 of them. The counter
//! is read in about 10, ordered against what runs before and after (`lfence`). What reading costs is calibrated and
//! taken off, so that an empty step shows zero on average; what a step within costs the outer one is taken off there.
//!
//! **What it cannot see.** Interrupts that do not switch the thread away are part of a step, as they were in the
//! measurements of *Profiling resource reservation protocols* (section 6.1); medians pass over them. Whether the thread
//! was switched away [`switches`] says; whoever samples drops such samples and counts them.

use std::time::{Duration, Instant};
use terms::probe::{ProbeObserver, ProbePoint};

/// The counter, in ticks; nothing that stands before it in the program runs after it, and the other way round.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both instructions exist on every x86-64 processor, and touch no memory.
    unsafe {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// How often this thread has been switched away so far, of its own will or not (getrusage(2)).
pub fn switches() -> u64 {
    // SAFETY: all-zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writes and outlives the call.
    let rc = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    assert_eq!(rc, 0, "the kernel knows its own threads");
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// Processor time of this thread so far, ns, however often it was switched away (CLOCK_THREAD_CPUTIME_ID): for what takes
/// longer than the scheduler leaves anybody alone.
pub fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes and outlives the call.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(rc, 0, "every thread has this clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What ticks are worth, and what looking costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibration {
    /// Nanoseconds of a tick.
    pub ns_per_tick: f64,
    /// Ticks that an empty step shows.
    pub empty: f64,
    /// Ticks that a step costs whatever it lies in, besides what it shows.
    pub around: f64,
}

/// Steps of one run of the calibration, and runs of which the median counts.
const CALIBRATION: (u32, usize) = (1_000, 101);

impl Calibration {
    /// Compares the counter with the clock for 30 ms, and measures empty steps.
    pub fn measure() -> Calibration {
        let mut calibration = Calibration { ns_per_tick: tick_length(), empty: 0.0, around: 0.0 };
        let mut watch = Stopwatch::new(calibration);
        let (steps, runs) = CALIBRATION;
        let (mut empty, mut around) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            watch.clear();
            let start = ticks();
            for _ in 0..steps {
                watch.enter(ProbePoint::Route);
                watch.leave(ProbePoint::Route);
            }
            let whole = ticks() - start;
            let shown = watch.sum(ProbePoint::Route).ticks;
            empty.push(shown / f64::from(steps));
            around.push((whole as f64 - shown) / f64::from(steps));
        }
        calibration.empty = middle(&mut empty);
        calibration.around = middle(&mut around);
        calibration
    }
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn tick_length() -> f64 {
    let (wall, start) = (Instant::now(), ticks());
    while wall.elapsed() < Duration::from_millis(30) {
        std::hint::spin_loop();
    }
    let spent = ticks() - start;
    wall.elapsed().as_nanos() as f64 / spent.max(1) as f64
}

/// What a step has taken since the last [`Stopwatch::clear`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sum {
    /// How often it was done.
    pub count: u32,
    /// Ticks, without those of the steps within it and without what looking cost.
    pub ticks: f64,
}

/// A probe that sums up how long each step takes.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    calibration: Calibration,
    open: Vec<Open>,
    sums: [Sum; ProbePoint::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
struct Open {
    start: u64,
    /// Ticks of steps within it, with what looking at them cost.
    within: f64,
}

/// Steps do not nest deeper: a Path that is heard refreshes reservations, whose tear tears.
const DEPTH: usize = 16;

impl Stopwatch {
    /// At zero.
    pub fn new(calibration: Calibration) -> Stopwatch {
        Stopwatch { calibration, open: Vec::with_capacity(DEPTH), sums: [Sum::default(); ProbePoint::ALL.len()] }
    }

    /// Back to zero.
    pub fn clear(&mut self) {
        self.sums = [Sum::default(); ProbePoint::ALL.len()];
    }

    /// What a step has taken.
    pub fn sum(&self, step: ProbePoint) -> Sum {
        self.sums[step.index()]
    }

    /// Nanoseconds of a step on average; `None` if it was not done.
    pub fn mean_ns(&self, step: ProbePoint) -> Option<f64> {
        let Sum { count, ticks } = self.sum(step);
        (count > 0).then(|| ticks / f64::from(count) * self.calibration.ns_per_tick)
    }
}

impl ProbeObserver for Stopwatch {
    #[inline]
    fn enter(&mut self, _: ProbePoint) {
        self.open.push(Open { start: 0, within: 0.0 });
        if let Some(open) = self.open.last_mut() {
            open.start = ticks();
        }
    }

    #[inline]
    fn leave(&mut self, step: ProbePoint) {
        let end = ticks();
        let Some(Open { start, within }) = self.open.pop() else { return };
        let whole = end.wrapping_sub(start) as f64;
        let sum = &mut self.sums[step.index()];
        sum.count += 1;
        sum.ticks += whole - within - self.calibration.empty;
        if let Some(outer) = self.open.last_mut() {
            outer.within += whole + self.calibration.around;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Busy for so many ticks.
    fn busy(for_ticks: u64) {
        let start = ticks();
        while ticks() - start < for_ticks {}
    }

    #[test]
    fn an_empty_step_shows_nothing_and_a_long_one_its_length() {
        let calibration = Calibration::measure();
        assert!(calibration.empty > 0.0 && calibration.around > 0.0, "{calibration:?}");
        let mut watch = Stopwatch::new(calibration);
        let mut shown = |work: fn()| {
            let mut all: Vec<f64> = (0..501)
                .map(|_| {
                    watch.clear();
                    watch.enter(ProbePoint::FindPsb);
                    work();
                    watch.leave(ProbePoint::FindPsb);
                    watch.sum(ProbePoint::FindPsb).ticks
                })
                .collect();
            middle(&mut all)
        };
        let (empty, long) = (shown(|| {}), shown(|| busy(20_000)));
        assert!(empty.abs() < 100.0, "{empty} ticks of nothing");
        assert!((19_000.0..24_000.0).contains(&long), "{long} ticks of 20,000");
    }

    #[test]
    fn what_lies_within_is_taken_off_the_outer_step() {
        let mut watch = Stopwatch::new(Calibration::measure());
        let mut outer: Vec<f64> = (0..501)
            .map(|_| {
                watch.clear();
                watch.enter(ProbePoint::TearReservation);
                for _ in 0..4 {
                    watch.enter(ProbePoint::ResvRefresh);
                    busy(20_000);
                    watch.leave(ProbePoint::ResvRefresh);
                }
                watch.leave(ProbePoint::TearReservation);
                assert_eq!(watch.sum(ProbePoint::ResvRefresh).count, 4);
                watch.sum(ProbePoint::TearReservation).ticks
            })
            .collect();
        assert!(middle(&mut outer).abs() < 500.0, "{} ticks of its own", middle(&mut outer));
        watch.leave(ProbePoint::Route); // never entered: nothing happens
        assert_eq!(watch.mean_ns(ProbePoint::Route), None);
    }

    #[test]
    fn sleep_is_no_processor_time() {
        let (wall, before) = (Instant::now(), processor_time());
        std::thread::sleep(Duration::from_millis(30));
        busy(1_000_000);
        let spent = processor_time() - before;
        assert!(spent > 10_000 && u128::from(spent) < wall.elapsed().as_nanos() - 20_000_000, "{spent} ns");
    }

    #[test]
    fn a_thread_that_sleeps_is_switched_away() {
        let before = switches();
        std::thread::sleep(Duration::from_millis(5));
        assert!(switches() > before);
    }
}
