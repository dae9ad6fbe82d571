//! The net: the way of every packet over wires and queues. Each packet that began has ended or is somewhere
//! here ([`Net::conservation`]).
//!
//! The net knows no agents, connections or sources. A packet that comes to a node is handed back as an
//! [`Arrival`]; the world gives it to its receiver.
//!
//! Reading order: `transit` (from queue to far end), `outlet` (ports, trees and shapers), `routes` (ways and
//! feeders), `cuts` (links that change), `conservation` (the invariant).

mod conservation;
mod cuts;
mod outlet;
mod routes;
mod transit;

use crate::capture::Capture;
use crate::hop::{HopPort, HopQueue};
use crate::labels::Labels;
use crate::link::SimLink;
use crate::map::{RouteMap, position};
use crate::packet::{MessageInFlight, MessagesInFlight, NONE, PacketKind, Packets, SimPacket};
use crate::playable::Unplayable;
use crate::scenario::{NodeId, Scenario};
use crate::station::Station;
use std::rc::Rc;
use terms::{FlowKey, IfIndex, Time};
use traffic::plan::PlanOp;

/// Number of connections whose packets and states fit in caches.
const FEW: usize = 2_000;

/// Counters of packets that ended outside of links and sinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// No route to the destination, or a link that is down.
    pub no_way: u64,
    /// Time to live reached zero.
    pub ttl: u64,
    /// Dropped by a port's queue.
    pub queue: u64,
    /// Lost in a node that lost its power.
    pub power: u64,
    /// Arrived at a node that had no use for them.
    pub unclaimed: u64,
}

/// The result of a packet's step. It fits into two registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// It is on a link, in a queue, or has ended.
    Under,
    /// It is at its destination.
    Here { at: u32, number: u32 },
    /// A message has come off a link. The agent of the node may take it ([`Net::is_for_agent`]).
    Message { hop: u32, number: u32 },
}

/// Nodes' data planes, links, and the packets in them.
pub(crate) struct Net {
    map: Rc<RouteMap>,
    stations: Vec<Station>,
    links: Vec<SimLink>,
    /// Directions of links: `2 * link + side`.
    hops: Vec<HopPort>,
    /// By node and destination node: the direction of a link by which packets leave.
    ways: Vec<u32>,
    packets: Packets,
    messages: MessagesInFlight,
    /// Packets that a tree has just dropped.
    dropped: Vec<u32>,
    captures: Vec<Capture>,
    labels: Rc<Labels>,
    lost: Lost,
    /// True if there are so many connections that their state does not fit in caches.
    looks_ahead: bool,
}

impl Net {
    /// The net of a scenario, without packets and with every link up.
    pub(crate) fn new(scenario: &Scenario, labels: Rc<Labels>, map: RouteMap) -> Result<Net, Unplayable> {
        let links = scenario.links.iter().enumerate().map(|(n, spec)| SimLink::new(*spec, n, scenario.seed));
        let mut net = Net {
            stations: (0..scenario.nodes.len()).map(|n| Station::new(scenario, NodeId(n), &map)).collect(),
            links: links.collect(),
            hops: routes::hops(scenario, &map)?,
            ways: Vec::new(),
            packets: Packets::default(),
            messages: MessagesInFlight::default(),
            dropped: Vec::new(),
            captures: scenario.captures.iter().map(Capture::new).collect(),
            labels,
            lost: Lost::default(),
            looks_ahead: scenario.connections.len() > FEW,
            map: Rc::new(map),
        };
        net.find_ways();
        net.find_feeders(scenario);
        Ok(net)
    }

    /// The routes of now.
    pub(crate) fn map(&self) -> &Rc<RouteMap> {
        &self.map
    }

    /// All links.
    pub(crate) fn links(&self) -> &[SimLink] {
        &self.links
    }

    /// Directions of links, two each.
    pub(crate) fn hops(&self) -> &[HopPort] {
        &self.hops
    }

    /// A node's data plane.
    pub(crate) fn station(&self, id: NodeId) -> &Station {
        &self.stations[id.0]
    }

    /// A node's data plane, for its agent's work on it.
    pub(crate) fn station_mut(&mut self, id: NodeId) -> &mut Station {
        &mut self.stations[id.0]
    }

