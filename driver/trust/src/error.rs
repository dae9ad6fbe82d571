//! Errors, by the party at fault.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why an operation on certificates failed.
#[derive(Debug)]
pub enum Error {
    /// A file cannot be read or written.
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file has the wrong content.
    Content {
        /// Its path.
        path: PathBuf,
        /// The fault, and a remedy.
        what: String,
    },
    /// The caller asked for the impossible.
    Misuse(String),
    /// A peer's certificate is not accepted.
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
