//! The domains of a testbed: each has its own authority, its broker, and some of the nodes.
//!
//! ```toml
//! [[domain]]
//! name = "anl"
//! broker = "anl-border"      # the node on which its broker runs; one of its own
//! requesters = ["alice"]     # people with a certificate each; default: alice
//! may_ask = ["lbnl"]         # domains behind a neighbour whose brokers may ask this one's for trees; default: none
//!
//! [[node]]
//! name = "anl-border"
//! kind = "router"
//! domain = "anl"             # with domains, every node is in one
//! ```
//!
//! Two domains with a link between them are neighbours, and the ends of that link have the role `peer`.

use crate::topology::{PREFIX, Topology};
use agent_service::settings::node_name;
use rpc::document::{Document, Mistake};
use serde::Deserialize;
use std::collections::{BTreeSet, VecDeque};
use toml::Spanned;

/// The most domains.
pub const MAX_DOMAINS: usize = 64;
/// The folder of all domains, among those of the nodes.
pub const FOLDER: &str = "domains";
/// The requester that a domain has if its file names none.
const REQUESTER: &str = "alice";

/// A domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestbedDomain {
    /// Its name, by which its neighbours know it too.
    pub name: String,
    /// Position of the node on which its broker runs.
    pub broker: usize,
    /// The people with a certificate.
    pub requesters: Vec<String>,
    /// Positions of the domains behind a neighbour whose brokers may ask this one's.
    pub may_ask: Vec<usize>,
}

/// All domains of a testbed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TestbedDomains {
    /// The domains; empty: the testbed has none.
    pub all: Vec<TestbedDomain>,
    /// The position of each node's domain.
    pub of_node: Vec<Option<usize>>,
}

/// A link of a domain to a neighbour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BorderLink {
    /// Position of the neighbour among the domains.
    pub neighbour: usize,
    /// Position of our node.
    pub node: usize,
    /// Its interface towards the neighbour.
    pub interface: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestbedDomainFile {
    name: Spanned<String>,
    broker: Spanned<String>,
    requesters: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    may_ask: Vec<Spanned<String>>,
}

impl TestbedDomains {
    /// Reads the domains of a file; `domains` are those that the nodes name, in the order of the nodes.
    pub(crate) fn read(
        document: &Document<'_>,
        found: &[TestbedDomainFile],
        topology: &Topology,
        domains: &[Option<&Spanned<String>>],
    ) -> Result<TestbedDomains, Mistake> {
        if found.len() > MAX_DOMAINS {
            return Err(document.whole(format!("more than {MAX_DOMAINS} domains")));
        }
        let mut names = BTreeSet::new();
        for one in found {
            let name = node_name(document, &one.name)?;
            if name == trust::HOME || !names.insert(name.clone()) {
                let what = format!("{name:?}: a domain is there once, and none is called {:?}", trust::HOME);
                return Err(document.at(one.name.span(), what));
            }
        }
        let position = |name: &Spanned<String>| found.iter().position(|one| one.name.get_ref() == name.get_ref());
        let mut of_node = Vec::with_capacity(domains.len());
        for (node, said) in topology.nodes.iter().zip(domains) {
            let place = match said {
                Some(name) => {
                    let wrong = || document.at(name.span(), format!("there is no [[domain]] {:?}", name.get_ref()));
                    Some(position(name).ok_or_else(wrong)?)
                }
                None if found.is_empty() => None,
                None => return Err(document.whole(format!("the node {} is in no domain", node.name))),
            };
            if place.is_some() && node.name == FOLDER {
                return Err(document.whole(format!("with domains no node is called {FOLDER:?}")));
            }
            of_node.push(place);
        }
        let all = found.iter().enumerate().map(|(number, one)| one.domain(document, topology, &of_node, number));
        let mut domains = TestbedDomains { all: all.collect::<Result<_, _>>()?, of_node };
        for (number, one) in found.iter().enumerate() {
            let near: BTreeSet<usize> =
                domains.borders(topology, number).iter().map(|border| border.neighbour).chain([number]).collect();
            for name in &one.may_ask {
                let wrong =
                    || document.at(name.span(), format!("{:?} is no domain behind a neighbour", name.get_ref()));
                let place = position(name).filter(|place| !near.contains(place)).ok_or_else(wrong)?;
                domains.all[number].may_ask.push(place);
            }
        }
        Ok(domains)
    }

