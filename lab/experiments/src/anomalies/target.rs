//! What is made to fail: an agent, or a broker over agents that do not.

use crate::error::Error;
use crate::patience::Patience;
use crate::program::RunningProgram;
use linux::anomaly::{InjectedFault, WatchedProgram};
use std::time::{Duration, Instant};

/// How long a program may take to end in good order before it is killed.
const ENDS: Duration = Duration::from_secs(3);

/// What was found, in words.
#[derive(Debug, Default)]
pub struct Found {
    /// Acknowledged changes that are not there, refused ones that are, and reservations of which only a part is there.
    pub lost: Vec<String>,
    /// What does not serve, or has not done what it should have, without a hand.
    pub stuck: Vec<String>,
}

/// A program with its state, and what is known of that state.
pub trait ProgramUnderTest {
    /// What it is called in findings.
    fn name(&self) -> &'static str;

    /// Starts it under supervision with all that it needs around it, and does not wait for it.
    ///
    /// # Errors
    /// It cannot be started here.
    fn start_watched(
        &mut self,
        fault: Option<InjectedFault>,
        patience: &Patience,
    ) -> Result<(RunningProgram, WatchedProgram), Error>;

    /// Waits until it answers.
    ///
    /// # Errors
    /// It does not, in this time; or the user stops.
    fn answers(&self, running: &mut RunningProgram, most: Duration, patience: &Patience) -> Result<(), Error>;

    /// Asks it for changes. It may die meanwhile; what was not answered is in doubt.
    fn play(&mut self);

    /// Starts it and all around it anew, with nothing that fails, and waits until it answers.
    ///
    /// # Errors
    /// It does not serve: a hand would be needed.
    fn start_again(&mut self, patience: &Patience) -> Result<RunningProgram, Error>;

    /// Compares what is there with what was acknowledged.
    ///
    /// # Errors
    /// It cannot be looked at.
    fn look(&mut self, found: &mut Found, patience: &Patience) -> Result<(), Error>;

    /// With everything stopped: takes something away that was acknowledged, which a look has to find.
    ///
    /// # Errors
    /// It cannot be taken away.
    fn plant(&mut self, patience: &Patience) -> Result<(), Error>;

    /// Away with its state, and with what is known of it.
    ///
    /// # Errors
    /// It cannot be removed.
    fn begin_anew(&mut self) -> Result<(), Error>;

    /// The last line that it said on standard error.
    fn last_words(&self) -> String;
}

/// Ends a program: in good order if that is wanted and comes soon, because a fault may be what keeps it; otherwise by SIGKILL.
pub fn end(program: &mut RunningProgram, kill: bool) {
    if !kill {
        let asked = linux::process::ProcessId::of(program.id()).map(|process| process.signal(15));
        let begun = Instant::now();
        while asked.is_some() && program.is_running() && begun.elapsed() < ENDS {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    program.stop();
}
