//! The parts of a co-reservation, each with its alternatives: as a request, in words, and found again in an answer.

use crate::broker::BrokerRefusal;
use documents::book::PartDoc;
use documents::rest::{PathWish, Reservation, Wish};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// One item of an alternative.
#[derive(Clone, Debug)]
pub enum NeededItem {
    /// The network between two hosts.
    Hosts(PathWish),
    /// So much of one resource of an agent.
    Amount(PartDoc),
}

/// A part: its name, and its alternatives, best first.
#[derive(Clone, Debug)]
pub struct NeededPart {
    /// The name.
    pub name: String,
    /// The alternatives, each of items that go together.
    pub alternatives: Vec<Vec<NeededItem>>,
}

impl NeededItem {
    /// Its place, in words.
    fn at(&self) -> String {
        match self {
            NeededItem::Hosts(path) => format!("{} > {}", path.from, path.to),
            NeededItem::Amount(part) => part.resource.clone(),
        }
    }

    fn is_of(&self, agent: &str, way: Option<&str>) -> bool {
        match self {
            NeededItem::Hosts(_) => way.is_some(),
            NeededItem::Amount(part) => way.is_none() && part.resource.split('/').next() == Some(agent),
        }
    }

    /// True if a reservation has it.
    fn is_in(&self, one: &Reservation) -> bool {
        match self {
            NeededItem::Hosts(path) => ends(one) == Some((path.from, path.to)),
            NeededItem::Amount(part) => singles(one).any(|resource| is_same(&part.resource, resource)),
        }
    }
}

impl NeededPart {
    /// The places of an alternative, in words.
    pub fn at(&self, choice: usize) -> String {
        let places: Vec<String> = self.alternatives[choice].iter().map(NeededItem::at).collect();
        places.join(" + ")
    }
}

fn ends(one: &Reservation) -> Option<(IpAddr, IpAddr)> {
    one.path.map(|path| (path.from, path.to))
}

/// The single resources of a reservation.
fn singles(one: &Reservation) -> impl Iterator<Item = &str> {
    one.parts.iter().filter(|part| part.way.is_none()).map(|part| part.row.resource.as_str())
}

fn is_same(asked: &str, said: &str) -> bool {
    said == asked || said.strip_suffix(asked).is_some_and(|agent| agent.ends_with('/'))
}

/// The items of choices, each with the number of its part.
fn items<'a>(needs: &'a [NeededPart], choices: &'a [usize]) -> impl Iterator<Item = (usize, &'a NeededItem)> {
    needs
        .iter()
        .zip(choices)
        .enumerate()
        .flat_map(|(number, (need, choice))| need.alternatives[*choice].iter().map(move |item| (number, item)))
}

/// Checks what a request can have: one part between two hosts at most.
///
/// # Errors
/// A sentence.
pub fn check(needs: &[NeededPart]) -> Result<(), String> {
    let is_path = |item: &NeededItem| matches!(item, NeededItem::Hosts(_));
    let with_path = needs.iter().filter(|need| need.alternatives.iter().flatten().any(is_path)).count();
    let twice =
        needs.iter().flat_map(|need| &need.alternatives).any(|items| items.iter().filter(|i| is_path(i)).count() > 1);
    if with_path > 1 || twice {
        return Err("one part at most is between two hosts: name the links of others as AGENT/net/INTERFACE".to_owned());
    }
    let names: BTreeSet<&str> = needs.iter().map(|need| need.name.as_str()).collect();
    if names.len() < needs.len() { Err("two parts have the same name".to_owned()) } else { Ok(()) }
}

/// Puts the chosen alternatives into a request; `shares` are the least shares of their amounts that will do.
pub fn put(wish: &mut Wish, needs: &[NeededPart], choices: &[usize], shares: &[f64]) {
    let least = |amount: Option<u64>, share: f64| amount.map(|amount| (amount as f64 * share).ceil() as u64);
    for (number, item) in items(needs, choices) {
        let share = shares[number];
        match item {
            NeededItem::Hosts(path) => {
                let mut path = path.clone();
                if share < 1.0 {
                    path.forward_at_least = least(path.forward, share);
                    path.reverse_at_least = least(path.reverse, share);
                }
                wish.path = Some(path);
            }
            NeededItem::Amount(part) => {
                let mut part = part.clone();
                if share < 1.0 {
                    let whole = part.rate.or(part.bytes_per_s).or(part.count);
                    let whole = least(whole, share).map(|amount| amount as f64);
                    part.at_least = part.cores.map(|cores| cores * share).or(whole);
                }
                wish.parts.push(part);
            }
        }
    }
}

