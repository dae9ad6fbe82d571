//! Reservations for single threads by SCHED_DEADLINE (sched(7), sched_setattr(2)): a run time in every
//! period, ahead of all ordinary threads, admitted by the kernel.
//!
//! A reserved thread has `SCHED_FLAG_RESET_ON_FORK`, without which it could not fork; its children are
//! ordinary. Its previous scheduling is kept, to be restored.

use crate::error::SystemError;
use rustix::process::Pid;
use rustix::thread::{gettid, sched_getaffinity};
use std::io;

const SCHED_DEADLINE: u32 = 6;
const RESET_ON_FORK: u64 = 1;
/// The shortest run time that the kernel accepts (`DL_SCALE` of kernel/sched/deadline.c).
const LEAST_RUNTIME_NS: u64 = 1 << 10;
/// Short enough that the socket of a packet receiver does not overflow, long enough that switching costs
/// little.
const PERIOD_NS: u64 = 10_000_000;
/// For shares so small that [`PERIOD_NS`] leaves too little run time.
const LONG_PERIOD_NS: u64 = 1_000_000_000;
/// The longest period that the kernel accepts (2^22 microseconds): the least run time in it is below the
/// 2^-20 in which the kernel counts shares.
const NOTHING_PERIOD_NS: u64 = 4_194_304_000;

/// One core, in millionths.
pub const CORE: u64 = 1_000_000;

/// `struct sched_attr` of the first version.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;

/// The scheduling of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduling(SchedAttr);

impl Scheduling {
    /// The scheduling of thread `tid`; 0: the calling thread.
    ///
    /// # Errors
    /// There is no such thread.
    pub fn of(tid: u32) -> io::Result<Scheduling> {
        let mut attr = SchedAttr { size: SIZE, ..SchedAttr::default() };
        let place = std::ptr::from_mut(&mut attr);
        // SAFETY: `attr` is valid for writes of the size that is stated and outlives the call.
        let rc = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, place, SIZE, 0) };
        if rc < 0 {
            return Err(io::Error::last_os_error());
        }
        if attr.policy != SCHED_DEADLINE {
            // Newer kernels tell an ordinary thread's slice here; told back, it would stay when the default changes.
            (attr.runtime, attr.deadline, attr.period) = (0, 0, 0);
        }
        Ok(Scheduling(attr))
    }

    /// The share of a core that the thread has reserved, millionths; 0 for an ordinary thread.
    pub fn share(&self) -> u64 {
        match self.0 {
            SchedAttr { policy: SCHED_DEADLINE, runtime, period, .. } if period > 0 => {
                (u128::from(runtime) * u128::from(CORE) / u128::from(period)) as u64
            }
            _ => 0,
        }
    }

    /// Restores this scheduling for thread `tid`.
    ///
    /// If a deadline thread that has slept for a while is made ordinary, the kernel (seen with Linux 6.18)
    /// goes on counting its share, even after the thread's end, until its scheduling domains are built anew.
    /// So its share is first made so small that the kernel counts it as zero.
    ///
    /// # Errors
    /// There is no such thread, or the kernel refuses.
    pub fn restore(&self, tid: u32) -> io::Result<()> {
        if Scheduling::of(tid)?.0.policy == SCHED_DEADLINE {
            let (runtime, period) = (LEAST_RUNTIME_NS, NOTHING_PERIOD_NS);
            set(tid, &SchedAttr { runtime, deadline: period, period, ..deadline_attr() })?;
        }
        set(tid, &SchedAttr { size: SIZE, ..self.0 })
    }

    /// The form in which the record stores it.
    pub fn to_words(self) -> String {
        let SchedAttr { policy, flags, nice, priority, runtime, deadline, period, .. } = self.0;
        format!("{policy} {flags} {nice} {priority} {runtime} {deadline} {period}")
    }

    /// Reads that form.
    pub fn from_words<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Scheduling> {
        Some(Scheduling(SchedAttr {
            size: SIZE,
            policy: words.next()?.parse().ok()?,
            flags: words.next()?.parse().ok()?,
            nice: words.next()?.parse().ok()?,
            priority: words.next()?.parse().ok()?,
            runtime: words.next()?.parse().ok()?,
            deadline: words.next()?.parse().ok()?,
            period: words.next()?.parse().ok()?,
        }))
    }
}