    /// The number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.stations.len()
    }

    /// The pcap file of a capture.
    pub(crate) fn pcap(&self, capture: usize) -> &[u8] {
        self.captures[capture].bytes()
    }

    /// Counters of packets that ended outside of links and sinks.
    pub(crate) fn lost(&self) -> Lost {
        self.lost
    }

    /// The number of packets made so far.
    pub(crate) fn born(&self) -> u64 {
        self.packets.born()
    }

    /// Memory of all packets, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.packets.memory()
    }

    /// A packet by its number.
    #[inline]
    pub(crate) fn packet(&self, number: u32) -> &SimPacket {
        &self.packets[number]
    }

    /// The message that a packet carries.
    pub(crate) fn message(&self, number: u32) -> Option<&MessageInFlight> {
        self.messages.get(self.packets[number].flow)
    }

    /// Takes in a new packet and returns its number.
    #[inline]
    pub(crate) fn keep(&mut self, packet: SimPacket) -> u32 {
        self.packets.keep(packet)
    }

    /// Ends a packet without a message, and takes in another one in its place, which is in the cache.
    #[inline(always)]
    pub(crate) fn replace(&mut self, number: u32, packet: SimPacket) {
        self.packets.replace(number, packet);
    }

    /// Takes in a message and its packet. Returns the packet's number.
    pub(crate) fn keep_message(&mut self, message: MessageInFlight, ttl: u8, len: u32, now: Time) -> u32 {
        let to = self.owner(message.flow.dst);
        let message = self.messages.keep(message);
        self.packets.keep(SimPacket { ttl, ..SimPacket::new(PacketKind::Signal, message, len, to, now) })
    }

    /// Ends a packet and the message in it.
    #[inline]
    pub(crate) fn let_go(&mut self, number: u32) {
        let packet = &self.packets[number];
        if packet.kind == PacketKind::Signal {
            self.messages.let_go(packet.flow);
        }
        self.packets.let_go(number);
    }

    /// Ends a packet that has no route.
    pub(crate) fn no_way(&mut self, number: u32) {
        self.lost.no_way += 1;
        self.let_go(number);
    }

    /// Ends a packet that its destination has no use for.
    pub(crate) fn unclaimed(&mut self, number: u32) {
        self.lost.unclaimed += 1;
        self.let_go(number);
    }

    /// The number of the node that owns an address; `u16::MAX` if none does.
    pub(crate) fn owner(&self, dst: std::net::IpAddr) -> u16 {
        self.map.owner(dst).map_or(u16::MAX, |node| node.0 as u16)
    }

    /// The direction of a link behind an interface.
    pub(crate) fn hop_of(&self, at: NodeId, oif: IfIndex) -> Option<usize> {
        let a = self.map.attachments(at).get(position(oif))?;
        Some(2 * a.link.0 + a.side)
    }

    /// The direction of a link by which packets leave for a node; `None` if there is no route.
    pub(crate) fn way(&self, at: usize, dst: usize) -> Option<usize> {
        let hop = self.ways.get(at * self.stations.len() + dst).copied().filter(|_| dst < self.stations.len())?;
        (hop != NONE).then_some(hop as usize)
    }

    /// Notes all counters at an edge of the measured window.
    pub(crate) fn edge(&mut self, now: Time, edge: usize) {
        for hop in &mut self.hops {
            hop.rest.edges[edge] = Some(hop.tally());
            if let HopQueue::Mace(mace) = &mut hop.egress {
                mace.edge(now, edge);
            }
        }
    }

    /// Tells every direction that recognises flows that this one has ended.
    pub(crate) fn flow_ended(&mut self, now: Time, flow: &FlowKey) {
        for hop in &mut self.hops {
            if let HopQueue::Mace(mace) = &mut hop.egress {
                mace.flow_ended(now, flow);
            }
        }
    }

    /// Removes every flow from every port, as a broken plane would.
    pub(crate) fn corrupt_planes(&mut self, now: Time) {
        for port in self.stations.iter_mut().flat_map(Station::ports_mut) {
            let (oif, flows) = (port.interface(), port.flows().map(|(flow, _)| *flow).collect::<Vec<_>>());
            for flow in flows {
                // It is there: the port has just said so.
                let _ = port.apply(now, &PlanOp::DropFlow { oif, flow });
            }
        }
    }
}
