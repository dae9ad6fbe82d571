//! Checkers: what must hold in every run, whatever happens in it.

use crate::map::{Map, position};
use crate::scenario::{Action, LinkId, NodeId, Pattern, Scenario};
use crate::world::{Broken, Unplayable, World};
use terms::Rate;

/// Links that have addresses: 10.0.0.0/8 in nets of 256.
const MOST_LINKS: usize = 1 << 16;

impl World {
    /// Looks at everything: agents against ledgers, plans and ports; packets against links and ports.
    ///
    /// # Errors
    /// [`Broken`] names the first law that does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        let at = self.now();
        if let Some(broken) = self.broken() {
            return Err(broken);
        }
        for id in (0..self.stations.len()).map(NodeId) {
            self.laws(id).map_err(|law| Broken { at, node: Some(id), law })?;
            self.port_conservation(id).map_err(|law| Broken { at, node: Some(id), law })?;
        }
        let conserved = self.links.iter().all(|link| link.counts.iter().all(crate::link::LinkCounts::is_conserved));
        if conserved { Ok(()) } else { Err(Broken { at, node: None, law: "a link makes or swallows packets" }) }
    }

    /// Ledger = reservations = plan, and the plan = the ports once the plane is idle.
    pub(crate) fn laws(&self, id: NodeId) -> Result<(), &'static str> {
        let station = &self.stations[id.0];
        let Some(agent) = &station.agent else { return Ok(()) };
        agent.tc().audit().map_err(|drift| drift.what)?;
        if !agent.tc().plane().is_idle() || !station.batches.is_empty() || station.is_adopting() {
            return Ok(());
        }
        if agent.tc().plan() != &station.plan {
            return Err("the agent's plan is not what its plane holds");
        }
        if station.plane_agrees() { Ok(()) } else { Err("the plane's ports do not hold its plan") }
    }

    fn port_conservation(&self, id: NodeId) -> Result<(), &'static str> {
        for interface in &self.stations[id.0].interfaces {
            let totals = interface.port.totals();
            let kept = totals.sent + totals.dropped + totals.purged + u64::from(interface.port.queued());
            if totals.received != kept || totals.backwards != 0 {
                return Err("a port makes or swallows packets");
            }
        }
        Ok(())
    }

    /// What open slots hold on all interfaces of all living agents together; zero once everything has been given back.
    pub fn reserved(&self) -> Rate {
        let links = self.stations.iter().filter_map(|station| station.agent.as_ref()).flat_map(|agent| agent.links());
        links.map(|link| link.reserved).fold(Rate::ZERO, Rate::saturating_add)
    }

    /// States of RSVP in all living agents together: sessions, paths, reservations.
    pub fn states(&self) -> usize {
        let agents = self.stations.iter().filter_map(|station| station.agent.as_ref());
        agents.map(|a| a.rsvp().sessions().count() + a.rsvp().paths().count() + a.rsvp().reservations().count()).sum()
    }
}

/// Whether a scenario can be played.
pub(crate) fn playable(scenario: &Scenario) -> Result<(), Unplayable> {
    links_mean_something(scenario)?;
    let map = Map::new(scenario);
    for n in 0..scenario.sources.len() {
        source_means_something(scenario, &map, n)?;
    }
    for (n, (_, action)) in scenario.script.iter().enumerate() {
        let (node, link) = named(action);
        if let Action::ImpairData(..)
        | Action::NodeDown(_)
        | Action::NodeUp(_)
        | Action::Partition(_)
        | Action::Heal
        | Action::ClockStep { .. } = action
        {
            return fail(format!("line {n} of the script: this version does not play {action:?}"));
        }
        if let Some(node) = node.filter(|node| node.0 >= scenario.nodes.len()) {
            let all = scenario.nodes.len();
            return fail(format!("line {n} of the script names node {}, but there are only {all}", node.0));
        }
        if let Some(link) = link.filter(|link| link.0 >= scenario.links.len()) {
            let all = scenario.links.len();
            return fail(format!("line {n} of the script names link {}, but there are only {all}", link.0));
        }
    }
    if !scenario.connections.is_empty() || !scenario.egress.is_empty() || !scenario.captures.is_empty() {
        return fail("this version plays no TCP, no queues other than the agents' own, and takes no captures".into());
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

fn source_means_something(scenario: &Scenario, map: &Map, n: usize) -> Result<(), Unplayable> {
    let source = &scenario.sources[n];
    if source.node.0 >= scenario.nodes.len() {
        return fail(format!("source {n} sits at node {}, which is not there", source.node.0));
    }
    if source.packet == 0 {
        return fail(format!("source {n} sends packets of no length"));
    }
    if let Pattern::Exponential { .. } | Pattern::Pareto { .. } | Pattern::Poisson { .. } | Pattern::Trace(_) =
        source.pattern
    {
        return fail(format!("source {n} has a pattern that this version does not play"));
    }
    if let Pattern::Video { packets: 0, .. } = source.pattern {
        return fail(format!("source {n} sends frames of no packets"));
    }
    let (mut at, dst) = (source.node, source.flow.dst);
    while map.owner(dst) != Some(at) {
        let Some(oif) = map.way_out(at, dst) else {
            return fail(format!("source {n}: no way from {} to {dst}", scenario.nodes[source.node.0].name));
        };
        let attachment = map.attachments(at)[position(oif)];
        let link = &scenario.links[attachment.link.0];
        if source.packet > link.mtu {
            let (packet, mtu) = (source.packet, link.mtu);
            return fail(format!("source {n} sends packets of {packet} bytes, the MTU on the way is {mtu}"));
        }
        at = link.ends[1 - attachment.side];
    }
    Ok(())
}

/// The node and the link that an action names.
fn named(action: &Action) -> (Option<NodeId>, Option<LinkId>) {
    match *action {
        Action::Send { node, .. }
        | Action::Unsend { node, .. }
        | Action::Receive { node, .. }
        | Action::Release { node, .. }
        | Action::FailPlane { node, .. }
        | Action::Crash(node)
        | Action::Restart(node)
        | Action::NodeDown(node)
        | Action::NodeUp(node)
        | Action::ClockStep { node, .. }
        | Action::Stop(node) => (Some(node), None),
        Action::LinkDown(link) | Action::LinkUp(link) | Action::Impair(link, _) | Action::ImpairData(link, _) => {
            (None, Some(link))
        }
        Action::Partition(ref nodes) => (nodes.iter().max().copied(), None),
        Action::Heal => (None, None),
    }
}
