//! The testbed of seed 000, section 5.4, for one experiment. It is removed when [`Bed`] is dropped.

use crate::error::Error;
use crate::file::TestbedFile;
use crate::host::Host;
use crate::testbed::{self, NodeUp, UpOptions};
use crate::topology::Topology;
use documents::agent::{Answer, Request, Status};
use linux::netns::Namespace;
use linux::process::{Capability, missing_capabilities};
use rpc::client::Client;
use std::path::{Path, PathBuf};
use std::process::Command;
use terms::{Rate, Span};

/// Two hosts, two routers, a bottleneck.
const TOPOLOGY: &str = include_str!("../../../examples/seed.toml");

/// The host that sends.
pub const SENDER: &str = "swissvale";
/// The host that receives.
pub const RECEIVER: &str = "glenwood";
/// The router before the bottleneck.
pub const NEAR: &str = "yosemite";
/// The router behind it.
pub const FAR: &str = "maui";
/// The nodes that carry reserved traffic on an interface of their own.
pub const CARRIERS: [&str; 3] = [SENDER, NEAR, FAR];

/// A testbed that is up.
#[derive(Debug)]
pub struct Bed {
    topology: Topology,
    testbeds: PathBuf,
    program: PathBuf,
    nodes: Vec<NodeUp>,
}

impl Bed {
    /// Checks that this process may make a testbed.
    ///
    /// # Errors
    /// The missing privileges, and what can be done without them.
    pub fn possible() -> Result<(), Error> {
        let missing = missing_capabilities(&[Capability::NetAdmin, Capability::NetRaw, Capability::SysAdmin]);
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
            return Err(Error::Testbed(format!(
                "a testbed needs root ({} {} missing): run it by sudo, or `sluice demo --sim`, which runs the same \
                 nodes in simulated time",
                names.join(", "),
                if names.len() == 1 { "is" } else { "are" }
            )));
        }
        Ok(())
    }

    /// Brings the seed's testbed up under its own name; `refresh` is RSVP's R on every node (RFC 2205 section
    /// 3.7).
    ///
    /// # Errors
    /// Missing privileges, or an error of [`testbed::up`]; then nothing is left of the testbed.
    pub fn up(name: &str, refresh: Span, options: &UpOptions) -> Result<Bed, Error> {
        Bed::up_with(name, refresh, false, options)
    }

    /// As [`Bed::up`]; with `boomerang` every agent also runs Boomerang.
    ///
    /// # Errors
    /// As [`Bed::up`].
    pub fn up_with(name: &str, refresh: Span, boomerang: bool, options: &UpOptions) -> Result<Bed, Error> {
        let section = if boomerang { "\n[boomerang]\n" } else { "" };
        Bed::of("examples/seed.toml", &format!("{TOPOLOGY}{section}"), name, Some(refresh), options)
    }

    /// As [`Bed::up`], with another topology. Without `refresh` the value of its file holds.
    ///
    /// # Errors
    /// As [`Bed::up`].
    pub fn of(file: &str, text: &str, name: &str, refresh: Option<Span>, options: &UpOptions) -> Result<Bed, Error> {
        Bed::possible()?;
        let parsed = TestbedFile::parse(Path::new(file), text);
        let mut file = parsed.map_err(|mistake| Error::Testbed(mistake.to_string()))?;
        file.topology.name = name.to_owned();
        if let Some(refresh) = refresh {
            file.set_refresh(refresh);
        }
        let nodes = testbed::up(&file, options).map_err(|error| Error::Testbed(error.to_string()))?;
        let (testbeds, program) = (options.testbeds.clone(), options.program.clone());
        Ok(Bed { topology: file.topology, testbeds, program, nodes })
    }

    /// Returns a node by its name.
    ///
    /// # Errors
    /// There is no node of that name.
    pub fn node(&self, name: &str) -> Result<&NodeUp, Error> {
        let found = self.nodes.iter().find(|node| node.name == name);
        found.ok_or_else(|| Error::Testbed(format!("the testbed has no node {name}")))
    }

    /// Returns a host: a node with one interface.
    ///
    /// # Errors
    /// There is no node of that name, or its namespace is gone.
    pub fn host(&self, name: &str) -> Result<Host, Error> {
        let node = self.node(name)?;
        let place = self.topology.nodes.iter().position(|other| other.name == name);
        let end = place.and_then(|place| self.topology.ends(place).into_iter().next());
        let end = end.ok_or_else(|| Error::Testbed(format!("{name} has no interface")))?;
        Ok(Host { namespace: Namespace::open(&node.namespace)?, interface: end.interface, address: end.address })
    }

    /// Returns the interface of `from` that leads to `to`.
    ///
    /// # Errors
    /// They are not neighbours.
    pub fn interface(&self, from: &str, to: &str) -> Result<String, Error> {
        let index = |name: &str| self.topology.nodes.iter().position(|node| node.name == name);
        let ends = index(from).map(|place| self.topology.ends(place)).unwrap_or_default();
        let end = ends.into_iter().find(|end| Some(end.peer) == index(to));
        end.map(|end| end.interface).ok_or_else(|| Error::Testbed(format!("{from} and {to} are not neighbours")))
    }

    /// Returns the file of the keys that `from` shares with its neighbour `to`, for signed messages.
    ///
    /// # Errors
    /// They are not neighbours.
    pub fn key_file(&self, from: &str, to: &str) -> Result<PathBuf, Error> {
        let interface = self.interface(from, to)?;
        Ok(self.testbeds.join(&self.topology.name).join(from).join(format!("{interface}.keys")))
    }

    /// Returns the testbed's name.
    pub fn name(&self) -> &str {
        &self.topology.name
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> &[NodeUp] {
        &self.nodes
    }

    /// Returns the rate of the slowest link.
    pub fn bottleneck(&self) -> Rate {
        self.topology.links.iter().map(|link| link.rate).min().unwrap_or(Rate::ZERO)
    }

    /// Returns the rate of the sender's link.
    pub fn first_link(&self) -> Rate {
        self.topology.links.first().map_or(Rate::ZERO, |link| link.rate)
    }

    /// Connects to a node's agent.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn client(&self, name: &str) -> Result<Client, Error> {
        Ok(Client::connect(&self.node(name)?.socket)?)
    }

    /// Asks a node's agent for its whole status.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn status(&self, name: &str) -> Result<Status, Error> {
        match self.client(name)?.call(Request::Status)? {
            Answer::Status(status) => Ok(status),
            other => Err(Error::Void(format!("the agent of {name} answered {other:?} when asked for its status"))),
        }
    }

    /// Returns the command that starts a node's agent as the testbed did, its log, and the namespace, which
    /// must stay open until the command is started.
    ///
    /// # Errors
    /// There is no node of that name, or its namespace is gone.
    pub fn agent_command(&self, name: &str) -> Result<(Command, PathBuf, Namespace), Error> {
        let namespace = Namespace::open(&self.node(name)?.namespace)?;
        let home = self.testbeds.join(&self.topology.name).join(name);
        let mut command = Command::new(&self.program);
        command.arg("agent").arg("--config").arg(home.join("agent.toml")).current_dir("/");
        namespace.enter_at_exec(&mut command);
        Ok((command, home.join("agent.log"), namespace))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Err(failed) = testbed::down(&self.testbeds, &self.topology.name) {
            eprintln!("sluice: {failed}; `sluice down {}` removes the rest", self.topology.name);
        }
    }
}
