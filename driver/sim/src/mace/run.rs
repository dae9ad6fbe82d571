//! A run: the pool of flows, the background traffic, the queue, and admission.

use super::model::Model;
use super::queue::{QueueCounts, TwoLevels};
use super::spacing::SourceTally;
use super::traffic::{PooledTraffic, TrafficEvent, TrafficPart};
use ::mace::list::{ApplicationList, ListMistake};
use ::mace::rules::SharedTerms;
use ::mace::{Config, Input, Mace, Output, RuleTerms};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, FlowKey, Rate, Span, Time, Wild};

/// The parameters of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Models of the flows, and the rate that each declares. The pool is divided evenly among them.
    pub models: Vec<(Model, Rate)>,
    /// How many of the models, the first ones, are in the application list. Flows of the others are best effort; zero: so
    /// are all, as in a router without recognition.
    pub listed: usize,
    /// The number of flows at any time. A flow that ends is replaced at once.
    pub pool: usize,
    /// Mean lifetime of a flow.
    pub lifetime: Span,
    /// The rate of the bottleneck.
    pub link: Rate,
    /// The rate allocated to controlled load.
    pub allocated: Rate,
    /// The rule of admission.
    pub rule: RuleTerms,
    /// Time between readings of the counter.
    pub sampling: Span,
    /// The number of samples in a window of the estimator.
    pub window: u32,
    /// Background load in percent of the link; zero for none.
    pub background_percent: u32,
    /// Simulated time.
    pub duration: Span,
    /// The time at the start that is not counted.
    pub warm_up: Span,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The results of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MaceOutcome {
    /// Controlled-load bytes sent, in percent of the allocation.
    pub utilisation: f64,
    /// The mean number of admitted flows.
    pub flows: f64,
    /// The median number of admitted flows over the counted time.
    pub median_flows: usize,
    /// The largest number of admitted flows.
    pub most_flows: usize,
    /// The numbers of admissions and of refusals.
    pub answers: (u64, u64),
    /// The number of samples, and of those above the allocation.
    pub samples: (u32, u32),
    /// Counters of the two levels of the queue.
    pub levels: [QueueCounts; 2],
    /// The packets of the flows of each model, in the order of the parameters.
    pub models: Vec<SourceTally>,
    /// Packets of the background: sent and dropped.
    pub background: (u64, u64),
}

/// The engine under test, as a router's output interface has it. The rates are those of the wire, so the link adds
/// nothing; a flow that was refused asks again after as many packets as before.
fn engine(params: &Params) -> Mace {
    let shared = SharedTerms {
        allocated: params.allocated,
        period: params.sampling,
        window: params.window,
        most_flows: 1 << 20,
    };
    let config = Config {
        shared,
        rule: params.rule,
        shadow: Vec::new(),
        overhead: 0,
        refused_for: Span::ZERO,
        look: Span::from_secs(1),
        // So many that no candidate of the pool loses its place.
        candidates: 64 * params.pool,
        key: [params.seed, !params.seed],
    };
    let mut text = String::new();
    for (n, (model, declared)) in params.models.iter().enumerate().take(params.listed) {
        // Flows end by themselves here, so that no timeout matters.
        let (bps, packets) = (declared.as_bps(), model.recognised_after);
        let _ = writeln!(text, "{}-{n} udp {} {bps}bit 8kb {packets} 24h", model.name, n + 1);
    }
    let told = |mistakes: Vec<ListMistake>| -> String { mistakes.iter().map(|m| format!("{m}\n")).collect() };
    let list = ApplicationList::parse(&text).map_err(told).unwrap_or_else(|text| panic!("the models: {text}"));
    Mace::new(config, list).expect("a target and a sampling period above zero were asked for")
}

/// The key of a flow: its place in the pool, how many were there before it, its model.
fn key(place: usize, generation: u32, model: usize) -> FlowKey {
    FlowKey {
        src: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + place as u32)),
        dst: IpAddr::V4(Ipv4Addr::from(0xc000_0200 + (generation >> 15))),
        protocol: 17,
        src_port: 0x8000 | (generation & 0x7fff) as u16,
        dst_port: model as u16 + 1,
        wild: Wild::NONE,
    }
}

