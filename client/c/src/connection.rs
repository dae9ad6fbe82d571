//! The calls of libsluice on the agent's socket, and their answers, in safe Rust.

use crate::given;
use documents::agent::{Answer, EventDoc, Request};
use documents::book::{
    AmountDoc, AskDoc, BindingDoc, BookAnswer, BookEvent, BookFilter, ChangeDoc, Instant, PartDoc, ReservationDoc,
};
use documents::boomerang::{BoomerangAsk, BoomerangNews, ClassifierDoc, MaskDoc, RatesDoc};
use rpc::client::{Client, Error};
use rpc::place::Endpoint;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// The longest silence of the far end before a Boomerang reservation fails.
const BOOMERANG_PATIENCE: Duration = Duration::from_secs(10);
/// The largest number of events of one kind that wait for the program.
const MAX_WAITING: usize = 4096;

/// The reason why a call failed.
#[derive(Debug)]
pub enum CallFailure {
    /// The agent, the policy or a node on the path refused the request.
    Refused(String),
    /// The arguments are invalid.
    Misuse(String),
    /// No agent answers, or something else failed.
    Away(String),
    /// No event came before the timeout.
    Nothing,
}

impl CallFailure {
    /// The reason, for people.
    pub fn words(&self) -> &str {
        match self {
            CallFailure::Refused(why) | CallFailure::Misuse(why) | CallFailure::Away(why) => why,
            CallFailure::Nothing => "nothing happened in time",
        }
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> CallFailure {
        match error {
            Error::Agent(problem) if problem.kind == "refused" => CallFailure::Refused(problem.message),
            Error::Agent(problem) if problem.kind == "misuse" || problem.kind == "malformed" => {
                CallFailure::Misuse(problem.message)
            }
            other => CallFailure::Away(other.to_string()),
        }
    }
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    /// The sequence number of the last event that was queued. An event with this number or a lower one is
    /// dropped.
    seen: u64,
    book: VecDeque<BookEvent>,
    boomerang: VecDeque<(u64, BoomerangNews)>,
}

impl Connection {
    /// Connects to the agent that listens on the socket `place`. Without one: to this host's own agent.
    pub fn open(place: Option<&str>) -> Result<Connection, CallFailure> {
        let place = place.unwrap_or(rpc::places::AGENT_SOCKET);
        if Endpoint::is_remote(place) {
            let what = format!("{place}: libsluice carries no TLS; ask the agent of this machine, or a broker");
            return Err(CallFailure::Misuse(what));
        }
        let client = Client::connect(Path::new(place))?;
        Ok(Connection { client, seen: 0, book: VecDeque::new(), boomerang: VecDeque::new() })
    }

    /// Reserves all parts of a request, or none of them.
    pub fn reserve(&mut self, ask: AskDoc) -> Result<ReservationDoc, CallFailure> {
        self.reservation(Request::BookCreate(ask))
    }

    /// Asks how much of the request's first part is free, in the unit of its resource.
    pub fn enquire(&mut self, ask: AskDoc) -> Result<f64, CallFailure> {
        match self.book(Request::BookEnquire(ask))? {
            BookAnswer::Enquired(said) => said.free.first().copied().ok_or_else(nonsense),
            _ => Err(nonsense()),
        }
    }

    /// Binds a part to a flow or process, or removes the binding if `binding` is `None`.
    pub fn bind(&mut self, handle: &str, part: usize, binding: Option<BindingDoc>) -> Result<(), CallFailure> {
        self.reservation(Request::BookBind { handle: handle.to_owned(), part, binding }).map(drop)
    }

    /// Changes the amount of a part, in the unit of its resource.
    pub fn modify(&mut self, handle: &str, part: usize, amount: f64) -> Result<(), CallFailure> {
        let now = self.show(handle)?;
        let row = now.parts.get(part).ok_or_else(|| CallFailure::Misuse(format!("there is no part {part}")))?;
        let mut doc = PartDoc { resource: row.resource.clone(), ..PartDoc::default() };
        given::set(&mut doc, amount)?;
        let PartDoc { rate, cores, bytes_per_s, count, .. } = doc;
        let change =
            ChangeDoc { amounts: vec![AmountDoc { part, rate, cores, bytes_per_s, count }], ..ChangeDoc::default() };
        self.reservation(Request::BookModify { handle: handle.to_owned(), change }).map(drop)
    }

    /// Moves the end of a reservation.
    pub fn extend(&mut self, handle: &str, end: Instant) -> Result<(), CallFailure> {
        let change = ChangeDoc { end: Some(end), ..ChangeDoc::default() };
        self.reservation(Request::BookModify { handle: handle.to_owned(), change }).map(drop)
    }

    /// Commits a reservation that is held.
    pub fn commit(&mut self, handle: &str) -> Result<ReservationDoc, CallFailure> {
        self.reservation(Request::BookCommit { handle: handle.to_owned(), decided: false })
    }

