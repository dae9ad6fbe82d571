//! Checks that a scenario is valid: everything that a world relies on. An error is a text.

use crate::mace::traffic::LONGEST;
use crate::map::{RouteMap, position};
use crate::scenario::{EgressSpec, LinkId, NodeId, Queue, Scenario, ScenarioAction, SendPattern, TcpSpec, TraceId};
use crate::tcp::HEADERS;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use terms::Rate;

/// Maximum number of links, by their addresses: 10.0.0.0/8 in nets of 256.
const MOST_LINKS: usize = 1 << 16;
/// Maximum number of nodes, so that the routes between all of them fit in memory.
const MOST_NODES: usize = 4_096;
/// Maximum number of different [`crate::scenario::Tcp`]s, so that finding one is quick.
const MOST_CONDUCTS: usize = 1_000;
/// Maximum number of connections, far below the range of their numbers.
const MOST_CONNECTIONS: usize = 1 << 24;
/// Maximum number of models of a pool, which have a port each, and of its flows, which have an address each.
const MOST_MODELS: usize = 1_000;
const MOST_POOLED: usize = 1 << 16;

/// The error of a scenario that cannot be played.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplayable {
    /// The invalid part and its fault, as a text.
    pub what: String,
}

/// Checks that a scenario can be played.
pub(crate) fn playable(scenario: &Scenario) -> Result<(), Unplayable> {
    links_mean_something(scenario)?;
    directions_mean_something(scenario)?;
    let map = RouteMap::new(scenario);
    if scenario.connections.len() > MOST_CONNECTIONS {
        let all = scenario.connections.len();
        return fail(format!("{all} TCP connections; at most {MOST_CONNECTIONS} can be played"));
    }
    let mut conducts = Vec::new();
    for (n, connection) in scenario.connections.iter().enumerate() {
        if !conducts.contains(&connection.tcp) {
            conducts.push(connection.tcp);
        }
        if conducts.len() > MOST_CONDUCTS {
            return fail(format!("TCP connections behave in more than {MOST_CONDUCTS} different ways"));
        }
        connection_means_something(scenario, &map, n, connection)?;
    }
    for n in 0..scenario.sources.len() {
        source_means_something(scenario, &map, n)?;
    }
    pool_means_something(scenario, &map)?;
    for (n, (_, action)) in scenario.script.iter().enumerate() {
        let (node, link) = named(action);
        if let Some(node) = node.filter(|node| node.0 >= scenario.nodes.len()) {
            let all = scenario.nodes.len();
            return fail(format!("line {n} of the script names node {}, but there are only {all}", node.0));
        }
        if let Some(link) = link.filter(|link| link.0 >= scenario.links.len()) {
            let all = scenario.links.len();
            return fail(format!("line {n} of the script names link {}, but there are only {all}", link.0));
        }
    }
    if scenario.measured.0 > scenario.measured.1 {
        return fail("the measured window ends before it begins".into());
    }
    Ok(())
}

fn fail(what: String) -> Result<(), Unplayable> {
    Err(Unplayable { what })
}

fn links_mean_something(scenario: &Scenario) -> Result<(), Unplayable> {
    if scenario.nodes.len() > MOST_NODES {
        return fail(format!("{} nodes; at most {MOST_NODES} can be played", scenario.nodes.len()));
    }
    if scenario.links.len() > MOST_LINKS {
        return fail(format!("{} links, but there are addresses for {MOST_LINKS} only", scenario.links.len()));
    }
    for (n, link) in scenario.links.iter().enumerate() {
        if let Some(end) = link.ends.iter().find(|end| end.0 >= scenario.nodes.len()) {
            return fail(format!("link {n} ends at node {}, but there are only {}", end.0, scenario.nodes.len()));
        }
        if link.ends[0] == link.ends[1] {
            return fail(format!("link {n} begins and ends at {}", scenario.nodes[link.ends[0].0].name));
        }
        if link.rate == Rate::ZERO {
            return fail(format!("link {n} has a rate of zero"));
        }
    }
    Ok(())
}

