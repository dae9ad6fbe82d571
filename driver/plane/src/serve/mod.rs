//! A plane that serves: a process of its own, which keeps the plan while agents come and go.
//!
//! One thread moves the frames of all pairs ([`PlaneServer::run`]). Between two bursts it answers at most one request,
//! which a thread of the door ([`door::Door`]) has read and checked for form; another looks at the interfaces. Nothing is
//! locked on the way of a packet.

mod checks;
pub mod door;
mod pair;

use crate::link::WireSpec;
use crate::protocol::{PlaneAnswer, PlaneHello, PlaneRequest, VERSION};
use linux::bpf::pair_guard::{PairGuard, WhenDead};
use linux::clock::Clock;
use linux::error::SystemError;
use linux::notifier::Notifier;
use linux::poll::{Poll, PollInterest, Token};
use mace::Recogniser;
use pair::{PairFound, ServedPair, find};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use terms::{Fault, IfIndex, Span, Time};
use traffic::plan::PlanOp;
use traffic::port::{Port, PortSet, counters_of, plan_of};

/// The most pairs of one process.
pub const MOST_PAIRS: usize = 64;
/// The buffers of a pair, as they stand, and the most.
pub const BUFFERS: u32 = 1 << 15;
/// The most buffers of a pair.
pub const MOST_BUFFERS: u32 = 1 << 20;
/// The largest delay bound that may be declared.
pub const LARGEST_BOUND: Span = Span::from_millis(25);
/// Requests that wait for the packet thread.
const WAITING: usize = 16;
/// The interval between two looks at the interfaces.
const LOOK_EVERY: Span = Span::from_secs(1);
/// Turns after which even a busy thread looks up, or a flood would keep requests and signals out.
const TURNS: u32 = 1_024;
const REQUESTS: Token = Token(u64::MAX - 2);
const WATCHED: Token = Token(u64::MAX - 1);

/// One pair of the plane's file.
#[derive(Clone, PartialEq, Debug)]
pub struct PairSpec {
    /// The host's interface, which has the addresses.
    pub interface: String,
    /// Its other end.
    pub inside: String,
    /// The interface outside.
    pub outside: String,
    /// Buffers for packets in queues and shapers.
    pub buffers: u32,
    /// `D` that is exported for guaranteed service; `None`: it is not offered.
    pub bound: Option<Span>,
    /// The fate of frames while no plane lives.
    pub when_dead: WhenDead,
    /// The wire behind it, each way.
    pub wire: WireSpec,
}

/// A request with the way back.
#[derive(Debug)]
pub(crate) struct PlaneCall {
    request: PlaneRequest,
    /// The tables of a [`PlaneRequest::Watch`], made by the caller: the packet thread has no time for that.
    tables: Option<Box<Recogniser>>,
    answer: SyncSender<Answered>,
}

/// An answer, and tables that the packet thread needs no longer: the caller frees them.
type Answered = (PlaneAnswer, Option<Box<Recogniser>>);

/// The caller's end of the packet thread.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    calls: SyncSender<PlaneCall>,
    wake: Arc<Notifier>,
}

impl Caller {
    /// Asks the packet thread.
    pub(crate) fn ask(&self, request: PlaneRequest) -> PlaneAnswer {
        const ENDS: Fault = Fault { what: "the plane in user space ends", code: 0 };
        let tables = match &request {
            PlaneRequest::Watch { watch, .. } => match watch.recogniser() {
                Ok(tables) => Some(tables),
                Err(fault) => return PlaneAnswer::Fault(fault),
            },
            _ => None,
        };
        let (answer, wait) = sync_channel(1);
        let asked = self.calls.send(PlaneCall { request, tables, answer });
        self.wake.notify();
        asked.ok().and_then(|()| wait.recv().ok()).map_or(PlaneAnswer::Fault(ENDS), |(answer, _)| answer)
    }
}

/// The pairs, as ports that batches are for.
#[derive(Debug)]
struct Pairs(Vec<ServedPair>);

impl Pairs {
    fn of(&mut self, oif: IfIndex) -> Option<&mut ServedPair> {
        self.0.iter_mut().find(|pair| pair.served().is_some_and(|served| served.index == oif))
    }
}