/// The run time and the period for a share of a core in millionths; the run time is rounded up.
fn times(share: u64) -> (u64, u64) {
    let runtime = |period: u64| (share.min(CORE) * period).div_ceil(CORE);
    let period = if runtime(PERIOD_NS) < LEAST_RUNTIME_NS { LONG_PERIOD_NS } else { PERIOD_NS };
    (runtime(period).max(LEAST_RUNTIME_NS), period)
}

/// Reserves `share` millionths of a core for thread `tid` (0: the calling thread), or changes its share, and
/// reads it back.
///
/// # Errors
/// The kernel's reason, explained: no room (EBUSY), not allowed (EPERM), no such thread.
pub fn reserve(tid: u32, share: u64) -> Result<(), SystemError> {
    let what = || format!("reserve {} of a core for thread {tid}", percent(share));
    let (runtime, period) = times(share);
    let attr = SchedAttr { runtime, deadline: period, period, ..deadline_attr() };
    set(tid, &attr).map_err(|error| SystemError::because(what(), explained(tid, error)))?;
    let found = Scheduling::of(tid).map_err(SystemError::doing(what()))?;
    if (found.0.policy, found.0.runtime, found.0.period) == (SCHED_DEADLINE, runtime, period) {
        return Ok(());
    }
    let wrong = format!("the kernel holds policy {}, {} of {} ns", found.0.policy, found.0.runtime, found.0.period);
    Err(SystemError::because(what(), io::Error::other(wrong)))
}

/// A share in millionths as text, for example `12.5 %`.
pub fn percent(share: u64) -> String {
    let text = format!("{}.{:04}", share / 10_000, share % 10_000);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn deadline_attr() -> SchedAttr {
    SchedAttr { size: SIZE, policy: SCHED_DEADLINE, flags: RESET_ON_FORK, ..SchedAttr::default() }
}

/// Explains the kernel's error number.
fn explained(tid: u32, error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EBUSY) => "the kernel admits no more deadline threads: what others reserved and this one are more \
             than it keeps for them (about nine tenths of all cores)"
            .to_owned(),
        Some(libc::EPERM) if is_restricted(tid) => "the thread may not run on every core, and the kernel admits a \
             deadline thread only if it may: give it all cores (taskset -p) or bind its process by group"
            .to_owned(),
        Some(libc::EPERM) => "CAP_SYS_NICE is missing".to_owned(),
        Some(libc::ESRCH) => "there is no such thread".to_owned(),
        _ => return error,
    };
    io::Error::new(error.kind(), why)
}

/// True if a thread may not run on every core.
fn is_restricted(tid: u32) -> bool {
    let Ok(tid) = i32::try_from(tid) else { return false };
    sched_getaffinity(Pid::from_raw(tid)).is_ok_and(|allowed| u64::from(allowed.count()) < super::capacity::cores())
}

fn set(tid: u32, attr: &SchedAttr) -> io::Result<()> {
    // SAFETY: `attr` is valid for reads of the size that it states and outlives the call.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, std::ptr::from_ref(attr), 0) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The id of the calling thread.
pub fn this_thread() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_times_that_the_kernel_takes_rounded_up() {
        assert_eq!(times(300_000), (3_000_000, 10_000_000));
        assert_eq!(times(CORE), (10_000_000, 10_000_000));
        assert_eq!(times(2 * CORE), times(CORE));
        assert_eq!(times(50), (50_000, LONG_PERIOD_NS));
        assert_eq!(times(1), (LEAST_RUNTIME_NS, LONG_PERIOD_NS));
        assert_eq!((percent(125_000), percent(1), percent(CORE)), ("12.5 %".into(), "0.0001 %".into(), "100 %".into()));
    }

    #[test]
    fn what_a_thread_had_is_written_and_read() {
        let here = Scheduling::of(0).unwrap();
        assert_eq!(here.share(), 0);
        assert_eq!(Scheduling::from_words(here.to_words().split(' ')), Some(here));
        assert_eq!(Scheduling::from_words("1 2".split(' ')), None);
        assert!(Scheduling::of(u32::MAX / 2).is_err());
    }
}
