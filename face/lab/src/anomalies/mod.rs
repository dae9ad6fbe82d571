//! `sluice torture anomalies`: as SQLite tests itself. A real agent runs a script of calls while the n-th system call of a kind
//! fails, once or from then on, for every n, at its start and while it runs; then the fault is lifted, everything is started
//! twice, and all must be as it was acknowledged, without a hand.
//!
//! What stands for `systemd` here starts the agent again when it has ended by itself. Everything else that would be needed
//! counts as *stuck*.

mod script;

use crate::crash::{Bed, Look, Report as Crashed};
use crate::error::Error;
use crate::patience::Patience;
use crate::program::Running;
use linux::anomaly::{Fault, Kind, Watch};
use script::Script;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often an agent is started again while the fault is there.
const STARTS: u32 = 2;
/// How long it may take to answer, with and without the fault.
const ANSWERS: Duration = Duration::from_secs(30);
const ANSWERS_UNDER_FAULT: Duration = Duration::from_secs(3);
/// And for the kernel to have what the book says.
const CONVERGED: Duration = Duration::from_secs(10);

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that is the agent.
    pub program: PathBuf,
    /// At most about so many faults, spread over all; `None`: every one.
    pub faults: Option<u64>,
    /// Whether progress is shown.
    pub progress: bool,
    /// A planted mistake: what was acknowledged last is taken out of the journal, which has to be found.
    pub plant: bool,
}

/// What was found; the last line, for scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    /// Distinct faults that struck: when, which kind of call, the how-manieth, which error, once or lasting.
    pub faults: u64,
    /// Acknowledged changes that were not there afterwards, or refused ones that were.
    pub lost: u64,
    /// Times at which the agent did not serve, or the kernel had not what the book says, without a hand.
    pub stuck: u64,
}

/// When it strikes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    /// From the program's first call until it answers.
    Start,
    /// While the script runs.
    Running,
}

/// Everything that one run knows.
struct Run<'a> {
    bed: Bed,
    script: Script,
    report: Report,
    findings: Vec<String>,
    struck: BTreeSet<(Phase, Fault)>,
    options: &'a Options,
    patience: &'a Patience,
}

/// Runs all of them; what was found, and each finding in words.
///
/// # Errors
/// It cannot be run here, or the user stops it. What was found is no error.
pub fn run(options: &Options, patience: &Patience) -> Result<(Report, Vec<String>), Error> {
    let bed = Bed::make(&options.program)?;
    let mut run = Run {
        bed,
        script: Script::default(),
        report: Report::default(),
        findings: Vec::new(),
        struck: BTreeSet::new(),
        options,
        patience,
    };
    let faults = run.plan()?;
    let all = faults.len() as u64;
    let most = options.faults.unwrap_or(all).max(1);
    // An even choice of them, so that the short form has some of each kind.
    let chosen = faults.into_iter().enumerate().filter(|(n, _)| (*n as u64 * most) % all.max(1) < most);
    for (done, (_, (phase, fault))) in chosen.enumerate() {
        patience.check()?;
        run.one(phase, fault)?;
        if options.progress && (done + 1) % 50 == 0 {
            let (faults, Report { lost, stuck, .. }) = (run.struck.len(), run.report);
            eprintln!("{} of {} runs: {faults} faults, {lost} lost, {stuck} stuck", done + 1, most.min(all));
        }
        if options.plant {
            break;
        }
    }
    run.report.faults = run.struck.len() as u64;
    Ok((run.report, run.findings))
}

