//! The changes that a directory needs, carried out one by one: a refusal of one keeps none of the others.

use crate::entry::{DirectoryEntry, DirectoryKey};
use crate::publish::ToPublish;
use crate::server::{ALREADY_EXISTS, DirectoryError, DirectoryLook, DirectoryServer, NO_SUCH_OBJECT};
use documents::book::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// The most reasons of failures that are kept; all are counted.
const REASONS: usize = 20;
/// So many refusals one after the other: the rest is left for the next time.
const IN_A_ROW: usize = 200;

/// A change of the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryChange {
    /// The entry of this name goes.
    Remove(String, DirectoryKey),
    /// These attributes of the entry of this name are replaced.
    Replace(String, DirectoryEntry, Vec<(String, Vec<String>)>),
    /// A new entry.
    Add(DirectoryEntry),
}

/// The result of an update.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DirectoryReport {
    /// Entries that are new.
    pub added: usize,
    /// Entries that were written again.
    pub renewed: usize,
    /// Entries that were removed.
    pub removed: usize,
    /// Changes that were refused, or not tried any more.
    pub failed: usize,
    /// The first reasons.
    pub reasons: Vec<String>,
}

/// The changes that make the directory what it should be: removals first, because they make room; children go before their
/// parents and come after them. `known`: the publisher's own entries, as far as the directory says them.
pub fn plan(known: &[(String, DirectoryEntry)], wanted: &ToPublish, now: Instant) -> Vec<DirectoryChange> {
    let mut there: BTreeMap<&DirectoryKey, (&str, &DirectoryEntry)> = BTreeMap::new();
    let mut gone: Vec<(&DirectoryKey, &str)> = Vec::new();
    let wanted_keys: BTreeSet<&DirectoryKey> = wanted.entries.iter().map(|entry| &entry.key).collect();
    for (dn, entry) in known {
        let old = entry.valid_until().is_none_or(|until| until <= now);
        if wanted_keys.contains(&entry.key) {
            there.insert(&entry.key, (dn, entry));
        } else if old || !is_unknown(&entry.key, wanted, &wanted_keys) {
            gone.push((&entry.key, dn));
        }
    }
    gone.sort_by(|one, other| other.cmp(one));
    let mut changes: Vec<DirectoryChange> =
        gone.into_iter().map(|(key, dn)| DirectoryChange::Remove(dn.to_owned(), key.clone())).collect();
    let renewed = wanted.entries.iter().filter_map(|entry| Some((entry, there.get(&entry.key)?)));
    changes.extend(renewed.filter_map(|(entry, (dn, before))| {
        let values = difference(before, entry);
        (!values.is_empty()).then(|| DirectoryChange::Replace((*dn).to_owned(), entry.clone(), values))
    }));
    let new = wanted.entries.iter().filter(|entry| !there.contains_key(&entry.key));
    changes.extend(new.cloned().map(DirectoryChange::Add));
    changes
}

/// True if what became of this is not known now: its agent is away, or the domain said nothing. It stays until it is too old.
fn is_unknown(key: &DirectoryKey, wanted: &ToPublish, wanted_keys: &BTreeSet<&DirectoryKey>) -> bool {
    match key {
        DirectoryKey::Agent(agent) | DirectoryKey::Resource(agent, _) => wanted.all_away || wanted.away.contains(agent),
        DirectoryKey::Domain(_) | DirectoryKey::Way(..) => {
            wanted.all_away || !wanted_keys.iter().any(|key| matches!(key, DirectoryKey::Domain(_)))
        }
    }
}

/// The attributes that differ, with their new values.
fn difference(before: &DirectoryEntry, after: &DirectoryEntry) -> Vec<(String, Vec<String>)> {
    let same = |name: &str, values: &[String]| {
        let as_set = |values: &[String]| values.iter().cloned().collect::<BTreeSet<_>>();
        before.attributes().get(name).is_some_and(|there| as_set(there) == as_set(values))
    };
    let changed = after.attributes().iter().filter(|(name, values)| !same(name, values));
    let lost = before.attributes().keys().filter(|name| !after.attributes().contains_key(*name));
    changed
        .map(|(name, values)| (name.clone(), values.clone()))
        .chain(lost.map(|name| (name.clone(), Vec::new())))
        .collect()
}

fn all_attributes(entry: &DirectoryEntry) -> Vec<(String, Vec<String>)> {
    entry.attributes().iter().map(|(name, values)| (name.clone(), values.clone())).collect()
}

/// A directory that is brought up to date.
#[derive(Debug)]
pub struct DirectoryUpdate<'a> {
    server: &'a mut DirectoryServer,
    base: &'a str,
    publisher: &'a str,
    now: Instant,
    report: DirectoryReport,
}

