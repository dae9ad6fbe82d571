//! One follower of an agent for all event streams and webhooks: however many listen, the agent has one conversation for it.
//!
//! It hears everything, in the broker's own voice; [`crate::follow`] gives each listener what they may see. It runs while anybody
//! listens. What a listener missed (before they came, or because they were slow) they read from the agent themselves.

use crate::agents::{AgentClient, Conversation};
use crate::broker::own_voice;
use crate::problem::Answer;
use rpc::agent::Request;
use rpc::book::{BookAnswer, BookEvent, BookEvents};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// How long an agent that is away is left alone.
pub const AWAY: Duration = Duration::from_secs(1);
/// How often it is looked whether anybody still listens.
const LOOK: Duration = Duration::from_secs(1);
/// Most events that wait for a listener, who reads the rest from the agent.
const WAITING: usize = 1024;

/// What a hub tells.
#[derive(Clone, Debug)]
pub enum Live {
    /// It listens (again): the agent's last number is this.
    At(u64),
    /// Something happened, and nothing between it and the number `after`.
    Event {
        /// The number before it.
        after: u64,
        /// What.
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
    /// Listens from now on.
    pub fn listen(self: &Arc<Self>, agent: &AgentClient) -> broadcast::Receiver<Live> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let live = self.tell.subscribe();
        if !*runs {
            *runs = true;
            tokio::spawn(run(self.clone(), agent.clone()));
        }
        live
    }

    /// Whether nobody listens; then it does not run any more.
    fn rests(&self) -> bool {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        *runs = self.tell.receiver_count() > 0;
        !*runs
    }
}

async fn run(hub: Arc<Hub>, agent: AgentClient) {
    let mut after = None;
    loop {
        // An agent that went away comes back; what happened meanwhile is told then.
        if let Ok(true) = hear(&hub, &agent, &mut after).await {
            return;
        }
        if hub.rests() {
            return;
        }
        sleep(AWAY).await;
    }
}

/// Until nobody listens any more, or the agent goes away.
async fn hear(hub: &Hub, agent: &AgentClient, after: &mut Option<u64>) -> Answer<bool> {
    let mut conversation = agent.speak_apart(&own_voice()).await?;
    loop {
        let BookEvents { events, last, lost } = asked(&mut conversation, *after).await?;
        let whole = after.is_none() || events.last().is_none_or(|event| event.seq >= last);
        for event in events {
            // That some are not kept any more, listeners are told by the agent.
            if lost { *after = Some(event.seq) } else { tell(hub, event, after) }
        }
        if whole {
            *after = Some(after.unwrap_or(0).max(last));
            break;
        }
    }
    // Whoever has not seen all before this reads it from the agent.
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

/// Once each: what came while the first answer was on its way may come twice.
fn tell(hub: &Hub, event: BookEvent, after: &mut Option<u64>) {
    let before = after.unwrap_or(0);
    if event.seq > before {
        *after = Some(event.seq);
        let _ = hub.tell.send(Live::Event { after: before, event: Arc::new(event) }); // nobody listens: nobody is told
    }
}

/// Follows from a place on.
pub async fn asked(conversation: &mut Conversation, after: Option<u64>) -> Answer<BookEvents> {
    match conversation.book(Request::BookFollow { after }).await? {
        BookAnswer::Events(events) => Ok(events),
        _ => Err(conversation.nonsense("no events")),
    }
}
