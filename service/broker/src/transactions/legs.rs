//! Legs: what this domain knows of a reservation that goes on in another domain, or comes from one. They are
//! written with the decision that makes them true, and kept until their windows have passed.

use documents::book::Instant;
use documents::legs::LegDoc;
use documents::topology::StatementDoc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use terms::{Span, Time};

/// The time for which a leg is kept after its last window.
const KEPT: Span = Span::from_secs(30 * 86_400);
/// The most legs that are kept; the oldest that are over make way.
const MOST: usize = 100_000;

/// A leg of a reservation across domains.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LegRecord {
    /// The reservation's name here.
    pub reservation: String,
    /// The transaction of the broker that asked first, 32 hexadecimal digits.
    pub origin: String,
    /// The domain that asked for it; `None`: it begins here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<LegAbove>,
    /// The domain that we have asked for the next leg; `None`: it ends here, or it is a tree's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<LegNext>,
    /// In a tree that begins here: the domains that we have asked, the nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tree: Vec<LegNext>,
    /// In a tree that begins elsewhere: the domain to which packets go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// The owner here.
    pub owner: String,
    /// The leg.
    pub leg: LegDoc,
    /// The acceptances, from the nearest domain on; ours is the first if another domain asked for it.
    #[serde(default)]
    pub acceptances: Vec<StatementDoc>,
    /// The time at which they were checked here.
    pub noted: Instant,
    /// True: it was given back.
    #[serde(default)]
    pub over: bool,
}

/// The domain that asked for a leg.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LegAbove {
    /// Its name.
    pub domain: String,
    /// The reservation's name there.
    pub reservation: String,
    /// The domains that the question has come through, the first one first.
    pub via: Vec<String>,
    /// In a tree: the domain from which packets come; `None`: in a chain, the one that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// A domain that we have asked for a leg.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LegNext {
    /// Its name.
    pub domain: String,
    /// The network of the border link.
    pub border: String,
}

impl LegRecord {
    /// The domains that we have asked, the nearest first.
    pub fn asked(&self) -> impl Iterator<Item = &LegNext> {
        self.next.iter().chain(&self.tree)
    }

    /// The end of the last window.
    fn until(&self) -> Time {
        self.leg.windows.iter().map(|window| window.end.0).max().unwrap_or(Time::ZERO)
    }
}

/// All legs that are kept, by the reservation's name.
#[derive(Debug, Default)]
pub struct KeptLegs {
    all: BTreeMap<String, LegRecord>,
}

impl KeptLegs {
    /// The legs of a journal.
    pub fn new(legs: Vec<LegRecord>) -> KeptLegs {
        KeptLegs { all: legs.into_iter().map(|leg| (leg.reservation.clone(), leg)).collect() }
    }

    /// Keeps a leg, and forgets those whose time is over; returns their names.
    pub fn keep(&mut self, leg: LegRecord, today: Time) -> Vec<String> {
        self.all.insert(leg.reservation.clone(), leg);
        let old = |leg: &&LegRecord| leg.until() != Time::FOREVER && leg.until().saturating_add(KEPT) <= today;
        let mut gone: Vec<String> = self.all.values().filter(old).map(|leg| leg.reservation.clone()).collect();
        if self.all.len() - gone.len() > MOST {
            let over = self.all.values().filter(|leg| leg.over || leg.until() <= today);
            let first = over.min_by_key(|leg| leg.noted.0).map(|leg| leg.reservation.clone());
            gone.extend(first);
        }
        gone.iter().for_each(|name| drop(self.all.remove(name)));
        gone
    }

    /// The leg of a reservation.
    pub fn get(&self, reservation: &str) -> Option<&LegRecord> {
        self.all.get(reservation)
    }

    /// All legs.
    pub fn all(&self) -> impl Iterator<Item = &LegRecord> {
        self.all.values()
    }
}
