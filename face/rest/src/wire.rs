//! The way to an agent: its Unix socket on this machine, or mutual TLS to another.
//!
//! An agent elsewhere that does not answer is left alone for a while, longer each time, so that requests are told at once
//! instead of waiting for it.

use crate::config::At;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

/// How long a connection to another machine may take, handshake included.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an agent is left alone after its first failure, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Bytes both ways.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug> Wire for T {}

/// How an agent is reached.
#[derive(Debug)]
pub struct Way {
    at: At,
    tls: Option<Arc<ClientConfig>>,
    away: Mutex<Away>,
}

/// Since when it is not.
#[derive(Debug, Default)]
struct Away {
    failures: u32,
    until: Option<Instant>,
    why: String,
}

impl Way {
    /// To this place; `tls`: who we are, which a place on another machine needs.
    pub fn new(at: At, tls: Option<Arc<ClientConfig>>) -> Way {
        Way { at, tls, away: Mutex::default() }
    }

    /// A connection.
    ///
    /// # Errors
    /// Nobody answers there, or it is not whom we look for, or that was so a moment ago.
    pub async fn connect(&self) -> io::Result<Box<dyn Wire>> {
        let (host, port) = match &self.at {
            At::Socket(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            At::Tls { host, port } => (host, *port),
        };
        if let Some(left) = self.pause() {
            let what = format!("{}; tried again in {:.1} s", self.locked().why, left.as_secs_f64());
            return Err(io::Error::other(what));
        }
        let found = timeout(PATIENCE, self.handshake(host, port)).await;
        let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        self.note(found.as_ref().err());
        found
    }

    async fn handshake(&self, host: &str, port: u16) -> io::Result<Box<dyn Wire>> {
        let config = self.tls.clone().ok_or_else(|| io::Error::other("the broker has no [tls]"))?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        trust::is_agent(stream.get_ref().1.peer_certificates()).map_err(io::Error::other)?;
        Ok(Box::new(stream))
    }

    /// How long it is still left alone.
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
