//! The content of our own advertisement: networks, and ways between borders with their free amounts.

use crate::paths::LinkMap;
use booking::path::{Graph, Path, PathEnd};
use std::collections::{BTreeMap, BTreeSet};
use terms::{Rate, Time};
use topology::coarse::{Grain, coarse, joined};
use topology::{Border, BorderPair, DomainPort, FreeStep, Network};

/// The most ways between two borders that are looked at.
const WAYS: usize = 4;

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

/// The parts of a domain from which its ways are made.
struct Parts<'a> {
    graph: &'a Graph,
    free: &'a FreeAmounts,
    borders: Vec<OwnBorder<'a>>,
    /// The interfaces on border links: interior ways do not use them.
    outward: BTreeSet<usize>,
    /// True: packets take the way that is reserved, so that any of several counts.
    steered: bool,
}

/// The content that a domain with these links publishes. `neighbours` has the name of each neighbour, and the resources by which
/// packets leave to it.
pub fn own_domain(map: &LinkMap, free: &FreeAmounts, neighbours: &[(&str, &[String])], steered: bool) -> OwnDomain {
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
    let parts = Parts { graph, free, borders, outward, steered };
    OwnDomain { pairs: parts.pairs(), networks }
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

    /// The ways between two ends inside, and out by an interface. Without steering packets take the first only.
    fn ways(&self, from: PathEnd<'_>, to: PathEnd<'_>, out: Option<usize>) -> Vec<Path> {
        let usable = |n: usize| !self.outward.contains(&n) && !self.graph.interfaces()[n].resource.is_empty();
        let most = if self.steered { WAYS } else { 1 };
        let mut ways = self.graph.ways_between(from, to, most, usable);
        ways.iter_mut().for_each(|way| way.extend(out));
        ways
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
