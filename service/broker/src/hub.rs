//! One follower of an agent for all event streams and webhooks: for any number of listeners there is one
//! conversation.
//!
//! It receives all events in the broker's own name; [`crate::follow`] gives each listener the events that it
//! may see. It runs while there are listeners. A listener reads events that it missed (early ones, or because
//! it was slow) from the agent itself.

use crate::agents::{AgentClient, Conversation, own_voice};
use crate::problem::Answer;
use documents::agent::Request;
use documents::book::{BookAnswer, BookEvent, BookEvents};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The pause before the next attempt at an agent that is away.
pub const AWAY: Duration = Duration::from_secs(1);
/// The interval between checks for listeners.
const LOOK: Duration = Duration::from_secs(1);
/// The most events that wait for a listener, which reads the rest from the agent.
const WAITING: usize = 1024;

/// An item for listeners.
#[derive(Clone, Debug)]
pub enum Live {
    /// The hub follows the agent (again): this is the agent's last number.
    At(u64),
    /// An event; there was none between it and the number `after`.
    Event {
        /// The number before it.
        after: u64,
        /// The event.
        event: Arc<BookEvent>,
    },
}

/// The hub of one agent.
#[derive(Debug)]
pub struct Hub {
    tell: broadcast::Sender<Live>,
    runs: Mutex<bool>,
}

impl Default for Hub {
    fn default() -> Hub {
        Hub { tell: broadcast::channel(WAITING).0, runs: Mutex::new(false) }
    }
}

impl Hub {
    /// A receiver of all items from now on.
    pub fn listen(self: &Arc<Self>, agent: &AgentClient) -> broadcast::Receiver<Live> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let live = self.tell.subscribe();
        if !*runs {
            *runs = true;
            tokio::spawn(run(self.clone(), agent.clone()));
        }
        live
    }

    /// True if there is no listener; then the hub stops.
    fn rests(&self) -> bool {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        *runs = self.tell.receiver_count() > 0;
        !*runs
    }
}

async fn run(hub: Arc<Hub>, agent: AgentClient) {
    let mut after = None;
    loop {
        // An agent that went away comes back; then the events of the meantime follow.
        if let Ok(true) = hear(&hub, &agent, &mut after).await {
            return;
        }
        if hub.rests() {
            return;
        }
        sleep(AWAY).await;
    }
}

/// Follows until the last listener has gone (true), or the agent goes away.
async fn hear(hub: &Hub, agent: &AgentClient, after: &mut Option<u64>) -> Answer<bool> {
    let mut conversation = agent.speak_apart(&own_voice()).await?;
    loop {
        let BookEvents { events, last, lost } = asked(&mut conversation, *after).await?;
        let whole = after.is_none() || events.last().is_none_or(|event| event.seq >= last);
        for event in events {
            // The agent itself tells listeners of events that are no longer kept.
            if lost { *after = Some(event.seq) } else { tell(hub, event, after) }
        }
        if whole {
            *after = Some(after.unwrap_or(0).max(last));
            break;
        }
    }
    // A listener that lacks events before this reads them from the agent.
    let _ = hub.tell.send(Live::At(after.unwrap_or(0)));
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = conversation.event() => tell(hub, event?, after),
            _ = look.tick() => if hub.rests() { return Ok(true) },
        }
    }
}

/// Sends an event once: it may come twice if it came while the first answer was on its way.
fn tell(hub: &Hub, event: BookEvent, after: &mut Option<u64>) {
    let before = after.unwrap_or(0);
    if event.seq > before {
        *after = Some(event.seq);
        let _ = hub.tell.send(Live::Event { after: before, event: Arc::new(event) }); // nobody listens: nobody is told
    }
}

/// Asks the agent for events from a number on.
pub async fn asked(conversation: &mut Conversation, after: Option<u64>) -> Answer<BookEvents> {
    match conversation.book(Request::BookFollow { after }).await? {
        BookAnswer::Events(events) => Ok(events),
        _ => Err(conversation.nonsense("no events")),
    }
}
