//! The counters of a recognising direction within the measured window.

use crate::scenario::{MaceReport, QueueCounts};
use mace::Mace;
use mace::engine::MaceCounts;
use terms::{Rate, Span, Time};
use traffic::queue::QueueLevel;

/// Counters since the window began; they stand still once it has ended.
#[derive(Debug)]
pub(super) struct MaceCounting {
    allocated: Rate,
    levels: [QueueCounts; 2],
    samples: (u32, u32),
    /// For each number of promoted flows, the time with that many, ns.
    held: Vec<u64>,
    flows: usize,
    most: usize,
    /// The beginning, and the time until which `held` counts.
    from: Time,
    until: Time,
    /// The engine's counters at the beginning.
    before: MaceCounts,
    ended: Option<Box<MaceReport>>,
}

impl MaceCounting {
    /// Nothing yet, from time zero on.
    pub(super) fn new(allocated: Rate) -> MaceCounting {
        MaceCounting {
            allocated,
            levels: [QueueCounts::default(); 2],
            samples: (0, 0),
            held: Vec::new(),
            flows: 0,
            most: 0,
            from: Time::ZERO,
            until: Time::ZERO,
            before: MaceCounts::default(),
            ended: None,
        }
    }

    /// Begins anew. Packets that wait count as offered.
    pub(super) fn begin(&mut self, now: Time, mace: &Mace, waiting: [u32; 2]) {
        let levels = waiting.map(|packets| QueueCounts { offered: packets.into(), ..QueueCounts::default() });
        let (from, until, before) = (now, now, mace.counts());
        let (flows, most) = (self.flows, self.flows);
        *self = MaceCounting { levels, flows, most, from, until, before, ..MaceCounting::new(self.allocated) };
    }

    /// Ends the window.
    pub(super) fn end(&mut self, now: Time, mace: &Mace) {
        self.ended = Some(Box::new(self.report(now, mace)));
    }

    #[inline]
    pub(super) fn offered(&mut self, level: QueueLevel) {
        self.levels[level as usize].offered += 1;
    }

    pub(super) fn dropped(&mut self, level: QueueLevel) {
        self.levels[level as usize].dropped += 1;
    }

    #[inline]
    pub(super) fn sent(&mut self, level: QueueLevel, wire: u32, waited: Span) {
        let (counts, waited) = (&mut self.levels[level as usize], waited.as_nanos());
        counts.sent += 1;
        counts.sent_bytes += u64::from(wire);
        counts.waited += waited;
        counts.longest_wait = counts.longest_wait.max(waited);
    }

    /// Counts a sample; `above`: it was above the allocation.
    pub(super) fn sample(&mut self, above: bool) {
        self.samples.0 += 1;
        self.samples.1 += u32::from(above);
    }

    /// Notes the number of promoted flows from now on.
    pub(super) fn flows(&mut self, now: Time, flows: usize) {
        hold(&mut self.held, self.flows, now.since(self.until));
        self.until = self.until.max(now);
        self.flows = flows;
        self.most = self.most.max(flows);
    }

    /// The report of the window; while it lasts, of what has passed of it.
    pub(super) fn report(&self, now: Time, mace: &Mace) -> MaceReport {
        if let Some(ended) = &self.ended {
            return (**ended).clone();
        }
        let mut held = self.held.clone();
        hold(&mut held, self.flows, now.since(self.until));
        let counted = now.since(self.from).as_nanos();
        let flow_nanos: u128 = (0..).zip(&held).map(|(n, &held)| n * u128::from(held)).sum();
        let until = |n: usize| held[..=n].iter().sum::<u64>();
        let sent = self.levels[0].sent_bytes as f64 * 8.0 / (counted.max(1) as f64 / 1e9);
        let counts = mace.counts();
        MaceReport {
            asked: counts.asked - self.before.asked,
            admitted: counts.admitted - self.before.admitted,
            refused: counts.refused - self.before.refused,
            silent: counts.silent - self.before.silent,
            mean_flows: flow_nanos as f64 / counted.max(1) as f64,
            median_flows: (0..held.len()).find(|&n| until(n) * 2 >= counted).unwrap_or(0),
            most_flows: self.most,
            samples: self.samples,
            levels: self.levels,
            utilisation: 100.0 * sent / self.allocated.as_bps().max(1) as f64,
            estimate: mace.rule().1.usage(),
            shadows: mace.shadows().iter().map(|shadow| (shadow.terms(), shadow.answers())).collect(),
        }
    }
}

/// Adds time with so many flows.
fn hold(held: &mut Vec<u64>, flows: usize, span: Span) {
    if held.len() <= flows {
        held.resize(flows + 1, 0);
    }
    held[flows] += span.as_nanos();
}
