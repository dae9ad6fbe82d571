//! The calls of a broker's REST that co-reservations need.

use crate::http::{HttpAnswer, HttpRequest, LocalBroker};
use documents::book::RefusalDoc;
use documents::may::MayDoc;
use documents::rest::{Events, Reservation, Reservations, Resources, Wish};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io;
use std::time::{Duration, Instant};
use terms::Time;

/// The longest time of a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that was not carried out.
#[derive(Clone, Debug)]
pub struct BrokerRefusal {
    /// The HTTP status; 0: no broker answers.
    pub status: u16,
    /// For programs: `no_room`, `policy`, ...
    pub kind: String,
    /// For people.
    pub detail: String,
    /// The resource, the time, the free amount, if a booking was refused.
    pub refusal: Option<Box<RefusalDoc>>,
}

impl BrokerRefusal {
    /// True if nothing is known against the request: a broker or an agent is away, or has too much to do.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.status, 0 | 429 | 503)
    }

    /// For programs, the book's reason: `taken`, `no_room`, ...
    pub fn reason(&self) -> &str {
        self.refusal.as_ref().map_or("", |refusal| &refusal.reason)
    }

    /// The resource that was refused.
    pub fn resource(&self) -> Option<&str> {
        self.refusal.as_ref().and_then(|refusal| refusal.resource.as_deref())
    }
}

/// `application/problem+json`, as far as it is used.
#[derive(Deserialize)]
struct ProblemText {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    refusal: Option<Box<RefusalDoc>>,
}

/// A broker's calls.
#[derive(Debug)]
pub struct BrokerCalls {
    address: LocalBroker,
    now: Option<Time>,
}

impl BrokerCalls {
    /// Those of the broker at this address.
    pub fn at(address: LocalBroker) -> BrokerCalls {
        BrokerCalls { address, now: None }
    }

    /// The broker's clock at its last answer.
    pub fn now(&self) -> Option<Time> {
        self.now
    }

    /// Reserves.
    pub fn create(&mut self, wish: &Wish, key: &str) -> Result<Reservation, BrokerRefusal> {
        // Our own documents have string keys and finite numbers: they can always be written.
        let body = serde_json::to_vec(wish).unwrap_or_default();
        self.call(&HttpRequest { method: "POST", target: "/v1/reservations", key, body: Some(&body) })
    }

    /// Shows a reservation.
    pub fn show(&mut self, id: &str) -> Result<Reservation, BrokerRefusal> {
        self.get(&format!("/v1/reservations/{}", encoded(id)))
    }

    /// Gives a reservation back.
    pub fn cancel(&mut self, id: &str) -> Result<Reservation, BrokerRefusal> {
        let target = format!("/v1/reservations/{}", encoded(id));
        self.call(&HttpRequest { method: "DELETE", target: &target, key: "", body: None })
    }

    /// The reservations of an owner with a label that are not over.
    pub fn list(&mut self, owner: &str, label: &str) -> Result<Vec<Reservation>, BrokerRefusal> {
        let target = format!("/v1/reservations?owner={}&label={}", encoded(owner), encoded(label));
        self.get::<Reservations>(&target).map(|found| found.reservations)
    }

    /// The events of a reservation.
    pub fn history(&mut self, id: &str) -> Result<Events, BrokerRefusal> {
        self.get(&format!("/v1/reservations/{}/history", encoded(id)))
    }

    /// The agents that do not answer.
    pub fn away(&mut self) -> Result<Vec<String>, BrokerRefusal> {
        self.get::<Resources>("/v1/resources").map(|found| found.away)
    }

    /// The caller's name, as an agent knows it.
    pub fn who(&mut self) -> Result<String, BrokerRefusal> {
        let found: Resources = self.get("/v1/resources")?;
        let first = found.resources.first().map(|row| row.resource.as_str()).unwrap_or_default();
        let agent = encoded(first.split('/').next().unwrap_or_default());
        self.get::<MayDoc>(&format!("/v1/may?signal=receive&agent={agent}&dst=127.0.0.1&rate=1")).map(|may| may.who)
    }

    fn get<T: DeserializeOwned>(&mut self, target: &str) -> Result<T, BrokerRefusal> {
        self.call(&HttpRequest { method: "GET", target, key: "", body: None })
    }

    fn call<T: DeserializeOwned>(&mut self, request: &HttpRequest<'_>) -> Result<T, BrokerRefusal> {
        let answer = self.address.ask(request, Instant::now() + PATIENCE).map_err(|error| self.away_by(&error))?;
        let HttpAnswer { status, date, body } = answer;
        self.now = date.and_then(|seconds| seconds.checked_mul(1_000_000_000)).map(Time::from_nanos).or(self.now);
        if (200..300).contains(&status) {
            return serde_json::from_slice(&body).map_err(|error| BrokerRefusal {
                status: 0,
                kind: "nonsense".to_owned(),
                detail: format!("the broker's answer makes no sense: {error}"),
                refusal: None,
            });
        }
        let said = serde_json::from_slice(&body).unwrap_or_else(|_| ProblemText {
            kind: String::new(),
            detail: format!("the broker answered with status {status}"),
            refusal: None,
        });
        let ProblemText { kind, detail, refusal } = said;
        Err(BrokerRefusal { status, kind: kind.rsplit('/').next().unwrap_or_default().to_owned(), detail, refusal })
    }

    fn away_by(&self, error: &io::Error) -> BrokerRefusal {
        let detail = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the broker on {} did not answer in time", self.address)
            }
            _ => format!("no broker answers on {} ({error}): start one with `sluice broker`", self.address),
        };
        BrokerRefusal { status: 0, kind: "unavailable".to_owned(), detail, refusal: None }
    }
}

/// Percent-encoding (RFC 3986, section 2): all but unreserved characters.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
