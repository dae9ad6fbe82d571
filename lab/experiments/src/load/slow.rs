//! A slow disk under the flooded agent and the broker: each fsync takes a fixed time.

use bed::error::Error;
use bed::patience::Patience;
use bed::program::{RunningProgram, start};
use bed::{Bed, NEAR};
use linux::anomaly::{CallKind, WatchedProgram, watch_syncs_at_exec};
use linux::process::ProcessId;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The time of an fsync.
const SYNC: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);
const SIGTERM: i32 = 15;

/// A program on a slow disk. It ends when this is dropped.
#[derive(Debug)]
pub struct Slow {
    // In this order: the program ends before its supervision does.
    running: RunningProgram,
    watch: WatchedProgram,
}

impl Slow {
    /// Starts a program whose every fsync is slow.
    ///
    /// # Errors
    /// The program cannot be started, or this kernel cannot supervise system calls.
    pub fn start(command: &mut Command) -> Result<Slow, Error> {
        watch_syncs_at_exec(command);
        let running = start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        let watch = WatchedProgram::of(running.id(), None)?;
        watch.slow(SYNC);
        Ok(Slow { running, watch })
    }

    /// Ends the agent that will be flooded, and restarts it on a slow disk.
    ///
    /// # Errors
    /// As [`Slow::start`], or the agent does not answer.
    pub fn agent(bed: &Bed, patience: &Patience) -> Result<Slow, Error> {
        if let Some(agent) = ProcessId::of(bed.node(NEAR)?.agent.pid) {
            agent.signal(SIGTERM)?;
            patience.wait_for(PATIENCE, || ProcessId::of(agent.pid) != Some(agent))?;
        }
        let (mut command, _, namespace) = bed.agent_command(NEAR)?;
        let slow = Slow::start(&mut command)?;
        drop(namespace);
        match patience.wait_for(PATIENCE, || bed.status(NEAR).is_ok())? {
            true => Ok(slow),
            false => Err(Error::Void("the agent does not answer on a slow disk".to_owned())),
        }
    }

    /// Returns the process number.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Describes the number of fsyncs, and the time of each.
    pub fn words(&self) -> String {
        format!("{} fsyncs of {SYNC:?} each", self.watch.count(CallKind::Sync))
    }
}
