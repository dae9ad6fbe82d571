//! The checks after each cycle, when everybody is up: the broker against what was acknowledged, the agents against
//! the broker and each other, and each kernel against its agent.

use super::SeveralReport;
use super::callers::{Applications, Known, UNIT, amount, at, counts, rows, text};
use super::site::{AGENTS, LICENCE, Site};
use crate::anomalies::http;
use crate::crash::{CrashReport, Look};
use bed::error::Error;
use bed::patience::Patience;
use documents::agent::{Answer, Request};
use documents::book::{BookAnswer, BookFilter, ReservationDoc};
use rpc::client::Client;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit until nothing is promised or under way any more: longer than the broker's longest pause.
const SETTLED: Duration = Duration::from_secs(90);
/// The bound until the kernel matches the bookings.
const CONVERGED: Duration = Duration::from_secs(2);
/// The longest time between the agents' decisions about one reservation that begins now, nanoseconds.
const NOW_NS: u64 = 120_000_000_000;
/// States of changes under way. A reservation that is being cancelled is broken until every agent has heard of it; one that stays
/// so is found.
const UNDER_WAY: [&str; 4] = ["preparing", "committing", "aborting", "broken"];
/// States of what is over, or ends by itself.
const OVER: [&str; 3] = ["cancelled", "ended", "expired"];

/// All that agents have: a part with its agent, handle, resource, amount, and whether it is bound.
type Held = BTreeSet<(String, String, String, u64, bool)>;

/// The checks of one cycle.
pub struct Checks<'a> {
    site: &'a Site,
    report: &'a mut SeveralReport,
    findings: &'a mut BTreeMap<String, u64>,
    patience: &'a Patience,
    settled: Duration,
}

