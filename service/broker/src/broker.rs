//! The broker: its agents, the map of their links, and the idempotency keys in use.

use crate::agents::AgentClient;
use crate::config::Limits;
use crate::conversation_limits::Rooms;
use crate::domains::KnownDomains;
use crate::gather::each;
use crate::id::{GroupId, ReservationId};
use crate::meters::Meters;
use crate::paths::LinkMap;
use crate::plan::Names;
use crate::problem::{Answer, Problem};
use crate::reading_board::ReadingBoard;
use crate::routed::RouteBook;
use crate::routing::{RouteSource, RoutingSettings};
use crate::shared::SharedAnswers;
use crate::transactions::Transactions;
use crate::web::WebDoor;
use crate::webhook::WebhookRegistry;
use booking::path::Path;
use documents::agent::{Answer as Said, Request};
use linux::clock::Clock;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};
use tokio::time::Instant;
use trust::TrustGate;

/// The time for which a map of links is valid after it was read.
const MAP_LIFE: Duration = Duration::from_secs(2);
/// The most keys that the broker remembers; the agents remember theirs as well.
const MAX_KEYS: usize = 100_000;
/// The number of locks above which unused locks are dropped.
const MAX_LOCKS: usize = 1_000;
/// The octets of a group's number that are made of caller and key; the rest is made of the request.
pub const KEY_BYTES: usize = 12;

/// A broker.
#[derive(Debug)]
pub struct Broker {
    /// The agents over which it reserves.
    pub agents: Vec<AgentClient>,
    /// Its limits.
    pub limits: Limits,
    /// The broker's clock.
    pub clock: Clock,
    /// Places for event streams.
    pub streams: Rooms,
    /// Webhooks.
    pub hooks: WebhookRegistry,
    /// Changes over several members.
    pub transactions: Arc<Transactions>,
    /// The known domains.
    pub domains: Arc<KnownDomains>,
    /// The listener for browsers, if there is one.
    pub web: Option<Arc<WebDoor>>,
    /// Certificates that are trusted, and our own; `None`: the broker has no TLS.
    pub gate: Option<Arc<TrustGate>>,
    meters: Meters,
    readings: ReadingBoard,
    shared: SharedAnswers,
    locks: Mutex<BTreeMap<ReservationId, Weak<Turns<()>>>>,
    routing: RoutingSettings,
    routes: RouteBook,
    map: Mutex<Option<(Instant, Arc<LinkMap>)>>,
    keys: Mutex<Keys>,
}

/// The group that each key made.
#[derive(Debug, Default)]
struct Keys {
    groups: BTreeMap<[u8; KEY_BYTES], GroupId>,
    order: VecDeque<[u8; KEY_BYTES]>,
}

