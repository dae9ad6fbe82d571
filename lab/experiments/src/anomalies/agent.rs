//! The agent under test.

use super::script::Script;
use super::target::{Found, ProgramUnderTest};
use crate::crash::{Bed, CrashReport as Crashed, Look};
use bed::error::Error;
use bed::patience::Patience;
use bed::program::RunningProgram;
use linux::anomaly::{InjectedFault, WatchedProgram};
use linux::error::SystemError;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit for the kernel to match the agent's bookings.
const CONVERGED: Duration = Duration::from_secs(10);

/// An agent, and the changes that it acknowledged.
pub struct AgentUnderTest {
    bed: Bed,
    script: Script,
}

impl AgentUnderTest {
    /// Makes an agent without state.
    ///
    /// # Errors
    /// Namespaces or folders cannot be made.
    pub fn make(program: &Path) -> Result<AgentUnderTest, Error> {
        Ok(AgentUnderTest { bed: Bed::make(program, "crash", "")?, script: Script::default() })
    }
}

impl ProgramUnderTest for AgentUnderTest {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn start_watched(
        &mut self,
        fault: Option<InjectedFault>,
        _: &Patience,
    ) -> Result<(RunningProgram, WatchedProgram), Error> {
        self.bed.start_watched(fault)
    }

    fn answers(&self, running: &mut RunningProgram, most: Duration, patience: &Patience) -> Result<(), Error> {
        self.bed.answers(running, most, patience)
    }

    fn play(&mut self) {
        self.script.play(&self.bed.socket());
    }

    fn start_again(&mut self, patience: &Patience) -> Result<RunningProgram, Error> {
        Ok(self.bed.start(patience)?.0)
    }

    /// Checks acknowledged changes, capacity and the kernel.
    fn look(&mut self, found: &mut Found, patience: &Patience) -> Result<(), Error> {
        found.lost.extend(self.script.check(&self.bed.socket()));
        let (mut report, mut words) = (Crashed::default(), Vec::new());
        let (begun, state) = (Instant::now(), self.bed.state());
        let mut look = Look::of(&self.bed.socket(), &mut report, &mut words, 0);
        look.at_capacity()?;
        let mut same = false;
        while !same && begun.elapsed() < CONVERGED {
            (same, _) = look.at_kernel(self.bed.namespace(), &state)?;
            patience.wait(Duration::from_millis(if same { 0 } else { 10 }))?;
        }
        found.lost.append(&mut words);
        if !same {
            found.stuck.push("the kernel has not what the book says".to_owned());
        }
        Ok(())
    }

    /// Restores a copy of the journal that lacks the last acknowledged change, as a restore from a backup
    /// would.
    fn plant(&mut self, patience: &Patience) -> Result<(), Error> {
        let (book, kept) = (self.bed.state().join("book"), self.bed.state().join("book.kept"));
        copy(&book, &kept)?;
        let (mut agent, _) = self.bed.start(patience)?;
        self.script.create_one(&self.bed.socket());
        agent.stop();
        let wrong = || SystemError::doing(format!("put {} back", kept.display()));
        std::fs::remove_dir_all(&book).map_err(wrong())?;
        Ok(std::fs::rename(&kept, &book).map_err(wrong())?)
    }

    fn begin_anew(&mut self) -> Result<(), Error> {
        self.bed.begin_anew()?;
        self.script = Script::default();
        Ok(())
    }

    fn last_words(&self) -> String {
        self.bed.last_words()
    }
}

/// Copies a folder of files, with their permissions.
fn copy(from: &Path, to: &Path) -> Result<(), SystemError> {
    let wrong = || SystemError::doing(format!("copy {} to {}", from.display(), to.display()));
    std::fs::create_dir(to).map_err(wrong())?;
    for entry in std::fs::read_dir(from).map_err(wrong())? {
        let entry = entry.map_err(wrong())?;
        std::fs::copy(entry.path(), to.join(entry.file_name())).map_err(wrong())?;
    }
    Ok(())
}
