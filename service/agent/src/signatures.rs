//! Authentication in the configuration: keys, or an explicit `auth = "none"`, so that it is never off by
//! accident.

use crate::document::{Document, Mistake};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The messages that an interface accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuthConfig {
    /// All messages, signed or not.
    None,
    /// Messages of neighbours that sign with one of these keys.
    Keys {
        /// The file of keys.
        file: PathBuf,
        /// The integrity handshake, by which senders prove that their messages are fresh.
        handshake: Handshake,
        /// The window of sequence numbers that are accepted out of order, the latest included: 1 is strict
        /// order (RFC 2747 section 4.2).
        reordering: u32,
    },
}

/// The integrity handshake (RFC 2747 section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handshake {
    /// A new sender is challenged.
    Required,
    /// A new sender is challenged unless it says that it cannot answer challenges.
    Willing,
    /// No sender is challenged.
    None,
}

/// The widest window of sequence numbers, and the default.
pub const MOST_REORDERING: u32 = 64;

/// The complaint about an interface without `auth`.
pub(crate) const MISSING: &str = "`auth` is missing: write keys = \"FILE\" (the keys that neighbours share, a file of mode \
    0600: docs/rsvp.md), or auth = \"none\", with which anybody on the link can reserve and tear down";

/// The authentication that one level of the file asks for; `None` if it has neither `auth` nor `keys`.
///
/// # Errors
/// Both are there, or the word is not known.
pub fn said(
    document: &Document<'_>,
    auth: Option<&Spanned<String>>,
    keys: Option<&Spanned<PathBuf>>,
) -> Result<Option<AuthConfig>, Mistake> {
    match (auth, keys) {
        (None, None) => Ok(None),
        (None, Some(file)) => {
            let beside = document.file().parent().unwrap_or(Path::new(""));
            let file = beside.join(file.get_ref());
            Ok(Some(AuthConfig::Keys { file, handshake: Handshake::Required, reordering: MOST_REORDERING }))
        }
        (Some(auth), None) if auth.get_ref() == "none" => Ok(Some(AuthConfig::None)),
        (Some(auth), Some(_)) if auth.get_ref() == "none" => {
            Err(document.at(auth.span(), "there are keys and auth = \"none\": leave one of them out"))
        }
        (Some(auth), _) => {
            let wrong = format!("auth = {:?} is not known: it is \"none\", or keys = \"FILE\" instead", auth.get_ref());
            Err(document.at(auth.span(), wrong))
        }
    }
}

/// The authentication of an interface, with its handshake and window of sequence numbers.
pub(crate) fn of_interface(
    document: &Document<'_>,
    said: Option<&AuthConfig>,
    handshake: Option<&Spanned<String>>,
    reordering: Option<&Spanned<u32>>,
) -> Result<AuthConfig, Mistake> {
    let mut here = said.ok_or_else(|| document.whole(MISSING))?.clone();
    if let Some(text) = handshake {
        let found = handshake_of(document, text)?;
        let AuthConfig::Keys { handshake, .. } = &mut here else {
            return Err(document.at(text.span(), "without keys there is no handshake"));
        };
        *handshake = found;
    }
    if let Some(count) = reordering {
        if !(1..=MOST_REORDERING).contains(count.get_ref()) {
            let wrong = format!("reordering is 1 (every message in its order) to {MOST_REORDERING}");
            return Err(document.at(count.span(), wrong));
        }
        let AuthConfig::Keys { reordering, .. } = &mut here else {
            return Err(document.at(count.span(), "without keys no order is kept"));
        };
        *reordering = *count.get_ref();
    }
    Ok(here)
}

fn handshake_of(document: &Document<'_>, text: &Spanned<String>) -> Result<Handshake, Mistake> {
    match text.get_ref().as_str() {
        "required" => Ok(Handshake::Required),
        "willing" => Ok(Handshake::Willing),
        "none" => Ok(Handshake::None),
        other => {
            Err(document.at(text.span(), format!("handshake = {other:?} is not known: required, willing or none")))
        }
    }
}
