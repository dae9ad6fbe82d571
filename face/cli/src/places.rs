//! Which agent is meant: `--socket`, `--node` of a testbed, or this machine's own.

use crate::complain::Complaint;
use api::client::Client;
use clap::Args;
use std::path::{Path, PathBuf};

/// How an agent is named on the command line.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// The agent's socket
    #[arg(long, env = "SLUICE_SOCKET", value_name = "PATH", conflicts_with = "node")]
    pub socket: Option<PathBuf>,
    /// A node of a testbed made by `sluice up`: NODE, or TESTBED/NODE where several are up
    #[arg(long, short = 'n', value_name = "NODE")]
    pub node: Option<String>,
}

impl AgentArgs {
    /// Connects.
    pub fn connect(&self) -> Result<Client, Complaint> {
        Ok(Client::connect(&self.path()?)?)
    }

    /// The socket that is meant.
    pub fn path(&self) -> Result<PathBuf, Complaint> {
        if let Some(path) = &self.socket {
            return Ok(path.clone());
        }
        match &self.node {
            Some(node) => find_node(Path::new(api::places::TESTBEDS), node),
            None => Ok(PathBuf::from(api::places::AGENT_SOCKET)),
        }
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
