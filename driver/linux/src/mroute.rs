//! Static multicast forwarding: the routes that a multicast routing daemon would install, for testbeds and
//! for small networks with fixed routes (`linux/mroute.h`, `linux/mroute6.h`).
//!
//! The kernel has one such router per family and network namespace, and its routes live as long as the
//! socket: a value of this type holds them, and dropping it removes them. Constants and structures are not in
//! libc.

use crate::error::{SystemError, doing};
use crate::netlink::mfc::MulticastRoute;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use std::io;
use std::mem::size_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use terms::IfIndex;

/// `MRT_INIT` and `MRT6_INIT`; the following options have the same numbers in both families.
const INIT: i32 = 200;
const ADD_VIF: i32 = 202;
const ADD_MFC: i32 = 204;
const DEL_MFC: i32 = 205;
/// `MAXVIFS`; the same limit for IPv6, which allows many more.
const MAX_VIFS: usize = 32;
/// `VIFF_USE_IFINDEX`: the interface is named by its index.
const USE_IFINDEX: u8 = 8;

/// `struct vifctl`.
#[repr(C)]
struct VifCtl {
    vif: u16,
    flags: u8,
    threshold: u8,
    rate_limit: u32,
    ifindex: i32,
    remote: u32,
}

/// `struct mfcctl`; after the thresholds are two bytes of padding, written out here.
#[repr(C)]
struct MfcCtl {
    origin: [u8; 4],
    group: [u8; 4],
    parent: u16,
    thresholds: [u8; MAX_VIFS],
    pad: [u8; 2],
    counters: [u32; 3],
    expire: i32,
}

/// `struct mif6ctl`.
#[repr(C)]
struct Mif6Ctl {
    mif: u16,
    flags: u8,
    threshold: u8,
    ifindex: u16,
    pad: u16,
    rate_limit: u32,
}

/// `struct mf6cctl`.
#[repr(C)]
struct Mf6Ctl {
    origin: libc::sockaddr_in6,
    group: libc::sockaddr_in6,
    parent: u16,
    pad: u16,
    out: [u32; 8],
}

const _: () = assert!(size_of::<VifCtl>() == 16 && size_of::<MfcCtl>() == 60);
const _: () = assert!(size_of::<Mif6Ctl>() == 12 && size_of::<Mf6Ctl>() == 92);

/// The multicast router of the calling thread's network namespace.
#[derive(Debug, Default)]
pub struct MulticastRouter {
    v4: Option<Family>,
    v6: Option<Family>,
}

#[derive(Debug)]
struct Family {
    socket: OwnedFd,
    /// The interfaces; the position in this list is the kernel's number of an interface.
    vifs: Vec<IfIndex>,
    level: i32,
}

impl MulticastRouter {
    /// A router without routes; it registers for a family with the family's first route.
    pub fn new() -> MulticastRouter {
        MulticastRouter::default()
    }

    /// Adds a route, or replaces the one of the same sender and group.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, another multicast router runs in this namespace (EADDRINUSE), an interface
    /// does not exist, or there are more than 32 interfaces.
    pub fn add(&mut self, route: &MulticastRoute) -> Result<(), SystemError> {
        let family = self.family(&route.group)?;
        let parent = family.vif(route.iif)?;
        // The kernel takes a packet by a route for any sender only if the interface that it came in by is in the tree,
        // and never sends it back there.
        let mut out: Vec<u16> = route.src.is_unspecified().then_some(parent).into_iter().collect();
        for oif in route.oifs.iter().filter(|oif| **oif != route.iif) {
            out.push(family.vif(*oif)?);
        }
        family.put(ADD_MFC, route, parent, &out, "add a multicast route")
    }

    /// Removes the route of this sender and group.
    ///
    /// # Errors
    /// ENOENT: there is no such route.
    pub fn remove(&mut self, route: &MulticastRoute) -> Result<(), SystemError> {
        let family = self.family(&route.group)?;
        let parent = family.vif(route.iif)?;
        family.put(DEL_MFC, route, parent, &[], "remove a multicast route")
    }

