//! Who answers: the routes of the broker that leads; or, where another leads, a refusal that says who.
//!
//! Several brokers of one name share a database, of which one leads. The others listen, and send every caller on. One
//! that begins to lead reads the journal and goes on as after a restart. One that was taken over ends, because what
//! it has in memory is not true any more, and its supervisor starts it again as a standby.

use crate::problem::{Answer, Problem};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use store::Error;
use store::postgres::{JournalCandidate, Leadership, Lease, Postgres};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

/// The pause between two looks at the lease.
const LOOK: Duration = Duration::from_millis(50);

/// The entrance of all listeners.
#[derive(Debug)]
pub(crate) struct Reception {
    /// The routes, once this broker leads, and its lease if it shares a database.
    open: OnceLock<(Router, Option<Arc<Lease>>)>,
    /// Who leads, or why that is not known.
    notice: Mutex<String>,
}

impl Reception {
    /// An entrance that sends everybody on until it is opened.
    pub(crate) fn new() -> Arc<Reception> {
        let notice = "it is starting".to_owned();
        Arc::new(Reception { open: OnceLock::new(), notice: Mutex::new(notice) })
    }

    /// Lets callers in to these routes, as long as the lease is held.
    pub(crate) fn open(&self, routes: Router, lease: Option<Arc<Lease>>) {
        // It is opened once.
        let _ = self.open.set((routes, lease));
    }

    /// The routes, for a request of this method.
    ///
    /// # Errors
    /// 503: another broker leads, or may lead by now.
    pub(crate) fn admit(&self, method: &Method) -> Answer<&Router> {
        let Some((routes, lease)) = self.open.get() else {
            let notice = self.notice.lock().unwrap_or_else(PoisonError::into_inner);
            return Err(standby(&notice));
        };
        match lease {
            Some(lease) => {
                if let Some(leader) = lease.lost_to() {
                    return Err(standby(&format!("{leader} leads")));
                }
                // Reading changes nothing, and agents say what is.
                if !lease.is_held() && method != Method::GET && method != Method::HEAD {
                    return Err(standby("the database does not answer, and another broker may lead by now"));
                }
                Ok(routes)
            }
            None => Ok(routes),
        }
    }

    fn say(&self, notice: String) {
        let mut said = self.notice.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != notice {
            eprintln!("sluice: standby: {notice}");
            *said = notice;
        }
    }
}

fn standby(notice: &str) -> Box<Problem> {
    let what = format!("this broker is a standby ({notice}): nothing was changed; ask the next one");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, Problem::STANDBY, "Standby", what)
}

/// True for a browser that opens a page.
pub(crate) fn wants_page<B>(request: &Request<B>) -> bool {
    let accepts = request.headers().get(header::ACCEPT).and_then(|accepts| accepts.to_str().ok());
    request.method() == Method::GET
        && !request.uri().path().starts_with("/v1")
        && accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// The page of a standby: who leads. It looks again by itself, because this broker may lead in a moment.
pub(crate) fn page(problem: &Problem) -> Response<Body> {
    let escaped: String = problem.detail.chars().fold(String::new(), |text, one| match one {
        '&' => text + "&amp;",
        '<' => text + "&lt;",
        '>' => text + "&gt;",
        '"' => text + "&quot;",
        one => text + one.encode_utf8(&mut [0; 4]),
    });
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"3\">\
         <title>Sluice: standby</title><h1>Standby</h1><p>{escaped}.</p>\
         <p>A link to the pages of the broker that leads: <code>sluice web --broker PLACE</code>.</p></html>\n"
    );
    let fields = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
        (header::RETRY_AFTER, "3"),
    ];
    (StatusCode::SERVICE_UNAVAILABLE, fields, text).into_response()
}

/// Waits until this process leads; `None`: it was stopped before.
///
/// # Errors
/// A sentence: the database will not have us.
pub(crate) async fn lead(
    candidate: JournalCandidate,
    reception: &Reception,
    stopped: &mut watch::Receiver<bool>,
) -> Result<Option<Box<Postgres>>, String> {
    let (tell, mut told) = oneshot::channel();
    let (notes, mut noted) = mpsc::channel(1);
    // A thread of its own: the database is waited for, and nobody waits for this thread.
    let thread = std::thread::Builder::new().name("candidate".to_owned());
    let thread = thread.spawn(move || drop(tell.send(attempts(candidate, &notes))));
    thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    loop {
        tokio::select! {
            leads = &mut told => {
                let leads = leads.map_err(|_| "the thread that wants to lead has ended".to_owned())?;
                return leads.map_err(|error| format!("the database of [store]: {error}"));
            }
            Some(notice) = noted.recv() => reception.say(notice),
            _ = stopped.changed() => return Ok(None),
        }
    }
}

/// Attempts until one succeeds or the caller has gone.
fn attempts(mut candidate: JournalCandidate, notes: &mpsc::Sender<String>) -> Result<Option<Box<Postgres>>, Error> {
    while !notes.is_closed() {
        let notice = match candidate.attempt() {
            Ok(Leadership::Leads(store)) => return Ok(Some(store)),
            Ok(Leadership::Waits { leader, .. }) => format!("{leader} leads"),
            Err(Error::Dead(why)) => format!("the database does not answer: {why}"),
            Err(error) => return Err(error),
        };
        // Where the last one still waits to be said, this one is said a moment later.
        let _ = notes.try_send(notice);
        std::thread::sleep(candidate.pause());
    }
    Ok(None)
}

/// Completes when another process leads, with who it is.
pub(crate) async fn lost(lease: Arc<Lease>, mut stopped: watch::Receiver<bool>) -> Option<String> {
    loop {
        if let Some(leader) = lease.lost_to() {
            return Some(format!("this broker was taken over by {leader}: start it again, as a standby"));
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = stopped.changed() => return None,
        }
    }
}
