//! The processor's time-stamp counter, and a probe that reads it at an engine's checkpoints (`terms::probe`).
//!
//! It is used in place of the clock because a step of an engine takes 10 to 2,000 ns, and reading the clock
//! takes 20 to 60. Reading the counter takes about 10, ordered against the code before and after (`lfence`).
//! The cost of reading is calibrated and subtracted, so that an empty step shows zero on average; the cost of
//! an inner step is subtracted from the outer one.
//!
//! **Limits.** Interrupts that do not switch the thread are part of a step, as in the measurements of
//! *Profiling resource reservation protocols* (section 6.1); medians ignore them. [`switches`] counts thread
//! switches; a sampler drops and counts samples with a switch.

use std::time::{Duration, Instant};
use terms::probe::{ProbeObserver, ProbePoint};

/// The counter, in ticks; no instruction is reordered across the reading.
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

/// The number of context switches of this thread so far, voluntary or not (getrusage(2)).
pub fn switches() -> u64 {
    // SAFETY: all-zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writes and outlives the call.
    let rc = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    assert_eq!(rc, 0, "the kernel knows its own threads");
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// Processor time of this thread so far, ns, without the time when it was switched out
/// (CLOCK_THREAD_CPUTIME_ID): for work that is longer than an undisturbed time slice.
pub fn processor_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The length of a tick, and the cost of measuring.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibration {
    /// Nanoseconds of a tick.
    pub ns_per_tick: f64,
    /// Ticks that an empty step shows.
    pub empty: f64,
    /// Ticks of overhead that a step adds to its outer step, besides those that it shows itself.
    pub around: f64,
}

/// Steps of one run of the calibration, and the number of runs whose median counts.
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
        // The number of runs is odd, so that the middle one is the median.
        calibration.empty = *empty.select_nth_unstable_by(runs / 2, f64::total_cmp).1;
        calibration.around = *around.select_nth_unstable_by(runs / 2, f64::total_cmp).1;
        calibration
    }
}

fn tick_length() -> f64 {
    let (wall, start) = (Instant::now(), ticks());
    while wall.elapsed() < Duration::from_millis(30) {
        std::hint::spin_loop();
    }
    let spent = ticks() - start;
    wall.elapsed().as_nanos() as f64 / spent.max(1) as f64
}

/// The sum of a step's times since the last [`Stopwatch::clear`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sum {
    /// The number of times that it ran.
    pub count: u32,
    /// Ticks, without those of inner steps and without the cost of measuring.
    pub ticks: f64,
}

/// A probe that sums up the times of each step.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    calibration: Calibration,
    open: Vec<Open>,
    sums: [Sum; ProbePoint::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
struct Open {
    start: u64,
    /// Ticks of inner steps, with the cost of measuring them.
    within: f64,
}

/// The most nested steps: a received Path refreshes reservations, whose tear tears others.
const DEPTH: usize = 16;

impl Stopwatch {
    /// A stopwatch at zero.
    pub fn new(calibration: Calibration) -> Stopwatch {
        Stopwatch { calibration, open: Vec::with_capacity(DEPTH), sums: [Sum::default(); ProbePoint::ALL.len()] }
    }

    /// Back to zero.
    pub fn clear(&mut self) {
        self.sums = [Sum::default(); ProbePoint::ALL.len()];
    }

    /// The sum of a step's times.
    pub fn sum(&self, step: ProbePoint) -> Sum {
        self.sums[step.index()]
    }

    /// The mean time of a step, ns; `None` if it never ran.
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

    /// Spins for this many ticks.
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
            bench::median(&mut all)
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
        assert!(bench::median(&mut outer).abs() < 500.0, "{} ticks of its own", bench::median(&mut outer));
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
