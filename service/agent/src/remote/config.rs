//! Access for callers from other machines: the section `[listen]` of the agent's file.
//!
//! ```toml
//! [listen]                             # mutual TLS; not there: callers of other machines are not let in
//! address = ["10.0.0.1:4711"]          # one or several
//! ca = "trust/ca.pem"                  # as `sluice ca` makes them; from here if relative
//! certificate = "trust/agent-maui.pem"
//! key = "trust/agent-maui.key"
//! revoked = "trust/revoked.pem"        # read again whenever it changes; default: nothing is revoked
//! user = "sluice-door"                 # who reads what callers send, or UID:GID; default: sluice-door, or else nobody
//! [[listen.domain]]                    # partners, each with its own authority: see `rpc::domains`
//! ```

use crate::document::{Document, Mistake};
use linux::privilege::{NOBODY, User};
use rpc::domains::{self, DomainFile};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;
use trust::Files;

/// The default user of the front, if the system has it.
const USER: &str = "sluice-door";
/// The most addresses.
const MOST: usize = 16;

/// The addresses at which an agent listens for other machines, and its credentials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenConfig {
    /// The addresses.
    pub addresses: Vec<SocketAddr>,
    /// The files of authority, certificate, key and revocations.
    pub files: Files,
    /// The user of the process that serves the callers.
    pub user: User,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListenFile {
    address: Spanned<Addresses>,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    revoked: Option<PathBuf>,
    user: Option<Spanned<String>>,
    #[serde(default)]
    domain: Vec<DomainFile>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Addresses {
    One(String),
    Several(Vec<String>),
}

pub(crate) fn read(document: &Document<'_>, file: &Path, found: &ListenFile) -> Result<ListenConfig, Mistake> {
    let texts = match found.address.get_ref() {
        Addresses::One(text) => std::slice::from_ref(text),
        Addresses::Several(texts) => texts,
    };
    if texts.is_empty() || texts.len() > MOST {
        return Err(document.at(found.address.span(), format!("1 to {MOST} addresses")));
    }
    let address = |text: &String| {
        let wrong = || document.at(found.address.span(), format!("{text:?} is no ADDRESS:PORT, such as 10.0.0.1:4711"));
        text.parse::<SocketAddr>().map_err(|_| wrong())
    };
    let user = found.user.as_ref().map_or(Ok(User::named(USER).unwrap_or(NOBODY)), |name| {
        let found = User::named(name.get_ref()).filter(|user| user.uid != 0 && user.gid != 0);
        let what = || format!("{:?} is no user of /etc/passwd but root, and no UID:GID", name.get_ref());
        found.ok_or_else(|| document.at(name.span(), what()))
    })?;
    let from = |path: &PathBuf| file.parent().map_or_else(|| path.clone(), |dir| dir.join(path));
    Ok(ListenConfig {
        addresses: texts.iter().map(address).collect::<Result<_, _>>()?,
        files: Files {
            ca: from(&found.ca),
            certificate: from(&found.certificate),
            key: from(&found.key),
            revoked: found.revoked.as_ref().map(from),
            partners: domains::read(document, &found.domain)?,
        },
        user,
    })
}
