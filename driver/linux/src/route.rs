//! The kernel's routing table as RSVP's `Route_Query` (RFC 2205 section 3.11.3), with a cache that notices
//! invalidate.
//!
//! *Multicast.* The route of a sender's packets to a group is the kernel's multicast route for both, or the
//! one for any sender to the group: it has the incoming interface and the outgoing ones. Without one the tree
//! has no branches here: only this node's own receivers hear the sender. Packets that this node itself sends
//! leave by the unicast table's interface for multicast, and by those of the multicast route.

use crate::cgroup;
use crate::netlink::addr::Address;
use crate::netlink::mfc::MulticastRoute;
use crate::netlink::route::{RouteAnswer, RouteQuery};
use crate::netlink::{Error, Socket};
use std::collections::HashMap;
use std::net::IpAddr;
use terms::ports::{MulticastTree, Oifs, Route, RouteDecision};
use terms::{IfIndex, SenderGroup};

/// The most answers in the cache; beyond that it is cleared.
const MAX_CACHED: usize = 1 << 16;

type Question = (IpAddr, Option<IpAddr>, Option<IfIndex>);

/// Looks up routes in the network namespace in which it was opened.
#[derive(Debug)]
pub struct KernelRoutes {
    socket: Socket,
    addresses: Vec<Address>,
    known: HashMap<Question, RouteDecision>,
    /// By group and sender (unspecified: any); `None`: to be read at the next query.
    trees: Option<HashMap<(IpAddr, IpAddr), MulticastTree>>,
}

impl KernelRoutes {
    /// Opens a look-up in the calling thread's network namespace.
    ///
    /// # Errors
    /// No netlink socket can be used.
    pub fn open() -> Result<KernelRoutes, Error> {
        let mut socket = Socket::open()?;
        let addresses = socket.addresses()?;
        Ok(KernelRoutes { socket, addresses, known: HashMap::new(), trees: None })
    }

    /// Clears the cache, because a route, a link or an address has changed.
    ///
    /// # Errors
    /// The addresses cannot be read; the old ones are kept.
    pub fn forget(&mut self) -> Result<(), Error> {
        self.known.clear();
        self.trees = None;
        self.addresses = self.socket.addresses()?;
        Ok(())
    }

    /// Removes from the cache the answers that a route to this prefix may have changed: those about routes to
    /// it, and those about packets from it, whose reverse path the kernel may check.
    pub fn forget_within(&mut self, network: IpAddr, bits: u8) {
        let within = |address: IpAddr| is_within(address, network, bits);
        self.known.retain(|(dst, src, _), _| !within(*dst) && !src.is_some_and(within));
    }

    /// Asks the kernel. A query that it rejects (for a source that is not ours, without an incoming
    /// interface) is repeated without the rejected part; RSVP then routes by destination only.
    fn ask(&mut self, dst: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> RouteDecision {
        if dst.is_multicast() {
            return self.tree(dst, src, iif);
        }
        let src = src.filter(|src| iif.is_some() || self.is_ours(*src));
        let full = RouteQuery { dst, src, iif };
        match self.socket.route(&full) {
            Ok(RouteAnswer::None) if src.is_some() || iif.is_some() => self.ask_plainly(dst),
            Ok(answer) => self.way(dst, answer),
            Err(_) => self.ask_plainly(dst),
        }
    }

    fn ask_plainly(&mut self, dst: IpAddr) -> RouteDecision {
        match self.socket.route(&RouteQuery { dst, src: None, iif: None }) {
            Ok(answer) => self.way(dst, answer),
            Err(_) => RouteDecision::None,
        }
    }

    fn way(&self, dst: IpAddr, answer: RouteAnswer) -> RouteDecision {
        match answer {
            RouteAnswer::Local => RouteDecision::Local,
            RouteAnswer::Out { oif, gateway, source } => {
                let next_hop = gateway.unwrap_or(dst);
                let ours = source.filter(|source| self.is_ours(*source)).or_else(|| self.source(oif, next_hop));
                ours.map_or(RouteDecision::None, |source| RouteDecision::Out { oif, gateway, source })
            }
            RouteAnswer::Multicast(_) | RouteAnswer::None => RouteDecision::None,
        }
    }

    /// The multicast tree of a group's sender at this node.
    fn tree(&mut self, group: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> RouteDecision {
        let any = if group.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let src = src.unwrap_or(any);
        let told = self.told(group, src).or_else(|| self.told(group, any));
        if iif.is_some() || !(src.is_unspecified() || self.is_ours(src)) {
            return RouteDecision::Tree(told.unwrap_or_default());
        }
        let query = RouteQuery { dst: group, src: Some(src).filter(|src| self.is_ours(*src)), iif: None };
        let mut oifs = told.map_or(Oifs::NONE, |tree| tree.oifs);
        match self.socket.route(&query) {
            Ok(RouteAnswer::Out { oif, .. }) => oifs.add(oif),
            _ if oifs.is_empty() => return RouteDecision::None,
            _ => true,
        };
        RouteDecision::Tree(MulticastTree { iif: None, oifs })
    }

    /// The tree in the kernel's multicast routes for a group and sender.
    fn told(&mut self, group: IpAddr, src: IpAddr) -> Option<MulticastTree> {
        let KernelRoutes { trees, socket, .. } = self;
        let trees = trees.get_or_insert_with(|| {
            let all = socket.multicast_routes().unwrap_or_default();
            all.into_iter().map(|route| ((route.group, route.src), tree_of(&route))).collect()
        });
        trees.get(&(group, src)).copied()
    }

    fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|ours| ours.address == address)
    }

    /// Our address on a link: the one on the next hop's network, or else the first of its family; a
    /// link-local one only if there is no other (IPv6 routers name each other by those).
    fn source(&self, oif: IfIndex, next_hop: IpAddr) -> Option<IpAddr> {
        let there = || self.addresses.iter().filter(|a| a.index == oif && a.address.is_ipv4() == next_hop.is_ipv4());
        let wide = || there().filter(|a| !is_link_local(&a.address));
        let on_net = wide().find(|a| same_network(a, next_hop));
        on_net.or_else(|| wide().next()).or_else(|| there().next()).map(|a| a.address)
    }
}

impl Route for KernelRoutes {
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> RouteDecision {
        let question = (dst, src, iif);
        if let Some(&way) = self.known.get(&question) {
            return way;
        }
        let way = self.ask(dst, src, iif);
        if self.known.len() >= MAX_CACHED {
            self.known.clear();
        }
        self.known.insert(question, way);
        way
    }

    fn sender_group(&mut self, path: &str) -> Option<SenderGroup> {
        cgroup::sender_group(path)
    }
}

fn tree_of(route: &MulticastRoute) -> MulticastTree {
    let oifs = route.oifs.iter().copied().filter(|oif| *oif != route.iif).collect();
    MulticastTree { iif: Some(route.iif), oifs }
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80)
}

fn same_network(ours: &Address, other: IpAddr) -> bool {
    is_within(other, ours.address, ours.prefix)
}

/// True if the first `bits` bits of an address are those of a network.
fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros() >= bits,
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros() >= bits,
        _ => false,
    }
}
