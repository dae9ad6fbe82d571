//! The partner of the booking commands: an agent, or a broker over several. Requests and output are the same.

use super::kept::{EventView, ListedReservation};
use super::show;
use super::times::Calendar;
use crate::complain::Complaint;
use crate::places::BookArgs;
use broker_service::client as broker;
use documents::agent::{Answer, BookAnswer, CallerDoc, MayDoc, Problem, Request, SignalDoc};
use documents::book::{AskDoc, BindingDoc, BookFilter, ChangeDoc, EnquiredDoc, ResourceRow, StepDoc, WindowDoc};
use documents::rest::{BindWish, Change, Enquiry, PathWish, Ports, WebhookWish, Wish};
use rpc::client::{self, Client};
use serde::Serialize;

/// A request for single resources, for network between two hosts, or for both.
#[derive(Clone, Debug, Default)]
pub struct BookingOrder {
    /// The request to an agent.
    pub ask: AskDoc,
    /// The request between two hosts, for a broker.
    pub path: Option<PathWish>,
}

impl BookingOrder {
    /// The resources that it names.
    pub fn resources(&self) -> Vec<String> {
        self.ask.parts.iter().map(|part| part.resource.clone()).collect()
    }

    fn wish(self) -> Wish {
        let AskDoc { parts, when, label, hold_s, notify_s, .. } = self.ask;
        Wish { path: self.path, parts, when, label, hold_s, notify_s }
    }
}

/// A change of a reservation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Changed {
    /// The change at an agent.
    pub doc: ChangeDoc,
    /// The new rates between two hosts: forward, reverse.
    pub rates: (Option<u64>, Option<u64>),
}

/// The reason why there is no answer.
#[derive(Debug)]
pub enum BookingError {
    /// The request was refused.
    Said(Problem),
    /// Any other failure.
    World(Complaint),
}

impl From<client::Error> for BookingError {
    fn from(error: client::Error) -> BookingError {
        match error {
            client::Error::Agent(problem) => BookingError::Said(problem),
            other => BookingError::World(other.into()),
        }
    }
}

impl From<broker::Error> for BookingError {
    fn from(error: broker::Error) -> BookingError {
        let problem = match error {
            broker::Error::Said(problem) => *problem,
            other => return BookingError::World(Complaint::world(other.to_string())),
        };
        let kind = match problem.kind.rsplit('/').next().unwrap_or_default() {
            "meaningless" | "malformed" | "too_large" => "misuse",
            "unavailable" | "certificate" | "too_slow" => "fault",
            _ => "refused",
        };
        let refusal = problem.refusal.map(|mut refusal| {
            refusal.message.clone_from(&problem.detail); // which names the agent
            refusal
        });
        BookingError::Said(Problem { kind: kind.to_owned(), message: problem.detail, refusal })
    }
}

impl BookingError {
    /// The same, which says of what, where several are named.
    pub fn about(mut self, handle: &str) -> BookingError {
        if let BookingError::Said(problem) = &mut self
            && problem.message == "no such reservation"
        {
            problem.message = format!("no such reservation: {handle}");
        }
        self
    }

    /// The failure as the person at the terminal sees it.
    pub fn complaint(self, resources: &[String], calendar: &Calendar, json: bool) -> Complaint {
        match self {
            BookingError::Said(problem) => show::complaint(problem, resources, calendar, json),
            BookingError::World(complaint) => complaint,
        }
    }
}

/// The answer to an enquiry.
#[derive(Debug)]
pub enum EnquiryReply {
    /// The answer of an agent.
    Agent(EnquiredDoc),
    /// The answer of a broker.
    Broker(Enquiry),
}

/// A broker's answer that also has an agent's field names, so that a program need not know which of them it
/// asked.
#[derive(Debug, Serialize)]
pub struct NamedReply<'a> {
    granted: Vec<&'a [StepDoc]>,
    free: Vec<f64>,
    kinds: Vec<&'a str>,
    #[serde(flatten)]
    rest: &'a Enquiry,
}

