//! Clients of the agents, over their local sockets, or over mutual TLS for those on other machines: one
//! conversation a request.
//!
//! A conversation speaks for one caller from its first line on, so that no answer can reach another. The
//! number of conversations is bounded per agent, and per caller at an agent; so is the time of an answer. The
//! connection of a past conversation is kept for the next ([`crate::kept`]), if no answer is pending.

use crate::config::{AgentAt, At};
use crate::conversation_limits::{Room, Rooms};
use crate::hub::{Hub, Live};
use crate::kept::{ConnectionPool, Kept, KeptConnection};
use crate::problem::{Answer, Problem};
use crate::wire::{AgentConnection, Outward};
use documents::agent::{Answer as Ok_, Call, EventDoc, MAX_LINE, Problem as Said, ReplyLine, Request};
use documents::book::pages::Pages;
use documents::book::{BookAnswer, BookEvent};
use documents::links::CallerDoc;
use rpc::client::MAX_ANSWER;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::sync::broadcast;
use tokio::time::timeout;
use trust::Identity;

/// The most conversations with one agent at once; an agent takes 256 on its own machine, and 96 of one other.
const CONVERSATIONS: usize = 128;
const CONVERSATIONS_AFAR: usize = 80;
/// The divisor for one caller's share of the conversations: a quarter.
const SHARE: usize = 4;
/// The longest time of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The name that stands for the broker's own conversations; no caller has an empty name.
const OWN_ROOM: &str = "";
/// The broker's name in the audits of agents of its own domain.
const OWN_NAME: &str = "broker";
/// The most events that wait in a conversation until they are read.
const MAX_WAITING: usize = 4096;

/// The caller in the broker's own name, for work without a request. No requester has an empty name. The name
/// that an agent gets depends on its domain: [`AgentClient::speak`].
pub fn own_voice() -> CallerDoc {
    CallerDoc { name: String::new(), groups: Vec::new(), role: "operator".to_owned(), token: None }
}

/// The result of a call that may have been carried out although no answer came.
#[derive(Debug)]
pub enum Exchange {
    /// The agent's answer.
    Answered(Box<BookAnswer>),
    /// The agent's refusal: nothing has changed there.
    Refused(Said),
    /// The call was not made.
    NotAsked(Box<Problem>),
    /// The call was made, and no answer came.
    Lost(Box<Problem>),
}

/// The reason why a call has no answer.
enum CallFailure {
    /// The agent refused.
    Said(Said),
    /// The line is longer than an agent takes: it was not sent.
    TooLong(Box<Problem>),
    /// No answer came, or none that makes sense.
    Lost(Box<Problem>),
}

/// An agent.
#[derive(Clone, Debug)]
pub struct AgentClient {
    /// Its name in documents.
    pub name: Arc<str>,
    way: Arc<AgentConnection>,
    room: Arc<Rooms>,
    kept: Arc<ConnectionPool>,
    /// `None`: a partner's agent, which does not report others' events to us.
    hub: Option<Arc<Hub>>,
    /// Our identity at an agent on another machine.
    own: Option<Arc<Identity>>,
    /// Domain and name of the agent's certificate, once there was a connection.
    seen: Arc<OnceLock<(Option<String>, String)>>,
}

/// A connection that speaks for one caller.
#[derive(Debug)]
pub struct Conversation {
    agent: AgentClient,
    talk: KeptConnection,
    events: VecDeque<BookEvent>,
    /// `None` for the broker's own follower.
    room: Option<Room>,
}

impl AgentClient {
    /// A client of a configured agent. `outward` is the identity that the broker shows to agents on other machines.
    pub fn new(at: AgentAt, outward: Option<Outward>) -> AgentClient {
        let here = matches!(at.at, At::Socket(_));
        let gate = outward.as_ref().map(|outward| outward.gate.clone());
        let kept = if here { Kept::Here } else { gate.map_or(Kept::Never, Kept::Afar) };
        let kept = Arc::new(ConnectionPool::new(kept));
        let partner = matches!(at.at, At::Tls { domain: Some(_), .. });
        let own = outward.as_ref().filter(|_| !here).and_then(|outward| outward.gate.own().cloned()).map(Arc::new);
        let way = Arc::new(AgentConnection::new(at.at, outward));
        let most = if here { CONVERSATIONS } else { CONVERSATIONS_AFAR };
        let room = Arc::new(Rooms::new(most, most / SHARE));
        AgentClient {
            name: at.name.as_str().into(),
            way,
            room,
            kept,
            hub: (!partner).then(Arc::default),
            own,
            seen: Arc::default(),
        }
    }

