//! `sluice torture crash --agents 3`: a broker and several agents over mutual TLS between namespaces, under load. In
//! each cycle some are killed or stopped, or the net between them is cut, at a write of a journal. Then everybody is
//! there again, and all must be as it was acknowledged: whole, once, and the same by every account.

mod callers;
mod faults;
mod look;
mod plant;
mod process;
mod site;

use bed::error::Error;
use bed::patience::Patience;
use callers::Applications;
use faults::Strikes;
use look::Checks;
pub use plant::PlantedFinding;
use serde::Serialize;
use site::Site;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use terms::Rng;

/// The number of parallel client applications.
const CLIENTS: u16 = 4;
/// The longest time for which calls go on before a fault is armed, microseconds.
const CALLS_US: u64 = 60_000;
/// The time limit for what is spoiled on purpose to end: it does not.
const SETTLED_AT_ONCE: Duration = Duration::from_secs(8);

/// The most additional cycles until there is something that can be spoiled.
const MORE_TO_PLANT: u64 = 20;

/// The options of the test.
#[derive(Clone, Debug)]
pub struct SeveralOptions {
    /// The number of agents, 2 or 3.
    pub agents: usize,
    /// The number of cycles.
    pub cycles: u64,
    /// The first random seed.
    pub seed: u64,
    /// The program file of broker and agents.
    pub program: PathBuf,
    /// True to show progress.
    pub progress: bool,
    /// Something that the checks must find, made before the last cycle's checks.
    pub plant: Option<PlantedFinding>,
}

/// The results, and the last line of output, for scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SeveralReport {
    /// Number of cycles.
    pub cycles: u64,
    /// Changes that were acknowledged.
    pub acknowledged: u64,
    /// Changes that were refused.
    pub refused: u64,
    /// Changes whose answer did not come.
    pub in_doubt: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that were stopped for a while.
    pub stops: u64,
    /// Cuts of the net.
    pub partitions: u64,
    /// Of all these, faults at a write or sync of a journal; the others came where the process was.
    pub at_writes: u64,
    /// Acknowledged changes that were missing afterwards.
    pub lost: u64,
    /// Agents at which more than a capacity was given away at some instant.
    pub overbooked: u64,
    /// Reservations that one member has and another has not, or not alike.
    pub half: u64,
    /// Differences of the broker's account from the agents', and of an agent's from its kernel.
    pub diverged: u64,
    /// Promises, changes and requests without an end, once everybody was up.
    pub stuck: u64,
}

impl SeveralReport {
    /// Formats the report as text for people.
    pub fn text(&self) -> String {
        let SeveralReport { cycles, acknowledged, refused, in_doubt, kills, stops, partitions, at_writes, .. } = self;
        let SeveralReport { lost, overbooked, half, diverged, stuck, .. } = self;
        format!(
            "{cycles} cycles: {kills} kills, {stops} stops, {partitions} partitions, {at_writes} of them at a write of a journal; \
             {acknowledged} changes acknowledged, {refused} refused, {in_doubt} not answered\n\
             {lost} lost, {overbooked} overbooked, {half} half, {diverged} diverged, {stuck} stuck\n"
        )
    }

    /// True if something was acknowledged and something failed: a run without either proves nothing.
    pub fn is_proof(&self) -> bool {
        self.acknowledged > 0 && self.kills + self.stops + self.partitions > 0
    }

    /// True if there are no findings.
    pub fn is_clean(&self) -> bool {
        [self.lost, self.overbooked, self.half, self.diverged, self.stuck] == [0; 5]
    }
}

/// Runs all cycles. Returns the counts, and each finding in words.
///
/// # Errors
/// The test cannot run here, or the user stops it. Findings are no error.
pub fn run(options: &SeveralOptions, patience: &Patience) -> Result<(SeveralReport, Vec<String>), Error> {
    let mut site = Site::make(&options.program, options.agents)?;
    let (mut report, mut findings) = (SeveralReport::default(), BTreeMap::new());
    let mut applications = Applications::new(CLIENTS, options.agents, options.seed);
    let mut chance = Rng::seeded(options.seed ^ 0x9e37_79b9_7f4a_7c15);
    site.start(patience)?;
    let mut planted = options.plant.is_none();
    while report.cycles < options.cycles || !planted {
        let strikes = Strikes::draw(&mut chance, options.agents);
        let running = applications.begin(&site.socket());
        let played = patience
            .wait(Duration::from_micros(chance.below(CALLS_US)))
            .and_then(|()| strikes.play(&mut site, &mut chance, &mut report, patience))
            .and_then(|()| site.start(patience));
        applications.end(running);
        played?;
        report.cycles += 1;
        if let Some(plant) = options.plant.filter(|_| report.cycles >= options.cycles) {
            // Which reservations there are at this moment is chance: a later cycle may have what this one has not.
            match plant.make(&mut site, &mut applications, patience) {
                Err(Error::Void(_)) if report.cycles < options.cycles + MORE_TO_PLANT => {}
                made => planted = made.map(|()| true)?,
            }
        }
        let checks = Checks::of(&site, &mut report, &mut findings, patience);
        let checks = if options.plant.is_some() { checks.within(SETTLED_AT_ONCE) } else { checks };
        checks.run(&mut applications)?;
        let calls = applications.calls();
        (report.acknowledged, report.refused, report.in_doubt) = (calls.acknowledged, calls.refused, calls.in_doubt);
        if options.progress {
            let new = findings.iter().filter(|(_, cycle)| **cycle == report.cycles);
            new.for_each(|(text, cycle)| eprintln!("cycle {cycle}: {text}"));
        }
        if options.progress && report.cycles.is_multiple_of(50) {
            eprintln!(
                "{} cycles, {} changes acknowledged, {} findings",
                report.cycles,
                calls.acknowledged,
                findings.len()
            );
        }
    }
    Ok((report, findings.into_iter().map(|(text, cycle)| format!("cycle {cycle}: {text}")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run in which nothing was acknowledged, or nothing failed, has no findings, and is no proof.
    #[test]
    fn a_run_without_acknowledgements_or_faults_proves_nothing() {
        let all_refused = SeveralReport { cycles: 8, refused: 900, kills: 5, ..SeveralReport::default() };
        assert!(all_refused.is_clean() && !all_refused.is_proof());
        let no_fault = SeveralReport { cycles: 8, acknowledged: 900, ..SeveralReport::default() };
        assert!(no_fault.is_clean() && !no_fault.is_proof());
        for fault in [
            SeveralReport { kills: 1, ..no_fault },
            SeveralReport { stops: 1, ..no_fault },
            SeveralReport { partitions: 1, ..no_fault },
        ] {
            assert!(fault.is_proof(), "{fault:?}");
        }
    }
}
