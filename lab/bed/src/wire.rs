//! Long links: a namespace in the middle of a link, and in it a process that holds each frame back for the link's
//! delay, each way.
//!
//! The process has no agent and no queue of its own worth the name: a node's interface still decides what waits and
//! what is lost. It runs in user space, so its delay is never shorter than stated, and longer by what the machine
//! makes it wait.

use crate::record::{TestbedRecord, TestbedStep};
use crate::topology::{LinkEnd, Topology};
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netns::Namespace;
use linux::offload;
use linux::process::{ProcessId, spawn_detached};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use terms::Span;

/// The command of the program that carries frames between [`ENDS`] of its namespace.
pub const COMMAND: &str = "delay-line";
/// The interfaces in the middle, in the order of the link's ends.
pub const ENDS: [&str; 2] = ["first", "second"];
/// The longest delay of a link.
pub const MAX_DELAY: Span = Span::from_secs(10);

/// The long links by their positions, each with the namespace in its middle.
pub type LongLinks = Vec<(usize, Namespace)>;

fn open() -> Result<Socket, SystemError> {
    Socket::open().map_err(SystemError::netlink("open a netlink socket"))
}

/// The namespace in the middle of a link.
pub(crate) fn namespace(topology: &Topology, link: usize) -> String {
    format!("{}-wire-{link}", topology.name)
}

/// In the namespace of `node`: makes the pair from there to the middle of a long link.
pub(crate) fn join(topology: &Topology, node: usize, end: &LinkEnd, middle: &Namespace) -> Result<(), SystemError> {
    let side = usize::from(topology.links[end.link].ends[1] == node);
    let what = format!("join {} and its wire", topology.nodes[node].name);
    open()?.add_veth(&end.interface, ENDS[side], Some(middle.as_fd())).map_err(SystemError::netlink(what))?;
    Ok(())
}

/// In the middle: sets both interfaces up. They have no address.
pub(crate) fn configure(mtu: u32) -> Result<(), SystemError> {
    let mut socket = open()?;
    ENDS.iter().try_for_each(|end| without_address(&mut socket, end, mtu))
}

/// Sets an interface up that has no address: a process reads and sends there.
pub(crate) fn without_address(socket: &mut Socket, name: &str, mtu: u32) -> Result<(), SystemError> {
    let what = || format!("set {name} up without an address");
    let ipv6 = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
    if Path::new(&ipv6).exists() {
        std::fs::write(&ipv6, "1").map_err(SystemError::doing(format!("write {ipv6}")))?;
    }
    let link = socket.link_by_name(name).map_err(SystemError::netlink(what()))?;
    if link.mtu != mtu {
        socket.set_link_mtu(link.index, mtu).map_err(SystemError::netlink(what()))?;
    }
    offload::segmentation_off(socket, name, link.index)?;
    socket.set_link_up(link.index, true).map_err(SystemError::netlink(what()))
}

/// Starts the process of each long link.
pub(crate) fn start(
    delays: &[Option<Span>],
    wires: &LongLinks,
    program: &Path,
    dir: &Path,
    record: &mut TestbedRecord,
) -> Result<(), SystemError> {
    for (link, middle) in wires {
        let delay = delays.get(*link).copied().flatten().unwrap_or_default();
        let mut command = Command::new(program);
        command.arg(COMMAND).arg(format!("{}ns", delay.as_nanos())).args(ENDS).current_dir("/");
        for name in linux::notify::VARIABLES {
            command.env_remove(name);
        }
        middle.enter_at_exec(&mut command);
        let child = spawn_detached(&mut command, &dir.join(format!("wire-{link}.log")))?;
        if let Some(id) = ProcessId::of(child.id()) {
            record.add(&TestbedStep::Process(id, format!("wire {link}")))?;
        }
    }
    Ok(())
}
