//! The address of an agent: a Unix socket on this machine, or a TLS listener on another.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The scheme of an address of an agent on another machine.
pub(crate) const SCHEME: &str = "tls://";

/// The address of an agent.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// Its Unix socket.
    Socket(PathBuf),
    /// Its listener on another machine; feature `tls` makes one of an address.
    Far(Arc<dyn Far>),
}

/// A way to an agent on another machine.
pub trait Far: std::fmt::Debug + std::fmt::Display + Send + Sync {
    /// Connects, and makes sure that an agent answers there.
    ///
    /// # Errors
    /// No agent answers there, or the two do not trust each other.
    fn connect(&self) -> io::Result<Box<dyn AgentStream>>;
}

/// A connection to an agent.
pub trait AgentStream: Read + Write + std::fmt::Debug + Send {
    /// Sets the longest wait of a read.
    ///
    /// # Errors
    /// The system's.
    fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()>;

    /// Makes reads return at once ([`io::ErrorKind::WouldBlock`]) where nothing has come, or wait again.
    ///
    /// # Errors
    /// The system's.
    fn set_nonblocking(&self, on: bool) -> io::Result<()>;
}

impl AgentStream for UnixStream {
    fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        UnixStream::set_read_timeout(self, patience)
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        UnixStream::set_nonblocking(self, on)
    }
}

impl Endpoint {
    /// True if the text is an address on another machine.
    pub fn is_remote(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    pub(crate) fn connect(&self) -> io::Result<Box<dyn AgentStream>> {
        match self {
            Endpoint::Socket(path) => Ok(Box::new(UnixStream::connect(path)?)),
            Endpoint::Far(far) => far.connect(),
        }
    }
}

impl From<&Path> for Endpoint {
    fn from(path: &Path) -> Endpoint {
        Endpoint::Socket(path.to_owned())
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Socket(path) => path.display().fmt(f),
            Endpoint::Far(far) => far.fmt(f),
        }
    }
}

/// Splits `HOST:PORT`; an IPv6 address stands in brackets.
pub fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match bare {
        Some(bare) => bare,
        None if host.contains(':') => return None,
        None => host,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    let good = !host.is_empty() && host.len() <= 253 && host.chars().all(plain);
    Some((host.to_owned(), port.parse().ok().filter(|port| good && *port > 0)?))
}
