//! The description of a testbed, and its derived names, addresses and routes, the same every time.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use terms::Rate;

/// A testbed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Its name, which is also the prefix of its namespaces.
    pub name: String,
    /// Its nodes, with unique names.
    pub nodes: Vec<TestbedNode>,
    /// The links between them.
    pub links: Vec<TestbedLink>,
}

/// A host or router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestbedNode {
    /// Name.
    pub name: String,
    /// Host or router.
    pub kind: TestbedNodeKind,
}

/// The treatment of packets for other nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TestbedNodeKind {
    /// A host: it forwards no packets.
    Host,
    /// A router: it forwards packets.
    Router,
}

/// A link between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestbedLink {
    /// Positions of its two ends in [`Topology::nodes`].
    pub ends: [usize; 2],
    /// Its rate each way, link headers included.
    pub rate: Rate,
    /// Its MTU, bytes.
    pub mtu: u32,
}

/// One end of a link, with the name and address that it gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkEnd {
    /// Position of the link.
    pub link: usize,
    /// Position of the node at the other end.
    pub peer: usize,
    /// Interface name: `to-PEER`, cut to the kernel's limit and numbered if that is not unique.
    pub interface: String,
    /// Address.
    pub address: Ipv4Addr,
    /// The other end's address.
    pub peer_address: Ipv4Addr,
}

/// A route of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StaticRoute {
    /// Network.
    pub network: Ipv4Addr,
    /// Next hop.
    pub gateway: Ipv4Addr,
}

/// The prefix length of each link's network.
pub const PREFIX: u8 = 30;
/// The same for IPv6.
pub const PREFIX_V6: u8 = 64;
/// The most links: 10.0.0.0/8 has one /24 for each.
pub const MAX_LINKS: usize = 1 << 16;
/// The most nodes.
pub const MAX_NODES: usize = 1 << 12;
/// IFNAMSIZ without the final zero.
const MAX_INTERFACE_NAME: usize = 15;

impl Topology {
    /// Checks that it can be built; the error is a sentence.
    ///
    /// # Errors
    /// A limit is exceeded, an end does not exist, or a link joins a node to itself.
    pub fn check(&self) -> Result<(), String> {
        if self.links.len() > MAX_LINKS || self.nodes.len() > MAX_NODES {
            return Err(format!("a testbed has at most {MAX_NODES} nodes and {MAX_LINKS} links"));
        }
        let mut names = BTreeSet::new();
        if let Some(node) = self.nodes.iter().find(|node| !names.insert(&node.name)) {
            return Err(format!("the node {} is there twice", node.name));
        }
        for link in &self.links {
            if link.ends[0] == link.ends[1] || link.ends.iter().any(|&end| end >= self.nodes.len()) {
                return Err("a link joins two different nodes of the testbed".to_owned());
            }
        }
        Ok(())
    }

    /// The name of a node's namespace.
    pub fn namespace(&self, node: usize) -> String {
        format!("{}-{}", self.name, self.nodes[node].name)
    }

    /// The addresses of a link's two ends: link *n* is 10.(*n*/256).(*n*%256).0/30.
    pub fn addresses(link: usize) -> [Ipv4Addr; 2] {
        let at = |host: u8| Ipv4Addr::new(10, (link >> 8) as u8, link as u8, host);
        [at(1), at(2)]
    }

    /// The network of a link.
    pub fn network(link: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, (link >> 8) as u8, link as u8, 0)
    }

    /// The IPv6 address beside an IPv4 one of [`Topology::addresses`]: 10.A.B.H is also fd5c:1c00:0:AB::H/64.
    pub fn v6(address: Ipv4Addr) -> Ipv6Addr {
        let [_, high, low, host] = address.octets();
        Ipv6Addr::new(0xfd5c, 0x1c00, 0, u16::from_be_bytes([high, low]), 0, 0, 0, host.into())
    }

    /// A node's ends of links, in the order of the links.
    pub fn ends(&self, node: usize) -> Vec<LinkEnd> {
        let mut taken = BTreeSet::new();
        let mut ends = Vec::new();
        for (number, link) in self.links.iter().enumerate() {
            let Some(side) = link.ends.iter().position(|&end| end == node) else { continue };
            let (peer, addresses) = (link.ends[1 - side], Topology::addresses(number));
            let interface = interface_name(&self.nodes[peer].name, &mut taken);
            ends.push(LinkEnd {
                link: number,
                peer,
                interface,
                address: addresses[side],
                peer_address: addresses[1 - side],
            });
        }
        ends
    }

    /// A node's main address: that of its first end.
    pub fn address(&self, node: usize) -> Option<Ipv4Addr> {
        self.ends(node).first().map(|end| end.address)
    }

    /// A node's routes to the networks that it is not on: fewest hops, the earliest link among equals, never
    /// through a host.
    pub fn routes(&self, node: usize) -> Vec<StaticRoute> {
        let first_hops = self.first_hops(node);
        let mut routes = Vec::new();
        for (number, link) in self.links.iter().enumerate() {
            if link.ends.contains(&node) {
                continue;
            }
            let near = link.ends.iter().filter_map(|&end| self.forwards(end).then(|| first_hops[end]).flatten());
            if let Some((_, gateway)) = near.min() {
                let network = Ipv4Addr::from(u32::from(Topology::addresses(number)[0]) & !3);
                routes.push(StaticRoute { network, gateway });
            }
        }
        routes
    }

    fn forwards(&self, node: usize) -> bool {
        self.nodes[node].kind == TestbedNodeKind::Router
    }

    /// For each node: the number of hops to it, and the first gateway.
    fn first_hops(&self, from: usize) -> Vec<Option<(usize, Ipv4Addr)>> {
        let all: Vec<Vec<LinkEnd>> = (0..self.nodes.len()).map(|node| self.ends(node)).collect();
        let mut found: Vec<Option<(usize, Ipv4Addr)>> = vec![None; self.nodes.len()];
        let mut frontier = vec![from];
        let mut hops = 0;
        while !frontier.is_empty() {
            hops += 1;
            let mut next = Vec::new();
            for node in frontier {
                if node != from && !self.forwards(node) {
                    continue;
                }
                for end in &all[node] {
                    if end.peer == from || found[end.peer].is_some() {
                        continue;
                    }
                    let gateway = found[node].map_or(end.peer_address, |(_, gateway)| gateway);
                    found[end.peer] = Some((hops, gateway));
                    next.push(end.peer);
                }
            }
            frontier = next;
        }
        found
    }
}

