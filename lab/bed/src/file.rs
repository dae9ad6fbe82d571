//! The topology file of a testbed.
//!
//! ```toml
//! name = "seed"
//! auth = "none"         # messages are not signed; default: `sluice up` makes a key for each link
//!
//! kept_back = "2%"      # of every link, as in the agent's configuration
//! log = "info"          # of every agent, as in its configuration
//!
//! [rsvp]                # as in the agent's configuration; for every node
//! refresh = "30s"
//!
//! [boomerang]           # if it is there, agents speak Boomerang too
//! fast_path = false     # whether the kernel admits by itself
//!
//! [[domain]]            # several of them: each with its own authority and broker, see `domain`
//! [[sla]]               # agreements between them, see `agreement`
//!
//! [[node]]
//! name = "maui"
//! kind = "router"       # or "host"
//! settings = """        # more of its agent's configuration, after what `sluice up` writes
//! [cpu]
//! """
//!
//! [[link]]
//! between = ["yosemite", "maui"]
//! rate = "10mbit"       # each way, link headers included
//! mtu = 1500            # the default
//! delay = "25ms"        # each way, by a process in the middle of the link; default: none
//! delay_bound = "20ms"  # both ends are queued by a plane in user space, which declares this D; default: by the kernel
//! role = "peer"         # of both ends, as in the agent's configuration; default: a router's end towards a host is an edge,
//!                       # one towards another domain is a peer, every other is core
//! premium = "45mbit"    # what bookings may have of it together; default: all that is reservable
//! core = { premium = "30mbit", background = "25mbit" }   # what routers set apart for marked packets without a booking there
//! ```

use crate::agreement::{self, TestbedSla, TestbedSlaFile};
use crate::domain::{TestbedDomainFile, TestbedDomains};
use crate::served::MAX_BOUND;
use crate::topology::{MAX_LINKS, MAX_NODES, TestbedLink, TestbedNode, TestbedNodeKind, Topology};
use crate::wire::MAX_DELAY;
use agent_service::config::DEFAULT_KEPT_BACK;
use agent_service::role::InterfaceRole;
use agent_service::settings::{self, RsvpFile, link_rate, node_name, rsvp_config, share};
use agent_service::{Level, RateShare};
use rpc::document::{Document, Mistake, read};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use terms::Span;
use toml::Spanned;

/// A testbed as its file describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestbedFile {
    /// Nodes and links.
    pub topology: Topology,
    /// Timing of RSVP on every node.
    pub rsvp: rsvp::io::Config,
    /// The share of every link that stays with best effort and signalling.
    pub kept_back: RateShare,
    /// The log level of every agent.
    pub log: Level,
    /// True if each link gets a key.
    pub keys: bool,
    /// The most that bookings may have of each link together; `None`: not set.
    pub premium: Vec<Option<RateShare>>,
    /// The rates that the routers at each link set apart for premium and background packets; `None`: not set.
    pub cores: Vec<Option<[RateShare; 2]>>,
    /// The roles of each link's ends; `None`: not set.
    pub roles: Vec<Option<InterfaceRole>>,
    /// The delay of each link, each way; `None`: a short one.
    pub delays: Vec<Option<Span>>,
    /// The delay bound that the planes in user space at both ends of each link declare; `None`: the kernel queues there.
    pub bounds: Vec<Option<Span>>,
    /// More of the configuration of a node's agent, by its name.
    pub settings: BTreeMap<String, String>,
    /// Its domains, if it has any.
    pub domains: TestbedDomains,
    /// The agreements between them.
    pub slas: Vec<TestbedSla>,
    /// True if every agent speaks Boomerang: `[boomerang]` is there.
    pub boomerang: bool,
    /// True if the kernel admits Boomerang's sessions by itself.
    pub fast_path: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    auth: Option<Spanned<String>>,
    log: Option<Spanned<String>>,
    kept_back: Option<Spanned<String>>,
    rsvp: Option<RsvpFile>,
    boomerang: Option<BoomerangFile>,
    #[serde(default)]
    domain: Vec<TestbedDomainFile>,
    #[serde(default)]
    sla: Vec<TestbedSlaFile>,
    #[serde(default)]
    node: Vec<NodeFile>,
    #[serde(default)]
    link: Vec<LinkFile>,
}

