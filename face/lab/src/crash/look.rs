//! What is looked at after each start: promises, capacity, and the kernel.

use super::load::{LICENCE, Load, count};
use super::{Place, Report};
use crate::error::Error;
use api::agent::{Answer, BookAnswer, BookFilter, Request};
use api::book::{ReservationDoc, ResourceRow};
use api::client::Client;
use linux::plane::KernelPlane;
use std::collections::BTreeSet;
use std::path::Path;
use terms::{Rate, Time};
use traffic::plan::{ClassId, Plan};

const OVERHEAD: u32 = daemon::config::DEFAULT_OVERHEAD;

/// One look.
pub struct Look<'a> {
    socket: std::path::PathBuf,
    report: &'a mut Report,
    findings: &'a mut Vec<String>,
    cycle: u64,
}

impl<'a> Look<'a> {
    /// At the agent that was started again.
    pub fn of(socket: &Path, report: &'a mut Report, findings: &'a mut Vec<String>, cycle: u64) -> Look<'a> {
        Look { socket: socket.to_owned(), report, findings, cycle }
    }

    fn finding(&mut self, text: String) {
        self.findings.push(format!("cycle {}: {text}", self.cycle));
    }

    /// What was acknowledged is there as it was acknowledged, whole.
    pub fn at_promises(&mut self, load: &mut Load) -> Result<(), Error> {
        let mut client = Client::connect(&self.socket)?;
        load.ask_again(&mut client)?;
        for all in load.known() {
            let mut over = Vec::new();
            for (handle, known) in all.iter_mut() {
                let request = Request::BookShow { handle: Some(handle.clone()), filter: BookFilter::default() };
                let doc = match client.call(request) {
                    Ok(Answer::Book(BookAnswer::Reservation(doc))) => doc,
                    Ok(_) | Err(api::client::Error::Agent(_)) => {
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
                if doc.parts.len() != 2 || doc.parts.iter().any(|part| part.steps.is_empty()) {
                    self.report.half += 1;
                    self.finding(format!("{handle} is not whole: {:?}", doc.parts));
                }
                (known.cancelled, known.counts) = (Some(is), vec![count(&doc)]);
                if matches!(doc.state.as_str(), "cancelled" | "ended") {
                    over.push(handle.clone());
                }
            }
            over.iter().for_each(|handle| drop(all.remove(handle)));
        }
        Ok(())
    }

    /// At no instant is more given away than there is, by the agent's account and by our own.
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

    /// Whether the kernel has what the book says is in force, and how many classes and rules that are.
    pub fn at_kernel(&mut self, place: &Place, state: &Path) -> Result<(bool, u32), Error> {
        let rows = self.rows()?;
        let active = || rows.iter().filter(|doc| doc.state == "active");
        let grant = |doc: &ReservationDoc| {
            let part = doc.parts.iter().position(|part| part.resource == LICENCE).unwrap_or(0);
            format!("{}.{part} {LICENCE} {}", doc.handle, count(doc))
        };
        let wanted: BTreeSet<String> = active().map(grant).collect();
        let net = active().flat_map(|doc| &doc.parts).filter(|part| part.resource.starts_with("net/"));
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
        match Client::connect(&self.socket)?.call(Request::Resources { timeline: None })? {
            Answer::Book(BookAnswer::Resources(rows)) => Ok(rows),
            other => Err(Error::Void(format!("the agent answered {other:?}"))),
        }
    }
}

/// What is granted, as whoever hands licences out sees it.
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
