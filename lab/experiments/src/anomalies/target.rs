//! The interface of a program under test: an agent, or a broker over agents without faults.

use bed::error::Error;
use bed::patience::Patience;
use bed::program::RunningProgram;
use linux::anomaly::{InjectedFault, WatchedProgram};
use std::time::{Duration, Instant};

/// The time limit for an orderly end, before a program is killed.
const ENDS: Duration = Duration::from_secs(3);

/// The findings, in words.
#[derive(Debug, Default)]
pub struct Found {
    /// Acknowledged changes that are missing, refused ones that exist, reservations with a part missing.
    pub lost: Vec<String>,
    /// Programs that do not serve, or kernel state that is not restored, without help.
    pub stuck: Vec<String>,
}

/// A program with its state, and the expected content of that state.
pub trait ProgramUnderTest {
    /// The program's name in findings.
    fn name(&self) -> &'static str;

    /// Starts the program under supervision, with everything that it needs, and does not wait for it.
    ///
    /// # Errors
    /// The program cannot be started here.
    fn start_watched(
        &mut self,
        fault: Option<InjectedFault>,
        patience: &Patience,
    ) -> Result<(RunningProgram, WatchedProgram), Error>;

    /// Waits until the program answers.
    ///
    /// # Errors
    /// The program does not answer in this time, or the user stops the run.
    fn answers(&self, running: &mut RunningProgram, most: Duration, patience: &Patience) -> Result<(), Error>;

    /// Requests changes. The program may die meanwhile; calls without an answer stay in doubt.
    fn play(&mut self);

    /// Restarts the program and its surroundings without faults, and waits until it answers.
    ///
    /// # Errors
    /// The program does not serve without help.
    fn start_again(&mut self, patience: &Patience) -> Result<RunningProgram, Error>;

    /// Compares the state with the acknowledged changes.
    ///
    /// # Errors
    /// The state cannot be read.
    fn look(&mut self, found: &mut Found, patience: &Patience) -> Result<(), Error>;

    /// With everything stopped, removes an acknowledged change. The next look must find that.
    ///
    /// # Errors
    /// The change cannot be removed.
    fn plant(&mut self, patience: &Patience) -> Result<(), Error>;

    /// Removes the program's state, and the record of it.
    ///
    /// # Errors
    /// The state cannot be removed.
    fn begin_anew(&mut self) -> Result<(), Error>;

    /// Returns the last line that the program wrote on standard error.
    fn last_words(&self) -> String;
}

/// Ends a program: unless `kill` is set it gets a few seconds for an orderly end. Then SIGKILL.
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
