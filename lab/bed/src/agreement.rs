//! Agreements between the domains of a testbed.
//!
//! ```toml
//! [[sla]]
//! from = "anl"               # whose premium packets
//! to = "esnet"               # come in to this neighbour
//! rate = "55mbit"            # at most so many together, bit/s of IP bytes
//! background = "90%"         # as in the agent's configuration; so are `meter`, `grows_to`, `most`,
//!                            # `immediate_only`, `transit` and `ahead`
//! at = "esnet-west"          # the node where they come in; needed if several links join the two
//! ```
//!
//! Each becomes an `[[sla]]` in the configuration of the agent at the border, and a rule of its policy by which the
//! neighbour may book on it.

use crate::domain::{BorderLink, TestbedDomains};
use crate::topology::Topology;
use rpc::document::{Document, Mistake};
use serde::Deserialize;
use toml::Spanned;

/// An agreement between two domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestbedSla {
    /// The name of the domain whose packets come in.
    pub peer: String,
    /// Position of the node where they do.
    pub node: usize,
    /// The text of its section in the agent's configuration.
    pub section: String,
    /// True if people of other neighbours may book on it.
    pub transit: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestbedSlaFile {
    from: Spanned<String>,
    to: Spanned<String>,
    at: Option<Spanned<String>>,
    rate: String,
    grows_to: Option<String>,
    background: Option<String>,
    meter: Option<String>,
    most: Option<String>,
    immediate_only: Option<bool>,
    transit: Option<bool>,
    ahead: Option<String>,
}

/// Reads the agreements of a file. What they say of rates the agent reads and checks.
pub(crate) fn read(
    document: &Document<'_>,
    found: &[TestbedSlaFile],
    topology: &Topology,
    domains: &TestbedDomains,
) -> Result<Vec<TestbedSla>, Mistake> {
    let mut all: Vec<TestbedSla> = Vec::new();
    for entry in found {
        let sla = entry.sla(document, topology, domains)?;
        if all.iter().any(|other| other.peer == sla.peer && other.node == sla.node) {
            let (from, node) = (&sla.peer, &topology.nodes[sla.node].name);
            let what = format!("{node} has an agreement with {from} already");
            return Err(document.at(entry.from.span(), what));
        }
        all.push(sla);
    }
    Ok(all)
}

impl TestbedSlaFile {
    fn sla(
        &self,
        document: &Document<'_>,
        topology: &Topology,
        domains: &TestbedDomains,
    ) -> Result<TestbedSla, Mistake> {
        let number = |name: &Spanned<String>| {
            let place = domains.all.iter().position(|domain| domain.name == *name.get_ref());
            place.ok_or_else(|| document.at(name.span(), format!("there is no [[domain]] {:?}", name.get_ref())))
        };
        let (from, to) = (number(&self.from)?, number(&self.to)?);
        let here = |border: &BorderLink| {
            border.neighbour == from
                && self.at.as_ref().is_none_or(|at| topology.nodes[border.node].name == *at.get_ref())
        };
        let borders: Vec<BorderLink> = domains.borders(topology, to).into_iter().filter(here).collect();
        let [border] = borders.as_slice() else {
            let (a, b) = (self.from.get_ref(), self.to.get_ref());
            let what = match borders.is_empty() {
                true => format!("{a} and {b} are no neighbours there: no link joins them"),
                false => format!("several links join {a} and {b}: say at which node, as in at = \"NODE\""),
            };
            return Err(document.at(self.to.span(), what));
        };
        let mut section = format!(
            "\n[[sla]]\npeer = {:?}\ninterface = {:?}\nrate = {:?}\n",
            self.from.get_ref(),
            border.interface,
            self.rate
        );
        for (key, text) in [
            ("grows_to", &self.grows_to),
            ("background", &self.background),
            ("meter", &self.meter),
            ("most", &self.most),
            ("ahead", &self.ahead),
        ] {
            section += &text.as_ref().map_or(String::new(), |text| format!("{key} = {text:?}\n"));
        }
        section += &self.immediate_only.map_or(String::new(), |only| format!("immediate_only = {only}\n"));
        section += &self.transit.map_or(String::new(), |transit| format!("transit = {transit}\n"));
        let transit = self.transit.unwrap_or(false);
        Ok(TestbedSla { peer: self.from.get_ref().clone(), node: border.node, section, transit })
    }
}