    /// A receiver of the agent's events from now on, shared with all listeners. `None`: it reports no others'
    /// events.
    pub fn listen(&self) -> Option<broadcast::Receiver<Live>> {
        self.hub.as_ref().map(|hub| hub.listen(self))
    }

    /// The agent's name for a caller for whom we speak.
    pub fn known_as(&self, name: &str) -> String {
        self.own.as_ref().map_or_else(|| name.to_owned(), |own| own.vouches_for(name))
    }

    /// Begins a conversation that belongs to no request: it takes no request's place.
    ///
    /// # Errors
    /// 503: no agent answers there.
    pub async fn speak_apart(&self, caller: &CallerDoc) -> Answer<Conversation> {
        let talk = self.way.connect().await.map_err(|error| self.away(&error))?;
        let mut conversation = self.conversation(talk, None);
        conversation.call(Request::SpeakFor { who: self.who(caller) }).await?;
        Ok(conversation)
    }

    /// Begins to speak for a caller, or in the broker's own name.
    ///
    /// # Errors
    /// 503: no agent answers there; 429: too many speak to it already.
    pub async fn speak(&self, caller: &CallerDoc) -> Answer<Conversation> {
        self.begin(&caller.name, self.who(caller).as_ref()).await
    }

    /// The caller that we declare to the agent. In our own name that is an operator at agents of our own
    /// domain. A partner's agent accepts no operator from us, but lets a broker as itself see and finish what
    /// people of its domain have over several agents. So our operators do that there through us.
    fn who(&self, caller: &CallerDoc) -> Option<CallerDoc> {
        let own = *caller == own_voice();
        // An operator of another domain is none of ours: a partner's agent decides about that one by itself.
        let operator = caller.role == "operator" && terms::book::foreign(&caller.name).is_none();
        match (own, self.is_partners()) {
            (_, true) if own || operator => None,
            (true, _) => Some(CallerDoc { name: OWN_NAME.to_owned(), ..own_voice() }),
            (false, _) => Some(caller.clone()),
        }
    }

    /// True if a partner's authority signed for it.
    fn is_partners(&self) -> bool {
        self.hub.is_none()
    }

    /// Begins to speak as the broker itself, with the rights of brokers: also where the agent is a partner's,
    /// which lets us speak for requesters only.
    ///
    /// # Errors
    /// As [`AgentClient::speak`].
    pub async fn speak_as_itself(&self) -> Answer<Conversation> {
        self.begin(OWN_ROOM, None).await
    }

    async fn begin(&self, room: &str, who: Option<&CallerDoc>) -> Answer<Conversation> {
        let Ok(Some(room)) = timeout(PATIENCE, self.room.enter(room)).await else {
            return Err(Problem::limit(format!("{}: too many requests at once", self.name)));
        };
        let mut room = Some(room);
        let who = || Request::SpeakFor { who: who.cloned() };
        // The agent may have gone, or trust us no more. No call was made yet, so a new connection shows it.
        while let Some(talk) = self.kept.take() {
            let mut conversation = self.conversation(talk, room);
            if conversation.call(who()).await.is_ok() {
                return Ok(conversation);
            }
            room = conversation.room;
        }
        let talk = self.way.connect().await.map_err(|error| self.away(&error))?;
        let mut conversation = self.conversation(talk, room);
        conversation.call(who()).await?;
        Ok(conversation)
    }

    /// True if this is the certificate that the agent showed us. One on this machine shows us none: its certificate
    /// has the agent's name.
    pub fn is(&self, identity: &Identity) -> bool {
        match self.seen.get() {
            Some((domain, name)) => *domain == identity.domain && *name == identity.name,
            None => self.own.is_none() && identity.domain.is_none() && *identity.name == *self.name,
        }
    }

    /// True if the agent's certificate is known, or it has none: it is on this machine.
    pub fn is_known(&self) -> bool {
        self.own.is_none() || self.seen.get().is_some()
    }

    fn conversation(&self, talk: KeptConnection, room: Option<Room>) -> Conversation {
        if let Some(identity) = talk.identity() {
            self.seen.get_or_init(|| (identity.domain.clone(), identity.name.clone()));
        }
        Conversation { agent: self.clone(), talk, events: VecDeque::new(), room }
    }