    fn family(&mut self, group: &IpAddr) -> Result<&mut Family, SystemError> {
        let (family, domain, protocol, level) = match group {
            IpAddr::V4(_) => (&mut self.v4, AddressFamily::INET, ipproto::IGMP, libc::IPPROTO_IP),
            IpAddr::V6(_) => (&mut self.v6, AddressFamily::INET6, ipproto::ICMPV6, libc::IPPROTO_IPV6),
        };
        if family.is_none() {
            let socket = socket_with(domain, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))
                .map_err(doing("open a socket for multicast routes"))?;
            let made = Family { socket, vifs: Vec::new(), level };
            made.set(INIT, &1i32, "become the multicast router of the namespace")?;
            *family = Some(made);
        }
        family
            .as_mut()
            .ok_or_else(|| SystemError::because("open a socket for multicast routes", io::ErrorKind::Other.into()))
    }
}

fn pifi(interface: IfIndex) -> Result<u16, SystemError> {
    u16::try_from(interface.0).map_err(|_| {
        let why =
            format!("interface {} has a number above 65535, which multicast routes of IPv6 cannot name", interface.0);
        SystemError::because("take an interface for multicast routes", io::Error::other(why))
    })
}

impl Family {
    /// The kernel's number of an interface; assigns one if it has none.
    fn vif(&mut self, interface: IfIndex) -> Result<u16, SystemError> {
        if let Some(vif) = self.vifs.iter().position(|known| *known == interface) {
            return Ok(vif as u16);
        }
        let what = "take an interface for multicast routes";
        if self.vifs.len() == MAX_VIFS {
            return Err(SystemError::because(what, io::Error::from_raw_os_error(libc::ENFILE)));
        }
        let vif = self.vifs.len() as u16;
        if self.level == libc::IPPROTO_IP {
            let ifindex = interface.0 as i32;
            let ask = VifCtl { vif, flags: USE_IFINDEX, threshold: 1, rate_limit: 0, ifindex, remote: 0 };
            self.set(ADD_VIF, &ask, what)?;
        } else {
            // The kernel's own structure has no more room (mif6c_pifi); cut off, it would name another interface.
            let ifindex = pifi(interface)?;
            let ask = Mif6Ctl { mif: vif, flags: 0, threshold: 1, ifindex, pad: 0, rate_limit: 0 };
            self.set(ADD_VIF, &ask, what)?;
        }
        self.vifs.push(interface);
        Ok(vif)
    }

    fn put(
        &self,
        option: i32,
        route: &MulticastRoute,
        parent: u16,
        out: &[u16],
        what: &str,
    ) -> Result<(), SystemError> {
        match (route.src, route.group) {
            (IpAddr::V4(src), IpAddr::V4(group)) => {
                let mut thresholds = [0; MAX_VIFS];
                out.iter().for_each(|vif| thresholds[usize::from(*vif)] = 1);
                let (origin, group, pad) = (src.octets(), group.octets(), [0; 2]);
                let ask = MfcCtl { origin, group, parent, thresholds, pad, counters: [0; 3], expire: 0 };
                self.set(option, &ask, what)
            }
            (IpAddr::V6(src), IpAddr::V6(group)) => {
                let address = |ip: std::net::Ipv6Addr| libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: 0,
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    sin6_scope_id: 0,
                };
                let mut set = [0u32; 8];
                out.iter().for_each(|vif| set[usize::from(*vif) / 32] |= 1 << (vif % 32));
                self.set(
                    option,
                    &Mf6Ctl { origin: address(src), group: address(group), parent, pad: 0, out: set },
                    what,
                )
            }
            _ => Err(SystemError::because(what, io::ErrorKind::InvalidInput.into())),
        }
    }

    fn set<T>(&self, option: i32, value: &T, what: &str) -> Result<(), SystemError> {
        let (at, len) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
        // SAFETY: `value` is a plain `repr(C)` structure, valid for reads of its whole length during the call.
        if unsafe { libc::setsockopt(self.socket.as_raw_fd(), self.level, option, at, len) } != 0 {
            return Err(SystemError::last(what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_ipv6_cannot_name_is_refused() {
        assert_eq!(pifi(IfIndex(65_535)).unwrap(), 65_535);
        assert!(pifi(IfIndex(65_536 + 7)).is_err(), "not taken for interface 7");
    }
}
