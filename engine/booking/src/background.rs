//! Background: parts that share the amount that foreground leaves (GARA section 4.1), by weight, none more
//! than it wants, none less than its floor. A part that would get less is suspended, and an event tells it.
//! Every change divides anew.

use crate::admission::packet;
use crate::calendar::Calendar;
use crate::enforcement::Enforcement;
use crate::reservations::{Place, Reservation, Reservations};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::Time;
use terms::book::{Background as ShareTerms, ResourceId, ResourceKind};
use terms::ports::Ledger;
use terms::ports::book::{Demand, SlotKey};

/// A claim on the amount that is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackgroundClaim {
    /// Weight and floor.
    pub terms: ShareTerms,
    /// The most that it wants.
    pub most: u64,
}

/// Divides `grant`: each claim's share, in order. Older claims come first: when not all can have their floor,
/// the youngest of those that would be below theirs is suspended, and its share is divided again.
pub fn divide(grant: u64, claims: &[BackgroundClaim]) -> Vec<u64> {
    let mut takes_part: Vec<bool> = claims.iter().map(|claim| claim.most > 0).collect();
    loop {
        let shares = by_weight(grant, claims, &takes_part);
        let below = (0..claims.len()).rev().find(|&n| {
            // Who wants less than the floor is served with what it wants.
            takes_part[n] && shares[n] < claims[n].terms.floor.min(claims[n].most)
        });
        match below {
            Some(n) => takes_part[n] = false,
            None => return shares,
        }
    }
}

/// Weighted max-min: a claim for less than its share leaves the rest to the others.
fn by_weight(grant: u64, claims: &[BackgroundClaim], takes_part: &[bool]) -> Vec<u64> {
    let mut shares = alloc::vec![0; claims.len()];
    let mut open: Vec<usize> = (0..claims.len()).filter(|&n| takes_part[n]).collect();
    let mut left = grant;
    while !open.is_empty() {
        let weights: u128 = open.iter().map(|&n| u128::from(claims[n].terms.weight)).sum();
        let fair = |n: usize| (u128::from(left) * u128::from(claims[n].terms.weight) / weights.max(1)) as u64;
        let content: Vec<usize> = open.iter().copied().filter(|&n| claims[n].most <= fair(n)).collect();
        if content.is_empty() {
            open.iter().for_each(|&n| shares[n] = fair(n));
            break;
        }
        content.iter().for_each(|&n| shares[n] = claims[n].most);
        left -= content.iter().map(|&n| claims[n].most).sum::<u64>();
        open.retain(|n| !content.contains(n));
    }
    shares
}

/// A background part that shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sharer {
    claim: BackgroundClaim,
    share: u64,
    /// The least size of its packets.
    packet: u32,
    /// True if the share has been told.
    told: bool,
}

/// The background of one resource.
#[derive(Clone, Default)]
struct Shared {
    /// Its background parts whose window is open.
    sharers: BTreeMap<Place, Sharer>,
    /// The amount that they could share at the last division.
    grant: u64,
    /// The slot of their sum in the ledger, where that is promised.
    slot: Option<SlotKey>,
}

/// The background of all resources.
#[derive(Clone, Default)]
pub(crate) struct Background {
    shared: BTreeMap<u32, Shared>,
    /// Resources whose background must be divided anew.
    touched: BTreeSet<u32>,
    /// Resources whose background has a slot of the ledger, and those whose slot is released while foreground
    /// is counted.
    lent: BTreeSet<u32>,
    laid: BTreeSet<u32>,
}

/// A background part after a division.
pub(crate) struct Shift {
    place: Place,
    kind: ResourceKind,
    from: u64,
    to: u64,
    news: bool,
}

impl Shift {
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The kind of the resource, and the share before and after; `None`: its owner knows it already.
    pub(crate) fn news(&self) -> Option<(ResourceKind, u64, u64)> {
        self.news.then_some((self.kind, self.from, self.to))
    }
}

impl Background {
    /// Foreground of a resource, or the resource itself, has changed: its background is divided anew.
    pub(crate) fn touch(&mut self, resource: u32) {
        self.touched.insert(resource);
    }

    /// Foreground has given a slot back: background may live on it.
    pub(crate) fn freed(&mut self, resource: u32) {
        if self.is_shared(resource) {
            self.touched.insert(resource);
        }
    }

    /// True if a division is due.
    pub(crate) fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// True if background parts share what others leave of a resource.
    pub(crate) fn is_shared(&self, resource: u32) -> bool {
        self.shared.get(&resource).is_some_and(|shared| !shared.sharers.is_empty())
    }

    /// The sum of all shares of a resource.
    pub(crate) fn lent(&self, resource: u32) -> u64 {
        self.sharers(resource).map(|(_, sharer)| sharer.share).sum()
    }

    fn sharers(&self, resource: u32) -> impl Iterator<Item = (&Place, &Sharer)> {
        self.shared.get(&resource).into_iter().flat_map(|shared| &shared.sharers)
    }

    /// A background part's window is open, with the most that it wants.
    pub(crate) fn join(&mut self, resource: u32, place: Place, claim: BackgroundClaim, packet: u32) {
        let sharers = &mut self.shared.entry(resource).or_default().sharers;
        let sharer = sharers.entry(place).or_insert(Sharer { claim, share: 0, packet, told: false });
        if sharer.claim.most != claim.most || !sharer.told {
            sharer.claim.most = claim.most;
            self.touched.insert(resource);
        }
    }

    /// A background part's window is not open; true if it was.
    pub(crate) fn leave(&mut self, resource: u32, place: Place) -> bool {
        let left = self.shared.get_mut(&resource).is_some_and(|shared| shared.sharers.remove(&place).is_some());
        if left {
            self.touched.insert(resource);
        }
        left
    }