/// The flow at a place of the pool.
#[derive(Clone, Copy, Default)]
struct PoolPlace {
    /// The number of flows that were there before.
    generation: u32,
    admitted: bool,
    /// The times of its last packet where they are generated and where they arrive, ns.
    last: [Option<u64>; 2],
}

fn tallies(params: &Params) -> Vec<SourceTally> {
    params.models.iter().map(|(model, _)| SourceTally::of(model.interval)).collect()
}

/// The state of one run.
struct Bench<'a> {
    params: &'a Params,
    mace: Mace,
    queue: TwoLevels,
    places: Vec<PoolPlace>,
    /// Bytes of controlled load queued so far, and until the last sample.
    queued: (u64, u64),
    outcome: MaceOutcome,
    /// For each number of admitted flows, the time with that many, ns.
    held: Vec<u64>,
    changed: u64,
}

/// Plays a run. The same parameters give the same outcome.
///
/// # Panics
/// If there is no model, or a target or sampling period of zero.
pub fn run(params: &Params) -> MaceOutcome {
    assert!(!params.models.is_empty(), "a pool is made of at least one model");
    let mut bench = Bench::new(params);
    let mut traffic = PooledTraffic::new(params, TrafficPart::All);
    let (end, warm) = (params.duration.as_nanos(), params.warm_up.as_nanos());
    let mut sample_at = 0;
    let mut warmed = false;
    while let Some((at, event)) = traffic.next_event() {
        while sample_at <= at.min(end) {
            bench.sample(sample_at, sample_at > warm);
            sample_at += params.sampling.as_nanos();
        }
        if !warmed && at >= warm {
            warmed = true;
            bench.begin_counting(warm);
        }
        if at >= end {
            break;
        }
        bench.happens(at, event);
    }
    bench.finish(end, end.saturating_sub(warm))
}