fn source_means_something(scenario: &Scenario, map: &RouteMap, n: usize) -> Result<(), Unplayable> {
    let source = &scenario.sources[n];
    if source.node.0 >= scenario.nodes.len() {
        return fail(format!("source {n} sits at node {}, which is not there", source.node.0));
    }
    if source.packet == 0 {
        return fail(format!("source {n} sends packets of no length"));
    }
    match source.pattern {
        SendPattern::Pareto { shape_milli, .. } if shape_milli <= 1_000 => {
            return fail(format!(
                "source {n}: a Pareto shape of {shape_milli}/1000 has no mean; it must be above 1000/1000"
            ));
        }
        SendPattern::Trace(trace) => return trace_means_something(scenario, map, n, trace),
        _ => {}
    }
    if let SendPattern::Video { packets: 0, .. } = source.pattern {
        return fail(format!("source {n} sends frames of no packets"));
    }
    if source.packet > crate::packet::LONGEST {
        return fail(format!("source {n} sends packets of {} bytes; IP has at most 65535", source.packet));
    }
    way_is_there(scenario, map, &format!("source {n}"), source.node, source.flow.dst, source.packet)
}

fn pool_means_something(scenario: &Scenario, map: &RouteMap) -> Result<(), Unplayable> {
    let Some(pool) = &scenario.pool else { return Ok(()) };
    if let Some(node) = [pool.from, pool.to].into_iter().find(|node| node.0 >= scenario.nodes.len()) {
        return fail(format!("the pool names node {}, but there are only {}", node.0, scenario.nodes.len()));
    }
    let (models, flows) = (pool.traffic.models.len(), pool.traffic.pool);
    if !(1..=MOST_MODELS).contains(&models) || !(1..=MOST_POOLED).contains(&flows) {
        return fail(format!(
            "a pool of {models} models and {flows} flows; allowed are 1 to {MOST_MODELS} and {MOST_POOLED}"
        ));
    }
    let Some(dst) = map.address(pool.to) else {
        return fail(format!("the pool: {} has no link", scenario.nodes[pool.to.0].name));
    };
    way_is_there(scenario, map, "the pool", pool.from, dst, LONGEST)
}

fn trace_means_something(scenario: &Scenario, map: &RouteMap, n: usize, trace: TraceId) -> Result<(), Unplayable> {
    let source = &scenario.sources[n];
    let Some(trace) = scenario.traces.get(trace.0) else {
        return fail(format!("source {n} replays trace {}, but there are only {}", trace.0, scenario.traces.len()));
    };
    if trace.packets.windows(2).any(|pair| pair[0].0 > pair[1].0) {
        return fail(format!("source {n}: the times of its trace go backwards"));
    }
    let longest = trace.packets.iter().map(|(_, len)| *len).max().unwrap_or(0);
    if longest > crate::packet::LONGEST || trace.packets.iter().any(|(_, len)| *len == 0) {
        return fail(format!("source {n}: its trace has packets of no length, or of more than 65535 bytes"));
    }
    way_is_there(scenario, map, &format!("source {n}"), source.node, source.flow.dst, longest)
}

/// Checks that packets of `packet` bytes reach `dst`.
fn way_is_there(
    scenario: &Scenario,
    map: &RouteMap,
    who: &str,
    from: NodeId,
    dst: IpAddr,
    packet: u32,
) -> Result<(), Unplayable> {
    let mut at = from;
    while map.owner(dst) != Some(at) {
        let Some(oif) = map.way_out(at, dst) else {
            return fail(format!("{who}: no way from {} to {dst}", scenario.nodes[from.0].name));
        };
        let attachment = map.attachments(at)[position(oif)];
        let link = &scenario.links[attachment.link.0];
        if packet > link.mtu {
            return fail(format!("{who} sends packets of {packet} bytes, the MTU on the way is {}", link.mtu));
        }
        at = link.ends[1 - attachment.side];
    }
    Ok(())
}

