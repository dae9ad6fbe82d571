//! The TCP connections of this network namespace (sock_diag(7), `linux/inet_diag.h`).

use super::message::{NetlinkMessage, NetlinkMessages};
use super::socket::{Result, Socket, open_fd, receive};
use rustix::net::SocketFlags;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// States in which this side may still send: all but FIN_WAIT2 (5), TIME_WAIT (6), CLOSE (7), LISTEN (10).
const SENDS: u32 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11 | 1 << 12;
/// `struct inet_diag_req_v2`: family, protocol, two bytes, states; then `struct inet_diag_sockid`, which matches nothing
/// in a dump.
const SOCKID: usize = 48;

/// Groups of `linux/sock_diag.h`: SKNLGRP_INET_TCP_DESTROY (1) and SKNLGRP_INET6_TCP_DESTROY (3).
const DESTROYED: u32 = 1 | 1 << 2;
/// The longest notice that is read, bytes.
const NOTICE: usize = 1 << 13;
/// The most notices that are taken at once: others wait for their turn.
const MOST_NOTICES: usize = 1_024;

/// A connection: its two ends, the one of this host first; addresses of IPv4 are written as such.
pub type ConnectionEnds = (SocketAddr, SocketAddr);

/// Lists connections.
#[derive(Debug)]
pub struct TcpConnections(Socket);

impl TcpConnections {
    /// Opens a list of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel has no such lists.
    pub fn open() -> Result<TcpConnections> {
        Socket::diag().map(TcpConnections)
    }

    /// All connections on which this host may still send: not those of which it has sent the end and had it acknowledged.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn sending(&mut self) -> Result<Vec<ConnectionEnds>> {
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut header = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
            header.extend(SENDS.to_ne_bytes());
            header.extend([0; SOCKID]);
            let replies = self.0.dump("list TCP connections", NetlinkMessage::new(SOCK_DIAG_BY_FAMILY, 0, &header))?;
            all.extend(replies.iter().filter_map(|reply| ends(&reply.body)));
        }
        Ok(all)
    }
}

/// A connection that the kernel has let go of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedConnection {
    /// Its ends.
    pub ends: ConnectionEnds,
    /// The number of its socket (SO_COOKIE).
    pub cookie: u64,
}

/// Tells of connections as they end.
#[derive(Debug)]
pub struct EndedConnections {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl EndedConnections {
    /// Hears from the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel does not tell (before Linux 4.4).
    pub fn open() -> Result<EndedConnections> {
        let fd = open_fd(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, libc::NETLINK_SOCK_DIAG, DESTROYED)?;
        Ok(EndedConnections { fd, buffer: vec![0; NOTICE] })
    }

    /// Those that have ended since the last call. Some may be missing: after many at once the kernel drops the rest.
    pub fn take(&mut self) -> Vec<EndedConnection> {
        let mut all = Vec::new();
        for _ in 0..MOST_NOTICES {
            // None is left, or some are lost: whoever needs all of them has the list.
            let Ok(len) = receive(&self.fd, "hear of ended connections", &mut self.buffer) else { break };
            let ended = |body: &[u8]| Some(EndedConnection { ends: ends(body)?, cookie: cookie(body)? });
            all.extend(NetlinkMessages::new(&self.buffer[..len]).filter_map(|one| ended(one.body)));
        }
        all
    }
}

impl AsFd for EndedConnections {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The socket's number in `struct inet_diag_msg`: two halves, the lower first.
fn cookie(body: &[u8]) -> Option<u64> {
    let half = |at: usize| Some(u64::from(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?)));
    Some(half(44)? | half(48)? << 32)
}

/// Reads `struct inet_diag_msg`: family, state, timer, retransmissions; then ports and addresses, in network order.
fn ends(body: &[u8]) -> Option<ConnectionEnds> {
    let is_four = i32::from(*body.first()?) == libc::AF_INET;
    let port = |at: usize| Some(u16::from_be_bytes(*body.get(at..)?.first_chunk()?));
    let address = |at: usize| {
        let bytes: [u8; 16] = *body.get(at..)?.first_chunk()?;
        let [a, b, c, d, ..] = bytes;
        Some(if is_four { IpAddr::from([a, b, c, d]) } else { IpAddr::from(bytes).to_canonical() })
    };
    Some((SocketAddr::new(address(8)?, port(4)?), SocketAddr::new(address(24)?, port(6)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn a_connection_is_listed_while_it_sends() {
        let mut list = TcpConnections::open().unwrap();
        for place in ["127.0.0.1:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let port = listener.local_addr().unwrap().port();
            let here = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (there, _) = listener.accept().unwrap();
            let of = |one: &TcpStream| {
                let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
                (plain(one.local_addr().unwrap()), plain(one.peer_addr().unwrap()))
            };
            let (mine, theirs) = (of(&here), of(&there));
            let all = list.sending().unwrap();
            assert!(all.contains(&mine) && all.contains(&theirs), "{all:?}");
            here.shutdown(Shutdown::Write).unwrap();
            let until = Instant::now() + Duration::from_secs(10);
            while list.sending().unwrap().contains(&mine) {
                assert!(Instant::now() < until, "it has sent its end");
            }
            assert!(list.sending().unwrap().contains(&theirs), "the other side may send");
        }
    }

    #[test]
    fn a_connection_that_ends_is_told() {
        let mut ended = EndedConnections::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, _) = listener.accept().unwrap();
        let ends = (here.local_addr().unwrap(), here.peer_addr().unwrap());
        let cookie = rustix::net::sockopt::socket_cookie(&here).unwrap();
        ended.take();
        drop((here, there));
        let until = Instant::now() + Duration::from_secs(10);
        // Other tests of this process end connections too.
        while !ended.take().contains(&EndedConnection { ends, cookie }) {
            assert!(Instant::now() < until, "it has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn any_bytes_are_read() {
        for len in 0..60 {
            let _ = (ends(&vec![2; len]), cookie(&vec![2; len]));
        }
    }
}
