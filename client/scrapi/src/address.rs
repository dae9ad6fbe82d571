//! `scrapi_sockaddr_*`: addresses of either family, for programs that do not care which.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Reads a `sockaddr`; `None`: null, or of no family of IP.
///
/// # Safety
/// `address` is null or a `sockaddr` as long as its family says.
pub unsafe fn read(address: *const libc::sockaddr) -> Option<SocketAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every sockaddr begins with its family, and is as long as the family says.
    unsafe {
        match i32::from(address.cast::<libc::sa_family_t>().read_unaligned()) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(SocketAddr::new(Ipv6Addr::from(v6.sin6_addr.s6_addr).into(), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Writes an address into the room of a `sockaddr_storage`.
///
/// # Safety
/// `room` is null or valid for writes of the address's length.
unsafe fn write(room: *mut libc::sockaddr, address: SocketAddr) {
    if room.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match address {
            SocketAddr::V4(v4) => room.cast::<libc::sockaddr_in>().write_unaligned(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => room.cast::<libc::sockaddr_in6>().write_unaligned(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            }),
        }
    }
}

/// `scrapi_sockaddr_multicast`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_multicast(address: *const libc::sockaddr) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { read(address) }.is_some_and(|address| address.ip().is_multicast()).into()
}

/// `scrapi_sockaddr_parse`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_parse(room: *mut libc::sockaddr, name: *const c_char, port: u16) -> c_int {
    if room.is_null() || name.is_null() {
        return 0;
    }
    // SAFETY: a C string, by the caller's promise.
    let Ok(name) = unsafe { CStr::from_ptr(name) }.to_str() else { return 0 };
    let plain = name.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
    let found = plain.or_else(|| (name, port).to_socket_addrs().ok()?.next());
    let Some(found) = found else { return 0 };
    // SAFETY: the room of a sockaddr_storage, by the caller's promise.
    unsafe { write(room, found) };
    1
}

/// `scrapi_sockaddr_print`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_print(address: *const libc::sockaddr) -> *const c_char {
    thread_local! {
        static TEXT: RefCell<CString> = RefCell::new(CString::default());
    }
    // SAFETY: the caller's promise.
    let text = unsafe { read(address) }.map_or("(none)".to_owned(), |address| address.to_string());
    TEXT.with(|last| {
        let mut last = last.borrow_mut();
        *last = CString::new(text).unwrap_or_default();
        last.as_ptr()
    })
}

/// `scrapi_sockaddr_get_addr`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_get_addr(address: *const libc::sockaddr) -> *const c_void {
    // SAFETY: the caller's promise; both offsets lie inside an address of that family.
    unsafe {
        match read(address) {
            Some(SocketAddr::V4(_)) => address.byte_add(4).cast(),
            Some(SocketAddr::V6(_)) => address.byte_add(8).cast(),
            None => std::ptr::null(),
        }
    }
}

/// `scrapi_sockaddr_set_addr`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_set_addr(address: *mut libc::sockaddr, bytes: *const c_void) {
    if bytes.is_null() {
        return;
    }
    // SAFETY: the caller's promise: 4 or 16 bytes, as the family says.
    unsafe {
        match read(address) {
            Some(SocketAddr::V4(v4)) => {
                let ip = Ipv4Addr::from(bytes.cast::<[u8; 4]>().read_unaligned());
                write(address, SocketAddr::new(ip.into(), v4.port()));
            }
            Some(SocketAddr::V6(v6)) => {
                let ip = Ipv6Addr::from(bytes.cast::<[u8; 16]>().read_unaligned());
                write(address, SocketAddr::new(ip.into(), v6.port()));
            }
            None => {}
        }
    }
}

/// `scrapi_sockaddr_get_port`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_get_port(address: *const libc::sockaddr) -> u16 {
    // SAFETY: the caller's promise.
    unsafe { read(address) }.map_or(0, |address| address.port())
}

/// `scrapi_sockaddr_set_port`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_set_port(address: *mut libc::sockaddr, port: u16) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(mut known) = read(address) {
            known.set_port(port);
            write(address, known);
        }
    }
}

/// `scrapi_sockaddr_any`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_any(address: *mut libc::sockaddr, family: c_int) {
    let any: IpAddr = match family {
        libc::AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    // SAFETY: the room of a sockaddr_storage, by the caller's promise.
    unsafe { write(address, SocketAddr::new(any, 0)) }
}

/// `scrapi_sockaddr_length`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sockaddr_length(address: *const libc::sockaddr) -> libc::socklen_t {
    // SAFETY: the caller's promise.
    match unsafe { read(address) } {
        Some(SocketAddr::V4(_)) => size_of::<libc::sockaddr_in>() as libc::socklen_t,
        Some(SocketAddr::V6(_)) => size_of::<libc::sockaddr_in6>() as libc::socklen_t,
        None => 0,
    }
}
