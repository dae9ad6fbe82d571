//! `sluice torture anomalies`: fault injection after the manner of SQLite's tests. A real agent, then a real
//! broker over two agents, runs a script of calls while the n-th system call of a kind fails, once or from
//! then on, for every n, at the start and while it runs. Then the fault is lifted and everything is started
//! twice. All acknowledged changes must be there, without an operator's help.
//!
//! As `systemd` would, the test restarts a program that ended by itself. Any other need for help counts as
//! *stuck*.

mod agent;
mod broker;
mod broker_calls;
pub(crate) mod http;
mod jobs;
mod script;
mod target;

use agent::AgentUnderTest;
use bed::error::Error;
use bed::patience::Patience;
use bed::program::RunningProgram;
use broker::BrokerUnderTest;
pub use jobs::run_in_parts;
use linux::anomaly::{CallKind, InjectedFault, WatchedProgram};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use target::{Found, ProgramUnderTest};

/// The number of restarts of a program while the fault lasts.
const STARTS: u32 = 2;
/// The time limits for an answer, without and with the fault.
const ANSWERS: Duration = Duration::from_secs(30);
const ANSWERS_UNDER_FAULT: Duration = Duration::from_secs(3);

/// The options of the test.
#[derive(Clone, Debug)]
pub struct AnomalyOptions {
    /// The program file of the agent and the broker.
    pub program: PathBuf,
    /// The approximate number of faults to try, spread over all; `None`: every one.
    pub faults: Option<u64>,
    /// `(k, n)`: of n parts run the k-th, from 1, so that several runs share the work.
    pub part: (u64, u64),
    /// True to show progress.
    pub progress: bool,
    /// True to remove an acknowledged change from the agent and from the broker, unknown to the check, which
    /// must find it.
    pub plant: bool,
}

/// The results, and the last line of output, for scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AnomalyReport {
    /// Distinct faults that struck: program, phase, kind of call, its number and the error. A fault that
    /// strikes once and the one that lasts count as one.
    pub faults: u64,
    /// Acknowledged changes that were missing, refused ones that existed, reservations with a part missing.
    pub lost: u64,
    /// Times at which a program did not serve, or the kernel did not match the bookings, without help.
    pub stuck: u64,
}

/// The phase in which a fault strikes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    /// From the program's first call to its first answer.
    Start,
    /// During the script.
    Running,
}

/// A program's index, a phase and a fault.
type Case = (usize, Phase, InjectedFault);

/// The state of one run.
struct Run<'a> {
    targets: Vec<Box<dyn ProgramUnderTest>>,
    report: AnomalyReport,
    findings: Vec<String>,
    struck: BTreeSet<Case>,
    progress: bool,
    patience: &'a Patience,
}

/// Runs all faults. Returns the counts, and each finding in words.
///
/// # Errors
/// The test cannot run here, or the user stops it. Findings are no error.
pub fn run(options: &AnomalyOptions, patience: &Patience) -> Result<(AnomalyReport, Vec<String>), Error> {
    let targets: Vec<Box<dyn ProgramUnderTest>> =
        vec![Box::new(AgentUnderTest::make(&options.program)?), Box::new(BrokerUnderTest::make(&options.program)?)];
    let mut run = Run {
        targets,
        report: AnomalyReport::default(),
        findings: Vec::new(),
        struck: BTreeSet::new(),
        progress: options.progress,
        patience,
    };
    if options.plant {
        run.plant()?;
        return Ok((run.report, run.findings));
    }
    let mut cases = Vec::new();
    for who in 0..run.targets.len() {
        cases.extend(run.plan(who)?);
    }
    let chosen = choose(&cases, options);
    run.told(&format!("{} of {} runs", chosen.len(), cases.len()));
    for (done, case) in chosen.iter().enumerate() {
        if let Err(stopped) = patience.check().and_then(|()| run.one(*case)) {
            let AnomalyReport { faults, lost, stuck } = run.report;
            run.told(&format!("stopped after {done} runs: {faults} faults, {lost} lost, {stuck} stuck"));
            return Err(stopped);
        }
        if (done + 1) % 50 == 0 {
            let AnomalyReport { faults, lost, stuck } = run.report;
            run.told(&format!("{} of {} runs: {faults} faults, {lost} lost, {stuck} stuck", done + 1, chosen.len()));
        }
    }
    Ok((run.report, run.findings))
}

