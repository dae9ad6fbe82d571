//! What can go wrong, and whose fault it is.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why something of trust could not be done.
#[derive(Debug)]
pub enum Error {
    /// The world: a file that cannot be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file that does not hold what it should.
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// The caller asked for something that makes no sense.
    Misuse(String),
    /// A peer is not who it must be.
    Refused(String),
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::File { path: path.to_owned(), error }
    }

    pub(crate) fn content(path: &Path, what: impl fmt::Display) -> Error {
        Error::Content { path: path.to_owned(), what: what.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { path, error } => write!(f, "{}: {error}", path.display()),
            Error::Content { path, what } => write!(f, "{}: {what}", path.display()),
            Error::Misuse(what) | Error::Refused(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
