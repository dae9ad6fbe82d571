//! `sluice torture load`: a real path of four agents and a real broker under floods of every kind of message,
//! at multiples of an agent's capacity, beside calls on fifty connections, routes that come and go, and a
//! stop. No established reservation and no acknowledged booking may be lost. The report has the length of the
//! agent's turns and the growth of its memory.
//!
//! The floods are *open-loop*: they do not wait for the receiver. They are unsigned, once from a stranger's
//! address and once from a neighbour's. On links with keys one more neighbour on the first link has the key:
//! its messages are signed, then replayed, then signed wrongly; and the first host's own applications come
//! and go as fast as they get answers. Floods concern sessions that do not exist, because without keys a
//! forged tear of an existing session is valid. The neighbour with the key also tears existing sessions,
//! which it may not.

mod around;
mod counted;
mod established;
mod flood;
mod messages;
mod neighbour;
mod slow;

use around::Around;
use bed::error::Error;
use bed::patience::Patience;
use bed::scratch::Scratch;
use bed::testbed::UpOptions;
use bed::{Bed, CARRIERS, NEAR, SENDER};
use counted::NodeCounts;
use documents::agent::{Answer, CounterRow, Request};
use documents::turns::{TurnsDoc, per_mille};
use established::{Bookings, Established};
use flood::{Flood, Flooded, Manner};
use linux::netns::Namespace;
use linux::process::ProcessId;
use neighbour::{Neighbour, Seal};
use rpc::client::Client;
use serde::Serialize;
use slow::Slow;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use terms::Span;
use wire::MessageType;

/// R on every node: state without a refresh is gone after three and a half times 1.5 R, 5.25 s.
const REFRESH: Span = Span::from_secs(1);
/// The multiples of an agent's capacity.
const MULTIPLES: [f64; 4] = [0.5, 1.0, 3.0, 10.0];
/// The number of message types between two bookings.
const BOOK_EVERY: usize = 4;
/// The end of the counter's name for unsigned messages on links with keys.
const UNSIGNED: &str = "no INTEGRITY where it is required";
/// The length of the agent's stop, shorter than a lifetime.
const STOPPED: Duration = Duration::from_secs(2);

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;

/// The options of the test.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The total length of the floods.
    pub length: Duration,
    /// The program file of the agents and the broker.
    pub program: PathBuf,
    /// True to show progress.
    pub progress: bool,
    /// True to end an established reservation and cancel an acknowledged booking; the check must find both.
    pub plant: bool,
    /// True to make every fsync of the flooded agent and of the broker slow.
    pub slow_disk: bool,
    /// The rounds over all multiples: two, so that memory that is taken once and reused does not count as
    /// growth.
    pub rounds: usize,
}

/// The results, and the last line of output, for scripts.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct LoadReport {
    /// Established reservations that were lost at any node.
    pub established_lost: u64,
    /// Acknowledged bookings that were missing afterwards.
    pub acknowledged_lost: u64,
    /// The 99.9th percentile of the processor time of the flooded agent's turns, milliseconds.
    pub turn_p999_ms: f64,
    /// The growth of its memory in the last half, MB, at least 0.
    pub rss_growth_mb: f64,
}

impl LoadReport {
    /// True if no reservation and no booking was lost.
    pub fn is_lossless(&self) -> bool {
        (self.established_lost, self.acknowledged_lost) == (0, 0)
    }

    /// True if turns were short and memory did not grow. Only meaningful on a machine that is not busy.
    pub fn is_steady(&self) -> bool {
        self.turn_p999_ms < 10.0 && self.rss_growth_mb <= 5.0
    }
}

/// Runs the test with and without keys.
///
/// # Errors
/// The test cannot run here, or the user stops it. Findings are no error.
pub fn run(options: &LoadOptions, patience: &Patience) -> Result<(LoadReport, Vec<String>), Error> {
    let (mut report, mut told) = (LoadReport::default(), Vec::new());
    // A planted loss needs no second testbed to be found.
    for keys in [true, false].into_iter().take(if options.plant { 1 } else { 2 }) {
        let (found, lines) = on_links(keys, options, patience)?;
        report.established_lost += found.established_lost;
        report.acknowledged_lost += found.acknowledged_lost;
        report.turn_p999_ms = report.turn_p999_ms.max(found.turn_p999_ms);
        report.rss_growth_mb = report.rss_growth_mb.max(found.rss_growth_mb);
        told.extend(lines);
    }
    Ok((report, told))
}