/// The key under which a fault is counted.
fn distinct((who, phase, fault): Case) -> Case {
    (who, phase, InjectedFault { lasting: false, ..fault })
}

/// Chooses faults evenly, so that the short form has some of each kind, and from them this run's part. The
/// number of the fault alone decides its part, because two runs may count different calls: no fault is in two
/// parts.
fn choose(cases: &[Case], options: &AnomalyOptions) -> Vec<Case> {
    let all = cases.len() as u64;
    let most = options.faults.unwrap_or(all).max(1);
    let (part, parts) = options.part;
    let even = |n: u64| (n * most) % all.max(1) < most;
    let ours = |(_, _, fault): &Case| fault.nth % parts == part - 1;
    (0..).zip(cases).filter(|(n, case)| even(*n) && ours(case)).map(|(_, case)| *case).collect()
}

impl Run<'_> {
    /// Prints a line of progress.
    fn told(&self, text: &str) {
        if self.progress {
            eprintln!("{text}");
        }
    }

    /// Lists every possible fault: each error for each call that a start and the script make.
    fn plan(&mut self, who: usize) -> Result<Vec<Case>, Error> {
        let target = &mut self.targets[who];
        let mut program = target.start_again(self.patience)?;
        // The script as it is later, when there is something to end and to change.
        for _ in 0..3 {
            target.play();
        }
        program.stop();
        let (mut program, watch) = target.start_watched(None, self.patience)?;
        target.answers(&mut program, ANSWERS, self.patience)?;
        let (mut cases, mut counted) = (Vec::new(), String::new());
        let mut count = |phase| {
            counted += &format!("; {phase:?}:");
            for kind in CallKind::ALL {
                let calls = watch.count(kind) + watch.count(kind) / 8;
                counted += &format!(" {kind:?} {calls}");
                for nth in 1..=calls {
                    for (_, error) in kind.errors() {
                        let lasting = if CallKind::lasts(*error) { &[false, true][..] } else { &[false] };
                        let fault = |&lasting| (who, phase, InjectedFault { kind, nth, error: *error, lasting });
                        cases.extend(lasting.iter().map(fault));
                    }
                }
            }
        };
        count(Phase::Start);
        watch.arm(None);
        target.play();
        count(Phase::Running);
        program.stop();
        self.told(&format!("{}{counted}", self.targets[who].name()));
        Ok(cases)
    }

    /// Plays one fault, up to the second start after it.
    fn one(&mut self, (who, phase, fault): Case) -> Result<(), Error> {
        let (target, patience) = (&mut self.targets[who], self.patience);
        let at_start = (phase == Phase::Start).then_some(fault);
        let (mut program, mut watch) = target.start_watched(at_start, patience)?;
        let mut serves = target.answers(&mut program, ANSWERS_UNDER_FAULT, patience).is_ok();
        if phase == Phase::Running {
            watch.arm(Some(fault));
        }
        let mut struck = watch.struck();
        for _ in 0..STARTS {
            if serves {
                target.play();
            }
            struck.extend(watch.struck());
            if serves && program.is_running() {
                break;
            }
            // It ended by itself, or cannot serve: it is started again, as its unit has it, into the same trouble if that lasts.
            program.stop();
            (program, watch) = target.start_watched(at_start.filter(|fault| fault.lasting), patience)?;
            serves = target.answers(&mut program, ANSWERS_UNDER_FAULT, patience).is_ok();
        }
        watch.lift();
        if !struck.is_empty() {
            self.struck.insert(distinct((who, phase, fault)));
            self.report.faults = self.struck.len() as u64;
        }
        let what = format!("{} {phase:?} {fault:?} at {:?}", target.name(), struck.first());
        // One that went on through it serves when it is over.
        if serves && program.is_running() && self.serves_no_more(who, &mut program)? {
            self.report.stuck += 1;
            self.findings.push(format!("{what}: it runs and does not answer, with nothing that fails any more"));
        }
        target::end(&mut program, fault.nth.is_multiple_of(2));
        drop(watch);
        self.afterwards(who, &what)
    }

    /// True if a program runs but does not answer. One that ends meanwhile would be restarted by its unit.
    fn serves_no_more(&self, who: usize, program: &mut RunningProgram) -> Result<bool, Error> {
        match self.targets[who].answers(program, ANSWERS, self.patience) {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(_) => Ok(program.is_running()),
            Ok(()) => Ok(false),
        }
    }

    /// Starts twice without faults, and checks the state after each start.
    fn afterwards(&mut self, who: usize, what: &str) -> Result<(), Error> {
        for time in ["first", "second"] {
            let target = &mut self.targets[who];
            let what = format!("{what}: {time} start afterwards");
            let mut found = Found::default();
            let seen = target.start_again(self.patience).and_then(|mut program| {
                target.look(&mut found, self.patience)?;
                target::end(&mut program, time == "first");
                Ok(())
            });
            if let Err(why) = &seen {
                found.stuck.push(format!("{why}: {}", target.last_words()));
            }
            self.report.lost += found.lost.len() as u64;
            self.report.stuck += found.stuck.len() as u64;
            self.findings.extend(found.lost.iter().chain(&found.stuck).map(|text| format!("{what}: {text}")));
            match seen {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // With a new state the next fault can be tried.
                Err(_) => return self.targets[who].begin_anew(),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Removes an acknowledged change from each program, and checks that it is missed.
    fn plant(&mut self) -> Result<(), Error> {
        for who in 0..self.targets.len() {
            let target = &mut self.targets[who];
            let (mut program, watch): (RunningProgram, WatchedProgram) = target.start_watched(None, self.patience)?;
            target.answers(&mut program, ANSWERS, self.patience)?;
            target.play();
            target::end(&mut program, true);
            drop(watch);
            target.plant(self.patience)?;
            let what = format!("{} with something taken away", target.name());
            self.afterwards(who, &what)?;
        }
        Ok(())
    }
}

impl AnomalyReport {
    /// True if there are no findings.
    pub fn is_clean(&self) -> bool {
        (self.lost, self.stuck) == (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Vec<Case> {
        let fault =
            |nth, error, lasting| (0, Phase::Start, InjectedFault { kind: CallKind::Write, nth, error, lasting });
        (1..=40).flat_map(|nth| [fault(nth, 28, false), fault(nth, 28, true), fault(nth, 5, false)]).collect()
    }

    #[test]
    fn parts_have_everything_once_and_no_fault_twice() {
        let options =
            |faults, part| AnomalyOptions { program: PathBuf::new(), faults, part, progress: false, plant: false };
        let all = cases();
        assert_eq!(choose(&all, &options(None, (1, 1))), all);
        for faults in [None, Some(50)] {
            let whole = choose(&all, &options(faults, (1, 1)));
            let parts: Vec<Vec<Case>> = (1..=3).map(|part| choose(&all, &options(faults, (part, 3)))).collect();
            let mut together: Vec<Case> = parts.concat();
            together.sort_unstable();
            let mut sorted = whole.clone();
            sorted.sort_unstable();
            assert_eq!(together, sorted);
            let counted = |cases: &[Case]| cases.iter().map(|case| distinct(*case)).collect::<BTreeSet<_>>().len();
            assert_eq!(parts.iter().map(|part| counted(part)).sum::<usize>(), counted(&whole));
        }
        assert_eq!(choose(&all, &options(Some(50), (1, 1))).len(), 50);
    }
}
