//! `sluice run`: a command with a share of the processors or a disk, reserved from its start to its end.
//!
//! The command is started and stopped at once, bound to its reservation, and then continued: none of its
//! instructions runs unreserved. The reservation is a lease of a few minutes that is renewed as long as the
//! command runs, so that the lease of a killed `sluice run` ends by itself.

use crate::complain::{Complaint, INTERRUPTED};
use crate::places::AgentArgs;
use clap::Args;
use documents::agent::{Answer, Request};
use documents::book::{AskDoc, BindingDoc, BookAnswer, ChangeDoc, Instant as Stamp, PartDoc, ReservationDoc, WhenDoc};
use documents::units;
use linux::poll::SignalFd;
use linux::process::ProcessId;
use rpc::client::Client;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use terms::Span;

/// `sluice run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sluice run --cpu 50% -- make               half of a core, for make and all that it starts
  sluice run --cpu 1.5 --disk data=40mbps -- ./import
  sluice run --cpu 30% --label video -n viewer -- ffplay rtp.sdp
Exit status: that of the command (128 and the signal's number if one ended it); 1 refused, 2 usage, 3 the world.")]
pub struct RunArgs {
    /// A share of the processors: 50% of a core, or 1.5 cores
    #[arg(long, value_name = "CORES", value_parser = agent_service::host_file::parse_cores, required_unless_present = "disk")]
    pub cpu: Option<u64>,
    /// A rate of a disk: NAME=RATE, such as data=40mbps (bytes a second); can be given several times
    #[arg(long, value_name = "NAME=RATE", value_parser = disk)]
    pub disk: Vec<(String, u64)>,
    /// A label for the reservation
    #[arg(long, default_value = "")]
    pub label: String,
    /// Print the reservation, and the measured use at the end
    #[arg(long, short)]
    pub verbose: bool,
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

fn disk(text: &str) -> Result<(String, u64), String> {
    let (name, rate) = text.split_once('=').ok_or_else(|| format!("{text:?} is no NAME=RATE: write data=40mbps"))?;
    Ok((name.to_owned(), units::parse_rate(rate)?.as_bps() / 8))
}

/// The term of the reservation, unless it is renewed.
const LEASE: Span = Span::from_secs(300);
/// The interval between renewals.
const RENEW: Duration = Duration::from_secs(100);
/// The limit for the agent to carry out a binding.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

/// Runs it.
pub fn run(args: &RunArgs) -> Result<ExitCode, Complaint> {
    if args.agent.is_remote() {
        return Err(Complaint::usage("the command runs here: its processor is this machine's, and so is the agent"));
    }
    let mut client = args.agent.connect()?;
    let ask = AskDoc {
        parts: parts(args),
        label: if args.label.is_empty() { args.command[0].clone() } else { args.label.clone() },
        when: WhenDoc::lasting(LEASE.as_nanos() as f64 / 1e9),
        ..AskDoc::default()
    };
    let reserved = reservation(client.call(Request::BookCreate(ask))?)?;
    let handle = reserved.handle.clone();
    let ran = started(args).and_then(|child| {
        let mut child = Stopped(child);
        bind(&mut client, reserved, child.0.id())?;
        let begun = Instant::now();
        let status = attend(args, &mut client, &handle, &mut child.0)?;
        if args.verbose {
            got(&mut client, &handle, begun.elapsed().as_secs_f64());
        }
        Ok(status)
    });
    let status = match ran {
        Ok(status) => status,
        Err(complaint) => {
            // The first complaint is the one to tell; the lease ends by itself.
            let _ = client.call(Request::BookCancel { handle });
            return Err(complaint);
        }
    };
    reservation(client.call(Request::BookCancel { handle })?)?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(INTERRUPTED)))
}

fn parts(args: &RunArgs) -> Vec<PartDoc> {
    let cpu =
        args.cpu.map(|share| PartDoc { resource: "cpu".into(), cores: Some(share as f64 / 1e6), ..PartDoc::default() });
    let disk = |(name, rate): &(String, u64)| PartDoc {
        resource: format!("disk/{name}"),
        bytes_per_s: Some(*rate),
        ..PartDoc::default()
    };
    cpu.into_iter().chain(args.disk.iter().map(disk)).collect()
}

fn reservation(answer: Answer) -> Result<ReservationDoc, Complaint> {
    match answer {
        Answer::Book(BookAnswer::Reservation(found)) => Ok(found),
        other => Err(Complaint::world(format!("the agent answered {other:?} when asked for a reservation"))),
    }
}

