//! A process that can be killed, stopped, and held at a write of its journal.

use bed::error::Error;
use bed::patience::Patience;
use bed::program::{RunningProgram, start};
use linux::anomaly::{WatchedProgram, watch_writes_at_exec};
use linux::error::SystemError;
use linux::process::ProcessId;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// The broker or an agent.
#[derive(Debug)]
pub struct WatchedProcess {
    name: String,
    log: PathBuf,
    /// The folder of its journal.
    journal: PathBuf,
    up: Option<Up>,
}

#[derive(Debug)]
struct Up {
    // In this order: the program ends before its supervision does.
    running: RunningProgram,
    watch: WatchedProgram,
    stopped: bool,
}

impl WatchedProcess {
    /// A process that does not run yet.
    pub fn new(name: &str, log: PathBuf, journal: PathBuf) -> WatchedProcess {
        WatchedProcess { name: name.to_owned(), log, journal, up: None }
    }

    /// True if it was started and not killed since.
    pub fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Starts it, without waiting for it.
    ///
    /// # Errors
    /// The program cannot be started, or this kernel cannot supervise system calls.
    pub fn start(&mut self, mut command: Command) -> Result<(), Error> {
        let log = std::fs::File::create(&self.log).map_err(SystemError::doing("write a log"))?;
        command.stdout(Stdio::null()).stderr(log);
        watch_writes_at_exec(&mut command);
        let running = start(&mut command)?;
        let watch = WatchedProgram::of(running.id(), None)?;
        self.up = Some(Up { running, watch, stopped: false });
        Ok(())
    }

    /// Waits until `answered`.
    ///
    /// # Errors
    /// It does not answer within `most`, or it ended; the text has its last words.
    pub fn answers(
        &mut self,
        most: Duration,
        patience: &Patience,
        mut answered: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < most {
            if answered() {
                return Ok(());
            }
            if !self.up.as_mut().is_some_and(|up| up.running.is_running()) {
                return Err(Error::Void(format!("{} ended by itself: {}", self.name, self.last_words())));
            }
            patience.wait(Duration::from_millis(1))?;
        }
        Err(Error::Void(format!("{} does not answer within {most:?}: {}", self.name, self.last_words())))
    }

    /// From now on, holds it before the `nth` write or sync of its journal.
    pub fn hold(&self, nth: u64) {
        if let Some(up) = &self.up {
            up.watch.hold(&self.journal, nth);
        }
    }

    /// True while it is held.
    pub fn is_held(&self) -> bool {
        self.up.as_ref().is_some_and(|up| up.watch.is_held())
    }

    /// Lets it go on.
    pub fn let_go(&self) {
        if let Some(up) = &self.up {
            up.watch.let_go();
        }
    }

    /// Kills it at once (SIGKILL). Returns true if it was running until then.
    pub fn kill(&mut self) -> bool {
        let Some(mut up) = self.up.take() else { return false };
        let was_running = up.running.is_running();
        up.running.stop();
        was_running
    }

    /// Stops it (SIGSTOP). Returns true if it was running until then.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stop(&mut self) -> Result<bool, Error> {
        let was_running = self.up.as_mut().is_some_and(|up| up.running.is_running());
        self.signal(SIGSTOP, true)?;
        Ok(was_running)
    }

    /// Lets it run on, if it was stopped (SIGCONT).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn go_on(&mut self) -> Result<(), Error> {
        match self.up.as_ref().is_some_and(|up| up.stopped) {
            true => self.signal(SIGCONT, false),
            false => Ok(()),
        }
    }

    fn signal(&mut self, signal: i32, stopped: bool) -> Result<(), Error> {
        let Some(up) = &mut self.up else { return Ok(()) };
        up.stopped = stopped;
        if let Some(process) = ProcessId::of(up.running.id()) {
            process.signal(signal)?;
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().last().unwrap_or("it said nothing").to_owned()
    }
}