/// Checks that queues and captures name existing links, and that no agent's port is replaced by a queue.
fn directions_mean_something(scenario: &Scenario) -> Result<(), Unplayable> {
    let exists = |what: &str, link: LinkId, side: usize| {
        if link.0 >= scenario.links.len() || side > 1 {
            let all = scenario.links.len();
            return fail(format!(
                "{what} names side {side} of link {}; there are {all} links of sides 0 and 1",
                link.0
            ));
        }
        Ok(())
    };
    let mut named = BTreeMap::new();
    for EgressSpec { link, side, conditioner, queue } in &scenario.egress {
        exists("a queue", *link, *side)?;
        if named.insert((link.0, *side), queue).is_some() {
            return fail(format!("side {side} of link {} has two queues", link.0));
        }
        if conditioner.is_some() && *queue == Queue::Port {
            return fail(format!(
                "side {side} of link {}: a conditioner goes before a queue, not before a port",
                link.0
            ));
        }
    }
    for (n, link) in scenario.links.iter().enumerate() {
        for side in 0..2 {
            let queue = named.get(&(n, side)).copied().unwrap_or(&scenario.queue);
            let node = &scenario.nodes[link.ends[side].0];
            if node.agent && *queue != Queue::Port {
                let name = &node.name;
                return fail(format!("side {side} of link {n}: {name} has an agent, so its queues are ports"));
            }
        }
    }
    let mut kept = BTreeSet::new();
    for capture in &scenario.captures {
        exists("a capture", capture.link, capture.side)?;
        if !kept.insert((capture.link, capture.side)) {
            return fail(format!("side {} of link {} is captured twice", capture.side, capture.link.0));
        }
    }
    Ok(())
}

fn connection_means_something(scenario: &Scenario, map: &RouteMap, n: usize, spec: &TcpSpec) -> Result<(), Unplayable> {
    let who = format!("TCP connection {n}");
    for node in [spec.from, spec.to] {
        if node.0 >= scenario.nodes.len() {
            return fail(format!("{who} names node {}, but there are only {}", node.0, scenario.nodes.len()));
        }
    }
    if spec.from == spec.to {
        return fail(format!("{who} goes from {} to itself", scenario.nodes[spec.from.0].name));
    }
    let tcp = &spec.tcp;
    if tcp.mss == 0 || tcp.mss > crate::packet::LONGEST - HEADERS {
        return fail(format!("{who}: a segment has 1 to {} bytes, not {}", crate::packet::LONGEST - HEADERS, tcp.mss));
    }
    if tcp.window.get() < u64::from(tcp.mss) {
        return fail(format!("{who}: a window of {} does not hold a segment of {} bytes", tcp.window, tcp.mss));
    }
    if spec.bytes.is_some_and(|bytes| bytes.get() == 0) {
        return fail(format!("{who} has nothing to send"));
    }
    if spec.bytes.is_some_and(|bytes| bytes.get() / u64::from(tcp.mss) >= u64::from(u32::MAX) - 1) {
        return fail(format!("{who} has more segments to send than can be numbered"));
    }
    if tcp.rto.floor > tcp.rto.ceiling {
        return fail(format!("{who}: the timeout's floor is above its ceiling"));
    }
    for (from, to, packet) in [(spec.from, spec.to, tcp.mss + HEADERS), (spec.to, spec.from, HEADERS)] {
        let Some(dst) = map.address(to) else {
            return fail(format!("{who}: {} has no link", scenario.nodes[to.0].name));
        };
        way_is_there(scenario, map, &who, from, dst, packet)?;
    }
    Ok(())
}

/// The node and the link that an action names.
fn named(action: &ScenarioAction) -> (Option<NodeId>, Option<LinkId>) {
    match *action {
        ScenarioAction::Send { node, .. }
        | ScenarioAction::Unsend { node, .. }
        | ScenarioAction::Receive { node, .. }
        | ScenarioAction::Release { node, .. }
        | ScenarioAction::FailPlane { node, .. }
        | ScenarioAction::Boomerang { node, .. }
        | ScenarioAction::Book { node, .. }
        | ScenarioAction::Crash(node)
        | ScenarioAction::Restart(node)
        | ScenarioAction::NodeDown(node)
        | ScenarioAction::NodeUp(node)
        | ScenarioAction::ClockStep { node, .. }
        | ScenarioAction::Stop(node) => (Some(node), None),
        ScenarioAction::LinkDown(link)
        | ScenarioAction::LinkUp(link)
        | ScenarioAction::Impair(link, _)
        | ScenarioAction::ImpairData(link, _) => (None, Some(link)),
        ScenarioAction::Partition(ref nodes) => (nodes.iter().max().copied(), None),
        ScenarioAction::Heal => (None, None),
    }
}
