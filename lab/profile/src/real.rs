//! The measurements on real packets: Tables 1 and 2, Figures 2 to 4, the signalling load.
//!
//! RSVP runs through the agent. Boomerang runs twice: decided by the agent in user space, for the ratio and
//! the signalling load, and by the kernel's fast path, for Table 2 and Figures 3 and 4, because the
//! document's Boomerang was a kernel module. Messages that XDP decides never reach checkpoint 2; the program
//! by test run ([`super::fast`]) replaces it.

use super::charts;
use super::load::SessionCost;
use super::packets::{self, MessageTimes, PacketBed};
use super::published::row;
use super::report::{Numbered, NumberedFigure, ProfileReport};
use super::sample::Estimate;
use super::steps::Kind;
use super::tester::LifeMessage;
use super::transit::Protocol;
use bed::error::Error;
use bed::patience::Patience;
use std::time::Duration;
use wire::MessageType;

/// The part of the node under test that decides about messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The agent.
    Agent,
    /// The kernel's fast path.
    FastPath,
}

/// A reservation's times at both checkpoints, without load, us.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unloaded {
    /// The protocol.
    pub protocol: Protocol,
    /// The part of the node that decided.
    pub by: By,
    /// The time at checkpoint 1.
    pub outer: f64,
    /// The time at checkpoint 2.
    pub inner: Option<f64>,
}

/// The results so far.
#[derive(Default)]
pub struct RealFindings {
    /// All nine tables.
    pub tables: Vec<Numbered>,
    /// The subject, messages per second, us.
    pub signalling_load: Vec<(String, f64, Estimate)>,
    /// Figures 2 to 4.
    pub figures: Vec<NumberedFigure>,
    /// The measurements that failed, with the reason.
    pub skipped: Vec<String>,
    /// The times without load, for the ratio.
    pub unloaded: Vec<Unloaded>,
}

/// The pause between two messages of the tables and of the traffic load.
const GAP: Duration = Duration::from_millis(1);

/// The extent of the measurements.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Samples of each figure.
    pub repetitions: usize,
    /// Levels of background traffic, Mb/s.
    pub traffic: &'static [u64],
    /// Levels of the signalling load, messages a second.
    pub intensity: &'static [u64],
}

/// Runs all measurements on real packets. Failed ones go to `skipped`.
///
/// # Errors
/// The user stops the run, or RSVP's messages do not come through.
pub fn run(
    extent: &Extent,
    fast: &[SessionCost],
    found: &mut RealFindings,
    patience: &Patience,
    say: &mut dyn FnMut(String),
) -> Result<(), Error> {
    match PacketBed::start(packets::CONFIG) {
        Ok(mut bed) => {
            let mut run = Run { extent: *extent, bed: &mut bed, patience, say };
            run.traffic(Protocol::Rsvp, By::Agent, found)?;
            run.signalling(Protocol::Rsvp, By::Agent, found)?;
            let agent = run.agent(found);
            skip(found, "Boomerang in user space", agent)?;
        }
        Err(Error::Testbed(why)) => {
            let what = "Tables 1 and 2, Figures 2 to 4 and the signalling load need real packets";
            found.skipped.push(format!("{what}: {why}"));
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    let kernel = PacketBed::start(packets::FAST).and_then(|mut bed| {
        let mut run = Run { extent: *extent, bed: &mut bed, patience, say };
        run.traffic(Protocol::Boomerang, By::FastPath, found)?;
        run.signalling(Protocol::Boomerang, By::FastPath, found)
    });
    skip(found, "Table 2, Figures 3 and 4", kernel)?;
    by_test_run(&mut found.tables, fast);
    Ok(())
}

/// Records a failed measurement as skipped, so that the other results remain.
fn skip(found: &mut RealFindings, what: &str, done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if !matches!(error, Error::Interrupted) => {
            found.skipped.push(format!("{what}: {error}"));
            Ok(())
        }
        done => done,
    }
}

/// Fills in checkpoint 2 of Table 2.
fn by_test_run(tables: &mut [Numbered], fast: &[SessionCost]) {
    let Some(load) = fast.first() else { return };
    for (row, kind) in [(row::BOOMERANG, Kind::Reserve), (row::BOOMERANG_TEAR, Kind::Release)] {
        ProfileReport::set(tables, 2, row, "2", load.whole(kind).map(|ns| ns.scaled(1e-3)));
    }
    if let Some(table) = tables.iter_mut().find(|table| table.table == 2) {
        table.note = Some(format!(
            "1 through veth; 2 is the fast path's program by test run, {} sessions: what XDP decides never comes to the hooks",
            load.sessions
        ));
    }
}

struct Run<'a> {
    extent: Extent,
    bed: &'a mut PacketBed,
    patience: &'a Patience,
    say: &'a mut dyn FnMut(String),
}

