//! The book in memory: decisions per second with 10^6 booked reservations on one link, and enquiries with 10^5.
//!
//! Workload: starts uniform over a year, lengths log-uniform from 1 minute to 7 days, rates 1 to 100 Mb/s, of 1,000 owners,
//! under a policy of ten rules of which the last is about the caller. A decision is a whole `create` or `cancel`: checked,
//! asked of policy, counted in the ledger, encoded for the journal, and answered once the batch is written, which here
//! takes no time; in the summed form also put into its owner's sums. An enquiry is about an hour; half of them are about more than is free
//! and get alternatives. Every operation is timed by itself, the reading of the clock included.

use admit::{Denied, Limits, SlotId, SlotOffer as Capacity, SlotTable};
use bench::{Bench, Draw, percentile};
use booking::io::{CalendarOffset, CallId};
use booking::policy::{Effect, NamePattern, Policy, Rule, Who};
use booking::{BookingRequest, Bookings, Call, Config, Input, Output, PartAsk, Reply, When};
use std::hint::black_box;
use std::time::Instant;
use terms::book::{Caller, CallerRole, Guarantee, Handle, PacketShape, ResourceId, ResourceKind};
use terms::ports::Ledger;
use terms::ports::book::{BindQuestion, Demand, Missing, NoRoom, Offer, PolicyDecision, Question, SlotKey};
use terms::{Rate, Span, Time, Window};

const YEAR: u64 = 365 * 86_400;
const NOW: Time = Time::from_nanos(1_795_269_600_000_000_000);
/// How many operations of a kind are timed.
const SAMPLES: usize = 100_000;

/// One link, and a policy.
struct World {
    table: SlotTable,
    policy: Policy,
}

impl World {
    fn new(capacity: Rate, summed: bool) -> World {
        let rule = |n: usize, who: &str| Rule {
            name: format!("rule {n}"),
            who: vec![Who::Name(NamePattern::new(who).expect("a pattern"))],
            resources: vec![NamePattern::new("net/*").expect("a pattern")],
            effect: Effect::Allow(booking::policy::Limits {
                together: summed.then_some(u64::MAX),
                ..booking::policy::Limits::default()
            }),
            ..Rule::default()
        };
        let rules = (0..9).map(|n| rule(n, &format!("*@domain-{n}"))).chain([rule(9, "owner-*")]);
        let limits = Limits { slots: 4 << 20, ..Limits::default() };
        World {
            table: SlotTable::new(Capacity::of(capacity), limits),
            policy: Policy::new(rules.collect()).expect("ten"),
        }
    }

    fn told(&mut self, now: Time) -> &mut SlotTable {
        self.table.expire(now);
        while self.table.poll().is_some() {}
        &mut self.table
    }
}

fn no(denied: Denied) -> NoRoom {
    match denied {
        Denied::Capacity { free, .. } | Denied::Pool { free, .. } => NoRoom::Full { free: free.as_bps() },
        Denied::Limit { limit, .. } => NoRoom::Limit { limit },
        Denied::Misuse(misuse) => NoRoom::Meaningless(misuse),
    }
}

impl Ledger for World {
    fn resource(&self, name: &str) -> Option<ResourceId> {
        (name == "net/eth1").then_some(ResourceId(1))
    }

    fn resources(&self) -> Vec<ResourceId> {
        vec![ResourceId(1)]
    }

    fn offer(&self, _: ResourceId) -> Option<Offer> {
        let capacity = self.table.capacity().as_bps();
        let name = "net/eth1".to_owned();
        Some(Offer { name, kind: ResourceKind::Network, guarantee: Guarantee::Reserved, capacity, shared: 0 })
    }

    fn book(&mut self, now: Time, _: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        let rate = Rate::from_bps(want.amount).with_overhead(14, want.packet);
        self.told(now).grant(window, rate).map(|slot| SlotKey(slot.as_u64())).map_err(no)
    }

    fn hold(&mut self, now: Time, _: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        let rate = Rate::from_bps(want.amount).with_overhead(14, want.packet);
        self.told(now).hold(window, rate, Time::FOREVER).map(|slot| SlotKey(slot.as_u64())).map_err(no)
    }

    fn promise(&mut self, now: Time, _: ResourceId, slot: SlotKey) {
        let _ = self.told(now).promise(SlotId::from_u64(slot.0));
    }