/// The request in words.
pub fn words(needs: &[NeededPart], choices: &[usize], shares: &[f64], later: f64) -> String {
    let mut said: Vec<String> =
        needs.iter().zip(choices).map(|(need, choice)| format!("{} at {}", need.name, need.at(*choice))).collect();
    let smaller = needs.iter().zip(shares).filter(|(_, share)| **share < 1.0);
    said.extend(smaller.map(|(need, share)| format!("{} down to {share}", need.name)));
    if later > 0.0 {
        said.push(format!("up to {later} s later"));
    }
    said.join(", ")
}

/// The part that a refusal is about, and the place; `away` are agents that do not answer.
pub fn blamed(
    needs: &[NeededPart],
    choices: &[usize],
    refusal: &BrokerRefusal,
    away: &[String],
) -> (Option<usize>, Option<String>) {
    let hosts = items(needs, choices).find(|(_, item)| matches!(item, NeededItem::Hosts(_))).map(|(number, _)| number);
    if let Some(resource) = refusal.resource() {
        let is_it = |item: &NeededItem| matches!(item, NeededItem::Amount(part) if is_same(&part.resource, resource));
        let found = items(needs, choices).find(|(_, item)| is_it(item)).map(|(number, _)| number);
        return (found.or(hosts), Some(resource.to_owned()));
    }
    let named = refusal.detail.split_once(": ").map(|(agent, _)| agent).filter(|agent| !agent.contains(' '));
    let nth = refusal.refusal.as_ref().and_then(|refusal| refusal.part).unwrap_or(0);
    let agents: Vec<&str> = away.iter().map(String::as_str).chain(named).collect();
    for agent in &agents {
        let there: Vec<(usize, String)> = items(needs, choices)
            .filter(|(_, item)| item.is_of(agent, None))
            .map(|(number, item)| (number, item.at()))
            .collect();
        if let Some((number, place)) = there.get(nth).or(there.first()) {
            return (Some(*number), Some(place.clone()));
        }
    }
    match agents.first() {
        Some(agent) => (hosts, Some((*agent).to_owned())),
        None => (None, None),
    }
}

/// The parts that an agent has of what was made of these choices: single resources, or one way between hosts.
pub fn at_agent(needs: &[NeededPart], choices: &[usize], agent: &str, way: Option<&str>) -> BTreeSet<usize> {
    items(needs, choices).filter(|(_, item)| item.is_of(agent, way)).map(|(number, _)| number).collect()
}

/// True if some choices have all that a reservation has, perhaps with more.
pub fn could_be(needs: &[NeededPart], one: &Reservation) -> bool {
    let all = || needs.iter().flat_map(|need| need.alternatives.iter().flatten());
    let has = |resource: &str| {
        all().any(|item| matches!(item, NeededItem::Amount(part) if is_same(&part.resource, resource)))
    };
    let hosts = ends(one).is_none() || all().any(|item| matches!(item, NeededItem::Hosts(_)) && item.is_in(one));
    hosts && singles(one).all(has)
}

/// The choices of which a reservation was made; `None`: it is none of ours.
pub fn fits(needs: &[NeededPart], one: &Reservation) -> Option<Vec<usize>> {
    let choice =
        |need: &NeededPart| need.alternatives.iter().position(|items| items.iter().all(|item| item.is_in(one)));
    let choices: Vec<usize> = needs.iter().map(choice).collect::<Option<_>>()?;
    let amounts = items(needs, &choices).filter(|(_, item)| matches!(item, NeededItem::Amount(_))).count();
    let has_path = amounts < items(needs, &choices).count();
    (amounts == singles(one).count() && has_path == ends(one).is_some()).then_some(choices)
}
