//! The kernel's routing table as RSVP's `Route_Query` (RFC 2205 section 3.11.3), with a cache that a notice empties.

use crate::netlink::addr::Address;
use crate::netlink::route::{RouteAnswer, RouteQuery};
use crate::netlink::{Error, Socket};
use std::collections::HashMap;
use std::net::IpAddr;
use terms::IfIndex;
use terms::ports::{Route, Way};

/// Most answers that are kept; when there are more, all are asked for anew.
const MAX_CACHED: usize = 1 << 16;

type Question = (IpAddr, Option<IpAddr>, Option<IfIndex>);

/// Looks ways up in the network namespace that it was opened in.
#[derive(Debug)]
pub struct KernelRoutes {
    socket: Socket,
    addresses: Vec<Address>,
    known: HashMap<Question, Way>,
}

impl KernelRoutes {
    /// Opens a look-up in the calling thread's network namespace.
    ///
    /// # Errors
    /// Netlink is not to be had.
    pub fn open() -> Result<KernelRoutes, Error> {
        let mut socket = Socket::open()?;
        let addresses = socket.addresses()?;
        Ok(KernelRoutes { socket, addresses, known: HashMap::new() })
    }

    /// Forgets every answer: a route, a link or an address has changed.
    ///
    /// # Errors
    /// The addresses could not be read; the old ones are kept.
    pub fn forget(&mut self) -> Result<(), Error> {
        self.known.clear();
        self.addresses = self.socket.addresses()?;
        Ok(())
    }

    /// Asks the kernel. A question that it rejects (a source that is not ours and came in nowhere) is asked again
    /// without what it rejected; RSVP routes by destination where that is all there is.
    fn ask(&mut self, dst: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> Way {
        let src = src.filter(|src| iif.is_some() || self.is_ours(*src));
        let full = RouteQuery { dst, src, iif };
        match self.socket.route(&full) {
            Ok(RouteAnswer::None) if src.is_some() || iif.is_some() => self.ask_plainly(dst),
            Ok(answer) => self.way(dst, answer),
            Err(_) => self.ask_plainly(dst),
        }
    }

    fn ask_plainly(&mut self, dst: IpAddr) -> Way {
        match self.socket.route(&RouteQuery { dst, src: None, iif: None }) {
            Ok(answer) => self.way(dst, answer),
            Err(_) => Way::None,
        }
    }

    fn way(&self, dst: IpAddr, answer: RouteAnswer) -> Way {
        match answer {
            RouteAnswer::Local => Way::Local,
            RouteAnswer::Out { oif, gateway, source } => {
                let next_hop = gateway.unwrap_or(dst);
                let ours = source.filter(|source| self.is_ours(*source)).or_else(|| self.source(oif, next_hop));
                ours.map_or(Way::None, |source| Way::Out { oif, gateway, source })
            }
            // Multicast sessions come with their own issue; until then there is no way.
            RouteAnswer::Multicast(_) | RouteAnswer::None => Way::None,
        }
    }

    fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|ours| ours.address == address)
    }

    /// Our address on a link: the one on the next hop's network, or else the first of its family.
    fn source(&self, oif: IfIndex, next_hop: IpAddr) -> Option<IpAddr> {
        let there = || self.addresses.iter().filter(|a| a.index == oif && a.address.is_ipv4() == next_hop.is_ipv4());
        let on_net = there().find(|a| same_network(a, next_hop));
        on_net.or_else(|| there().next()).map(|a| a.address)
    }
}

impl Route for KernelRoutes {
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> Way {
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
}

fn same_network(ours: &Address, other: IpAddr) -> bool {
    let bits = u32::from(ours.prefix);
    match (ours.address, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros() >= bits,
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros() >= bits,
        _ => false,
    }
}