/// An empty section: every node uses the defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BoomerangFile {
    #[serde(default)]
    fast_path: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeFile {
    name: Spanned<String>,
    kind: Spanned<String>,
    domain: Option<Spanned<String>>,
    settings: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    between: Spanned<Vec<Spanned<String>>>,
    rate: Spanned<String>,
    mtu: Option<Spanned<u32>>,
    delay: Option<Spanned<String>>,
    delay_bound: Option<Spanned<String>>,
    premium: Option<Spanned<String>>,
    core: Option<CoreFile>,
    role: Option<Spanned<String>>,
}

/// As in the agent's configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoreFile {
    premium: Spanned<String>,
    background: Spanned<String>,
}

impl CoreFile {
    fn read(&self, document: &Document<'_>) -> Result<[RateShare; 2], Mistake> {
        Ok([share(document, &self.premium)?, share(document, &self.background)?])
    }
}

impl TestbedFile {
    /// Another refresh period on every node, and as many senders without a reservation as go with it.
    pub fn set_refresh(&mut self, refresh: Span) {
        settings::set_refresh(&mut self.rsvp, refresh);
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn load(file: &Path) -> Result<TestbedFile, Mistake> {
        TestbedFile::parse(file, &read(file)?)
    }

    /// Reads a text that came from `file`.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn parse(file: &Path, text: &str) -> Result<TestbedFile, Mistake> {
        let document = Document::new(file, text);
        let found: File = document.parse()?;
        let keys = settings::auth(&document, found.auth.as_ref(), None)?.is_none();
        let name = node_name(&document, &found.name)?;
        let log = match &found.log {
            Some(level) => level.get_ref().parse().map_err(|wrong: String| document.at(level.span(), wrong))?,
            None => Level::Info,
        };
        let kept_back = found.kept_back.as_ref().map_or(Ok(DEFAULT_KEPT_BACK), |text| share(&document, text))?;
        let (nodes, by_name) = nodes(&document, &found.node)?;
        let links = links(&document, &found.link, &by_name)?;
        let topology = Topology { name, nodes, links };
        topology.check().map_err(|wrong| document.whole(wrong))?;
        let of_nodes: Vec<Option<&Spanned<String>>> = found.node.iter().map(|node| node.domain.as_ref()).collect();
        let domains = TestbedDomains::read(&document, &found.domain, &topology, &of_nodes)?;
        let slas = agreement::read(&document, &found.sla, &topology, &domains)?;
        let premium = |link: &LinkFile| link.premium.as_ref().map(|text| share(&document, text)).transpose();
        let premium = found.link.iter().map(premium).collect::<Result<_, _>>()?;
        let cores = found.link.iter().map(|link| link.core.as_ref().map(|core| core.read(&document)).transpose());
        let cores = cores.collect::<Result<_, _>>()?;
        let roles = found.link.iter().map(|link| settings::role(&document, link.role.as_ref()));
        let roles = roles.collect::<Result<_, _>>()?;
        let delays = found.link.iter().map(|link| delay(&document, link.delay.as_ref())).collect::<Result<_, _>>()?;
        let bounds = found.link.iter().map(|link| bound(&document, link)).collect::<Result<_, _>>()?;
        let more = found.node.iter().filter_map(|node| Some((node.name.get_ref().clone(), node.settings.clone()?)));
        let settings = more.collect();
        let (rsvp, boomerang) = (rsvp_config(&document, found.rsvp.as_ref())?, found.boomerang.is_some());
        let fast_path = found.boomerang.is_some_and(|file| file.fast_path);
        Ok(TestbedFile {
            topology,
            rsvp,
            kept_back,
            log,
            keys,
            premium,
            cores,
            roles,
            delays,
            bounds,
            settings,
            domains,
            slas,
            boomerang,
            fast_path,
        })
    }
}

