//! The broker itself: its agents, the map of their links, and the keys that were used.

use crate::agents::Agent;
use crate::config::{BrokerConfig, Limits};
use crate::gather::{self, each};
use crate::id::{Group, Id};
use crate::paths::Map;
use crate::plan::Names;
use crate::problem::{Answer, Problem};
use crate::webhook::Hooks;
use crate::wire::Outward;
use api::agent::{Answer as Said, Request};
use api::book::BookFilter;
use api::links::CallerDoc;
use linux::clock::Clock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long the map of links is taken as it was read.
const MAP_LIFE: Duration = Duration::from_secs(2);
/// Most keys that are remembered here; the agents remember theirs as well.
const MAX_KEYS: usize = 100_000;
/// What all of a key's digest is, and what of it names the key; the rest names the request.
pub const KEY_BYTES: usize = 12;

/// A broker.
#[derive(Debug)]
pub struct Broker {
    /// Over whom it reserves.
    pub agents: Vec<Agent>,
    /// What it bears.
    pub limits: Limits,
    /// Our time.
    pub clock: Clock,
    /// Room for event streams.
    pub streams: Arc<Semaphore>,
    /// Webhooks.
    pub hooks: Hooks,
    map: Mutex<Option<(Instant, Arc<Map>)>>,
    keys: Mutex<Keys>,
}

/// Which group a key made.
#[derive(Debug, Default)]
struct Keys {
    groups: BTreeMap<[u8; KEY_BYTES], Group>,
    order: VecDeque<[u8; KEY_BYTES]>,
}

/// The broker's own voice, for what no caller asked.
pub fn own_voice() -> CallerDoc {
    CallerDoc { name: "broker".to_owned(), groups: Vec::new(), role: "operator".to_owned() }
}

impl Broker {
    /// As configured, with these webhooks; `outward`: who we are to agents on other machines.
    pub fn new(config: &BrokerConfig, hooks: Hooks, outward: Option<Outward>) -> Broker {
        Broker {
            agents: config.agents.iter().map(|at| Agent::new(at.clone(), outward.clone())).collect(),
            limits: config.limits,
            clock: Clock::start(),
            streams: Arc::new(Semaphore::new(config.limits.streams)),
            hooks,
            map: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// The names of all agents.
    pub fn names(&self) -> Vec<&str> {
        self.agents.iter().map(|agent| &*agent.name).collect()
    }

    /// The number of the agent of that name.
    pub fn number(names: Names<'_>, name: &str) -> Option<usize> {
        names.iter().position(|known| *known == name)
    }

    /// The links of all agents; those of one that is away are missing.
    ///
    /// # Errors
    /// No agent answers.
    pub async fn map(&self) -> Answer<Arc<Map>> {
        let locked = || self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, map)) = &*locked()
            && read.elapsed() < MAP_LIFE
        {
            return Ok(map.clone());
        }
        let links = each(&self.agents, |_, agent| async move {
            let mut conversation = agent.speak(&own_voice()).await?;
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
        let map = Arc::new(Map::new(named.collect()).without(away));
        *locked() = Some((Instant::now(), map.clone()));
        Ok(map)
    }

    /// Takes down that a key stands for a group.
    ///
    /// # Errors
    /// 422: it stands for another request.
    pub fn use_key(&self, group: Group) -> Answer<()> {
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

    /// Reads again what agents hold in groups: keys are known from before, and a group of which some members were committed
    /// before the last broker ended, and others not yet, is committed to its end. Says how many were.
    pub async fn recover(&self) -> usize {
        let mut groups: BTreeMap<Group, bool> = BTreeMap::new();
        for rows in each(&self.agents, |_, agent| async move { all_of(&agent).await }).await.into_iter().flatten() {
            for (group, held) in rows {
                *groups.entry(group).or_default() |= held;
            }
        }
        let mut finished = 0;
        for (group, held) in groups {
            let _ = self.use_key(group);
            if !held {
                continue;
            }
            let Ok(found) = gather::members(&self.agents, &own_voice(), &group).await else { continue };
            let decided = found.members.iter().any(|member| member.doc.state != "held" && !member.is_over());
            if decided && crate::group::commit(self, &own_voice(), &Id::Group(group)).await.is_ok() {
                finished += 1;
            }
        }
        finished
    }
}

/// The groups of an agent, and whether something of them is only held there.
async fn all_of(agent: &Agent) -> Answer<Vec<(Group, bool)>> {
    let mut conversation = agent.speak(&own_voice()).await?;
    let mut groups = Vec::new();
    let mut after = None;
    loop {
        let filter = BookFilter { after: after.take(), ..BookFilter::default() };
        let (rows, more) = gather::list(&mut conversation, filter).await?;
        for row in &rows {
            groups.extend(Group::of_member(&row.group).map(|(group, _)| (group, row.state == "held")));
        }
        match rows.last() {
            Some(last) if more => after = Some(last.handle.clone()),
            _ => return Ok(groups),
        }
    }
}
