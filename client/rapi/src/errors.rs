//! The words of RAPI's error codes.

use std::ffi::{CStr, c_int};

/// An error code in words; `None`: there is no such code.
pub fn words(code: c_int) -> Option<&'static CStr> {
    Some(match code {
        0 => c"no error",
        1 => c"a parameter is invalid",
        2 => c"too many sessions",
        3 => c"there is no such session",
        4 => c"wrong number of filters or flowspecs for the style",
        5 => c"there is no such style",
        6 => c"a system call failed; errno says why",
        7 => c"a list is too long",
        8 => c"no memory",
        9 => c"no RSVP agent answers on this host",
        10 => c"an object has a wrong format",
        11 => c"an object has a wrong length",
        12 => c"a sender needs a Tspec",
        13 => c"an integrated-services object cannot be read",
        14 => c"ports and security parameter indexes are mixed in one session",
        15 => c"the protocol number is none of IP's",
        16 => c"a session of ESP or AH needs a virtual destination port",
        17 => c"GPI filters belong to GPI sessions, and to no others",
        18 => c"the sender's address is not an address of this host",
        19 => c"the session's address is not an address of this host",
        20 => c"the protocol has no ports",
        254 => c"not supported by this implementation",
        255 => c"unknown error",
        _ => return None,
    })
}