/// Runs one testbed, with or without keys on its links.
fn on_links(keys: bool, options: &LoadOptions, patience: &Patience) -> Result<(LoadReport, Vec<String>), Error> {
    let scratch = Scratch::create()?;
    let up = UpOptions { program: options.program.clone(), testbeds: scratch.path().to_owned() };
    let more = if keys { "" } else { "auth = \"none\"\n" };
    let text = include_str!("../../../../examples/seed.toml").replacen("\n[[node]]", &format!("\n{more}[[node]]"), 1);
    let bed = Bed::of("examples/seed.toml", &text, scratch.name(), Some(REFRESH), &up)?;
    let which = if keys { "with keys" } else { "without keys" };
    let slow = options.slow_disk.then(|| Slow::agent(&bed, patience)).transpose()?;
    let pid = slow.as_ref().map_or(bed.node(NEAR)?.agent.pid, Slow::id);
    let mut run = Run { bed: &bed, options, patience, which, pid, told: Vec::new() };
    let mut established = Established::set_up(&bed, patience)?;
    let mut bookings = Bookings::begin(&bed, &options.program, scratch.path(), options.slow_disk, patience)?;
    let others = established.flows();
    let neighbour = keys.then(|| Neighbour::come(&bed, scratch.name(), others, patience)).transpose()?;
    let mut flood = Flood::open(&Namespace::open(&bed.node(SENDER)?.namespace)?, neighbour)?;
    let node = bed.node(NEAR)?;
    let (before, counted) = (turns(&bed)?, NodeCounts::read(&bed)?);
    let around = Around::begin(&node.socket, Namespace::open(&node.namespace)?);
    let signed = if keys { Some(established::comers(&bed)?) } else { None };
    let memory = run.floods(&mut established, &mut bookings, &mut flood);
    run.tell(format!(
        "{} answers on {} connections, {} changes of routes",
        around.count(),
        around::CONNECTIONS,
        around.changes()
    ));
    let (late, latest) = around.end();
    if let Some(signed) = signed {
        run.tell(format!("{} applications of the neighbour came and went", signed.end()));
    }
    if let Some(neighbour) = &flood.neighbour {
        run.tell(format!("the neighbour with a key answered {} challenges", neighbour.answered()));
    }
    let memory = memory?;
    // What is quiet again must be whole; a refresh that was lost just now has its next one.
    patience.wait(Duration::from_nanos(REFRESH.as_nanos() * 2))?;
    let after = turns(&bed)?;
    let p999 = per_mille(&after.cpu.since(&before.cpu), 999);
    let wall = per_mille(&after.wall.since(&before.wall), 999);
    run.tell(format!(
        "{} turns: 99.9 % within {p999} us of processor time and {wall} us of wall time (the longest {} and {}); an idle thread was \
         woken within {late} us 99.9 % of the time, {latest} us at worst",
        after.turns - before.turns,
        after.cpu.most_us,
        after.wall.most_us
    ));
    for line in NodeCounts::read(&bed)?.since(&counted) {
        run.tell(line);
    }
    for (who, slow) in [("agent", slow.as_ref().map(Slow::words)), ("broker", bookings.slowed())] {
        if let Some(words) = slow {
            run.tell(format!("the {who}'s disk was slow: {words}"));
        }
    }
    let lost = established.lost(&bed)?;
    let missing = bookings.missing()?;
    for line in lost.iter().chain(&missing) {
        run.tell(line.clone());
    }
    let report = LoadReport {
        established_lost: lost.len() as u64,
        acknowledged_lost: missing.len() as u64,
        turn_p999_ms: p999 as f64 / 1e3,
        rss_growth_mb: (memory * 1e3).round() / 1e3,
    };
    run.tell(format!("{} reservations stood, {} bookings were acknowledged", established.len(), bookings.len()));
    Ok((report, run.told))
}

struct Run<'a> {
    bed: &'a Bed,
    options: &'a LoadOptions,
    patience: &'a Patience,
    which: &'static str,
    /// The process number of the flooded agent.
    pid: u32,
    told: Vec<String>,
}