fn reserving(protocol: Protocol) -> LifeMessage {
    match protocol {
        Protocol::Rsvp => LifeMessage::Rsvp(MessageType::Resv),
        Protocol::Boomerang => LifeMessage::Reserve,
    }
}

fn named(protocol: Protocol, by: By) -> &'static str {
    match (protocol, by) {
        (Protocol::Rsvp, _) => "RSVP",
        (Protocol::Boomerang, By::Agent) => "Boomerang in user space",
        (Protocol::Boomerang, By::FastPath) => "Boomerang's fast path",
    }
}

impl Run<'_> {
    /// Measures Boomerang as the agent in user space decides it.
    fn agent(&mut self, found: &mut RealFindings) -> Result<(), Error> {
        (self.say)(format!("{} on real packets", named(Protocol::Boomerang, By::Agent)));
        let times = self.bed.lives(Protocol::Boomerang, self.extent.repetitions, GAP, 0, self.patience)?;
        unloaded(found, Protocol::Boomerang, By::Agent, &times);
        self.signalling(Protocol::Boomerang, By::Agent, found)
    }

    /// Measures Tables 1 and 2, Figures 2 to 4.
    fn traffic(&mut self, protocol: Protocol, by: By, found: &mut RealFindings) -> Result<(), Error> {
        let part = reserving(protocol);
        let mut points = Vec::new();
        for &mbps in self.extent.traffic {
            (self.say)(format!("{} on real packets, {mbps} Mb/s of background traffic", named(protocol, by)));
            let times = self.bed.lives(protocol, self.extent.repetitions, GAP, mbps, self.patience)?;
            if mbps == 0 {
                unloaded(found, protocol, by, &times);
                tables(&mut found.tables, by, &times);
            }
            if let (Some(one), two) = times.estimates(part) {
                let two = two.filter(|_| by == By::Agent);
                points.push((mbps as f64, one.mean, two.map(|two| two.mean)));
            }
            if (protocol, mbps) == (Protocol::Boomerang, packets::LEVELS_AT) {
                let of_it = times.parts.iter().find(|(which, ..)| *which == part);
                let values = of_it.map_or(&[][..], |(_, one, _)| &one.values);
                found.figures.push(charts::scatter("Boomerang reservation", mbps as f64, values));
            }
        }
        let (figure, what) = match protocol {
            Protocol::Rsvp => (2, "RSVP Resv message"),
            Protocol::Boomerang => (3, "Boomerang reservation"),
        };
        found.figures.push(charts::traffic(figure, what, &points));
        Ok(())
    }

    /// Measures the signalling load of section 6.2.
    fn signalling(&mut self, protocol: Protocol, by: By, found: &mut RealFindings) -> Result<(), Error> {
        for &rate in self.extent.intensity {
            (self.say)(format!("{} on real packets, {rate} messages a second", named(protocol, by)));
            let gap = Duration::from_secs_f64(1.0 / rate as f64);
            let count = self.extent.repetitions / protocol.life().len();
            let times = self.bed.lives(protocol, count, gap, 0, self.patience)?;
            if let (Some(one), _) = times.estimates(reserving(protocol)) {
                let what = format!("{}: {}", named(protocol, by), reserving(protocol).name());
                found.signalling_load.push((what, rate as f64, one));
            }
        }
        Ok(())
    }
}

fn unloaded(found: &mut RealFindings, protocol: Protocol, by: By, times: &MessageTimes) {
    if let (Some(one), two) = times.estimates(reserving(protocol)) {
        let inner = two.filter(|_| by == By::Agent).map(|two| two.median);
        found.unloaded.push(Unloaded { protocol, by, outer: one.median, inner });
    }
}

/// Fills in Tables 1 and 2.
fn tables(tables: &mut [Numbered], by: By, times: &MessageTimes) {
    for (part, ..) in &times.parts {
        let (table, row) = match part {
            LifeMessage::Rsvp(MessageType::Path) => (1, row::PATH),
            LifeMessage::Rsvp(MessageType::Resv) => (1, row::RESV),
            LifeMessage::Rsvp(MessageType::ResvTear) => (1, row::RESV_TEAR),
            LifeMessage::Rsvp(_) => (1, row::PATH_TEAR),
            LifeMessage::Reserve => (2, row::BOOMERANG),
            LifeMessage::Release => (2, row::BOOMERANG_TEAR),
        };
        let (one, two) = times.estimates(*part);
        ProfileReport::set(tables, table, row, "1", one);
        if by == By::Agent {
            ProfileReport::set(tables, table, row, "2", two);
        }
    }
}
