//! `sluice run`: a command with a share of the network, the processors or a disk, reserved from its start to its end.
//!
//! The command is started and stopped at once, bound to its reservation, and then continued: none of its
//! instructions runs unreserved. The reservation is a lease of a few minutes that is renewed as long as the
//! command runs, so that the lease of a killed `sluice run` ends by itself; what is signalled ends with the connection.

mod brokered;
mod each;
mod group;
mod time;
mod way;

use crate::book::in_force::{LOOK, PATIENCE, in_force, reservation};
use crate::complain::{Complaint, INTERRUPTED};
use crate::places::AgentArgs;
use clap::Args;
use documents::agent::Request;
use documents::book::{AskDoc, BindingDoc, ChangeDoc, Instant as Stamp, PartDoc, PartRow, ReservationDoc};
use documents::units;
use each::{Each, EachArgs};
use group::RunGroup;
use linux::poll::SignalFd;
use linux::process::ProcessId;
use linux::supervise::{self, Supervisor};
use rpc::client::Client;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use terms::Span;
use time::TimeArgs;
use way::{Way, WayArgs, WayMeans};

/// `sluice run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sluice run --cpu 50% -- make               half of a core, for make and all that it starts
  sluice run --cpu 1.5 --disk data=40mbps -- ./import
  sluice run --cpu 30% --label video -n viewer -- ffplay rtp.sdp
  sluice run --to 10.0.2.2 --forward 200mbit -- rsync -a data/ 10.0.2.2::in
  sluice run --to 10.0.2.2 --forward 20mbit --reverse 1mbit --or-best-effort -- ./stream
  sluice run --to 10.0.2.2 --forward 20mbit --with booking --wait 10min -- ./stream    what it alone sends
  sluice run --to 10.0.2.2 --forward 900mbit --volume 200gb --by \"friday 08:00\" -- rsync -a data/ 10.0.2.2::in
  sluice run --to 10.0.10.2 --forward 20mbit --reverse 1mbit --broker https://broker.example.org:8443 -- ./stream
  sluice run --each 45mbit -- nginx -g 'daemon off;'    each connection has a reservation of its own

