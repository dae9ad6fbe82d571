//! The address of a broker: a Unix socket, a listener with mutual TLS, or one without TLS on the loopback.

use crate::config::SOCKET;
use rpc::place::split;
use rpc::tls::Papers;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use trust::{CertificateRole, Now, Speaks};

/// The port of `https://HOST`.
const PORT: u16 = 8443;
/// The longest time of a connection attempt, and of a handshake after it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The address of a broker.
#[derive(Clone, Debug)]
pub enum BrokerEndpoint {
    /// Its Unix socket.
    Socket(PathBuf),
    /// Its listener of mutual TLS.
    Tls {
        /// The machine.
        host: String,
        /// The port.
        port: u16,
        /// The client's TLS configuration.
        config: Arc<ClientConfig>,
    },
    /// Its listener without TLS.
    Plain {
        /// The machine.
        host: String,
        /// The port.
        port: u16,
    },
}

impl BrokerEndpoint {
    /// The socket of this machine's own broker.
    pub fn own() -> BrokerEndpoint {
        BrokerEndpoint::Socket(SOCKET.into())
    }

    /// Parses a path or `unix:PATH`, `https://HOST[:PORT]`, for which the papers identify the client, or
    /// `http://HOST:PORT`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
    pub fn parse(text: &str, papers: &Papers, now: Now) -> Result<BrokerEndpoint, String> {
        let wrong = || format!("{text:?} is no broker: write unix:/PATH, https://HOST:PORT or http://127.0.0.1:PORT");
        let place = |address: &str| {
            let address = address.strip_suffix('/').unwrap_or(address);
            split(address).or_else(|| split(&format!("{address}:{PORT}"))).ok_or_else(wrong)
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(BrokerEndpoint::Socket(path.strip_prefix("//").unwrap_or(path).into()));
        }
        if let Some(address) = text.strip_prefix("https://") {
            let (host, port) = place(address)?;
            let config = trust::client(&papers.files()?, now, Speaks::Http).map_err(|error| error.to_string())?;
            return Ok(BrokerEndpoint::Tls { host, port, config });
        }
        if let Some(address) = text.strip_prefix("http://") {
            let (host, port) = place(address)?;
            return Ok(BrokerEndpoint::Plain { host, port });
        }
        if text.starts_with("tls://") {
            return Err(format!(
                "{text:?} is an agent's address: name it with --socket, or a broker as https://HOST:PORT"
            ));
        }
        if text.is_empty() || text.contains("://") {
            return Err(wrong());
        }
        if !text.contains('/') && split(text).is_some() {
            return Err(format!("{text:?} has no scheme: write https://{text}, or unix:{text} if it is a socket"));
        }
        Ok(BrokerEndpoint::Socket(text.into()))
    }

    /// Parses several of them, of which one leads, separated by commas.
    ///
    /// # Errors
    /// As [`BrokerEndpoint::parse`].
    pub fn parse_all(text: &str, papers: &Papers, now: &Now) -> Result<Vec<BrokerEndpoint>, String> {
        text.split(',').map(|one| BrokerEndpoint::parse(one.trim(), papers, now.clone())).collect()
    }

    /// The value of a request's `Host` field.
    pub(super) fn host(&self) -> String {
        match self {
            BrokerEndpoint::Socket(_) => "broker".to_owned(),
            BrokerEndpoint::Tls { host, port, .. } | BrokerEndpoint::Plain { host, port } if host.contains(':') => {
                format!("[{host}]:{port}")
            }
            BrokerEndpoint::Tls { host, port, .. } | BrokerEndpoint::Plain { host, port } => format!("{host}:{port}"),
        }
    }

    pub(super) async fn connect(&self) -> io::Result<Box<dyn Wire>> {
        Ok(match self {
            BrokerEndpoint::Socket(path) => Box::new(UnixStream::connect(path).await?),
            BrokerEndpoint::Plain { host, port } => Box::new(reach(host, *port).await?),
            BrokerEndpoint::Tls { host, port, config } => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let handshake = TlsConnector::from(config.clone()).connect(name, reach(host, *port).await?);
                let stream = timeout(PATIENCE, handshake).await??;
                trust::is_a(CertificateRole::Broker, stream.get_ref().1.peer_certificates())
                    .map_err(io::Error::other)?;
                Box::new(stream)
            }
        })
    }
}

/// Tries every address of a host.
async fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::other("this name has no address");
    for address in tokio::net::lookup_host((host, port)).await? {
        match timeout(PATIENCE, TcpStream::connect(address)).await.unwrap_or_else(|late| Err(late.into())) {
            Ok(stream) => return stream.set_nodelay(true).map(|()| stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl std::fmt::Display for BrokerEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BrokerEndpoint::Socket(path) => path.display().fmt(f),
            BrokerEndpoint::Tls { .. } => write!(f, "https://{}", self.host()),
            BrokerEndpoint::Plain { .. } => write!(f, "http://{}", self.host()),
        }
    }
}

/// A connection to a broker, of any kind.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors() {
        let parse = |text: &str| {
            let papers = Papers { ca: Some("/none".into()), ..Papers::default() };
            BrokerEndpoint::parse(text, &papers, Arc::new(|| terms::Time::ZERO))
        };
        for (text, shown) in [
            ("/run/b.sock", "/run/b.sock"),
            ("b.sock", "b.sock"),
            ("unix:/run/b.sock", "/run/b.sock"),
            ("unix:///run/b.sock", "/run/b.sock"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://localhost", "http://localhost:8443"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown);
        }
        for wrong in ["", "ftp://a:1", "http://", "http://a b:1", "http://a:0", "https://:1", "http://a/b:1"] {
            assert!(parse(wrong).unwrap_err().contains("is no broker"), "{wrong}");
        }
        let bare = parse("10.0.0.1:8443").unwrap_err();
        assert!(bare.contains("write https://10.0.0.1:8443, or unix:10.0.0.1:8443"), "{bare}");
        let all =
            |text: &str| BrokerEndpoint::parse_all(text, &Papers::default(), &(Arc::new(|| terms::Time::ZERO) as Now));
        let shown: Vec<String> = all("unix:/a, http://localhost:1").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["/a", "http://localhost:1"]);
        assert!(all("unix:/a,").is_err());
        assert!(parse("tls://maui:4711").unwrap_err().contains("--socket"));
        assert!(parse("https://maui:8443").unwrap_err().contains("SLUICE_CERTIFICATE"));
    }
}
