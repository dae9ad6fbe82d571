//! The search: Dijkstra's, over the ports by which domains are entered.

use crate::advertisement::{Advertisement, BorderPair, DomainPort};
use crate::map::PathNeed;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A domain on a path: where packets come in, and where they leave.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DomainHop {
    /// The domain.
    pub domain: String,
    /// The port by which packets come in.
    pub from: DomainPort,
    /// The port by which they leave.
    pub to: DomainPort,
}

/// A path over domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainPath {
    /// The sum of the costs of its ways.
    pub cost: u64,
    /// The domains, in order. Two hosts of one domain need no other: then this has one hop, from inside to inside.
    pub hops: Vec<DomainHop>,
}

/// All domains that are believed, by name.
type Domains<'a> = BTreeMap<&'a str, &'a Advertisement>;
/// A place of the search: a domain, and the port by which it was entered.
type Entered<'a> = (&'a str, DomainPort);
/// The cost of a place, and the way to it.
type Reached = (u64, Vec<DomainHop>);

pub(crate) fn paths(domains: &Domains<'_>, ends: (&str, &str), need: PathNeed<'_>, most: usize) -> Vec<DomainPath> {
    if ends.0 == ends.1 {
        let hop = DomainHop { domain: ends.0.to_string(), from: DomainPort::Inside, to: DomainPort::Inside };
        return Vec::from([DomainPath { cost: 0, hops: Vec::from([hop]) }]).into_iter().take(most).collect();
    }
    let Some(first) = best(domains, ends, need, None) else { return Vec::new() };
    let mut others: Vec<DomainPath> = Vec::new();
    for without in &first.hops {
        let found = best(domains, ends, need, Some(without));
        others.extend(found.filter(|path| !others.contains(path)));
    }
    others.sort_by(|a, b| order(a).cmp(&order(b)));
    core::iter::once(first).chain(others).take(most).collect()
}

fn order(path: &DomainPath) -> (u64, usize, &[DomainHop]) {
    (path.cost, path.hops.len(), &path.hops)
}

/// The best path that does not use the way `without`.
fn best(
    domains: &Domains<'_>,
    ends: (&str, &str),
    need: PathNeed<'_>,
    without: Option<&DomainHop>,
) -> Option<DomainPath> {
    let (start, _) = domains.get_key_value(ends.0)?;
    let mut open: BTreeMap<Entered<'_>, Reached> = BTreeMap::from([((*start, DomainPort::Inside), (0, Vec::new()))]);
    let mut done: BTreeSet<Entered<'_>> = BTreeSet::new();
    let mut goal: Option<Reached> = None;
    loop {
        let order = |reached: &Reached| (reached.0, reached.1.len(), reached.1.clone());
        let next = open.iter().min_by(|(_, a), (_, b)| order(a).cmp(&order(b)));
        let (place, reached) = next.map(|(place, reached)| (place.clone(), reached.clone()))?;
        if goal.as_ref().is_some_and(|goal| order(goal) <= order(&reached)) {
            break;
        }
        open.remove(&place);
        for pair in domains[place.0].pairs.iter().filter(|pair| pair.from == place.1 && has_room(pair, need)) {
            let hop = DomainHop { domain: place.0.to_string(), from: pair.from.clone(), to: pair.to.clone() };
            if without == Some(&hop) {
                continue;
            }
            let mut hops = reached.1.clone();
            hops.push(hop);
            let longer = (reached.0 + u64::from(pair.cost), hops);
            let better = |known: Option<&Reached>| known.is_none_or(|known| order(&longer) < order(known));
            match &pair.to {
                DomainPort::Inside if place.0 == ends.1 => {
                    if better(goal.as_ref()) {
                        goal = Some(longer);
                    }
                }
                DomainPort::Inside => {}
                DomainPort::At(_) => {
                    let Some(entered) = beyond(domains, place.0, &pair.to) else { continue };
                    if !done.contains(&entered) && better(open.get(&entered)) {
                        open.insert(entered, longer);
                    }
                }
            }
        }
        done.insert(place);
        if open.is_empty() {
            break;
        }
    }
    goal.map(|(cost, hops)| DomainPath { cost, hops })
}

fn has_room(pair: &BorderPair, need: PathNeed<'_>) -> bool {
    need.rate <= terms::Rate::ZERO || need.free(pair) >= need.rate
}

/// The place behind a border: the neighbour, entered by the same link, if it publishes that it is our neighbour there.
fn beyond<'a>(domains: &Domains<'a>, domain: &str, to: &DomainPort) -> Option<Entered<'a>> {
    let DomainPort::At(border) = to else { return None };
    let (name, other) = domains.get_key_value(border.neighbour.as_str())?;
    let mine = |port: &DomainPort| matches!(port, DomainPort::At(back) if back.neighbour == domain && back.link == border.link);
    let entered = other.pairs.iter().map(|pair| &pair.from).find(|port| mine(port))?;
    Some((*name, entered.clone()))
}