    fn commit(&mut self, now: Time, _: ResourceId, slot: SlotKey) {
        let _ = self.told(now).commit(SlotId::from_u64(slot.0));
    }

    fn adopt(&mut self, now: Time, _: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        let rate = Rate::from_bps(want.amount).with_overhead(14, want.packet);
        self.told(now).adopt_booked(window, rate).map(|slot| SlotKey(slot.as_u64())).map_err(no)
    }

    fn release(&mut self, now: Time, _: ResourceId, slot: SlotKey) {
        let _ = self.told(now).release(SlotId::from_u64(slot.0));
    }

    fn free(&self, _: ResourceId, window: Window, packet: u32) -> u64 {
        let free = self.table.available(window.start(), window.end());
        free.share(packet.into(), u64::from(packet) + 14).as_bps()
    }

    fn find(&self, _: ResourceId, want: Demand, span: Span, earliest: Time, latest: Time) -> Option<Time> {
        let rate = Rate::from_bps(want.amount).with_overhead(14, want.packet);
        self.table.find(rate, span, earliest, latest).ok()?
    }

    fn stretches(&self, _: ResourceId, window: Window, packet: u32, most: usize) -> Vec<(Window, u64)> {
        let found = self.table.stretches(window.start(), window.end(), most);
        found.into_iter().map(|(w, r)| (w, r.share(packet.into(), u64::from(packet) + 14).as_bps())).collect()
    }

    fn missing(&self, _: ResourceId) -> Option<Missing> {
        None
    }
}

impl terms::ports::PolicyPort for World {
    fn sums(&self) -> bool {
        self.policy.sums()
    }

    fn decide(&self, question: &Question<'_>) -> PolicyDecision {
        self.policy.decide(question)
    }

    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision {
        self.policy.may_bind(question)
    }
}

/// A book and what drives it: a disk that takes no time.
struct Run {
    broker: Bookings,
    world: World,
    draw: Draw,
    calls: u64,
}

impl Run {
    fn new(capacity: Rate, seed: u64, summed: bool) -> Run {
        let mut run = Run {
            broker: Bookings::new(Config::default(), [seed as u8; 32]),
            world: World::new(capacity, summed),
            draw: Draw::new(seed),
            calls: 0,
        };
        run.tell(Input::Clock(CalendarOffset::default()));
        run.tell(Input::Recovered);
        run
    }

    fn tell(&mut self, input: Input) -> Option<Reply> {
        let mut said = None;
        let mut next = Some(input);
        while let Some(input) = next.take() {
            self.broker.handle(NOW, &mut self.world, input);
            while let Some(output) = self.broker.poll() {
                match output {
                    Output::Append(batch) => next = Some(Input::Appended(black_box(batch).id)),
                    Output::Reply { reply, .. } => said = Some(reply),
                    _ => {}
                }
            }
        }
        said
    }

    fn call(&mut self, owner: usize, call: Call) -> Reply {
        self.calls += 1;
        let caller =
            Caller { name: format!("owner-{owner}"), groups: Vec::new(), role: CallerRole::Owner, token: None };
        self.tell(Input::Call { id: CallId(self.calls), caller: Box::new(caller), call }).expect("an answer")
    }

    /// A request as the workload draws it.
    fn request(&mut self) -> BookingRequest {
        let start = NOW + Span::from_secs(1 + (self.draw.unit() * YEAR as f64) as u64);
        let (shortest, longest) = (60.0_f64.ln(), (7.0 * 86_400.0_f64).ln());
        let seconds = (shortest + self.draw.unit() * (longest - shortest)).exp();
        let rate = 1_000_000 + (self.draw.unit() * 99_000_001.0) as u64;
        ask(rate, start, start + Span::from_nanos((seconds * 1e9) as u64))
    }

    fn fill(&mut self, reservations: usize) -> Vec<Handle> {
        (0..reservations)
            .map(|n| {
                let ask = self.request();
                granted(self.call(n % 1_000, Call::Create { ask, hold: None, key: String::new() }))
            })
            .collect()
    }
}

fn ask(rate: u64, start: Time, end: Time) -> BookingRequest {
    let part = PartAsk {
        resource: "net/eth1".to_owned(),
        amount: rate,
        least: rate,
        background: None,
        shape: PacketShape::default(),
        binding: None,
    };
    BookingRequest {
        parts: vec![part],
        when: When::Window { start: Some(start), end: Some(end) },
        ..BookingRequest::default()
    }
}