With --to, RSVP is tried first (the far end must reserve), then Boomerang (it need only answer a ping; with --reverse
at once), then a booking of the link by which the packets leave. The first two reserve for all packets between the two
hosts, a booking for those of the command and of what it starts, whatever their addresses. With --broker all agents on the
way book it, for the packets of --protocol between the two hosts.
With --each, every TCP connection waits for its reservation, by RSVP or else by a booking for its ports, before it carries
data; one that is refused is closed, or goes on with --or-best-effort.
Exit status: that of the command (128 and the signal's number if one ended it); 1 refused, 2 usage, 3 the world.")]
pub struct RunArgs {
    /// A share of the processors: 50% of a core, or 1.5 cores
    #[arg(long, value_name = "CORES", value_parser = agent_service::host_file::parse_cores, required_unless_present_any = ["disk", "to", "each"])]
    pub cpu: Option<u64>,
    /// A rate of a disk: NAME=RATE, such as data=40mbps (bytes a second); can be given several times
    #[arg(long, value_name = "NAME=RATE", value_parser = disk)]
    pub disk: Vec<(String, u64)>,
    /// The network.
    #[command(flatten)]
    pub way: WayArgs,
    /// A broker reserves the way, at every agent on it and in both directions: https://HOST:PORT or unix:PATH
    #[arg(long, short = 'b', value_name = "PLACE", requires = "to", conflicts_with_all = ["each", "with"])]
    pub broker: Option<String>,
    /// Single connections.
    #[command(flatten)]
    pub each: EachArgs,
    /// Its time.
    #[command(flatten)]
    pub time: TimeArgs,
    /// If it is refused, ask again every second for so long
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub wait: Option<Span>,
    /// If it is refused all the same, run the command without
    #[arg(long)]
    pub or_best_effort: bool,
    /// Print one JSON object on the standard error at the end: what was asked, admitted, installed and measured
    #[arg(long)]
    pub json: bool,
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

impl RunArgs {
    /// The way to reserve; a volume is moved by a booking.
    fn way(&self) -> WayArgs {
        let with = if self.time.is_of_volume() { WayMeans::Booking } else { self.way.with };
        WayArgs { with, ..self.way }
    }
}

fn disk(text: &str) -> Result<(String, u64), String> {
    let (name, rate) = text.split_once('=').ok_or_else(|| format!("{text:?} is no NAME=RATE: write data=40mbps"))?;
    Ok((name.to_owned(), units::parse_rate(rate)?.as_bps() / 8))
}

/// The term of the reservation, unless it is renewed.
const LEASE: Span = Span::from_secs(300);
/// The interval between renewals.
const RENEW: Duration = Duration::from_secs(100);
const SIGINT: i32 = 2;
/// SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM.
const PASSED_ON: [i32; 5] = [1, 3, 10, 12, 15];
const SIGCONT: i32 = 18;

/// Runs it.
pub fn run(args: &RunArgs) -> Result<ExitCode, Complaint> {
    if args.agent.is_remote() {
        return Err(Complaint::usage("the command runs here: its processor is this machine's, and so is the agent"));
    }
    if args.each.each.is_some() && args.way.with == WayMeans::Boomerang {
        return Err(Complaint::usage("single connections are reserved by RSVP or by bookings: --with rsvp or booking"));
    }
    if args.time.is_of_volume() && matches!(args.way.with, WayMeans::Rsvp | WayMeans::Boomerang) {
        return Err(Complaint::usage("a volume by a deadline is booked: --with booking"));
    }
    let begun = Instant::now();
    let (status, report) = match reserved(args) {
        Ok(reserved) => carry(args, reserved)?,
        Err(complaint) if args.or_best_effort && complaint.exit_code() != USAGE => {
            eprintln!("sluice: {complaint}; it runs without a reservation");
            let mut child = started(args)?;
            let (status, connections) = attend(args, None, &mut child)?;
            let mut report = json!({"reserved": false, "why": complaint.to_string()});
            connections.into_iter().for_each(|connections| report["connections"] = connections);
            (status, report)
        }
        Err(complaint) => return Err(complaint),
    };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    if args.json {
        let mut report = report;
        report["command"] = json!(args.command);
        report["status"] = json!(code);
        report["seconds"] = json!(begun.elapsed().as_secs_f64());
        eprintln!("{report}");
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(INTERRUPTED)))
}

const USAGE: u8 = 2;
/// The interval between attempts of `--wait`.
const AGAIN: Duration = Duration::from_secs(1);

/// A reservation that stands, and its command, which has not begun.
struct Reserved {
    client: Client,
    child: Stopped,
    /// The handle of what is booked.
    handle: Option<String>,
    way: Option<Way>,
    _group: Option<RunGroup>,
}

/// Reserves and starts the command, as often as `--wait` allows.
fn reserved(args: &RunArgs) -> Result<Reserved, Complaint> {
    let until = args.wait.map(|wait| Instant::now() + Duration::from_nanos(wait.as_nanos()));
    loop {
        match reserve(args) {
            Err(complaint)
                if complaint.exit_code() == 1 && until.is_some_and(|until| Instant::now() + AGAIN < until) =>
            {
                if args.verbose {
                    eprintln!("sluice: {complaint}; asking again");
                }
                std::thread::sleep(AGAIN);
            }
            other => return other,
        }
    }
}

/// Reserves once. What was reserved before something else is refused is given back.
fn reserve(args: &RunArgs) -> Result<Reserved, Complaint> {
    let mut client = args.agent.connect()?;
    let told = |text: &str| {
        if args.verbose {
            eprintln!("sluice: {text}");
        }
    };
    let way = Way::reserve(args, &mut client, &told)?;
    let parts = parts(args, way.as_ref());
    let mut handle = None;
    let ready = booked(args, &mut client, parts).and_then(|booked| {
        handle = booked.as_ref().map(|booked| booked.handle.clone());
        let booked = booked.map(|found| time::begun(&mut client, found, &told)).transpose()?;
        let group = matches!(way, Some(Way::Booking { .. })).then(RunGroup::make).transpose()?;
        let child = started(args)?;
        if let Some(group) = &group {
            group.take(child.child.id())?;
        }
        if let Some(booked) = booked {
            bind(&mut client, booked, child.child.id(), group.as_ref())?;
        }
        Ok((child, group))
    });
    match ready {
        Ok((child, group)) => Ok(Reserved { client, child, handle, way, _group: group }),
        Err(complaint) => {
            give_back(&mut client, way.as_ref(), handle);
            Err(complaint)
        }
    }
}

/// Gives everything back. The first complaint is the one to tell, and what is not given back now ends by itself.
fn give_back(client: &mut Client, way: Option<&Way>, handle: Option<String>) {
    if let Some(way) = way {
        way.release(client);
    }
    if let Some(handle) = handle {
        let _ = client.call(Request::BookCancel { handle });
    }
}

/// Books the parts, if there are any.
fn booked(args: &RunArgs, client: &mut Client, parts: Vec<PartDoc>) -> Result<Option<ReservationDoc>, Complaint> {
    if parts.is_empty() {
        return Ok(None);
    }
    let ask = AskDoc {
        parts,
        label: if args.label.is_empty() { args.command[0].clone() } else { args.label.clone() },
        when: args.time.when(LEASE)?,
        ..AskDoc::default()
    };
    reservation(client.call(Request::BookCreate(ask))?).map(Some)
}

/// Runs the command to its end and gives back what it had: its status, and the report.
fn carry(args: &RunArgs, mut has: Reserved) -> Result<(ExitStatus, Value), Complaint> {
    if args.verbose {
        has.way.iter().for_each(|way| eprintln!("sluice: {}", way.words()));
        has.handle.iter().for_each(|handle| eprintln!("sluice: reserved as {handle}"));
    }
    let begun = Instant::now();
    let standing = (&mut has.client, has.handle.as_deref(), &mut has.way);
    let ran = attend(args, Some(standing), &mut has.child);
    let mut report = json!({"reserved": true});
    if let Ok((_, Some(connections))) = &ran {
        report["connections"] = connections.clone();
    }
    if let Some(way) = &has.way {
        report["way"] = way.report();
    }
    let shown = has.handle.clone().and_then(|handle| show(&mut has.client, handle));
    if let (Some(doc), true) = (&shown, args.verbose && ran.is_ok()) {
        got(doc, begun.elapsed().as_secs_f64());
    }
    if let Some(doc) = shown {
        report["parts"] = doc.parts.iter().map(row).collect();
    }
    give_back(&mut has.client, has.way.as_ref(), has.handle);
    ran.map(|(status, _)| (status, report))
}

/// A part, for the report.
fn row(part: &PartRow) -> Value {
    let PartRow { resource, unit, asked, now, installed, means, measured, .. } = part;
    json!({"resource": resource, "unit": unit, "asked": asked, "admitted": now, "installed": installed,
        "means": means, "measured": measured})
}

fn parts(args: &RunArgs, way: Option<&Way>) -> Vec<PartDoc> {
    let cpu =
        args.cpu.map(|share| PartDoc { resource: "cpu".into(), cores: Some(share as f64 / 1e6), ..PartDoc::default() });
    let disk = |(name, rate): &(String, u64)| PartDoc {
        resource: format!("disk/{name}"),
        bytes_per_s: Some(*rate),
        ..PartDoc::default()
    };
    let net = way.and_then(|way| match way {
        Way::Booking { resource, rate } => {
            Some(PartDoc { resource: resource.clone(), rate: Some(rate.as_bps()), ..PartDoc::default() })
        }
        _ => None,
    });
    cpu.into_iter().chain(args.disk.iter().map(disk)).chain(net).collect()
}

/// A stopped command. Dropping it kills the command, which has not begun.
struct Stopped {
    child: Child,
    /// Its calls about connections, with `--each`.
    calls: Option<Supervisor>,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // It may end at this moment.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Starts the command by a shell that stops itself before it becomes the command, with the same process number.
fn started(args: &RunArgs) -> Result<Stopped, Complaint> {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -STOP $$; exec \"$@\"", "sluice-run"]).args(&args.command);
    let world = |failed: linux::error::SystemError| Complaint::world(failed.to_string());
    let starting = args.each.each.map(|_| supervise::at_exec(&mut command)).transpose().map_err(world)?;
    let child = command.spawn().map_err(|error| Complaint::world(format!("cannot start a shell: {error}")))?;
    let mut stopped = Stopped { child, calls: None };
    stopped.calls = starting.map(supervise::Starting::supervisor).transpose().map_err(world)?;
    let until = Instant::now() + PATIENCE;
    while !is_stopped(stopped.child.id()) {
        if Instant::now() > until {
            return Err(Complaint::world("the command does not start".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(stopped)
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rfind(')').is_some_and(|end| stat[end + 1..].trim_start().starts_with('T'))
}

/// Binds every part to the process, or to its group, and waits until it is in force.
fn bind(client: &mut Client, mut found: ReservationDoc, pid: u32, group: Option<&RunGroup>) -> Result<(), Complaint> {
    for part in 0..found.parts.len() {
        let of_group = group.filter(|_| found.parts[part].resource.starts_with("net/"));
        let binding = Some(of_group.map_or(BindingDoc::Pid(pid), |group| BindingDoc::Cgroup(group.path())));
        let handle = found.handle.clone();
        found = reservation(client.call(Request::BookBind { handle, part, binding })?)?;
    }
    in_force(client, found)
}

/// The connection, the handle of the booking, and the way, while the command runs.
type Standing<'a> = (&'a mut Client, Option<&'a str>, &'a mut Option<Way>);

/// Continues the command, waits for its end, and renews its reservation meanwhile.
fn attend(
    args: &RunArgs,
    mut standing: Option<Standing<'_>>,
    stopped: &mut Stopped,
) -> Result<(ExitStatus, Option<Value>), Complaint> {
    // The terminal interrupts the command too; the other signals that come only to us are passed on. The command has the
    // signals that it was started with.
    let mut signals = SignalFd::take(&[SIGINT].into_iter().chain(PASSED_ON).collect::<Vec<i32>>())
        .map_err(|failed| Complaint::world(failed.to_string()))?;
    let calls = args.each.each.zip(stopped.calls.take());
    let each = calls.map(|(rate, calls)| Each::start(args, rate, calls)).transpose()?;
    let child = &mut stopped.child;
    let process = ProcessId::of(child.id());
    let send = |signal| process.map_or(Ok(()), |process| process.signal(signal));
    send(SIGCONT).map_err(|failed| Complaint::world(failed.to_string()))?;
    let (mut renewed, mut looked) = (Instant::now(), Instant::now());
    let over = args.time.length().map(|length| renewed + length);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, each.map(Each::end)));
        }
        if let Some(signal) = signals.take_next().filter(|signal| PASSED_ON.contains(signal)) {
            send(signal).map_err(|failed| Complaint::world(failed.to_string()))?;
        }
        let due = renewed.elapsed() >= RENEW && args.time.is_open();
        if over.is_some_and(|over| Instant::now() >= over)
            && let Some((client, handle, way)) = standing.take()
        {
            give_back(client, way.as_ref(), handle.map(str::to_owned));
        }
        if let Some((client, handle, way)) = &mut standing {
            if due {
                renewed = Instant::now();
                let booked = handle.map(|handle| renew(client, handle));
                for complaint in booked.into_iter().chain(way.as_ref().map(Way::renew)).filter_map(Result::err) {
                    eprintln!("sluice: the reservation cannot be made longer: {complaint}");
                }
            }
            watch(args, client, way, &mut looked);
        }
        std::thread::sleep(LOOK);
    }
}

