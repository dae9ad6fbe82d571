//! The cost of a message in Boomerang's fast path: the XDP program by the kernel's test run, every run
//! another message, in a table that holds many other sessions. This is the program alone: from the frame in
//! the driver to the verdict, with the route look-up (`bpf_fib_lookup`) and without device, stack or socket.
//! The harness that feeds messages to it (`linux::boomerang::parade`) is measured first and subtracted.
//!
//! Sessions have a random order, and those of a window in it are absent. Each round releases those before the
//! window, makes those that leave it, and refreshes some from the other end of the order, so each message
//! finds a session that was not touched for long.

use super::line::{FAR, ProfiledLine};
use super::load::SessionCost;
use super::sample::{Estimate, Samples};
use super::steps::{Kind, StepMedians};
use super::transit::{RATE, request};
use bed::error::Error;
use bed::patience::Patience;
use linux::boomerang::packet_script::PacketScript;
use linux::boomerang::{FastPath, Hanging, ProgramRules};
use linux::error::SystemError;
use linux::tsc::processor_time;
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use terms::{Bytes, Fault, IfIndex, Rate, Span};

/// The number of messages that are prepared together while the table is filled.
const FILL: u32 = 1 << 16;
/// Messages of a batch: so many that start and end of a test run do not count; fewer in a small table.
const MANY: u32 = 1_024;
/// Batches of sessions that are absent at any time; fewer in a small table.
const ABSENT: u32 = 64;
/// Rounds that are not counted.
const WARM_UP: usize = 20;
/// Rounds between two checks for a signal.
const TURN: usize = 20;
/// The grant of the interface: more than a million sessions reserve.
const GRANT: Rate = Rate::from_mbps(1_000_000);
/// The class of the sessions. Any will do, because no packet of a session passes.
const CLASS: u32 = 4;
/// The agent's sweeps for expired sessions, per second.
const SWEEPS: f64 = 2.0;

/// Measures only at the powers of ten among `sizes`, because each test run waits some milliseconds for the
/// kernel's other processors, whatever it runs.
///
/// # Errors
/// Missing privileges, a kernel without XDP, or the user stops the run.
pub fn run(
    sizes: &[u32],
    repetitions: usize,
    patience: &Patience,
    say: &mut dyn FnMut(String),
) -> Result<Vec<SessionCost>, Error> {
    bed::Bed::possible()?;
    let line = ProfiledLine::new()?;
    let mut loads = Vec::new();
    for &sessions in sizes.iter().filter(|sessions| sessions.ilog10() > (**sessions - 1).ilog10()) {
        say(format!("Boomerang's fast path by test run, {sessions} sessions"));
        loads.push(at(&line, sessions, repetitions, patience)?);
    }
    Ok(loads)
}

/// The state directory of a table. It is removed when this is dropped.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        // What cannot be removed lies in the temporary folder, where the system removes it.
        if linux::bpf::forget(&self.0).is_ok() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

fn void(fault: Fault) -> Error {
    Error::Void(format!("the fast path by test run: {fault}"))
}

fn at(line: &ProfiledLine, sessions: u32, repetitions: usize, patience: &Patience) -> Result<SessionCost, Error> {
    let dir = Dir(std::env::temp_dir().join(format!("{}-{sessions}", line.node.name())));
    std::fs::create_dir_all(&dir.0).map_err(SystemError::doing(format!("make {}", dir.0.display())))?;
    let inside = &line.node;
    let mut bed = inside.run(|| greet().and_then(|()| Bed::new(line, &dir, sessions).map_err(void)))??;
    let mut begin = bed.window.1 as usize;
    while begin < bed.order.len() {
        patience.check()?;
        let end = (begin + FILL as usize).min(bed.order.len());
        inside.run(|| bed.fill(begin..end))??;
        begin = end;
    }
    let mut samples = [Kind::Release, Kind::Reserve, Kind::ReserveAgain].map(|kind| (kind, Samples::default()));
    let rounds = WARM_UP + repetitions;
    for begin in (0..rounds).step_by(TURN) {
        patience.check()?;
        let turn = begin..(begin + TURN).min(rounds);
        inside.run(|| {
            turn.into_iter().try_for_each(|round| {
                samples.iter_mut().try_for_each(|(kind, samples)| {
                    let ns = bed.run(*kind, round as u32).map_err(void)? - bed.own;
                    if round >= WARM_UP {
                        samples.add(ns, false);
                    }
                    Ok::<_, Error>(())
                })
            })
        })??;
    }
    bed.check(rounds as u64)?;
    let profile = |(kind, samples): &(Kind, Samples)| StepMedians {
        kind: *kind,
        whole: samples.estimate(bed.many as usize),
        warm: None,
        steps: Vec::new(),
    };
    Ok(SessionCost { sessions, profiles: samples.iter().map(profile).collect(), maintenance: bed.sweeps(patience)? })
}

/// Makes the node's kernel resolve its neighbour, so that the route can be used.
fn greet() -> Result<(), Error> {
    let what = || "send to the neighbour".to_string();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(SystemError::doing(what()))?;
    socket.send_to(&[0], (FAR.1, 9)).map_err(SystemError::doing(what()))?;
    std::thread::sleep(Duration::from_millis(50));
    Ok(())
}

/// A table with sessions, and the harness that feeds messages to the program.
struct Bed {
    path: FastPath,
    parade: PacketScript,
    iif: IfIndex,
    /// The sessions in a random order.
    order: Vec<u32>,
    /// The first place of the absent sessions, and their number.
    window: (u32, u32),
    /// Messages of a batch.
    many: u32,
    /// The cost of the harness, ns a run.
    own: f64,
}

