//! Routes of the broker, each as it is really asked: over its Unix socket and over mutual TLS.

use super::agent::port;
use super::who::{HERE, Strength, Who, as_user, open_to_all};
use super::{Came, Row};
use crate::bed::{SLUICE, wait_for};
use crate::remote::{Far, Running, now, papers, wait_for_words};
use booking::policy::rights::Call;
use broker_service::id::{GroupId, ReservationId};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use terms::Span;
use trust::{Authority, CertificateRequest, CertificateRole, Files, Speaks};

/// How long an event stream is heard for what is not to come.
const HEARD: Duration = Duration::from_secs(2);

/// A broker beside the agent.
pub struct House<'a> {
    far: &'a Far,
    socket: PathBuf,
    /// The authority of a neighbouring domain.
    neighbour: PathBuf,
    /// Numbers of legs that were asked for.
    legs: Cell<u64>,
    /// The cookies of browsers, by who took their tickets; `None`: nobody uses one.
    browsers: RefCell<Option<BTreeMap<String, String>>>,
    _broker: Running,
}

impl House<'_> {
    pub fn start(far: &Far) -> House<'_> {
        let place = &far.bed.place;
        let socket = place.join("broker.sock");
        let neighbour = neighbour(place, far);
        // The agent knows a start of `main` from the cells played before, so this coordinator has a name of its own.
        issue_broker(&far.trust, "test", "house");
        let text = format!(
            "domain = \"test\"\nsocket = \"{0}/broker.sock\"\nstate = \"{0}/broker\"\noperators = \"64999\"\nspeakers = [\"65001\", \"65003\"]\nlisten = [\"10.0.0.1:8443\"]\n[web]\nlisten = \"10.0.0.1:8470\"\n[tls]\n\
             ca = \"trust/ca.pem\"\ncertificate = \"trust/broker-house.pem\"\nkey = \"trust/broker-house.key\"\n\
             revoked = \"trust/revoked.pem\"\n[[tls.domain]]\nname = \"anl\"\nca = \"anl/ca.pem\"\nroles = [\"broker\"]\n\
             [webhooks]\nallow = [\"https://hooks.example.org/\"]\n[[agent]]\nname = \"b\"\nsocket = {1:?}\n\
             [[neighbour]]\nname = \"anl\"\naddress = \"10.0.0.1:9443\"\nlinks = [\"b/net/to-a\"]\n",
            place.display(),
            far.bed.home("b").join("agent.sock")
        );
        std::fs::write(place.join("broker.toml"), text).unwrap();
        let mut command = Command::new(SLUICE);
        command.arg("broker").arg("--config").arg(place.join("broker.toml"));
        let netns = far.bed.netns("a");
        netns.enter_at_exec(&mut command);
        let log = place.join("broker.log");
        let broker = Running::start(&mut command, &log);
        wait_for_words(&log, "10.0.0.1:8443");
        open_to_all(&socket);
        House { far, socket, neighbour, legs: Cell::new(0), browsers: RefCell::default(), _broker: broker }
    }

    /// From now on all but agents and brokers ask by a browser.
    pub fn browse(&self) {
        *self.browsers.borrow_mut() = Some(BTreeMap::new());
    }

    /// The cookie of somebody's browser, signed in the first time; `None`: none is used.
    fn cookie(&self, who: &Who) -> Option<String> {
        let known = self.browsers.borrow().as_ref().map(|all| all.get(&who.name()).cloned())?;
        if known.is_some() || !can_browse(who) {
            return known;
        }
        // The ticket is taken where they are known.
        let browsers = self.browsers.take();
        let (status, doc) = self.send(who, "POST", "/v1/tickets", &Value::Null);
        assert_eq!(status, 201, "{doc}");
        let ticket = doc["address"].as_str().unwrap().split_once("#ticket=").unwrap().1.to_owned();
        let said = self.ask_as_browser("", "POST", "/session", &json!({"ticket": ticket}), |_| false);
        let field = said.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        let cookie = field.split(';').next().unwrap().to_owned();
        let mut all = browsers.expect("browsers are used");
        all.insert(who.name(), cookie.clone());
        *self.browsers.borrow_mut() = Some(all);
        Some(cookie)
    }

    fn ask_as_browser(
        &self,
        cookie: &str,
        method: &str,
        path: &str,
        body: &Value,
        enough: impl Fn(&str) -> bool,
    ) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 10.0.0.1:8470\r\nOrigin: https://10.0.0.1:8470\r\nCookie: {cookie}\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.by_tls("requester-bob", &self.far.trust, 8470, &request, quick(path), enough)
    }

    /// Asks for what a row says; `None`: it cannot be asked like that.
    pub fn cell(&self, row: &Row, who: &Who, strength: Strength) -> Option<Came> {
        if matches!(who, Who::Through(..)) {
            return None; // that is how the broker itself comes to agents
        }
        let (method, route) = row.call.name().split_once(' ')?;
        let asked = |path: &str, body: Value| self.came(who, method, path, &body);
        Some(match row.call {
            // The list names the operator in any case.
            Call::ForUser if strength == Strength::Unruled && *who == Who::User(65_001, vec![27, 64_999]) => {
                return None;
            }
            Call::ForUser => self.came_with(who, "Sluice-For: uid:65004 gid:65004\r\n", "GET", "/v1/me", &Value::Null),
            Call::GetPaths => asked("/v1/paths?from=10.0.0.1&to=10.0.0.2", Value::Null),
            Call::GetMay if row.whose == "own" => asked("/v1/may?resource=b/licence/solver&count=1", Value::Null),
            Call::GetMay => asked("/v1/may?resource=b/licence/solver&count=1&who=somebody", Value::Null),
            Call::PostEnquiry | Call::PostReservation => {
                let ruled = strength == Strength::Ruled;
                asked(route, wish(if ruled { "b/licence/solver" } else { "b/licence/other" }, None))
            }
            Call::GetReservations
            | Call::GetReservation
            | Call::PatchReservation
            | Call::DeleteReservation
            | Call::PostBind
            | Call::PostCommit
            | Call::GetHistory
            | Call::GetMeasured
            | Call::GetCalendar
            | Call::GetEvents => return self.reservation(row, who, strength),
            Call::GetTransaction => asked("/v1/transactions/00112233445566778899aabbccddeeff?epoch=1", Value::Null),
            Call::GetAcceptances if row.whose == "own" => asked(route, Value::Null),
            Call::GetAcceptances => self.acceptances_of_others(who),
            Call::PutTransaction => asked("/v1/transactions/00112233445566778899aabbccddeeff", decision(1, None)),
            Call::PostLeg => asked(route, self.leg().1),
            Call::GetLeg | Call::DeleteLeg => {
                let name = match row.whose {
                    "own" => self.kept_leg(),
                    _ => self.leg().1["reservation"].as_str().expect("it has a name").to_owned(),
                };
                let came = asked(&format!("/v1/legs/{name}"), Value::Null);
                let broker = Who::Certificate(NEIGHBOUR);
                self.send(&broker, "DELETE", &format!("/v1/legs/{name}"), &Value::Null); // there is room for few
                came
            }
            Call::PostWebhook => asked(route, hook()),
            Call::PutReading => asked("/v1/readings/frames", json!({"value": 25.0})),
            Call::GetReadings if row.whose == "own" => asked(route, Value::Null),
            Call::GetReadings => self.readings_of_others(who),
            Call::DeleteWebhook => {
                let (mut id, mut owner) = (Value::Null, who.clone());
                if row.whose == "own" {
                    id = self.send(who, "POST", "/v1/webhooks", &hook()).1["id"].clone();
                }
                if id.is_null() {
                    owner = Who::other();
                    id = self.send(&owner, "POST", "/v1/webhooks", &hook()).1["id"].clone();
                }
                let path = format!("/v1/webhooks/{}", id.as_str().expect("a webhook was made"));
                let came = asked(&path, Value::Null);
                if came != Came::Allowed {
                    self.send(&owner, "DELETE", &path, &Value::Null); // there is room for few
                }
                came
            }
            _ => asked(route, Value::Null),
        })
    }

    /// Whether they see a reading that somebody else's application reports.
    fn readings_of_others(&self, who: &Who) -> Came {
        self.send(&Who::other(), "PUT", "/v1/readings/others", &json!({"value": 1.0}));
        match self.send(who, "GET", "/v1/readings", &Value::Null) {
            (200, doc) => {
                let all = doc["readings"].as_array().expect("a list");
                among(all.iter().any(|one| one["name"] == "others"))
            }
            (status, doc) => came(status, &doc),
        }
    }

    /// Whether they see an acceptance for somebody else.
    fn acceptances_of_others(&self, who: &Who) -> Came {
        self.kept_leg();
        match self.send(who, "GET", "/v1/acceptances", &Value::Null) {
            (200, doc) => {
                let all = doc["acceptances"].as_array().expect("a list");
                among(all.iter().any(|one| one["owner"] == "anl/alice"))
            }
            (status, doc) => came(status, &doc),
        }
    }

    /// A leg that the neighbour has asked for, and that is decided: its name there.
    fn kept_leg(&self) -> String {
        let (transaction, leg) = self.leg();
        let name = leg["reservation"].as_str().expect("it has a name").to_owned();
        let broker = Who::Certificate(NEIGHBOUR);
        let promised = self.send(&broker, "POST", "/v1/legs", &leg);
        assert_eq!(promised.0, 200, "{promised:?}");
        let path = format!("/v1/transactions/{transaction}");
        assert_eq!(self.send(&broker, "PUT", &path, &decision(0, Some(self.legs.get()))).0, 200);
        let known = || self.send(&broker, "GET", &format!("/v1/legs/{name}"), &Value::Null).0 == 200;
        wait_for("the leg is there", || known().then_some(()));
        name
    }

    /// The neighbour's transaction, and its question for a leg that ends here.
    fn leg(&self) -> (String, Value) {
        self.legs.set(self.legs.get() + 1);
        let number = self.legs.get();
        let mut name = [0; 16];
        name[8..].copy_from_slice(&number.to_be_bytes());
        let ends = Some(("10.0.0.9".parse().unwrap(), HERE.parse().unwrap()));
        let name = ReservationId::Group(GroupId { number: name, ends }).to_string();
        let transaction = format!("{number:032x}");
        let epoch = json!({"number": 1, "decisions": 0, "nonce": 7});
        let window = json!({"start": "2030-01-01T00:00:00Z", "end": "2030-01-01T01:00:00Z"});
        let leg = json!({"from": "10.0.0.9", "to": HERE, "forward": 0, "reverse": 1_000, "windows": [window]});
        let ask = json!({
            "transaction": transaction, "member": 0, "epoch": epoch, "serial": number, "floor": 1, "origin": transaction,
            "via": ["anl"], "reservation": name, "owner": "alice", "border": "10.0.0.0/30", "leg": leg, "change": "create",
        });
        (transaction, ask)
    }

    /// Of a reservation: their own, or somebody else's.
    fn reservation(&self, row: &Row, who: &Who, strength: Strength) -> Option<Came> {
        let ruled = strength == Strength::Ruled;
        let operator = matches!(who, Who::User(0 | 65_001, _)) || who.name() == "root";
        if !ruled && (matches!(row.call, Call::PostCommit | Call::PostBind) || !operator) {
            return None; // as at the agent
        }
        let resource = if row.call == Call::PostBind { "b/net/to-a" } else { "b/licence/solver" };
        let hold = (row.call == Call::PostCommit).then_some(60);
        let made = |who: &Who| self.send(who, "POST", "/v1/reservations", &wish(resource, hold));
        let own = (row.whose == "own").then(|| made(who));
        let id = match own {
            Some((201, doc)) => doc["id"].clone(),
            Some(_) if row.call == Call::GetReservations => {
                return Some(self.came(who, "GET", "/v1/reservations", &Value::Null));
            }
            Some(_)
                if matches!(
                    row.call,
                    Call::GetReservation | Call::GetHistory | Call::GetMeasured | Call::GetCalendar | Call::GetEvents
                ) && self.sees(who) =>
            {
                return None; // they have nothing
            }
            _ => made(&Who::other()).1["id"].clone(),
        };
        let id = id.as_str().expect("a reservation was made").to_owned();
        let (path, none) = (format!("/v1/reservations/{id}"), Value::Null);
        Some(match row.call {
            Call::GetReservations => {
                let owner = if row.whose == "own" { who.name() } else { Who::other().name() };
                match self.send(who, "GET", &format!("/v1/reservations?owner={owner}"), &none) {
                    (200, doc) => {
                        let all = doc["reservations"].as_array();
                        among(all.is_some_and(|all| all.iter().any(|one| one["id"] == *id)))
                    }
                    (status, doc) => came(status, &doc),
                }
            }
            Call::PatchReservation => {
                let count = if ruled { 2 } else { 6 }; // the rule's most is 5
                self.came(who, "PATCH", &path, &json!({"amounts": [{"count": count}]}))
            }
            Call::DeleteReservation => self.came(who, "DELETE", &path, &none),
            Call::PostBind => {
                let flow = json!({"flow": {"src": HERE, "dst": "10.0.0.1", "protocol": 17, "dst_port": port()}});
                self.came(who, "POST", &format!("{path}/bind"), &json!({"part": 0, "binding": flow}))
            }
            Call::PostCommit => self.came(who, "POST", &format!("{path}/commit"), &none),
            Call::GetHistory => self.came(who, "GET", &format!("{path}/history"), &none),
            Call::GetEvents => self.hears(who, "/v1/events?after=0", &id),
            Call::GetMeasured => self.hears(who, &format!("{path}/measured"), "event: measured"),
            Call::GetCalendar => {
                let all = self.talk(who, "GET", "/v1/calendar.ics", &none, |_| false);
                match all.split(' ').nth(1) {
                    Some("200") => among(all.replace("\r\n ", "").contains(&format!("UID:{id}-"))),
                    status => Came::Refused(format!("{status:?}")),
                }
            }
            _ => self.came(who, "GET", &path, &none),
        })
    }

    /// Whether they may read reservations at all.
    fn sees(&self, who: &Who) -> bool {
        self.send(who, "GET", "/v1/reservations", &Value::Null).0 == 200
    }

    fn came(&self, who: &Who, method: &str, path: &str, body: &Value) -> Came {
        let (status, doc) = self.send(who, method, path, body);
        came(status, &doc)
    }

    fn came_with(&self, who: &Who, field: &str, method: &str, path: &str, body: &Value) -> Came {
        let (status, doc) = self.send_with(who, field, method, path, body);
        assert!(status != 200 || doc["name"] == Who::other().name(), "{doc}");
        came(status, &doc)
    }

    /// The status and the document that somebody gets.
    pub fn send(&self, who: &Who, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send_with(who, "", method, path, body)
    }

    /// The same with one more field in the head.
    fn send_with(&self, who: &Who, field: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let all = self.talk_with(who, field, method, path, body, |_| false);
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{who:?} {method} {path}: {all:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Whether a reservation's events are in somebody's stream.
    fn hears(&self, who: &Who, path: &str, what: &str) -> Came {
        let until = Instant::now() + HEARD;
        let all = self.talk(who, "GET", path, &Value::Null, |all| {
            all.contains(what) || Instant::now() > until || all.contains("application/problem")
        });
        match all.split(' ').nth(1) {
            Some("200") => among(all.contains(what)),
            status => Came::Refused(format!("{status:?}")),
        }
    }

    /// All that is said until the broker closes, or it is enough.
    fn talk(&self, who: &Who, method: &str, path: &str, body: &Value, enough: impl Fn(&str) -> bool) -> String {
        self.talk_with(who, "", method, path, body, enough)
    }

    fn talk_with(
        &self,
        who: &Who,
        field: &str,
        method: &str,
        path: &str,
        body: &Value,
        enough: impl Fn(&str) -> bool,
    ) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 10.0.0.1:8443\r\nConnection: close\r\nContent-Type: application/json\r\n{field}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if let Some(cookie) = self.cookie(who) {
            let body = serde_json::from_str(&body).unwrap_or(Value::Null);
            return self.ask_as_browser(&cookie, method, path, &body, enough);
        }
        match who {
            Who::User(uid, groups) => {
                let socket = self.socket.clone();
                let stream = as_user(*uid, groups, move || UnixStream::connect(socket).unwrap());
                stream.set_read_timeout(quick(path)).unwrap();
                exchange(stream, &request, enough)
            }
            Who::Certificate(name) => {
                // For these calls a broker is a neighbour's.
                let of_neighbour = path.starts_with("/v1/legs") || path.starts_with("/v1/transactions");
                let folder = if *name == NEIGHBOUR && of_neighbour { &self.neighbour } else { &self.far.trust };
                self.by_tls(name, folder, 8443, &request, quick(path), enough)
            }
            Who::Through(..) => unreachable!("a broker speaks to agents"),
        }
    }

    /// The same over TLS, with a certificate from a folder.
    fn by_tls(
        &self,
        name: &str,
        folder: &Path,
        port: u16,
        request: &str,
        quick: Option<Duration>,
        enough: impl Fn(&str) -> bool,
    ) -> String {
        let papers = papers(folder, name);
        let files = Files {
            ca: self.far.trust.join("ca.pem"),
            certificate: papers.certificate.unwrap(),
            key: papers.key.unwrap(),
            revoked: None,
            partners: Vec::new(),
        };
        let config = trust::client(&files, now(), Speaks::Http).unwrap();
        let connect = move || TcpStream::connect(("10.0.0.1", port)).unwrap();
        let stream = self.far.bed.netns("b").run(connect).unwrap();
        stream.set_read_timeout(quick).unwrap();
        let name = ServerName::try_from("10.0.0.1").unwrap();
        exchange(StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream), request, enough)
    }
}

