//! A link behind a scheduler, for tests: packets come at given times, one at a time goes out at the link's rate.

use std::collections::VecDeque;
use terms::{Bytes, Rate, Span, Time};
use traffic::scheduler::{Scheduler, SchedulerClass};

/// A packet that comes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Time,
    pub node: SchedulerClass,
    pub len: u32,
}

/// A packet that went.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    pub node: SchedulerClass,
    pub len: u32,
    pub came: Time,
    pub start: Time,
    pub end: Time,
    /// Whether its queue was empty when it came.
    pub first: bool,
}

/// The link.
pub struct Link<S> {
    pub scheduler: S,
    pub rate: Rate,
    queues: Vec<VecDeque<(Arrival, bool)>>,
}

impl<S: Scheduler> Link<S> {
    pub fn new(scheduler: S, rate: Rate) -> Link<S> {
        Link { scheduler, rate, queues: Vec::new() }
    }

    fn arrive(&mut self, a: Arrival) {
        let n = a.node.0 as usize;
        if self.queues.len() <= n {
            self.queues.resize(n + 1, VecDeque::new());
        }
        let first = self.queues[n].is_empty();
        self.queues[n].push_back((a, first));
        if first {
            self.scheduler.backlogged(a.at, a.node, a.len);
        }
    }

    /// Sends what came until `until`; `seen` is told each departure as it is chosen, with the scheduler.
    /// A packet that comes at the very instant the link becomes free is there to be chosen.
    pub fn run(
        &mut self,
        arrivals: &[Arrival],
        until: Time,
        mut seen: impl FnMut(&mut S, &Departure),
    ) -> Vec<Departure> {
        let (mut out, mut next, mut now) = (Vec::new(), 0, Time::ZERO);
        while now < until {
            while next < arrivals.len() && arrivals[next].at <= now {
                self.arrive(arrivals[next]);
                next += 1;
            }
            if let Some(node) = self.scheduler.choose(now) {
                let queue = &mut self.queues[node.0 as usize];
                let (a, first) = queue.pop_front().expect("chosen without a packet");
                let end = now + self.rate.span_for(Bytes::new(u64::from(a.len)));
                let departure = Departure { node, len: a.len, came: a.at, start: now, end, first };
                let head = queue.front().map(|(a, _)| a.len);
                self.scheduler.served(now, node, a.len, head);
                seen(&mut self.scheduler, &departure);
                out.push(departure);
                now = end;
                continue;
            }
            let arrival = arrivals.get(next).map(|a| a.at);
            let wake = self.scheduler.wake_at();
            assert!(wake.is_none_or(|w| w > now), "nothing chosen at {now:?}, but wake at {wake:?}");
            match arrival.into_iter().chain(wake).min() {
                Some(t) => now = t,
                None => break,
            }
        }
        out
    }
}

/// Packets of `len` bytes each `gap`, from `from` until `until`.
pub fn cbr(node: SchedulerClass, len: u32, gap: Span, from: Time, until: Time) -> Vec<Arrival> {
    let mut at = from;
    let mut all = Vec::new();
    while at < until {
        all.push(Arrival { at, node, len });
        at = at + gap;
    }
    all
}

/// `n` packets of `len` bytes at once.
pub fn burst(node: SchedulerClass, len: u32, n: usize, at: Time) -> Vec<Arrival> {
    vec![Arrival { at, node, len }; n]
}

/// All of them in order of time (those of the same time in the order given).
pub fn merge(sources: &[Vec<Arrival>]) -> Vec<Arrival> {
    let mut all = sources.concat();
    all.sort_by_key(|a| a.at);
    all
}

pub const fn ms(n: u64) -> Time {
    Time::from_nanos(n * 1_000_000)
}

/// Compares `text` with the table of that name; `UPDATE_GOLDEN=1` writes it.
pub fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{path} differs; check it by hand, then run again with UPDATE_GOLDEN=1");
}
