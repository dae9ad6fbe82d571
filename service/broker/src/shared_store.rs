//! The database that several brokers share: `[store]` of the broker's file.
//!
//! ```toml
//! [store]
//! postgres = "host=/run/postgresql dbname=sluice user=sluice"   # as libpq writes it, or postgresql://...
//! ca = "trust/postgres-ca.pem"         # who vouches for a server on another machine, which TLS is spoken with
//! certificate = "trust/client.pem"     # ours, if the server wants one, and its key
//! key = "trust/client.key"
//! lease = "1500ms"                     # the default: without a sign of life for so long, another broker takes over
//! called = "https://b1.example.org:8443"  # what a standby tells its callers of this broker when it leads
//! ```

use documents::units;
use rpc::document::{Document, Mistake};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use store::postgres::{DatabaseTls, PostgresOptions};
use terms::Span;
use toml::Spanned;

/// The shortest and the longest lease.
const LEASES: [Span; 2] = [Span::from_millis(500), Span::from_secs(60)];

/// The database that several brokers share.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedStore {
    /// The connection string.
    pub postgres: String,
    /// The files for TLS to it.
    pub tls: Option<DatabaseTls>,
    /// The time without a sign of life after which another broker takes over.
    pub lease: Duration,
    /// The words by which a standby tells its callers of this broker when it leads; `None`: the machine, and where it
    /// listens.
    pub called: Option<String>,
}

impl std::fmt::Debug for SharedStore {
    /// The connection string may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedStore").field("lease", &self.lease).field("called", &self.called).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreFile {
    postgres: Spanned<String>,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    lease: Option<Spanned<String>>,
    called: Option<Spanned<String>>,
}

impl SharedStore {
    /// A database, with the defaults.
    pub fn at(postgres: &str) -> SharedStore {
        SharedStore { postgres: postgres.to_owned(), tls: None, lease: Duration::from_millis(1500), called: None }
    }

    /// The settings of the store; `journal` is the name that the brokers share, `listens` where this one does.
    ///
    /// # Errors
    /// A sentence: the connection string or a file makes no sense.
    pub(crate) fn options(&self, journal: &str, listens: &str) -> Result<PostgresOptions, String> {
        let holder = self.called.clone().unwrap_or_else(|| format!("{} ({listens})", machine()));
        let options = PostgresOptions::new(&self.postgres, self.tls.as_ref(), journal, &holder);
        let mut options = options.map_err(|error| format!("the database of [store]: {error}"))?;
        options.lease = self.lease;
        Ok(options)
    }
}

/// The name of this machine.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "a machine without a name".to_owned() } else { name.to_owned() }
}

/// Reads `[store]`.
///
/// # Errors
/// The first [`Mistake`] in it.
pub(crate) fn read(document: &Document<'_>, found: Option<StoreFile>) -> Result<Option<SharedStore>, Mistake> {
    let Some(found) = found else { return Ok(None) };
    let from = |path: PathBuf| document.file().parent().map_or_else(|| path.clone(), |dir| dir.join(&path));
    let at = found.postgres.span();
    let tls = match (found.ca, found.certificate, found.key) {
        (None, None, None) => None,
        (Some(ca), None, None) => Some(DatabaseTls { ca: from(ca), own: None }),
        (Some(ca), Some(certificate), Some(key)) => {
            Some(DatabaseTls { ca: from(ca), own: Some((from(certificate), from(key))) })
        }
        _ => return Err(document.at(at, "certificate and key go together, and with ca")),
    };
    let mut store = SharedStore { tls, ..SharedStore::at(found.postgres.get_ref()) };
    if let Some(said) = &found.lease {
        let lease = units::parse_span(said.get_ref()).map_err(|wrong| document.at(said.span(), wrong))?;
        if lease < LEASES[0] || lease > LEASES[1] {
            return Err(document.at(said.span(), "a lease is 500ms to 1m"));
        }
        store.lease = Duration::from_nanos(lease.as_nanos());
    }
    if let Some(said) = found.called {
        let plain = |c: char| c.is_ascii_graphic() || c == ' ';
        if said.get_ref().is_empty() || said.get_ref().len() > 200 || !said.get_ref().chars().all(plain) {
            return Err(document.at(said.span(), "1 to 200 visible ASCII characters: an address that callers can use"));
        }
        store.called = Some(said.into_inner());
    }
    store.options("", "").map_err(|wrong| document.at(at, wrong))?;
    Ok(Some(store))
}

#[cfg(test)]
mod tests {
    use crate::config::BrokerConfig;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn a_database_in_the_file() {
        let parse = |text: &str| BrokerConfig::parse(Path::new("/etc/sluice/broker.toml"), text);
        let good =
            "[store]\npostgres = \"host=/run/postgresql password=secret\"\nlease = \"2s\"\ncalled = \"https://b1\"";
        let config = parse(good).unwrap();
        let store = config.store.as_ref().unwrap();
        assert_eq!((store.lease, store.called.as_deref()), (Duration::from_secs(2), Some("https://b1")));
        assert!(!format!("{config:?}").contains("secret"));
        assert_eq!(parse("").unwrap().store, None);
        for (text, line, why) in [
            ("[store]\npostgres = \"dbname=x\"", 2, "names no host"),
            ("[store]\npostgres = \"host=db.example.org\"", 2, "with TLS only"),
            ("[store]\npostgres = \"host=a\"\nca = \"none.pem\"", 2, "/etc/sluice/none.pem"),
            ("[store]\npostgres = \"host=/a\"\nkey = \"k\"", 2, "go together"),
            ("[store]\npostgres = \"host=/a\"\nlease = \"1ms\"", 3, "500ms to 1m"),
            ("[store]\npostgres = \"host=/a\"\ncalled = \"\"", 3, "1 to 200"),
            ("[store]\nlease = \"2s\"", 1, "postgres"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert_eq!(mistake.line, line, "{text}: {mistake}");
            assert!(mistake.message.contains(why), "{text}: {mistake}");
        }
    }
}
