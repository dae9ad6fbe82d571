//! The content of our own advertisement: networks, and ways between borders with their free amounts.

use crate::paths::LinkMap;
use crate::routed::AgentRoutes;
use booking::path::{Graph, Path, PathEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use terms::{Rate, Time};
use topology::coarse::{Grain, coarse, joined};
use topology::{Border, BorderPair, DomainPort, FreeStep, Network};

/// The most ways between two borders that are looked at.
const WAYS: usize = 4;
/// The most addresses to which routes are asked for; the ways to the networks of others are those of least cost.
const MOST_ADDRESSES: usize = 256;

/// The capacity of a resource, and its free amounts over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FreeOverTime {
    /// The most that can be reserved at all.
    pub rate: Rate,
    /// The free amounts.
    pub steps: Vec<FreeStep>,
}

/// The free amounts of each resource, by agent and resource.
pub type FreeAmounts = BTreeMap<(String, String), FreeOverTime>;

/// The content of an advertisement, exact.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnDomain {
    /// The networks of hosts.
    pub networks: Vec<Network>,
    /// The ways.
    pub pairs: Vec<BorderPair>,
}

impl OwnDomain {
    /// The same, with what is free from `start` to `end` in coarse steps.
    pub fn coarse(&self, start: Time, end: Time, grain: Grain) -> OwnDomain {
        let pair = |pair: &BorderPair| BorderPair { free: coarse(&pair.free, start, end, grain), ..pair.clone() };
        OwnDomain { networks: self.networks.clone(), pairs: self.pairs.iter().map(pair).collect() }
    }
}

/// A border of ours: the link, the agent on our side, and the interface by which packets leave.
struct OwnBorder<'a> {
    border: Border,
    agent: &'a str,
    by: usize,
}

/// How packets find their way inside.
#[derive(Clone, Copy, Debug)]
pub enum InnerRouting<'a> {
    /// They take the way that is reserved, so that any of several counts.
    Steered,
    /// They take the kernels' routes; where these are not known, the way of least cost is taken for theirs.
    Kernels(&'a AgentRoutes),
}

/// The parts of a domain from which its ways are made.
struct Parts<'a> {
    map: &'a LinkMap,
    graph: &'a Graph,
    free: &'a FreeAmounts,
    borders: Vec<OwnBorder<'a>>,
    /// The interfaces on border links: interior ways do not use them.
    outward: BTreeSet<usize>,
    routing: InnerRouting<'a>,
}

/// The content that a domain with these links publishes. `neighbours` has the name of each neighbour, and the resources by which
/// packets leave to it.
pub fn own_domain(
    map: &LinkMap,
    free: &FreeAmounts,
    neighbours: &[(&str, &[String])],
    routing: InnerRouting<'_>,
) -> OwnDomain {
    let graph = map.graph();
    let mut borders = Vec::new();
    let mut outward = BTreeSet::new();
    for (neighbour, links) in neighbours {
        for link in *links {
            let Some((agent, resource)) = link.split_once('/') else { continue };
            let all = graph.interfaces().iter().enumerate();
            let on: Vec<usize> =
                all.filter(|(_, one)| one.agent == agent && one.resource == resource).map(|(n, _)| n).collect();
            outward.extend(&on);
            // Both sides choose the same network of a link that has several.
            let network = |n: &usize| Network::of(graph.interfaces()[*n].address, graph.interfaces()[*n].prefix);
            let Some(by) = on.into_iter().min_by_key(network) else { continue };
            let border = Border { neighbour: (*neighbour).to_owned(), link: network(&by) };
            borders.push(OwnBorder { border, agent: &graph.interfaces()[by].agent, by });
        }
    }
    let networks = networks(graph, &outward);
    let parts = Parts { map, graph, free, borders, outward, routing };
    OwnDomain { pairs: parts.pairs(), networks }
}

/// An address of ours on each network: to these the agents' kernels are asked for their routes.
pub fn addresses(map: &LinkMap) -> Vec<IpAddr> {
    let mut first = BTreeMap::new();
    for one in map.graph().interfaces() {
        first.entry(Network::of(one.address, one.prefix)).or_insert(one.address);
    }
    first.into_values().take(MOST_ADDRESSES).collect()
}

