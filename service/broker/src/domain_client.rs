//! Clients of the brokers of neighbouring domains: HTTP over mutual TLS. A broker is believed only if the
//! authority of its domain has signed its certificate.

use crate::neighbours::NeighbourDomain;
use crate::problem::Problem;
use crate::wire::Outward;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use trust::{CertificateRole, Identity};

/// The longest time of a connection attempt, handshake included.
const CONNECT: Duration = Duration::from_secs(3);
/// The longest time of an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The longest answer, bytes.
const MOST_ANSWER: usize = 1 << 20;
/// The time for which a connection is kept without use: less than a broker leaves one open.
const IDLE: Duration = Duration::from_secs(5);
/// The most connections that are kept.
const MOST_KEPT: usize = 8;

/// The result of a call that may have been carried out although no answer came.
#[derive(Debug)]
pub enum DomainReply<T> {
    /// The answer.
    Answered(T),
    /// A refusal: nothing has changed there.
    Refused(Box<Problem>),
    /// The call was not made.
    NotAsked(Box<Problem>),
    /// The call was made, and no answer came that says what became of it.
    Lost(Box<Problem>),
}

/// A connection that waits for its next use.
#[derive(Debug)]
struct KeptSender {
    since: Instant,
    sender: SendRequest<Full<Bytes>>,
    identity: Identity,
}

/// The broker of a neighbouring domain.
#[derive(Clone, Debug)]
pub struct DomainClient {
    /// The domain's name.
    pub name: Arc<str>,
    /// The neighbour as our own file describes it.
    pub neighbour: Arc<NeighbourDomain>,
    outward: Outward,
    kept: Arc<Mutex<Vec<KeptSender>>>,
}

impl DomainClient {
    /// A client of a neighbour's broker; `outward` is our identity there.
    pub fn new(neighbour: NeighbourDomain, outward: Outward) -> DomainClient {
        DomainClient {
            name: neighbour.name.as_str().into(),
            neighbour: Arc::new(neighbour),
            outward,
            kept: Arc::default(),
        }
    }

    /// Makes one call.
    pub async fn call<B: Serialize, T: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        body: Option<&B>,
    ) -> DomainReply<T> {
        // Our own documents have string keys and finite numbers: they can always be written.
        let body = Bytes::from(body.map(|body| serde_json::to_vec(body).unwrap_or_default()).unwrap_or_default());
        let (status, text) = match timeout(PATIENCE, self.exchange(method, target, body)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(Failure::NotSent(why))) => return DomainReply::NotAsked(self.away(&why)),
            Ok(Err(Failure::Lost(why))) => return DomainReply::Lost(self.away(&why)),
            Err(_) => return DomainReply::Lost(self.away("it took too long")),
        };
        if status.is_success() {
            return match serde_json::from_slice(&text) {
                Ok(doc) => DomainReply::Answered(doc),
                Err(error) => DomainReply::Lost(self.away(&format!("its answer makes no sense: {error}"))),
            };
        }
        let mut problem = match serde_json::from_slice::<Problem>(&text) {
            Ok(problem) if problem.status == status.as_u16() => Box::new(problem),
            _ => return DomainReply::Lost(self.away(&format!("it answered {status} and no reason"))),
        };
        problem.detail = format!("{}: {}", self.name, problem.detail);
        // 503 is also what a broker answers that cannot say what becomes of it.
        match status.is_server_error() {
            true => DomainReply::Lost(problem),
            false => DomainReply::Refused(problem),
        }
    }

    async fn exchange(&self, method: &str, target: &str, body: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        let request = || {
            let of = Request::builder().method(method).uri(target).header(header::HOST, self.host());
            let of = of.header(header::CONTENT_TYPE, "application/json");
            of.body(Full::new(body.clone())).map_err(|error| Failure::NotSent(error.to_string()))
        };
        while let Some(kept) = self.take() {
            let KeptSender { mut sender, identity, .. } = kept;
            match sender.send_request(request()?).await {
                Ok(response) => return self.finish(response, sender, identity).await,
                // The other side closed it before it had read the request.
                Err(error) if error.is_canceled() => {}
                Err(error) => return Err(Failure::Lost(error.to_string())),
            }
        }
        let connected = timeout(CONNECT, self.connect()).await;
        let (mut sender, identity) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(Failure::NotSent(error.to_string())),
            Err(_) => return Err(Failure::NotSent("it does not answer in time".to_owned())),
        };
        let response = sender.send_request(request()?).await.map_err(|error| Failure::Lost(error.to_string()))?;
        self.finish(response, sender, identity).await
    }

    async fn finish(
        &self,
        response: hyper::Response<hyper::body::Incoming>,
        sender: SendRequest<Full<Bytes>>,
        identity: Identity,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_ANSWER).collect().await;
        let body = body.map_err(|error| Failure::Lost(error.to_string()))?.to_bytes();
        let mut kept = self.locked();
        if kept.len() < MOST_KEPT {
            kept.push(KeptSender { since: Instant::now(), sender, identity });
        }
        Ok((status, body))
    }

    async fn connect(&self) -> io::Result<(SendRequest<Full<Bytes>>, Identity)> {
        let NeighbourDomain { name: domain, host, port, .. } = &*self.neighbour;
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(self.outward.config.clone()).connect(name.clone(), stream).await?;
        let identity = self.outward.gate.server(stream.get_ref().1.peer_certificates(), &name);
        let identity = identity.map_err(io::Error::other)?;
        if identity.role != CertificateRole::Broker || identity.domain.as_deref() != Some(domain) {
            return Err(io::Error::other(format!("{identity} is no broker of {domain}")));
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok((sender, identity))
    }

    /// A connection that is kept, and whose certificate is still good.
    fn take(&self) -> Option<KeptSender> {
        let mut kept = self.locked();
        kept.retain(|one| one.since.elapsed() < IDLE && one.sender.is_ready());
        loop {
            let one = kept.pop()?;
            if self.outward.gate.admit(&one.identity).is_ok() {
                return Some(one);
            }
        }
    }

    fn host(&self) -> String {
        let NeighbourDomain { host, port, .. } = &*self.neighbour;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    fn away(&self, why: &str) -> Box<Problem> {
        Problem::unavailable(format!("the broker of {} does not answer ({why})", self.name))
    }

    fn locked(&self) -> MutexGuard<'_, Vec<KeptSender>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Failure {
    /// It was not sent.
    NotSent(String),
    /// It may have been.
    Lost(String),
}
