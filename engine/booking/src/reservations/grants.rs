//! The rule of policy by which each part was granted. It is written with the part, so that sums survive a crash.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The rule and the groups by which a part was granted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Grant {
    rule: Box<str>,
    groups: Vec<Box<str>>,
}

/// A rule, and a group of it; the empty group: all users of the rule.
pub(crate) type Account = (Box<str>, Box<str>);

impl Grant {
    pub(crate) fn new(rule: Box<str>, groups: Vec<Box<str>>) -> Grant {
        Grant { rule, groups }
    }

    /// The rule's name; empty: a record of an earlier build, without this field.
    pub(crate) fn rule(&self) -> &str {
        &self.rule
    }

    /// The groups of the caller by which the rule applies.
    pub(crate) fn groups(&self) -> &[Box<str>] {
        &self.groups
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

/// All grants, by small numbers.
#[derive(Clone, Default)]
pub(crate) struct Grants {
    names: BTreeMap<Grant, u32>,
    all: Vec<Grant>,
}

impl Grants {
    pub(super) fn place(&mut self, grant: Grant) -> u32 {
        if let Some(place) = self.names.get(&grant) {
            return *place;
        }
        let place = self.all.len() as u32;
        self.names.insert(grant.clone(), place);
        self.all.push(grant);
        place
    }

    pub(super) fn get(&self, place: u32) -> &Grant {
        &self.all[place as usize]
    }
}
