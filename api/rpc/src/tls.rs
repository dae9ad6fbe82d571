//! Agents on other machines, by mutual TLS: the client's files, and the addresses `tls://HOST:PORT`.

use crate::place::{AgentStream, Endpoint, Far, SCHEME, split};
use rustls::ClientConfig;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trust::{CertificateRole, Dialled, Files, Now, Speaks};

/// The client's TLS files for agents and brokers on other machines. A file that is not given here is taken
/// from the environment: `SLUICE_CA`, `SLUICE_CERTIFICATE`, `SLUICE_KEY`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Papers {
    /// The authority's certificate.
    pub ca: Option<PathBuf>,
    /// The client's certificate.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate.
    pub key: Option<PathBuf>,
}

impl Papers {
    /// The three files.
    ///
    /// # Errors
    /// A sentence that names the missing file.
    pub fn files(&self) -> Result<Files, String> {
        let find = |said: &Option<PathBuf>, variable: &'static str| {
            let found = said.clone().or_else(|| std::env::var_os(variable).map(PathBuf::from));
            found.ok_or(variable)
        };
        let all = || {
            Ok((
                find(&self.ca, "SLUICE_CA")?,
                find(&self.certificate, "SLUICE_CERTIFICATE")?,
                find(&self.key, "SLUICE_KEY")?,
            ))
        };
        let (ca, certificate, key) = all().map_err(|missing: &'static str| {
            format!(
                "another machine wants to know who we are: ca, certificate and key, \
                 as `sluice ca` makes them, here or in the environment ({missing} is not set)"
            )
        })?;
        Ok(Files { ca, certificate, key, revoked: None, partners: Vec::new() })
    }
}

/// An agent on another machine.
#[derive(Debug)]
struct TlsPlace {
    host: String,
    port: u16,
    config: Arc<ClientConfig>,
}

impl Endpoint {
    /// Parses a path of a Unix socket, or `tls://HOST:PORT`, for which the papers identify the client.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
    pub fn parse(text: &str, papers: &Papers, now: Now) -> Result<Endpoint, String> {
        let Some(address) = text.strip_prefix(SCHEME) else { return Ok(Endpoint::Socket(text.into())) };
        let (host, port) = split(address).ok_or_else(|| format!("{text:?}: write tls://HOST:PORT"))?;
        let config = trust::client(&papers.files()?, now, Speaks::Agent).map_err(|error| error.to_string())?;
        Ok(Endpoint::Far(Arc::new(TlsPlace { host, port, config })))
    }
}

impl Far for TlsPlace {
    fn connect(&self) -> io::Result<Box<dyn AgentStream>> {
        let stream = trust::dial(&self.host, self.port, self.config.clone(), CertificateRole::Agent)?;
        Ok(Box::new(stream))
    }
}

impl std::fmt::Display for TlsPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "{SCHEME}[{}]:{}", self.host, self.port),
            false => write!(f, "{SCHEME}{}:{}", self.host, self.port),
        }
    }
}

impl AgentStream for Dialled {
    fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        self.sock.set_read_timeout(patience)
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.sock.set_nonblocking(on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Endpoint, String> {
        Endpoint::parse(text, &Papers { ca: Some("/none".into()), ..Papers::default() }, Arc::new(|| terms::Time::ZERO))
    }

    #[test]
    fn sockets_and_addresses() {
        assert_eq!(parse("/run/sluice/agent.sock").unwrap().to_string(), "/run/sluice/agent.sock");
        for (text, host, port) in
            [("maui:1", "maui", 1), ("10.0.0.1:4711", "10.0.0.1", 4711), ("[fd00::1]:9", "fd00::1", 9)]
        {
            assert_eq!(split(text), Some((host.to_owned(), port)));
        }
        for wrong in [
            "",
            "maui",
            "maui:",
            "maui:0",
            "maui:70000",
            ":1",
            "fd00::1:1",
            "a b:1",
            "a/b:1",
            &format!("{}:1", "x".repeat(254)),
        ] {
            assert_eq!(split(wrong), None, "{wrong}");
            assert!(parse(&format!("tls://{wrong}")).unwrap_err().contains("tls://HOST:PORT"));
        }
        assert!(parse("tls://maui:4711").unwrap_err().contains("SLUICE_CERTIFICATE"));
    }
}