/// The networks inside, and our own addresses on border links, each alone.
fn networks(graph: &Graph, outward: &BTreeSet<usize>) -> Vec<Network> {
    let all = graph.interfaces().iter().enumerate().map(|(n, one)| match outward.contains(&n) {
        true => Network::of(one.address, u8::MAX),
        false => Network::of(one.address, one.prefix),
    });
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

impl Parts<'_> {
    fn pairs(&self) -> Vec<BorderPair> {
        let interior: BTreeSet<Network> = self
            .graph
            .interfaces()
            .iter()
            .enumerate()
            .filter(|(n, _)| !self.outward.contains(n))
            .map(|(_, one)| Network::of(one.address, one.prefix))
            .collect();
        let subnet = |network: &Network| PathEnd::Subnet(network.address(), network.prefix());
        let mut pairs = Vec::new();
        for border in &self.borders {
            let here = PathEnd::Agent(border.agent);
            let out = interior.iter().flat_map(|network| self.ways(subnet(network), here, Some(border.by)));
            pairs.extend(self.pair(DomainPort::Inside, DomainPort::At(border.border.clone()), out));
            let back = interior.iter().flat_map(|network| self.ways(here, subnet(network), None));
            pairs.extend(self.pair(DomainPort::At(border.border.clone()), DomainPort::Inside, back));
            for other in self.borders.iter().filter(|other| other.by != border.by) {
                let through = self.ways(here, PathEnd::Agent(other.agent), Some(other.by));
                let ends = [border, other].map(|one| DomainPort::At(one.border.clone()));
                let [from, to] = ends;
                pairs.extend(self.pair(from, to, through.into_iter()));
            }
        }
        pairs
    }

    /// The ways between two ends inside, and out by an interface. Without steering it is one: that of the kernels.
    fn ways(&self, from: PathEnd<'_>, to: PathEnd<'_>, out: Option<usize>) -> Vec<Path> {
        let usable = |n: usize| !self.outward.contains(&n) && !self.graph.interfaces()[n].resource.is_empty();
        let most = if matches!(self.routing, InnerRouting::Steered) { WAYS } else { 1 };
        let mut ways = self.graph.ways_between(from, to, most, usable);
        if let (InnerRouting::Kernels(routes), Some(cheapest)) = (self.routing, ways.first_mut())
            && let Some(taken) = self.taken(routes, (from, to), out, cheapest)
        {
            *cheapest = taken;
        }
        ways.iter_mut().for_each(|way| way.extend(out));
        ways
    }

    /// The way that packets take by the kernels' routes, as far as it stays inside. `None`: it is not known.
    fn taken(
        &self,
        routes: &AgentRoutes,
        ends: (PathEnd<'_>, PathEnd<'_>),
        out: Option<usize>,
        cheapest: &Path,
    ) -> Option<Path> {
        let all = self.graph.interfaces();
        let first = match (ends.0, cheapest.first()) {
            (PathEnd::Agent(agent), _) => agent,
            (_, Some(first)) => all[*first].agent.as_str(),
            _ => return None,
        };
        let goal = match (ends.1, out) {
            (_, Some(out)) => all[out].address,
            (PathEnd::Subnet(address, prefix), None) => {
                let network = Network::of(address, prefix);
                all.iter().find(|one| Network::of(one.address, one.prefix) == network)?.address
            }
            _ => return None,
        };
        let mut taken = routes.way(self.map, first, goal)?;
        // An agent has the address that was asked for: from there a host on the network is reached by its interface.
        if out.is_none()
            && taken.last().is_none_or(|last| !Network::of(all[*last].address, all[*last].prefix).holds(goal))
        {
            taken.push(all.iter().position(|one| one.address == goal)?);
        }
        let inside = |n: &usize| !self.outward.contains(n) && !all[*n].resource.is_empty();
        taken.iter().all(inside).then_some(taken)
    }

    /// One pair of all these ways: the least cost, and at each moment what is free on the freest. `None`: there is none.
    fn pair(&self, from: DomainPort, to: DomainPort, ways: impl Iterator<Item = Path>) -> Option<BorderPair> {
        let mut pair: Option<BorderPair> = None;
        for way in ways.filter(|way| !way.is_empty()) {
            let cost = u32::try_from(self.graph.cost(&way)).unwrap_or(u32::MAX);
            let FreeOverTime { rate, steps } = self.free_on(&way);
            pair = Some(match pair {
                None => BorderPair { from: from.clone(), to: to.clone(), rate, cost, free: steps },
                Some(known) => BorderPair {
                    rate: known.rate.max(rate),
                    cost: known.cost.min(cost),
                    free: joined(&known.free, &steps, Rate::max),
                    ..known
                },
            });
        }
        pair
    }

    /// The least of what is free on a way. An interface of which nothing is known has nothing free.
    fn free_on(&self, way: &Path) -> FreeOverTime {
        let of = |n: &usize| {
            let one = &self.graph.interfaces()[*n];
            self.free.get(&(one.agent.clone(), one.resource.clone())).cloned().unwrap_or_default()
        };
        let least = |a: FreeOverTime, b: FreeOverTime| FreeOverTime {
            rate: a.rate.min(b.rate),
            steps: joined(&a.steps, &b.steps, Rate::min),
        };
        way.iter().map(of).reduce(least).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::links::{LinkRow, RouteRow};

    fn link(interface: &str, address: &str) -> LinkRow {
        LinkRow {
            interface: interface.into(),
            addresses: vec![address.into()],
            resource: Some(format!("net/{interface}")),
            rate_wire_bps: None,
            mtu: 1500,
            slas: Vec::new(),
        }
    }

    /// anl - west - (north | south) - east - lbnl, as in Figure 3; hosts on a network of north.
    fn esnet() -> LinkMap {
        LinkMap::new(vec![
            ("west".into(), vec![link("anl", "10.0.3.2/30"), link("n", "10.0.4.1/30"), link("s", "10.0.6.1/30")]),
            ("north".into(), vec![link("w", "10.0.4.2/30"), link("e", "10.0.5.1/30"), link("hosts", "10.9.0.1/24")]),
            ("south".into(), vec![link("w", "10.0.6.2/30"), link("e", "10.0.7.1/30")]),
            ("east".into(), vec![link("n", "10.0.5.2/30"), link("s", "10.0.7.2/30"), link("lbnl", "10.0.8.1/30")]),
        ])
    }

    /// Everything has 50 Mb/s free, but what is named.
    fn free(map: &LinkMap, others: &[(&str, &str, u64)]) -> FreeAmounts {
        let of = |mbps| FreeOverTime {
            rate: Rate::from_mbps(55),
            steps: vec![FreeStep { start: Time::ZERO, rate: Rate::from_mbps(mbps) }],
        };
        let all = map.graph().interfaces().iter();
        let mut free: FreeAmounts = all.map(|one| ((one.agent.clone(), one.resource.clone()), of(50))).collect();
        for (agent, interface, mbps) in others {
            free.insert(((*agent).to_owned(), format!("net/{interface}")), of(*mbps));
        }
        free
    }

    fn shown(map: &LinkMap, free: &FreeAmounts, routing: InnerRouting<'_>) -> Vec<String> {
        let (anl, lbnl) = (["west/net/anl".to_owned()], ["east/net/lbnl".to_owned()]);
        let found = own_domain(map, free, &[("anl", &anl[..]), ("lbnl", &lbnl[..])], routing);
        let name = |port: &DomainPort| match port {
            DomainPort::Inside => "inside".to_owned(),
            DomainPort::At(border) => border.neighbour.clone(),
        };
        let mbps = |pair: &BorderPair| pair.free_in(Time::ZERO, Time::from_nanos(1)).as_bps() / 1_000_000;
        found
            .pairs
            .iter()
            .map(|one| format!("{}-{} {} {}", name(&one.from), name(&one.to), one.cost, mbps(one)))
            .collect()
    }

    fn routes(map: &LinkMap, south: bool) -> AgentRoutes {
        // West to the border of lbnl, by way of south.
        let row = |interface: &str, gateway: &str| RouteRow {
            to: "10.0.8.1".parse().unwrap(),
            interface: Some(interface.into()).filter(|_| !gateway.is_empty()),
            gateway: gateway.parse().ok(),
            local: gateway.is_empty(),
        };
        assert!(addresses(map).contains(&"10.0.8.1".parse().unwrap()));
        let via = if south { row("s", "10.0.6.2") } else { row("n", "10.0.4.2") };
        AgentRoutes::new([vec![via], vec![row("e", "10.0.5.2")], vec![row("e", "10.0.7.2")], vec![row("", "")]])
    }

    #[test]
    fn border_pairs_have_what_is_free_on_the_way_that_packets_take() {
        let map = esnet();
        let full_north = free(&map, &[("north", "e", 5)]);
        let by = |south| shown(&map, &full_north, InnerRouting::Kernels(&routes(&map, south)));
        let through = |all: &[String]| all.iter().find(|one| one.starts_with("anl-lbnl")).unwrap().clone();
        assert_eq!(through(&by(false)), "anl-lbnl 3 5", "packets go by way of north");
        assert_eq!(through(&by(true)), "anl-lbnl 3 50", "packets go by way of south");
        assert_eq!(through(&shown(&map, &full_north, InnerRouting::Steered)), "anl-lbnl 3 50");
        let none = AgentRoutes::default();
        let all = shown(&map, &free(&map, &[("west", "anl", 7)]), InnerRouting::Kernels(&none));
        let whole = [
            "inside-anl 1 7",
            "anl-inside 1 50",
            "anl-lbnl 3 50",
            "inside-lbnl 1 50",
            "lbnl-inside 1 50",
            "lbnl-anl 3 7",
        ];
        assert_eq!(all, whole);
    }

    #[test]
    fn a_border_that_is_away_is_not_published_and_networks_are_those_inside() {
        let map = esnet();
        let away = LinkMap::new(vec![("west".into(), vec![link("anl", "10.0.3.2/30"), link("n", "10.0.4.1/30")])]);
        let all = shown(&away, &free(&map, &[]), InnerRouting::Steered);
        assert_eq!(all, ["inside-anl 1 50", "anl-inside 1 50"]);
        // What an agent does not say is free is not.
        assert_eq!(shown(&away, &FreeAmounts::new(), InnerRouting::Steered), ["inside-anl 1 0", "anl-inside 1 0"]);
        let links = ["west/net/anl".to_owned()];
        let found = own_domain(&away, &FreeAmounts::new(), &[("anl", &links[..])], InnerRouting::Steered);
        let networks: Vec<String> = found.networks.iter().map(Network::to_string).collect();
        assert_eq!(networks, ["10.0.3.2/32", "10.0.4.0/30"]);
    }
}
