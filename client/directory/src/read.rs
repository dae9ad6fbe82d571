//! The entries of a directory as rows for people and programs, and whether they may still be believed.

use crate::entry::{DirectoryEntry, DirectoryKey, read_instant};
use crate::server::{DirectoryError, DirectoryServer};
use documents::book::Instant;
use serde::Serialize;

/// The filter of all that is ours by class.
const OURS: &str =
    "(|(objectClass=sluiceAgent)(objectClass=sluiceResource)(objectClass=sluiceDomain)(objectClass=sluiceWay))";

/// A row.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DirectoryRow {
    /// `agent`, `resource`, `domain` or `way`.
    pub kind: &'static str,
    /// The agent, of an agent or a resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The resource: `net/eth1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The domain, of a domain or a way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The way: its ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// The name of its publisher.
    pub publisher: String,
    /// The end of its validity; null: it does not say, and is not believed.
    pub valid_until: Option<Instant>,
    /// The time at which its figures were read.
    pub updated: Option<Instant>,
    /// `up` or `away`, of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The agent's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The unit of the amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The strength of the guarantee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<String>,
    /// The most that can be booked at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// The amount that was free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// The time of the next change of the free amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_change: Option<Instant>,
    /// The amount that is free from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_free: Option<u64>,
    /// The neighbour from whom packets come in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_neighbour: Option<String>,
    /// The border link by which they come in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_link: Option<String>,
    /// The neighbour to whom they go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_neighbour: Option<String>,
    /// The border link by which they leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_link: Option<String>,
    /// The cost of the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// The networks of the domain's hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// The addresses at which to reserve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contact: Vec<String>,
}

/// The entries of a directory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectoryDoc {
    /// The rows that may be believed, or all.
    pub entries: Vec<DirectoryRow>,
    /// The number of entries that were too old.
    pub old: usize,
    /// True if the directory has more than it says at once.
    pub more: bool,
}

impl DirectoryRow {
    /// The row of an entry.
    pub fn of(entry: &DirectoryEntry) -> DirectoryRow {
        let text = |name: &str| entry.value(name).map(str::to_owned);
        let number = |name: &str| entry.value(name).and_then(|value| value.parse().ok());
        let instant = |name: &str| entry.value(name).and_then(read_instant);
        let kind = match entry.key {
            DirectoryKey::Agent(_) => "agent",
            DirectoryKey::Resource(..) => "resource",
            DirectoryKey::Domain(_) => "domain",
            DirectoryKey::Way(..) => "way",
        };
        let all = |name: &str| entry.attributes().get(name).cloned().unwrap_or_default();
        DirectoryRow {
            kind,
            agent: text("sluiceAgentName"),
            resource: text("sluiceResourceName"),
            domain: text("sluiceDomainName"),
            way: text("sluiceWayName"),
            publisher: text("sluicePublisher").unwrap_or_default(),
            valid_until: instant("sluiceValidUntil"),
            updated: instant("sluiceUpdated"),
            state: text("sluiceState"),
            version: text("sluiceVersion"),
            unit: text("sluiceUnit"),
            guarantee: text("sluiceGuarantee"),
            capacity: number("sluiceCapacity"),
            free: number("sluiceFree"),
            next_change: instant("sluiceNextChange"),
            next_free: number("sluiceNextFree"),
            from_neighbour: text("sluiceFromNeighbour"),
            from_link: text("sluiceFromLink"),
            to_neighbour: text("sluiceToNeighbour"),
            to_link: text("sluiceToLink"),
            cost: number("sluiceCost"),
            networks: all("sluiceNetwork"),
            contact: all("sluiceContact"),
        }
    }
}

/// Reads all that is below `base`; without `all`, only what may still be believed at `now`.
///
/// # Errors
/// Any [`DirectoryError`].
pub fn read(server: &mut DirectoryServer, base: &str, now: Instant, all: bool) -> Result<DirectoryDoc, DirectoryError> {
    let found = server.search(base, OURS)?;
    Ok(doc(found.entries.iter().map(|(_, entry)| entry), found.more, now, all))
}

fn doc<'a>(entries: impl Iterator<Item = &'a DirectoryEntry>, more: bool, now: Instant, all: bool) -> DirectoryDoc {
    let mut entries: Vec<&DirectoryEntry> = entries.collect();
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    let rows: Vec<DirectoryRow> = entries.into_iter().map(DirectoryRow::of).collect();
    let good = |row: &DirectoryRow| row.valid_until.is_some_and(|until| until > now);
    let old = rows.iter().filter(|row| !good(row)).count();
    DirectoryDoc { entries: rows.into_iter().filter(|row| all || good(row)).collect(), old, more }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Time;

    #[test]
    fn what_is_too_old_or_does_not_say_is_not_believed() {
        let at = |s: u64| Instant(Time::from_nanos(s * 1_000_000_000));
        let entry = |name: &str, until: Option<&str>| {
            let mut entry = DirectoryEntry::new(DirectoryKey::Resource("maui".into(), name.into()));
            entry.set("sluiceFree", "7");
            entry.set("sluiceCapacity", "-3");
            if let Some(until) = until {
                entry.set("sluiceValidUntil", until);
            }
            entry
        };
        let all = [entry("a", Some("19700101000140Z")), entry("b", None), entry("c", Some("soon"))];
        let found = doc(all.iter(), false, at(99), false);
        assert_eq!((found.entries.len(), found.old), (1, 2));
        assert_eq!((found.entries[0].free, found.entries[0].capacity), (Some(7), None));
        assert_eq!(doc(all.iter(), false, at(100), false).entries.len(), 0, "the end is not part of it");
        assert_eq!(doc(all.iter(), false, at(100), true).entries.len(), 3);
    }
}