fn granted(reply: Reply) -> Handle {
    match reply {
        Ok(booking::io::CallResult::Reservation(view)) => view.handle,
        other => panic!("everything fits: {other:?}"),
    }
}

fn main() {
    let bench = Bench::from_args();
    decisions(&bench, false, "ledger_decisions_per_s_1e6");
    decisions(&bench, true, "broker_summed_decisions_per_s_1e6");
    enquiries(&bench);
}

/// `summed`: a rule limits what an owner has together, so that every owner's sum over time is kept.
fn decisions(bench: &Bench, summed: bool, name: &str) {
    let details = ["broker_create_p99_ns_1e6", "broker_resident_bytes_per_reservation"];
    if !bench.wants(name) && (summed || !details.iter().any(|name| bench.wants(name))) {
        return;
    }
    let before = resident_bytes();
    let mut run = Run::new(Rate::from_bps(1 << 50), 1, summed);
    run.fill(1_000_000);
    let grown = resident_bytes().saturating_sub(before);
    if !summed {
        bench.report("broker_resident_bytes_per_reservation", grown as f64 / 1e6, "B", 1);
    }
    let (mut creates, mut rates) = (Vec::with_capacity(SAMPLES), Vec::new());
    for _ in 0..SAMPLES / 5_000 {
        let asks: Vec<BookingRequest> = (0..5_000).map(|_| run.request()).collect();
        let start = Instant::now();
        let made: Vec<(usize, Handle)> = asks
            .into_iter()
            .enumerate()
            .map(|(n, ask)| {
                let began = Instant::now();
                let handle = granted(run.call(n % 1_000, Call::Create { ask, hold: None, key: String::new() }));
                creates.push(began.elapsed().as_nanos() as f64);
                (n % 1_000, handle)
            })
            .collect();
        let all = 2 * made.len();
        for (owner, handle) in made {
            assert!(run.call(owner, Call::Cancel(handle)).is_ok());
        }
        rates.push(all as f64 / start.elapsed().as_secs_f64());
    }
    bench.report(name, percentile(&mut rates, 0.5), "1/s", rates.len());
    if !summed {
        bench.report("broker_create_p99_ns_1e6", percentile(&mut creates, 0.99), "ns", creates.len());
    }
}

fn enquiries(bench: &Bench) {
    let names = ["broker_enquire_ns_1e5", "broker_enquire_p99_ns_1e5", "broker_enquire_refused_of_1_1e5"];
    if !names.iter().any(|name| bench.wants(name)) {
        return;
    }
    // A mean of about 1,100 at once, with 50 Mb/s each.
    let mut run = Run::new(Rate::from_bps(1 << 50), 2, true);
    run.fill(100_000);
    let hour = |draw: &mut Draw| NOW + Span::from_secs(1 + (draw.unit() * YEAR as f64) as u64);
    let mut peaks: Vec<f64> = (0..10_000)
        .map(|_| {
            let start = hour(&mut run.draw);
            run.world.table.peak(start, start + Span::from_secs(3_600)).as_bps() as f64
        })
        .collect();
    let capacity = Rate::from_bps(percentile(&mut peaks, 0.5) as u64 + 50_000_000);
    let ever = Window::open(NOW).expect("a window");
    assert!(run.world.table.set_capacity(ever, capacity).is_ok());
    let mut refused = 0;
    let mut times: Vec<f64> = (0..SAMPLES)
        .map(|n| {
            let start = hour(&mut run.draw);
            let ask = ask(50_000_000, start, start + Span::from_secs(3_600));
            let began = Instant::now();
            let reply = run.call(n % 1_000, Call::Enquire(ask));
            let took = began.elapsed().as_nanos() as f64;
            match reply {
                Ok(booking::io::CallResult::Enquired(said)) => refused += usize::from(said.granted.is_none()),
                other => panic!("{other:?}"),
            }
            took
        })
        .collect();
    bench.report("broker_enquire_ns_1e5", percentile(&mut times, 0.5), "ns", SAMPLES);
    bench.report("broker_enquire_p99_ns_1e5", percentile(&mut times, 0.99), "ns", SAMPLES);
    bench.report("broker_enquire_refused_of_1_1e5", refused as f64 / SAMPLES as f64, "of 1", SAMPLES);
}

/// What the process occupies; 0 where the kernel does not say.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