impl<'a> Checks<'a> {
    /// Checks of a site whose processes all run.
    pub fn of(
        site: &'a Site,
        report: &'a mut SeveralReport,
        findings: &'a mut BTreeMap<String, u64>,
        patience: &'a Patience,
    ) -> Checks<'a> {
        Checks { site, report, findings, patience, settled: SETTLED }
    }

    /// The same with another time limit until nothing is promised or under way.
    pub fn within(self, settled: Duration) -> Checks<'a> {
        Checks { settled, ..self }
    }

    /// Counts a finding, once.
    fn finding(&mut self, which: impl FnOnce(&mut SeveralReport) -> &mut u64, text: String) {
        let report = &mut *self.report;
        if self.findings.insert(text, report.cycles).is_none() {
            *which(report) += 1;
        }
    }

    /// Runs all checks.
    ///
    /// # Errors
    /// A process does not answer, or the user stops the run.
    pub fn run(mut self, applications: &mut Applications) -> Result<(), Error> {
        let begun = Instant::now();
        self.ask_again(applications, begun)?;
        let list = self.settled(begun)?;
        self.at_promises(applications)?;
        self.at_list(&list, applications);
        let agents = (0..self.site.len()).map(|agent| self.rows(agent)).collect::<Result<Vec<_>, Error>>()?;
        self.at_groups(&agents);
        self.at_both(&list, &agents);
        for agent in 0..agents.len() {
            self.at_agent(agent)?;
        }
        Ok(())
    }

    /// Sends requests without an answer again, until each has one.
    fn ask_again(&mut self, applications: &mut Applications, begun: Instant) -> Result<(), Error> {
        let socket = self.site.socket();
        for application in applications.all() {
            let open: Vec<_> = application.open.iter().map(|(key, asked)| (key.clone(), asked.clone())).collect();
            for (key, (wish, port)) in open {
                while !application.create(&socket, key.clone(), wish.clone(), port) {
                    self.patience.wait(Duration::from_millis(50))?;
                    if begun.elapsed() > self.settled {
                        application.open.remove(&key);
                        self.finding(|report| &mut report.stuck, format!("key {key} has no answer"));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until nothing is under way, and returns the broker's list.
    fn settled(&mut self, begun: Instant) -> Result<Value, Error> {
        let socket = self.site.socket();
        loop {
            let list = http::ask(&socket, "GET", "/v1/reservations", "", &Value::Null);
            let mut open = Vec::new();
            if let Ok((200, list)) = &list {
                let under_way =
                    rows(list, "reservations").iter().filter(|row| UNDER_WAY.contains(&&*text(row, "state")));
                open.extend(under_way.map(|row| format!("{} is {}", text(row, "id"), text(row, "state"))));
                let away = rows(list, "away").iter().filter_map(Value::as_str);
                open.extend(away.map(|agent| format!("the broker does not reach {agent}")));
            } else {
                open.push("the broker has no list".to_owned());
            }
            for (agent, name) in AGENTS.iter().enumerate().take(self.site.len()) {
                let promised =
                    self.rows(agent)?.into_iter().filter(|row| row.promise.is_some() || row.state == "promised");
                open.extend(promised.map(|row| format!("{} is promised at {}", row.handle, name)));
            }
            match list {
                Ok((200, list)) if open.is_empty() => return Ok(list),
                list if begun.elapsed() > self.settled => {
                    open.into_iter().for_each(|text| self.finding(|report| &mut report.stuck, text));
                    return Ok(list.map_or(Value::Null, |(_, list)| list));
                }
                _ => self.patience.wait(Duration::from_millis(20))?,
            }
        }
    }

    /// Checks that the broker shows every acknowledged reservation as it was acknowledged.
    fn at_promises(&mut self, applications: &mut Applications) -> Result<(), Error> {
        let (socket, begun) = (self.site.socket(), Instant::now());
        for application in applications.all() {
            let mut over = Vec::new();
            for (id, known) in &mut application.known {
                let doc = match http::ask(&socket, "GET", &at(id), "", &Value::Null) {
                    Ok((200, doc)) => doc,
                    other => {
                        self.finding(
                            |report| &mut report.lost,
                            format!("{id} was acknowledged and is not there: {other:?}"),
                        );
                        over.push(id.clone());
                        continue;
                    }
                };
                let (state, counts, bound) = (text(&doc, "state"), counts(&doc), bound(&doc));
                let is = OVER.contains(&&*state);
                let whole = is || (counts.len() == 1 && bound.len() <= 1 && matches!(&*state, "booked" | "active"));
                let is_known = known.cancelled.contains(&is)
                    && (is || (counts.is_subset(&known.counts) && bound.is_subset(&known.bound)));
                if !whole {
                    self.finding(
                        |report| &mut report.half,
                        format!("{id} is {state} with {counts:?}, bound {bound:?}"),
                    );
                } else if !is_known {
                    let history = http::ask(&socket, "GET", &format!("{}/history", at(id)), "", &Value::Null);
                    let happened = history.map(|(_, doc)| happened(&doc)).unwrap_or_default();
                    let text = format!(
                        "{id} is {state} with {counts:?}, bound {bound:?}; acknowledged was {known:?}; happened {happened:?}"
                    );
                    self.finding(|report| &mut report.lost, text);
                }
                if known.cancelled.len() > 1 && !is {
                    known.told.push_back(format!("looked, {state}"));
                }
                if is || !whole {
                    over.push(id.clone());
                } else if known.cancelled.len() > 1
                    && let Some(wrong) = self.same_by_key(known, &socket, id, begun)?
                {
                    self.finding(|report| &mut report.lost, wrong);
                }
                (known.counts, known.cancelled) = (counts, BTreeSet::from([is]));
                if !bound.is_empty() {
                    known.bound = bound;
                }
            }
            over.iter().for_each(|id| drop(application.known.remove(id)));
        }
        Ok(())
    }

    /// Sends a request again until it has an answer. Returns what is wrong with the answer, or that there was none.
    fn same_by_key(&self, known: &Known, socket: &Path, id: &str, begun: Instant) -> Result<Option<String>, Error> {
        loop {
            match known.again(socket, id) {
                Some((_, true)) if begun.elapsed() < self.settled => {
                    self.patience.wait(Duration::from_millis(50))?;
                }
                said => return Ok(said.map(|(why, _)| why)),
            }
        }
    }

    /// Checks that nothing exists that was refused, or cancelled.
    fn at_list(&mut self, list: &Value, applications: &mut Applications) {
        let known: BTreeSet<String> = applications.all().flat_map(|one| one.known.keys().cloned()).collect();
        for row in rows(list, "reservations") {
            let (id, state) = (text(row, "id"), text(row, "state"));
            if !OVER.contains(&&*state) && !known.contains(&id) {
                self.finding(|report| &mut report.half, format!("{id} is {state}, and nobody has it"));
            }
        }
    }

    /// Checks that each group is booked at all of its members or at none, with one amount and one window.
    fn at_groups(&mut self, agents: &[Vec<ReservationDoc>]) {
        let mut groups: BTreeMap<&str, Vec<&ReservationDoc>> = BTreeMap::new();
        for row in agents.iter().flatten().filter(|row| !row.group.is_empty()) {
            groups.entry(group_of(&row.group)).or_default().push(row);
        }
        for (group, rows) in groups {
            if let Some(why) = half(&rows) {
                let states: Vec<String> = rows.iter().map(|row| format!("{} {}", row.handle, row.state)).collect();
                self.finding(|report| &mut report.half, format!("the group {group} is not whole: {why}: {states:?}"));
            }
        }
    }

    /// Checks that the broker lists what the agents have.
    fn at_both(&mut self, list: &Value, agents: &[Vec<ReservationDoc>]) {
        let theirs: Held = (0..).zip(agents).flat_map(|(agent, rows)| held(agent, rows)).collect();
        let ours = rows(list, "reservations").iter().filter(|row| !OVER.contains(&&*text(row, "state")));
        let ours = ours.flat_map(|row| rows(row, "parts"));
        let ours: Held = ours
            .map(|part| {
                let resource = text(part, "resource");
                let bare = resource.strip_prefix(&format!("{}/", text(part, "agent"))).unwrap_or(&resource).to_owned();
                (text(part, "agent"), text(part, "handle"), bare, amount(part), !part["binding"].is_null())
            })
            .collect();
        for odd in theirs.symmetric_difference(&ours) {
            let whose = if ours.contains(odd) { "broker" } else { "agents" };
            self.finding(|report| &mut report.diverged, format!("only by the {whose}: {odd:?}"));
        }
    }

    /// Checks one agent: no capacity is exceeded at any instant, and the kernel has what the agent says.
    fn at_agent(&mut self, agent: usize) -> Result<(), Error> {
        let (mut crash, mut found) = (CrashReport::default(), Vec::new());
        let (socket, state) = (self.site.agent_socket(agent), self.site.home(agent).join("state"));
        let mut look = Look::of(&socket, &mut crash, &mut found, self.report.cycles);
        look.at_capacity()?;
        let begun = Instant::now();
        let same = loop {
            let (same, _) = look.at_kernel(self.site.namespace(agent), &state)?;
            if same || begun.elapsed() > CONVERGED {
                break same;
            }
            self.patience.wait(Duration::from_millis(10))?;
        };
        for text in found {
            self.finding(|report| &mut report.overbooked, format!("at {}: {text}", AGENTS[agent]));
        }
        if !same {
            let text =
                format!("cycle {}: the kernel of {} has not what its agent says", self.report.cycles, AGENTS[agent]);
            self.finding(|report| &mut report.diverged, text);
        }
        Ok(())
    }

    /// The reservations of an agent that are not over.
    fn rows(&self, agent: usize) -> Result<Vec<ReservationDoc>, Error> {
        let request = Request::BookShow { handle: None, filter: BookFilter::default() };
        match Client::connect(&self.site.agent_socket(agent))?.call(request)? {
            Answer::Book(BookAnswer::Reservations { rows, more: false }) => {
                Ok(rows.into_iter().filter(|row| !OVER.contains(&&*row.state)).collect())
            }
            other => Err(Error::Void(format!("an agent answered {other:?}"))),
        }
    }
}

/// The parts of an agent's reservations.
fn held(agent: usize, rows: &[ReservationDoc]) -> Held {
    let parts = rows.iter().flat_map(|row| row.parts.iter().map(move |part| (row, part)));
    parts
        .map(|(row, part)| {
            let units = part.steps.first().map_or(0, |step| step.amount as u64);
            let units = if part.resource == LICENCE { units } else { units / UNIT };
            (AGENTS[agent].to_owned(), row.handle.clone(), part.resource.clone(), units, part.binding.is_some())
        })
        .collect()
}

/// The name that all members of a group share: each adds the letter of its role.
pub(super) fn group_of(member: &str) -> &str {
    member.rsplit_once('.').map_or(member, |(group, _)| group)
}

/// The bindings of the reservation's network parts; empty if it has none.
fn bound(doc: &Value) -> BTreeSet<bool> {
    let net = rows(doc, "parts").iter().filter(|part| !part["way"].is_null());
    net.map(|part| !part["binding"].is_null()).collect()
}

/// Returns what is missing of a group; `None`: it is whole.
fn half(rows: &[&ReservationDoc]) -> Option<String> {
    let members = rows.iter().map(|row| row.members.len()).max().unwrap_or(0).max(1);
    if rows.len() != members {
        return Some(format!("{} of {members} members are there", rows.len()));
    }
    let parts = || rows.iter().flat_map(|row| &row.parts);
    let steps = || parts().flat_map(|part| &part.steps);
    // Each agent has its own now.
    let alike =
        |times: BTreeSet<u64>| times.last().zip(times.first()).is_some_and(|(last, first)| last - first < NOW_NS);
    let same = parts().all(|part| part.steps.len() == 1)
        && alike(steps().map(|step| step.start.0.as_nanos()).collect())
        && alike(steps().map(|step| step.end.map_or(0, |end| end.0.as_nanos())).collect());
    let bound: BTreeSet<bool> =
        parts().filter(|part| part.resource.starts_with("net/")).map(|part| part.binding.is_some()).collect();
    let units = |part: &documents::book::PartRow| {
        let amount = part.steps.first().map_or(0, |step| step.amount as u64);
        if part.resource == LICENCE { amount } else { amount / UNIT }
    };
    let amounts: BTreeSet<u64> = parts().map(units).collect();
    match (same, bound.len(), amounts.len()) {
        (true, 0 | 1, 1) => None,
        _ => Some(format!("one window: {same}, bound {bound:?}, amounts {amounts:?}")),
    }
}

/// The events of a reservation, each on its agent with its time.
fn happened(doc: &Value) -> Vec<String> {
    let one = |event: &Value| format!("{} {} {}", text(event, "at"), text(event, "agent"), text(event, "event"));
    rows(doc, "events").iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &[&str], resource: &str, amount: f64, bound: bool) -> ReservationDoc {
        let binding = bound.then(|| serde_json::json!({"flow": {"protocol": 17}}));
        let part = serde_json::json!({"resource": resource, "unit": "pieces", "kind": "reserved", "packet_bytes": 1000,
            "steps": [{"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z", "amount": amount}],
            "rtt_ms": 100.0, "binding": binding, "now": amount, "enforced": "in_force", "fault": null});
        let doc = serde_json::json!({"handle": "h", "owner": "uid:0", "label": "", "group": "g", "members": group,
            "state": "active", "created": "2026-01-01T00:00:00Z", "version": 1, "parts": [part]});
        serde_json::from_value(doc).unwrap()
    }

    /// Each sort of half over several agents is seen; whole ones are not.
    #[test]
    fn a_half_over_several_agents_is_seen() {
        assert_eq!((group_of("g.a"), group_of("g.f"), group_of("g")), ("g", "g", "g"));
        let both = ["one.a", "two.b"];
        let licence = row(&both, LICENCE, 2.0, false);
        let net = |amount, bound| row(&both, "net/near", amount, bound);
        assert_eq!(half(&[&licence, &net(2e6, true)]), None);
        assert_eq!(half(&[&net(2e6, false), &net(2e6, false)]), None);
        for halves in [
            vec![&licence],
            vec![&licence, &net(3e6, true)],
            vec![&net(2e6, false), &net(2e6, true)],
            vec![&licence, &licence, &licence],
        ] {
            assert!(half(&halves).is_some(), "{halves:?}");
        }
    }
}