impl Bed {
    fn new(line: &ProfiledLine, dir: &Dir, sessions: u32) -> Result<Bed, Fault> {
        let path = FastPath::open(&dir.0, sessions.next_power_of_two(), [0x5eed, 0xfeed])?;
        path.set_rules(&ProgramRules {
            most_refresh: 60,
            burst: Span::from_millis(100),
            burst_least: Bytes::new(8192),
            min_unit: 128,
            per_source: u32::MAX,
            offset: Span::ZERO,
        });
        let [near, far] = line.interfaces;
        for index in [near, far] {
            path.attach(index, Hanging::Native)?;
            path.listen(index, true)?;
        }
        path.grow(far, GRANT, CLASS)?;
        let parade = PacketScript::open(FILL)?;
        let many = (sessions / 8).clamp(1, MANY);
        let absent = ABSENT.min(sessions / (4 * many)).max(1) * many;
        let order = shuffled(sessions);
        let mut bed = Bed { path, parade, iif: near, order, window: (0, absent), many, own: 0.0 };
        // In the same batches, so that what surrounds them is the same.
        let mut owns = Samples::default();
        for round in 0..49 {
            owns.add(bed.run(Kind::ReserveAgain, round)?, false);
        }
        bed.own = owns.estimate(1).map_or(0.0, |own| own.median);
        bed.parade.past(&bed.path)?;
        Ok(bed)
    }

    /// Makes the sessions at these places of the order.
    fn fill(&mut self, places: Range<usize>) -> Result<(), Error> {
        let some = &self.order[places];
        for (step, n) in self.parade.steps().iter().zip(some) {
            step.set(&message(*n, Kind::Reserve, 0));
        }
        let count = some.len() as u32;
        self.parade.run(&message(0, Kind::Reserve, 0), self.iif, 0, count, count).map_err(void)?;
        Ok(())
    }

    /// Runs one batch of messages of a kind. Returns ns a message, harness included.
    fn run(&mut self, kind: Kind, round: u32) -> Result<f64, Fault> {
        let (first, absent) = self.window;
        let all = self.order.len() as u32;
        let begin = match kind {
            // What is behind the window goes; what leaves it at its front is made; what is far from it is said again.
            Kind::Release => first + absent,
            Kind::Reserve => first,
            _ => first + absent + all / 2,
        };
        for (step, place) in self.parade.steps().iter().zip(0..self.many) {
            let n = self.order[((begin + place) % all) as usize];
            step.set(&message(n, kind, round));
        }
        if kind == Kind::Reserve {
            self.window.0 = (first + self.many) % all;
        }
        let sample = message(0, kind, round);
        self.parade.run(&sample, self.iif, 0, self.many, self.many).map(f64::from)
    }

    /// Checks that the program did nearly all of its work. One in a hundred thousand new sessions may find no
    /// place and go to user space.
    fn check(&self, rounds: u64) -> Result<(), Error> {
        let counts = self.path.counts().map_err(void)?;
        let (of_a_kind, there) = (rounds * u64::from(self.many), u64::from(self.order.len() as u32 - self.window.1));
        let enough = |is: u64, should: u64| is >= should - should / 1_000;
        let done = enough(counts.released, of_a_kind)
            && enough(counts.refreshed, of_a_kind)
            && enough(counts.made, there + of_a_kind)
            && enough(self.path.total().0 as u64, there);
        if done { Ok(()) } else { Err(Error::Void(format!("the program did not decide all by itself: {counts:?}"))) }
    }

    /// Measures the processor time of the agent's sweeps for expired sessions, us in a second.
    fn sweeps(&mut self, patience: &Patience) -> Result<Option<Estimate>, Error> {
        let mut samples = Samples::default();
        for _ in 0..9 {
            patience.check()?;
            let (before, tick) = (processor_time(), self.path.now());
            let over = self.path.sweep(tick, usize::MAX);
            samples.add((processor_time() - before) as f64 / 1e3 * SWEEPS, false);
            if !over.is_empty() {
                return Err(Error::Void(format!("{} sessions expired while they were measured", over.len())));
            }
        }
        Ok(samples.estimate(1))
    }
}

/// Returns the frame of a session's message as the device receives it.
fn message(n: u32, kind: Kind, round: u32) -> Vec<u8> {
    let [_, a, b, c] = n.to_be_bytes();
    let (src, dst) = ([10, 128 | a, b, c].into(), FAR.1.into());
    let rate = if kind == Kind::Release { 0 } else { RATE };
    let transaction = 1 + round * 4 + kind as u32;
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    frame.extend(request(src, dst, 5004, transaction, rate, &[]));
    frame
}

/// Returns the numbers below `count` in an order that is the same in every run.
fn shuffled(count: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    let mut state = 11u64;
    for place in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(place, (state >> 33) as usize % (place + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_makes_refreshes_and_releases_by_itself() {
        if let Err(error) = bed::Bed::possible() {
            return println!("SKIPPED: {error}");
        }
        let loads = run(&[1_000], 20, &Patience::endless(), &mut |_| ()).unwrap();
        for kind in [Kind::Release, Kind::Reserve, Kind::ReserveAgain] {
            let cost = loads[0].whole(kind).unwrap();
            assert!((20.0..100_000.0).contains(&cost.median) && cost.n == 20, "{kind:?}: {cost:?}");
        }
        assert!(loads[0].maintenance.unwrap().median > 0.0);
    }
}
