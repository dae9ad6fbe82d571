//! The rule of policy by which each part was granted, and the sums over all users of a rule, which a rule may
//! limit beside each owner's. A part's grant is written with it, so that the sums survive a crash.

use crate::reservation::Part;
use crate::tables::most_of;
use admit::profile::UseProfile;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::book::RateStep;

/// The rule and the groups by which a part was granted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Grant {
    /// The rule's name; empty: a record of an earlier build, without this field.
    pub(crate) rule: Box<str>,
    /// The groups of the caller by which the rule applies.
    pub(crate) groups: Vec<Box<str>>,
}

/// All grants, by small numbers, and the sums.
#[derive(Clone, Default)]
pub(crate) struct Grants {
    names: BTreeMap<Grant, u32>,
    all: Vec<Grant>,
    totals: BTreeMap<Account, BTreeMap<u32, UseProfile>>,
}

/// A rule, and a group of it; the empty group: all users of the rule.
type Account = (Box<str>, Box<str>);

impl Grants {
    pub(crate) fn place(&mut self, grant: Grant) -> u32 {
        if let Some(place) = self.names.get(&grant) {
            return *place;
        }
        let place = self.all.len() as u32;
        self.names.insert(grant.clone(), place);
        self.all.push(grant);
        place
    }

    pub(crate) fn get(&self, place: u32) -> &Grant {
        &self.all[place as usize]
    }

    /// Clears all sums.
    pub(crate) fn clear_sums(&mut self) {
        self.totals.clear();
    }

    /// Adds a part to the sums (or, with a sign of -1, takes it out).
    pub(crate) fn sum(&mut self, part: &Part, sign: i64) {
        if part.background.is_some() {
            return;
        }
        for account in accounts(&self.all[part.grant as usize]) {
            let total = self.totals.entry(account).or_default().entry(part.resource).or_default();
            for step in &part.steps {
                total.add(step.window.start(), step.window.end(), sign * step.amount as i64);
            }
        }
    }

    /// The largest sum of a resource under a rule, in a group of it or (empty) of all its users, at any
    /// instant of these steps, with these steps added.
    pub(crate) fn together(&self, rule: &str, group: &str, resource: Option<u32>, steps: &[RateStep]) -> u64 {
        let totals = self.totals.get(&(Box::from(rule), Box::from(group)));
        most_of(totals.zip(resource).and_then(|(totals, resource)| totals.get(&resource)), steps)
    }

    /// The sums, for audits: account, resource, sum.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (&Account, u32, &UseProfile)> {
        self.totals.iter().flat_map(|(account, totals)| totals.iter().map(move |(of, total)| (account, *of, total)))
    }
}

/// The sums to which a grant counts.
pub(crate) fn accounts(grant: &Grant) -> impl Iterator<Item = Account> {
    let known = !grant.rule.is_empty();
    let groups = grant.groups.iter().cloned();
    let all = known.then(|| (grant.rule.clone(), Box::from("")));
    let rule = grant.rule.clone();
    all.into_iter().chain(groups.filter(move |_| known).map(move |group| (rule.clone(), group)))
}