    /// True if a part of a reservation is background and open, and has a share of zero.
    pub(crate) fn is_starved(&self, r: &Reservation, today: Time) -> bool {
        r.parts.iter().enumerate().any(|(n, part)| {
            let shared = || self.shared.get(&part.resource)?.sharers.get(&(r.number, n));
            part.background.is_some() && part.is_open(today) && shared().is_none_or(|sharer| sharer.share == 0)
        })
    }

    /// Gives background's slots back while foreground is counted: foreground never waits for background.
    pub(crate) fn release<L: Ledger>(&mut self, ledger: &mut L, table: &Reservations, now: Time) {
        while let Some(&resource) = self.lent.first() {
            self.take_down(ledger, table, now, resource);
            self.laid.insert(resource);
        }
    }

    fn take_down<L: Ledger>(&mut self, ledger: &mut L, table: &Reservations, now: Time, resource: u32) {
        self.lent.remove(&resource);
        let slot = self.shared.get_mut(&resource).and_then(|shared| shared.slot.take());
        if let (Some(slot), Some(id)) = (slot, table.resources().get(resource).id()) {
            ledger.release(now, id, slot);
        }
    }

    /// Divides anew on every resource with a change, and takes the slots that were given back again. The parts whose
    /// share was computed.
    pub(crate) fn divide<L: Ledger>(
        &mut self,
        ledger: &mut L,
        table: &Reservations,
        enforcement: &mut Enforcement,
        calendar: Calendar,
    ) -> Vec<Shift> {
        let mut shifts = Vec::new();
        let now = calendar.now();
        while let Some(resource) = self.laid.pop_first() {
            if self.touched.contains(&resource) {
                continue;
            }
            let before = self.shared.get(&resource).map_or(0, |shared| shared.grant);
            if self.available(ledger, table, enforcement, now, resource) == before {
                self.take_up(ledger, table, calendar, resource);
            } else {
                self.touched.insert(resource);
            }
        }
        while let Some(resource) = self.touched.pop_first() {
            self.take_down(ledger, table, now, resource);
            if self.is_shared(resource) {
                let grant = self.available(ledger, table, enforcement, now, resource);
                self.redivide(table, enforcement, resource, grant, &mut shifts);
            }
            self.take_up(ledger, table, calendar, resource);
        }
        shifts
    }

    /// Counts background's sum in the ledger, if it is promised, until the last of its open windows ends.
    fn take_up<L: Ledger>(&mut self, ledger: &mut L, table: &Reservations, calendar: Calendar, resource: u32) {
        let today = calendar.today();
        let has = |(place, sharer): (&Place, &Sharer)| {
            let part = table.part(*place).filter(|_| sharer.share > 0)?;
            part.steps.iter().find(|step| step.window.contains(today)).map(|step| step.window.end())
        };
        let Some(end) = self.sharers(resource).filter_map(has).max() else { return };
        let Some(id) = table.resources().get(resource).id() else { return };
        let want = Demand { amount: self.lent(resource), packet: self.least(table, resource) };
        let slot = ledger.lend(calendar.now(), id, calendar.offset().agents(end), want);
        if slot.is_some() {
            self.lent.insert(resource);
        }
        if let Some(shared) = self.shared.get_mut(&resource) {
            shared.slot = slot;
        }
    }

    /// The least size of packets of those that share.
    fn least(&self, table: &Reservations, resource: u32) -> u32 {
        let packets = self.sharers(resource).map(|(_, sharer)| sharer.packet);
        packet(table.resources().get(resource).kind(), packets.min().unwrap_or(1_000))
    }

    fn redivide(
        &mut self,
        table: &Reservations,
        enforcement: &mut Enforcement,
        resource: u32,
        grant: u64,
        shifts: &mut Vec<Shift>,
    ) {
        let Some(shared) = self.shared.get_mut(&resource) else { return };
        shared.grant = grant;
        let kind = table.resources().get(resource).kind();
        let claims: Vec<BackgroundClaim> = shared.sharers.values().map(|sharer| sharer.claim).collect();
        for ((place, sharer), to) in shared.sharers.iter_mut().zip(divide(grant, &claims)) {
            let from = core::mem::replace(&mut sharer.share, to);
            let news = !core::mem::replace(&mut sharer.told, true) || from != to;
            if news {
                enforcement.set_due(resource, *place, to, false);
            }
            shifts.push(Shift { place: *place, kind, from, to, news });
        }
    }

    /// The amount that background parts of a resource may share now: the shared part of premium less the due
    /// amount of foreground, and not more than the amount that no slot of the ledger uses at this instant.
    pub(crate) fn available<L: Ledger>(
        &self,
        ledger: &L,
        table: &Reservations,
        enforcement: &Enforcement,
        now: Time,
        resource: u32,
    ) -> u64 {
        let id: Option<ResourceId> = table.resources().get(resource).id();
        let Some((id, offer)) = id.and_then(|id| Some((id, ledger.offer(id)?))) else { return 0 };
        let spare = ledger.spare(now, id, self.least(table, resource));
        offer.shared.saturating_sub(enforcement.foreground(resource)).min(spare)
    }

    /// For tests: checks that what is due to background parts is their share.
    pub(crate) fn audit(&self, enforcement: &Enforcement) -> Result<(), &'static str> {
        for shared in self.shared.values() {
            let all: u64 = shared.sharers.values().map(|sharer| sharer.share).sum();
            if shared.sharers.iter().any(|(at, sharer)| sharer.told && enforcement.due(*at) != sharer.share)
                || all > 1 << 62
            {
                return Err("what is due to background");
            }
        }
        Ok(())
    }
}
