//! The multicast forwarding cache: RTM_GETROUTE of the families RTNL_FAMILY_IPMR and RTNL_FAMILY_IP6MR.
//!
//! It is read as a whole. A query for one sender and group that the kernel does not know makes it reserve an
//! entry for a packet that never comes; and for IPv6 it looks up the group without the sender.

use super::addr::ip;
use super::message::{Attributes, NetlinkMessage};
use super::route::next_hops;
use super::socket::{Reply, Result, Socket};
use std::net::IpAddr;
use terms::IfIndex;

/// The route of a sender's packets to a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MulticastRoute {
    /// The group.
    pub group: IpAddr,
    /// The sender; unspecified: any.
    pub src: IpAddr,
    /// The incoming interface.
    pub iif: IfIndex,
    /// The outgoing interfaces.
    pub oifs: Vec<IfIndex>,
}

/// The kernel's numbers for the two families of `struct rtmsg`.
const FAMILIES: [u8; 2] = [128, 129];
/// The length of `struct rtmsg`.
const HEADER: usize = 12;

impl Socket {
    /// Every resolved multicast route.
    pub fn multicast_routes(&mut self) -> Result<Vec<MulticastRoute>> {
        let mut all = Vec::new();
        for family in FAMILIES {
            let mut header = [0; HEADER];
            header[0] = family;
            let replies =
                self.dump("list the multicast routes", NetlinkMessage::new(libc::RTM_GETROUTE, 0, &header))?;
            // A kernel without the family answers with the routes of all others.
            all.extend(replies.iter().filter(|reply| reply.body.first() == Some(&family)).filter_map(route));
        }
        Ok(all)
    }
}

pub(super) fn route(reply: &Reply) -> Option<MulticastRoute> {
    if reply.ty != libc::RTM_NEWROUTE {
        return None;
    }
    let attributes = Attributes::after(&reply.body, HEADER);
    let group = ip(attributes.get(libc::RTA_DST)?)?;
    let any = if group.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    Some(MulticastRoute {
        group,
        src: attributes.get(libc::RTA_SRC).and_then(ip).unwrap_or(any),
        // Neither is there while the kernel waits for somebody to say where to.
        iif: IfIndex(attributes.u32(libc::RTA_IIF)?),
        oifs: next_hops(attributes.get(libc::RTA_MULTIPATH).unwrap_or(&[])),
    })
}