impl NamedReply<'_> {
    /// The answer for all parts.
    pub fn all(doc: &Enquiry) -> NamedReply<'_> {
        NamedReply {
            granted: doc.parts.iter().map(|part| part.granted.as_slice()).collect(),
            free: doc.parts.iter().map(|part| part.free).collect(),
            kinds: doc.parts.iter().map(|part| part.kind.as_str()).collect(),
            rest: doc,
        }
    }
}

/// An answer, or the reason why there is none.
pub type Told<T> = Result<T, BookingError>;

/// The agent or broker that is asked.
#[derive(Debug)]
pub enum BookingClient {
    /// An agent.
    Agent(Client),
    /// A broker.
    Broker(broker::BrokerClient),
}

fn nonsense<T>(other: &impl std::fmt::Debug) -> Told<T> {
    Err(BookingError::World(Complaint::world(format!("the agent answered {other:?}"))))
}

fn misuse<T>(what: &str) -> Told<T> {
    Err(BookingError::World(Complaint::usage(what)))
}

/// One call of an agent whose answer is a reservation.
fn call(client: &mut Client, request: Request) -> Told<ListedReservation> {
    match client.call(request)? {
        Answer::Book(BookAnswer::Reservation(doc)) => Ok(ListedReservation::Agent(Box::new(doc))),
        other => nonsense(&other),
    }
}

impl BookingClient {
    /// Connects to the one that the arguments name; `path`: the request is between two hosts.
    pub fn open(args: &BookArgs, path: bool) -> Result<BookingClient, Complaint> {
        match args.broker(path)? {
            Some(client) => Ok(BookingClient::Broker(client)),
            None if path => Err(Complaint::usage(
                "an agent knows its own interfaces only: what is between two hosts is asked of a broker (--broker)",
            )),
            None => Ok(BookingClient::Agent(args.connect()?)),
        }
    }

    /// Reserves.
    pub fn create(&mut self, asked: BookingOrder) -> Told<ListedReservation> {
        match self {
            BookingClient::Agent(client) => call(client, Request::BookCreate(asked.ask)),
            BookingClient::Broker(_) if !asked.ask.group.is_empty() => {
                misuse("--group is for agents: a broker makes its own")
            }
            BookingClient::Broker(client) => {
                let key = asked.ask.key.clone();
                Ok(ListedReservation::Broker(Box::new(client.create(&asked.wish(), &key)?)))
            }
        }
    }

    /// Has a broker send mail when this reservation ends soon.
    pub fn mail(&self, handle: &str, address: &str) -> Result<(), String> {
        let BookingClient::Broker(client) = self else { return Err("agents send no mail".to_owned()) };
        let wish = WebhookWish {
            url: format!("mailto:{address}"),
            events: vec!["ends_soon".to_owned()],
            reservation: Some(handle.to_owned()),
            secret: None,
        };
        client.add_webhook(&wish).map(drop).map_err(|error| error.to_string())
    }

    /// Asks for the amount and time that would be granted.
    pub fn enquire(&mut self, asked: BookingOrder) -> Told<EnquiryReply> {
        match self {
            BookingClient::Agent(client) => match client.call(Request::BookEnquire(asked.ask))? {
                Answer::Book(BookAnswer::Enquired(doc)) => Ok(EnquiryReply::Agent(doc)),
                other => nonsense(&other),
            },
            BookingClient::Broker(client) => Ok(EnquiryReply::Broker(client.enquire(&asked.wish())?)),
        }
    }

    /// Asks for the decision of policy; `who`: about another caller, of these groups.
    pub fn may(&mut self, who: Option<(&str, &[String])>, ask: AskDoc) -> Told<MayDoc> {
        match self {
            BookingClient::Agent(client) => would(client, who, ask, None),
            // A resource is asked about where it is; each may be another agent's.
            BookingClient::Broker(client) => {
                let mut all: Option<MayDoc> = None;
                for part in &ask.parts {
                    let said = client.may(who, &AskDoc { parts: vec![part.clone()], ..ask.clone() })?;
                    match &mut all {
                        Some(all) => all.parts.extend(said.parts),
                        None => all = Some(said),
                    }
                }
                all.map_or_else(|| misuse("name a resource"), Ok)
            }
        }
    }

