//! The reservation of a transfer: asked for before anything is connected, bound once the ports are known, followed while
//! it is used, given back at the end.
//!
//! The book's callbacks come as events on a connection of their own. A `share` says at once how much there is; after
//! every other event, at the steps of a granted volume, and once a second, the reservation is looked at as a whole. If the
//! agent goes away the kernel still polices as it was told, so the sender goes on as it is until the agent is back.

use crate::allowance::{Allowance, Allowed};
use crate::error::Error;
use crate::pace;
use linux::clock::Clock;
use rpc::agent::{Answer, EventDoc, Problem, Request};
use rpc::book::{
    AlternativeDoc, AskDoc, BackgroundDoc, BindingDoc, BookAnswer, BookEvent, BookFilter, ChangeDoc, FlowDoc,
    Instant as Stamp, PartDoc, PartRow, ReservationDoc, VolumeDoc,
};
use rpc::client::Client;
use rpc::place::Endpoint;
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a reservation lasts that nobody limits, seconds: it is made longer while the transfer goes on, so that one whose sender was
/// killed ends by itself. And how much of it may be left when that is done.
const LEASE_S: u64 = 300;
const RENEW: terms::Span = terms::Span::from_secs(200);
/// IP's number of TCP.
const TCP: u8 = 6;
/// How often the reservation is looked at although nothing is heard of it.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait for an agent that went away.
const AWAY: Duration = Duration::from_millis(500);
/// How long an agent that went away is waited for where nothing goes on without it.
const BACK: Duration = Duration::from_secs(20);
/// How long a binding may take to be in force.
const BINDING: Duration = Duration::from_secs(10);

/// What is wanted of the book.
#[derive(Clone, PartialEq, Debug)]
pub enum Terms {
    /// To share what foreground leaves.
    Background {
        /// Against other background flows.
        weight: u32,
        /// With less, bit/s, it would rather wait.
        floor: u64,
        /// The most that it can use, bit/s; `None`: whatever there is.
        most: Option<u64>,
    },
    /// So much for itself, bit/s, or at least so much.
    Rate {
        /// This.
        rate: u64,
        /// Or at least this.
        least: Option<u64>,
    },
    /// The whole file by then.
    By {
        /// When.
        deadline: Stamp,
        /// The most that it can use, bit/s; `None`: whatever there is.
        most: Option<u64>,
    },
    /// A reservation that is there already.
    Existing {
        /// Its handle.
        handle: String,
    },
}

/// A request for a transfer.
#[derive(Clone, PartialEq, Debug)]
pub struct TransferRequest {
    /// `net/IFACE` of the agent that the file passes; `None`: its only one.
    pub resource: Option<String>,
    /// On what terms.
    pub terms: Terms,
    /// For how long, seconds; `None`: as long as the transfer goes on. Of no meaning by a deadline.
    pub lasts: Option<f64>,
    /// The longest round trip, milliseconds; `None`: the book's default.
    pub rtt_ms: Option<f64>,
    /// What the owner calls it; transfers that broke off find their reservation by it.
    pub label: String,
}

/// A reservation that a transfer has.
#[derive(Debug)]
pub struct Booking {
    place: Endpoint,
    client: Client,
    handle: String,
    part: usize,
    /// Of the events that have been seen, the last.
    seen: Option<u64>,
    /// Whether it is made longer while it is used.
    lease: bool,
}

impl Booking {
    /// Reserves, or finds what an earlier attempt of the same transfer has reserved.
    ///
    /// # Errors
    /// [`Error::Refused`] with the book's reason and what would be possible; the agent does not answer.
    pub fn make(
        place: &Endpoint,
        wish: &TransferRequest,
        bytes: u64,
        to: &SocketAddr,
    ) -> Result<(Booking, ReservationDoc), Error> {
        let mut client = Client::reach(place)?;
        let seen = follow(&mut client, None)?;
        let doc = match &wish.terms {
            Terms::Existing { handle } => show(&mut client, handle)?,
            _ => match unfinished(&mut client, &wish.label)? {
                Some(doc) => doc,
                None => create(&mut client, wish, bytes, to)?,
            },
        };
        let network = |part: &PartRow| part.resource.starts_with("net/");
        let part = doc.parts.iter().position(network).ok_or_else(|| {
            Error::Usage(format!("the reservation {} has no part of a network: it cannot carry a file", doc.handle))
        })?;
        let handle = doc.handle.clone();
        let open = !matches!(wish.terms, Terms::Existing { .. } | Terms::By { .. });
        let lease = open && wish.lasts.is_none();
        Ok((Booking { place: place.clone(), client, handle, part, seen, lease }, doc))
    }

