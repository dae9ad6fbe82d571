//! Connections: their number, their times, and their peers.
//!
//! HTTP/1.1 only: the floods of HTTP/2 (CONTINUATION, RST) do not apply. A handshake, a request's head
//! and its body have their time each. A client that leaves its data unread is closed. New connections beyond
//! a number for each listener, source or name are closed at once, so that those before them go on: see
//! [`crate::seats`].

use crate::caller::{ConnectionPeer, own_uid};
use crate::config::Limits;
use crate::origin;
use crate::problem::{Answer, BoxedProblem};
use crate::seats::{ConnectionSeat, SeatSource, Seats};
use crate::standby::{self, Reception};
use crate::unread::Unread;
use crate::web::WebDoor;
use axum::Router;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use trust::{TrustGate, source_of};

/// The longest head, bytes.
const MAX_HEAD: usize = 32 << 10;
/// The most header fields.
const MAX_FIELDS: usize = 64;

/// The state that all listeners share.
#[derive(Clone)]
pub(crate) struct House {
    reception: Arc<Reception>,
    /// The pages of the listener for browsers, before the routes.
    door: Option<Arc<WebDoor>>,
    /// The routes of this listener, once there are any.
    routes: Arc<OnceLock<Router>>,
    limits: Limits,
    stop: watch::Receiver<bool>,
}

/// How a connection came in.
enum Entrance {
    /// From a peer that is known, or named by the configuration.
    Known(ConnectionPeer),
    /// From a browser, to this address.
    Browser(Arc<WebDoor>, SocketAddr),
}

impl Entrance {
    /// Checks a request before anything else, and notes whose it is.
    fn admit(&self, request: &mut Request<Incoming>) -> Answer<()> {
        match self {
            Entrance::Browser(door, local) => door.admit(request, *local),
            Entrance::Known(peer) => {
                if let ConnectionPeer::Plain { port, .. } = peer {
                    origin::check(request, *port)?;
                }
                request.extensions_mut().insert(peer.clone());
                Ok(())
            }
        }
    }
}

impl House {
    /// A server of the routes behind this reception, until `stop` changes.
    pub(crate) fn new(reception: Arc<Reception>, limits: Limits, stop: watch::Receiver<bool>) -> House {
        House { reception, door: None, routes: Arc::default(), limits, stop }
    }

    /// The routes for a request of this method.
    ///
    /// # Errors
    /// 503: another broker leads.
    fn admit(&self, method: &Method) -> Answer<Router> {
        let routes = self.reception.admit(method)?;
        let with_pages = || self.door.as_ref().map_or_else(|| routes.clone(), |door| door.router(routes.clone()));
        Ok(self.routes.get_or_init(with_pages).clone())
    }

    /// The seats for one listener, or for several of one kind.
    pub fn seats(&self) -> Seats {
        Seats::new(self.limits.connections, self.limits.connections_of_one, self.limits.handshakes)
    }

    /// Serves the Unix socket until it is stopped; members of the group `operators` are operators, and `speakers`
    /// may ask for other users.
    pub async fn unix(self, listener: UnixListener, operators: Option<u32>, speakers: Vec<u32>) {
        let seats = self.seats();
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
            let Ok(peer) = linux::process::peer(&stream) else { continue };
            let Some(seat) = seats.take(SeatSource::User(peer.uid)) else { continue };
            let operator = operators.is_some_and(|group| peer.gid == group || peer.groups.contains(&group));
            let speaks = [0, own_uid()].contains(&peer.uid) || speakers.contains(&peer.uid);
            let peer = ConnectionPeer::Local { peer: Arc::new(peer), operator, speaks };
            tokio::spawn(self.clone().serve(stream, Entrance::Known(peer), seat));
        }
    }

    /// Serves the loopback without TLS: every caller is `name`.
    pub async fn plain(self, listener: TcpListener, name: Arc<str>) {
        let seats = self.seats();
        let Ok(port) = listener.local_addr().map(|address| address.port()) else { return };
        while let Some((stream, from)) = self.accept(&listener).await {
            let Some(seat) = seats.take(from) else { continue };
            let peer = ConnectionPeer::Plain { name: name.clone(), port };
            tokio::spawn(self.clone().serve(stream, Entrance::Known(peer), seat));
        }
    }

    /// Serves mutual TLS; `seats` are shared by all such listeners.
    pub async fn tls(self, listener: TcpListener, acceptor: TlsAcceptor, gate: Arc<TrustGate>, seats: Seats) {
        while let Some((stream, from)) = self.accept(&listener).await {
            let Some((seat, away)) = seats.wait(from) else { continue };
            let (house, acceptor, gate) = (self.clone(), acceptor.clone(), gate.clone());
            tokio::spawn(async move {
                let accepted = tokio::select! {
                    accepted = timeout(house.limits.head_time, acceptor.accept(stream)) => accepted,
                    Ok(()) = away => return, // it made way
                };
                // TLS itself tells a peer that is refused; no other message is due.
                let Ok(Ok(stream)) = accepted else { return };
                let Ok(identity) = gate.client(stream.get_ref().1.peer_certificates()) else { return };
                if seat.is_of(identity.to_string()) {
                    house.serve(stream, Entrance::Known(ConnectionPeer::Certificate { identity, gate }), seat).await;
                }
            });
        }
    }

    /// Serves browsers, which are known by their sessions: on the loopback without TLS, or with TLS.
    pub async fn browsers(mut self, listener: TcpListener, acceptor: Option<TlsAcceptor>, door: Arc<WebDoor>) {
        (self.door, self.routes) = (Some(door.clone()), Arc::default());
        let seats = self.seats();
        while let Some((stream, from)) = self.accept(&listener).await {
            let Some((seat, away)) = seats.wait(from) else { continue };
            let Ok(local) = stream.local_addr() else { continue };
            let (house, acceptor) = (self.clone(), acceptor.clone());
            let entrance = Entrance::Browser(door.clone(), local);
            tokio::spawn(async move {
                let Some(acceptor) = acceptor else {
                    seat.is_in();
                    return house.serve(stream, entrance, seat).await;
                };
                let accepted = tokio::select! {
                    accepted = timeout(house.limits.head_time, acceptor.accept(stream)) => accepted,
                    Ok(()) = away => return, // it made way
                };
                if let Ok(Ok(stream)) = accepted
                    && seat.is_in()
                {
                    house.serve(stream, entrance, seat).await;
                }
            });
        }
    }

    /// The next connection and its source; `None`: it is time to stop.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, SeatSource)> {
        let mut stop = self.stop.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return None,
            };
            match accepted {
                Ok((stream, from)) => {
                    let _ = stream.set_nodelay(true);
                    return Some((stream, SeatSource::Net(source_of(from.ip()))));
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self,
        stream: S,
        entrance: Entrance,
        seat: ConnectionSeat,
    ) {
        let house = self.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let routes = entrance.admit(&mut request).and_then(|()| house.admit(request.method()));
            let page = house.door.is_some() && standby::wants_page(&request);
            let answer = routes.map(|routes| TowerToHyperService::new(routes).call(request));
            async move {
                match answer {
                    Ok(answer) => answer.await,
                    Err(problem) if page && problem.is_standby() => Ok(standby::page(&problem)),
                    Err(problem) => Ok(BoxedProblem(problem).into_response()),
                }
            }
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
        // A broken connection is the client's affair.
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
