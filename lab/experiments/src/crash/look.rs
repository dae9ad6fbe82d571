//! The checks after each start: acknowledged changes, capacity, and the kernel.

use super::load::{Callers, LICENCE, count};
use super::{CrashReport, Place};
use bed::error::Error;
use documents::agent::{Answer, Request};
use documents::book::{BookAnswer, BookFilter, ReservationDoc, ResourceRow};
use linux::plane::KernelPlane;
use rpc::client::Client;
use std::collections::BTreeSet;
use std::path::Path;
use terms::{Rate, Time};
use traffic::plan::{ClassId, Plan};

const OVERHEAD: u32 = agent_service::config::DEFAULT_OVERHEAD;

/// The checks of one cycle.
pub struct Look<'a> {
    socket: std::path::PathBuf,
    report: &'a mut CrashReport,
    findings: &'a mut Vec<String>,
    cycle: u64,
}

impl<'a> Look<'a> {
    /// Prepares the checks of a restarted agent.
    pub fn of(socket: &Path, report: &'a mut CrashReport, findings: &'a mut Vec<String>, cycle: u64) -> Look<'a> {
        Look { socket: socket.to_owned(), report, findings, cycle }
    }

    fn finding(&mut self, text: String) {
        self.findings.push(format!("cycle {}: {text}", self.cycle));
    }

    /// Checks that every acknowledged change is there, whole and unaltered.
    pub fn at_promises(&mut self, load: &mut Callers) -> Result<(), Error> {
        let mut client = Client::connect(&self.socket)?;
        load.ask_again(&mut client)?;
        for all in load.known() {
            let mut over = Vec::new();
            for (handle, known) in all.iter_mut() {
                let request = Request::BookShow { handle: Some(handle.clone()), filter: BookFilter::default() };
                let doc = match client.call(request) {
                    Ok(Answer::Book(BookAnswer::Reservation(doc))) => doc,
                    Ok(_) | Err(rpc::client::Error::Agent(_)) => {
                        self.report.lost += 1;
                        self.finding(format!("{handle} was acknowledged and is not there"));
                        over.push(handle.clone());
                        continue;
                    }
                    Err(gone) => return Err(gone.into()),
                };
                let is = doc.state == "cancelled";
                if known.cancelled.is_some_and(|said| said != is) || !known.counts.contains(&count(&doc)) {
                    self.report.lost += 1;
                    self.finding(format!("{handle} is {} with {}, known was {known:?}", doc.state, count(&doc)));
                }
                self.at_parts(&doc);
                (known.cancelled, known.counts) = (Some(is), vec![count(&doc)]);
                if matches!(doc.state.as_str(), "cancelled" | "ended") {
                    over.push(handle.clone());
                }
            }
            over.iter().for_each(|handle| drop(all.remove(handle)));
        }
        Ok(())
    }

    /// Checks that a reservation has all its parts.
    fn at_parts(&mut self, doc: &ReservationDoc) {
        if let Some(why) = half(doc) {
            self.report.half += 1;
            self.finding(format!("{} is not whole: {why}: {:?}", doc.handle, doc.parts));
        }
    }

    /// Checks that no capacity is exceeded at any instant, by the agent's account and by our own.
    pub fn at_capacity(&mut self) -> Result<(), Error> {
        let (rows, resources) = (self.rows()?, self.resources()?);
        for resource in &resources {
            let mut edges: Vec<(Time, f64)> = Vec::new();
            let parts = rows.iter().flat_map(|doc| &doc.parts).filter(|part| part.resource == resource.resource);
            for step in parts.flat_map(|part| &part.steps) {
                edges.push((step.start.0, step.amount));
                edges.extend(step.end.map(|end| (end.0, -step.amount)));
            }
            // At one instant what ends goes before what begins: windows are half-open.
            edges.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let mut sum = 0.0;
            let most = edges.into_iter().fold(0.0_f64, |most, (_, change)| {
                sum += change;
                most.max(sum)
            });
            if most > resource.capacity || resource.missing.is_some() {
                self.report.overbooked += 1;
                let text = format!("{}: {most} of {} are given away", resource.resource, resource.capacity);
                self.finding(text);
            }
        }
        Ok(())
    }

    /// Compares the kernel with the active bookings. Returns true if they match, and the number of classes
    /// and rules.
    pub fn at_kernel(&mut self, place: &Place, state: &Path) -> Result<(bool, u32), Error> {
        let rows = self.rows()?;
        let active = || rows.iter().filter(|doc| doc.state == "active");
        let grant = |doc: &ReservationDoc| {
            let part = doc.parts.iter().position(|part| part.resource == LICENCE)?;
            Some(format!("{}.{part} {LICENCE} {}", doc.handle, count(doc)))
        };
        let wanted: BTreeSet<String> = active().filter_map(grant).collect();
        let net = active().flat_map(|doc| &doc.parts);
        let net = net.filter(|part| part.resource.starts_with("net/") && part.binding.is_some());
        let rates: Vec<Rate> = net.map(|part| Rate::from_bps(part.now as u64).with_overhead(OVERHEAD, 1_000)).collect();
        let plan = place.run(|| KernelPlane::open(state).and_then(|mut plane| plane.read()))?;
        let plan = plan.map_err(|fault| Error::Void(format!("the kernel cannot be read: {fault}")))?;
        let same = granted(state) == wanted
            && rules(&plan) == rates.len()
            && premium(&plan) == rates.iter().fold(Rate::ZERO, |sum, rate| sum.saturating_add(*rate));
        Ok((same, rates.len() as u32 + 1))
    }

    fn rows(&self) -> Result<Vec<ReservationDoc>, Error> {
        let mut client = Client::connect(&self.socket)?;
        match client.call(Request::BookShow { handle: None, filter: BookFilter::default() })? {
            Answer::Book(BookAnswer::Reservations { rows, more: false }) => Ok(rows),
            other => Err(Error::Void(format!("the agent answered {other:?}"))),
        }
    }

    fn resources(&self) -> Result<Vec<ResourceRow>, Error> {
        match Client::connect(&self.socket)?.call(Request::resources(None))? {
            Answer::Book(BookAnswer::Resources(rows)) => Ok(rows),
            other => Err(Error::Void(format!("the agent answered {other:?}"))),
        }
    }
}

