//! The events of all agents as one stream, which can resume after a break.
//!
//! Each agent numbers its own events and keeps the newest of them. A place in the stream is the last number
//! seen of each agent, written `maui:17,glenwood:5`. A follower that resumes from a place misses no event
//! that is still kept.

use crate::agents::{AgentClient, Conversation};
use crate::gather::id_of;
use crate::hub::{AWAY, Live, asked};
use crate::problem::Answer;
use documents::book::{BookEvent, BookEvents};
use documents::links::CallerDoc;
use documents::rest::Event;
use std::collections::BTreeMap;
use std::fmt;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The most events that wait for a follower.
const WAITING: usize = 256;
/// The longest place that is parsed, octets.
const MAX_PLACE: usize = 16 << 10;

/// A place in the stream: the last number seen, by agent.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EventCursor(BTreeMap<String, u64>);

impl EventCursor {
    /// Parses a place. Agents that no longer exist are ignored. `None`: the text is no place.
    pub fn parse(text: &str) -> Option<EventCursor> {
        if text.len() > MAX_PLACE {
            return None;
        }
        let one = |part: &str| {
            let (name, seq) = part.rsplit_once(':')?;
            Some((name.to_owned(), seq.parse().ok()?))
        };
        let all: Option<BTreeMap<String, u64>> = text.split(',').filter(|part| !part.is_empty()).map(one).collect();
        all.map(EventCursor)
    }

    /// The place before all kept events of these agents.
    pub fn oldest(agents: &[&str]) -> EventCursor {
        EventCursor(agents.iter().map(|name| ((*name).to_owned(), 0)).collect())
    }

    /// The last number of an agent that was seen.
    pub fn of(&self, agent: &str) -> Option<u64> {
        self.0.get(agent).copied()
    }