impl<'a> DirectoryUpdate<'a> {
    /// An update of what this publisher has below `base`.
    pub fn new(
        server: &'a mut DirectoryServer,
        base: &'a str,
        publisher: &'a str,
        now: Instant,
    ) -> DirectoryUpdate<'a> {
        DirectoryUpdate { server, base, publisher, now, report: DirectoryReport::default() }
    }

    /// The publisher's own entries. A server with a limit of entries is asked agent by agent, domain by domain.
    ///
    /// # Errors
    /// Any [`DirectoryError`].
    pub fn known(&mut self, wanted: &ToPublish) -> Result<Vec<(String, DirectoryEntry)>, DirectoryError> {
        let ours = format!("(sluicePublisher={})", ldap3::ldap_escape(self.publisher));
        let found = match self.server.search(self.base, &ours) {
            Err(DirectoryError::Refused { code: NO_SUCH_OBJECT, .. }) => return Ok(Vec::new()),
            found => found?,
        };
        if !found.more {
            return Ok(found.entries);
        }
        let mut all: BTreeMap<String, DirectoryEntry> = found.entries.into_iter().collect();
        let keys = all.values().map(|entry| &entry.key).chain(wanted.entries.iter().map(|entry| &entry.key));
        let parts: BTreeSet<(&str, String)> = keys
            .map(|key| match key {
                DirectoryKey::Agent(name) | DirectoryKey::Resource(name, _) => ("sluiceAgentName", name.clone()),
                DirectoryKey::Domain(name) | DirectoryKey::Way(name, _) => ("sluiceDomainName", name.clone()),
            })
            .collect();
        for (attribute, name) in parts {
            let filter = format!("(&{ours}({attribute}={}))", ldap3::ldap_escape(name.as_str()));
            all.extend(self.server.search(self.base, &filter)?.entries);
        }
        Ok(all.into_iter().collect())
    }

    /// Makes the entry of the base if there is none and it is an organizational unit.
    ///
    /// # Errors
    /// Any [`DirectoryError`].
    pub fn make_base(&mut self) -> Result<(), DirectoryError> {
        if self.server.look(self.base)? != DirectoryLook::Nothing {
            return Ok(());
        }
        let unit = self.base.split(',').next().and_then(|first| first.split_once('='));
        match unit {
            Some((attribute, name)) if attribute.trim().eq_ignore_ascii_case("ou") && !name.contains('\\') => {
                let name = name.trim().to_owned();
                match self.server.add(self.base, "organizationalUnit", &[("ou".to_owned(), vec![name])]) {
                    Err(DirectoryError::Refused { code: ALREADY_EXISTS, .. }) => Ok(()),
                    said => said,
                }
            }
            _ => Err(DirectoryError::Refused {
                code: NO_SUCH_OBJECT,
                text: format!("there is no entry {:?}, and only an ou= can be made", self.base),
            }),
        }
    }

    /// Carries out the changes.
    ///
    /// # Errors
    /// The directory went away; what was done until then is in the report beside it.
    pub fn carry_out(mut self, changes: &[DirectoryChange]) -> (DirectoryReport, Result<(), DirectoryError>) {
        let mut in_a_row = 0;
        for (number, change) in changes.iter().enumerate() {
            match self.one(change) {
                Ok(()) => in_a_row = 0,
                Err(error @ DirectoryError::Away(_)) => return (self.report, Err(error)),
                Err(error) => {
                    self.failed(change, &error.to_string());
                    in_a_row += 1;
                }
            }
            if in_a_row == IN_A_ROW {
                let left = changes.len() - number - 1;
                self.report.failed += left;
                if left > 0 {
                    self.report.reasons.push(format!("{left} more were not tried: everything is refused"));
                }
                break;
            }
        }
        (self.report, Ok(()))
    }

    fn failed(&mut self, change: &DirectoryChange, why: &str) {
        let key = match change {
            DirectoryChange::Remove(_, key) => key,
            DirectoryChange::Replace(_, entry, _) | DirectoryChange::Add(entry) => &entry.key,
        };
        self.report.failed += 1;
        if self.report.reasons.len() < REASONS {
            self.report.reasons.push(format!("{}: {why}", key.text().escape_debug()));
        }
    }

    fn one(&mut self, change: &DirectoryChange) -> Result<(), DirectoryError> {
        match change {
            DirectoryChange::Remove(dn, _) => match self.server.remove(dn) {
                Err(DirectoryError::Refused { code: NO_SUCH_OBJECT, .. }) => Ok(()),
                said => said.map(|()| self.report.removed += 1),
            },
            DirectoryChange::Replace(dn, entry, values) => match self.server.replace(dn, values) {
                // Somebody removed it meanwhile.
                Err(DirectoryError::Refused { code: NO_SUCH_OBJECT, .. }) => self.add(entry),
                said => said.map(|()| self.report.renewed += 1),
            },
            DirectoryChange::Add(entry) => self.add(entry),
        }
    }

    fn add(&mut self, entry: &DirectoryEntry) -> Result<(), DirectoryError> {
        let dn = entry.key.dn(self.base);
        match self.server.add(&dn, entry.key.class(), &all_attributes(entry)) {
            Err(DirectoryError::Refused { code: ALREADY_EXISTS, .. }) => self.take(&dn, entry),
            said => said.map(|()| self.report.added += 1),
        }
    }

    /// Writes an entry that is there already: it is ours, or was not renewed.
    fn take(&mut self, dn: &str, entry: &DirectoryEntry) -> Result<(), DirectoryError> {
        let refuse = |text: String| Err(DirectoryError::Refused { code: ALREADY_EXISTS, text });
        let there = match self.server.look(dn)? {
            DirectoryLook::Ours(there) => there,
            DirectoryLook::Other => return refuse("an entry of another class has this name".to_owned()),
            DirectoryLook::Nothing => return refuse("the entry is there, and we may not see it".to_owned()),
        };
        let other = there.value("sluicePublisher").filter(|name| *name != self.publisher);
        if let Some(other) = other
            && there.valid_until().is_some_and(|until| until > self.now)
        {
            return refuse(format!("{other:?} publishes this entry"));
        }
        let values = difference(&there, entry);
        self.server.replace(dn, &values).map(|()| self.report.renewed += 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::write_instant;
    use terms::Time;

    fn t(s: u64) -> Instant {
        Instant(Time::from_nanos(s * 1_000_000_000))
    }

    fn entry(key: DirectoryKey, free: &str, until: u64) -> DirectoryEntry {
        let mut entry = DirectoryEntry::new(key);
        entry.set("sluiceFree", free);
        entry.set("sluiceValidUntil", write_instant(t(until)));
        entry
    }

    fn agent(name: &str) -> DirectoryKey {
        DirectoryKey::Agent(name.into())
    }

    fn net(name: &str) -> DirectoryKey {
        DirectoryKey::Resource(name.into(), "net/eth1".into())
    }

    fn wanted(entries: Vec<DirectoryEntry>, away: &[&str]) -> ToPublish {
        let away = away.iter().map(|name| (*name).to_owned()).collect();
        ToPublish { entries, away, all_away: false, left_out: Vec::new() }
    }

    fn known(entries: &[DirectoryEntry]) -> Vec<(String, DirectoryEntry)> {
        entries.iter().map(|entry| (entry.key.dn("o=x"), entry.clone())).collect()
    }

    #[test]
    fn what_is_gone_goes_children_first_and_what_is_new_comes_parents_first() {
        let there =
            known(&[entry(agent("old"), "1", 500), entry(net("old"), "1", 500), entry(agent("maui"), "1", 500)]);
        let now = wanted(
            vec![entry(agent("maui"), "1", 600), entry(agent("new"), "1", 600), entry(net("new"), "2", 600)],
            &[],
        );
        let changes = plan(&there, &now, t(400));
        let words: Vec<String> = changes
            .iter()
            .map(|change| match change {
                DirectoryChange::Remove(_, key) => format!("- {}", key.text()),
                DirectoryChange::Replace(_, entry, values) => format!("= {} {}", entry.key.text(), values.len()),
                DirectoryChange::Add(entry) => format!("+ {}", entry.key.text()),
            })
            .collect();
        assert_eq!(words, ["- old/net/eth1", "- old", "= maui 1", "+ new", "+ new/net/eth1"]);
    }

    #[test]
    fn what_an_agent_that_is_away_has_stays_until_it_is_too_old() {
        let there = known(&[entry(agent("maui"), "1", 500), entry(net("maui"), "1", 500)]);
        let now = wanted(vec![entry(agent("maui"), "1", 600)], &["maui"]);
        let removed =
            |at: u64| plan(&there, &now, t(at)).iter().any(|change| matches!(change, DirectoryChange::Remove(..)));
        assert!(!removed(499));
        assert!(removed(500));
        let nothing = ToPublish { all_away: true, ..wanted(Vec::new(), &[]) };
        assert!(plan(&there, &nothing, t(499)).is_empty());
        assert_eq!(plan(&there, &nothing, t(500)).len(), 2);
    }

    #[test]
    fn only_what_differs_is_written() {
        let mut before = entry(agent("maui"), "1", 500);
        before.set("sluiceVersion", "0.1");
        let after = entry(agent("maui"), "2", 500);
        assert_eq!(
            difference(&before, &after),
            [("sluiceFree".to_owned(), vec!["2".to_owned()]), ("sluiceVersion".to_owned(), vec![])]
        );
        assert!(difference(&before, &before.clone()).is_empty());
    }
}