impl PortSet for Pairs {
    fn port_of(&mut self, oif: IfIndex) -> Option<&mut Port> {
        self.of(oif).and_then(ServedPair::port_mut)
    }
}

/// All pairs at work.
#[derive(Debug)]
pub struct PlaneServer {
    pairs: Pairs,
    poll: Poll,
    clock: Clock,
    spin: Span,
    netns: u64,
    calls: Receiver<PlaneCall>,
    caller: Caller,
    /// Looks at the interfaces of the pairs, again and again.
    found: Receiver<Vec<PairFound>>,
}

impl PlaneServer {
    /// Opens the pairs in this thread's network namespace; one that cannot be opened yet is tried again every second.
    /// `spin` is how long it looks for frames without sleeping after the last one. `key` keys the classifiers.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn open(pairs: Vec<PairSpec>, spin: Span, key: [u64; 2], clock: Clock) -> Result<PlaneServer, SystemError> {
        let (calls, taken) = sync_channel(WAITING);
        let wake = Arc::new(Notifier::new()?);
        let mut poll = Poll::new(clock)?;
        poll.add(&*wake, REQUESTS, PollInterest::Read)?;
        let served = |(nth, spec): (usize, PairSpec)| ServedPair::new(spec, [key[0], key[1] ^ nth as u64]);
        let pairs = Pairs(pairs.into_iter().enumerate().map(served).collect());
        let netns = netns_number();
        let now = pairs.0.iter().map(|pair| find(pair.spec())).collect();
        let found = look_again(pairs.0.iter().map(|pair| pair.spec().clone()).collect(), wake.clone())?;
        let caller = Caller { calls, wake };
        let mut server = PlaneServer { pairs, poll, clock, spin, netns, calls: taken, caller, found };
        server.look(clock.now(), now);
        Ok(server)
    }

    /// Also wakes, and returns from [`PlaneServer::run`], when this descriptor has data.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn watch(&mut self, fd: &impl AsFd) -> Result<(), SystemError> {
        self.poll.add(fd, WATCHED, PollInterest::Read)
    }

    pub(crate) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// Why pairs are not open, in words.
    pub fn complaints(&mut self) -> Vec<String> {
        let all = self.pairs.0.iter_mut().map(ServedPair::status);
        all.filter_map(|pair| pair.down.map(|why| format!("{}: {why}", pair.interface))).collect()
    }

    /// Carries frames and answers requests until what is watched has data.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn run(&mut self) -> Result<(), SystemError> {
        let mut busy = self.clock.now();
        let mut look = 0u32;
        loop {
            let now = self.clock.now();
            let (mut moved, mut wake) = (0, now + LOOK_EVERY);
            for pair in &mut self.pairs.0 {
                let turn = pair.turn(now);
                moved += turn.moved;
                wake = turn.wake.map_or(wake, |at| wake.min(at));
            }
            self.answer_one(now);
            if let Ok(found) = self.found.try_recv() {
                self.look(now, found);
            }
            if moved > 0 {
                busy = now;
            }
            look += 1;
            let awake = moved > 0 || now < busy + self.spin;
            if awake && look < TURNS {
                continue;
            }
            look = 0;
            let wake = if awake { Time::ZERO } else { wake };
            let mut asked = false;
            for ready in self.poll.wait(Some(wake))? {
                match ready.token {
                    WATCHED => return Ok(()),
                    REQUESTS => asked = true,
                    _ => {}
                }
            }
            if asked {
                self.caller.wake.clear();
                // Those that wait beside the first have no wake-up call of their own left.
                for _ in 0..WAITING {
                    let now = self.clock.now();
                    if !self.answer_one(now) {
                        break;
                    }
                }
            }
        }
    }

    fn look(&mut self, now: Time, found: Vec<PairFound>) {
        for (nth, (pair, found)) in self.pairs.0.iter_mut().zip(found).enumerate() {
            if pair.look(now, found, &mut self.poll, Token(nth as u64)) {
                eprintln!("{}: packets pass", pair.spec().interface);
            }
        }
    }

    fn answer_one(&mut self, now: Time) -> bool {
        let Ok(PlaneCall { request, mut tables, answer }) = self.calls.try_recv() else { return false };
        let answered = self.answer(now, request, &mut tables);
        // A caller that has gone needs no answer.
        let _ = answer.send((answered, tables));
        true
    }

    /// Answers a request. `tables` are put to work if it wants that, and become those that had been.
    fn answer(&mut self, now: Time, request: PlaneRequest, tables: &mut Option<Box<Recogniser>>) -> PlaneAnswer {
        const NO_INTERFACE: PlaneAnswer = PlaneAnswer::Fault(Fault { what: "no such interface", code: 19 });
        match request {
            PlaneRequest::Hello { .. } => {
                let interfaces = self.pairs.0.iter().filter_map(ServedPair::served).collect();
                PlaneAnswer::Hello(PlaneHello { version: VERSION, netns: self.netns, interfaces })
            }
            PlaneRequest::Apply(ops) => match self.apply(now, &ops) {
                Ok(()) => PlaneAnswer::Applied,
                Err(fault) => PlaneAnswer::Fault(fault),
            },
            PlaneRequest::Read => PlaneAnswer::Plan(plan_of(self.ports())),
            PlaneRequest::Counters => PlaneAnswer::Counters(counters_of(self.ports())),
            PlaneRequest::Status => PlaneAnswer::Status(self.pairs.0.iter_mut().map(ServedPair::status).collect()),
            PlaneRequest::Watch { oif, .. } => match (self.pairs.of(oif), tables.take()) {
                (Some(pair), Some(wanted)) => match pair.watch_ports(wanted) {
                    Ok(had) => {
                        *tables = had;
                        PlaneAnswer::Applied
                    }
                    Err(fault) => PlaneAnswer::Fault(fault),
                },
                _ => NO_INTERFACE,
            },
            PlaneRequest::TakeRecognised { oif } => match self.pairs.of(oif) {
                Some(pair) => PlaneAnswer::Recognised(pair.take_recognised()),
                None => NO_INTERFACE,
            },
            PlaneRequest::Silences { oif, class } => match self.pairs.of(oif) {
                Some(pair) => PlaneAnswer::Silences(pair.silences(now, class)),
                None => NO_INTERFACE,
            },
        }
    }

    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.pairs.0.iter().filter(|pair| pair.served().is_some()).filter_map(ServedPair::port)
    }

    fn apply(&mut self, now: Time, ops: &[PlanOp]) -> Result<(), Fault> {
        ops.iter().try_for_each(checks::in_range)?;
        for pair in &self.pairs.0 {
            if let Some(port) = pair.port() {
                checks::fits(port, ops, u64::from(pair.spec().buffers))?;
            }
        }
        self.pairs.0.iter_mut().for_each(|pair| pair.catch_up(now));
        self.pairs.apply_batch(now, ops)?;
        self.pairs.0.iter_mut().for_each(|pair| pair.changed(now, ops));
        Ok(())
    }
}

