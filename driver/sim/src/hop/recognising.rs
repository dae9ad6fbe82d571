//! A direction of a link that recognises flows which never signalled: the packet classifier, the measurement and the queue of
//! *Measurement-based Admission Control for Controlled-load Service* (Jamin, Jin 1998), section 3. What is recognised and who
//! is admitted decides the engine [`mace`].

use super::counting::MaceCounting;
use crate::scenario::{MaceReport, MaceSample, MaceSpec, SimLinkSpec};
use mace::{Input, Mace, Output};
use terms::{Bytes, Fault, FlowKey, Rate, Span, Time};
use traffic::bucket::TokenBucket;
use traffic::classifier::Classifier;
use traffic::plan::BucketSpec;
use traffic::queue::{Pool, QueueLevel, TwoLevels};

/// The most samples that are kept.
pub const MOST_SAMPLES: usize = 100_000;

/// The engine, the flows that it has promoted, and the queue.
#[derive(Debug)]
pub struct MaceQueue {
    mace: Mace,
    members: Classifier<Member>,
    queue: TwoLevels,
    pool: Pool<Waiting>,
    overhead: u32,
    period: Span,
    /// The controlled load that the allocation stands for in a period, wire bytes.
    allowed: u64,
    /// Wire bytes of the controlled load that has come, and those until the last sample.
    came: u64,
    sampled: u64,
    sample_at: Time,
    /// Nothing is due at the engine before.
    due: Time,
    samples: Vec<MaceSample>,
    counting: MaceCounting,
}

/// A promoted flow.
#[derive(Debug)]
struct Member {
    bucket: TokenBucket,
    /// The time of its last packet.
    last: Time,
}

/// A queued packet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u32,
    came: Time,
}

/// The result for an offered packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueOffer {
    /// Its level.
    pub level: QueueLevel,
    /// The number and the level of the packet that was dropped for it: itself, or one that it pushed out.
    pub lost: Option<(u32, QueueLevel)>,
}

impl MaceQueue {
    /// A direction without flows and packets. `key` keys the tables of flows.
    ///
    /// # Errors
    /// A text that names the parameter that means nothing.
    pub fn new(spec: &MaceSpec, link: &SimLinkSpec, key: [u64; 2]) -> Result<MaceQueue, String> {
        if !(1..=MaceSpec::MOST_PACKETS).contains(&spec.packets) {
            let most = MaceSpec::MOST_PACKETS;
            return Err(format!("a queue of {} packets: allowed are 1 to {most}", spec.packets));
        }
        if spec.period == Span::ZERO || spec.max_flows == 0 {
            return Err("a sampling period or a number of flows of zero".into());
        }
        let config = spec.config(link, key);
        let mace = Mace::new(config, spec.applications.clone())
            .map_err(|_| "a rule has a parameter of zero, or there are too many in shadow".to_owned())?;
        let mut pool = Pool::new(spec.packets);
        pool.reserve(spec.packets.into());
        Ok(MaceQueue {
            mace,
            members: Classifier::new(key, spec.max_flows),
            queue: TwoLevels::new(spec.packets),
            pool,
            overhead: link.overhead,
            period: spec.period,
            allowed: spec.allocated.demands(spec.period).get(),
            came: 0,
            sampled: 0,
            sample_at: Time::ZERO,
            due: Time::ZERO,
            samples: Vec::new(),
            counting: MaceCounting::new(spec.allocated),
        })
    }

    /// Offers a packet of `len` IP bytes.
    pub fn offer(&mut self, now: Time, flow: &FlowKey, number: u32, len: u32) -> QueueOffer {
        self.settle(now);
        let level = self.level_of(now, flow, len);
        let wire = len + self.overhead;
        if level == QueueLevel::First {
            self.came += u64::from(wire);
        }
        self.counting.offered(level);
        let lost = match self.queue.push(&mut self.pool, level, wire, Waiting { number, came: now }) {
            Ok(pushed_out) => pushed_out.map(|(_, waiting)| (waiting.number, QueueLevel::Second)),
            Err(_) => Some((number, level)),
        };
        if let Some((_, level)) = lost {
            self.counting.dropped(level);
        }
        QueueOffer { level, lost }
    }