    /// Makes one call about bookings.
    ///
    /// # Errors
    /// The agent's error, or that it is away.
    pub async fn ask(&self, caller: &CallerDoc, request: Request) -> Answer<BookAnswer> {
        let mut conversation = self.speak(caller).await?;
        let answer = conversation.book(request).await;
        conversation.end();
        answer
    }

    /// Makes one call about bookings, for a caller or (`None`) as the broker itself, and tells apart whether it
    /// was made.
    pub async fn exchange(&self, caller: Option<&CallerDoc>, request: Request) -> Exchange {
        let conversation = match caller {
            Some(caller) => self.speak(caller).await,
            None => self.speak_as_itself().await,
        };
        let mut conversation = match conversation {
            Ok(conversation) => conversation,
            Err(problem) => return Exchange::NotAsked(problem),
        };
        let mut pages = Pages::of(&request);
        let result = match conversation.attempt(request).await {
            Ok(Ok_::Book(mut answer)) => {
                // What was asked is done: a page that does not come is missing from what people see, no more.
                while let Some(next) = pages.as_mut().and_then(|pages| pages.next(&answer)) {
                    let Ok(page) = conversation.page(next).await else { return Exchange::Answered(Box::new(answer)) };
                    pages.as_mut().into_iter().for_each(|pages| pages.add(&mut answer, page.clone()));
                }
                Exchange::Answered(Box::new(answer))
            }
            Ok(_) => return Exchange::Lost(conversation.nonsense("no answer of the book")),
            Err(CallFailure::Said(refusal)) => Exchange::Refused(refusal),
            Err(CallFailure::TooLong(problem)) => Exchange::NotAsked(problem),
            Err(CallFailure::Lost(problem)) => return Exchange::Lost(problem),
        };
        conversation.end();
        result
    }

    /// The problem that the agent cannot be reached.
    fn away(&self, error: &io::Error) -> Box<Problem> {
        Problem::unavailable(format!("the agent {} does not answer ({error})", self.name))
    }
}

impl Conversation {
    /// Calls, and waits for the answer.
    ///
    /// # Errors
    /// The agent's error, or that it is away.
    pub async fn call(&mut self, request: Request) -> Answer<Ok_> {
        self.attempt(request).await.map_err(|failure| match failure {
            CallFailure::Said(refusal) => Problem::said(&self.agent.name, refusal),
            CallFailure::TooLong(problem) | CallFailure::Lost(problem) => problem,
        })
    }

    async fn attempt(&mut self, request: Request) -> Result<Ok_, CallFailure> {
        let id = self.talk.next_id;
        self.talk.next_id += 1;
        // Events come at any time from then on.
        self.talk.follows |= matches!(request, Request::BookFollow { .. });
        let line = serde_json::to_vec(&Call { id, request });
        let mut line = line.map_err(|error| CallFailure::TooLong(Problem::misuse(error.to_string())))?;
        line.push(b'\n');
        if line.len() > MAX_LINE {
            return Err(CallFailure::TooLong(Problem::limit("the request is longer than an agent takes")));
        }
        self.talk.pending = true;
        let answer = timeout(PATIENCE, async {
            let written = self.talk.writer.write_all(&line).await;
            written.map_err(|error| CallFailure::Lost(self.agent.away(&error)))?;
            self.answer(id).await
        });
        answer.await.unwrap_or_else(|_| Err(CallFailure::Lost(self.agent.away(&io::ErrorKind::TimedOut.into()))))
    }

    /// Makes a call about bookings, and gets all pages of its answer.
    ///
    /// # Errors
    /// The agent's error, or that it is away.
    pub async fn book(&mut self, request: Request) -> Answer<BookAnswer> {
        let pages = Pages::of(&request);
        let mut answer = self.page(request).await?;
        let Some(mut pages) = pages else { return Ok(answer) };
        let is_list = matches!(answer, BookAnswer::Reservations { .. });
        while let Some(next) = pages.next(&answer) {
            match self.page(next).await {
                Ok(page) => pages.add(&mut answer, page),
                // A reservation of the list is no longer kept.
                Err(problem) if is_list && problem.status == 404 => pages.give_up(),
                Err(problem) => return Err(problem),
            }
        }
        Ok(answer)
    }

