//! The net's invariant: no packet vanishes, and none comes from nowhere.

use super::Net;
use crate::hop::HopQueue;
use crate::packet::NONE;
use crate::scenario::{NodeId, Tally};

impl Net {
    /// Checks the counts of packets. Each packet that began has ended or is somewhere. Each packet put on a
    /// link came out, was lost, or is still on it.
    pub(crate) fn conservation(&self) -> Result<(), &'static str> {
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
                HopQueue::Mace(mace) => u64::from(mace.packets()),
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
        let ports = self.stations.iter().flat_map(|station| station.plane().iter());
        somewhere += ports.map(|port| u64::from(port.inside())).sum::<u64>();
        if self.packets.born() != self.packets.gone() + somewhere {
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

    /// Checks the counts of packets in the ports of a node.
    pub(crate) fn port_conservation(&self, id: NodeId) -> Result<(), &'static str> {
        for port in self.stations[id.0].plane().iter() {
            let totals = port.totals();
            let kept = totals.sent + totals.dropped + totals.policed + totals.purged + u64::from(port.inside());
            if totals.received != kept || totals.backwards != 0 {
                return Err("a port makes or swallows packets");
            }
        }
        Ok(())
    }
}