    /// The same for a signalled request; `agent`: the agent of a broker at which it is signalled.
    pub fn may_signal(
        &mut self,
        who: Option<(&str, &[String])>,
        agent: Option<&str>,
        signal: SignalDoc,
    ) -> Told<MayDoc> {
        match self {
            BookingClient::Agent(client) => would(client, who, AskDoc::default(), Some(signal)),
            BookingClient::Broker(client) => Ok(client.may_signal(who, agent, &signal)?),
        }
    }

    /// One reservation.
    pub fn show(&mut self, handle: &str) -> Told<ListedReservation> {
        match self {
            BookingClient::Agent(client) => {
                let request = Request::BookShow { handle: Some(handle.to_owned()), filter: BookFilter::default() };
                call(client, request)
            }
            BookingClient::Broker(client) => Ok(ListedReservation::Broker(Box::new(client.show(handle)?))),
        }
    }

    /// Changes a reservation.
    pub fn modify(&mut self, handle: &str, changed: Changed) -> Told<ListedReservation> {
        let (forward, reverse) = changed.rates;
        match self {
            BookingClient::Agent(_) if changed.rates != (None, None) => {
                misuse("--forward and --reverse are of what is between two hosts: an agent's is changed with --amount")
            }
            BookingClient::Agent(client) => {
                call(client, Request::BookModify { handle: handle.to_owned(), change: changed.doc })
            }
            BookingClient::Broker(client) => {
                let change = Change { forward, reverse, rest: changed.doc };
                Ok(ListedReservation::Broker(Box::new(client.modify(handle, &change)?)))
            }
        }
    }

    /// Binds a part; between two hosts, all parts unless one is named.
    pub fn bind(&mut self, handle: &str, part: Option<usize>, binding: Option<BindingDoc>) -> Told<ListedReservation> {
        let client = match self {
            BookingClient::Agent(client) => {
                let (handle, part) = (handle.to_owned(), part.unwrap_or(0));
                return call(client, Request::BookBind { handle, part, binding });
            }
            BookingClient::Broker(client) => client,
        };
        let found = client.show(handle)?;
        let one = |part, binding| BindWish { part: Some(part), binding, flow: None };
        let (ends, flow) = match (part, found.path, &binding) {
            (None, Some(ends), Some(BindingDoc::Flow(flow))) => (ends, *flow),
            (None, Some(_), None) => {
                let mut last = found.clone();
                for (number, _) in found.parts.iter().enumerate().filter(|(_, part)| part.way.is_some()) {
                    last = client.bind(handle, &one(number, None))?;
                }
                return Ok(ListedReservation::Broker(Box::new(last)));
            }
            _ => {
                return Ok(ListedReservation::Broker(Box::new(client.bind(handle, &one(part.unwrap_or(0), binding))?)));
            }
        };
        let other = |said: Option<std::net::IpAddr>, there| said.is_some_and(|said| said != there);
        if other(flow.src, ends.from) || other(flow.dst, ends.to) {
            return misuse(&format!(
                "this reservation is between {} and {}: other packets do not pass there",
                ends.from, ends.to
            ));
        }
        let ports = Ports { protocol: flow.protocol, from_port: flow.src_port, to_port: flow.dst_port };
        let wish = BindWish { flow: Some(ports), part: None, binding: None };
        Ok(ListedReservation::Broker(Box::new(client.bind(handle, &wish)?)))
    }

    /// Books a held reservation.
    pub fn commit(&mut self, handle: &str) -> Told<ListedReservation> {
        match self {
            BookingClient::Agent(client) => {
                call(client, Request::BookCommit { handle: handle.to_owned(), decided: false })
            }
            BookingClient::Broker(client) => Ok(ListedReservation::Broker(Box::new(client.commit(handle)?))),
        }
    }