impl Run<'_> {
    /// Every fault that there can be: how many calls of each kind a start and the script make, each with each error.
    fn plan(&mut self) -> Result<Vec<(Phase, Fault)>, Error> {
        let (mut agent, _) = self.bed.start(self.patience)?;
        // The script as it is later, when there is something to end and to change.
        for _ in 0..2 {
            self.script.play(&self.bed.socket());
        }
        agent.stop();
        let (mut agent, watch) = self.bed.start_watched(None)?;
        self.answers(&mut agent, ANSWERS)?;
        let mut faults = Vec::new();
        let mut count = |phase| {
            for kind in Kind::ALL {
                let calls = watch.count(kind) + watch.count(kind) / 8;
                for nth in 1..=calls {
                    for (_, error) in kind.errors() {
                        let lasting = if Kind::lasts(*error) { &[false, true][..] } else { &[false] };
                        faults.extend(
                            lasting.iter().map(|&lasting| (phase, Fault { kind, nth, error: *error, lasting })),
                        );
                    }
                }
            }
        };
        count(Phase::Start);
        watch.arm(None);
        self.script.play(&self.bed.socket());
        count(Phase::Running);
        agent.stop();
        Ok(faults)
    }

    /// One fault from its beginning to the second start after it.
    fn one(&mut self, phase: Phase, fault: Fault) -> Result<(), Error> {
        let at_start = (phase == Phase::Start).then_some(fault);
        let (mut agent, mut watch) = self.bed.start_watched(at_start)?;
        let mut serves = self.answers(&mut agent, ANSWERS_UNDER_FAULT).is_ok();
        if phase == Phase::Running {
            watch.arm(Some(fault));
        }
        let mut struck = watch.struck();
        for _ in 0..STARTS {
            if serves {
                self.script.play(&self.bed.socket());
            }
            struck.extend(watch.struck());
            if serves && agent.is_running() {
                break;
            }
            // It ended by itself, or cannot serve: it is started again, as its unit has it, into the same trouble if that lasts.
            agent.stop();
            (agent, watch) = self.bed.start_watched(at_start.filter(|fault| fault.lasting))?;
            serves = self.answers(&mut agent, ANSWERS_UNDER_FAULT).is_ok();
        }
        watch.lift();
        if !struck.is_empty() {
            self.struck.insert((phase, fault));
        }
        self.end(&mut agent, &watch, fault.nth.is_multiple_of(2));
        drop(watch);
        if self.options.plant {
            self.script.plant();
        }
        for time in ["first", "second"] {
            let what = || format!("{phase:?} {fault:?} at {:?}: {time} start afterwards", struck.first());
            let (mut agent, _) = match self.bed.start(self.patience) {
                Ok(started) => started,
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(why) => {
                    self.report.stuck += 1;
                    self.findings.push(format!("{}: {why}: {}", what(), self.bed.last_words()));
                    // With a new state the next fault can be tried.
                    return self.begin_anew();
                }
            };
            self.look(&what())?;
            self.end_plainly(&mut agent, time == "first");
        }
        Ok(())
    }

    /// What was promised, capacity, the kernel.
    fn look(&mut self, what: &str) -> Result<(), Error> {
        let lost = self.script.check(&self.bed.socket());
        self.report.lost += lost.len() as u64;
        self.findings.extend(lost.into_iter().map(|text| format!("{what}: {text}")));
        let (mut found, mut words) = (Crashed::default(), Vec::new());
        let (begun, state) = (Instant::now(), self.bed.state());
        let mut look = Look::of(&self.bed.socket(), &mut found, &mut words, 0);
        look.at_capacity()?;
        let mut same = false;
        while !same && begun.elapsed() < CONVERGED {
            (same, _) = look.at_kernel(self.bed.namespace(), &state)?;
            self.patience.wait(Duration::from_millis(if same { 0 } else { 10 }))?;
        }
        self.report.lost += found.overbooked;
        self.findings.extend(words.into_iter().map(|text| format!("{what}: {text}")));
        if !same {
            self.report.stuck += 1;
            self.findings.push(format!("{what}: the kernel has not what the book says"));
        }
        Ok(())
    }

    /// Waits until it answers.
    fn answers(&self, agent: &mut Running, most: Duration) -> Result<(), Error> {
        self.bed.answers(agent, most, self.patience)
    }

    /// A kill or a stop in good order; one that will not stop is killed, because a fault may be what keeps it.
    fn end(&self, agent: &mut Running, watch: &Watch, kill: bool) {
        watch.lift();
        self.end_plainly(agent, kill);
    }

    fn end_plainly(&self, agent: &mut Running, kill: bool) {
        if !kill {
            let asked = linux::process::ProcessId::of(agent.id()).map(|process| process.signal(15));
            let begun = Instant::now();
            while asked.is_some() && agent.is_running() && begun.elapsed() < ANSWERS_UNDER_FAULT {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        agent.stop();
    }

    fn begin_anew(&mut self) -> Result<(), Error> {
        self.bed.begin_anew()?;
        self.script = Script::default();
        Ok(())
    }
}

impl Report {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        (self.lost, self.stuck) == (0, 0)
    }
}
