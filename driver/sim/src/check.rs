//! Checkers: the invariants of every run.

use crate::hop::HopQueue;
use crate::packet::NONE;
use crate::scenario::{NodeId, Tally};
use crate::world::{Broken, World};
use terms::Rate;

impl World {
    /// Checks everything: agents against ledgers, plans and ports; packets against links and ports.
    ///
    /// # Errors
    /// [`Broken`] names the first law that does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        if let Some(broken) = self.broken().or(self.overdue) {
            return Err(broken);
        }
        for id in (0..self.stations.len()).map(NodeId) {
            self.laws(id).map_err(|law| self.broke(Some(id), law))?;
            self.port_conservation(id).map_err(|law| self.broke(Some(id), law))?;
        }
        self.packet_conservation().map_err(|law| self.broke(None, law))
    }

    /// Checks the counts of packets. Each packet that began has ended or is somewhere. Each packet put on a
    /// link came out, was lost, or is still on it.
    fn packet_conservation(&self) -> Result<(), &'static str> {
        let mut somewhere = 0u64;
        for hop in &self.hops {
            let counts = &hop.rest.counts;
            let on_it = counts.strays + self.chained(hop.head);
            if hop.entered + counts.doubled != hop.delivered + counts.lost + counts.cut + on_it {
                return Err("a link makes or swallows packets");
            }
            let held = hop.conditioning.as_ref().map_or(0, |conditioning| conditioning.packets() as u64);
            let queued = match &hop.egress {
                HopQueue::Tree(tree) => {
                    let leaves = tree.leaves().filter_map(|(leaf, _)| tree.counters(leaf));
                    u64::from(tree.queued()) + leaves.map(|leaf| leaf.held.packets).sum::<u64>()
                }
                _ => 0,
            };
            somewhere += on_it + held + queued;
            let tally = hop.tally();
            let sum = |tallies: &[Tally; 3]| tallies.iter().map(|tally| tally.packets).sum::<u64>();
            if hop.is_simple() && sum(&tally.offered) - sum(&tally.dropped) != hop.entered {
                return Err("a queue makes or swallows packets");
            }
            if let HopQueue::Rio(rio) = &hop.egress {
                rio.agrees(&tally)?;
            }
        }
        let ports = self.stations.iter().flat_map(|station| &station.interfaces);
        somewhere += ports.map(|interface| u64::from(interface.port.queued())).sum::<u64>();
        // What waited in a class that went is nowhere any more.
        let ports = self.stations.iter().flat_map(|station| &station.interfaces);
        somewhere += ports.map(|interface| interface.port.totals().purged).sum::<u64>();
        if self.packets.born != self.packets.gone + somewhere {
            return Err("a packet vanished, or came from nowhere");
        }
        Ok(())
    }

    fn chained(&self, mut number: u32) -> u64 {
        let mut count = 0;
        while number != NONE {
            count += 1;
            number = self.packets[number].next;
        }
        count
    }

    /// Checks that ledger, reservations and plan agree, and once the plane is idle, also the ports.
    pub(crate) fn laws(&self, id: NodeId) -> Result<(), &'static str> {
        let station = &self.stations[id.0];
        let Some(agent) = &station.agent else { return Ok(()) };
        agent.tc().audit().map_err(|drift| drift.what)?;
        if !agent.tc().plane().is_idle() || !station.batches.is_empty() || station.is_adopting() {
            return Ok(());
        }
        if agent.tc().plan() != station.plan {
            return Err("the agent's plan is not what its plane holds");
        }
        if station.plane_agrees() { Ok(()) } else { Err("the plane's ports do not hold its plan") }
    }

    fn port_conservation(&self, id: NodeId) -> Result<(), &'static str> {
        for interface in &self.stations[id.0].interfaces {
            let totals = interface.port.totals();
            let kept =
                totals.sent + totals.dropped + totals.policed + totals.purged + u64::from(interface.port.queued());
            if totals.received != kept || totals.backwards != 0 {
                return Err("a port makes or swallows packets");
            }
        }
        Ok(())
    }

    /// Sum of the open slots on all interfaces of all living agents; zero once everything is released.
    pub fn reserved(&self) -> Rate {
        let links = self.stations.iter().filter_map(|station| station.agent.as_ref()).flat_map(|agent| agent.links());
        links.map(|link| link.reserved).fold(Rate::ZERO, Rate::saturating_add)
    }

    /// The number of RSVP states in all living agents: sessions, paths, reservations.
    pub fn states(&self) -> usize {
        let agents = self.stations.iter().filter_map(|station| station.agent.as_ref());
        agents.map(|a| a.rsvp().sessions().count() + a.rsvp().paths().count() + a.rsvp().reservations().count()).sum()
    }
}
