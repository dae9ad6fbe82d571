//! The agents: what is asked of them goes over their local sockets, or over mutual TLS to those on other machines, one
//! conversation a request.
//!
//! A conversation speaks for one caller from its first line on, so that no answer can reach another. How many there
//! are at once is bounded per agent; how long an answer may take as well.

use crate::config::{AgentAt, At};
use crate::problem::{Answer, Problem};
use crate::wire::{Way, Wire};
use api::agent::{Answer as Ok_, Call, EventDoc, Line, MAX_LINE, Request};
use api::book::{BookAnswer, BookEvent};
use api::client::MAX_ANSWER;
use api::links::CallerDoc;
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Most conversations with one agent at once; an agent takes 256 on its own machine, and 96 of one other.
const CONVERSATIONS: usize = 128;
const CONVERSATIONS_AFAR: usize = 80;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most events that wait in a conversation until somebody takes them.
const MAX_WAITING: usize = 4096;

/// An agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name in documents.
    pub name: Arc<str>,
    way: Arc<Way>,
    room: Arc<Semaphore>,
}

/// A connection that speaks for one caller.
#[derive(Debug)]
pub struct Conversation {
    agent: Agent,
    reader: BufReader<ReadHalf<Box<dyn Wire>>>,
    writer: WriteHalf<Box<dyn Wire>>,
    line: Vec<u8>,
    next_id: u64,
    events: VecDeque<BookEvent>,
    _room: OwnedSemaphorePermit,
}

impl Agent {
    /// The agent that the configuration names; `tls`: who we are to those on other machines.
    pub fn new(at: AgentAt, tls: Option<Arc<ClientConfig>>) -> Agent {
        let most = if matches!(at.at, At::Socket(_)) { CONVERSATIONS } else { CONVERSATIONS_AFAR };
        let way = Arc::new(Way::new(at.at, tls));
        Agent { name: at.name.as_str().into(), way, room: Arc::new(Semaphore::new(most)) }
    }

    /// Begins to speak for a caller.
    ///
    /// # Errors
    /// 503: nobody answers there; 429: too many speak to it already.
    pub async fn speak(&self, caller: &CallerDoc) -> Answer<Conversation> {
        let room = timeout(PATIENCE, self.room.clone().acquire_owned()).await;
        let Ok(Ok(room)) = room else {
            return Err(Problem::limit(format!("{}: too many requests at once", self.name)));
        };
        let stream = self.way.connect().await.map_err(|error| self.away(&error))?;
        let (reader, writer) = tokio::io::split(stream);
        let mut conversation = Conversation {
            agent: self.clone(),
            reader: BufReader::new(reader),
            writer,
            line: Vec::new(),
            next_id: 1,
            events: VecDeque::new(),
            _room: room,
        };
        conversation.call(Request::SpeakFor { who: Some(caller.clone()) }).await?;
        Ok(conversation)
    }

    /// One question, one answer of the book.
    ///
    /// # Errors
    /// What the agent said, or that it is away.
    pub async fn ask(&self, caller: &CallerDoc, request: Request) -> Answer<BookAnswer> {
        self.speak(caller).await?.book(request).await
    }

    /// It cannot be reached.
    fn away(&self, error: &io::Error) -> Box<Problem> {
        Problem::unavailable(format!("the agent {} does not answer ({error})", self.name))
    }
}

impl Conversation {
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// What the agent said, or that it is away.
    pub async fn call(&mut self, request: Request) -> Answer<Ok_> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_vec(&Call { id, request }).map_err(|error| Problem::misuse(error.to_string()))?;
        line.push(b'\n');
        if line.len() > MAX_LINE {
            return Err(Problem::limit("the request is longer than an agent takes"));
        }
        let answer = timeout(PATIENCE, async {
            self.writer.write_all(&line).await.map_err(|error| self.agent.away(&error))?;
            self.answer(id).await
        });
        answer.await.unwrap_or_else(|_| Err(self.agent.away(&io::ErrorKind::TimedOut.into())))
    }

    /// Asks the book.
    ///
    /// # Errors
    /// What the agent said, or that it is away.
    pub async fn book(&mut self, request: Request) -> Answer<BookAnswer> {
        match self.call(request).await? {
            Ok_::Book(answer) => Ok(answer),
            _ => Err(self.nonsense("no answer of the book")),
        }
    }

    /// The next event of what [`Request::BookFollow`] asked for; waits for ever.
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

    /// Nobody else would understand what the agent said.
    pub fn nonsense(&self, what: &str) -> Box<Problem> {
        Problem::unavailable(format!("the agent {} says what makes no sense: {what}", self.agent.name))
    }

    async fn keep_event_of_next_line(&mut self) -> Answer<()> {
        if let Line::Event { event, .. } = self.next_line().await? {
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

    async fn answer(&mut self, id: u64) -> Answer<Ok_> {
        loop {
            match self.next_line().await? {
                Line::Ok { id: of, ok } if of == id => return Ok(*ok),
                Line::Error { id: of, error } if of == id || of == 0 => {
                    return Err(Problem::said(&self.agent.name, error));
                }
                Line::Event { event, .. } => self.keep(event)?,
                _ => {}
            }
        }
    }

    /// Cut off between two calls of it, what was read of a line is kept.
    async fn next_line(&mut self) -> Answer<Line> {
        loop {
            let room = (MAX_ANSWER + 1).saturating_sub(self.line.len()) as u64;
            let read = (&mut self.reader).take(room).read_until(b'\n', &mut self.line).await;
            match read {
                Ok(0) if room == 0 => return Err(self.nonsense("a line without an end")),
                Ok(0) => return Err(self.agent.away(&io::ErrorKind::UnexpectedEof.into())),
                Ok(_) if self.line.last() == Some(&b'\n') => {
                    let line = serde_json::from_slice(&self.line);
                    self.line.clear();
                    return line.map_err(|error| self.nonsense(&error.to_string()));
                }
                Ok(_) => {}
                Err(error) => return Err(self.agent.away(&error)),
            }
        }
    }
}
