//! The path service: it finds the interfaces of agents by which the packets between two hosts leave.
//!
//! Agents publish their links; the engine (`booking::path`) searches them. This module turns links into its
//! graph, and its answers into documents.

use booking::path::{Graph, Path, PublishedLink};
use documents::links::LinkRow;
use documents::overview::{NetworkEnd, NetworkRow};
use documents::rest::{Hop, PathRow};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use topology::Network;

/// All links of all agents.
#[derive(Clone, Debug, Default)]
pub struct LinkMap {
    graph: Graph,
    /// The other data of each interface of the graph.
    ports: Vec<Port>,
    names: Vec<String>,
    /// Agents that did not report their links.
    away: Vec<String>,
}

/// An interface of an agent.
#[derive(Clone, Debug)]
struct Port {
    agent: usize,
    interface: String,
    resource: Option<String>,
    rate: Option<u64>,
    /// The agreements about packets that come in by it.
    slas: Vec<String>,
}

/// An interface of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathHop<'a> {
    /// The agent's index.
    pub agent: usize,
    /// The interface.
    pub interface: &'a str,
    /// The resource that is reserved there.
    pub resource: Option<&'a str>,
}

impl LinkMap {
    /// A map of the links that each agent published, in their order; each has the cost 1.
    pub fn new(agents: Vec<(String, Vec<LinkRow>)>) -> LinkMap {
        LinkMap::with_costs(agents, &BTreeMap::new())
    }

    /// The same with the costs of some resources, AGENT/RESOURCE.
    pub fn with_costs(agents: Vec<(String, Vec<LinkRow>)>, costs: &BTreeMap<String, u32>) -> LinkMap {
        let (mut ports, mut names, mut published) = (Vec::new(), Vec::new(), Vec::new());
        for (agent, (name, links)) in agents.into_iter().enumerate() {
            for link in links {
                for (address, prefix) in link.addresses.iter().filter_map(|text| network(text)) {
                    let resource = link.resource.clone().unwrap_or_default();
                    let cost = costs.get(&format!("{name}/{resource}")).copied().unwrap_or(1);
                    published.push(PublishedLink { agent: name.clone(), resource, address, prefix, cost });
                    ports.push(Port {
                        agent,
                        interface: link.interface.clone(),
                        resource: link.resource.clone(),
                        rate: link.rate_wire_bps,
                        slas: link.slas.clone(),
                    });
                }
            }
            names.push(name);
        }
        LinkMap { graph: Graph::new(published), ports, names, away: Vec::new() }
    }

    /// The same map, with the names of the agents that are missing.
    pub fn without(self, away: Vec<String>) -> LinkMap {
        LinkMap { away, ..self }
    }

    /// The agent's index.
    pub fn number(&self, agent: &str) -> Option<usize> {
        self.names.iter().position(|name| name == agent)
    }

    /// An agent's interface in the graph, by the address that shares a network with the next hop, if one does.
    pub fn interface(&self, agent: &str, interface: &str, next: IpAddr) -> Option<usize> {
        let number = self.number(agent)?;
        let of = |n: &usize| self.ports[*n].agent == number && self.ports[*n].interface == interface;
        let own: Vec<usize> = (0..self.ports.len()).filter(of).collect();
        let address = |n: &usize| &self.graph.interfaces()[*n];
        let near = own.iter().find(|n| Network::of(address(n).address, address(n).prefix).holds(next));
        let same = || own.iter().find(|n| address(n).address.is_ipv4() == next.is_ipv4());
        near.or_else(same).copied()
    }

    /// The agent that has the address of a next hop. A link-local one is that of the only other agent on the link.
    pub fn holder(&self, next: IpAddr, by: usize) -> Option<&str> {
        let all = self.graph.interfaces();
        if let Some(one) = all.iter().find(|one| one.address == next) {
            return Some(&one.agent);
        }
        if !matches!(next, IpAddr::V6(next) if next.segments()[0] & 0xffc0 == 0xfe80) {
            return None;
        }
        let link = Network::of(all[by].address, all[by].prefix);
        let mut others = all.iter().filter(|one| link.holds(one.address) && one.agent != all[by].agent);
        let other = others.next().map(|one| one.agent.as_str());
        other.filter(|_| others.next().is_none())
    }

    /// The agent at which packets of a host begin: the one that has its address, or else the first on the path of least
    /// cost from its network.
    pub fn first_agent(&self, ways: &[Path], from: IpAddr) -> Option<&str> {
        let all = self.graph.interfaces();
        let own = all.iter().find(|one| one.address == from);
        let first = || ways.first()?.first().and_then(|n| all.get(*n));
        own.or_else(first).map(|one| one.agent.as_str())
    }

