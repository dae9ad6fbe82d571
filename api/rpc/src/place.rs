//! The address of an agent: a Unix socket on this machine, or a TLS listener on another.

use rustls::ClientConfig;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use trust::{CertificateRole, Dialled, Files, Now, Speaks};

/// The scheme of an address of an agent on another machine.
const SCHEME: &str = "tls://";

/// The address of an agent.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// Its Unix socket.
    Socket(PathBuf),
    /// Its listener of mutual TLS.
    Tls(Box<TlsPlace>),
}

/// An agent on another machine.
#[derive(Clone, Debug)]
pub struct TlsPlace {
    host: String,
    port: u16,
    config: Arc<ClientConfig>,
}

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

impl Endpoint {
    /// Parses a path of a Unix socket, or `tls://HOST:PORT`, for which the papers identify the client.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
    pub fn parse(text: &str, papers: &Papers, now: Now) -> Result<Endpoint, String> {
        let Some(address) = text.strip_prefix(SCHEME) else { return Ok(Endpoint::Socket(text.into())) };
        let (host, port) = split(address).ok_or_else(|| format!("{text:?}: write tls://HOST:PORT"))?;
        let config = trust::client(&papers.files()?, now, Speaks::Agent).map_err(|error| error.to_string())?;
        Ok(Endpoint::Tls(Box::new(TlsPlace { host, port, config })))
    }

    /// True if the text is an address on another machine.
    pub fn is_remote(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    pub(crate) fn connect(&self) -> io::Result<Wire> {
        match self {
            Endpoint::Socket(path) => UnixStream::connect(path).map(Wire::Unix),
            Endpoint::Tls(place) => trust::dial(&place.host, place.port, place.config.clone(), CertificateRole::Agent)
                .map(|stream| Wire::Tls(Box::new(stream))),
        }
    }
}

impl From<&Path> for Endpoint {
    fn from(path: &Path) -> Endpoint {
        Endpoint::Socket(path.to_owned())
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Socket(path) => path.display().fmt(f),
            Endpoint::Tls(place) if place.host.contains(':') => write!(f, "{SCHEME}[{}]:{}", place.host, place.port),
            Endpoint::Tls(place) => write!(f, "{SCHEME}{}:{}", place.host, place.port),
        }
    }
}

/// Splits `HOST:PORT`; an IPv6 address stands in brackets.
pub fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match bare {
        Some(bare) => bare,
        None if host.contains(':') => return None,
        None => host,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    let good = !host.is_empty() && host.len() <= 253 && host.chars().all(plain);
    Some((host.to_owned(), port.parse().ok().filter(|port| good && *port > 0)?))
}

/// A connection to an agent, of either kind.
#[derive(Debug)]
pub(crate) enum Wire {
    Unix(UnixStream),
    Tls(Box<Dialled>),
}

impl Wire {
    pub(crate) fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Wire::Unix(stream) => stream.set_read_timeout(patience),
            Wire::Tls(stream) => stream.sock.set_read_timeout(patience),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Unix(stream) => stream.read(buffer),
            Wire::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Unix(stream) => stream.write(buffer),
            Wire::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Unix(stream) => stream.flush(),
            Wire::Tls(stream) => stream.flush(),
        }
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
