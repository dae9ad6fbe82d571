//! A run of the testbed: the paper's second router and its destination as a scenario, with the pool and the background.
//!
//! The first router never sees congestion (section 4), so the sources are at the second.

use super::params::Params;
use super::pool::port_of;
use super::spacing::{GapHistogram, SourceTally};
use crate::scenario::{
    EgressSpec, LinkId, MaceSample, MaceSpec, NodeId, PoolSpec, Queue, QueueCounts, Scenario, SimLinkSpec, SimNodeSpec,
};
use crate::world::World;
use ::mace::list::{ApplicationList, ListMistake};
use std::fmt::Write;
use terms::{Span, Time};
use traffic::port::SchedulerKind;

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
    /// The gaps between packets that arrived as controlled load, by model. Only the simulator knows them.
    pub controlled: Vec<GapHistogram>,
    /// Packets of the background: sent and dropped.
    pub background: (u64, u64),
    /// The samples after the warm-up. Only the simulator knows them.
    pub path: Vec<MaceSample>,
}

/// The time after the last packet was sent in which the queue empties.
const DRAIN: Span = Span::from_secs(1);
/// The bottleneck, from the router to the destination.
const BOTTLENECK: LinkId = LinkId(0);
const ROUTER: NodeId = NodeId(0);
const DESTINATION: NodeId = NodeId(1);

/// The application list of these parameters. The bucket holds any burst: the paper's flows were not policed.
fn applications(params: &Params) -> ApplicationList {
    let mut text = String::new();
    for (n, (model, declared)) in params.models.iter().enumerate().take(params.listed) {
        // A flow of the pool says when it ends, so that no timeout matters.
        let (bps, packets, port) = (declared.as_bps(), model.recognised_after, port_of(n as u32));
        let _ = writeln!(text, "{}-{n} udp {port} {bps}bit 16mb {packets} 24h", model.name);
    }
    let told = |mistakes: Vec<ListMistake>| -> String { mistakes.iter().map(|m| format!("{m}\n")).collect() };
    ApplicationList::parse(&text).map_err(told).unwrap_or_else(|text| panic!("the models: {text}"))
}

/// The testbed as a scenario. The lengths of packets are those on the wire, so the link adds nothing; a flow that was refused
/// asks again after as many packets as before.
pub fn scenario(params: &Params) -> Scenario {
    let node = |name: &str| SimNodeSpec { agent: false, ..SimNodeSpec::new(name, Span::from_secs(30)) };
    let link = SimLinkSpec::ethernet(ROUTER, DESTINATION, params.link, Span::ZERO, SchedulerKind::Priority);
    let mace = MaceSpec {
        period: params.sampling,
        window: params.window,
        refused_for: Span::ZERO,
        // So many that no candidate of the pool loses its place.
        candidates: 64 * params.pool,
        max_flows: params.pool.max(1),
        ..MaceSpec::new(applications(params), params.allocated, params.rule)
    };
    Scenario {
        seed: params.seed,
        nodes: vec![node("router"), node("destination")],
        links: vec![SimLinkSpec { overhead: 0, mtu: 1_600, ..link }],
        egress: vec![EgressSpec { link: BOTTLENECK, side: 0, conditioner: None, queue: Queue::Mace(Box::new(mace)) }],
        queue: Queue::UNLIMITED,
        pool: Some(Box::new(PoolSpec { traffic: params.clone(), from: ROUTER, to: DESTINATION })),
        measured: (Time::ZERO + params.warm_up, Time::ZERO + params.duration),
        ..Scenario::default()
    }
}

/// Plays a run. The same parameters give the same outcome.
///
/// # Panics
/// If there is no model, or a target or sampling period of zero; or if a law of the simulator did not hold.
pub fn run(params: &Params) -> MaceOutcome {
    let scenario = scenario(params);
    let mut world = World::new(&scenario).unwrap_or_else(|wrong| panic!("the testbed: {}", wrong.what));
    world.run_until(scenario.measured.1 + DRAIN);
    if let Err(broken) = world.check() {
        panic!("{broken}");
    }
    outcome(&world, scenario.measured)
}

fn outcome(world: &World, (from, until): (Time, Time)) -> MaceOutcome {
    let (Some(report), Some(pool), Some(queue)) =
        (world.mace(BOTTLENECK, 0), world.pool(), world.mace_queue(BOTTLENECK, 0))
    else {
        return MaceOutcome::default();
    };
    let (sent, came) = pool.background;
    MaceOutcome {
        utilisation: report.utilisation,
        flows: report.mean_flows,
        median_flows: report.median_flows,
        most_flows: report.most_flows,
        answers: (report.admitted, report.refused),
        samples: report.samples,
        levels: report.levels,
        models: pool.models.clone(),
        controlled: pool.controlled.clone(),
        background: (sent, sent - came),
        path: queue.samples().iter().filter(|sample| sample.at > from && sample.at <= until).copied().collect(),
    }
}
