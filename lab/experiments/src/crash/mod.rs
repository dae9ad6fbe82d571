//! `sluice torture crash`: a real agent in a namespace, under load, is killed at random instants and
//! restarted. Its acknowledged changes must be there, whole; no capacity is given away twice, and the kernel
//! matches the bookings.

mod load;
mod look;
pub mod several;

use bed::error::Error;
use bed::patience::Patience;
use bed::program::{RunningProgram, start};
use bed::scratch::Scratch;
use documents::agent::Request;
use linux::anomaly::{InjectedFault, WatchedProgram, watch_at_exec};
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netns::{Guarded, Namespace};
use load::Callers;
pub(crate) use load::{INTERFACE, LICENCE, count};
pub(crate) use look::Look;
use rpc::client::Client;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use terms::Rng;

/// The number of parallel client applications.
const CLIENTS: u64 = 4;
/// The time limit for an agent's first answer after a start, on a busy machine.
const START: Duration = Duration::from_secs(60);
/// The bound until the kernel matches the bookings: 1 s, and 25 us for each class that changed.
const CONVERGED: Duration = Duration::from_secs(1);
const PER_CLASS: Duration = Duration::from_micros(25);

/// The options of the test.
#[derive(Clone, Debug)]
pub struct CrashOptions {
    /// The number of kills.
    pub cycles: u64,
    /// The first random seed.
    pub seed: u64,
    /// The program file of the agent.
    pub program: PathBuf,
    /// True to show progress.
    pub progress: bool,
}

/// The results, and the last line of output, for scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CrashReport {
    /// Number of kills.
    pub cycles: u64,
    /// Acknowledged changes that were missing afterwards.
    pub lost: u64,
    /// Times at which more than the capacity was given away.
    pub overbooked: u64,
    /// Reservations with a part missing.
    pub half: u64,
    /// Times at which the kernel did not match the bookings within the bound.
    pub diverged: u64,
}

/// Details beside the report, for people.
#[derive(Clone, Debug, Default)]
pub struct CrashDetails {
    /// Number of acknowledged changes.
    pub acknowledged: u64,
    /// Number of changes in progress when the agent was killed.
    pub under_way: u64,
    /// The time from each start to the first answer.
    pub starts: Vec<Duration>,
    /// The time from each first answer until the kernel matched the bookings.
    pub converged: Vec<Duration>,
    /// Each finding in words.
    pub findings: Vec<String>,
}

/// The surroundings of an agent: a folder and a namespace.
pub(crate) struct Bed {
    place: Scratch,
    namespace: Guarded,
    program: PathBuf,
}

impl Bed {
    /// Prepares an agent of this name. `more` goes near the start of its configuration file.
    pub(crate) fn make(program: &Path, name: &str, more: &str) -> Result<Bed, Error> {
        let place = Scratch::create()?;
        let namespace = Guarded::create(place.name())?;
        namespace.run(wire)??;
        let (socket, state) = (place.path().join("agent.sock"), place.path().join("state"));
        let text = format!(
            "name = {name:?}\nauth = \"none\"\n{more}socket = {socket:?}\nstate = {state:?}\nlog = \"error\"\n[store]\n\
             any_filesystem = true\n[[interface]]\nname = \"{0}\"\nrate = \"1gbit\"\n[[resource]]\nname = \"{1}\"\ncapacity = {2}\n",
            load::INTERFACE,
            load::LICENCE,
            load::LICENCES
        );
        let file = place.path().join("agent.toml");
        std::fs::write(&file, text).map_err(SystemError::doing(format!("write {}", file.display())))?;
        Ok(Bed { place, namespace, program: program.to_owned() })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.path().join("agent.sock")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    pub(crate) fn namespace(&self) -> &Place {
        &self.namespace
    }

    /// Returns the last line that the agent wrote on standard error.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().last().unwrap_or("it said nothing").to_owned()
    }

    fn log(&self) -> PathBuf {
        self.place.path().join("agent.log")
    }