    /// Its handle.
    pub fn handle(&self) -> &str {
        &self.handle
    }

    /// Says which packets it is for: those of this connection.
    ///
    /// # Errors
    /// The book does not take it.
    pub fn bind(&mut self, stream: &TcpStream) -> Result<(), Error> {
        let from = stream.local_addr().map_err(Error::doing("see the connection"))?;
        let to = stream.peer_addr().map_err(Error::doing("see the connection"))?;
        let flow = FlowDoc {
            src: Some(from.ip()),
            dst: Some(to.ip()),
            protocol: Some(TCP),
            src_port: Some(from.port()),
            dst_port: Some(to.port()),
        };
        let binding = Some(BindingDoc::Flow(flow));
        self.call(&Request::BookBind { handle: self.handle.clone(), part: self.part, binding })?;
        // What is granted is sent when the edge knows whose it is, and not before.
        let until = Instant::now() + BINDING;
        while Instant::now() < until {
            let doc = reservation(self.call(&shown(&self.handle))?)?;
            let row = &doc.parts[self.part];
            match row.enforced.as_str() {
                "failed" => return Err(Error::World(row.fault.clone().unwrap_or_else(|| "it failed".into()))),
                "pending" => std::thread::sleep(Duration::from_millis(2)),
                _ => return Ok(()),
            }
        }
        Err(Error::World("the edge did not take the flow in time".into()))
    }

    /// Keeps `allowance` as the book says, in a thread of its own, until the allowance is at its end.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn follow(&self, allowance: &Allowance) -> Result<JoinHandle<()>, Error> {
        let (place, handle, part, seen) = (self.place.clone(), self.handle.clone(), self.part, self.seen);
        let client = Some(Client::reach(&place)?);
        let (allowance, clock) = (allowance.clone(), Clock::start());
        let lease = self.lease;
        let mut listener = Listener { place, client, handle, part, seen, known: None, allowance, clock, lease };
        let thread = std::thread::Builder::new().name("copy-callbacks".into());
        thread.spawn(move || listener.run()).map_err(Error::doing("start a thread"))
    }

    /// Gives it back; what is over already is no mistake.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn cancel(&mut self) -> Result<(), Error> {
        match self.call(&Request::BookCancel { handle: self.handle.clone() }) {
            Ok(_) => Ok(()),
            Err(_) => match reservation(self.call(&shown(&self.handle))?) {
                Ok(doc) if is_over(&doc.state) => Ok(()),
                Ok(doc) => Err(Error::World(format!("the reservation {} is still {}", doc.handle, doc.state))),
                Err(error) => Err(error),
            },
        }
    }

    /// A call that may be made twice; an agent that went away is waited for.
    fn call(&mut self, request: &Request) -> Result<Answer, Error> {
        let until = Instant::now() + BACK;
        let mut said = self.client.call(request.clone());
        loop {
            match said {
                Err(rpc::client::Error::Io { .. }) if Instant::now() < until => {
                    std::thread::sleep(AWAY);
                    said = Client::reach(&self.place).and_then(|client| {
                        self.client = client;
                        self.client.call(request.clone())
                    });
                }
                said => return Ok(said?),
            }
        }
    }
}

fn create(client: &mut Client, wish: &TransferRequest, bytes: u64, to: &SocketAddr) -> Result<ReservationDoc, Error> {
    let resource = match &wish.resource {
        Some(resource) => resource.clone(),
        None => only_network(client, to)?,
    };
    let mut part = PartDoc { resource, rtt_ms: wish.rtt_ms, ..PartDoc::default() };
    let mut ask = AskDoc { label: wish.label.clone(), ..AskDoc::default() };
    match &wish.terms {
        Terms::Background { weight, floor, most } => {
            part.rate = Some(most.map_or_else(|| capacity(client, &part.resource), Ok)?);
            part.background = Some(BackgroundDoc { weight: *weight, floor: *floor as f64 });
        }
        Terms::Rate { rate, least } => {
            part.rate = Some(*rate);
            part.at_least = least.map(|least| least as f64);
        }
        Terms::By { deadline, most } => {
            part.rate = Some(most.unwrap_or(0));
            let left = deadline.0.since(Clock::start().now());
            ask.volume = Some(VolumeDoc { bytes: pace::volume(bytes, to, left), deadline: *deadline });
        }
        Terms::Existing { .. } => {}
    }
    if !matches!(wish.terms, Terms::By { .. }) {
        ask.duration_s = Some(wish.lasts.unwrap_or(LEASE_S as f64));
    }
    ask.parts = vec![part];
    match client.call(Request::BookCreate(ask)) {
        Err(rpc::client::Error::Agent(problem)) => Err(refused(problem)),
        answer => reservation(answer?),
    }
}