/// A stopped command. Dropping it kills the command, which has not begun.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // It may end at this moment.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Starts the command by a shell that stops itself before it becomes the command, with the same process number.
fn started(args: &RunArgs) -> Result<Child, Complaint> {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -STOP $$; exec \"$@\"", "sluice-run"]).args(&args.command);
    let child = command.spawn().map_err(|error| Complaint::world(format!("cannot start a shell: {error}")))?;
    let until = Instant::now() + PATIENCE;
    while !is_stopped(child.id()) {
        if Instant::now() > until {
            drop(Stopped(child));
            return Err(Complaint::world("the command does not start".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(child)
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rfind(')').is_some_and(|end| stat[end + 1..].trim_start().starts_with('T'))
}

/// Binds every part to the process, and waits until it is in force.
fn bind(client: &mut Client, mut found: ReservationDoc, pid: u32) -> Result<(), Complaint> {
    for part in 0..found.parts.len() {
        let (handle, binding) = (found.handle.clone(), Some(BindingDoc::Pid(pid)));
        found = reservation(client.call(Request::BookBind { handle, part, binding })?)?;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let lacks = found.parts.iter().find(|part| part.enforced != "in_force");
        let Some(part) = lacks else { return Ok(()) };
        if Instant::now() > until || part.enforced == "failed" {
            let why = part.fault.clone().unwrap_or_else(|| part.enforced.clone());
            return Err(Complaint::refused(format!("{} is reserved, but not to be had: {why}", part.resource)));
        }
        std::thread::sleep(LOOK);
        let handle = Some(found.handle.clone());
        found = reservation(client.call(Request::BookShow { handle, filter: Default::default() })?)?;
    }
}

/// Continues the command, waits for its end, and renews its reservation meanwhile.
fn attend(args: &RunArgs, client: &mut Client, handle: &str, child: &mut Child) -> Result<ExitStatus, Complaint> {
    // The terminal tells the command too; who ends only us is passed on. The command has the signals that it was
    // started with.
    let mut signals = SignalFd::take(&[SIGINT, SIGTERM]).map_err(|failed| Complaint::world(failed.to_string()))?;
    let process = ProcessId::of(child.id());
    let send = |signal| process.map_or(Ok(()), |process| process.signal(signal));
    if args.verbose {
        eprintln!("sluice: reserved as {handle}");
    }
    send(SIGCONT).map_err(|failed| Complaint::world(failed.to_string()))?;
    let mut renewed = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if signals.take_next() == Some(SIGTERM) {
            send(SIGTERM).map_err(|failed| Complaint::world(failed.to_string()))?;
        }
        if renewed.elapsed() >= RENEW {
            renewed = Instant::now();
            if let Err(complaint) = renew(client, handle) {
                eprintln!("sluice: the reservation cannot be made longer: {complaint}");
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Prints the measured use of the command, beside its reservation. Values that are no longer known are left
/// out.
fn got(client: &mut Client, handle: &str, took: f64) {
    let show = Request::BookShow { handle: Some(handle.to_owned()), filter: Default::default() };
    let Ok(Answer::Book(BookAnswer::Reservation(doc))) = client.call(show) else { return };
    for part in doc.parts {
        match (part.resource.as_str(), part.measured) {
            ("cpu", _) => {
                let Some(seconds) = children_s() else { continue };
                eprintln!(
                    "sluice: cpu: got {:.3} cores over {took:.1} s, {} reserved",
                    seconds / took.max(0.01),
                    part.now
                );
            }
            (resource, Some(seen)) => eprintln!(
                "sluice: {resource}: got {:.2}MB/s in its last {:.0} s, {:.2}MB/s reserved",
                seen.amount / 1e6,
                seen.interval_s,
                part.now / 1e6
            ),
            (resource, None) => eprintln!("sluice: {resource}: was not measured: it ended within a second"),
        }
    }
}

/// Processor time of the command and of all whose end it waited for, seconds (proc_pid_stat(5), fields 16 and 17).
fn children_s() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 2..)?.split_whitespace().collect();
    let ticks = |n: usize| fields.get(n)?.parse::<f64>().ok();
    // USER_HZ is 100 on every architecture that Linux has for users.
    Some((ticks(13)? + ticks(14)?) / 100.0)
}

fn renew(client: &mut Client, handle: &str) -> Result<(), Complaint> {
    let end = Stamp(linux::clock::Clock::start().now() + LEASE);
    let change = ChangeDoc { end: Some(end), ..ChangeDoc::default() };
    reservation(client.call(Request::BookModify { handle: handle.to_owned(), change })?).map(|_| ())
}