    /// The domain of a node.
    pub fn of(&self, node: usize) -> Option<&TestbedDomain> {
        self.all.get(self.of_node.get(node).copied().flatten()?)
    }

    /// The positions of a domain's nodes.
    pub fn nodes(&self, domain: usize) -> impl Iterator<Item = usize> {
        self.of_node.iter().enumerate().filter(move |(_, of)| **of == Some(domain)).map(|(node, _)| node)
    }

    /// The links of a domain to its neighbours, in the order of its nodes.
    pub fn borders(&self, topology: &Topology, domain: usize) -> Vec<BorderLink> {
        let mut all = Vec::new();
        for node in self.nodes(domain) {
            for end in topology.ends(node) {
                if let Some(neighbour) = self.of_node[end.peer].filter(|other| *other != domain) {
                    all.push(BorderLink { neighbour, node, interface: end.interface });
                }
            }
        }
        all
    }

    /// The networks that a domain reaches best through a neighbour: those of links inside other domains, and
    /// between them, by the number of domains on the way.
    pub fn networks(&self, topology: &Topology, domain: usize, neighbour: usize) -> Vec<String> {
        let steps = |from: usize| {
            let mut steps = vec![usize::MAX; self.all.len()];
            let mut next = VecDeque::from([from]);
            // Not through ourselves.
            (steps[from], steps[domain]) = (0, 0);
            while let Some(at) = next.pop_front() {
                for border in self.borders(topology, at) {
                    if steps[border.neighbour] == usize::MAX {
                        steps[border.neighbour] = steps[at] + 1;
                        next.push_back(border.neighbour);
                    }
                }
            }
            steps
        };
        let mut others: Vec<usize> = self.borders(topology, domain).iter().map(|border| border.neighbour).collect();
        others.sort_unstable();
        others.dedup();
        let all: Vec<(usize, Vec<usize>)> = others.into_iter().map(|other| (other, steps(other))).collect();
        let best = |of: usize| all.iter().filter(|(_, steps)| steps[of] < usize::MAX).min_by_key(|(_, s)| s[of]);
        let mut networks = BTreeSet::new();
        for node in 0..topology.nodes.len() {
            let Some(of) = self.of_node[node].filter(|of| *of != domain) else { continue };
            if best(of).is_none_or(|(other, _)| *other != neighbour) {
                continue;
            }
            for end in topology.ends(node) {
                if self.of_node[end.peer] != Some(domain) {
                    networks.insert(end.link);
                }
            }
        }
        networks.into_iter().map(|link| format!("{}/{PREFIX}", Topology::network(link))).collect()
    }

    /// True if the two ends of a link are in different domains.
    pub fn is_border(&self, ends: [usize; 2]) -> bool {
        let [a, b] = ends.map(|node| self.of_node.get(node).copied().flatten());
        a != b
    }
}

impl TestbedDomainFile {
    fn domain(
        &self,
        document: &Document<'_>,
        topology: &Topology,
        of_node: &[Option<usize>],
        number: usize,
    ) -> Result<TestbedDomain, Mistake> {
        let place = topology.nodes.iter().position(|node| node.name == *self.broker.get_ref());
        let own = place.filter(|node| of_node[*node] == Some(number));
        let wrong = |what: &str| document.at(self.broker.span(), format!("{:?} {what}", self.broker.get_ref()));
        let broker = own.ok_or_else(|| wrong("is no node of this domain"))?;
        if topology.address(broker).is_none() {
            return Err(wrong("has no link, so nobody can reach a broker there"));
        }
        let requesters = match &self.requesters {
            None => vec![REQUESTER.to_owned()],
            Some(names) => names.iter().map(|name| node_name(document, name)).collect::<Result<_, _>>()?,
        };
        Ok(TestbedDomain { name: self.name.get_ref().clone(), broker, requesters, may_ask: Vec::new() })
    }
}