fn interface_name(peer: &str, taken: &mut BTreeSet<String>) -> String {
    let full = format!("to-{peer}");
    let mut name: String = full.chars().take(MAX_INTERFACE_NAME).collect();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        let suffix = format!("-{number}");
        name = full.chars().take(MAX_INTERFACE_NAME - suffix.len()).collect::<String>() + &suffix;
        number += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(nodes: &[(&str, TestbedNodeKind)], links: &[[usize; 2]]) -> Topology {
        let node = |&(name, kind): &(&str, TestbedNodeKind)| TestbedNode { name: name.to_owned(), kind };
        let link = |&ends: &[usize; 2]| TestbedLink { ends, rate: Rate::from_mbps(10), mtu: 1500 };
        Topology {
            name: "t".to_owned(),
            nodes: nodes.iter().map(node).collect(),
            links: links.iter().map(link).collect(),
        }
    }

    fn seed() -> Topology {
        use TestbedNodeKind::{Host, Router};
        let nodes = [("swissvale", Host), ("yosemite", Router), ("maui", Router), ("glenwood", Host)];
        topology(&nodes, &[[0, 1], [1, 2], [2, 3]])
    }

    fn routes(of: &Topology, node: usize) -> Vec<String> {
        of.routes(node).iter().map(|r| format!("{} via {}", r.network, r.gateway)).collect()
    }

    #[test]
    fn the_seed() {
        let seed = seed();
        let maui: Vec<String> = seed.ends(2).iter().map(|e| format!("{} {}", e.interface, e.address)).collect();
        assert_eq!(maui, ["to-yosemite 10.0.1.2", "to-glenwood 10.0.2.1"]);
        assert_eq!(routes(&seed, 0), ["10.0.1.0 via 10.0.0.2", "10.0.2.0 via 10.0.0.2"]);
        assert_eq!(routes(&seed, 1), ["10.0.2.0 via 10.0.1.2"]);
        assert_eq!(routes(&seed, 3), ["10.0.0.0 via 10.0.2.1", "10.0.1.0 via 10.0.2.1"]);
        assert_eq!(seed.namespace(2), "t-maui");
        assert_eq!(Topology::v6(seed.ends(2)[1].address).to_string(), "fd5c:1c00:0:2::1");
    }

    #[test]
    fn the_shorter_way_wins_and_the_earlier_link_among_equals() {
        use TestbedNodeKind::Router;
        let ring =
            topology(&[("a", Router), ("b", Router), ("c", Router), ("d", Router)], &[[0, 1], [1, 2], [2, 3], [3, 0]]);
        assert_eq!(routes(&ring, 0), ["10.0.1.0 via 10.0.0.2", "10.0.2.0 via 10.0.3.1"]);
    }

    #[test]
    fn nothing_goes_through_a_host() {
        use TestbedNodeKind::{Host, Router};
        let line = topology(&[("a", Router), ("h", Host), ("b", Router), ("c", Router)], &[[0, 1], [1, 2], [2, 3]]);
        assert!(routes(&line, 0).is_empty());
        assert_eq!(routes(&line, 1), ["10.0.2.0 via 10.0.1.2"]);
    }

    #[test]
    fn names_fit_the_kernel_and_differ() {
        use TestbedNodeKind::Router;
        let long = "a-very-long-router-name";
        let pair = topology(&[("x", Router), (long, Router)], &[[0, 1], [0, 1], [1, 0]]);
        let names: Vec<String> = pair.ends(0).into_iter().map(|end| end.interface).collect();
        assert_eq!(names, ["to-a-very-long-", "to-a-very-lon-2", "to-a-very-lon-3"]);
        assert_eq!(pair.ends(0)[2].address, Ipv4Addr::new(10, 0, 2, 2));
    }

    #[test]
    fn what_cannot_be_built_is_refused() {
        use TestbedNodeKind::Host;
        assert!(topology(&[("a", Host), ("a", Host)], &[]).check().unwrap_err().contains("twice"));
        assert!(topology(&[("a", Host)], &[[0, 0]]).check().is_err());
        assert!(topology(&[("a", Host)], &[[0, 1]]).check().is_err());
        assert!(seed().check().is_ok());
    }
}