/// Starts the thread that looks at the interfaces, in this thread's network namespace. It ends with the receiver.
fn look_again(pairs: Vec<PairSpec>, wake: Arc<Notifier>) -> Result<Receiver<Vec<PairFound>>, SystemError> {
    let (said, heard) = sync_channel(1);
    let thread = std::thread::Builder::new().name("interfaces".into()).spawn(move || {
        loop {
            std::thread::sleep(Duration::from_nanos(LOOK_EVERY.as_nanos()));
            if said.send(pairs.iter().map(find).collect()).is_err() {
                return;
            }
            wake.notify();
        }
    });
    thread.map(|_| heard).map_err(SystemError::doing("start a thread"))
}

/// Takes away what [`PlaneServer`] leaves at the ends of a pair when it ends; an interface that is gone is no error.
///
/// # Errors
/// The kernel refuses.
pub fn release(pair: &PairSpec) -> Result<(), Fault> {
    let mut socket = linux::netlink::Socket::open()?;
    let ends = [&pair.inside, &pair.outside].map(|name| socket.link_by_name(name).ok().map(|link| link.index));
    ends.into_iter().flatten().try_for_each(|end| PairGuard::remove([end, end]))
}

/// The number of this thread's network namespace.
pub fn netns_number() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |found| found.ino())
}