/// Reads the granted licences from the agent's files, as a licence server would.
fn granted(state: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(state.join("granted")).into_iter().flatten().flatten();
    let line = |file: std::fs::DirEntry| {
        let text = std::fs::read_to_string(file.path()).ok()?;
        Some(format!("{} {}", file.file_name().to_string_lossy(), text.trim_end()))
    };
    files.filter_map(line).collect()
}

fn rules(plan: &Plan) -> usize {
    plan.edges.values().map(|rules| rules.len()).sum()
}

fn premium(plan: &Plan) -> Rate {
    let classes = plan.links.values().filter_map(|link| link.classes.get(&ClassId::PREMIUM));
    classes.filter_map(|class| class.real_time).fold(Rate::ZERO, |sum, curve| sum.saturating_add(curve.m2))
}

/// Returns what is missing of a reservation of licences and packets for one window; `None`: it is whole.
fn half(doc: &ReservationDoc) -> Option<&'static str> {
    let [licence, net] = doc.parts.as_slice() else { return Some("it has another number of parts") };
    if licence.resource != LICENCE || !net.resource.starts_with("net/") {
        return Some("a part is of another resource");
    }
    let ([one], [other]) = (licence.steps.as_slice(), net.steps.as_slice()) else {
        return Some("a part has another number of windows");
    };
    if (one.start, one.end) != (other.start, other.end) {
        return Some("its parts have different windows");
    }
    // The test makes no groups: a reservation that names other members has lost them.
    (doc.members.len() > 1).then_some("other members of its group are missing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::book::{Instant, PartRow, StepDoc};

    fn part(resource: &str, end: u64) -> PartRow {
        let (start, end) = (Instant(Time::from_nanos(1)), Some(Instant(Time::from_nanos(end))));
        let steps = vec![StepDoc { start, end, amount: 1.0 }];
        let row = serde_json::json!({"resource": resource, "unit": "pieces", "kind": "reserved", "steps": steps, "packet_bytes": 1000,
            "rtt_ms": 100.0, "binding": null, "now": 1.0, "enforced": "in_force", "fault": null});
        serde_json::from_value(row).unwrap()
    }

    fn doc(parts: Vec<PartRow>, members: &[&str]) -> ReservationDoc {
        ReservationDoc {
            handle: "h".to_owned(),
            owner: "uid:0".to_owned(),
            label: String::new(),
            group: String::new(),
            promise: None,
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            state: "active".to_owned(),
            hold_until: None,
            notify_s: None,
            created: Instant(Time::from_nanos(1)),
            version: 1,
            parts,
            more: false,
        }
    }

    /// Each sort of half that a journal could come back with is counted; a whole one is not.
    #[test]
    fn a_half_is_counted() {
        let net = "net/crash0";
        let halves = [
            doc(vec![part(LICENCE, 9)], &[]),
            doc(vec![part(net, 9)], &[]),
            doc(vec![part(LICENCE, 9), part(LICENCE, 9)], &[]),
            doc(vec![part(LICENCE, 9), part(net, 8)], &[]),
            doc(vec![part(LICENCE, 9), PartRow { steps: Vec::new(), ..part(net, 9) }], &[]),
            doc(vec![part(LICENCE, 9), part(net, 9)], &["here.a", "there.a"]),
        ];
        let (mut report, mut findings) = (CrashReport::default(), Vec::new());
        let mut look = Look::of(Path::new("/nowhere"), &mut report, &mut findings, 1);
        halves.iter().for_each(|half| look.at_parts(half));
        look.at_parts(&doc(vec![part(LICENCE, 9), part(net, 9)], &[]));
        assert_eq!(report.half, halves.len() as u64, "{findings:?}");
        assert!(!report.is_clean());
    }
}