/// Says what has become of the way. An agent that went away is looked for once a second; the next one is asked for the
/// way again.
fn watch(args: &RunArgs, client: &mut Client, way: &mut Option<Way>, looked: &mut Instant) {
    loop {
        match client.event_here() {
            Ok(Some((_, event))) => {
                if let Some(text) = way.as_ref().and_then(|way| way.lost(&event)) {
                    eprintln!("sluice: {text}");
                }
            }
            Ok(None) => return,
            Err(_) if looked.elapsed() < AGAIN => return,
            Err(_) => {
                *looked = Instant::now();
                let Ok(next) = args.agent.connect() else { return };
                *client = next;
                let signalled = matches!(way, Some(Way::Rsvp { .. } | Way::Boomerang { .. }));
                match signalled.then(|| Way::reserve(args, client, &|_| {})) {
                    Some(Ok(again)) => *way = again,
                    Some(Err(complaint)) => eprintln!("sluice: the next agent does not reserve the way: {complaint}"),
                    None => {}
                }
            }
        }
    }
}

/// The reservation as it stands, if the agent still answers.
fn show(client: &mut Client, handle: String) -> Option<ReservationDoc> {
    let show = Request::BookShow { handle: Some(handle), filter: Default::default() };
    client.call(show).ok().and_then(|answer| reservation(answer).ok())
}

/// Prints the measured use of the command, beside its reservation. Values that are no longer known are left
/// out.
fn got(doc: &ReservationDoc, took: f64) {
    for part in &doc.parts {
        match (part.resource.as_str(), part.measured) {
            ("cpu", _) => {
                let Some(seconds) = children_s() else { continue };
                eprintln!(
                    "sluice: cpu: got {:.3} cores over {took:.1} s, {} reserved",
                    seconds / took.max(0.01),
                    part.now
                );
            }
            (resource, Some(seen)) if part.unit == "bit/s" => eprintln!(
                "sluice: {resource}: got {:.2}Mbit/s in its last {:.0} s, {:.2}Mbit/s reserved",
                seen.amount / 1e6,
                seen.interval_s,
                part.now / 1e6
            ),
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
