//! From the documents of a broker or an agent to entries.

use crate::entry::{DirectoryEntry, DirectoryKey, write_instant};
use documents::book::{Instant, ResourceRow, StepDoc};
use documents::overview::AgentRow;
use documents::topology::{AdvertisementDoc, BorderRow, DomainWayRow};
use terms::Span;

/// All that was read from a broker, or from one agent.
#[derive(Clone, Debug)]
pub struct SiteSnapshot {
    /// The time of the reading.
    pub at: Instant,
    /// The agents.
    pub agents: Vec<AgentRow>,
    /// The resources, AGENT/RESOURCE, each with the timeline of what is free.
    pub resources: Vec<ResourceRow>,
    /// The domain's advertisement of itself.
    pub domain: Option<AdvertisementDoc>,
}

/// The settings of publication.
#[derive(Clone, Debug)]
pub struct PublishSettings {
    /// The publisher's name; it removes its own entries only.
    pub publisher: String,
    /// The time for which an entry may be believed.
    pub valid: Span,
    /// The addresses at which to reserve.
    pub contact: Vec<String>,
    /// The most entries.
    pub most: usize,
}

/// The entries, and what was left out.
#[derive(Clone, Debug)]
pub struct ToPublish {
    /// The entries, parents first.
    pub entries: Vec<DirectoryEntry>,
    /// The agents that did not answer: their resources stay until they are too old.
    pub away: Vec<String>,
    /// True if there was no answer, so that nothing is known.
    pub all_away: bool,
    /// The entries that cannot be published, each with the reason.
    pub left_out: Vec<String>,
}

impl ToPublish {
    /// Nothing, because there was no answer.
    pub fn nothing() -> ToPublish {
        ToPublish { entries: Vec::new(), away: Vec::new(), all_away: true, left_out: Vec::new() }
    }
}

/// Makes the entries.
pub fn entries(seen: &SiteSnapshot, settings: &PublishSettings) -> ToPublish {
    let until = Instant(seen.at.0.saturating_add(settings.valid));
    let mut all: Vec<DirectoryEntry> = seen.agents.iter().map(|row| of_agent(row, settings)).collect();
    all.extend(seen.resources.iter().filter_map(|row| of_resource(row, seen.at)));
    if let Some(domain) = &seen.domain {
        let mut entry = DirectoryEntry::new(DirectoryKey::Domain(domain.domain.clone()));
        entry.set_all("sluiceNetwork", domain.networks.clone());
        entry.set_all("sluiceContact", settings.contact.clone());
        all.push(entry);
        all.extend(domain.ways.iter().map(|way| of_way(&domain.domain, way, seen.at)));
    }
    for entry in &mut all {
        let domains = matches!(entry.key, DirectoryKey::Domain(_) | DirectoryKey::Way(..));
        // What a domain says of itself ends when it said.
        let end = seen.domain.as_ref().filter(|_| domains).map_or(until, |domain| until.min(domain.until));
        entry.set("sluicePublisher", settings.publisher.clone());
        entry.set("sluiceUpdated", write_instant(seen.at));
        entry.set("sluiceValidUntil", write_instant(end));
    }
    all.sort_by(|one, other| one.key.cmp(&other.key));
    let mut left_out = Vec::new();
    all.retain(|entry| match entry.check() {
        Ok(()) => true,
        Err(why) => {
            left_out.push(format!("{}: {why}", entry.key.text().escape_debug()));
            false
        }
    });
    all.dedup_by(|one, before| one.key == before.key);
    if all.len() > settings.most {
        left_out.push(format!("{} entries: {} are the most", all.len(), settings.most));
        all.truncate(settings.most);
    }
    let away = seen.agents.iter().filter(|row| row.away.is_some()).map(|row| row.agent.clone()).collect();
    ToPublish { entries: all, away, all_away: false, left_out }
}

fn of_agent(row: &AgentRow, settings: &PublishSettings) -> DirectoryEntry {
    let mut entry = DirectoryEntry::new(DirectoryKey::Agent(row.agent.clone()));
    entry.set("sluiceState", if row.away.is_some() { "away" } else { "up" });
    if let Some(version) = &row.version {
        entry.set("sluiceVersion", version.clone());
    }
    entry.set_all("sluiceContact", settings.contact.clone());
    entry
}