    /// Takes the next packet for the link.
    pub fn next_packet(&mut self, now: Time) -> Option<u32> {
        let (level, wire, Waiting { number, came }) = self.queue.pop(&mut self.pool)?;
        self.counting.sent(level, wire, now.since(came));
        Some(number)
    }

    /// The number of waiting packets.
    pub fn packets(&self) -> u32 {
        self.queue.packets()
    }

    /// Notes that a flow has ended: its sender says so, and no timeout passes.
    pub fn flow_ended(&mut self, now: Time, flow: &FlowKey) {
        self.settle(now);
        self.tell(now, Input::Ended(*flow));
    }

    /// Begins to count anew, or ends counting: the edges of the measured window.
    pub fn edge(&mut self, now: Time, edge: usize) {
        self.settle(now);
        let held = [QueueLevel::First, QueueLevel::Second].map(|level| self.queue.packets_of(level));
        if edge == 0 {
            self.counting.begin(now, &self.mace, held);
        } else {
            self.counting.end(now, &self.mace);
        }
    }

    /// The counters of the measured window until now, or until its end.
    pub fn report(&self, now: Time) -> MaceReport {
        self.counting.report(now, &self.mace)
    }

    /// The samples from the beginning, at most [`MOST_SAMPLES`].
    pub fn samples(&self) -> &[MaceSample] {
        &self.samples
    }

    /// The engine.
    pub fn engine(&self) -> &Mace {
        &self.mace
    }

    /// The level of a packet: the first, if its flow is promoted and keeps to its bucket.
    fn level_of(&mut self, now: Time, flow: &FlowKey, len: u32) -> QueueLevel {
        if let Some(member) = self.members.get_mut(flow) {
            member.last = now;
            return if member.bucket.take(now, len) { QueueLevel::First } else { QueueLevel::Second };
        }
        self.tell(now, Input::Packet(*flow));
        QueueLevel::Second
    }

    /// Takes the samples and looks that were due until now. Nothing comes between two packets, so they find what they would
    /// have found at their times.
    fn settle(&mut self, now: Time) {
        while self.due <= now {
            let wake = self.mace.wake_at().unwrap_or(Time::FOREVER);
            if self.sample_at.min(wake) <= now {
                if self.sample_at <= wake { self.sample() } else { self.tell(wake, Input::Wake) }
            }
            self.due = self.sample_at.min(self.mace.wake_at().unwrap_or(Time::FOREVER));
        }
    }

    fn sample(&mut self) {
        let at = self.sample_at;
        self.sample_at = at.saturating_add(self.period);
        self.tell(at, Input::Counter { at, bytes: Bytes::new(self.came) });
        let bytes = self.came - self.sampled;
        self.sampled = self.came;
        self.counting.sample(bytes > self.allowed);
        if self.samples.len() < MOST_SAMPLES {
            let bits = u128::from(bytes) * 8 * u128::from(Span::NANOS_PER_SEC) / u128::from(self.period.as_nanos());
            let came = Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX));
            let rule = self.mace.rule().1;
            self.samples.push(MaceSample { at, came, estimate: rule.usage(), flows: rule.flows() });
        }
    }

    /// Tells the engine one thing and carries its outputs out.
    fn tell(&mut self, now: Time, input: Input<'_>) {
        self.mace.handle(now, input);
        while let Some(output) = self.mace.poll() {
            match output {
                Output::Promote(promotion) => {
                    let (rate, depth, min_unit) = (promotion.rate, promotion.depth, promotion.least_packet);
                    let bucket = TokenBucket::new(&BucketSpec { rate, depth, min_unit }, now);
                    let inserted = self.members.insert(promotion.flow, Member { bucket, last: now });
                    let result = inserted.map(|_| ()).map_err(|_| FULL);
                    self.mace.handle(now, Input::Installed { flow: promotion.flow, result });
                }
                Output::Demote(flow) => {
                    self.members.remove(&flow);
                }
                Output::Look => {
                    let seen: Vec<(FlowKey, Time)> =
                        self.members.iter().map(|(flow, member)| (*flow, member.last)).collect();
                    self.mace.handle(now, Input::Looked(&seen));
                }
                Output::Event(_) => continue,
            }
            self.counting.flows(now, self.members.len());
            self.due = self.due.min(self.mace.wake_at().unwrap_or(Time::FOREVER));
        }
    }
}

/// The engine admits no more flows than the table holds.
const FULL: Fault = Fault { what: "the table of promoted flows is full", code: 28 };
