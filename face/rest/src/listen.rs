//! Connections: how many, for how long, and who is at the other end.
//!
//! HTTP/1.1 only: what floods HTTP/2 (CONTINUATION, RST) is not spoken here. A handshake, a request's head and its body
//! have their time each; a client that reads nothing of what is ready for it is closed; beyond a number of connections,
//! of all and from one address, new ones are closed at once, so that those who are there go on.

use crate::caller::Peer;
use crate::config::Limits;
use crate::unread::Unread;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use trust::Gate;

/// The most that is read of a head, bytes.
const MAX_HEAD: usize = 32 << 10;
/// Most header fields.
const MAX_FIELDS: usize = 64;

/// What all listeners share.
#[derive(Clone)]
pub struct House {
    router: Router,
    limits: Limits,
    guests: Arc<Mutex<Guests>>,
    stop: watch::Receiver<bool>,
}

/// Who is there: all, and by address.
#[derive(Debug, Default)]
struct Guests {
    all: usize,
    from: BTreeMap<IpAddr, usize>,
}

/// A place among the guests, given back when it goes.
struct Seat {
    guests: Arc<Mutex<Guests>>,
    from: Option<IpAddr>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.all -= 1;
        if let Some(count) = self.from.and_then(|from| guests.from.get_mut(&from)) {
            *count -= 1;
        }
        guests.from.retain(|_, count| *count > 0);
    }
}

impl House {
    /// With these routes, until `stop` says so.
    pub fn new(router: Router, limits: Limits, stop: watch::Receiver<bool>) -> House {
        House { router, limits, guests: Arc::default(), stop }
    }

    /// Serves the Unix socket until told to stop; members of the group `operators` are operators.
    pub async fn unix(self, listener: UnixListener, operators: Option<u32>) {
        let mut stop = self.stop.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return,
            };
            let Ok((stream, _)) = accepted else {
                sleep(Duration::from_millis(50)).await; // no more files: those who are there may leave first
                continue;
            };
            let (Some(seat), Ok(peer)) = (self.seat(None), linux::process::peer(&stream)) else { continue };
            let operator = operators.is_some_and(|group| peer.gid == group || peer.groups.contains(&group));
            let peer = Peer::Local { peer: Arc::new(peer), operator };
            tokio::spawn(self.clone().serve(stream, peer, seat));
        }
    }

    /// Serves the loopback without TLS: everybody is `name`.
    pub async fn plain(self, listener: TcpListener, name: Arc<str>) {
        while let Some((stream, seat)) = self.accept(&listener).await {
            tokio::spawn(self.clone().serve(stream, Peer::Plain(name.clone()), seat));
        }
    }

    /// Serves mutual TLS.
    pub async fn tls(self, listener: TcpListener, acceptor: TlsAcceptor, gate: Arc<Gate>) {
        while let Some((stream, seat)) = self.accept(&listener).await {
            let (house, acceptor, gate) = (self.clone(), acceptor.clone(), gate.clone());
            tokio::spawn(async move {
                // Whoever does not pass is told so by TLS itself; there is nobody to tell more.
                let Ok(Ok(stream)) = timeout(house.limits.head_time, acceptor.accept(stream)).await else { return };
                let Ok(identity) = gate.client(stream.get_ref().1.peer_certificates()) else { return };
                house.serve(stream, Peer::Certificate { identity, gate }, seat).await;
            });
        }
    }

    /// The next connection that has a seat; `None`: it is time to stop.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, Seat)> {
        let mut stop = self.stop.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return None,
            };
            match accepted {
                Ok((stream, from)) => {
                    let _ = stream.set_nodelay(true);
                    if let Some(seat) = self.seat(Some(from)) {
                        return Some((stream, seat));
                    }
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn seat(&self, from: Option<SocketAddr>) -> Option<Seat> {
        let from = from.map(|from| from.ip().to_canonical());
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if guests.all >= self.limits.connections {
            return None;
        }
        if let Some(from) = from {
            let count = guests.from.entry(from).or_default();
            if *count >= self.limits.connections_of_one {
                return None;
            }
            *count += 1;
        }
        guests.all += 1;
        Some(Seat { guests: self.guests.clone(), from })
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S, peer: Peer, seat: Seat) {
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            router.call(request)
        });
        let stream = TokioIo::new(Unread::new(stream, self.limits.unread_time));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_time)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_FIELDS)
            .serve_connection(stream, service);
        let mut connection = std::pin::pin!(connection);
        let mut stop = self.stop.clone();
        // A broken connection is the client's affair; there is nothing to do about it.
        tokio::select! {
            _ = connection.as_mut() => {}
            _ = stop.changed() => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(Duration::from_secs(1), connection).await;
            }
        }
        drop(seat);
    }
}
