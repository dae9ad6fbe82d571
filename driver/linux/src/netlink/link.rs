//! Links: RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK (`linux/if_link.h`).

use super::message::{Attributes, NetlinkMessage, u16_at, u32_at};
use super::socket::{Error, Reply, Result, Socket};
use std::os::fd::{AsRawFd, BorrowedFd};
use terms::IfIndex;

/// A link as the kernel describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Index.
    pub index: IfIndex,
    /// Name.
    pub name: String,
    /// MTU, bytes of IP packet.
    pub mtu: u32,
    /// True if it is administratively up.
    pub up: bool,
    /// True if it is up and has carrier (IFF_LOWER_UP).
    pub carrier: bool,
    /// True if it is the loopback.
    pub loopback: bool,
    /// True if it supports multicast.
    pub multicast: bool,
    /// `veth`, `ifb`, ...; empty for hardware.
    pub kind: String,
    /// Link-layer address; empty if it has none.
    pub address: Vec<u8>,
    /// Hardware type (ARPHRD_*): 1 is Ethernet, 65534 none.
    pub hardware: u16,
    /// The index of the other end, if the kernel reports it (veth).
    pub peer: Option<u32>,
    /// The most bytes of a packet before its segmentation on the way out.
    pub gso_max_size: u32,
}

impl LinkState {
    /// The bytes of link header that the kernel counts with each packet.
    pub fn header_len(&self) -> u32 {
        match self.hardware {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => 14,
            _ => 0,
        }
    }
}

const VETH_INFO_PEER: u16 = 1;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_MACVLAN_MODE: u16 = 1;
const MACVLAN_MODE_BRIDGE: u32 = 4;
const IFLA_GSO_MAX_SIZE: u16 = 41;
/// The length of `struct ifinfomsg`.
const HEADER: usize = 16;

impl Socket {
    /// All links.
    pub fn links(&mut self) -> Result<Vec<LinkState>> {
        let replies = self.dump("list the links", NetlinkMessage::new(libc::RTM_GETLINK, 0, &header(0, 0, 0)))?;
        Ok(replies.iter().filter_map(link).collect())
    }

    /// The link of this name.
    ///
    /// # Errors
    /// ENODEV if there is none.
    pub fn link_by_name(&mut self, name: &str) -> Result<LinkState> {
        let message = NetlinkMessage::new(libc::RTM_GETLINK, 0, &header(0, 0, 0)).attr_str(libc::IFLA_IFNAME, name);
        self.one_link(message)
    }

    /// The link of this index.
    ///
    /// # Errors
    /// ENODEV if there is none.
    pub fn link_by_index(&mut self, index: IfIndex) -> Result<LinkState> {
        self.one_link(NetlinkMessage::new(libc::RTM_GETLINK, 0, &header(index.0, 0, 0)))
    }

    fn one_link(&mut self, message: NetlinkMessage) -> Result<LinkState> {
        let reply = self.get("look a link up", message)?;
        link(&reply).ok_or(Error::strange("look a link up"))
    }

    /// Makes a veth pair: one end here, the other in the namespace of `peer_netns` (or also here).
    ///
    /// # Errors
    /// EEXIST: a name is taken.
    pub fn add_veth(&mut self, name: &str, peer: &str, peer_netns: Option<BorrowedFd<'_>>) -> Result<()> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        let message = NetlinkMessage::new(libc::RTM_NEWLINK, flags, &header(0, 0, 0))
            .attr_str(libc::IFLA_IFNAME, name)
            .nest(libc::IFLA_LINKINFO, |m| {
                m.attr_str(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |m| {
                    m.nest(VETH_INFO_PEER, |m| {
                        let m = m.raw(&header(0, 0, 0)).attr_str(libc::IFLA_IFNAME, peer);
                        match peer_netns {
                            Some(fd) => m.attr_u32(libc::IFLA_NET_NS_FD, fd.as_raw_fd() as u32),
                            None => m,
                        }
                    })
                })
            });
        self.request("make a veth pair", message)
    }

