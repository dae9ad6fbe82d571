//! Sums for policy: an owner's foreground parts on a resource, and those of all users of a rule, which a rule may limit
//! beside each owner's.

use super::grants::{Account, Grant, accounts};
use super::reservation::Part;
use admit::profile::UseProfile;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::book::RateStep;

/// The sums of one account, by resource.
type Totals = BTreeMap<u32, UseProfile>;

/// The sums of every owner and every rule, while they are kept.
#[derive(Clone)]
pub(crate) struct Sums {
    kept: bool,
    owners: Vec<Totals>,
    rules: BTreeMap<Account, Totals>,
    /// Of everybody.
    all: Totals,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums { kept: true, owners: Vec::new(), rules: BTreeMap::new(), all: Totals::new() }
    }
}

impl Sums {
    /// True if sums are kept.
    pub(super) fn kept(&self) -> bool {
        self.kept
    }

    /// Clears all sums, and keeps them from now on or not.
    pub(super) fn clear(&mut self, kept: bool) {
        *self = Sums { kept, ..Sums::default() };
    }

    /// Adds a part to the sums, if they are kept (or, with a sign of -1, takes it out).
    pub(super) fn add(&mut self, owner: u32, grant: &Grant, part: &Part, sign: i64) {
        if !self.kept || part.background.is_some() {
            return;
        }
        let owner = owner as usize;
        if self.owners.len() <= owner {
            self.owners.resize(owner + 1, Totals::new());
        }
        add(&mut self.owners[owner], part, sign);
        add(&mut self.all, part, sign);
        for account in accounts(grant) {
            add(self.rules.entry(account).or_default(), part, sign);
        }
    }

    /// The most that an owner has of a resource at any instant of these steps, with these steps added.
    pub(crate) fn of_owner(&self, owner: u32, resource: Option<u32>, steps: &[RateStep]) -> u64 {
        most_of(self.owners.get(owner as usize), resource, steps)
    }

    /// The same of all users of a rule, or (not empty) of a group of it.
    pub(crate) fn of_rule(&self, rule: &str, group: &str, resource: Option<u32>, steps: &[RateStep]) -> u64 {
        most_of(self.rules.get(&(Box::from(rule), Box::from(group))), resource, steps)
    }

    /// The same of everybody.
    pub(crate) fn of_all(&self, resource: Option<u32>, steps: &[RateStep]) -> u64 {
        most_of(Some(&self.all), resource, steps)
    }

    /// The sums of everybody: resource, sum.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &UseProfile)> {
        self.all.iter().map(|(resource, total)| (*resource, total))
    }

    /// The sums of an owner: resource, sum.
    pub(super) fn owners(&self, owner: u32) -> impl Iterator<Item = (u32, &UseProfile)> {
        self.owners.get(owner as usize).into_iter().flatten().map(|(resource, total)| (*resource, total))
    }

    /// The sums of rules: account, resource, sum.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&Account, u32, &UseProfile)> {
        self.rules.iter().flat_map(|(account, totals)| totals.iter().map(move |(of, total)| (account, *of, total)))
    }
}

fn add(totals: &mut Totals, part: &Part, sign: i64) {
    let total = totals.entry(part.resource).or_default();
    for step in &part.steps {
        total.add(step.window.start(), step.window.end(), sign * step.amount as i64);
    }
}

/// The most of a sum at any instant of these steps, with these steps added.
fn most_of(totals: Option<&Totals>, resource: Option<u32>, steps: &[RateStep]) -> u64 {
    let total = totals.zip(resource).and_then(|(totals, resource)| totals.get(&resource));
    let had = |step: &RateStep| total.map_or(0, |total| total.peak(step.window.start(), step.window.end()));
    steps.iter().map(|step| had(step).saturating_add(step.amount)).max().unwrap_or(0)
}
