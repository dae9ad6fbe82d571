//! Which agent is meant: `--socket` with a path or with `tls://HOST:PORT`, `--node` of a testbed, or this machine's own.

use crate::complain::Complaint;
use api::client::Client;
use api::place::{Papers, Place};
use clap::Args;
use linux::clock::Clock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How an agent is named on the command line.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// The agent's socket, or tls://HOST:PORT of one on another machine
    #[arg(long, visible_alias = "agent", env = "SLUICE_SOCKET", value_name = "PLACE", conflicts_with = "node")]
    pub socket: Option<String>,
    /// A node of a testbed made by `sluice up`: NODE, or TESTBED/NODE where several are up
    #[arg(long, short = 'n', value_name = "NODE")]
    pub node: Option<String>,
    /// Who we are to an agent on another machine.
    #[command(flatten)]
    pub papers: PapersArgs,
}

/// Who we are off this machine.
#[derive(Args, Clone, Default, Debug)]
pub struct PapersArgs {
    /// For tls://: the authority's certificate
    #[arg(long, visible_alias = "authority", env = "SLUICE_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// For tls://: our certificate, as `sluice ca` makes it
    #[arg(long, env = "SLUICE_CERTIFICATE", value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// For tls://: its key
    #[arg(long, env = "SLUICE_KEY", value_name = "FILE")]
    pub certificate_key: Option<PathBuf>,
}

impl PapersArgs {
    /// The place that a text names.
    pub fn place(&self, text: &str) -> Result<Place, Complaint> {
        let PapersArgs { ca, certificate, certificate_key: key } = self.clone();
        let clock = Clock::start();
        let place = Place::parse(text, &Papers { ca, certificate, key }, Arc::new(move || clock.now()));
        place.map_err(Complaint::usage)
    }
}

impl AgentArgs {
    /// Connects.
    pub fn connect(&self) -> Result<Client, Complaint> {
        Ok(Client::reach(&self.place()?)?)
    }

    /// The agent that is meant.
    pub fn place(&self) -> Result<Place, Complaint> {
        if let Some(text) = &self.socket {
            return self.papers.place(text);
        }
        match &self.node {
            Some(node) => find_node(Path::new(api::places::TESTBEDS), node).map(Place::Socket),
            None => Ok(Place::Socket(api::places::AGENT_SOCKET.into())),
        }
    }

    /// Whether it is on another machine.
    pub fn is_remote(&self) -> bool {
        self.socket.as_deref().is_some_and(Place::is_remote)
    }
}

fn find_node(testbeds: &Path, node: &str) -> Result<PathBuf, Complaint> {
    if let Some((testbed, node)) = node.split_once('/') {
        return Ok(api::places::node_socket_in(testbeds, testbed, node));
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(testbeds).into_iter().flatten().flatten() {
        let testbed = entry.file_name().to_string_lossy().into_owned();
        let socket = api::places::node_socket_in(testbeds, &testbed, node);
        if socket.exists() {
            found.push((testbed, socket));
        }
    }
    match found.len() {
        0 => Err(Complaint::world(format!("no testbed that is up has a node {node:?}: `sluice up FILE` makes one"))),
        1 => Ok(found.remove(0).1),
        _ => {
            let names: Vec<String> = found.iter().map(|(testbed, _)| format!("{testbed}/{node}")).collect();
            Err(Complaint::usage(format!("several testbeds have a node {node:?}: write {}", names.join(" or "))))
        }
    }
}
