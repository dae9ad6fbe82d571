//! The reservation of a transfer. It is made before the connection, bound once the ports are known, followed
//! during the transfer and cancelled at its end.
//!
//! The agent's callbacks come as events on a connection of their own. A `share` event carries the new rate.
//! After every other event, at the steps of a granted volume and once a second, the listener reads the whole
//! reservation. If the agent goes away, the kernel keeps its last limits, so the sender keeps its rate until
//! the agent is back.

use crate::allowance::{Allowance, Allowed};
use crate::error::Error;
use crate::pace;
use documents::agent::{Answer, EventDoc, Problem, Request};
use documents::book::{
    AlternativeDoc, AskDoc, BackgroundDoc, BindingDoc, BookAnswer, BookEvent, BookFilter, ChangeDoc, FlowDoc,
    Instant as Stamp, PartDoc, PartRow, ReservationDoc, VolumeDoc,
};
use linux::clock::Clock;
use rpc::client::Client;
use rpc::place::Endpoint;
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The length of a reservation without a limit, seconds. The listener extends it when at most `RENEW` is
/// left, so the reservation of a sender that was killed ends by itself.
const LEASE_S: u64 = 300;
const RENEW: terms::Span = terms::Span::from_secs(200);
/// The IP protocol number of TCP.
const TCP: u8 = 6;
/// The longest interval between two looks at the reservation.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two attempts to reach an agent that went away.
const AWAY: Duration = Duration::from_millis(500);
/// The longest wait for an agent that went away, in calls that need its answer.
const BACK: Duration = Duration::from_secs(20);
/// The longest time until a binding is in force.
const BINDING: Duration = Duration::from_secs(10);

/// The terms of the reservation.
#[derive(Clone, PartialEq, Debug)]
pub enum Terms {
    /// A share of the capacity that foreground flows leave.
    Background {
        /// The weight against other background flows.
        weight: u32,
        /// The smallest useful rate, bit/s. Below it the transfer is suspended.
        floor: u64,
        /// The largest useful rate, bit/s; `None`: the capacity of the resource.
        most: Option<u64>,
    },
    /// A guaranteed rate, bit/s, or at least a lower one.
    Rate {
        /// The rate that is asked for, bit/s.
        rate: u64,
        /// The lowest rate that is accepted, bit/s.
        least: Option<u64>,
    },
    /// The volume of the whole file before a deadline.
    By {
        /// The deadline.
        deadline: Stamp,
        /// The largest useful rate, bit/s; `None`: no limit.
        most: Option<u64>,
    },
    /// A reservation that exists already.
    Existing {
        /// Its handle.
        handle: String,
    },
}

/// A request for a transfer.
#[derive(Clone, PartialEq, Debug)]
pub struct TransferRequest {
    /// The agent's resource `net/IFACE` on the file's path; `None`: its only one, or the one of the route.
    pub resource: Option<String>,
    /// The terms of the reservation.
    pub terms: Terms,
    /// The duration, seconds; `None`: as long as the transfer. Unused with a deadline.
    pub lasts: Option<f64>,
    /// The longest round trip, milliseconds; `None`: the agent's default.
    pub rtt_ms: Option<f64>,
    /// The owner's label. An interrupted transfer finds its reservation by it.
    pub label: String,
}

/// The reservation of one transfer.
#[derive(Debug)]
pub struct Booking {
    place: Endpoint,
    client: Client,
    handle: String,
    part: usize,
    /// The number of the last event that was seen.
    seen: Option<u64>,
    /// True if the listener extends the reservation during the transfer.
    lease: bool,
}

impl Booking {
    /// Makes a reservation, or finds the one that an earlier attempt of the same transfer made.
    ///
    /// # Errors
    /// [`Error::Refused`] with the agent's reason and the possible alternatives; the agent does not answer.
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

    /// Returns the reservation's handle.
    pub fn handle(&self) -> &str {
        &self.handle
    }

    /// Binds the reservation to the packets of this connection, and waits until the binding is in force.
    ///
    /// # Errors
    /// The agent refuses the binding, or it does not come into force in time.
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

    /// Starts a thread that keeps `allowance` up to date until the reservation or the transfer ends.
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

    /// Cancels the reservation. One that is over already is no error.
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

