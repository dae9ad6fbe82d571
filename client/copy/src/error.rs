//! Errors of a transfer.

use linux::error::SystemError;
use std::fmt;
use std::io;

/// The reason why a transfer failed.
#[derive(Debug)]
pub enum Error {
    /// The agent refused the reservation. Carries its message.
    Refused(String),
    /// The caller's request is invalid.
    Usage(String),
    /// A file, a socket or the agent failed.
    World(String),
    /// The other end reported an error, or broke the protocol.
    Peer(String),
    /// The reservation ended before the transfer.
    Over(String),
    /// The user stopped the transfer. The receiver keeps the bytes for the next attempt.
    Interrupted,
}

impl Error {
    /// For `map_err`: makes an [`Error::World`] that names the failed operation.
    pub fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |error| Error::World(format!("cannot {what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(text) | Error::Usage(text) | Error::World(text) | Error::Over(text) => f.write_str(text),
            Error::Peer(text) => write!(f, "the receiver says: {text}"),
            Error::Interrupted => f.write_str("stopped; the same command goes on with what has arrived"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SystemError> for Error {
    fn from(failed: SystemError) -> Error {
        Error::World(failed.to_string())
    }
}

impl From<rpc::client::Error> for Error {
    fn from(error: rpc::client::Error) -> Error {
        match error {
            rpc::client::Error::Agent(problem) if problem.kind == "refused" => Error::Refused(problem.message),
            rpc::client::Error::Agent(problem) if problem.kind == "misuse" => Error::Usage(problem.message),
            other => Error::World(other.to_string()),
        }
    }
}
