//! Connections to an agent: its Unix socket on this machine, or mutual TLS to another.
//!
//! An agent on another machine that does not answer is not called for a while, longer each time, so that
//! requests fail at once instead of waiting for it.

use crate::config::At;
use crate::kept::KeptConnection;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use trust::{CertificateRole, TrustGate};

/// The longest time of a connection attempt to another machine, handshake included.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pause after an agent's first failure, and the longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// A stream of bytes in both directions.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug> Wire for T {}

/// Our TLS identity for agents on other machines, and the agents that we trust.
#[derive(Clone, Debug)]
pub struct Outward {
    /// The configuration of handshakes.
    pub config: Arc<ClientConfig>,
    /// The gate for connections that were made before.
    pub gate: Arc<TrustGate>,
}

/// The connection data of an agent.
#[derive(Debug)]
pub struct AgentConnection {
    at: At,
    outward: Option<Outward>,
    away: Mutex<Away>,
}

/// The failures of an agent, and the time of the next attempt.
#[derive(Debug, Default)]
struct Away {
    failures: u32,
    until: Option<Instant>,
    why: String,
}

impl AgentConnection {
    /// The connection data of this address; `outward`: our identity, which another machine needs.
    pub fn new(at: At, outward: Option<Outward>) -> AgentConnection {
        AgentConnection { at, outward, away: Mutex::default() }
    }

    /// Connects to the agent, unless it failed a moment ago.
    ///
    /// # Errors
    /// No agent answers there, or it is another than expected, or that was so a moment ago.
    pub async fn connect(&self) -> io::Result<KeptConnection> {
        let (host, port, domain) = match &self.at {
            At::Socket(path) => return Ok(KeptConnection::new(Box::new(UnixStream::connect(path).await?), None)),
            At::Tls { host, port, domain } => (host, *port, domain.as_deref()),
        };
        if let Some(left) = self.pause() {
            let what = format!("{}; tried again in {:.1} s", self.locked().why, left.as_secs_f64());
            return Err(io::Error::other(what));
        }
        let found = timeout(PATIENCE, self.handshake(host, port, domain)).await;
        let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        self.note(found.as_ref().err());
        found
    }

    async fn handshake(&self, host: &str, port: u16, domain: Option<&str>) -> io::Result<KeptConnection> {
        let outward = self.outward.as_ref().ok_or_else(|| io::Error::other("the broker has no [tls]"))?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(outward.config.clone()).connect(name.clone(), stream).await?;
        let identity = outward.gate.server(stream.get_ref().1.peer_certificates(), &name).map_err(io::Error::other)?;
        // The configuration must say that an agent is a partner's.
        if identity.role != CertificateRole::Agent || identity.domain.as_deref() != domain {
            let what = format!("{identity} is no agent of {}", domain.unwrap_or(trust::HOME));
            return Err(io::Error::other(what));
        }
        Ok(KeptConnection::new(Box::new(stream), Some(identity)))
    }

    /// The rest of the pause.
    fn pause(&self) -> Option<Duration> {
        let until = self.locked().until?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    fn note(&self, failed: Option<&io::Error>) {
        let mut away = self.locked();
        let Some(error) = failed else {
            *away = Away::default();
            return;
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << away.failures.min(16)).min(LAST_PAUSE);
        away.failures = away.failures.saturating_add(1);
        (away.until, away.why) = (Some(Instant::now() + pause), error.to_string());
    }

    fn locked(&self) -> MutexGuard<'_, Away> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