    /// Returns the reservation in its present state.
    pub fn show(&mut self, handle: &str) -> Result<ReservationDoc, CallFailure> {
        self.reservation(Request::BookShow { handle: Some(handle.to_owned()), filter: BookFilter::default() })
    }

    /// Cancels the reservation.
    pub fn cancel(&mut self, handle: &str) -> Result<(), CallFailure> {
        self.reservation(Request::BookCancel { handle: handle.to_owned() }).map(drop)
    }

    /// Subscribes to the events after number `after`. `u64::MAX`: only to new ones.
    pub fn follow(&mut self, after: u64) -> Result<(), CallFailure> {
        let mut after = Some(after).filter(|after| *after != u64::MAX);
        loop {
            let BookAnswer::Events(found) = self.book(Request::BookFollow { after })? else { return Err(nonsense()) };
            let whole = found.events.last().is_none_or(|last| last.seq >= found.last);
            after = found.events.last().map(|last| last.seq).or(after);
            for event in found.events {
                self.keep(event);
            }
            if whole {
                return Ok(());
            }
        }
    }

    /// Returns the next event of a booking, or waits for one.
    pub fn next_event(&mut self, patience: Duration) -> Result<BookEvent, CallFailure> {
        loop {
            if let Some(event) = self.book.pop_front() {
                return Ok(event);
            }
            self.wait(patience)?;
        }
    }

    /// Reserves with Boomerang and waits for the answer. Returns the session's number and the reserved rates,
    /// bit/s.
    pub fn boomerang(
        &mut self,
        far_end: IpAddr,
        (flow, mask): (ClassifierDoc, Option<MaskDoc>),
        forward_bps: u32,
        reverse_bps: u32,
    ) -> Result<(u64, [u32; 2]), CallFailure> {
        // What is not said here is as the agent has it.
        let rates = [RatesDoc { forward_bps, reverse_bps }];
        let ask = serde_json::json!({ "far_end": far_end, "flow": flow, "mask": mask, "rates": rates, "bound": true });
        let ask: BoomerangAsk = serde_json::from_value(ask).map_err(|error| CallFailure::Misuse(error.to_string()))?;
        let Answer::Boomerang(doc) = self.client.call(Request::BoomerangReserve { ask, number: None })? else {
            return Err(nonsense());
        };
        let number = doc.sessions.first().ok_or_else(nonsense)?.number;
        loop {
            while let Some((of, news)) = self.boomerang.pop_front() {
                if of != number {
                    continue;
                }
                return match news {
                    BoomerangNews::Reserved { rates, .. } => Ok((number, [rates.forward_bps, rates.reverse_bps])),
                    BoomerangNews::Refused { available: a, .. } => {
                        let free = format!("{} bit/s forward and {} reverse are free", a.forward_bps, a.reverse_bps);
                        Err(CallFailure::Refused(format!("a node on the way refused: {free}")))
                    }
                    BoomerangNews::Silent { .. } => Err(CallFailure::Away(format!("{far_end} does not answer"))),
                    BoomerangNews::NoRoute => Err(CallFailure::Away(format!("there is no way to {far_end}"))),
                    BoomerangNews::Released => Err(CallFailure::Away("it was given back".to_owned())),
                    BoomerangNews::HopMismatch { .. } => continue,
                };
            }
            match self.wait(BOOMERANG_PATIENCE) {
                Err(CallFailure::Nothing) => {
                    let _ = self.release(number);
                    return Err(CallFailure::Away(format!("{far_end} does not answer")));
                }
                other => other?,
            }
        }
    }

    /// Releases a Boomerang session.
    pub fn release(&mut self, number: u64) -> Result<(), CallFailure> {
        Ok(self.client.call(Request::BoomerangRelease { number }).map(drop)?)
    }

    /// Waits for the next event of any kind, and puts it into the queue for its kind.
    fn wait(&mut self, patience: Duration) -> Result<(), CallFailure> {
        match self.client.event(patience)? {
            None => Err(CallFailure::Nothing),
            Some((_, EventDoc::Book(event))) => {
                self.keep(event);
                Ok(())
            }
            Some((_, EventDoc::Boomerang { number, news })) => {
                if self.boomerang.len() < MAX_WAITING {
                    self.boomerang.push_back((number, news));
                }
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    fn keep(&mut self, event: BookEvent) {
        if event.seq > self.seen && self.book.len() < MAX_WAITING {
            self.seen = event.seq;
            self.book.push_back(event);
        }
    }

    fn reservation(&mut self, request: Request) -> Result<ReservationDoc, CallFailure> {
        match self.book(request)? {
            BookAnswer::Reservation(doc) => Ok(doc),
            _ => Err(nonsense()),
        }
    }

    fn book(&mut self, request: Request) -> Result<BookAnswer, CallFailure> {
        match self.client.call(request)? {
            Answer::Book(answer) => Ok(answer),
            _ => Err(nonsense()),
        }
    }
}

fn nonsense() -> CallFailure {
    CallFailure::Away("the agent says what makes no sense".to_owned())
}
