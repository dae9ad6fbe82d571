//! Raw sockets, their options, and the ancillary data that names interfaces: raw(7), ip(7), ipv6(7), cmsg(3).

use crate::error::{SystemError, doing};
use rustix::net::{AddressFamily, Protocol, RawProtocol, SocketFlags, SocketType, socket_with};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use terms::IfIndex;

/// A buffer for the ancillary data of a message, received or sent (at most an `in6_pktinfo` and a hop limit:
/// 64 bytes), aligned.
pub type Control = [u64; 12];
/// The length of the buffer, bytes.
pub const CONTROL: usize = size_of::<Control>();

/// `IPV6_ROUTER_ALERT`; libc has no name for it.
pub const IPV6_ROUTER_ALERT: i32 = 22;
/// Without this option an IPv6 listener gets messages in transit of *every* network namespace of the machine
/// (Linux 5.1).
pub const IPV6_ROUTER_ALERT_ISOLATE: i32 = 30;
/// The index of the count of messages dropped for lack of room in `SO_MEMINFO`.
const SK_MEMINFO_DROPS: usize = 8;

/// A raw socket that never blocks.
pub fn socket(family: i32, protocol: i32) -> Result<OwnedFd, SystemError> {
    let (family, flags) = (AddressFamily::from_raw(family as u16), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
    let protocol = RawProtocol::new(protocol as u32).map(Protocol::from_raw);
    socket_with(family, SocketType::RAW, flags, protocol).map_err(doing("open a raw socket"))
}

/// A raw IPv6 socket; `None` on a kernel without IPv6.
pub fn socket_v6(protocol: i32) -> Result<Option<OwnedFd>, SystemError> {
    match socket(libc::AF_INET6, protocol) {
        Err(failed) if failed.code() == libc::EAFNOSUPPORT => Ok(None),
        other => other.map(Some),
    }
}

/// Sets an option with a numeric value.
pub fn set(socket: &OwnedFd, level: i32, option: i32, value: i32, name: &str) -> Result<(), SystemError> {
    set_bytes(socket, level, option, &value, name)
}

/// Sets an option of any plain type.
pub fn set_bytes<T: Copy>(socket: &OwnedFd, level: i32, option: i32, value: &T, name: &str) -> Result<(), SystemError> {
    let size = size_of::<T>() as libc::socklen_t;
    let pointer = std::ptr::from_ref(value).cast();
    // SAFETY: the value is `size` bytes long and outlives the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, size) } {
        0 => Ok(()),
        _ => Err(SystemError::last(format!("set {name} on a raw socket"))),
    }
}

/// The number of messages that the kernel dropped because the socket's queue was full; zero if the kernel
/// does not report it.
pub fn dropped(socket: &OwnedFd) -> u64 {
    let mut numbers = [0u32; SK_MEMINFO_DROPS + 1];
    let mut size = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to `numbers`, which outlives the call.
    let rc = unsafe {
        let pointer = numbers.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, pointer, &mut size)
    };
    if rc == 0 { u64::from(numbers[SK_MEMINFO_DROPS]) } else { 0 }
}

/// The ancillary data of a message.
#[derive(Clone, Copy, Default, Debug)]
pub struct Beside {
    /// The interface by which it came in.
    pub iif: Option<IfIndex>,
    /// IPv6: its destination.
    pub dst: Option<Ipv6Addr>,
    /// IPv6: its hop limit.
    pub hop_limit: Option<u8>,
}

/// Reads the ancillary data of a received message.
pub fn beside(header: &libc::msghdr) -> Beside {
    let mut said = Beside::default();
    let index = |n: i64| u32::try_from(n).ok().map(IfIndex);
    // SAFETY: the kernel filled the control space and its length in; the walk stays inside them, and each value is
    // read as the type that its level and number stand for.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = control.as_ref() {
            let data = libc::CMSG_DATA(control);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    said.iif = index(data.cast::<libc::in_pktinfo>().read_unaligned().ipi_ifindex.into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    said.iif = index(info.ipi6_ifindex.into());
                    said.dst = Some(info.ipi6_addr.s6_addr.into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    said.hop_limit = u8::try_from(data.cast::<i32>().read_unaligned()).ok();
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    said
}

/// Writes the outgoing interface `oif` of a message to `control`; returns the length that is used, bytes.
pub fn leave_by(control: &mut Control, oif: IfIndex, v6: bool) -> usize {
    // SAFETY: all-zero is a valid value of both types.
    let (mut v4_info, mut v6_info): (libc::in_pktinfo, libc::in6_pktinfo) = unsafe { std::mem::zeroed() };
    v4_info.ipi_ifindex = oif.0 as i32;
    v6_info.ipi6_ifindex = oif.0 as _;
    if v6 {
        put(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, v6_info)
    } else {
        put(control, libc::IPPROTO_IP, libc::IP_PKTINFO, v4_info)
    }
}

fn put<T: Copy>(control: &mut Control, level: i32, kind: i32, value: T) -> usize {
    const { assert!(size_of::<T>() + size_of::<libc::cmsghdr>() + 8 <= CONTROL) };
    // SAFETY: all-zero is a valid msghdr; the control space is aligned for a cmsghdr and, by the assertion, large
    // enough for one with a `T`.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        let space = libc::CMSG_SPACE(size_of::<T>() as u32) as usize;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = space as _;
        let first = libc::CMSG_FIRSTHDR(&header);
        (*first).cmsg_level = level;
        (*first).cmsg_type = kind;
        (*first).cmsg_len = libc::CMSG_LEN(size_of::<T>() as u32) as _;
        libc::CMSG_DATA(first).cast::<T>().write_unaligned(value);
        space
    }
}

/// An address of either family, in the form of system calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub union SocketAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl SocketAddress {
    /// No address.
    pub fn none() -> SocketAddress {
        // SAFETY: all-zero is a valid value of both.
        unsafe { std::mem::zeroed() }
    }

    /// The address of a host.
    pub fn of(addr: IpAddr) -> SocketAddress {
        let mut name = SocketAddress::none();
        match addr {
            IpAddr::V4(addr) => {
                let sin_addr = libc::in_addr { s_addr: u32::from(addr).to_be() };
                let sin_family = libc::AF_INET as libc::sa_family_t;
                name.v4 = libc::sockaddr_in { sin_family, sin_port: 0, sin_addr, sin_zero: [0; 8] };
            }
            IpAddr::V6(addr) => {
                // SAFETY: all-zero is a valid sockaddr_in6.
                let mut v6: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                v6.sin6_addr.s6_addr = addr.octets();
                name.v6 = v6;
            }
        }
        name
    }

    /// The length of an address for the system call.
    pub fn len(v6: bool) -> libc::socklen_t {
        if v6 { size_of::<libc::sockaddr_in6>() as _ } else { size_of::<libc::sockaddr_in>() as _ }
    }

    /// The host, if it is an IPv6 one.
    pub fn v6(&self) -> Option<Ipv6Addr> {
        // SAFETY: both members begin with the family and all bytes of the union are initialised.
        let v6 = unsafe { self.v6 };
        (i32::from(v6.sin6_family) == libc::AF_INET6).then(|| v6.sin6_addr.s6_addr.into())
    }
}
