//! Errors of an experiment.

use linux::error::SystemError;

/// The reason why an experiment has no result.
#[derive(Debug)]
pub enum Error {
    /// The user stopped it.
    Interrupted,
    /// A system call failed.
    Failed(SystemError),
    /// An agent refused, or went away.
    Agent(rpc::client::Error),
    /// A program is missing or fails. Says which, and the remedy.
    Program(String),
    /// The measurement is void, for this reason.
    Void(String),
    /// The testbed did not come up.
    Testbed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Interrupted => f.write_str("stopped; everything has been removed"),
            Error::Failed(failed) => failed.fmt(f),
            Error::Agent(error) => error.fmt(f),
            Error::Program(what) | Error::Testbed(what) => f.write_str(what),
            Error::Void(what) => write!(f, "the measurement is void: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SystemError> for Error {
    fn from(failed: SystemError) -> Error {
        Error::Failed(failed)
    }
}

impl From<rpc::client::Error> for Error {
    fn from(error: rpc::client::Error) -> Error {
        Error::Agent(error)
    }
}
