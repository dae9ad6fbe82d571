//! Addresses and routes. Every link end has an address, and packets take the route with the fewest hops.
//!
//! Link `k` is 10.x.y.0/24 with `k = 256 x + y`; its ends are .1 and .2. Of routes of equal length the one by
//! the lower interface is taken, so routing is the same in every run.

use crate::scenario::{LinkId, NodeId, Scenario};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use terms::IfIndex;
use terms::ports::{Route, RouteDecision};

/// The link end of a node's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// The link.
    pub link: LinkId,
    /// The node's end of the link.
    pub side: usize,
}

/// The nodes at all links, and the next hop from every node to every other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteMap {
    ends: Vec<[NodeId; 2]>,
    attachments: Vec<Vec<Attachment>>,
    up: Vec<bool>,
    /// Next hop by node and destination node: an interface by position.
    next: Vec<Vec<Option<usize>>>,
}

impl RouteMap {
    /// The map of a scenario with every link up.
    pub fn new(scenario: &Scenario) -> RouteMap {
        let mut map = RouteMap {
            ends: scenario.links.iter().map(|link| link.ends).collect(),
            attachments: vec![Vec::new(); scenario.nodes.len()],
            up: vec![true; scenario.links.len()],
            next: Vec::new(),
        };
        for (number, ends) in map.ends.iter().enumerate() {
            for (side, end) in ends.iter().enumerate() {
                map.attachments[end.0].push(Attachment { link: LinkId(number), side });
            }
        }
        map.find_ways();
        map
    }

    /// The map with a link up or down.
    pub fn with(&self, link: LinkId, up: bool) -> RouteMap {
        let mut map = self.clone();
        map.up[link.0] = up;
        map.find_ways();
        map
    }

    /// True if a link is up.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.up[link.0]
    }

    /// A node's interfaces, in the order of their links. The first has index 1.
    pub fn attachments(&self, node: NodeId) -> &[Attachment] {
        &self.attachments[node.0]
    }

    /// The node at an end of a link, and its interface there.
    pub fn end(&self, link: LinkId, side: usize) -> (NodeId, IfIndex) {
        let node = self.ends[link.0][side];
        let here = Attachment { link, side };
        let position = self.attachments[node.0].iter().position(|a| *a == here).unwrap_or(0);
        (node, index(position))
    }

    /// The node that has an address.
    pub fn owner(&self, address: IpAddr) -> Option<NodeId> {
        let (link, side) = place(address)?;
        self.ends.get(link.0).map(|ends| ends[side])
    }

    /// The first address of a node.
    pub fn address(&self, node: NodeId) -> Option<IpAddr> {
        self.attachments(node).first().map(|a| address(a.link, a.side))
    }

    /// The interface by which packets to an address leave; `None` if the address is local or there is no
    /// route.
    pub fn way_out(&self, from: NodeId, to: IpAddr) -> Option<IfIndex> {
        let to = self.owner(to)?;
        self.next[from.0][to.0].map(index)
    }

    /// The interface, by position, by which packets to a node leave; `None` if it is this node or there is no
    /// route.
    pub fn next_hop(&self, from: NodeId, to: NodeId) -> Option<usize> {
        self.next[from.0][to.0]
    }

    fn find_ways(&mut self) {
        let all = self.attachments.len();
        self.next = vec![vec![None; all]; all];
        for to in 0..all {
            let mut distance = vec![usize::MAX; all];
            distance[to] = 0;
            let mut edge = VecDeque::from([to]);
            while let Some(at) = edge.pop_front() {
                for a in self.attachments[at].iter().filter(|a| self.up[a.link.0]) {
                    let other = self.ends[a.link.0][1 - a.side].0;
                    if distance[other] == usize::MAX {
                        distance[other] = distance[at] + 1;
                        edge.push_back(other);
                    }
                }
            }
            for (from, d) in distance.iter().enumerate().filter(|(_, d)| **d != 0 && **d != usize::MAX) {
                let nearer = |a: &Attachment| self.up[a.link.0] && distance[self.ends[a.link.0][1 - a.side].0] == d - 1;
                self.next[from][to] = self.attachments[from].iter().position(nearer);
            }
        }
    }
}

/// The routing table of one node.
#[derive(Clone, Debug)]
pub struct Routes {
    /// The node that has this table.
    pub node: NodeId,
    /// The map of the whole net.
    pub map: Rc<RouteMap>,
}

impl Route for Routes {
    fn route(&mut self, dst: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        if self.map.owner(dst) == Some(self.node) {
            return RouteDecision::Local;
        }
        let Some(oif) = self.map.way_out(self.node, dst) else { return RouteDecision::None };
        let a = self.map.attachments(self.node)[position(oif)];
        let neighbour = address(a.link, 1 - a.side);
        let gateway = (neighbour != dst).then_some(neighbour);
        RouteDecision::Out { oif, gateway, source: address(a.link, a.side) }
    }
}

/// The address at an end of a link.
pub fn address(link: LinkId, side: usize) -> IpAddr {
    let [.., x, y] = (link.0 as u32).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, x, y, side as u8 + 1))
}

/// The link and end of an address.
fn place(address: IpAddr) -> Option<(LinkId, usize)> {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, x, y, z @ 1..=2] => Some((LinkId(usize::from(x) << 8 | usize::from(y)), usize::from(z - 1))),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

/// The index of an interface by its position. It counts from 1, as in a kernel.
pub fn index(position: usize) -> IfIndex {
    IfIndex(position as u32 + 1)
}

/// The position of an interface by its index.
pub fn position(interface: IfIndex) -> usize {
    (interface.0 as usize).saturating_sub(1)
}
