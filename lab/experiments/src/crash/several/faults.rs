//! Faults of one cycle: the broker or an agent is killed or stopped, or the net between them cut, where it stands at a
//! write of its journal.

use super::SeveralReport;
use super::site::{LostPackets, Site};
use bed::error::Error;
use bed::patience::Patience;
use std::time::{Duration, Instant};
use terms::Rng;

/// The writes and syncs of a journal from which one is drawn: more than a change takes.
const WRITES: u64 = 16;
/// How long a process may take to come to its write; then it is struck where it is.
const REACHED: Duration = Duration::from_millis(500);
/// The longest time between a write that goes on and the fault, microseconds.
const AFTER_US: u64 = 1_500;
/// The longest time until what failed comes back, microseconds.
const BACK_US: u64 = 150_000;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// SIGKILL, and a start afterwards.
    Kill,
    /// SIGSTOP, and SIGCONT afterwards.
    Stop,
    /// Packets between broker and agents are lost, and later not.
    Cut,
}

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Strike {
    /// The process: 0 is the broker, agents follow.
    process: usize,
    fault: Fault,
    /// The write, from 1, before which it comes.
    write: u64,
    /// The write goes on, and the fault comes so many microseconds later.
    after_us: Option<u64>,
}

/// The faults of one cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strikes(Vec<Strike>);

fn strike(chance: &mut Rng, process: usize) -> Strike {
    let fault = [Fault::Kill, Fault::Kill, Fault::Stop, Fault::Cut][chance.below(4) as usize];
    let after_us = (chance.below(3) == 0).then(|| chance.below(AFTER_US));
    Strike { process, fault, write: 1 + chance.below(WRITES), after_us }
}

impl Strikes {
    /// Draws faults: mostly one, sometimes two; rarely everybody is killed.
    pub fn draw(chance: &mut Rng, agents: usize) -> Strikes {
        let processes = agents as u64 + 1;
        let first = chance.below(processes) as usize;
        Strikes(match chance.below(12) {
            0 => (0..=agents).map(|process| Strike { fault: Fault::Kill, ..strike(chance, process) }).collect(),
            1..4 => {
                let other = (first + 1 + chance.below(processes - 1) as usize) % processes as usize;
                vec![strike(chance, first), strike(chance, other)]
            }
            _ => vec![strike(chance, first)],
        })
    }

    /// Plays them, until all is well again but that those who were killed do not run.
    ///
    /// # Errors
    /// The kernel refuses, or the user stops the run.
    pub fn play(
        &self,
        site: &mut Site,
        chance: &mut Rng,
        report: &mut SeveralReport,
        patience: &Patience,
    ) -> Result<(), Error> {
        for strike in &self.0 {
            site.process(strike.process).hold(strike.write);
        }
        let begun = Instant::now();
        for Strike { process, fault, after_us, .. } in self.0.iter().copied() {
            while !site.process(process).is_held() && begun.elapsed() < REACHED {
                patience.wait(Duration::from_micros(200))?;
            }
            report.at_writes += u64::from(site.process(process).is_held());
            if let Some(us) = after_us {
                site.process(process).let_go();
                patience.wait(Duration::from_micros(us))?;
            }
            match fault {
                Fault::Kill => {
                    report.kills += u64::from(site.process(process).kill());
                }
                Fault::Stop => {
                    report.stops += u64::from(site.process(process).stop()?);
                }
                Fault::Cut => {
                    cut(site, chance, process)?;
                    site.process(process).let_go();
                    report.partitions += 1;
                }
            }
        }
        patience.wait(Duration::from_micros(chance.below(BACK_US)))?;
        site.heal()?;
        for Strike { process, .. } in &self.0 {
            let process = site.process(*process);
            process.let_go();
            process.go_on()?;
        }
        Ok(())
    }
}

/// Cuts an agent from the broker; the broker (0) from some agents.
fn cut(site: &mut Site, chance: &mut Rng, process: usize) -> Result<(), Error> {
    let agents = site.len();
    let which = match process.checked_sub(1) {
        Some(agent) => 1 << agent,
        None => 1 + chance.below((1 << agents) - 1),
    };
    for agent in (0..agents).filter(|agent| which >> agent & 1 == 1) {
        let ways = [LostPackets::Both, LostPackets::There, LostPackets::Back, LostPackets::Large];
        site.cut(agent, ways[chance.below(4) as usize])?;
    }
    Ok(())
}
