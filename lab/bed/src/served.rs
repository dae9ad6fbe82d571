//! Links whose ends are queued in user space: `sluice plane serve` at each node that has such an end.
//!
//! The node's interface is one end of a pair; the plane stands between its other end and the interface that leads to the
//! neighbour (docs/traffic/serve.md).

use crate::program::last_words;
use crate::record::{TestbedRecord, TestbedStep};
use crate::topology::{LinkEnd, Topology};
use crate::wire;
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netns::Namespace;
use linux::process::{ProcessId, spawn_detached};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use terms::Span;

/// The longest bound that a plane may declare.
pub const MAX_BOUND: Span = Span::from_millis(25);

/// The interface of a served end that leads to the neighbour.
pub(crate) fn outside(link: usize) -> String {
    format!("out-{link}")
}

/// The other end of the node's interface, where the plane reads.
fn inside(link: usize) -> String {
    format!("in-{link}")
}

/// In the namespace of a node: makes the node's interface at a served end, whose outside is there.
pub(crate) fn furnish(topology: &Topology, end: &LinkEnd) -> Result<(), SystemError> {
    let what = format!("make {} for a plane in user space", end.interface);
    let mut socket = Socket::open().map_err(SystemError::netlink(what.clone()))?;
    let (inside, mtu) = (inside(end.link), topology.links[end.link].mtu);
    socket.add_veth(&end.interface, &inside, None).map_err(SystemError::netlink(what))?;
    [inside, outside(end.link)].iter().try_for_each(|name| wire::without_address(&mut socket, name, mtu))
}

/// The folder's file by which the plane of a node is driven.
pub(crate) fn socket(home: &Path) -> PathBuf {
    home.join("plane.sock")
}

/// The log of a node's plane.
fn log(home: &Path) -> PathBuf {
    home.join("plane.log")
}

/// The ends of a node's links that are queued in user space, each with the bound that its plane declares.
pub(crate) fn ends(topology: &Topology, bounds: &[Option<Span>], node: usize) -> Vec<(LinkEnd, Span)> {
    let bound = |link: usize| bounds.get(link).copied().flatten();
    let ends = topology.ends(node).into_iter();
    ends.filter_map(|end| bound(end.link).map(|bound| (end, bound))).collect()
}

/// A plane that was started.
#[derive(Debug)]
pub(crate) struct PlaneStarted {
    node: String,
    child: Child,
    home: PathBuf,
}

impl PlaneStarted {
    /// The name of its node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Looks if it can be driven, which is after it has opened its pairs. `Some(false)`: it has ended.
    pub(crate) fn look(&mut self) -> Result<Option<bool>, SystemError> {
        if UnixStream::connect(socket(&self.home)).is_ok() {
            return Ok(Some(true));
        }
        let ended = self.child.try_wait().map_err(SystemError::doing("wait for a plane"))?;
        Ok(ended.map(|_| false))
    }

    /// The end of its log.
    pub(crate) fn words(&self) -> String {
        last_words(&log(&self.home)).unwrap_or_else(|| "it said nothing in time".to_owned())
    }
}

/// Starts the planes of all nodes.
pub(crate) fn start_all(
    (topology, bounds): (&Topology, &[Option<Span>]),
    namespaces: &[Namespace],
    program: &Path,
    dir: &Path,
    record: &mut TestbedRecord,
) -> Result<Vec<PlaneStarted>, SystemError> {
    let mut started = Vec::new();
    for (node, namespace) in namespaces.iter().enumerate() {
        let (name, ends) = (topology.nodes[node].name.clone(), ends(topology, bounds, node));
        if !ends.is_empty() {
            let home = dir.join(&name);
            let child = start((&name, namespace), &ends, program, &home, record)?;
            started.push(PlaneStarted { node: name, child, home });
        }
    }
    Ok(started)
}

/// Starts the plane of a node; `ends` are those that it serves, with the bound that each declares.
fn start(
    node: (&str, &Namespace),
    ends: &[(LinkEnd, Span)],
    program: &Path,
    home: &Path,
    record: &mut TestbedRecord,
) -> Result<Child, SystemError> {
    // Processors are shared with all other nodes: it sleeps whenever nothing is there.
    let mut text = format!("# made by sluice up\nsocket = {:?}\nspin = \"0s\"\n", socket(home));
    for (end, bound) in ends {
        let [inside, outside] = [inside(end.link), outside(end.link)];
        text += &format!(
            "\n[[pair]]\ninterface = {:?}\ninside = {inside:?}\noutside = {outside:?}\ndelay_bound = \"{}us\"\n",
            end.interface,
            bound.as_micros()
        );
    }
    let file = home.join("plane.toml");
    std::fs::write(&file, text).map_err(SystemError::doing(format!("write {}", file.display())))?;
    let mut command = Command::new(program);
    command.args(["plane", "serve"]).arg(&file).current_dir("/");
    for name in linux::notify::VARIABLES {
        command.env_remove(name);
    }
    let (name, namespace) = node;
    namespace.enter_at_exec(&mut command);
    let child = spawn_detached(&mut command, &log(home))?;
    if let Some(id) = ProcessId::of(child.id()) {
        record.add(&TestbedStep::Process(id, format!("plane {name}")))?;
    }
    Ok(child)
}
