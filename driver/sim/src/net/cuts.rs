//! Changes of links: down, up, and faults of the packets on them; and the loss of a node's power.

use super::Net;
use crate::hop::HopQueue;
use crate::link::LossReason;
use crate::packet::NONE;
use crate::run::Run;
use crate::scenario::{Impairment, LinkId, NodeId};
use std::rc::Rc;

impl Net {
    /// Sets or clears one reason why a link is down. Returns true if that changes the link's state: packets
    /// on it are lost, and there are new routes.
    pub(crate) fn set_link(&mut self, run: &Run, link: LinkId, why: LossReason, down: bool) -> bool {
        let Some(up) = self.links[link.0].set(why, down) else { return false };
        self.forget_feeders();
        self.map = Rc::new(self.map.with(link, up));
        self.find_ways();
        for side in 0..2 {
            let h = 2 * link.0 + side;
            self.hops[h].up = up;
            if !up {
                self.cut(run, h);
            }
        }
        true
    }

    /// Drops the packets on a wire and in a plain queue, as a kernel flushes a queue when its interface goes
    /// down. The queue of a port, of a tree, or of two levels stays.
    fn cut(&mut self, run: &Run, h: usize) {
        let now = run.now().as_nanos();
        let hop = &mut self.hops[h];
        hop.age += 1;
        let mut number = hop.head;
        (hop.head, hop.tail) = (NONE, NONE);
        match &mut hop.egress {
            HopQueue::Limited(waiting) => waiting.clear(),
            HopQueue::Rio(rio) => rio.clear(now),
            HopQueue::Fifo | HopQueue::Port | HopQueue::Tree(_) | HopQueue::Mace(_) => {}
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
        state.impair(impairment, data);
        let faulty = state.is_faulty();
        for hop in &mut self.hops[2 * link.0..2 * link.0 + 2] {
            hop.watched = faulty || hop.rest.capture.is_some();
        }
    }

    /// Clears a node's data plane after a power loss. The packets in its ports are lost.
    pub(crate) fn lose_power(&mut self, run: &Run, node: NodeId) {
        for number in self.stations[node.0].forget(node, run.seed(), run.now()) {
            self.lost.power += 1;
            self.let_go(number);
        }
    }
}