fn of_resource(row: &ResourceRow, at: Instant) -> Option<DirectoryEntry> {
    let (agent, name) = row.resource.split_once('/')?;
    let mut entry = DirectoryEntry::new(DirectoryKey::Resource(agent.to_owned(), name.to_owned()));
    let unit = if row.unit == "cores" { "millicores" } else { row.unit.as_str() };
    let whole = |amount: f64| whole(amount, &row.unit).to_string();
    entry.set("sluiceUnit", unit);
    entry.set("sluiceGuarantee", row.kind.clone());
    entry.set("sluiceCapacity", whole(row.capacity));
    entry.set("sluiceFree", whole(row.free));
    if let Some(step) = next_change(&row.timeline, at) {
        entry.set("sluiceNextChange", write_instant(step.start));
        entry.set("sluiceNextFree", whole(step.amount));
    }
    Some(entry)
}

fn of_way(domain: &str, way: &DomainWayRow, at: Instant) -> DirectoryEntry {
    let end = |border: Option<&BorderRow>| {
        border.map_or_else(|| "inside".to_owned(), |border| format!("{} {}", border.neighbour, border.link))
    };
    let name = format!("{} to {}", end(way.from.as_ref()), end(way.to.as_ref()));
    let mut entry = DirectoryEntry::new(DirectoryKey::Way(domain.to_owned(), name));
    for (border, neighbour, link) in
        [(&way.from, "sluiceFromNeighbour", "sluiceFromLink"), (&way.to, "sluiceToNeighbour", "sluiceToLink")]
    {
        if let Some(border) = border {
            entry.set(neighbour, border.neighbour.clone());
            entry.set(link, border.link.clone());
        }
    }
    entry.set("sluiceUnit", "bit/s");
    entry.set("sluiceCapacity", way.rate.to_string());
    entry.set("sluiceCost", way.cost.to_string());
    let current = way.free.iter().rposition(|step| step.start <= at);
    let free = current.map_or(0, |number| way.free[number].rate);
    entry.set("sluiceFree", free.to_string());
    let later = way.free.iter().skip(current.map_or(0, |number| number + 1)).find(|step| step.rate != free);
    if let Some(step) = later {
        entry.set("sluiceNextChange", write_instant(step.start));
        entry.set("sluiceNextFree", step.rate.to_string());
    }
    entry
}

/// The first step of a timeline that begins after this instant with another amount than there is at it.
fn next_change(timeline: &[StepDoc], at: Instant) -> Option<StepDoc> {
    let current = timeline.iter().rfind(|step| step.start <= at)?;
    timeline.iter().find(|step| step.start > at && step.amount.to_bits() != current.amount.to_bits()).copied()
}