impl Broker {
    /// A broker over these agents, with these webhooks and transactions, that knows these domains.
    pub fn new(
        limits: Limits,
        agents: Vec<AgentClient>,
        hooks: WebhookRegistry,
        transactions: Arc<Transactions>,
        domains: Arc<KnownDomains>,
        web: Option<Arc<WebDoor>>,
        routing: RoutingSettings,
    ) -> Broker {
        Broker {
            agents,
            limits,
            clock: Clock::start(),
            streams: Rooms::new(limits.streams, limits.streams_of_one),
            hooks,
            transactions,
            domains,
            web,
            meters: Meters::default(),
            readings: ReadingBoard::default(),
            shared: SharedAnswers::default(),
            gate: None,
            locks: Mutex::default(),
            routing,
            routes: RouteBook::default(),
            map: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// The reservations whose readings are streamed.
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// The figures that applications report of themselves.
    pub(crate) fn readings(&self) -> &ReadingBoard {
        &self.readings
    }

    /// The answers that many browsers share.
    pub(crate) fn shared(&self) -> &SharedAnswers {
        &self.shared
    }

    /// The names of all agents.
    pub fn names(&self) -> Vec<&str> {
        self.agents.iter().map(|agent| &*agent.name).collect()
    }

    /// The index of the agent of that name.
    pub fn number(names: Names<'_>, name: &str) -> Option<usize> {
        names.iter().position(|known| *known == name)
    }

    /// The links of all agents, except of those that are away.
    ///
    /// # Errors
    /// No agent answers.
    pub async fn map(&self) -> Answer<Arc<LinkMap>> {
        let locked = || self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, map)) = &*locked()
            && read.elapsed() < MAP_LIFE
        {
            return Ok(map.clone());
        }
        let links = each(&self.agents, |_, agent| async move {
            let mut conversation = agent.speak_as_itself().await?;
            let links = conversation.call(Request::Links).await;
            conversation.end();
            match links? {
                Said::Links(links) => Ok(links),
                _ => Err(Problem::unavailable("an agent does not say what links it has")),
            }
        });
        let links = links.await;
        if let (true, Some(Err(problem))) = (links.iter().all(Result::is_err), links.first()) {
            return Err(problem.clone());
        }
        let away = self.agents.iter().zip(&links).filter(|(_, links)| links.is_err());
        let away: Vec<String> = away.map(|(agent, _)| agent.name.to_string()).collect();
        let named =
            self.agents.iter().zip(links).map(|(agent, links)| (agent.name.to_string(), links.unwrap_or_default()));
        let map = Arc::new(LinkMap::with_costs(named.collect(), &self.routing.costs).without(away));
        *locked() = Some((Instant::now(), map.clone()));
        Ok(map)
    }

    /// True if packets are steered over the path that was reserved, whatever the kernels' routes are.
    pub fn is_steered(&self) -> bool {
        self.routing.routes == RouteSource::Configured
    }

    /// At most `most` paths between two hosts, and whether packets take the first by the kernels' routes. The others
    /// are the best by links and costs, as all are where packets are steered, or where the kernels' routes are not
    /// known.
    pub async fn ways(&self, map: &LinkMap, ends: (IpAddr, IpAddr), most: usize) -> (Vec<Path>, bool) {
        let mut ways = map.ways(ends.0, ends.1, most);
        if self.is_steered() {
            return (ways, false);
        }
        let Some(first) = map.first_agent(&ways, ends.0) else { return (ways, false) };
        let routes = self.routes.to(&self.agents, ends.1).await;
        let Some(taken) = routes.way(map, first, ends.1).filter(|way| !way.is_empty()) else { return (ways, false) };
        ways.retain(|way| *way != taken);
        ways.insert(0, taken);
        ways.truncate(most);
        (ways, true)
    }

    /// Records that a key stands for a group.
    ///
    /// # Errors
    /// 422: the key stands for another request.
    pub fn use_key(&self, group: GroupId) -> Answer<()> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, _) = group.number.split_first_chunk::<KEY_BYTES>().expect("a number is longer than its key");
        match keys.groups.get(key) {
            Some(known) if *known == group => {}
            Some(_) => {
                let what = "this idempotency key was used for another request";
                return Err(Problem::new(
                    axum::http::StatusCode::UNPROCESSABLE_ENTITY,
                    "key_used",
                    "Key used for another request",
                    what,
                ));
            }
            None => {
                if keys.order.len() == MAX_KEYS
                    && let Some(oldest) = keys.order.pop_front()
                {
                    keys.groups.remove(&oldest);
                }
                keys.groups.insert(*key, group);
                keys.order.push_back(*key);
            }
        }
        Ok(())
    }

    /// Locks a reservation: no other task of this broker changes it while the guard lives.
    pub async fn lock(&self, id: &ReservationId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut all = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() > MAX_LOCKS {
                all.retain(|_, lock| lock.strong_count() > 0);
            }
            let known = all.get(id).and_then(Weak::upgrade);
            let lock = known.unwrap_or_default();
            all.insert(id.clone(), Arc::downgrade(&lock));
            lock
        };
        lock.lock_owned().await
    }
}
