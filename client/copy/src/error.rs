//! Why a transfer did not come about, or not to its end.

use linux::error::SystemError;
use std::fmt;
use std::io;

/// What went wrong.
#[derive(Debug)]
pub enum Error {
    /// The book said no; with its words.
    Refused(String),
    /// The caller asked for what makes no sense.
    Usage(String),
    /// A file, a socket, an agent.
    World(String),
    /// The other end says why it cannot.
    Peer(String),
    /// The reservation is over before the transfer.
    Over(String),
    /// The user stopped it; what has arrived is kept for the next time.
    Interrupted,
}

impl Error {
    /// For `map_err`: what was being done.
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
