//! Names in a scenario file: of nodes, links, groups; and entries that are repeated.

use super::text::{Repeat, ScenarioWindow};
use rpc::document::{Document, Mistake};
use sim::map::RouteMap;
use sim::scenario::{LinkId, NodeId};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use terms::Time;

/// The largest number of nodes, and of links.
pub const MAX_NODES: usize = 10_000;
/// The largest number of sources and connections together.
pub const MAX_FLOWS: usize = 200_000;

/// The state of a reader: the document, and the names found so far.
pub struct Reader<'a> {
    pub document: Document<'a>,
    pub nodes: BTreeMap<String, NodeId>,
    /// Links by the names of their ends.
    pub links: BTreeMap<(String, String), LinkId>,
    /// Names of groups, in the order of their numbers.
    pub groups: Vec<String>,
}

/// The counters of one copy of a repeated entry, by name.
pub type Counters = BTreeMap<String, u32>;

impl Reader<'_> {
    /// Creates a mistake at a place of the file.
    pub fn wrong(&self, at: Range<usize>, message: impl Into<String>) -> Mistake {
        self.document.at(at, message)
    }

    /// Returns every copy of an entry; one copy without counters if it is not repeated.
    pub fn copies(&self, repeat: &Repeat) -> Result<Vec<Counters>, Mistake> {
        let mut copies = vec![Counters::new()];
        let Some(spanned) = repeat else { return Ok(copies) };
        let all = spanned.get_ref().values().fold(1u64, |all, &count| all.saturating_mul(u64::from(count)));
        if all == 0 || all > MAX_FLOWS as u64 {
            let message = format!("this entry stands for {all} copies: allowed are 1 to {MAX_FLOWS}");
            return Err(self.wrong(spanned.span(), message));
        }
        for (name, &count) in spanned.get_ref() {
            let grown = copies.iter().flat_map(|copy| {
                (1..=count).map(|value| {
                    let mut copy = copy.clone();
                    copy.insert(name.clone(), value);
                    copy
                })
            });
            copies = grown.collect();
        }
        Ok(copies)
    }

    /// Returns a name with its counters filled in.
    pub fn fill(&self, name: &str, counters: &Counters, at: Range<usize>) -> Result<String, Mistake> {
        let filled = counters
            .iter()
            .fold(name.to_string(), |text, (name, n)| text.replace(&format!("{{{name}}}"), &n.to_string()));
        if filled.contains(['{', '}']) {
            let message = format!("{name:?} has a counter that `repeat` of this entry does not have");
            return Err(self.wrong(at, message));
        }
        Ok(filled)
    }

    /// Returns the node of that name.
    pub fn node(&self, name: &str, at: Range<usize>) -> Result<NodeId, Mistake> {
        self.nodes.get(name).copied().ok_or_else(|| self.wrong(at, format!("there is no node {name:?}")))
    }

    /// Finds a link by its ends, `yosemite-maui`, in either order. Names may contain a `-`.
    pub fn link(&self, name: &str, at: Range<usize>) -> Result<LinkId, Mistake> {
        let splits = name.match_indices('-').map(|(i, _)| (name[..i].to_string(), name[i + 1..].to_string()));
        let mut known = splits.filter_map(|(a, b)| {
            let backwards = (b.clone(), a.clone());
            self.links.get(&(a, b)).or_else(|| self.links.get(&backwards)).copied()
        });
        known.next().ok_or_else(|| self.wrong(at, format!("there is no link {name:?}: write its ends as NODE-NODE")))
    }

    /// Reads a node and a port, `"maui:5004"`.
    pub fn end(&self, text: &str, at: Range<usize>) -> Result<(NodeId, u16), Mistake> {
        let parts = text.rsplit_once(':');
        let (name, port) = parts.ok_or_else(|| self.wrong(at.clone(), format!("{text:?}: write NODE:PORT")))?;
        let port = port.parse().map_err(|_| self.wrong(at.clone(), format!("{port:?} is no port: 0 to 65535")))?;
        Ok((self.node(name, at)?, port))
    }

    /// Returns the number of a group. A new name makes a new group.
    pub fn group(&mut self, name: &str) -> u32 {
        let known = self.groups.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            self.groups.push(name.to_string());
            self.groups.len() - 1
        });
        place as u32
    }

    /// Returns the addresses of two ends between which there is a route.
    pub fn way(
        &self,
        map: &RouteMap,
        (from, from_at): (NodeId, Range<usize>),
        (to, to_at): (NodeId, Range<usize>),
    ) -> Result<(IpAddr, IpAddr), Mistake> {
        let address = |node: NodeId, at: Range<usize>| {
            let message = "that node has no link, so it has no address: add a link";
            map.address(node).ok_or_else(|| self.wrong(at, message))
        };
        let (src, dst) = (address(from, from_at)?, address(to, to_at.clone())?);
        if from != to && map.way_out(from, dst).is_none() {
            return Err(self.wrong(to_at, "there is no way there from the source: add a link"));
        }
        Ok((src, dst))
    }
}

/// Converts a window for the simulator.
pub fn window(window: ScenarioWindow) -> (Time, Time) {
    (window.0, window.1)
}
