//! The blocking client of a broker, for the command line: one connection a request, on this machine's socket or over mutual TLS.
//!
//! It may know several brokers of which one leads. The next is asked when one is away or a standby, until one takes over; a
//! request that may have been carried out already is only sent again if that changes nothing.

mod endpoint;
mod http;
mod stream;
mod who;

pub use endpoint::BrokerEndpoint;
pub use stream::{Listener, StreamItem};

use crate::problem::Problem;
use documents::book::{AskDoc, BookFilter, Instant, WindowDoc};
use documents::legs::Acceptances;
use documents::may::{MayDoc, Signal, SignalDoc};
use documents::overview::{Agents, Doctors, ReadingWish, TicketDoc};
use documents::rest::{
    BindWish, Change, Enquiry, Events, Reservation, Reservations, Resources, Webhook, WebhookWish, Wish,
};
use documents::topology::DomainsDoc;
use http::{AskFailure, Reply, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The longest time for which all of several brokers may be away or standbys.
const TAKEOVER: Duration = Duration::from_secs(15);
/// The pause before all of several are asked again.
const ROUND: Duration = Duration::from_millis(100);
/// The longest silence of one of several brokers: it answers everything within half a minute.
const SILENCE: Duration = Duration::from_secs(35);

/// A broker, or several of which one leads.
#[derive(Clone, Debug)]
pub struct BrokerClient {
    doors: Vec<BrokerEndpoint>,
    /// The number of the one that answered last.
    leads: Arc<AtomicUsize>,
    /// The token of a virtual organisation that every request shows, and the user for whom each is made.
    token: Option<Arc<str>>,
    user: Option<Arc<str>>,
}

/// A question about paths over domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathQuestion {
    /// The first host.
    pub from: IpAddr,
    /// The other.
    pub to: IpAddr,
    /// The rate that must be free, bit/s; 0: any.
    pub rate: u64,
    /// The begin of the window.
    pub start: Instant,
    /// The end of the window.
    pub end: Instant,
}

/// The reason why a request failed.
#[derive(Debug)]
pub enum Error {
    /// No broker answers there, or it went away.
    Away {
        /// The address.
        door: Box<BrokerEndpoint>,
        /// The system's error.
        error: io::Error,
    },
    /// The broker refused.
    Said(Box<Problem>),
    /// The answer is not in the broker's protocol.
    Nonsense(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Away { door, error } => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => write!(
                    f,
                    "no broker listens on {door} ({error}): start one with `sluice broker`, or name another with --broker"
                ),
                io::ErrorKind::PermissionDenied => {
                    write!(f, "not allowed to open {door}: be root or in the group `sluice`")
                }
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    write!(f, "the broker on {door} did not answer in time")
                }
                // The reason that rustls gives for a certificate, on either side.
                io::ErrorKind::InvalidData => write!(f, "no agreement with the broker on {door}: {error}"),
                _ => write!(f, "the broker on {door} went away: {error}"),
            },
            Error::Said(problem) => f.write_str(&problem.detail),
            Error::Nonsense(what) => write!(f, "the broker's answer makes no sense: {what}"),
        }
    }
}

impl std::error::Error for Error {}

/// The answer to a request, or the reason of a failure.
pub type Answer<T> = Result<T, Error>;

impl BrokerClient {
    /// A client of the broker at this address; it does not connect yet.
    pub fn new(door: BrokerEndpoint) -> BrokerClient {
        BrokerClient::over(vec![door])
    }

    /// A client of these brokers, of which one leads. Of none: of this machine's own.
    pub fn over(mut doors: Vec<BrokerEndpoint>) -> BrokerClient {
        if doors.is_empty() {
            doors.push(BrokerEndpoint::own());
        }
        BrokerClient { doors, leads: Arc::default(), token: None, user: None }
    }

