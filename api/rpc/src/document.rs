//! TOML files, parsed so that each mistake is reported with its file and line.

use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A mistake in a file: its place and a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 if the mistake concerns the whole file.
    pub line: usize,
    /// A message for a person.
    pub message: String,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.message),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.message),
        }
    }
}

impl std::error::Error for Mistake {}

/// A file's text and path.
#[derive(Debug)]
pub struct Document<'a> {
    file: &'a Path,
    text: &'a str,
}

impl<'a> Document<'a> {
    /// A document with a text that was read from `file`.
    pub fn new(file: &'a Path, text: &'a str) -> Document<'a> {
        Document { file, text }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        self.file
    }

    /// Parses the whole text as a `T`. `T` decides if unknown keys are refused (`deny_unknown_fields`).
    ///
    /// # Errors
    /// The first [`Mistake`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        toml::from_str(self.text).map_err(|error| {
            let message = one_line(error.message());
            match error.span() {
                Some(span) => self.at(span, message),
                None => self.whole(message),
            }
        })
    }

    /// A mistake at a span that `toml::Spanned` recorded.
    pub fn at(&self, span: Range<usize>, message: impl Into<String>) -> Mistake {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        Mistake { file: self.file.to_owned(), line, message: message.into() }
    }

    /// A mistake of the file as a whole.
    pub fn whole(&self, message: impl Into<String>) -> Mistake {
        Mistake { file: self.file.to_owned(), line: 0, message: message.into() }
    }
}

/// Reads a file for [`Document::new`].
///
/// # Errors
/// The file cannot be read.
pub fn read(file: &Path) -> Result<String, Mistake> {
    std::fs::read_to_string(file).map_err(|error| Mistake {
        file: file.to_owned(),
        line: 0,
        message: format!("cannot be read: {error}"),
    })
}

fn one_line(message: &str) -> String {
    message.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ")
}
