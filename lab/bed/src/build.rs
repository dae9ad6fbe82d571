//! Making a testbed: namespaces, veth pairs, addresses, routes, and the settings that make its links behave
//! like wires.

use crate::record::{TestbedRecord, TestbedStep};
use crate::served;
use crate::topology::{LinkEnd, PREFIX, PREFIX_V6, StaticRoute, TestbedNodeKind, Topology};
use crate::wire::{self, LongLinks};
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::route::RouteEntry;
use linux::netns::Namespace;
use linux::offload;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use terms::IfIndex;

/// Makes the testbed, recording each step in `record` first. After a failure the recorded objects still
/// exist: the caller removes them.
///
/// # Errors
/// The first failure. A namespace that already existed is neither changed nor recorded.
pub fn build(topology: &Topology, record: &mut TestbedRecord) -> Result<Vec<Namespace>, SystemError> {
    build_with(topology, &[], &[], record).map(|(namespaces, _)| namespaces)
}

/// As [`build`]; a link whose place in `long` is true gets a namespace in its middle, which is returned with the link's
/// position. Nothing passes that link until a wire is put there: [`crate::wire`]. Nor does anything pass one whose place in
/// `served` is true until both its nodes run a plane: [`crate::served`].
///
/// # Errors
/// As [`build`].
pub fn build_with(
    topology: &Topology,
    long: &[bool],
    served: &[bool],
    record: &mut TestbedRecord,
) -> Result<(Vec<Namespace>, LongLinks), SystemError> {
    topology.check().map_err(|wrong| SystemError::because("build the testbed", io::Error::other(wrong)))?;
    let mut make = |name: String| {
        if Namespace::exists(&name) {
            return Err(SystemError::because(
                format!("create the network namespace {name}"),
                io::Error::from_raw_os_error(libc::EEXIST),
            ));
        }
        record.add(&TestbedStep::Namespace(name.clone()))?;
        Namespace::create(&name)
    };
    let namespaces = (0..topology.nodes.len()).map(|node| make(topology.namespace(node)));
    let namespaces: Vec<Namespace> = namespaces.collect::<Result<_, _>>()?;
    let mut wires = LongLinks::new();
    for (link, _) in long.iter().enumerate().filter(|(_, long)| **long) {
        wires.push((link, make(wire::namespace(topology, link))?));
    }
    for (node, namespace) in namespaces.iter().enumerate() {
        let is_long = |end: &LinkEnd| wires.iter().find(|(link, _)| *link == end.link);
        let (long, short): (Vec<LinkEnd>, Vec<LinkEnd>) =
            topology.ends(node).into_iter().partition(|end| is_long(end).is_some());
        namespace.run(|| join(topology, node, &short, served, &namespaces))??;
        for end in &long {
            let Some((_, middle)) = is_long(end) else { continue };
            namespace.run(|| wire::join(topology, node, end, middle))??;
        }
    }
    for (link, middle) in &wires {
        middle.run(|| wire::configure(topology.links[*link].mtu))??;
    }
    for (node, namespace) in namespaces.iter().enumerate() {
        let ends = topology.ends(node).into_iter().filter(|end| is_served(served, end));
        let ends: Vec<LinkEnd> = ends.collect();
        namespace.run(|| ends.iter().try_for_each(|end| served::furnish(topology, end)))??;
        namespace.run(|| configure(topology, node))??;
    }
    for (node, namespace) in namespaces.iter().enumerate() {
        namespace.run(|| add_routes(topology, node))??;
    }
    Ok((namespaces, wires))
}

/// In the namespace of `node`: makes the veth pairs to nodes after it.
fn join(
    topology: &Topology,
    node: usize,
    ends: &[LinkEnd],
    served: &[bool],
    namespaces: &[Namespace],
) -> Result<(), SystemError> {
    let mut socket = open()?;
    for end in ends.iter().filter(|end| topology.links[end.link].ends[0] == node) {
        let far = topology.ends(end.peer).into_iter().find(|far| far.link == end.link);
        let far = far.expect("both ends of a link are among the ends of their nodes");
        let there = namespaces[end.peer].as_fd();
        let what = format!("join {} and {}", topology.nodes[node].name, topology.nodes[end.peer].name);
        let of = |end: &LinkEnd| if is_served(served, end) { served::outside(end.link) } else { end.interface.clone() };
        socket.add_veth(&of(end), &of(&far), Some(there)).map_err(SystemError::netlink(what))?;
    }
    Ok(())
}