    /// Makes one more station on the link of `parent`, with an address of its own, in the namespace of
    /// `netns` (macvlan in bridge mode). All nodes on that link, including this one, see it as another
    /// neighbour.
    ///
    /// # Errors
    /// EOPNOTSUPP: the kernel has no macvlan; EEXIST: the name is taken.
    pub fn add_station(&mut self, name: &str, parent: IfIndex, netns: BorrowedFd<'_>) -> Result<()> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        let message = NetlinkMessage::new(libc::RTM_NEWLINK, flags, &header(0, 0, 0))
            .attr_str(libc::IFLA_IFNAME, name)
            .attr_u32(libc::IFLA_LINK, parent.0)
            .attr_u32(libc::IFLA_NET_NS_FD, netns.as_raw_fd() as u32)
            .nest(libc::IFLA_LINKINFO, |m| {
                m.attr_str(IFLA_INFO_KIND, "macvlan")
                    .nest(IFLA_INFO_DATA, |m| m.attr_u32(IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE))
            });
        self.request("make a station on a link", message)
    }

    /// Removes a link (of a veth pair: both ends).
    pub fn delete_link(&mut self, index: IfIndex) -> Result<()> {
        self.request("remove a link", NetlinkMessage::new(libc::RTM_DELLINK, 0, &header(index.0, 0, 0)))
    }

    /// Sets a link up or down.
    pub fn set_link_up(&mut self, index: IfIndex, up: bool) -> Result<()> {
        let flags = if up { libc::IFF_UP as u32 } else { 0 };
        let message = NetlinkMessage::new(libc::RTM_NEWLINK, 0, &header(index.0, flags, libc::IFF_UP as u32));
        self.request("set a link up or down", message)
    }

    /// Sets the MTU.
    pub fn set_link_mtu(&mut self, index: IfIndex, mtu: u32) -> Result<()> {
        let message = NetlinkMessage::new(libc::RTM_NEWLINK, 0, &header(index.0, 0, 0)).attr_u32(libc::IFLA_MTU, mtu);
        self.request("set a link's MTU", message)
    }

    /// Renames a link; it must be down on older kernels.
    pub fn rename_link(&mut self, index: IfIndex, name: &str) -> Result<()> {
        let message =
            NetlinkMessage::new(libc::RTM_NEWLINK, 0, &header(index.0, 0, 0)).attr_str(libc::IFLA_IFNAME, name);
        self.request("rename a link", message)
    }

    /// Moves a link into another network namespace.
    pub fn move_link(&mut self, index: IfIndex, netns: BorrowedFd<'_>) -> Result<()> {
        let message = NetlinkMessage::new(libc::RTM_NEWLINK, 0, &header(index.0, 0, 0))
            .attr_u32(libc::IFLA_NET_NS_FD, netns.as_raw_fd() as u32);
        self.request("move a link to another namespace", message)
    }
}

fn header(index: u32, flags: u32, change: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

pub(super) fn link(reply: &Reply) -> Option<LinkState> {
    if reply.ty != libc::RTM_NEWLINK {
        return None;
    }
    let attributes = Attributes::after(&reply.body, HEADER);
    let flags = u32_at(&reply.body, 8)?;
    let has = |flag: i32| flags & flag as u32 != 0;
    Some(LinkState {
        index: IfIndex(u32_at(&reply.body, 4)?),
        name: attributes.string(libc::IFLA_IFNAME)?,
        mtu: attributes.u32(libc::IFLA_MTU).unwrap_or(0),
        up: has(libc::IFF_UP),
        carrier: flags & 0x1_0000 != 0,
        loopback: has(libc::IFF_LOOPBACK),
        multicast: has(libc::IFF_MULTICAST),
        kind: attributes.nest(libc::IFLA_LINKINFO).string(IFLA_INFO_KIND).unwrap_or_default(),
        address: attributes.get(libc::IFLA_ADDRESS).unwrap_or(&[]).to_vec(),
        hardware: u16_at(&reply.body, 2)?,
        peer: attributes.u32(libc::IFLA_LINK),
        gso_max_size: attributes.u32(IFLA_GSO_MAX_SIZE).unwrap_or(65_536),
    })
}