impl Bench<'_> {
    fn new(params: &Params) -> Bench<'_> {
        Bench {
            params,
            mace: engine(params),
            queue: TwoLevels::new(params.link),
            places: vec![PoolPlace::default(); params.pool],
            queued: (0, 0),
            outcome: MaceOutcome { models: tallies(params), ..MaceOutcome::default() },
            held: vec![0; params.pool + 1],
            changed: 0,
        }
    }

    fn happens(&mut self, now: u64, event: TrafficEvent) {
        match event {
            TrafficEvent::Packet { place, bytes } => self.packet(now, place, bytes),
            TrafficEvent::Ended { place } => self.replace(now, place),
            TrafficEvent::Background { bytes, .. } => {
                let sent = self.queue.offer(now, false, bytes, None);
                self.outcome.background.0 += 1;
                self.outcome.background.1 += u64::from(!sent);
            }
        }
        self.arrivals();
    }

    fn packet(&mut self, now: u64, n: usize, bytes: u32) {
        let admitted = self.places[n].admitted;
        if admitted {
            self.queued.0 += u64::from(bytes);
        } else if self.params.model_of(n) < self.params.listed {
            let key = self.key(n);
            self.tell(now, Input::Packet(key));
        }
        let tally = &mut self.outcome.models[self.params.model_of(n)];
        tally.sent += 1;
        tally.sent_bytes += u64::from(bytes);
        if let Some(last) = self.places[n].last[0].replace(now) {
            tally.generated.add(now - last);
        }
        self.queue.offer(now, admitted, bytes, Some(n as u32));
    }

    /// Counts the packets that have left the link.
    fn arrivals(&mut self) {
        for (mark, at) in self.queue.departures() {
            let n = mark as usize;
            let tally = &mut self.outcome.models[self.params.model_of(n)];
            tally.came += 1;
            if let Some(last) = self.places[n].last[1].replace(at) {
                tally.arrived.add(at - last);
            }
        }
    }

    fn key(&self, n: usize) -> FlowKey {
        key(n, self.places[n].generation, self.params.model_of(n))
    }

    /// Tells the engine one thing and carries its outputs out: an admitted flow's later packets are controlled load.
    fn tell(&mut self, now: u64, input: Input<'_>) {
        self.mace.handle(Time::from_nanos(now), input);
        while let Some(output) = self.mace.poll() {
            match output {
                Output::Promote(promotion) => {
                    self.promote(now, &promotion.flow);
                    let installed = Input::Installed { flow: promotion.flow, result: Ok(()) };
                    self.mace.handle(Time::from_nanos(now), installed);
                }
                Output::Event(::mace::Event::Refused { .. }) => self.outcome.answers.1 += 1,
                Output::Demote(_) | Output::Look | Output::Event(_) => {}
            }
        }
    }

    fn promote(&mut self, now: u64, flow: &FlowKey) {
        let IpAddr::V4(src) = flow.src else { return };
        let place = (u32::from(src) - 0x0a00_0000) as usize;
        // The engine counts it already; until now it was one less.
        let before = self.in_force() - 1;
        self.held[before] += now - self.changed;
        self.changed = now;
        self.places[place].admitted = true;
        self.outcome.answers.0 += 1;
        self.outcome.most_flows = self.outcome.most_flows.max(self.in_force());
    }

    /// The number of admitted flows.
    fn in_force(&self) -> usize {
        self.mace.rule().1.flows()
    }

    fn replace(&mut self, now: u64, n: usize) {
        self.count_until(now);
        let ended = self.key(n);
        self.tell(now, Input::Ended(ended));
        self.places[n] = PoolPlace { generation: self.places[n].generation + 1, ..PoolPlace::default() };
    }

    fn sample(&mut self, at: u64, counts: bool) {
        let reading = Input::Counter { at: Time::from_nanos(at), bytes: Bytes::new(self.queued.0) };
        self.tell(at, reading);
        let allocated = self.params.allocated.demands(self.params.sampling).get();
        if counts {
            self.outcome.samples.0 += 1;
            self.outcome.samples.1 += u32::from(self.queued.0 - self.queued.1 > allocated);
        }
        self.queued.1 = self.queued.0;
    }

    fn count_until(&mut self, now: u64) {
        let flows = self.in_force();
        self.held[flows] += now - self.changed;
        self.changed = now;
    }

    fn begin_counting(&mut self, warm: u64) {
        self.queue.serve(warm);
        self.queue.departures();
        self.queue.restart_counts();
        self.held.fill(0);
        self.changed = warm;
        let models = tallies(self.params);
        self.outcome = MaceOutcome { most_flows: self.in_force(), models, ..MaceOutcome::default() };
    }

    fn finish(mut self, end: u64, counted: u64) -> MaceOutcome {
        self.count_until(end);
        self.queue.serve(end);
        self.arrivals();
        let nanos = counted.max(1) as f64;
        let sent = self.queue.counts[0].sent_bytes as f64 * 8.0 / (nanos / 1e9);
        self.outcome.utilisation = 100.0 * sent / self.params.allocated.as_bps().max(1) as f64;
        let flow_nanos: u128 = (0..).zip(&self.held).map(|(n, &held)| n * u128::from(held)).sum();
        self.outcome.flows = flow_nanos as f64 / nanos;
        let until = |n: usize| self.held[..=n].iter().sum::<u64>();
        self.outcome.median_flows = (0..self.held.len()).find(|&n| until(n) * 2 >= counted).unwrap_or(0);
        self.outcome.levels = self.queue.counts;
        self.outcome
    }
}

impl Params {
    /// The paper's third scenario: 10 Mbit/s, lifetimes of 1,000 s, 3,000 s of simulated time, a sample every
    /// 5 s, windows of 20.
    pub fn scenario_three(models: Vec<(Model, Rate)>, allocated: Rate, rule: RuleTerms, seed: u64) -> Params {
        Params {
            listed: models.len(),
            models,
            pool: 100,
            lifetime: Span::from_secs(1_000),
            link: Rate::from_mbps(10),
            allocated,
            rule,
            sampling: Span::from_secs(5),
            window: 20,
            background_percent: 130,
            duration: Span::from_secs(3_000),
            warm_up: Span::from_secs(100),
            seed,
        }
    }

    /// The model of the flows at a place of the pool.
    pub fn model_of(&self, place: usize) -> usize {
        place % self.models.len().max(1)
    }

    /// The mean load of the pool, about.
    pub fn pool_load(&self) -> Rate {
        let of = |n: usize| self.models[self.model_of(n)].0.mean();
        (0..self.pool).map(of).fold(Rate::ZERO, Rate::saturating_add)
    }
}
