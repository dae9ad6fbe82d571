//! The listener for browsers: the pages, signing in, and the same calls as every other listener has.
//!
//! A browser has no certificate. A caller that is known by the Unix socket or by mutual TLS takes a ticket there
//! (`sluice web`), and a browser exchanges it once for a cookie. The cookie stands for that caller: rights are asked at
//! each request of the same table, and what ends the caller's own right, as a revoked certificate does, ends the
//! session. Sessions are in memory, so that they end with the broker.

mod assets;
mod guard;
mod settings;
mod tickets;

pub use settings::WebSettings;
pub(crate) use settings::{WebFile, read};
pub(crate) use tickets::WebSession;

use crate::caller::ConnectionPeer;
use crate::problem::{Answer, BoxedProblem, Problem};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use documents::book::Instant;
use documents::overview::TicketDoc;
use http_body_util::{BodyExt, Limited};
use linux::clock::Clock;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use terms::Time;
use tickets::Tickets;

/// The largest body of a request to sign in, bytes.
const MAX_BODY: usize = 1024;
/// The longest time that it may take.
const BODY_TIME: Duration = Duration::from_secs(10);
/// The policy of all pages: they load what comes from here, and no more.
const CONTENT_POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// The listener for browsers.
#[derive(Debug)]
pub struct WebDoor {
    settings: WebSettings,
    /// The address that it listens on.
    address: SocketAddr,
    clock: Clock,
    tickets: Tickets,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    ticket: String,
}

#[derive(Serialize)]
struct SignedIn {
    until: Instant,
}

impl WebDoor {
    /// The listener of these settings, bound to an address.
    pub fn new(settings: WebSettings, address: SocketAddr, clock: Clock) -> WebDoor {
        WebDoor { settings, address, clock, tickets: Tickets::default() }
    }

    /// True if it speaks TLS.
    pub fn has_tls(&self) -> bool {
        self.settings.tls
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A ticket for a caller who is known.
    ///
    /// # Errors
    /// 403: the caller is not known, or is a browser; 429: too many tickets wait.
    pub fn ticket(&self, peer: ConnectionPeer, now: Time) -> Answer<TicketDoc> {
        let (ticket, until) = self.tickets.issue(peer, now)?;
        Ok(TicketDoc { address: format!("{}/#ticket={ticket}", self.origin()), expires: Instant(until) })
    }

    /// Scheme, host and port, as a browser writes them.
    fn origin(&self) -> String {
        let (scheme, usual) = if self.settings.tls { ("https", 443) } else { ("http", 80) };
        let host = self.settings.name.clone().unwrap_or_else(|| match self.address.ip() {
            ip if ip.is_unspecified() => "localhost".to_owned(),
            ip if ip.is_ipv6() => format!("[{ip}]"),
            ip => ip.to_string(),
        });
        match self.address.port() {
            port if port == usual => format!("{scheme}://{host}"),
            port => format!("{scheme}://{host}:{port}"),
        }
    }

    /// The pages, signing in and out, and behind them the calls of `api`.
    pub fn router(self: &Arc<Self>, api: Router) -> Router {
        let calls = Router::new().fallback_service(api).layer(middleware::map_response(no_store));
        let pages = assets::ALL.iter().fold(Router::new(), |router, asset| {
            router.route(asset.path(), get(move || async move { asset.response() }))
        });
        pages
            .route("/session", post(sign_in).delete(sign_out))
            .with_state(self.clone())
            .fallback_service(calls)
            .layer(middleware::map_response(harden))
    }

    /// Checks that a request was meant for this listener, and finds out whose it is.
    ///
    /// # Errors
    /// 421, 403: it was sent to another name, or by a page from elsewhere; 401: the browser is not signed in.
    pub fn admit<B>(&self, request: &mut Request<B>, local: SocketAddr) -> Answer<()> {
        guard::check(request, &self.settings, local)?;
        let path = request.uri().path();
        if assets::ALL.iter().any(|asset| asset.path() == path) || path == "/session" {
            return Ok(());
        }
        let session = guard::cookie(request.headers(), self.settings.cookie())
            .and_then(|cookie| self.tickets.session(cookie, self.clock.now()));
        let session = session.ok_or_else(|| {
            let what = "this browser is not signed in, or no longer: `sluice web` prints a link that signs it in";
            Problem::new(StatusCode::UNAUTHORIZED, "session", "Not signed in", what)
        })?;
        request.extensions_mut().insert(ConnectionPeer::Browser { session, clock: self.clock });
        Ok(())
    }
}

/// Exchanges a ticket for a cookie.
async fn sign_in(State(door): State<Arc<WebDoor>>, request: Request<Body>) -> Result<Response<Body>, BoxedProblem> {
    let collected = tokio::time::timeout(BODY_TIME, Limited::new(request.into_body(), MAX_BODY).collect()).await;
    let text = match collected {
        Ok(Ok(collected)) => collected.to_bytes(),
        _ => return Err(Problem::malformed("a ticket, and nothing else").into()),
    };
    let SignIn { ticket } = crate::strict::read(&text).map_err(Problem::malformed)?;
    let now = door.clock.now();
    let (cookie, session) = door.tickets.exchange(&ticket, now)?;
    let seconds = (session.until() - now).as_nanos() / 1_000_000_000;
    let cookie = format!("{}={cookie}; {}; Max-Age={seconds}", door.settings.cookie(), door.settings.attributes());
    Ok(with_cookie((StatusCode::CREATED, Json(SignedIn { until: Instant(session.until()) })).into_response(), &cookie))
}

/// Ends a session.
async fn sign_out(State(door): State<Arc<WebDoor>>, request: Request<Body>) -> Response<Body> {
    if let Some(cookie) = guard::cookie(request.headers(), door.settings.cookie()) {
        door.tickets.end(cookie);
    }
    let cookie = format!("{}=; {}; Max-Age=0", door.settings.cookie(), door.settings.attributes());
    with_cookie(StatusCode::NO_CONTENT.into_response(), &cookie)
}

fn with_cookie(mut response: Response<Body>, cookie: &str) -> Response<Body> {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

async fn no_store(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Adds the fields by which every answer limits what a browser does with it.
async fn harden(mut response: Response<Body>) -> Response<Body> {
    let fields = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let usual = HeaderValue::from_static("no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(usual);
    response
}