    async fn page(&mut self, request: Request) -> Answer<BookAnswer> {
        match self.call(request).await? {
            Ok_::Book(answer) => Ok(answer),
            _ => Err(self.nonsense("no answer of the book")),
        }
    }

    /// The next event after [`Request::BookFollow`]; waits for ever.
    ///
    /// # Errors
    /// The agent went away.
    pub async fn event(&mut self) -> Answer<BookEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            self.keep_event_of_next_line().await?;
        }
    }

    /// The agent's identity; `None`: it is on this machine.
    pub fn identity(&self) -> Option<&Identity> {
        self.talk.identity()
    }

    /// Ends the conversation: its connection may serve the next.
    pub fn end(self) {
        self.agent.kept.put(self.talk);
    }

    /// The problem that the agent's answer makes no sense.
    pub fn nonsense(&self, what: &str) -> Box<Problem> {
        Problem::unavailable(format!("the agent {} says what makes no sense: {what}", self.agent.name))
    }

    async fn keep_event_of_next_line(&mut self) -> Answer<()> {
        if let ReplyLine::Event { event, .. } = self.next_line().await? {
            self.keep(event)?;
        }
        Ok(())
    }

    fn keep(&mut self, event: EventDoc) -> Answer<()> {
        if let EventDoc::Book(event) = event {
            if self.events.len() == MAX_WAITING {
                return Err(Problem::unavailable("too many events at once: follow again from the last one"));
            }
            self.events.push_back(event);
        }
        Ok(())
    }

    async fn answer(&mut self, id: u64) -> Result<Ok_, CallFailure> {
        loop {
            match self.next_line().await.map_err(CallFailure::Lost)? {
                ReplyLine::Ok { id: of, ok } if of == id => {
                    self.talk.pending = false;
                    return Ok(*ok);
                }
                ReplyLine::Error { id: of, error } if of == id || of == 0 => {
                    self.talk.pending = of != id;
                    return Err(CallFailure::Said(error));
                }
                ReplyLine::Event { event, .. } => self.keep(event).map_err(CallFailure::Lost)?,
                _ => {}
            }
        }
    }

    /// Reads the next line. If it is cut off between two calls, the part that came is kept.
    async fn next_line(&mut self) -> Answer<ReplyLine> {
        loop {
            let room = (MAX_ANSWER + 1).saturating_sub(self.talk.line.len()) as u64;
            let read = (&mut self.talk.reader).take(room).read_until(b'\n', &mut self.talk.line).await;
            match read {
                Ok(0) if room == 0 => return Err(self.nonsense("a line without an end")),
                Ok(0) => return Err(self.agent.away(&io::ErrorKind::UnexpectedEof.into())),
                Ok(_) if self.talk.line.last() == Some(&b'\n') => {
                    let line = serde_json::from_slice(&self.talk.line);
                    self.talk.line.clear();
                    return line.map_err(|error| self.nonsense(&error.to_string()));
                }
                Ok(_) => {}
                Err(error) => return Err(self.agent.away(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str, role: &str) -> CallerDoc {
        CallerDoc { name: name.to_owned(), groups: Vec::new(), role: role.to_owned(), token: None }
    }

    fn agent(domain: Option<&str>) -> AgentClient {
        let at = At::Tls { host: "h".to_owned(), port: 1, domain: domain.map(str::to_owned) };
        AgentClient::new(AgentAt { name: "maui".to_owned(), at }, None)
    }

    /// For each caller: whom a partner's agent hears; an agent of ours hears the caller.
    #[test]
    fn our_operators_speak_through_the_broker_at_partners_and_theirs_do_not() {
        let (own, partners) = (agent(None), agent(Some("south")));
        for (name, role, as_itself) in [
            ("uid:0", "operator", true),
            ("kim", "operator", true),
            ("main/uid:0", "operator", true),
            ("south/eve", "operator", false),
            ("south/ann", "requester", false),
            ("uid:1001", "requester", false),
            ("lee", "auditor", false),
        ] {
            let caller = caller(name, role);
            assert_eq!(partners.who(&caller), (!as_itself).then(|| caller.clone()), "{name} at a partner's");
            assert_eq!(own.who(&caller), Some(caller.clone()), "{name} at ours");
        }
        assert_eq!(partners.who(&own_voice()), None);
        assert_eq!(own.who(&own_voice()), Some(caller(OWN_NAME, "operator")));
    }
}