impl Run<'_> {
    fn tell(&mut self, line: String) {
        let line = format!("{}: {line}", self.which);
        if self.options.progress {
            eprintln!("{line}");
        }
        self.told.push(line);
    }

    /// Runs all floods, with a stop in the middle. Returns the growth of the agent's memory in the last half,
    /// MB.
    fn floods(
        &mut self,
        established: &mut Established,
        bookings: &mut Bookings,
        flood: &mut Flood,
    ) -> Result<f64, Error> {
        let keys = flood.neighbour.is_some();
        let manners: &[Manner] = if keys { &Manner::ALL } else { &Manner::UNSIGNED };
        let unsigned = self.capacity(flood, Manner::Stranger)?;
        let sealed = if keys { self.capacity(flood, Manner::Sealed(Seal::Right))? } else { unsigned };
        let kinds = messages::kinds();
        let turns = self.options.rounds * MULTIPLES.len();
        let one = self.options.length / 2 / (turns * kinds.len() * manners.len()) as u32;
        let mut half = None;
        for (n, multiple) in (0..self.options.rounds).flat_map(|_| MULTIPLES).enumerate() {
            if n == turns / 2 {
                half = Some(rss(self.pid));
                self.stop(self.pid)?;
                if self.options.plant {
                    established.end_one();
                    bookings.cancel_one()?;
                }
            }
            let mut sent = [Flooded::default(); 2];
            for (k, kind) in kinds.iter().enumerate() {
                for manner in manners {
                    self.patience.check()?;
                    let (capacity, limit) = if manner.is_sealed() { sealed } else { unsigned };
                    let wanted = (capacity * multiple).min(limit);
                    sent[usize::from(manner.is_sealed())] += flood.run(*kind, *manner, Some(wanted), one);
                }
                if k % BOOK_EVERY == 0 {
                    bookings.one_more(self.patience)?;
                }
            }
            self.tell_of(multiple, "unsigned, from strangers and as a neighbour", unsigned, sent[0]);
            if keys {
                self.tell_of(multiple, "signed by a neighbour, said again, signed wrongly", sealed, sent[1]);
            }
        }
        Ok((rss(self.pid) - half.unwrap_or_default()).max(0.0))
    }

    fn tell_of(&mut self, multiple: f64, how: &str, (capacity, limit): (f64, f64), sent: Flooded) {
        let wanted = capacity * multiple;
        let said = if wanted > limit { format!(", {limit:.0} being the generator's limit") } else { String::new() };
        let types = messages::kinds().len();
        self.tell(format!(
            "{multiple} times what the agent takes, {types} types {how}: {wanted:.0} messages a second wanted{said}, {:.0} sent",
            sent.rate()
        ));
    }

    /// Measures how many flood messages per second the agent processes, and how many the generator can send.
    fn capacity(&mut self, flood: &mut Flood, manner: Manner) -> Result<(f64, f64), Error> {
        // Counts messages that were parsed or refused as unsigned, but none that were dropped unread.
        let looked = |row: &&CounterRow| !row.name.contains(' ') || row.name.ends_with(UNSIGNED);
        let taken = |bed: &Bed| -> Result<u64, Error> {
            let Answer::Counters(rows) = bed.client(NEAR)?.call(Request::Counters)? else { return Ok(0) };
            Ok(rows.iter().filter(looked).map(|row| row.received).sum())
        };
        let length = self.options.length.mul_f64(0.02).min(Duration::from_secs(2));
        let (before, begun) = (taken(self.bed)?, Instant::now());
        let flooded = flood.run(MessageType::PathErr, manner, None, length);
        let served = (taken(self.bed)? - before) as f64 / begun.elapsed().as_secs_f64();
        let how = if manner.is_sealed() { "signed" } else { "unsigned" };
        self.tell(format!(
            "the agent takes {served:.0} {how} messages a second beside all else, the generator sends at most {:.0}",
            flooded.rate()
        ));
        Ok((served.max(100.0), flooded.rate()))
    }

    /// Stops the agent for a while, which must cost no established reservation.
    fn stop(&mut self, pid: u32) -> Result<(), Error> {
        let Some(agent) = ProcessId::of(pid) else { return Err(Error::Void("the agent is gone".to_owned())) };
        agent.signal(SIGSTOP)?;
        let waited = self.patience.wait(STOPPED);
        agent.signal(SIGCONT)?;
        self.tell(format!("stopped for {STOPPED:?}"));
        waited
    }
}

fn turns(bed: &Bed) -> Result<TurnsDoc, Error> {
    Ok(bed.status(NEAR)?.turns)
}

/// Returns a process's resident memory, MB; 0 if it is gone.
fn rss(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.trim().split(' ').next()).and_then(|kb| kb.parse::<f64>().ok());
    kb.unwrap_or(0.0) / 1e3
}

/// Connects to the nodes whose ledgers and kernels have the reservations.
fn carriers(bed: &Bed) -> Result<Vec<(&'static str, Client)>, Error> {
    CARRIERS.into_iter().map(|name| Ok((name, bed.client(name)?))).collect()
}
