//! Tickets and sessions: who a browser stands for, and for how long.
//!
//! Both are secrets of 256 bits, kept as their hashes alone, in tables of limited size. Time is handed in.

use crate::caller::ConnectionPeer;
use crate::problem::{Answer, Problem};
use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use terms::{Span, Time};

/// The life of a ticket.
const TICKET_LIFE: Span = Span::from_secs(60);
/// The longest life of a session.
const SESSION_LIFE: Span = Span::from_secs(12 * 3600);
/// The most tickets that wait, in all and of one caller.
const TICKETS: (usize, usize) = (256, 8);
/// The most sessions, in all and of one caller.
const SESSIONS: (usize, usize) = (1024, 16);
/// Characters of a secret: 256 bits in hexadecimal.
const LETTERS: usize = 64;

type Hash = [u8; 32];

/// A browser that is signed in.
#[derive(Debug)]
pub struct WebSession {
    peer: ConnectionPeer,
    until: Time,
    over: AtomicBool,
}

impl WebSession {
    /// The caller that took the ticket.
    pub fn peer(&self) -> &ConnectionPeer {
        &self.peer
    }

    /// The end of the session.
    pub fn until(&self) -> Time {
        self.until
    }

    /// True if it was ended, or its time is over.
    pub fn is_over(&self, now: Time) -> bool {
        self.over.load(Ordering::Relaxed) || now >= self.until
    }
}

/// A ticket that waits.
#[derive(Debug)]
struct Ticket {
    peer: ConnectionPeer,
    until: Time,
}

#[derive(Debug, Default)]
struct Tables {
    tickets: BTreeMap<Hash, Ticket>,
    sessions: BTreeMap<Hash, Arc<WebSession>>,
}

/// All tickets and sessions.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<Tables>);

impl Tickets {
    /// A new ticket for a caller, and the end of its life.
    ///
    /// # Errors
    /// 403: the caller is not known, or is a browser; 429: too many tickets wait; 503: no random numbers.
    pub(crate) fn issue(&self, peer: ConnectionPeer, now: Time) -> Answer<(String, Time)> {
        match &peer {
            ConnectionPeer::Certificate { .. } | ConnectionPeer::Local { .. } => {}
            ConnectionPeer::Plain { .. } => {
                return Err(Problem::forbidden(
                    "a ticket is for whoever is known: by the Unix socket, or by mutual TLS",
                ));
            }
            ConnectionPeer::Browser { .. } => {
                return Err(Problem::forbidden(
                    "a browser's session is not made longer: `sluice web` prints a new link",
                ));
            }
        }
        let name = peer.caller()?.name;
        let mut tables = self.lock(now);
        let of_one = tables.tickets.values().filter(|ticket| ticket.peer.is_called(&name)).count();
        if tables.tickets.len() >= TICKETS.0 || of_one >= TICKETS.1 {
            return Err(Problem::limit(format!(
                "tickets wait already: at most {}, {} of one caller",
                TICKETS.0, TICKETS.1
            )));
        }
        let (text, hash) = secret()?;
        let until = now + TICKET_LIFE;
        tables.tickets.insert(hash, Ticket { peer, until });
        Ok((text, until))
    }

    /// Exchanges a ticket for the secret of a session. A ticket is good once.
    ///
    /// # Errors
    /// 401: it is no ticket, or no longer; 429: too many are signed in; 503: no random numbers.
    pub(crate) fn exchange(&self, ticket: &str, now: Time) -> Answer<(String, Arc<WebSession>)> {
        let refused = || {
            let what = "this link was used already, or is older than a minute: `sluice web` prints a new one";
            Problem::new(StatusCode::UNAUTHORIZED, "ticket", "No such ticket", what)
        };
        let hash = hashed(ticket).ok_or_else(refused)?;
        let mut tables = self.lock(now);
        let Ticket { peer, .. } = tables.tickets.remove(&hash).ok_or_else(refused)?;
        let name = peer.caller()?.name;
        let of_one = tables.sessions.iter().filter(|(_, session)| session.peer.is_called(&name));
        // Whoever signs in once more has left an older browser behind.
        let oldest = of_one.clone().min_by_key(|(_, session)| session.until).map(|(hash, _)| *hash);
        if of_one.count() >= SESSIONS.1
            && let Some(old) = oldest.and_then(|hash| tables.sessions.remove(&hash))
        {
            old.over.store(true, Ordering::Relaxed);
        }
        if tables.sessions.len() >= SESSIONS.0 {
            return Err(Problem::limit(format!("{} browsers are signed in already", SESSIONS.0)));
        }
        let (text, hash) = secret()?;
        let session = Arc::new(WebSession { peer, until: now + SESSION_LIFE, over: AtomicBool::new(false) });
        tables.sessions.insert(hash, session.clone());
        Ok((text, session))
    }

