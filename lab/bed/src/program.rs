//! Programs that take part in an experiment. A Ctrl-C on the terminal does not reach them; they end when they
//! go out of scope, or when this process is killed.

use crate::error::Error;
use crate::patience::Patience;
use linux::process::die_with_us;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running program. It is killed when this is dropped, or when the thread that started it ends.
#[derive(Debug)]
pub struct RunningProgram {
    child: Child,
    name: String,
}

/// Starts a program in a process group of its own. Its input is empty.
///
/// # Errors
/// The program is not installed, or cannot be started.
pub fn start(command: &mut Command) -> Result<RunningProgram, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    die_with_us(command);
    let child = command.stdin(Stdio::null()).process_group(0).spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Error::Program(format!("{name} is not installed: `apt install {name}` (or your system's way) brings it"))
        }
        _ => Error::Program(format!("cannot start {name}: {error}")),
    })?;
    Ok(RunningProgram { child, name })
}

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// The program is not installed, fails, or the user stops the run.
pub fn output(command: &mut Command, patience: &Patience) -> Result<String, Error> {
    let mut running = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let (out, errors) = (running.child.stdout.take(), running.child.stderr.take());
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // A pipe that breaks ends the text; the exit status says the rest.
            let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = read(out.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let errors = read(errors.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    while running.is_running() {
        patience.wait(Duration::from_millis(5))?;
    }
    let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    let succeeded = running.child.wait().is_ok_and(|status| status.success());
    if succeeded {
        return Ok(text(out));
    }
    let errors = text(errors);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
    Err(Error::Program(format!("{} failed: {last}", running.name)))
}

/// The last line of a program's log that is not empty.
pub(crate) fn last_words(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// The exit of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExitReport {
    /// The exit status; `None`: the program was killed.
    pub code: Option<i32>,
    /// The text that it wrote on standard error.
    pub errors: String,
}

impl RunningProgram {
    /// True unless the program has ended by itself.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program.
    pub fn stop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the program's exit, after killing it if needed, with its standard error if that is a pipe of
    /// ours.
    pub fn ended(&mut self) -> ExitReport {
        let mut errors = String::new();
        // A pipe that breaks ends the text.
        let _ = self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut errors));
        let code = match self.child.try_wait() {
            Ok(Some(status)) => status.code(),
            _ => {
                self.stop();
                None
            }
        };
        ExitReport { code, errors }
    }

    /// Returns the pipe of its standard output, once, if it was started with one.
    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.stop();
    }
}