/// The book's words, and what would be possible.
fn refused(problem: Problem) -> Error {
    let Some(refusal) = problem.refusal else { return rpc::client::Error::Agent(problem).into() };
    let told: Vec<String> = refusal.alternatives.iter().filter_map(possible).collect();
    match told.is_empty() {
        true => Error::Refused(problem.message),
        false => Error::Refused(format!("{}; possible: {}", problem.message, told.join("; "))),
    }
}

/// An alternative, in a few words: how much, from when to when.
fn possible(alternative: &AlternativeDoc) -> Option<String> {
    let steps = alternative.parts.first()?;
    let (first, last) = (steps.first()?, steps.last()?);
    let most = steps.iter().map(|step| step.amount).fold(0.0, f64::max);
    let end = last.end.map_or("open".into(), |end| format!("until {}", to_the_second(end)));
    let rate = terms::Rate::from_bps(most as u64);
    Some(format!("{} ({rate} from {} {end})", alternative.sort, first.start))
}

/// The full second at or after an instant.
fn to_the_second(at: Stamp) -> Stamp {
    const SECOND: u64 = 1_000_000_000;
    Stamp(terms::Time::from_nanos(at.0.as_nanos().div_ceil(SECOND).saturating_mul(SECOND)))
}

/// A reservation of that name which is not over.
fn unfinished(client: &mut Client, label: &str) -> Result<Option<ReservationDoc>, Error> {
    let filter = BookFilter { label: Some(label.to_owned()), limit: Some(1), ..BookFilter::default() };
    match client.call(Request::BookShow { handle: None, filter })? {
        Answer::Book(BookAnswer::Reservations { rows, .. }) => Ok(rows.into_iter().find(|row| !is_over(&row.state))),
        other => Err(unexpected(&other)),
    }
}

/// The network that the file leaves by: the agent's only one, or the one that this machine's route to the receiver takes.
fn only_network(client: &mut Client, to: &SocketAddr) -> Result<String, Error> {
    let Answer::Book(BookAnswer::Resources(rows)) = client.call(Request::resources(None))? else {
        return Err(Error::World("the agent did not say what there is to reserve".into()));
    };
    let names: Vec<String> = rows.into_iter().map(|row| row.resource).filter(|name| name.starts_with("net/")).collect();
    match names.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Error::Usage("this agent has no network to reserve".into())),
        _ => match by_route(client, to).filter(|name| names.contains(name)) {
            Some(name) => Ok(name),
            None => Err(Error::Usage(format!("which way does it go? --resource {}", names.join(" or ")))),
        },
    }
}

/// The agent's resource with the address that this machine would send from; none if the agent is another machine's.
fn by_route(client: &mut Client, to: &SocketAddr) -> Option<String> {
    let any: SocketAddr =
        if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { (std::net::Ipv6Addr::UNSPECIFIED, 0).into() };
    // Nothing is sent: to connect is to ask the routes.
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    let own = socket.local_addr().ok()?.ip().to_string();
    let Answer::Links(rows) = client.call(Request::Links).ok()? else { return None };
    let has = |address: &String| address.split('/').next() == Some(own.as_str());
    rows.into_iter().find(|row| row.addresses.iter().any(has)).and_then(|row| row.resource)
}

fn capacity(client: &mut Client, resource: &str) -> Result<u64, Error> {
    match client.call(Request::resources(None))? {
        Answer::Book(BookAnswer::Resources(rows)) => {
            let found = rows.iter().find(|row| row.resource == resource);
            found.map(|row| row.capacity as u64).ok_or_else(|| Error::Usage(format!("there is no resource {resource}")))
        }
        other => Err(unexpected(&other)),
    }
}

fn show(client: &mut Client, handle: &str) -> Result<ReservationDoc, Error> {
    reservation(client.call(shown(handle))?)
}

fn shown(handle: &str) -> Request {
    Request::BookShow { handle: Some(handle.to_owned()), filter: BookFilter::default() }
}