    /// Removes the state, so that the next agent starts without any.
    pub(crate) fn begin_anew(&self) -> Result<(), Error> {
        let _ = linux::mount::unmount_below(&self.state());
        match std::fs::remove_dir_all(self.state()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(SystemError::because(format!("remove {}", self.state().display()), error).into())
            }
            _ => Ok(()),
        }
    }

    fn command(&self) -> Result<Command, Error> {
        let log = std::fs::File::create(self.log()).map_err(SystemError::doing("write the agent's log"))?;
        let mut command = Command::new(&self.program);
        command.arg("agent").arg("--config").arg(self.place.path().join("agent.toml"));
        command.stdout(Stdio::null()).stderr(log);
        self.namespace.enter_at_exec(&mut command);
        Ok(command)
    }

    /// Starts the agent under supervision, without waiting for it.
    pub(crate) fn start_watched(
        &self,
        fault: Option<InjectedFault>,
    ) -> Result<(RunningProgram, WatchedProgram), Error> {
        let mut command = self.command()?;
        watch_at_exec(&mut command);
        let agent = start(&mut command)?;
        let watch = WatchedProgram::of(agent.id(), fault)?;
        Ok((agent, watch))
    }

    /// Waits until the agent answers.
    pub(crate) fn answers(&self, agent: &mut RunningProgram, most: Duration, patience: &Patience) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < most {
            // A failed attempt is repeated, not waited for: its answer may never come.
            let client = Client::connect(&self.socket());
            if client.and_then(|mut client| client.call(Request::Hello)).is_ok() {
                return Ok(());
            }
            if !agent.is_running() {
                return Err(Error::Void(format!("the agent ended by itself: {}", self.last_words())));
            }
            patience.wait(Duration::from_millis(1))?;
        }
        Err(Error::Void(format!("the agent does not answer within {most:?}")))
    }

    /// Starts the agent, without waiting for it.
    pub(crate) fn begin(&self) -> Result<RunningProgram, Error> {
        start(&mut self.command()?)
    }

    /// Starts the agent and waits until it answers.
    pub(crate) fn start(&self, patience: &Patience) -> Result<(RunningProgram, Duration), Error> {
        let begun = Instant::now();
        let mut agent = self.begin()?;
        self.answers(&mut agent, START, patience)?;
        Ok((agent, begun.elapsed()))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // What cannot be unmounted is told by the next run, which finds it.
        let _ = linux::mount::unmount_below(&self.state());
    }
}

/// Makes an interface with an address, and its peer at the other end.
fn wire() -> Result<(), SystemError> {
    let mut netlink = Socket::open().map_err(SystemError::netlink("speak to the kernel"))?;
    netlink.add_veth(load::INTERFACE, "far", None).map_err(SystemError::netlink("make a link"))?;
    for name in [load::INTERFACE, "far"] {
        let index = netlink.link_by_name(name).map_err(SystemError::netlink("find a link"))?.index;
        netlink.set_link_up(index, true).map_err(SystemError::netlink("switch a link on"))?;
    }
    Ok(())
}

/// Kills and checks the agent in every cycle.
///
/// # Errors
/// The test cannot run here, or the user stops it. Findings are no error.
pub fn run(options: &CrashOptions, patience: &Patience) -> Result<(CrashReport, CrashDetails), Error> {
    let bed = Bed::make(&options.program, "crash", "")?;
    let (mut report, mut told) = (CrashReport::default(), CrashDetails::default());
    let (mut agent, took) = bed.start(patience)?;
    told.starts.push(took);
    let mut load = Callers::new(CLIENTS, options.seed);
    let mut chance = Rng::seeded(options.seed ^ 0x9e37_79b9_7f4a_7c15);
    for cycle in 0..options.cycles {
        let running = load.begin(&bed.socket());
        let waited = patience.wait(Duration::from_micros(5_000 + chance.below(100_000)));
        agent.stop(); // SIGKILL
        load.end(running);
        waited?;
        let took;
        (agent, took) = bed.start(patience)?;
        told.starts.push(took);
        let mut look = Look::of(&bed.socket(), &mut report, &mut told.findings, cycle);
        look.at_promises(&mut load)?;
        look.at_capacity()?;
        let begun = Instant::now();
        let state = bed.state();
        let same = loop {
            let (same, classes) = look.at_kernel(&bed.namespace, &state)?;
            let bound = CONVERGED + PER_CLASS * classes;
            if same || begun.elapsed() > bound {
                break same;
            }
            patience.wait(Duration::from_millis(10))?;
        };
        told.converged.push(begun.elapsed());
        if !same {
            report.diverged += 1;
            told.findings.push(format!("cycle {cycle}: the kernel has not what the book says"));
        }
        report.cycles += 1;
        if options.progress && (cycle + 1) % 50 == 0 {
            eprintln!("{} cycles, {} changes acknowledged", cycle + 1, load.acknowledged);
        }
    }
    (told.acknowledged, told.under_way) = (load.acknowledged, load.under_way);
    drop(agent);
    Ok((report, told))
}

impl CrashDetails {
    /// Formats the details as text for people.
    pub fn text(&self) -> String {
        let longest = |all: &[Duration]| all.iter().max().copied().unwrap_or_default();
        let mut text: String = self.findings.iter().map(|line| format!("{line}\n")).collect();
        text += &format!(
            "{} changes acknowledged, {} under way at a kill; first answer at most {:?} after a start, the kernel as the book \
             says at most {:?} after that\n",
            self.acknowledged,
            self.under_way,
            longest(&self.starts),
            longest(&self.converged)
        );
        text
    }
}

impl CrashReport {
    /// True if there are no findings.
    pub fn is_clean(&self) -> bool {
        (self.lost, self.overbooked, self.half, self.diverged) == (0, 0, 0, 0)
    }
}

/// The namespace of a bed, for reading its kernel's state.
pub(crate) type Place = Namespace;