    /// Moves the place past an event.
    pub fn pass(&mut self, agent: &str, seq: u64) {
        let last = self.0.entry(agent.to_owned()).or_default();
        *last = seq.max(*last);
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, seq)) in self.0.iter().enumerate() {
            write!(f, "{}{name}:{seq}", if number > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// An item for a follower.
#[derive(Clone, PartialEq, Debug)]
pub enum FollowerEvent {
    /// From here on all events of this agent follow; the number is the last one before.
    Begins(u64),
    /// An event.
    Event(Box<BookEvent>),
    /// Events between the last one seen and the next are no longer kept.
    Lost,
}

/// A stream of events. It ends when it is dropped.
#[derive(Debug)]
pub struct Follower {
    news: mpsc::Receiver<(usize, FollowerEvent)>,
    _tasks: JoinSet<()>,
}

impl Follower {
    /// Follows all agents for a caller, each from its place on, or from now on if it has none.
    pub fn new(agents: &[AgentClient], caller: &CallerDoc, place: &EventCursor) -> Follower {
        let (to, news) = mpsc::channel(WAITING);
        let mut tasks = JoinSet::new();
        for (number, agent) in agents.iter().cloned().enumerate() {
            let after = place.of(&agent.name);
            tasks.spawn(Listener { number, agent, caller: caller.clone(), after, to: to.clone() }.run());
        }
        Follower { news, _tasks: tasks }
    }

    /// The next item of any agent, with the agent's index.
    pub async fn next(&mut self) -> Option<(usize, FollowerEvent)> {
        self.news.recv().await
    }
}

/// A listener to one agent, with the last number that it has.
struct Listener {
    number: usize,
    agent: AgentClient,
    caller: CallerDoc,
    after: Option<u64>,
    to: mpsc::Sender<(usize, FollowerEvent)>,
}

impl Listener {
    async fn run(mut self) {
        loop {
            // An agent that went away comes back; then the events of the meantime follow.
            let _ = match self.agent.listen() {
                Some(live) => self.by_hub(live).await,
                None => self.alone().await,
            };
            if self.to.is_closed() {
                return;
            }
            sleep(AWAY).await;
        }
    }

    /// Reads the events that the agent keeps, then the hub's, as far as this caller may see them.
    async fn by_hub(&mut self, mut live: broadcast::Receiver<Live>) -> Answer<()> {
        self.catch_up().await?;
        // Events carry the owner as the agent knows them.
        let own = self.agent.known_as(&self.caller.name);
        loop {
            let heard = tokio::select! {
                heard = live.recv() => heard,
                () = self.to.closed() => return Ok(()),
            };
            let passed = self.after.unwrap_or(0);
            match heard {
                Ok(Live::At(seq)) if seq <= passed => {}
                Ok(Live::Event { event, .. }) if event.seq <= passed => {}
                Ok(Live::Event { after, event }) if after <= passed => {
                    self.after = Some(event.seq);
                    if self.caller.role != "owner" || event.owner == own {
                        let _ = self.to.send((self.number, FollowerEvent::Event(Box::new((*event).clone())))).await;
                    }
                }
                // A gap in the numbers, or this listener was slow.
                Ok(_) | Err(RecvError::Lagged(_)) => drop(self.catch_up().await?),
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }

    /// A partner's agent does not report others' events to our broker: it is asked for each caller.
    async fn alone(&mut self) -> Answer<()> {
        let mut conversation = self.catch_up().await?;
        while !self.to.is_closed() {
            let event = conversation.event().await?;
            self.tell(event).await;
        }
        Ok(())
    }

    /// Reads the events after the last one seen; the conversation then goes on with new ones.
    async fn catch_up(&mut self) -> Answer<Conversation> {
        let mut conversation = self.agent.speak(&self.caller).await?;
        let began = self.after.is_none();
        loop {
            let BookEvents { events, last, lost } = asked(&mut conversation, self.after).await?;
            if lost && self.to.send((self.number, FollowerEvent::Lost)).await.is_err() {
                return Ok(conversation);
            }
            let whole = events.last().is_none_or(|event| event.seq >= last);
            for event in events {
                self.tell(event).await;
            }
            if whole {
                // Nothing newer has happened; the numbers of others' events are passed as well.
                self.after = Some(self.after.unwrap_or(0).max(last));
                break;
            }
        }
        if began {
            let _ = self.to.send((self.number, FollowerEvent::Begins(self.after.unwrap_or(0)))).await;
        }
        Ok(conversation)
    }

    /// Sends an event once: it may come twice if it came while the first answer was on its way.
    async fn tell(&mut self, event: BookEvent) {
        if self.after.is_some_and(|after| event.seq <= after) {
            return;
        }
        self.after = Some(event.seq);
        let _ = self.to.send((self.number, FollowerEvent::Event(Box::new(event)))).await;
    }
}

/// An agent's event as the broker reports it.
pub fn event(agent: &str, event: BookEvent) -> Event {
    let (id, way) = id_of(agent, &event.group, &event.handle);
    Event { reservation: id.to_string(), agent: agent.to_owned(), way: way.name().map(str::to_owned), event }
}

/// True if the event is about this reservation.
pub fn is_about(agent: &str, event: &BookEvent, reservation: &str) -> bool {
    id_of(agent, &event.group, &event.handle).0.to_string() == reservation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let mut place = EventCursor::parse("maui:17,glenwood:5").unwrap();
        assert_eq!((place.of("maui"), place.of("glenwood"), place.of("other")), (Some(17), Some(5), None));
        place.pass("maui", 18);
        place.pass("maui", 3);
        place.pass("other", 1);
        assert_eq!(place.to_string(), "glenwood:5,maui:18,other:1");
        assert_eq!(EventCursor::parse(&place.to_string()), Some(place));
        assert_eq!(EventCursor::parse(""), Some(EventCursor::default()));
        for wrong in ["maui", "maui:", "maui:-1", "maui:99999999999999999999", &"a:1,".repeat(10_000)] {
            assert_eq!(EventCursor::parse(wrong), None, "{wrong:.20}");
        }
    }
}
