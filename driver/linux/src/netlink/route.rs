//! Routes: RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE; and the route of a given packet.

use super::addr::{family, ip, octets};
use super::message::{Attributes, NetlinkMessage};
use super::socket::{Error, Reply, Result, Socket};
use std::net::IpAddr;
use terms::IfIndex;

/// A unicast route of the main table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RouteEntry {
    /// Destination prefix.
    pub dst: IpAddr,
    /// The length of the prefix; 0 is the default route.
    pub prefix: u8,
    /// Next hop; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Outgoing link; may be 0 if the gateway determines it.
    pub oif: IfIndex,
}

/// The packet whose route is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteQuery {
    /// Destination.
    pub dst: IpAddr,
    /// Source, if it matters (an address of this node unless `iif` is given).
    pub src: Option<IpAddr>,
    /// The link by which the packet came in; `None`: this node sends it.
    pub iif: Option<IfIndex>,
}

/// The kernel's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteAnswer {
    /// The destination is this node.
    Local,
    /// The packet leaves by one link.
    Out {
        /// Outgoing link.
        oif: IfIndex,
        /// Next hop, if not the destination itself.
        gateway: Option<IpAddr>,
        /// The source address that this node would use; the kernel omits it for forwarded packets.
        source: Option<IpAddr>,
    },
    /// A multicast route: the packet leaves by all of these links.
    Multicast(Vec<IfIndex>),
    /// There is no route, or one that refuses (unreachable, prohibit, blackhole).
    None,
}

/// The length of `struct rtmsg`.
const HEADER: usize = 12;

impl Socket {
    /// Adds a route to the main table.
    ///
    /// # Errors
    /// EEXIST: there is a route to that prefix.
    pub fn add_route(&mut self, route: &RouteEntry) -> Result<()> {
        self.request("add a route", entry(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, route))
    }

    /// Adds a route to the main table, or replaces the existing one.
    pub fn replace_route(&mut self, route: &RouteEntry) -> Result<()> {
        self.request("replace a route", entry(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, route))
    }

    /// Removes a route from the main table.
    pub fn delete_route(&mut self, route: &RouteEntry) -> Result<()> {
        self.request("remove a route", entry(libc::RTM_DELROUTE, 0, route))
    }

    /// The route of a packet.
    ///
    /// # Errors
    /// Failures only: "no route" is [`RouteAnswer::None`].
    pub fn route(&mut self, query: &RouteQuery) -> Result<RouteAnswer> {
        const WHAT: &str = "look a route up";
        let mut header = [0; HEADER];
        header[0] = family(&query.dst);
        let bytes = octets(&query.dst);
        header[1] = (bytes.len() * 8) as u8;
        let src = query.src.filter(|src| !src.is_unspecified());
        if src.is_some() {
            header[2] = header[1];
        }
        let mut message = NetlinkMessage::new(libc::RTM_GETROUTE, 0, &header).attr(libc::RTA_DST, &bytes);
        if let Some(src) = src {
            message = message.attr(libc::RTA_SRC, &octets(&src));
        }
        if let Some(iif) = query.iif {
            message = message.attr_u32(libc::RTA_IIF, iif.0);
        }
        match self.get(WHAT, message) {
            Ok(reply) => answer(&reply).ok_or(Error::strange(WHAT)),
            Err(error) if no_way(error.errno) => Ok(RouteAnswer::None),
            Err(error) => Err(error),
        }
    }
}

fn no_way(errno: i32) -> bool {
    matches!(errno, libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL | libc::ENOENT | libc::EAGAIN)
}

fn entry(ty: u16, flags: i32, route: &RouteEntry) -> NetlinkMessage {
    let mut header = [0; HEADER];
    header[0] = family(&route.dst);
    header[1] = route.prefix;
    header[4] = libc::RT_TABLE_MAIN;
    header[5] = libc::RTPROT_STATIC;
    header[6] = match route.gateway {
        None if route.dst.is_ipv4() => libc::RT_SCOPE_LINK,
        _ => libc::RT_SCOPE_UNIVERSE,
    };
    header[7] = libc::RTN_UNICAST;
    let mut message = NetlinkMessage::new(ty, flags as u16, &header);
    if route.prefix != 0 {
        message = message.attr(libc::RTA_DST, &octets(&route.dst));
    }
    if let Some(gateway) = route.gateway {
        message = message.attr(libc::RTA_GATEWAY, &octets(&gateway));
    }
    if route.oif.0 != 0 {
        message = message.attr_u32(libc::RTA_OIF, route.oif.0);
    }
    message
}

pub(super) fn answer(reply: &Reply) -> Option<RouteAnswer> {
    if reply.ty != libc::RTM_NEWROUTE {
        return None;
    }
    let attributes = Attributes::after(&reply.body, HEADER);
    match *reply.body.get(7)? {
        libc::RTN_LOCAL => Some(RouteAnswer::Local),
        libc::RTN_MULTICAST if attributes.get(libc::RTA_MULTIPATH).is_some() => {
            Some(RouteAnswer::Multicast(next_hops(attributes.get(libc::RTA_MULTIPATH)?)))
        }
        libc::RTN_UNICAST | libc::RTN_MULTICAST | libc::RTN_BROADCAST => Some(RouteAnswer::Out {
            oif: IfIndex(attributes.u32(libc::RTA_OIF)?),
            gateway: attributes.get(libc::RTA_GATEWAY).and_then(ip),
            source: attributes.get(libc::RTA_PREFSRC).and_then(ip),
        }),
        _ => Some(RouteAnswer::None),
    }
}

/// The interfaces in RTA_MULTIPATH: `struct rtnexthop`s of 8 bytes plus attributes.
pub(super) fn next_hops(mut bytes: &[u8]) -> Vec<IfIndex> {
    let mut all = Vec::new();
    while let (Some(len), Some(index)) = (super::message::u16_at(bytes, 0), super::message::u32_at(bytes, 4)) {
        let len = (len as usize).max(8);
        all.push(IfIndex(index));
        bytes = bytes.get((len + 3) & !3..).unwrap_or(&[]);
    }
    all
}
