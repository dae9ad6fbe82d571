//! How to reach the database, and how long to bear its silence.

use crate::Error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// The longest attempt at one address, unless the connection string says another.
const CONNECT: Duration = Duration::from_secs(2);

/// Settings of a journal in PostgreSQL.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The parsed connection string.
    place: tokio_postgres::Config,
    /// The TLS that a host on a network is spoken to with; `None`: none is named.
    tls: Option<ClientConfig>,
    /// The journal's name. Processes that name the same one in the same database share it.
    journal: String,
    /// The words by which others are told of this process when it leads.
    holder: String,
    /// The time without renewal after which another process may take over.
    pub lease: Duration,
    /// The longest silence of the database in the middle of a commit; then the journal is dead.
    pub patience: Duration,
    /// The longest wait for one answer. Then the connection counts as lost.
    pub answer: Duration,
    /// Minimum number of audit entries to keep.
    pub audit_keep: u64,
}

/// The files for TLS to the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DatabaseTls {
    /// The authorities that vouch for the server.
    pub ca: PathBuf,
    /// Our certificate and its key, if the server wants one.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl std::fmt::Debug for PostgresOptions {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("journal", &self.journal)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

impl PostgresOptions {
    /// Reads a connection string (`host=/run/postgresql dbname=sluice`, or `postgresql://...`) and the files for TLS.
    /// `journal` is the journal's name, `holder` what others are told of this process when it leads.
    ///
    /// # Errors
    /// A sentence: the string or a file makes no sense, or another machine would be spoken to without TLS.
    pub fn new(text: &str, tls: Option<&DatabaseTls>, journal: &str, holder: &str) -> Result<PostgresOptions, Error> {
        let wrong = |why: String| Error::Failed { what: "use this connection string".to_owned(), why };
        // What it says may hold a password: it is never quoted.
        let mut place = tokio_postgres::Config::from_str(text).map_err(|error| wrong(reasons(&error)))?;
        if place.get_hosts().is_empty() && place.get_hostaddrs().is_empty() {
            return Err(wrong("it names no host: write host=/run/postgresql for this machine's own server".to_owned()));
        }
        let afar = place.get_hosts().iter().any(is_afar) || place.get_hostaddrs().iter().any(|at| !at.is_loopback());
        if afar && (tls.is_none() || place.get_ssl_mode() == SslMode::Disable) {
            let why =
                "a server on another machine is spoken to with TLS only: name its authority (ca), and let sslmode be";
            return Err(wrong(why.to_owned()));
        }
        if tls.is_some() && place.get_ssl_mode() == SslMode::Prefer {
            place.ssl_mode(SslMode::Require);
        }
        if place.get_connect_timeout().is_none() {
            place.connect_timeout(CONNECT);
        }
        // Of several servers the one that takes writes: after a failover it is another.
        place.target_session_attrs(TargetSessionAttrs::ReadWrite).application_name("sluice");
        Ok(PostgresOptions {
            place,
            tls: tls.map(client).transpose()?,
            journal: journal.to_owned(),
            holder: holder.to_owned(),
            lease: Duration::from_millis(1500),
            patience: Duration::from_secs(30),
            answer: Duration::from_secs(5),
            audit_keep: 1_000_000,
        })
    }
}

impl PostgresOptions {
    /// The parsed connection string.
    pub(super) fn place(&self) -> &tokio_postgres::Config {
        &self.place
    }

    /// The TLS that the server is spoken to with.
    pub(super) fn tls(&self) -> Option<&ClientConfig> {
        self.tls.as_ref()
    }

    /// The journal's name.
    pub(super) fn journal(&self) -> &str {
        &self.journal
    }

    /// The words by which others are told of this process.
    pub(super) fn holder(&self) -> &str {
        &self.holder
    }
}

/// An error with its reasons.
pub(super) fn reasons(error: &dyn std::error::Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(reason) = source {
        let more = reason.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = reason.source();
    }
    text
}

fn is_afar(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name != "localhost" && !name.parse::<std::net::IpAddr>().is_ok_and(|at| at.is_loopback()),
        Host::Unix(_) => false,
    }
}

fn client(files: &DatabaseTls) -> Result<ClientConfig, Error> {
    let what = |path: &Path| format!("read {}", path.display());
    let mut roots = RootCertStore::empty();
    let authorities = CertificateDer::pem_file_iter(&files.ca).map_err(Error::doing(what(&files.ca)))?;
    for authority in authorities {
        roots.add(authority.map_err(Error::doing(what(&files.ca)))?).map_err(Error::doing(what(&files.ca)))?;
    }
    if roots.is_empty() {
        return Err(Error::doing(what(&files.ca))("there is no certificate in it"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(Error::doing("speak TLS"))?.with_root_certificates(roots);
    let Some((certificate, key)) = &files.own else { return Ok(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(Error::doing(what(certificate)))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(Error::doing(what(key)))?;
    builder.with_client_auth_cert(chain, secret).map_err(Error::doing(what(certificate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_string_may_say() {
        let new = |text: &str| PostgresOptions::new(text, None, "main", "here");
        for text in [
            "host=/run/postgresql dbname=sluice",
            "host=127.0.0.1 port=5433",
            "postgresql://a:secret@localhost/sluice",
            "host=/a,/b port=1,2",
        ] {
            assert!(new(text).is_ok(), "{text}");
        }
        for (text, why) in [
            ("dbname=sluice", "names no host"),
            ("host=db.example.org", "with TLS only"),
            ("host=/run/postgresql,10.0.0.1", "with TLS only"),
            ("hostaddr=10.0.0.1", "with TLS only"),
            ("host=a colour=blue", "colour"),
        ] {
            let error = new(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let shown = format!("{:?}", new("host=/a password=secret").unwrap());
        assert!(!shown.contains("secret"), "{shown}");
        let none = DatabaseTls { ca: "/none".into(), own: None };
        let error = PostgresOptions::new("host=db.example.org", Some(&none), "main", "here").unwrap_err();
        assert!(error.to_string().contains("/none"), "{error}");
    }
}