    /// The graph of all links.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Agents whose links are missing, so that some paths may not be known now.
    pub fn away(&self) -> &[String] {
        &self.away
    }

    /// The networks, each with the interfaces on it.
    pub fn networks(&self) -> Vec<NetworkRow> {
        let mut networks: BTreeMap<Network, Vec<NetworkEnd>> = BTreeMap::new();
        for (of, port) in self.graph.interfaces().iter().zip(&self.ports) {
            let resource = port.resource.as_ref().map(|resource| format!("{}/{resource}", of.agent));
            networks.entry(Network::of(of.address, of.prefix)).or_default().push(NetworkEnd {
                agent: of.agent.clone(),
                interface: port.interface.clone(),
                address: of.address,
                resource,
                rate_wire_bps: port.rate,
            });
        }
        let row = |(network, ends): (Network, Vec<NetworkEnd>)| NetworkRow { network: network.to_string(), ends };
        networks.into_iter().map(row).collect()
    }

    /// At most `most` paths from one host to another, the shortest first. Empty: none is known, or there is
    /// no hop between the hosts.
    pub fn ways(&self, from: IpAddr, to: IpAddr, most: usize) -> Vec<Path> {
        let mut ways = self.graph.ways(from, to, most, |_| true).unwrap_or_default();
        // An interface with addresses of two families leads to the same neighbour twice.
        let mut seen = BTreeSet::new();
        ways.retain(|way| {
            !way.is_empty()
                && seen.insert(self.legs(way).map(|leg| (leg.agent, leg.interface.to_owned())).collect::<Vec<_>>())
        });
        ways
    }

    /// The interfaces of a path.
    pub fn legs<'a>(&'a self, way: &'a Path) -> impl Iterator<Item = PathHop<'a>> {
        way.iter().filter_map(|&number| self.ports.get(number)).map(|port| PathHop {
            agent: port.agent,
            interface: &port.interface,
            resource: port.resource.as_deref(),
        })
    }

    /// The network of a border link, AGENT/RESOURCE, of the same family as an address; and an address on it that
    /// is none of ours, for packets that come or go there.
    pub fn border(&self, link: &str, like: IpAddr) -> Option<(Network, IpAddr)> {
        let (agent, resource) = link.split_once('/')?;
        let all = || self.graph.interfaces().iter();
        let is = |of: &&PublishedLink| {
            of.agent == agent && of.resource == resource && of.address.is_ipv4() == like.is_ipv4()
        };
        let own = all().find(is)?;
        let network = Network::of(own.address, own.prefix);
        let mut beyond = (0..=u8::MAX).map_while(|number| network.nth(number));
        beyond.find(|address| all().all(|of| of.address != *address)).map(|address| (network, address))
    }

    /// The agreement about what comes in from a domain by a border link, AGENT/RESOURCE: the agent's index, and the
    /// resource there.
    pub fn agreement(&self, link: &str, peer: &str) -> Option<(usize, String)> {
        let (agent, resource) = link.split_once('/')?;
        let is = |port: &&Port| self.names[port.agent] == agent && port.resource.as_deref() == Some(resource);
        let port = self.ports.iter().find(is)?;
        let sla = port.slas.iter().find(|sla| sla.strip_prefix("sla/") == Some(peer))?;
        Some((port.agent, sla.clone()))
    }

    /// A path as a document; `routed`: packets take it.
    pub fn row(&self, way: &Path, routed: bool) -> PathRow {
        let hop = |leg: PathHop<'_>| {
            let agent = self.names[leg.agent].clone();
            let resource = leg.resource.map(|resource| format!("{agent}/{resource}"));
            Hop { interface: leg.interface.to_owned(), resource, agent }
        };
        let rate = way.iter().filter_map(|&number| self.ports.get(number)?.rate).min();
        PathRow { hops: self.legs(way).map(hop).collect(), rate_wire_bps: rate, routed }
    }
}