fn delay(document: &Document<'_>, found: Option<&Spanned<String>>) -> Result<Option<Span>, Mistake> {
    let Some(text) = found else { return Ok(None) };
    let span = documents::units::parse_span(text.get_ref()).map_err(|wrong| document.at(text.span(), wrong))?;
    if span > MAX_DELAY {
        return Err(document.at(text.span(), "a link's delay is at most 10s each way"));
    }
    Ok(Some(span))
}

fn bound(document: &Document<'_>, link: &LinkFile) -> Result<Option<Span>, Mistake> {
    let Some(text) = &link.delay_bound else { return Ok(None) };
    if link.delay.is_some() {
        return Err(document.at(text.span(), "a link has a delay or a delay_bound, not both"));
    }
    let span = documents::units::parse_span(text.get_ref()).map_err(|wrong| document.at(text.span(), wrong))?;
    if span == Span::ZERO || span > MAX_BOUND {
        return Err(document.at(text.span(), "a link's delay_bound is more than 0 and at most 25ms"));
    }
    Ok(Some(span))
}

fn nodes(document: &Document<'_>, found: &[NodeFile]) -> Result<(Vec<TestbedNode>, BTreeMap<String, usize>), Mistake> {
    if found.is_empty() {
        return Err(document.whole("there is no [[node]]"));
    }
    if found.len() > MAX_NODES {
        return Err(document.whole(format!("more than {MAX_NODES} nodes")));
    }
    let mut by_name = BTreeMap::new();
    let mut nodes = Vec::with_capacity(found.len());
    for entry in found {
        let name = node_name(document, &entry.name)?;
        let kind = match entry.kind.get_ref().as_str() {
            "host" => TestbedNodeKind::Host,
            "router" => TestbedNodeKind::Router,
            other => return Err(document.at(entry.kind.span(), format!("a node is a host or a router, not {other:?}"))),
        };
        if by_name.insert(name.clone(), nodes.len()).is_some() {
            return Err(document.at(entry.name.span(), format!("the node {name} is there twice")));
        }
        nodes.push(TestbedNode { name, kind });
    }
    Ok((nodes, by_name))
}

fn links(
    document: &Document<'_>,
    found: &[LinkFile],
    nodes: &BTreeMap<String, usize>,
) -> Result<Vec<TestbedLink>, Mistake> {
    if found.len() > MAX_LINKS {
        return Err(document.whole(format!("more than {MAX_LINKS} links")));
    }
    found.iter().map(|entry| link(document, entry, nodes)).collect()
}

fn link(document: &Document<'_>, entry: &LinkFile, nodes: &BTreeMap<String, usize>) -> Result<TestbedLink, Mistake> {
    let [a, b] = entry.between.get_ref().as_slice() else {
        return Err(document.at(entry.between.span(), "a link is between two nodes: between = [\"a\", \"b\"]"));
    };
    let position = |name: &Spanned<String>| {
        let known = nodes.get(name.get_ref()).copied();
        known.ok_or_else(|| document.at(name.span(), format!("there is no node {:?}", name.get_ref())))
    };
    let ends = [position(a)?, position(b)?];
    if ends[0] == ends[1] {
        return Err(document.at(b.span(), format!("a link from {} to itself", b.get_ref())));
    }
    let mtu = match &entry.mtu {
        None => 1500,
        Some(mtu) if (576..=65_535).contains(mtu.get_ref()) => *mtu.get_ref(),
        Some(mtu) => return Err(document.at(mtu.span(), "an MTU is 576 to 65535 bytes")),
    };
    Ok(TestbedLink { ends, rate: link_rate(document, &entry.rate)?, mtu })
}
