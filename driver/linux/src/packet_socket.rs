//! Packet sockets (packet(7)): opened, set and bound in one place, for captures, wires and link frames.

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Do not show a socket the frames that this host sends (linux/if_packet.h).
pub(crate) const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Opens a packet socket (with link headers or without) for an interface of this thread's network namespace.
/// Returns it with the interface's index. It receives nothing before [`bind`].
///
/// # Errors
/// There is no such interface, or CAP_NET_RAW is missing.
pub(crate) fn open(interface: &str, kind: SocketType, flags: SocketFlags) -> io::Result<(OwnedFd, u32)> {
    // Protocol 0: nothing is received yet.
    let socket = socket_with(AddressFamily::PACKET, kind, flags | SocketFlags::CLOEXEC, None)?;
    let index = name_to_index(&socket, interface)?;
    Ok((socket, index))
}

/// Sets a socket option.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: `value` is as large as `size` says and outlives the call; the descriptor is open.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the interface take frames for other stations too, as long as the socket is open.
///
/// # Errors
/// The interface is gone.
pub(crate) fn promiscuous(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let all = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &all)
}

/// Binds the socket to the interface, for every protocol: from now on it receives.
///
/// # Errors
/// The interface is gone.
pub(crate) fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut place: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    place.sll_family = libc::AF_PACKET as u16;
    place.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    place.sll_ifindex = index as i32;
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `place` is as large as `size` says and outlives the call; the descriptor is open.
    match unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&place).cast(), size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The control messages that the kernel puts beside a received message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// The wall clock when the packet came, ns, if the socket asked for it (`SO_TIMESTAMPNS`).
    stamp: Option<u64>,
    /// The VLAN tag that the kernel took out of the frame, if the socket asked for it (`PACKET_AUXDATA`).
    tag: Option<[u8; 4]>,
}

impl Beside {
    /// The wall clock when the packet came, ns.
    pub(crate) fn stamp(&self) -> Option<u64> {
        self.stamp
    }

    /// The VLAN tag.
    pub(crate) fn tag(&self) -> Option<[u8; 4]> {
        self.tag
    }

    /// Reads the control messages of a received message.
    ///
    /// # Safety
    /// `message` is one that `recvmsg` or `recvmmsg` filled in, and its control buffer lives.
    pub(crate) unsafe fn of(message: &libc::msghdr) -> Beside {
        let mut beside = Beside::default();
        // SAFETY: as the caller says; `CMSG_NXTHDR` stays inside the control buffer.
        let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
        while !at.is_null() {
            // SAFETY: `at` is a control message header inside the buffer.
            let header = unsafe { std::ptr::read_unaligned(at) };
            let holds = |size: usize| header.cmsg_len as usize >= size_of::<libc::cmsghdr>() + size;
            match (header.cmsg_level, header.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if holds(size_of::<libc::timespec>()) => {
                    // SAFETY: the length was checked; the data need not be aligned.
                    let ts: libc::timespec = unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(at).cast()) };
                    beside.stamp = Some(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64);
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) if holds(size_of::<libc::tpacket_auxdata>()) => {
                    // SAFETY: as above.
                    let found: libc::tpacket_auxdata = unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(at).cast()) };
                    beside.tag = vlan_tag(&found);
                }
                _ => {}
            }
            // SAFETY: as above.
            at = unsafe { libc::CMSG_NXTHDR(message, at) };
        }
        beside
    }
}

fn vlan_tag(found: &libc::tpacket_auxdata) -> Option<[u8; 4]> {
    if found.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let kind = if found.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { found.tp_vlan_tpid } else { 0x8100 };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), found.tp_vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}