fn reservation(answer: Answer) -> Result<ReservationDoc, Error> {
    match answer {
        Answer::Book(BookAnswer::Reservation(doc)) => Ok(doc),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(answer: &Answer) -> Error {
    Error::World(format!("the agent answered {answer:?}"))
}

/// Follows the book; the number of the last event that there is.
fn follow(client: &mut Client, after: Option<u64>) -> Result<Option<u64>, Error> {
    match client.call(Request::BookFollow { after })? {
        Answer::Book(BookAnswer::Events(events)) => Ok(Some(events.last)),
        _ => Ok(after),
    }
}

fn is_over(state: &str) -> bool {
    matches!(state, "ended" | "cancelled" | "expired")
}

/// Hears what the book says of a reservation.
struct Listener {
    place: Endpoint,
    client: Option<Client>,
    handle: String,
    part: usize,
    seen: Option<u64>,
    /// The part as it was last seen.
    known: Option<PartRow>,
    allowance: Allowance,
    clock: Clock,
    lease: bool,
}

impl Listener {
    fn run(&mut self) {
        let mut following = false;
        while matches!(self.allowance.now(), Allowed::Rate(_)) {
            match self.turn(&mut following) {
                Ok(()) => {}
                Err(Error::Over(why)) => self.allowance.end(why),
                // Back when the agent is; until then the kernel and the sender go on as they were told.
                Err(_) => {
                    (self.client, following) = (None, false);
                    self.by_calendar();
                    std::thread::sleep(AWAY);
                }
            }
        }
    }

    /// Without the agent nobody is granted more; what was granted by the calendar ends and shrinks by it.
    fn by_calendar(&self) {
        let (Some(part), Allowed::Rate(now)) = (&self.known, self.allowance.now()) else { return };
        self.allowance.set(now.min(granted_at(part, self.clock.now())));
    }

    fn turn(&mut self, following: &mut bool) -> Result<(), Error> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::reach(&self.place)?,
        };
        if !*following {
            self.seen = follow(&mut client, self.seen)?;
            *following = true;
        }
        let doc = show(&mut client, &self.handle)?;
        if is_over(&doc.state) {
            return Err(Error::Over(format!("the reservation {} has {}", doc.handle, over_how(&doc.state))));
        }
        self.renew(&mut client, &doc)?;
        let open = matches!(doc.state.as_str(), "active");
        self.allowance.set(if open { doc.parts[self.part].now as u64 } else { 0 });
        self.known = Some(doc.parts[self.part].clone());
        let until = Instant::now() + next_step(&doc.parts[self.part], &self.clock).min(LOOK);
        while let Some((_, event)) = client.event(until.saturating_duration_since(Instant::now()))? {
            let EventDoc::Book(event) = event else { continue };
            self.seen = Some(event.seq);
            if event.handle == self.handle && !self.heard(&event) {
                break;
            }
        }
        self.client = Some(client);
        Ok(())
    }

    /// Makes a lease longer that is soon over. Where that is refused it ends when it ends, and the transfer hears of it.
    fn renew(&self, client: &mut Client, doc: &ReservationDoc) -> Result<(), Error> {
        let end = doc.parts[self.part].steps.last().and_then(|step| step.end);
        let Some(end) = end.filter(|end| self.lease && end.0.since(self.clock.now()) < RENEW) else { return Ok(()) };
        let longer = Stamp(self.clock.now().saturating_add(terms::Span::from_secs(LEASE_S)));
        let change = ChangeDoc { end: Some(longer.max(end)), ..ChangeDoc::default() };
        match client.call(Request::BookModify { handle: self.handle.clone(), change }) {
            Ok(_) | Err(rpc::client::Error::Agent(_)) => Ok(()),
            Err(gone) => Err(gone.into()),
        }
    }

    /// Whether the event has said all that there is to know.
    fn heard(&self, event: &BookEvent) -> bool {
        match (event.event.as_str(), event.part, event.to) {
            ("share", Some(part), Some(to)) if part == self.part => {
                self.allowance.set(to as u64);
                true
            }
            ("in_force" | "bound" | "created" | "share", ..) => true,
            _ => false,
        }
    }
}

fn over_how(state: &str) -> &str {
    match state {
        "cancelled" => "been cancelled",
        other => other,
    }
}

/// The most that the part has at an instant by the calendar.
fn granted_at(part: &PartRow, now: terms::Time) -> u64 {
    let holds = |step: &&rpc::book::StepDoc| step.start.0 <= now && step.end.is_none_or(|end| now < end.0);
    part.steps.iter().find(holds).map_or(0, |step| step.amount as u64)
}

/// How long until the part has another amount by the calendar.
fn next_step(part: &PartRow, clock: &Clock) -> Duration {
    let now = clock.now().as_nanos();
    let edges = part.steps.iter().flat_map(|step| [Some(step.start), step.end]).flatten();
    let next = edges.map(|edge| edge.0.as_nanos()).filter(|edge| *edge > now).min();
    next.map_or(LOOK, |next| Duration::from_nanos(next - now))
}