    /// Makes a call that is safe to repeat. Waits for an agent that went away.
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
            ask.when.volume = Some(VolumeDoc { bytes: pace::volume(bytes, to, left), deadline: *deadline });
        }
        Terms::Existing { .. } => {}
    }
    if !matches!(wish.terms, Terms::By { .. }) {
        ask.when.duration_s = Some(wish.lasts.unwrap_or(LEASE_S as f64));
    }
    ask.parts = vec![part];
    match client.call(Request::BookCreate(ask)) {
        Err(rpc::client::Error::Agent(problem)) => Err(refused(problem)),
        answer => reservation(answer?),
    }
}

/// Builds the error from the agent's message and the possible alternatives.
fn refused(problem: Problem) -> Error {
    let Some(refusal) = problem.refusal else { return rpc::client::Error::Agent(problem).into() };
    let told: Vec<String> = refusal.alternatives.iter().filter_map(possible).collect();
    match told.is_empty() {
        true => Error::Refused(problem.message),
        false => Error::Refused(format!("{}; possible: {}", problem.message, told.join("; "))),
    }
}

/// Describes an alternative in a few words: amount, start and end.
fn possible(alternative: &AlternativeDoc) -> Option<String> {
    let steps = alternative.parts.first()?;
    let (first, last) = (steps.first()?, steps.last()?);
    let most = steps.iter().map(|step| step.amount).fold(0.0, f64::max);
    let end = last.end.map_or("open".into(), |end| format!("until {}", to_the_second(end)));
    let rate = terms::Rate::from_bps(most as u64);
    Some(format!("{} ({rate} from {} {end})", alternative.sort, first.start))
}

/// Rounds an instant up to a full second.
fn to_the_second(at: Stamp) -> Stamp {
    const SECOND: u64 = 1_000_000_000;
    Stamp(terms::Time::from_nanos(at.0.as_nanos().div_ceil(SECOND).saturating_mul(SECOND)))
}

/// Finds a reservation with this label that is not over.
fn unfinished(client: &mut Client, label: &str) -> Result<Option<ReservationDoc>, Error> {
    let filter = BookFilter { label: Some(label.to_owned()), limit: Some(1), ..BookFilter::default() };
    match client.call(Request::BookShow { handle: None, filter })? {
        Answer::Book(BookAnswer::Reservations { rows, .. }) => Ok(rows.into_iter().find(|row| !is_over(&row.state))),
        other => Err(unexpected(&other)),
    }
}

/// Finds the network on the file's path: the agent's only one, or the one of this host's route to the
/// receiver.
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

/// Finds the agent's resource with this host's source address. `None` if the agent runs on another host.
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

/// Subscribes to events after number `after`, and returns the number of the last one.
fn follow(client: &mut Client, after: Option<u64>) -> Result<Option<u64>, Error> {
    match client.call(Request::BookFollow { after })? {
        Answer::Book(BookAnswer::Events(events)) => Ok(Some(events.last)),
        _ => Ok(after),
    }
}

fn is_over(state: &str) -> bool {
    matches!(state, "ended" | "cancelled" | "expired")
}

/// The thread that follows one reservation.
struct Listener {
    place: Endpoint,
    client: Option<Client>,
    handle: String,
    part: usize,
    seen: Option<u64>,
    /// The part in its last known state.
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

    /// Without the agent the rate cannot rise. The rate falls and ends as the granted steps of the calendar
    /// say.
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

    /// Extends a lease that ends soon. If the agent refuses, the lease ends at its time, and the transfer
    /// learns of it.
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

    /// Handles an event. Returns false if the whole reservation must be read again.
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

/// Returns the rate that the calendar grants the part at an instant, bit/s.
fn granted_at(part: &PartRow, now: terms::Time) -> u64 {
    let holds = |step: &&documents::book::StepDoc| step.start.0 <= now && step.end.is_none_or(|end| now < end.0);
    part.steps.iter().find(holds).map_or(0, |step| step.amount as u64)
}

/// Returns the time until the part's amount in the calendar changes next.
fn next_step(part: &PartRow, clock: &Clock) -> Duration {
    let now = clock.now().as_nanos();
    let edges = part.steps.iter().flat_map(|step| [Some(step.start), step.end]).flatten();
    let next = edges.map(|edge| edge.0.as_nanos()).filter(|edge| *edge > now).min();
    next.map_or(LOOK, |next| Duration::from_nanos(next - now))
}
