//! Background: parts that share the amount that foreground leaves (GARA section 4.1), by weight, none more
//! than it wants, none less than its floor. A part that would get less is suspended, and an event tells it.
//! Every change divides anew.

use crate::broker::Bookings;
use crate::enforce::Place;
use crate::io::EventKind;
use crate::state::{BookingState, LifeStep};
use crate::tables::{Named, Sharer};
use alloc::vec::Vec;
use terms::book::Background;
use terms::ports::Ledger;
use terms::ports::book::Demand;

/// A claim on the amount that is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackgroundClaim {
    /// Weight and floor.
    pub terms: Background,
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

impl Bookings {
    /// Notes that a background part's window is open, with the most that it wants (0: not open).
    pub(crate) fn share(&mut self, resource: u32, place: Place, terms: Background, most: u64, packet: u32) {
        let named = self.resources.get_mut(resource);
        if most == 0 {
            if named.sharing.remove(&place).is_some() {
                self.force.touched.insert(resource);
                self.set_due(resource, place, 0, false);
            }
            return;
        }
        let sharer = named.sharing.entry(place).or_insert(Sharer { terms, most, share: 0, packet, told: false });
        if sharer.most != most || !sharer.told {
            sharer.most = most;
            self.force.touched.insert(resource);
        }
    }

    /// Gives background's slots back while foreground is counted: foreground never waits for background.
    pub(crate) fn release_background<L: Ledger>(&mut self, ledger: &mut L) {
        while let Some(&resource) = self.force.lent.first() {
            self.take_down(ledger, resource);
            self.force.laid.insert(resource);
        }
    }

    fn take_down<L: Ledger>(&mut self, ledger: &mut L, resource: u32) {
        self.force.lent.remove(&resource);
        let named = self.resources.get_mut(resource);
        if let (Some(slot), Some(id)) = (named.lent.take(), named.id) {
            ledger.release(self.now, id, slot);
        }
    }

    /// Divides anew on every resource with a change, and takes the slots that were given back again.
    pub(crate) fn divide_background<L: Ledger>(&mut self, ledger: &mut L) {
        while let Some(resource) = self.force.laid.pop_first() {
            if self.force.touched.contains(&resource) {
                continue;
            }
            if self.grant(ledger, resource) == self.resources.get(resource).grant {
                self.take_up(ledger, resource);
            } else {
                self.force.touched.insert(resource);
            }
        }
        while let Some(resource) = self.force.touched.pop_first() {
            self.take_down(ledger, resource);
            self.redivide(ledger, resource);
            self.take_up(ledger, resource);
        }
    }

    /// Counts background's sum in the ledger, if it is promised, until the last of its open windows ends.
    fn take_up<L: Ledger>(&mut self, ledger: &mut L, resource: u32) {
        let (today, named) = (self.today(), self.resources.get(resource));
        let has = |(place, sharer): (&Place, &Sharer)| {
            let part = self.all.get(&place.0).and_then(|r| r.parts.get(place.1)).filter(|_| sharer.share > 0)?;
            part.steps.iter().find(|step| step.window.contains(today)).map(|step| step.window.end())
        };
        let (Some(id), Some(end)) = (named.id, named.sharing.iter().filter_map(has).max()) else { return };
        let want =
            Demand { amount: named.sharing.values().map(|sharer| sharer.share).sum(), packet: self.least(named) };
        let lent = ledger.lend(self.now, id, self.clock.agents(end), want);
        self.resources.get_mut(resource).lent = lent;
        if lent.is_some() {
            self.force.lent.insert(resource);
        }
    }

    /// The least size of packets of those that share.
    fn least(&self, named: &Named) -> u32 {
        let packets = named.sharing.values().map(|sharer| sharer.packet);
        crate::ask::packet(named.kind, packets.min().unwrap_or(1_000))
    }

    fn redivide<L: Ledger>(&mut self, ledger: &L, resource: u32) {
        let named = self.resources.get(resource);
        if named.sharing.is_empty() {
            return;
        }
        let grant = self.grant(ledger, resource);
        self.resources.get_mut(resource).grant = grant;
        let named = self.resources.get(resource);
        let claims: Vec<(Place, BackgroundClaim)> = named
            .sharing
            .iter()
            .map(|(place, sharer)| (*place, BackgroundClaim { terms: sharer.terms, most: sharer.most }))
            .collect();
        let shares = divide(grant, &claims.iter().map(|(_, claim)| *claim).collect::<Vec<_>>());
        let kind = named.kind;
        for ((place, _), share) in claims.into_iter().zip(shares) {
            let Some(sharer) = self.resources.get_mut(resource).sharing.get_mut(&place) else { continue };
            let from = core::mem::replace(&mut sharer.share, share);
            let told = core::mem::replace(&mut sharer.told, true);
            if from != share || !told {
                self.set_due(resource, place, share, false);
                self.fact(place.0, EventKind::Share { part: place.1, kind, from, to: share });
            }
            self.suspend_or_resume(place.0);
        }
    }

    /// The amount that background parts of a resource may share now: the shared part of premium less the due
    /// amount of foreground, and not more than the amount that no slot of the ledger uses at this instant.
    pub(crate) fn grant<L: Ledger>(&self, ledger: &L, resource: u32) -> u64 {
        let named = self.resources.get(resource);
        let Some((id, offer)) = named.id.and_then(|id| Some((id, ledger.offer(id)?))) else { return 0 };
        let spare = ledger.spare(self.now, id, self.least(named));
        offer.shared.saturating_sub(named.foreground).min(spare)
    }

    /// Suspends a reservation that has an open background part with a share of zero, or resumes it.
    fn suspend_or_resume(&mut self, number: u64) {
        let today = self.today();
        let Some(r) = self.all.get(&number) else { return };
        let starved = |n: usize| {
            let part = &r.parts[n];
            let sharing = self.resources.get(part.resource).sharing.get(&(number, n));
            part.background.is_some() && part.is_open(today) && sharing.is_none_or(|sharer| sharer.share == 0)
        };
        let act = match (r.state, (0..r.parts.len()).any(starved)) {
            (BookingState::Active, true) => LifeStep::Suspend,
            (BookingState::Suspended, false) => LifeStep::Resume,
            _ => return,
        };
        if let Ok(state) = r.state.after(act)
            && let Some(r) = self.all.get_mut(&number)
        {
            r.state = state;
        }
    }
}
