//! A webhook's own task: follow, gather events, deliver them, and only then go on.

use super::post::Delivery;
use super::{HookTarget, Kept};
use crate::broker::Broker;
use crate::follow::{EventCursor, Follower, FollowerEvent, event, is_about};
use documents::rest::Event;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The most events of one delivery.
const MOST: usize = 100;
/// The time for which further events are awaited once there is one.
const GATHER: Duration = Duration::from_millis(50);
/// The pause after the first failure; it doubles after each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest pause.
const LAST_RETRY: Duration = Duration::from_secs(300);

/// The events after which a reservation has no others.
const OVER: [&str; 3] = ["ended", "cancelled", "expired"];

/// The body of a delivery.
#[derive(Serialize)]
struct Body<'a> {
    webhook: &'a str,
    /// The place in the stream after these events.
    place: String,
    /// True if events before these are no longer kept.
    lost: bool,
    events: &'a [Event],
}

/// Gathered events, and the place in the stream after them.
#[derive(Default)]
struct Gathered {
    place: EventCursor,
    lost: bool,
    events: Vec<Event>,
    /// True if the one reservation that it is about is over.
    over: bool,
}

/// Delivers until the webhook is removed.
pub async fn run(broker: Arc<Broker>, id: String) {
    loop {
        let kept = match broker.hooks.due(&id) {
            Ok(Some(kept)) => kept,
            Ok(None) => return,
            Err(why) => {
                pause(broker.hooks.failed(&id, why)).await;
                continue;
            }
        };
        if let Err(why) = follow(&broker, &kept).await {
            pause(broker.hooks.failed(&id, why)).await;
        }
    }
}

async fn pause(failures: u32) {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    sleep(FIRST_RETRY.saturating_mul(factor).min(LAST_RETRY)).await;
}

/// Delivers from the kept place on until a delivery fails; then the gathered events are read from the agents
/// again.
async fn follow(broker: &Broker, kept: &Kept) -> Result<(), String> {
    let target = HookTarget::parse(&kept.url)?;
    let place = EventCursor::parse(&kept.place).unwrap_or_default();
    let mut follower = Follower::new(&broker.agents, &kept.owner, &place);
    let mut gathered = Gathered { place, ..Gathered::default() };
    loop {
        let Some((number, news)) = follower.next().await else { return Ok(()) };
        gathered.take(broker, kept, number, news);
        while gathered.events.len() < MOST {
            let Ok(Some((number, news))) = timeout(GATHER, follower.next()).await else { break };
            gathered.take(broker, kept, number, news);
        }
        // The targets are fixed, but certificates may have lost their validity.
        if broker.hooks.due(&kept.id)?.is_none() {
            return Ok(());
        }
        deliver(broker, kept, &target, &gathered).await?;
        if gathered.over && matches!(target, HookTarget::Mail(_)) {
            broker.hooks.over(&kept.id);
            return Ok(());
        }
        broker.hooks.taken(&kept.id, &gathered.place);
        (gathered.lost, gathered.events) = (false, Vec::new());
    }
}

/// Delivers what was gathered, if there is anything to tell.
async fn deliver(broker: &Broker, kept: &Kept, target: &HookTarget, gathered: &Gathered) -> Result<(), String> {
    let Gathered { place, lost, events, .. } = gathered;
    let target = match target {
        HookTarget::Mail(_) if events.is_empty() => return Ok(()),
        HookTarget::Mail(to) => return broker.hooks.write_to(broker.transactions.name(), kept, to, events).await,
        HookTarget::Web(_) if events.is_empty() && !lost => return Ok(()),
        HookTarget::Web(target) => target,
    };
    let body = Body { webhook: &kept.id, place: place.to_string(), lost: *lost, events };
    let body = serde_json::to_vec(&body).map_err(|error| error.to_string())?;
    let at_s = broker.clock.today().as_secs();
    let delivery = Delivery { id: &kept.id, secret: &kept.secret, at_s, body };
    broker.hooks.poster.post(target, delivery).await
}

impl Gathered {
    fn take(&mut self, broker: &Broker, kept: &Kept, number: usize, news: FollowerEvent) {
        let name = &broker.agents[number].name;
        match news {
            FollowerEvent::Begins(seq) => self.place.pass(name, seq),
            FollowerEvent::Lost => self.lost = true,
            FollowerEvent::Event(one) => {
                self.place.pass(name, one.seq);
                if kept.reservation.as_ref().is_none_or(|only| is_about(name, &one, only)) {
                    self.over |= kept.reservation.is_some() && OVER.contains(&one.event.as_str());
                    if kept.events.is_empty() || kept.events.contains(&one.event) {
                        self.events.push(event(name, *one));
                    }
                }
            }
        }
    }
}