/// A supply in whole units, rounded down; cores in thousandths.
fn whole(amount: f64, unit: &str) -> u64 {
    // A thousandth of a core is not exact in binary: what is a billionth below it counts as it.
    let scaled = if unit == "cores" { amount * 1_000.0 + 1e-6 } else { amount };
    if scaled.is_finite() && scaled > 0.0 { scaled.min(i64::MAX as f64) as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::topology::FreeRow;
    use terms::Time;

    fn t(s: u64) -> Instant {
        Instant(Time::from_nanos(s * 1_000_000_000))
    }

    fn step(start: u64, end: u64, amount: f64) -> StepDoc {
        StepDoc { start: t(start), end: Some(t(end)), amount }
    }

    fn resource(name: &str, unit: &str, free: f64, timeline: Vec<StepDoc>) -> ResourceRow {
        ResourceRow {
            resource: name.to_owned(),
            unit: unit.to_owned(),
            kind: "assured".to_owned(),
            capacity: 10.0 * free,
            free,
            background: 0.0,
            background_now: 0.0,
            reservations: 0,
            missing: None,
            missing_from: None,
            timeline,
            more: false,
            next: false,
        }
    }

    fn agent(name: &str, away: bool) -> AgentRow {
        AgentRow {
            agent: name.to_owned(),
            node: None,
            version: Some("0.1.0".to_owned()).filter(|_| !away),
            uptime_ms: None,
            away: away.then(|| "no answer".to_owned()),
        }
    }

    fn settings() -> PublishSettings {
        let contact = vec!["https://broker.example.org:8443".to_owned()];
        PublishSettings { publisher: "main".to_owned(), valid: Span::from_secs(180), contact, most: 100 }
    }

    fn seen() -> SiteSnapshot {
        let way = DomainWayRow {
            from: None,
            to: Some(BorderRow { neighbour: "esnet".into(), link: "10.0.3.0/30".into() }),
            rate: 50_000_000,
            cost: 3,
            free: vec![
                FreeRow { start: t(0), rate: 9 },
                FreeRow { start: t(90), rate: 7 },
                FreeRow { start: t(200), rate: 7 },
                FreeRow { start: t(300), rate: 8 },
            ],
        };
        let domain = AdvertisementDoc {
            domain: "anl".into(),
            number: 4,
            issued: t(90),
            until: t(150),
            networks: vec!["10.0.1.0/24".into()],
            ways: vec![way],
        };
        let timeline = vec![step(100, 160, 6.5e6), step(160, 200, 6.5e6), step(200, 300, 2e6)];
        SiteSnapshot {
            at: t(100),
            agents: vec![agent("maui", false), agent("away", true)],
            resources: vec![
                resource("maui/net/eth1", "bit/s", 6_500_000.7, timeline),
                resource("maui/cpu", "cores", 0.3, vec![]),
            ],
            domain: Some(domain),
        }
    }

    #[test]
    fn what_is_free_now_and_when_it_changes() {
        let found = entries(&seen(), &settings());
        assert_eq!(found.away, ["away"]);
        assert!(found.left_out.is_empty(), "{:?}", found.left_out);
        let get = |key: DirectoryKey| found.entries.iter().find(|entry| entry.key == key).unwrap().clone();
        let net = get(DirectoryKey::Resource("maui".into(), "net/eth1".into()));
        assert_eq!(net.value("sluiceFree"), Some("6500000"));
        assert_eq!(net.value("sluiceNextChange"), Some("19700101000320Z"), "the same amount is no change");
        assert_eq!(net.value("sluiceNextFree"), Some("2000000"));
        assert_eq!(net.value("sluiceValidUntil"), Some("19700101000440Z"));
        let cpu = get(DirectoryKey::Resource("maui".into(), "cpu".into()));
        assert_eq!((cpu.value("sluiceUnit"), cpu.value("sluiceFree")), (Some("millicores"), Some("300")));
        assert_eq!(cpu.value("sluiceNextChange"), None);
        let way = get(DirectoryKey::Way("anl".into(), "inside to esnet 10.0.3.0/30".into()));
        assert_eq!((way.value("sluiceFree"), way.value("sluiceNextFree")), (Some("7"), Some("8")));
        assert_eq!(way.value("sluiceValidUntil"), Some("19700101000230Z"), "no longer than the domain says");
        assert_eq!(get(DirectoryKey::Agent("away".into())).value("sluiceState"), Some("away"));
        let keys: Vec<_> = found.entries.iter().map(|entry| entry.key.clone()).collect();
        assert!(keys.is_sorted(), "{keys:?}");
    }

    #[test]
    fn supply_is_rounded_down() {
        assert_eq!((whole(0.3, "cores"), whole(1.9, "bit/s"), whole(-1.0, "bit/s")), (300, 1, 0));
        assert_eq!((whole(f64::NAN, "bit/s"), whole(0.999_9, "cores")), (0, 999));
        assert_eq!(whole(f64::INFINITY, "bit/s"), 0);
    }

    #[test]
    fn more_than_the_limit_and_what_is_no_text_is_left_out_and_said() {
        let mut many = seen();
        many.resources = (0..200).map(|n| resource(&format!("maui/net/eth{n}"), "bit/s", 1.0, vec![])).collect();
        many.resources.push(resource("maui/net/\u{7}", "bit/s", 1.0, vec![]));
        many.resources.push(resource("no-agent", "bit/s", 1.0, vec![]));
        let found = entries(&many, &settings());
        assert_eq!(found.entries.len(), 100);
        assert_eq!(found.left_out.len(), 2, "{:?}", found.left_out);
        assert!(found.left_out[0].contains("\\u{7}"), "{:?}", found.left_out);
    }
}
