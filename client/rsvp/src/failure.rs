//! The reason why a call failed, in RAPI's codes.

use rpc::client::Error;
use std::ffi::c_int;
use std::io;
use std::path::Path;

/// An error code of a function (C809; from 14 on our own numbers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Code {
    /// A parameter is invalid.
    Inval = 1,
    /// Too many sessions.
    MaxSess = 2,
    /// No such session.
    BadSid = 3,
    /// Wrong number of filters or flowspecs for the style.
    NFfs = 4,
    /// No such style.
    BadStyle = 5,
    /// A system call failed.
    Syscall = 6,
    /// A list is too long.
    Overflow = 7,
    /// No agent answers.
    NoRsvp = 9,
    /// An object of a wrong format.
    ObjType = 10,
    /// An object of a wrong length.
    ObjLen = 11,
    /// No sender Tspec.
    NoTspec = 12,
    /// An Intserv object that cannot be read.
    Intserv = 13,
    /// The protocol is none of IP's.
    BadProto = 15,
    /// A security session needs a virtual port.
    BadVdPort = 16,
    /// GPI filters and sessions do not match.
    GpiSess = 17,
    /// Not supported.
    Unsupported = 254,
    /// A fault of this library.
    Unknown = 255,
}

/// A failed call: its code, and words for people.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// The mistake and its place.
    pub words: String,
    /// The system's error, where there is one.
    pub errno: Option<c_int>,
}

impl Failure {
    /// A failure of a code.
    pub fn of(code: Code, words: impl Into<String>) -> Failure {
        Failure { code, words: words.into(), errno: None }
    }

    /// The agent is away.
    pub fn away() -> Failure {
        Failure::of(Code::NoRsvp, "the agent is away")
    }

    /// No agent answers on a socket.
    pub fn no_agent(socket: &Path, error: &io::Error) -> Failure {
        let words = format!("no agent answers on {}: {error}", socket.display());
        Failure { code: Code::NoRsvp, words, errno: error.raw_os_error() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::Agent(problem) if problem.kind == "refused" => Code::MaxSess,
            Error::Agent(problem) if problem.kind == "fault" => Code::Unknown,
            Error::Agent(_) => Code::Inval,
            Error::Io { .. } | Error::Protocol(_) => Code::NoRsvp,
        };
        Failure::of(code, error.to_string())
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Failure {
        Failure { code: Code::Syscall, words: errno.to_string(), errno: Some(errno.raw_os_error()) }
    }
}
