//! Directions of links, the routes over them, and directions that are fed by one other alone.

use super::Net;
use crate::hop::{Conditioning, HopPort, HopQueue};
use crate::map::{RouteMap, position};
use crate::packet::NONE;
use crate::playable::Unplayable;
use crate::scenario::{EgressSpec, LinkId, NodeId, Scenario, ScenarioAction};
use std::collections::BTreeMap;

/// Several directions feed it, or a host does.
const MANY: u32 = NONE - 1;
/// Random streams of directions: droppers, and markers that draw at random.
const DROPPERS: u64 = 1 << 32;
const MARKERS: u64 = 2 << 32;

/// Builds the directions of all links.
pub(super) fn hops(scenario: &Scenario, map: &RouteMap) -> Result<Vec<HopPort>, Unplayable> {
    let named: BTreeMap<(usize, usize), &EgressSpec> =
        scenario.egress.iter().map(|spec| ((spec.link.0, spec.side), spec)).collect();
    let mut hops = Vec::with_capacity(2 * scenario.links.len());
    for (n, link) in scenario.links.iter().enumerate() {
        for side in 0..2 {
            let (node, interface) = map.end(LinkId(n), side);
            let from = (node.0 as u32, position(interface) as u32);
            let mut hop = HopPort::new(link, from, link.ends[1 - side].0 as u32);
            let spec = named.get(&(n, side));
            let number = hops.len() as u64;
            let queue = spec.map_or(&scenario.queue, |spec| &spec.queue);
            let fail = |what| Unplayable { what: format!("link {n}, side {side}: {what}") };
            hop.egress = HopQueue::new(queue, link, [scenario.seed, DROPPERS | number]).map_err(fail)?;
            if let Some(conditioner) = spec.and_then(|spec| spec.conditioner) {
                let stream = [scenario.seed, MARKERS | number];
                let conditioning = Conditioning::new(&conditioner, link.rate, stream).map_err(fail)?;
                hop.conditioning = Some(Box::new(conditioning));
            }
            hop.colored = hop.conditioning.is_some() || !matches!(hop.egress, HopQueue::Fifo | HopQueue::Limited(_));
            hops.push(hop);
        }
    }
    for (n, capture) in scenario.captures.iter().enumerate() {
        let hop = &mut hops[2 * capture.link.0 + capture.side];
        hop.rest.capture = Some(n as u32);
        hop.watched = true;
    }
    Ok(hops)
}

impl Net {
    /// Finds the route from every node to every other: the first direction of a link.
    pub(super) fn find_ways(&mut self) {
        let all = self.stations.len();
        self.ways = vec![NONE; all * all];
        for at in 0..all {
            for dst in (0..all).filter(|dst| *dst != at) {
                if let Some(oif) = self.map.next_hop(NodeId(at), NodeId(dst)) {
                    let a = self.map.attachments(NodeId(at))[oif];
                    self.ways[at * all + dst] = (2 * a.link.0 + a.side) as u32;
                }
            }
        }
    }

    /// Finds directions that get all their packets from one other. A packet can be put on both at once,
    /// because it comes to the second in the order of the first. This does not apply where agents or faults
    /// may act.
    pub(super) fn find_feeders(&mut self, scenario: &Scenario) {
        let pooled = scenario.pool.is_some();
        if pooled
            || scenario.nodes.iter().any(|node| node.agent)
            || scenario.script.iter().any(|(_, action)| meddles(action))
        {
            return;
        }
        let mut feeders = vec![NONE; self.hops.len()];
        for spec in &scenario.connections {
            self.walk(spec.from.0, spec.to.0, &mut feeders);
            self.walk(spec.to.0, spec.from.0, &mut feeders);
        }
        for source in &scenario.sources {
            self.walk(source.node.0, usize::from(self.owner(source.flow.dst)), &mut feeders);
        }
        for (h, feeder) in feeders.iter().enumerate() {
            if *feeder < MANY && self.hops[h].is_plain() && self.hops[*feeder as usize].is_simple() {
                self.hops[h].fed_by = *feeder;
                self.hops[*feeder as usize].feeds = true;
            }
        }
    }

    fn walk(&self, from: usize, to: usize, feeders: &mut [u32]) {
        let (mut at, mut before) = (from, MANY);
        while let Some(hop) = self.way(at, to).filter(|_| at != to) {
            let feeder = &mut feeders[hop];
            *feeder = if *feeder == NONE || *feeder == before { before } else { MANY };
            (at, before) = (self.hops[hop].to as usize, hop as u32);
        }
    }

    /// Stops sending ahead, because links may change from now on.
    pub(super) fn forget_feeders(&mut self) {
        for hop in &mut self.hops {
            (hop.fed_by, hop.feeds) = (NONE, false);
        }
    }
}

/// True if an action may change the behaviour of a link.
pub(super) fn meddles(action: &ScenarioAction) -> bool {
    matches!(
        action,
        ScenarioAction::LinkDown(_)
            | ScenarioAction::LinkUp(_)
            | ScenarioAction::Impair(..)
            | ScenarioAction::ImpairData(..)
            | ScenarioAction::NodeDown(_)
            | ScenarioAction::NodeUp(_)
            | ScenarioAction::Partition(_)
            | ScenarioAction::Heal
    )
}