    /// The session of a secret.
    pub(crate) fn session(&self, secret: &str, now: Time) -> Option<Arc<WebSession>> {
        let hash = hashed(secret)?;
        self.lock(now).sessions.get(&hash).cloned()
    }

    /// Ends the session of a secret, and the event streams of its browser.
    pub(crate) fn end(&self, secret: &str) {
        let Some(hash) = hashed(secret) else { return };
        if let Some(session) = self.lock(Time::ZERO).sessions.remove(&hash) {
            session.over.store(true, Ordering::Relaxed);
        }
    }

    /// The tables, without what is over.
    fn lock(&self, now: Time) -> MutexGuard<'_, Tables> {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.tickets.retain(|_, ticket| now < ticket.until);
        tables.sessions.retain(|_, session| !session.is_over(now));
        tables
    }
}

/// A new secret, and its hash.
fn secret() -> Answer<(String, Hash)> {
    let mut bytes = [0; 32];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map_err(|error| Problem::unavailable(format!("no random numbers: {error}")))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = Sha256::digest(text.as_bytes()).into();
    Ok((text, hash))
}

/// The hash of a secret; `None`: the text is none.
fn hashed(text: &str) -> Option<Hash> {
    let is_one = text.len() == LETTERS && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_one.then(|| Sha256::digest(text.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> ConnectionPeer {
        let peer = linux::process::PeerProcess { pid: 1, uid, gid: uid, groups: Vec::new() };
        ConnectionPeer::Local { peer: Arc::new(peer), operator: false, speaks: false }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(1_000_000 + seconds)
    }

    #[test]
    fn a_ticket_is_good_once_and_for_a_minute() {
        let tickets = Tickets::default();
        let (ticket, until) = tickets.issue(user(7), at(0)).unwrap();
        assert_eq!((ticket.len(), until), (LETTERS, at(60)));
        let (cookie, session) = tickets.exchange(&ticket, at(59)).unwrap();
        assert_eq!(tickets.exchange(&ticket, at(59)).unwrap_err().status, 401);
        assert_ne!(cookie, ticket);
        assert_eq!(session.until(), at(59 + 12 * 3600));
        assert!(tickets.session(&cookie, at(59 + 12 * 3600 - 1)).is_some());
        assert!(tickets.session(&ticket, at(60)).is_none());
        assert!(tickets.session(&cookie, at(59 + 12 * 3600)).is_none());
        let (late, _) = tickets.issue(user(7), at(0)).unwrap();
        assert_eq!(tickets.exchange(&late, at(60)).unwrap_err().status, 401);
        for odd in ["", "0", &"g".repeat(64), &"0".repeat(65), &"0".repeat(64), &"é".repeat(32)] {
            assert_eq!(tickets.exchange(odd, at(0)).unwrap_err().status, 401, "{odd:?}");
        }
    }

    #[test]
    fn tables_have_limits_and_one_caller_leaves_room_for_others() {
        let tickets = Tickets::default();
        for _ in 0..TICKETS.1 {
            tickets.issue(user(1), at(0)).unwrap();
        }
        assert_eq!(tickets.issue(user(1), at(0)).unwrap_err().status, 429);
        tickets.issue(user(2), at(0)).unwrap();
        tickets.issue(user(1), at(60)).unwrap();
        let sign_in = |uid, seconds| {
            let (ticket, _) = tickets.issue(user(uid), at(seconds)).unwrap();
            tickets.exchange(&ticket, at(seconds))
        };
        let (first, session) = sign_in(3, 100).unwrap();
        for number in 0..SESSIONS.1 as u64 {
            sign_in(3, 101 + number).unwrap();
        }
        assert!(session.is_over(at(120)) && tickets.session(&first, at(120)).is_none(), "the oldest makes way");
        for uid in 0..(SESSIONS.0 - SESSIONS.1) as u32 {
            sign_in(100 + uid, 200).unwrap();
        }
        assert_eq!(sign_in(99, 200).unwrap_err().status, 429);
    }

    #[test]
    fn who_is_not_known_and_who_is_a_browser_gets_none() {
        let tickets = Tickets::default();
        let plain = ConnectionPeer::Plain { name: "demo".into(), port: 1 };
        assert_eq!(tickets.issue(plain, at(0)).unwrap_err().status, 403);
        let (ticket, _) = tickets.issue(user(7), at(0)).unwrap();
        let (cookie, session) = tickets.exchange(&ticket, at(0)).unwrap();
        let browser = ConnectionPeer::Browser { session, clock: linux::clock::Clock::start() };
        assert_eq!(tickets.issue(browser, at(0)).unwrap_err().status, 403);
        tickets.end(&cookie);
        assert!(tickets.session(&cookie, at(1)).is_none());
    }
}
