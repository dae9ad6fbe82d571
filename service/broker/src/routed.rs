//! The kernels' routes: the way that packets really take, as the agents on it say.
//!
//! All agents are asked at once for their way out to an address, and the answers are followed from agent to agent. An
//! agent that does not answer, or a next router without an agent, ends the search: then nothing is known.

use crate::agents::AgentClient;
use crate::gather::each;
use crate::paths::LinkMap;
use crate::problem::Problem;
use booking::path::Path;
use documents::agent::{Answer as Said, Request};
use documents::links::{MAX_ROUTES, RouteRow};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time for which answers are valid.
const LIFE: Duration = Duration::from_secs(2);
/// The time that an agent has for its answer. A request does not wait longer for one that says nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most addresses whose answers are kept.
const MOST_KEPT: usize = 1_024;
/// The most agents on a way.
const MOST_HOPS: usize = 64;

/// The ways out of all agents to some addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentRoutes(BTreeMap<(usize, IpAddr), RouteRow>);

impl AgentRoutes {
    /// The answers of all agents, in their order.
    pub fn new(answers: impl IntoIterator<Item = Vec<RouteRow>>) -> AgentRoutes {
        let all = answers.into_iter().enumerate();
        AgentRoutes(all.flat_map(|(agent, rows)| rows.into_iter().map(move |row| ((agent, row.to), row))).collect())
    }

    /// The interfaces by which packets from an agent to an address leave, in order. `None`: it is not known.
    pub fn way(&self, map: &LinkMap, from: &str, to: IpAddr) -> Option<Path> {
        let (mut at, mut path) = (from, Path::new());
        for _ in 0..MOST_HOPS {
            let row = self.0.get(&(map.number(at)?, to))?;
            if row.local {
                return Some(path);
            }
            let next = row.gateway.unwrap_or(to);
            let by = map.interface(at, row.interface.as_deref()?, next)?;
            path.push(by);
            match (map.holder(next, by), row.gateway) {
                (Some(agent), _) => at = agent,
                // The host itself is on the link, and has no agent.
                (None, None) => return Some(path),
                (None, Some(_)) => return None,
            }
        }
        None
    }
}

/// The answers of a moment ago, by address.
#[derive(Debug, Default)]
pub struct RouteBook(Mutex<BTreeMap<IpAddr, (Instant, Arc<AgentRoutes>)>>);

impl RouteBook {
    /// The ways out of all agents to an address.
    pub async fn to(&self, agents: &[AgentClient], to: IpAddr) -> Arc<AgentRoutes> {
        let locked = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, known)) = locked().get(&to)
            && read.elapsed() < LIFE
        {
            return known.clone();
        }
        let found = Arc::new(ask(agents, &[to]).await);
        let mut known = locked();
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(to, (Instant::now(), found.clone()));
        found
    }
}

/// Asks all agents at once. Those that do not answer, or are too old to know the question, say nothing.
pub async fn ask(agents: &[AgentClient], to: &[IpAddr]) -> AgentRoutes {
    let answers = each(agents, |_, agent| {
        let to = to.to_vec();
        let asked = async move {
            let mut conversation = agent.speak_as_itself().await?;
            let mut all = Vec::new();
            for some in to.chunks(MAX_ROUTES) {
                match conversation.call(Request::Routes { to: some.to_vec() }).await? {
                    Said::Routes(rows) => all.extend(rows),
                    _ => return Err(Problem::unavailable("an agent does not say what routes it has")),
                }
            }
            conversation.end();
            Ok(all)
        };
        async move {
            let late = |_| Err(Problem::unavailable("an agent does not say in time what routes it has"));
            tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(late)
        }
    });
    AgentRoutes::new(answers.await.into_iter().map(Result::unwrap_or_default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::links::LinkRow;

    fn link(interface: &str, address: &str) -> LinkRow {
        LinkRow {
            interface: interface.into(),
            addresses: vec![address.into()],
            resource: Some(format!("net/{interface}")),
            rate_wire_bps: None,
            mtu: 1500,
            slas: Vec::new(),
        }
    }

    /// left - a - (b | c) - d - right; the hosts have no agents.
    fn map() -> LinkMap {
        LinkMap::new(vec![
            ("a".into(), vec![link("in", "10.0.1.1/24"), link("b", "10.1.1.1/30"), link("c", "10.1.2.1/30")]),
            ("b".into(), vec![link("a", "10.1.1.2/30"), link("d", "10.1.3.1/30")]),
            ("c".into(), vec![link("a", "10.1.2.2/30"), link("d", "10.1.4.1/30")]),
            ("d".into(), vec![link("b", "10.1.3.2/30"), link("c", "10.1.4.2/30"), link("out", "10.0.2.1/24")]),
        ])
    }

    fn row(to: &str, interface: &str, gateway: &str) -> RouteRow {
        RouteRow {
            to: to.parse().unwrap(),
            interface: Some(interface.to_owned()).filter(|name| !name.is_empty()),
            gateway: gateway.parse().ok(),
            local: interface.is_empty(),
        }
    }

    fn way(rows: [Vec<RouteRow>; 4], to: &str) -> Option<Vec<String>> {
        let map = map();
        let path = AgentRoutes::new(rows).way(&map, "a", to.parse().unwrap())?;
        Some(map.row(&path, true).hops.iter().map(|hop| format!("{}.{}", hop.agent, hop.interface)).collect())
    }

    #[test]
    fn the_kernels_way_is_followed_to_its_end() {
        let to = "10.0.2.9";
        let south =
            || [vec![row(to, "c", "10.1.2.2")], vec![], vec![row(to, "d", "10.1.4.2")], vec![row(to, "out", "")]];
        assert_eq!(way(south(), to).unwrap(), ["a.c", "c.d", "d.out"], "the first by name is b");
        // To an agent's own address.
        let to = "10.0.2.1";
        let own = [vec![row(to, "c", "10.1.2.2")], vec![], vec![row(to, "d", "10.1.4.2")], vec![row(to, "", "")]];
        assert_eq!(way(own, to).unwrap(), ["a.c", "c.d"]);
    }

    #[test]
    fn what_is_not_known_or_goes_round_is_no_way() {
        let to = "10.0.2.9";
        let first = || vec![row(to, "c", "10.1.2.2")];
        assert_eq!(way([first(), vec![], vec![], vec![]], to), None, "c does not answer");
        assert_eq!(way([first(), vec![], vec![row(to, "a", "10.1.2.1")], vec![]], to), None, "a circle");
        assert_eq!(
            way([vec![row(to, "c", "10.1.2.3")], vec![], vec![], vec![]], to),
            None,
            "a router without an agent"
        );
        assert_eq!(way([vec![row(to, "other", "")], vec![], vec![], vec![]], to), None, "no such interface");
        let none = RouteRow { to: to.parse().unwrap(), interface: None, gateway: None, local: false };
        assert_eq!(way([vec![none], vec![], vec![], vec![]], to), None, "no route");
    }
}
