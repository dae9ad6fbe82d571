//! Changes by other programs: notices of links, addresses, routes and queueing disciplines (RFC 3549 section
//! 2.2).
//!
//! A notice names the changed object only; the reader must read its state again. If the kernel had to drop
//! notices (ENOBUFS), the answer is [`NetlinkNotice::Lost`]: read everything again.

use super::addr::ip;
use super::message::{Attributes, NetlinkMessages, u32_at};
use super::socket::{Result, open_fd, receive};
use rustix::net::SocketFlags;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use terms::IfIndex;

/// A change in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NetlinkNotice {
    /// A link appeared or changed (state, name, MTU).
    Link(IfIndex),
    /// A link disappeared.
    LinkGone(IfIndex),
    /// An address of this link was added or removed.
    Address(IfIndex),
    /// A route to this prefix was added, changed or removed; `None`: to any prefix, or a multicast route.
    Route(Option<(IpAddr, u8)>),
    /// A queueing discipline of this link was added or removed.
    Qdisc(IfIndex),
    /// Notices were lost: any object may have changed.
    Lost,
}

/// A non-blocking socket for notices.
#[derive(Debug)]
pub struct Notices {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

const GROUPS: i32 = libc::RTMGRP_LINK
    | libc::RTMGRP_TC
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV4_MROUTE
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV6_ROUTE
    | libc::RTMGRP_IPV6_MROUTE;

impl Notices {
    /// Listens in the calling thread's network namespace.
    pub fn open() -> Result<Notices> {
        Notices::of(GROUPS)
    }

    /// Listens for changes of links and queueing disciplines only.
    pub fn of_queues() -> Result<Notices> {
        Notices::of(libc::RTMGRP_LINK | libc::RTMGRP_TC)
    }

    fn of(groups: i32) -> Result<Notices> {
        let fd = open_fd(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, libc::NETLINK_ROUTE, groups as u32)?;
        Ok(Notices { fd, buffer: vec![0; 1 << 16] })
    }

    /// All pending notices, without duplicates.
    ///
    /// # Errors
    /// The socket failed.
    pub fn take(&mut self) -> Result<Vec<NetlinkNotice>> {
        let mut all = Vec::new();
        loop {
            let len = match receive(&self.fd, "read netlink notices", &mut self.buffer) {
                Ok(len) => len,
                Err(error) if error.errno == libc::EAGAIN => break,
                Err(error) if error.errno == libc::ENOBUFS => {
                    all.push(NetlinkNotice::Lost);
                    continue;
                }
                Err(error) => return Err(error),
            };
            all.extend(NetlinkMessages::new(&self.buffer[..len]).filter_map(|view| notice(view.ty, view.body)));
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}

impl AsFd for Notices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The destination prefix of a route; `None`: it is a multicast route or one for certain sources, or is
/// malformed.
fn network(body: &[u8]) -> Option<(IpAddr, u8)> {
    // `struct rtmsg`: family, lengths of destination and source, and its type at byte 7 (rtnetlink(7)).
    let (&family, &bits, &src_bits, &ty) = (body.first()?, body.get(1)?, body.get(2)?, body.get(7)?);
    let none = match i32::from(family) {
        libc::AF_INET => IpAddr::from([0; 4]),
        libc::AF_INET6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    if src_bits != 0 || ty == libc::RTN_MULTICAST {
        return None;
    }
    match Attributes::after(body, 12).get(libc::RTA_DST) {
        Some(bytes) => ip(bytes).filter(|dst| dst.is_ipv4() == none.is_ipv4()).map(|dst| (dst, bits)),
        None => (bits == 0).then_some((none, 0)),
    }
}

pub(super) fn notice(ty: u16, body: &[u8]) -> Option<NetlinkNotice> {
    // ifinfomsg, ifaddrmsg and tcmsg all have the interface index at byte 4.
    let index = IfIndex(u32_at(body, 4)?);
    match ty {
        libc::RTM_NEWLINK => Some(NetlinkNotice::Link(index)),
        libc::RTM_DELLINK => Some(NetlinkNotice::LinkGone(index)),
        libc::RTM_NEWADDR | libc::RTM_DELADDR => Some(NetlinkNotice::Address(index)),
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => Some(NetlinkNotice::Route(network(body))),
        libc::RTM_NEWQDISC | libc::RTM_DELQDISC => Some(NetlinkNotice::Qdisc(index)),
        _ => None,
    }
}