/// Parses `10.0.1.1/24`; link-local and loopback addresses are left out, as they lead nowhere.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    };
    (!address.is_loopback() && !link_local).then_some((address, prefix.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(interface: &str, address: &str) -> LinkRow {
        let resource = Some(format!("net/{interface}"));
        LinkRow {
            interface: interface.into(),
            addresses: vec![address.into()],
            resource,
            rate_wire_bps: Some(10),
            mtu: 1500,
            slas: Vec::new(),
        }
    }

    /// left - a - (b | c - d) - e - right; the hosts run no agents.
    fn map() -> LinkMap {
        let agents = vec![
            ("a", vec![link("in", "10.0.1.1/24"), link("b", "10.1.1.1/30"), link("c", "10.1.2.1/30")]),
            ("b", vec![link("a", "10.1.1.2/30"), link("e", "10.1.3.1/30")]),
            ("c", vec![link("a", "10.1.2.2/30"), link("d", "10.1.4.1/30")]),
            ("d", vec![link("c", "10.1.4.2/30"), link("e", "10.1.5.1/30")]),
            ("e", vec![link("b", "10.1.3.2/30"), link("d", "10.1.5.2/30"), link("out", "10.0.2.1/24")]),
        ];
        LinkMap::new(agents.into_iter().map(|(name, links)| (name.to_owned(), links)).collect())
    }

    fn ways(from: &str, to: &str) -> Vec<String> {
        let map = map();
        let say = |way: &Path| {
            map.row(way, false)
                .hops
                .iter()
                .map(|hop| format!("{}.{}", hop.agent, hop.interface))
                .collect::<Vec<_>>()
                .join(" ")
        };
        map.ways(from.parse().unwrap(), to.parse().unwrap(), 8).iter().map(say).collect()
    }

    #[test]
    fn the_shortest_first_and_both_directions() {
        assert_eq!(ways("10.0.1.9", "10.0.2.9"), ["a.b b.e e.out", "a.c c.d d.e e.out"]);
        assert_eq!(ways("10.0.2.9", "10.0.1.9"), ["e.b b.a a.in", "e.d d.c c.a a.in"]);
    }

    #[test]
    fn hosts_with_agents_of_their_own() {
        assert_eq!(ways("10.1.1.1", "10.1.3.2"), ["a.b b.e", "a.c c.d d.e"]);
        assert_eq!(ways("10.1.1.1", "10.0.2.9"), ["a.b b.e e.out", "a.c c.d d.e e.out"]);
        assert_eq!(ways("10.0.1.9", "10.1.1.2"), ["a.b", "a.c c.d d.e e.b"]);
    }

    #[test]
    fn nowhere() {
        assert!(ways("10.9.9.9", "10.0.2.9").is_empty());
        assert!(ways("10.0.1.9", "10.9.9.9").is_empty());
        assert!(ways("10.0.1.9", "fd00::1").is_empty());
        assert!(ways("10.1.1.1", "10.1.1.1").is_empty(), "to oneself nothing is sent");
    }

    #[test]
    fn two_families_on_the_same_links_are_one_way() {
        let both = |interface: &str, n: u8, of: u8| {
            let addresses = vec![format!("10.0.{n}.{of}/24"), format!("fd00:{n}::{of}/64"), format!("fe80::{of}/64")];
            LinkRow { addresses, ..link(interface, "") }
        };
        let map = LinkMap::new(vec![
            ("a".into(), vec![both("x", 1, 1), both("y", 2, 1)]),
            ("b".into(), vec![both("x", 2, 2), both("y", 3, 2)]),
        ]);
        assert_eq!(map.ways("10.0.1.9".parse().unwrap(), "10.0.3.9".parse().unwrap(), 8).len(), 1);
        assert_eq!(map.ways("fd00:1::9".parse().unwrap(), "fd00:3::9".parse().unwrap(), 8).len(), 1);
    }

    /// a - (b | c) - d with addresses of both families everywhere: the second way is not the first by other addresses.
    #[test]
    fn another_way_is_by_other_interfaces_and_not_by_other_addresses() {
        let both = |interface: &str, n: u8, of: u8| {
            let addresses = vec![format!("10.0.{n}.{of}/24"), format!("fd00:{n}::{of}/64")];
            LinkRow { addresses, ..link(interface, "") }
        };
        let map = LinkMap::new(vec![
            ("a".into(), vec![both("in", 1, 1), both("b", 2, 1), both("c", 3, 1)]),
            ("b".into(), vec![both("a", 2, 2), both("d", 4, 1)]),
            ("c".into(), vec![both("a", 3, 2), both("d", 5, 1)]),
            ("d".into(), vec![both("b", 4, 2), both("c", 5, 2), both("out", 6, 1)]),
        ]);
        for (from, to) in [("10.0.1.9", "10.0.6.9"), ("fd00:1::9", "fd00:6::9")] {
            assert_eq!(map.ways(from.parse().unwrap(), to.parse().unwrap(), 8).len(), 2, "{from} to {to}");
        }
    }

    #[test]
    fn a_dense_net_ends() {
        let links = |n: usize| (0..20).map(|m| link(&format!("i{m}"), &format!("10.{m}.0.{}/24", n + 1))).collect();
        let map = LinkMap::new((0..20).map(|n| (format!("a{n}"), links(n))).collect());
        assert!(map.ways("10.200.0.1".parse().unwrap(), "10.3.0.77".parse().unwrap(), 8).is_empty());
        let near = map.ways("10.0.0.77".parse().unwrap(), "10.3.0.77".parse().unwrap(), 8);
        assert_eq!(near[0].len(), 1, "one agent is on both networks");
    }
}