    /// Asks what would be granted.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn enquire(&self, wish: &Wish) -> Answer<Enquiry> {
        self.send("POST", "/v1/enquiries", Some(wish), "")
    }

    /// Reserves, with the idempotency key `key` if it is not empty. Of several brokers the next can be asked only with
    /// a key: then there always is one.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn create(&self, wish: &Wish, key: &str) -> Answer<Reservation> {
        let drawn = match key.is_empty() && self.doors.len() > 1 {
            true => draw_key().map_err(|error| Error::Nonsense(format!("no randomness: {error}")))?,
            false => key.to_owned(),
        };
        self.send("POST", "/v1/reservations", Some(wish), &drawn)
    }

    /// Asks for a ticket, by which a browser may sign in once as we.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn ticket(&self) -> Answer<TicketDoc> {
        self.send("POST", "/v1/tickets", None::<&()>, "")
    }

    /// Reports the newest value of a figure.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn report(&self, name: &str, wish: &ReadingWish) -> Answer<()> {
        let body = serde_json::to_vec(wish).map_err(|error| Error::Nonsense(error.to_string()))?;
        let target = format!("/v1/readings/{}", encoded(name));
        let mut reply = self.reply("PUT", &target, Some(body), "", http::PATIENCE)?;
        match reply.status() {
            204 => Ok(()),
            _ => Err(self.refused(&mut reply)),
        }
    }

    /// Has events reported to a target.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn add_webhook(&self, wish: &WebhookWish) -> Answer<Webhook> {
        self.send("POST", "/v1/webhooks", Some(wish), "")
    }

    /// Shows one reservation.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn show(&self, id: &str) -> Answer<Reservation> {
        self.get(&at(id, ""))
    }

    /// The decision of an agent's policy about a request with one part; `who`: about another requester, of
    /// these groups.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn may(&self, who: Option<(&str, &[String])>, ask: &AskDoc) -> Answer<MayDoc> {
        let [part] = ask.parts.as_slice() else {
            return Err(Error::Nonsense("one part is asked about at once".to_owned()));
        };
        let (start, end) = (ask.when.start.map(|at| at.to_string()), ask.when.end.map(|at| at.to_string()));
        self.get(&query(
            "/v1/may",
            &[
                ("resource", Some(part.resource.clone())),
                ("rate", part.rate.map(|rate| rate.to_string())),
                ("cores", part.cores.map(|cores| cores.to_string())),
                ("bytes_per_s", part.bytes_per_s.map(|bytes| bytes.to_string())),
                ("count", part.count.map(|count| count.to_string())),
                ("start", start),
                ("end", end),
                ("duration_s", ask.when.duration_s.map(|seconds| seconds.to_string())),
                ("label", Some(ask.label.clone()).filter(|label| !label.is_empty())),
                ("who", who.map(|(name, _)| name.to_owned())),
                ("groups", who.map(|(_, groups)| groups.join(",")).filter(|groups| !groups.is_empty())),
            ],
        ))
    }

    /// The same about a signalled request, at this agent (`None`: the only one).
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn may_signal(
        &self,
        who: Option<(&str, &[String])>,
        agent: Option<&str>,
        signal: &SignalDoc,
    ) -> Answer<MayDoc> {
        let how = Signal::ALL.into_iter().find(|(how, _)| *how == signal.how).map(|(_, name)| name.to_owned());
        let amount = |bps: u64| Some(bps.to_string()).filter(|_| bps > 0);
        self.get(&query(
            "/v1/may",
            &[
                ("signal", how),
                ("agent", agent.map(str::to_owned)),
                ("src", signal.src.clone()),
                ("dst", Some(signal.dst.clone())),
                ("rate", amount(signal.rate)),
                ("reverse", amount(signal.reverse)),
                ("priority", signal.priority.map(|priority| priority.to_string())),
                ("who", who.map(|(name, _)| name.to_owned())),
                ("groups", who.map(|(_, groups)| groups.join(",")).filter(|groups| !groups.is_empty())),
            ],
        ))
    }

    /// A page of the reservations that match. The filter's `after` is the `next` of the page before; a broker ignores
    /// the filter's groups.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn list(&self, filter: &BookFilter) -> Answer<Reservations> {
        let said = |text: &Option<String>| text.clone();
        let states = Some(filter.states.join(",")).filter(|states| !states.is_empty());
        self.get(&query(
            "/v1/reservations",
            &[
                ("owner", said(&filter.owner)),
                ("label", said(&filter.label)),
                ("resource", said(&filter.resource)),
                ("state", states),
                ("from", filter.window.map(|window| window.start.to_string())),
                ("to", filter.window.map(|window| window.end.to_string())),
                ("limit", filter.limit.map(|limit| limit.to_string())),
                ("after", said(&filter.after)),
            ],
        ))
    }

    /// Changes a reservation.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn modify(&self, id: &str, change: &Change) -> Answer<Reservation> {
        self.send("PATCH", &at(id, ""), Some(change), "")
    }

    /// Binds parts of a reservation.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn bind(&self, id: &str, wish: &BindWish) -> Answer<Reservation> {
        self.send("POST", &at(id, "/bind"), Some(wish), "")
    }

    /// Commits a held reservation.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn commit(&self, id: &str) -> Answer<Reservation> {
        self.send::<(), _>("POST", &at(id, "/commit"), None, "")
    }

    /// Cancels a reservation.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn cancel(&self, id: &str) -> Answer<Reservation> {
        self.send::<(), _>("DELETE", &at(id, ""), None, "")
    }

    /// The events of one reservation.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn history(&self, id: &str) -> Answer<Events> {
        self.get(&at(id, "/history"))
    }

    /// The acceptances of other domains, of this reservation and this owner.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn acceptances(&self, reservation: Option<&str>, owner: Option<&str>) -> Answer<Acceptances> {
        let said = |text: Option<&str>| text.map(str::to_owned);
        self.get(&query("/v1/acceptances", &[("reservation", said(reservation)), ("owner", said(owner))]))
    }

    /// The resources; with a window, the free amounts in it.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn resources(&self, window: Option<WindowDoc>) -> Answer<Resources> {
        let edge = |edge: fn(&WindowDoc) -> String| window.as_ref().map(edge);
        self.get(&query(
            "/v1/resources",
            &[("from", edge(|window| window.start.to_string())), ("to", edge(|window| window.end.to_string()))],
        ))
    }

    /// The agents: those that answer, and those that do not.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn agents(&self) -> Answer<Agents> {
        self.get("/v1/agents")
    }

    /// The features of the agents' machines, and the certificates with their ends.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn doctor(&self) -> Answer<Doctors> {
        self.get("/v1/doctor")
    }

    /// The known domains; with a question, the paths over them.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn topology(&self, question: Option<&PathQuestion>) -> Answer<DomainsDoc> {
        let said = |value: fn(&PathQuestion) -> String| question.map(value);
        self.get(&query(
            "/v1/topology",
            &[
                ("from", said(|asked| asked.from.to_string())),
                ("to", said(|asked| asked.to.to_string())),
                ("rate", said(|asked| asked.rate.to_string())),
                ("start", said(|asked| asked.start.to_string())),
                ("end", said(|asked| asked.end.to_string())),
            ],
        ))
    }

    /// The events from a place in the stream on (`None`: from now on).
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn listen(&self, after: Option<&str>) -> Answer<Listener> {
        let target = query("/v1/events", &[("after", after.map(str::to_owned))]);
        let mut reply = self.reply("GET", &target, None, "", stream::SILENCE)?;
        match reply.status() {
            200 => Ok(Listener::new(reply, self.door().clone())),
            _ => Err(self.refused(&mut reply)),
        }
    }

    fn get<T: DeserializeOwned>(&self, target: &str) -> Answer<T> {
        self.send::<(), T>("GET", target, None, "")
    }

    fn send<B: Serialize, T: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        body: Option<&B>,
        key: &str,
    ) -> Answer<T> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|error| Error::Nonsense(error.to_string()))?;
        let mut reply = self.reply(method, target, body, key, http::PATIENCE)?;
        if !(200..300).contains(&reply.status()) {
            return Err(self.refused(&mut reply));
        }
        let text = reply.text().map_err(|error| self.away(error))?;
        serde_json::from_slice(&text).map_err(|error| Error::Nonsense(error.to_string()))
    }

    fn reply(
        &self,
        method: &str,
        target: &str,
        body: Option<Vec<u8>>,
        key: &str,
        silence: std::time::Duration,
    ) -> Answer<Reply> {
        let many = self.doors.len();
        let repeats = method != "POST" && method != "PATCH" || !key.is_empty() || target.starts_with("/v1/enquiries");
        let silence = if many > 1 { silence.min(SILENCE) } else { silence };
        let (begun, mut asked) = (std::time::Instant::now(), 0);
        loop {
            let (number, door) = (self.leads.load(Ordering::Relaxed), self.door());
            let token = self.token.as_deref().unwrap_or("");
            let user = self.user.as_deref().unwrap_or("");
            let request = Request { method, target, host: door.host(), key, token, user, body: body.clone() };
            let error = match http::ask(door.connect(), request, silence, &self.others(number)) {
                Ok(mut reply) if reply.status() == 503 && many > 1 => match self.refused(&mut reply) {
                    Error::Said(problem) if problem.is_standby() => Error::Said(problem),
                    other => return Err(other),
                },
                Ok(reply) => return Ok(reply),
                // What cannot be written, no broker can be sent.
                Err(AskFailure::Unreached(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                    return Err(self.away(error));
                }
                Err(AskFailure::Unreached(error)) => self.away(error),
                Err(AskFailure::Broken(error)) if repeats => self.away(error),
                Err(AskFailure::Broken(error)) => return Err(self.away(error)),
            };
            asked += 1;
            if many == 1 || begun.elapsed() >= TAKEOVER {
                return Err(error);
            }
            self.leads.store((number + 1) % many, Ordering::Relaxed);
            if asked % many == 0 {
                std::thread::sleep(ROUND);
            }
        }
    }

    /// All but the one of this number.
    fn others(&self, number: usize) -> Vec<&BrokerEndpoint> {
        let others = self.doors.iter().enumerate().filter(|(other, _)| *other != number % self.doors.len());
        others.map(|(_, door)| door).collect()
    }

    /// The broker that is asked now.
    fn door(&self) -> &BrokerEndpoint {
        &self.doors[self.leads.load(Ordering::Relaxed) % self.doors.len()]
    }

    fn refused(&self, reply: &mut Reply) -> Error {
        let (status, text) = (reply.status(), reply.text());
        match text.ok().and_then(|text| serde_json::from_slice(&text).ok()) {
            Some(problem) => Error::Said(Box::new(problem)),
            None => Error::Nonsense(format!("status {status}, and no reason")),
        }
    }

    fn away(&self, error: io::Error) -> Error {
        Error::Away { door: Box::new(self.door().clone()), error }
    }
}

/// A random key.
fn draw_key() -> io::Result<String> {
    Ok(crate::transactions::draw::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The target of a reservation. A name that a person typed stays one segment of the path.
fn at(id: &str, what: &str) -> String {
    format!("/v1/reservations/{}{what}", encoded(id))
}

fn query(path: &str, pairs: &[(&str, Option<String>)]) -> String {
    let said = pairs.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let text: Vec<String> = said.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if text.is_empty() { path.to_owned() } else { format!("{path}?{}", text.join("&")) }
}

/// Percent-encoding (RFC 3986, section 2): all but unreserved characters.
fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_typed_stays_in_its_place() {
        assert_eq!(at("a/../b?c#d\r\nX: y", "/bind"), "/v1/reservations/a%2F..%2Fb%3Fc%23d%0D%0AX%3A%20y/bind");
        assert_eq!(query("/v1/x", &[("a", Some("1+2&c=d".into())), ("b", None)]), "/v1/x?a=1%2B2%26c%3Dd");
        assert_eq!(query("/v1/x", &[("b", None)]), "/v1/x");
    }
}