    /// Cancels a reservation.
    pub fn cancel(&mut self, handle: &str) -> Told<ListedReservation> {
        match self {
            BookingClient::Agent(client) => call(client, Request::BookCancel { handle: handle.to_owned() }),
            BookingClient::Broker(client) => Ok(ListedReservation::Broker(Box::new(client.cancel(handle)?))),
        }
    }

    /// Decides the promised change of a reservation of an agent.
    pub fn resolve(&mut self, handle: &str, commit: bool) -> Told<ListedReservation> {
        match self {
            BookingClient::Agent(client) => call(client, Request::BookResolve { handle: handle.to_owned(), commit }),
            BookingClient::Broker(_) => misuse("a promise is resolved at its agent"),
        }
    }

    /// All reservations that match; agents that do not answer are reported on standard error.
    pub fn list(&mut self, filter: BookFilter) -> Told<Vec<ListedReservation>> {
        match self {
            BookingClient::Agent(client) => {
                let rows = super::matching(client, filter).map_err(BookingError::World)?;
                Ok(rows.into_iter().map(|doc| ListedReservation::Agent(Box::new(doc))).collect())
            }
            BookingClient::Broker(_) if filter.group.is_some() => {
                misuse("--group is for agents: a broker makes its own")
            }
            BookingClient::Broker(client) => {
                let (mut filter, mut all) = (filter, Vec::new());
                loop {
                    let found = client.list(&filter)?;
                    missing(&found.away);
                    all.extend(found.reservations.into_iter().map(|one| ListedReservation::Broker(Box::new(one))));
                    match found.next {
                        Some(next) if filter.after.as_ref() != Some(&next) => filter.after = Some(next),
                        _ => return Ok(all),
                    }
                }
            }
        }
    }

    /// The events of a reservation.
    pub fn history(&mut self, handle: &str) -> Told<Vec<EventView>> {
        match self {
            BookingClient::Agent(client) => {
                let (mut all, mut after) = (Vec::new(), 0);
                loop {
                    let found = match client.call(Request::BookHistory { handle: handle.to_owned(), after })? {
                        Answer::Book(BookAnswer::Events(found)) => found,
                        other => return nonsense(&other),
                    };
                    let more = found.events.len() >= documents::show::PAGE;
                    after = found.events.last().map_or(after, |event| event.seq);
                    all.extend(found.events.into_iter().map(|one| EventView::Agent(Box::new(one))));
                    if !more {
                        return Ok(all);
                    }
                }
            }
            BookingClient::Broker(client) => {
                Ok(client.history(handle)?.events.into_iter().map(|one| EventView::Broker(Box::new(one))).collect())
            }
        }
    }

    /// The resources, with their free amounts over this window.
    pub fn resources(&mut self, window: WindowDoc) -> Told<Vec<ResourceRow>> {
        match self {
            BookingClient::Agent(client) => match client.call(Request::resources(Some(window)))? {
                Answer::Book(BookAnswer::Resources(rows)) => Ok(rows),
                other => nonsense(&other),
            },
            BookingClient::Broker(client) => {
                let found = client.resources(Some(window))?;
                missing(&found.away);
                Ok(found.resources)
            }
        }
    }
}

fn missing(away: &[String]) {
    if !away.is_empty() {
        eprintln!("sluice: these agents do not answer, and what they keep is missing here: {}", away.join(", "));
    }
}

/// The decision of an agent's policy.
fn would(client: &mut Client, who: Option<(&str, &[String])>, ask: AskDoc, signal: Option<SignalDoc>) -> Told<MayDoc> {
    let doc = |(name, groups): (&str, &[String])| CallerDoc {
        name: name.to_owned(),
        groups: groups.to_vec(),
        role: "owner".to_owned(),
        token: None,
    };
    match client.call(Request::May { who: who.map(doc), ask, signal })? {
        Answer::May(doc) => Ok(doc),
        other => nonsense(&other),
    }
}