/// A stream has no end, so that it is looked at every now and then.
fn quick(path: &str) -> Option<Duration> {
    Some(if path.contains("/events") || path.ends_with("/measured") {
        Duration::from_millis(50)
    } else {
        Duration::from_secs(20)
    })
}

/// Agents and brokers get no ticket.
pub fn can_browse(who: &Who) -> bool {
    match who {
        Who::User(..) => true,
        Who::Certificate(name) => !name.starts_with("agent") && !name.starts_with("broker"),
        Who::Through(..) => false,
    }
}

fn exchange<S: Read + Write>(mut stream: S, request: &str, enough: impl Fn(&str) -> bool) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    // A handshake may need more than one turn of the clock that reading has.
    while let Err(error) = stream.write_all(request.as_bytes()) {
        assert!(error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < until, "{error}");
    }
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        if enough(&String::from_utf8_lossy(&all)) || Instant::now() > until {
            break;
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The certificate of a broker whom the configuration names: at agents our own, between domains a neighbour's.
const NEIGHBOUR: &str = "broker-main";

/// Another domain, with a broker.
fn neighbour(place: &Path, far: &Far) -> PathBuf {
    let dir = place.join("anl");
    issue_broker(&dir, "anl", "main");
    assert_ne!(dir, far.trust);
    dir
}

/// A certificate for a broker of a domain, by the authority in this folder.
fn issue_broker(folder: &Path, domain: &str, name: &str) {
    let (authority, _) = Authority::open_or_make(folder, domain, now()()).unwrap();
    let request = CertificateRequest {
        role: CertificateRole::Broker,
        name: name.to_owned(),
        hosts: vec!["10.0.0.1".to_owned()],
        groups: Vec::new(),
        life: Span::from_secs(86_400),
    };
    authority.issue(&request, now()()).unwrap();
}

fn decision(member: u32, commit: Option<u64>) -> Value {
    json!({"member": member, "epoch": {"number": 1, "decisions": 0, "nonce": 7}, "commit": commit})
}

fn among(seen: bool) -> Came {
    if seen { Came::Allowed } else { Came::Refused("it is not among what they see".into()) }
}

fn came(status: u16, doc: &Value) -> Came {
    match status {
        200..300 if doc["accepted"] == false => Came::Refused(doc["refusal"]["message"].to_string()),
        200..300 => Came::Allowed,
        403 | 404 => Came::Refused(doc["detail"].to_string()),
        _ => Came::Odd(format!("{status} {doc}")),
    }
}

fn wish(resource: &str, hold: Option<u32>) -> Value {
    let part = match resource.contains("/net/") {
        true => json!({"resource": resource, "rate": 1_000}),
        false => json!({"resource": resource, "count": 1}),
    };
    json!({"parts": [part], "duration_s": 600.0, "hold_s": hold})
}

fn hook() -> Value {
    json!({"url": "https://hooks.example.org/x"})
}
