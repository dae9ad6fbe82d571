//! TCP socket options for bulk transfers: the sending rate, a short send queue, the congestion control, and the
//! detection of a dead peer (tcp(7), socket(7)). And a listening socket that takes over from a killed process.

use crate::error::SystemError;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// The time that a killed process, or a child of it, has to give up an address.
const TAKE_OVER: Duration = Duration::from_secs(5);

/// Listens, without blocking calls. While the address is in use it tries again, for 5 s: a service that replaces a killed one starts
/// before the kernel has ended every process of the old one.
///
/// # Errors
/// The address cannot be used, or is in use for longer.
pub fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    let begun = Instant::now();
    let listener = loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < TAKE_OVER => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => break bound?,
        }
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Limits the socket to this many bytes of payload a second, evenly spaced: the kernel paces the packets
/// itself, even without a qdisc for it (`SO_MAX_PACING_RATE`).
///
/// # Errors
/// The kernel does not support it.
pub fn pace(stream: &impl AsRawFd, bytes_per_s: u64) -> Result<(), SystemError> {
    // All ones is "no limit".
    let rate = bytes_per_s.min(u64::MAX - 1);
    set(stream, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate, "pace a TCP connection")
}

/// Limits the bytes that wait for their reader to about this many (`SO_RCVBUF`): the sender goes no faster than they are
/// read.
///
/// # Errors
/// The kernel does not support it.
pub fn receive_at_most(stream: &TcpStream, bytes: u32) -> Result<(), SystemError> {
    // The kernel counts its own overhead too, and takes half of the doubled value for it.
    set(stream, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes, "limit a TCP connection's window")
}

/// Limits the unsent bytes in the socket to about this many, so that a new rate applies to the next bytes and
/// not only after a buffer has drained.
///
/// # Errors
/// The kernel does not support it.
pub fn hold_back(stream: &TcpStream, bytes: u32) -> Result<(), SystemError> {
    set(stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes, "hold a TCP connection's queue short")
}

/// Sets the congestion control of a connection by its name, such as `cubic` (`TCP_CONGESTION`).
///
/// # Errors
/// The kernel does not have it.
pub fn congestion_control(stream: &TcpStream, name: &str) -> Result<(), SystemError> {
    let what = "set the congestion control of a TCP connection";
    let (fd, len) = (stream.as_raw_fd(), name.len() as libc::socklen_t);
    // SAFETY: `name` is valid for reads of `len` bytes and outlives the call; the kernel takes a name without a final zero.
    let rc = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), len) };
    if rc == 0 { Ok(()) } else { Err(SystemError::last(what)) }
}

/// Makes the kernel probe the peer after `idle` of silence, and give up after four probes, 5 s apart.
///
/// # Errors
/// The kernel does not support it.
pub fn keep_alive(stream: &TcpStream, idle: Duration) -> Result<(), SystemError> {
    let idle = i32::try_from(idle.as_secs().max(1)).unwrap_or(i32::MAX);
    let what = "keep a TCP connection alive";
    set(stream, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1i32, what)?;
    set(stream, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &idle, what)?;
    set(stream, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &5i32, what)?;
    set(stream, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, &4i32, what)
}

fn set<T>(stream: &impl AsRawFd, level: i32, option: i32, value: &T, what: &'static str) -> Result<(), SystemError> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for reads of `len` bytes and outlives the call; every caller passes a plain integer.
    let rc = unsafe { libc::setsockopt(stream.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len) };
    if rc == 0 { Ok(()) } else { Err(SystemError::last(what)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    #[test]
    fn a_paced_connection_keeps_its_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let mut sender = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (mut receiver, _) = listener.accept().expect("accept");
        pace(&sender, 4_000_000).expect("paced");
        hold_back(&sender, 16 << 10).expect("held back");
        keep_alive(&sender, Duration::from_secs(10)).expect("kept alive");
        congestion_control(&sender, "reno").expect("every kernel has it");
        assert!(congestion_control(&sender, "no such name").is_err());
        let begin = Instant::now();
        let writer = std::thread::spawn(move || sender.write_all(&vec![7; 2_000_000]));
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).expect("read");
        writer.join().expect("no panic").expect("written");
        let took = begin.elapsed().as_secs_f64();
        assert_eq!(all.len(), 2_000_000);
        // Half a second; the first ten packets are not paced, and a busy machine is late.
        assert!(took > 0.35, "{took} s");
    }

    #[test]
    fn an_address_is_taken_over_from_who_gives_it_up() {
        let old = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = old.local_addr().unwrap();
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(old);
        });
        assert_eq!(listen(&address).unwrap().local_addr().unwrap(), address);
        ends.join().unwrap();
    }
}
