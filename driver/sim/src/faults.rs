//! Faults of links and nodes, and their repair.

use crate::hop::HopQueue;
use crate::link::LossReason;
use crate::map::{address, position};
use crate::packet::NONE;
use crate::scenario::{Impairment, LinkId, NodeId};
use crate::world::World;
use node::io::Input;
use std::rc::Rc;

impl World {
    /// Sets or clears one reason why a link is down. If that changes the link's state, packets on it are
    /// lost, all nodes find new routes, and both ends are told.
    pub(crate) fn set_link(&mut self, link: LinkId, why: LossReason, down: bool) {
        let state = &mut self.links[link.0];
        let before = state.down == 0;
        state.down = if down { state.down | why as u8 } else { state.down & !(why as u8) };
        let up = state.down == 0;
        if before == up {
            return;
        }
        self.forget_feeders();
        self.map = Rc::new(self.map.with(link, up));
        self.find_ways();
        for side in 0..2 {
            let h = 2 * link.0 + side;
            self.hops[h].up = up;
            if !up {
                self.cut(h);
            }
        }
        for station in &mut self.stations {
            if let Some(agent) = &mut station.agent {
                agent.route_mut().map = Rc::clone(&self.map);
            }
        }
        for side in 0..2 {
            let (node, interface) = self.map.end(link, side);
            debug_assert!(
                self.stations[node.0].interfaces[position(interface)].state.addresses == [address(link, side)]
            );
            self.tell_interface(node, position(interface));
            self.send_next(node.0, position(interface));
        }
        for id in (0..self.stations.len()).map(NodeId) {
            self.tell(id, Input::RouteChanged(None));
        }
    }

    /// Drops the packets on a wire and in a plain queue, as a kernel flushes a queue when its interface goes
    /// down. The queue of a port or a tree stays.
    fn cut(&mut self, h: usize) {
        let now = self.agenda.now().as_nanos();
        let hop = &mut self.hops[h];
        hop.age += 1;
        let mut number = hop.head;
        (hop.head, hop.tail) = (NONE, NONE);
        match &mut hop.egress {
            HopQueue::Limited(waiting) => waiting.clear(),
            HopQueue::Rio(rio) => rio.clear(now),
            HopQueue::Fifo | HopQueue::Port | HopQueue::Tree(_) => {}
        }
        if hop.is_simple() {
            hop.free_at = now;
        }
        while number != NONE {
            let next = self.packets[number].next;
            self.hops[h].rest.counts.cut += 1;
            self.let_go(number);
            number = next;
        }
    }

    /// Sets how signalling, or data, fares on a link from now on.
    pub(crate) fn impair(&mut self, link: LinkId, impairment: Impairment, data: bool) {
        self.forget_feeders();
        let state = &mut self.links[link.0];
        *(if data { &mut state.data } else { &mut state.impairment }) = impairment;
        let faulty = state.is_faulty();
        for hop in &mut self.hops[2 * link.0..2 * link.0 + 2] {
            hop.watched = faulty || hop.rest.capture.is_some();
        }
    }

    /// Takes a node's power away or restores it.
    pub(crate) fn set_power(&mut self, node: NodeId, down: bool) {
        if self.stations[node.0].powered != down {
            return;
        }
        self.stations[node.0].powered = !down;
        if down {
            self.stations[node.0].end();
            self.asks.retain(|(n, _, _), _| *n != node);
        }
        for a in self.map.attachments(node).to_vec() {
            let why = if a.side == 0 { LossReason::First } else { LossReason::Second };
            self.set_link(a.link, why, down);
        }
        if down {
            for number in self.stations[node.0].forget(node, self.seed, self.agenda.now()) {
                self.lost.power += 1;
                self.let_go(number);
            }
            self.story.mark(&[self.now().as_nanos(), 11, node.0 as u64]);
        } else {
            self.start_agent(node);
        }
    }

    /// Takes down all links between `nodes` and the others.
    pub(crate) fn partition(&mut self, nodes: &[NodeId]) {
        for n in 0..self.links.len() {
            let [a, b] = self.links[n].spec.ends;
            if nodes.contains(&a) != nodes.contains(&b) {
                self.set_link(LinkId(n), LossReason::Partition, true);
            }
        }
    }

    /// Restores all links that partitions took down.
    pub(crate) fn heal(&mut self) {
        for n in 0..self.links.len() {
            self.set_link(LinkId(n), LossReason::Partition, false);
        }
    }
}
