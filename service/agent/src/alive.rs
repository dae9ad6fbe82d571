//! Signs of life for the agent's supervisor (systemd's watchdog). The loop itself gives them, and only while
//! its worker threads make progress.
//!
//! A thread may wait for a slow disk for as long as the supervisor waits for a sign. After that it counts as
//! stuck, and no sign is given until it goes on. The log's thread is exempt: it waits for the reader of the
//! log, and nothing waits for it.

use linux::notify::Supervisor;
use std::time::Duration;
use terms::{Span, Time};

/// The supervisor, and the last known progress of each thread.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    supervisor: Supervisor,
    next: Time,
    journal: Work,
    sequences: Work,
    front: Work,
    /// The stuck part that was reported last.
    told: Option<&'static str>,
}

/// The progress of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    /// The amount of work so far; it never decreases.
    pub count: u64,
    /// True if no work is left.
    pub all: bool,
}

/// The progress of a thread at the last check.
#[derive(Debug, Default)]
struct Work {
    count: u64,
    since: Time,
}

impl Work {
    /// True if the thread has had work for longer than `most` and has completed none of it.
    fn is_stuck(&mut self, done: Done, now: Time, most: Span) -> bool {
        if done.all || done.count != self.count {
            (self.count, self.since) = (done.count, now);
        }
        now.since(self.since) > most
    }
}

impl Done {
    /// That of a thread that does not run.
    pub(crate) const NONE: Done = Done { count: 0, all: true };
}

impl Alive {
    /// Starts the signs of life for a supervisor.
    pub(crate) fn new(supervisor: Supervisor, now: Time) -> Alive {
        let work = || Work { count: 0, since: now };
        let (journal, sequences, front) = (work(), work(), work());
        Alive { supervisor, next: now, journal, sequences, front, told: None }
    }

    /// The time of the next sign; `None` without a watchdog.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.supervisor.watchdog().map(|_| self.next)
    }

    /// Tells the supervisor that the agent serves.
    pub(crate) fn ready(&self) {
        self.supervisor.ready();
    }

    /// Tells the supervisor that the agent ends in good order.
    pub(crate) fn stopping(&self) {
        self.supervisor.stopping();
    }

    /// Gives a sign if one is due and the threads do their work: that of the journal, that of the sequence numbers, that
    /// of the front. Returns a sentence about one that has newly been found stuck.
    pub(crate) fn sign(&mut self, now: Time, journal: Done, sequences: Done, front: Done) -> Option<String> {
        let (period, often) = self.supervisor.watchdog().filter(|_| now >= self.next)?;
        self.next = now + span(often);
        let most = span(period);
        // Each is looked at, whatever the others do.
        let threads = [
            (self.journal.is_stuck(journal, now, most), "the journal's thread"),
            (self.sequences.is_stuck(sequences, now, most), "the thread that writes sequence numbers"),
            (self.front.is_stuck(front, now, most), "the thread that looks after the door"),
        ];
        let stuck = threads.into_iter().find(|(stuck, _)| *stuck).map(|(_, name)| name);
        let before = std::mem::replace(&mut self.told, stuck);
        match stuck {
            None => {
                self.supervisor.alive();
                None
            }
            Some(name) if before != stuck => {
                Some(format!("{name} has done nothing for {} s: no sign of life is given", period.as_secs()))
            }
            Some(_) => None,
        }
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_stuck_that_has_work_and_does_none() {
        let (most, at) = (Span::from_secs(60), |s: u64| Time::from_nanos(s * 1_000_000_000));
        let (idle, busy) = (|count| Done { count, all: true }, |count| Done { count, all: false });
        let mut work = Work { count: 0, since: at(1_000) };
        for (s, done, stuck) in [
            (1_000, busy(0), false),
            (1_060, busy(0), false),
            (1_061, busy(0), true),
            (1_076, busy(0), true),
            (1_080, busy(1), false), // it goes on
            (1_140, busy(1), false),
            (1_141, busy(1), true),
            (1_150, idle(1), false),
            (9_000, idle(1), false), // nothing to do is no fault
            (9_015, busy(1), false),
            (9_100, busy(1), true),
        ] {
            assert_eq!(work.is_stuck(done, at(s), most), stuck, "at {s} s");
        }
    }
}
