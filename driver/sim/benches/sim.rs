//! The simulator's speed: RFC 2963's network with full TCP, and what an event costs with a hundred and with a hundred thousand
//! connections on one topology.
//!
//! Figures are per second of one core that the process really had (`/proc/self/schedstat`), so that a busy machine does not
//! make the simulator slow; on an idle one that is wall time. `make bench` gives the process large pages, which is what a hundred
//! thousand connections need.

use bench::{Bench, median, nanos};
use sim::World;
use sim::mace::RuleTerms;
use sim::scenario::{Scenario, TcpId};
use sim::scenarios::dumbbell::{Dumbbell, dumbbell};
use sim::scenarios::rfc2963::{Params, rfc2963};
use terms::{Rate, Span, Time};

fn main() {
    let bench = Bench::from_args();
    if ["sim_rfc2963_packets_per_s", "sim_rfc2963_hops_per_s", "sim_rfc2963_events_per_s"]
        .iter()
        .any(|n| bench.wants(n))
    {
        rfc2963_network(&bench);
    }
    if bench.wants("sim_mace_packets_per_s") {
        recognition(&bench);
    }
    if bench.wants("sim_100k_flows_event_ns") || bench.wants("sim_100_flows_event_ns") {
        many_flows(&bench);
    }
}

/// Nanoseconds that `work` had a core for.
fn core_nanos(work: impl FnOnce()) -> f64 {
    let had = || {
        let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let before = had();
    let mut work = Some(work);
    let wall = nanos(|| {
        if let Some(work) = work.take() {
            work();
        }
    });
    match (before, had()) {
        (Some(before), Some(after)) if after > before => after - before,
        _ => wall,
    }
}

/// The whole of table A.2: 102 s of 100 connections, trRAS, CBS of 3 KB.
fn rfc2963_network(bench: &Bench) {
    const RUNS: usize = 7;
    let built = rfc2963(&Params::default());
    let (mut packets, mut hops, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let mut world = World::new(&built.scenario).expect("it can be played");
        let seconds = core_nanos(|| world.run_until(built.scenario.measured.1)) / 1e9;
        world.check().expect("every law holds");
        let sent: u64 = (0..built.scenario.connections.len()).map(|n| world.tcp(TcpId(n)).sent).sum();
        packets.push(sent as f64 / seconds);
        hops.push(world.hops().iter().map(|hop| hop.delivered).sum::<u64>() as f64 / seconds);
        events.push(world.events() as f64 / seconds);
    }
    bench.report("sim_rfc2963_packets_per_s", median(&mut packets), "1/s", RUNS);
    bench.report("sim_rfc2963_hops_per_s", median(&mut hops), "1/s", RUNS);
    bench.report("sim_rfc2963_events_per_s", median(&mut events), "1/s", RUNS);
    bench.report("sim_rfc2963_peak_memory", peak_memory(), "KB", 1);
}

/// A row of MACE's Table 2 (POO1, measured sum), 300 s: a hundred flows and 130 % of background before a queue that recognises.
fn recognition(bench: &Bench) {
    const RUNS: usize = 5;
    let models = vec![(sim::mace::model::POO1, Rate::from_bps(77_200))];
    let rule = RuleTerms::MeasuredSum { target: (11, 10), departures: false };
    let params = sim::mace::Params::scenario_three(models, Rate::from_kbps(3_900), rule, 1);
    let scenario = sim::mace::testbed::scenario(&sim::mace::Params { duration: Span::from_secs(300), ..params });
    let mut packets = Vec::new();
    for _ in 0..RUNS {
        let mut world = World::new(&scenario).expect("it can be played");
        let seconds = core_nanos(|| world.run_until(scenario.measured.1)) / 1e9;
        world.check().expect("every law holds");
        packets.push(world.packets() as f64 / seconds);
    }
    bench.report("sim_mace_packets_per_s", median(&mut packets), "1/s", RUNS);
}

/// The same dumbbell with 100 and with 100,000 connections, alternately.
fn many_flows(bench: &Bench) {
    const RUNS: usize = 3;
    let [few, many] = [100, 100_000].map(|flows| dumbbell(&Dumbbell { flows, ..Dumbbell::default() }));
    let (mut a, mut b, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (few, many) = (event_nanos(&few), event_nanos(&many));
        a.push(few);
        b.push(many);
        ratio.push(many / few);
    }
    bench.report("sim_100_flows_event_ns", median(&mut a), "ns", RUNS);
    bench.report("sim_100k_flows_event_ns", median(&mut b), "ns", RUNS);
    bench.report("sim_100k_flows_event_ratio", median(&mut ratio), "", RUNS);
    bench.report("sim_100k_flows_peak_memory", peak_memory(), "KB", 1);
}

/// What an event costs once all connections are under way.
fn event_nanos(scenario: &Scenario) -> f64 {
    let mut world = World::new(scenario).expect("it can be played");
    world.run_until(scenario.measured.0);
    let before = world.events();
    let mut end = scenario.measured.0;
    let mut spent = 0.0;
    // A million events are enough.
    while world.events() - before < 1_000_000 && end < Time::ZERO + Span::from_secs(600) {
        end = end + Span::from_millis(5);
        spent += core_nanos(|| world.run_until(end));
    }
    let events = world.events() - before;
    world.check().expect("every law holds");
    spent / events as f64
}

/// The most memory that this process has had, KB.
fn peak_memory() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse().ok()).unwrap_or(0.0)
}