/// True if the ends of a link are queued in user space.
fn is_served(served: &[bool], end: &LinkEnd) -> bool {
    served.get(end.link).is_some_and(|served| *served)
}

/// In the namespace of `node`: writes settings, then sets links up, with addresses.
fn configure(topology: &Topology, node: usize) -> Result<(), SystemError> {
    let ipv4 = "/proc/sys/net/ipv4";
    let forward = if topology.nodes[node].kind == TestbedNodeKind::Router { "1" } else { "0" };
    set(&format!("{ipv4}/ip_forward"), forward)?;
    if has_ipv6() {
        set(&format!("{IPV6}/conf/all/forwarding"), forward)?;
    }
    // Path messages keep the sender's address, and an experiment may route asymmetrically.
    set(&format!("{ipv4}/conf/all/rp_filter"), "0")?;
    set(&format!("{ipv4}/conf/default/rp_filter"), "0")?;
    let mut socket = open()?;
    let lo = socket.link_by_name("lo").map_err(SystemError::netlink("find the loopback"))?;
    socket.set_link_up(lo.index, true).map_err(SystemError::netlink("set the loopback up"))?;
    for end in topology.ends(node) {
        let what = || format!("set {} of {} up", end.interface, topology.nodes[node].name);
        let link = socket.link_by_name(&end.interface).map_err(SystemError::netlink(what()))?;
        set(&format!("{ipv4}/conf/{}/rp_filter", end.interface), "0")?;
        let mtu = topology.links[end.link].mtu;
        if link.mtu != mtu {
            socket.set_link_mtu(link.index, mtu).map_err(SystemError::netlink(what()))?;
        }
        offload::segmentation_off(&mut socket, &end.interface, link.index)?;
        let address = Address { index: link.index, address: IpAddr::V4(end.address), prefix: PREFIX };
        socket.add_address(&address).map_err(SystemError::netlink(what()))?;
        if has_ipv6() {
            // Nobody else is on these links: no need to wait until an address is known to be alone.
            set(&format!("{IPV6}/conf/{}/accept_dad", end.interface), "0")?;
            // As IPv4 does: an address outlives a link that goes down.
            set(&format!("{IPV6}/conf/{}/keep_addr_on_down", end.interface), "1")?;
            let address = IpAddr::V6(Topology::v6(end.address));
            let address = Address { index: link.index, address, prefix: PREFIX_V6 };
            socket.add_address(&address).map_err(SystemError::netlink(what()))?;
        }
        socket.set_link_up(link.index, true).map_err(SystemError::netlink(what()))?;
    }
    Ok(())
}

fn add_routes(topology: &Topology, node: usize) -> Result<(), SystemError> {
    let mut socket = open()?;
    for StaticRoute { network, gateway } in topology.routes(node) {
        let v4 = (IpAddr::V4(network), PREFIX, IpAddr::V4(gateway));
        let v6 = (IpAddr::V6(Topology::v6(network)), PREFIX_V6, IpAddr::V6(Topology::v6(gateway)));
        for (dst, prefix, gateway) in std::iter::once(v4).chain(has_ipv6().then_some(v6)) {
            let what = format!("route {dst}/{prefix} via {gateway} on {}", topology.nodes[node].name);
            let entry = RouteEntry { dst, prefix, gateway: Some(gateway), oif: IfIndex(0) };
            socket.add_route(&entry).map_err(SystemError::netlink(what))?;
        }
    }
    Ok(())
}

const IPV6: &str = "/proc/sys/net/ipv6";

/// True if this kernel supports IPv6; without it a testbed has IPv4 only.
fn has_ipv6() -> bool {
    Path::new(IPV6).exists()
}

fn open() -> Result<Socket, SystemError> {
    Socket::open().map_err(SystemError::netlink("open a netlink socket"))
}

fn set(path: &str, value: &str) -> Result<(), SystemError> {
    fs::write(path, value).map_err(SystemError::doing(format!("write {path}")))
}
