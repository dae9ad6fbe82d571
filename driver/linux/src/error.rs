//! Failures of system calls: the attempted operation in words, and the kernel's reason.

use std::io;

/// An operation that failed.
#[derive(Debug)]
pub struct SystemError {
    /// The attempted operation, for a person: `create the network namespace seed-maui`.
    pub what: String,
    /// The kernel's reason.
    pub error: io::Error,
}

impl SystemError {
    /// An error with the reason of the last system call.
    pub fn last(what: impl Into<String>) -> SystemError {
        SystemError { what: what.into(), error: io::Error::last_os_error() }
    }

    /// An error with this reason.
    pub fn because(what: impl Into<String>, error: io::Error) -> SystemError {
        SystemError { what: what.into(), error }
    }

    /// For `map_err`: names the operation.
    pub fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> SystemError {
        let what = what.into();
        move |error| SystemError { what, error }
    }

    /// For `map_err` of a netlink request: names the operation, and keeps the kernel's message if it sent
    /// one.
    pub fn netlink(what: impl Into<String>) -> impl FnOnce(crate::netlink::Error) -> SystemError {
        let what = what.into();
        move |refused| {
            let error = io::Error::from_raw_os_error(refused.errno);
            match refused.text {
                Some(text) => SystemError { what: format!("{what} ({text})"), error },
                None => SystemError { what, error },
            }
        }
    }

    /// The errno, or 0 if the reason is not the kernel's.
    pub fn code(&self) -> i32 {
        self.error.raw_os_error().unwrap_or(0)
    }
}

/// For `map_err` of one of rustix's calls: names the operation.
pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> SystemError {
    let what = what.into();
    move |errno| SystemError { what, error: errno.into() }
}

impl std::fmt::Display for SystemError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot {}: {}", self.what, self.error)
    }
}

impl std::error::Error for SystemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
