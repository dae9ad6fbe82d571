//! Both drivers at once against one interface: the program on two processors, and an agent (a process of its own) with
//! the engine, whose reservations and grant come out of one ledger. It grows and shrinks the grant, sweeps what expired,
//! admits what the program leaves to it, and is killed again and again.
//!
//! What must hold: `free + held by the program + held by the agent` never exceeds the capacity; at each kill what is
//! there is what was granted; at the end all comes back. `SLUICE_MESSAGES` says how many messages each processor runs.

use super::bed::{CLASS, RULES, Say, bed, open_in};
use crate::policer::Dice;
use crate::scratch::in_netns;
use boomerang::{Boomerang, Config, Input};
use linux::boomerang::{FastPath, ProgramRules, REDIRECT, Reason};
use linux::netlink::Socket;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, RwLock};
use std::time::Duration;
use terms::ports::{RHandle, Route, RouteDecision, TcRequest, TrafficControl};
use terms::{Adspec, FlowSpec, IfIndex, Rate, Refused, Span, Time};
use wire::boomerang::{Opt, TravelDirection, Uid};

/// Of the interface, bit/s.
const CAPACITY: u64 = 40_000_000;
/// A grant grows and shrinks by this.
const STEP: u64 = 2_000_000;
/// The largest rate of a message.
const MOST: u32 = 3_000_000;

/// What agent and test both see: the agent's book, in a file that both map.
#[repr(C)]
struct Book {
    /// What the ledger has booked for the program: more than the grant for a moment, never less.
    granted: AtomicU64,
    /// What the agent's own reservations hold.
    held: AtomicU64,
    /// Times that the agent was asked to admit something itself, and that it grew or shrank the grant.
    admitted: AtomicU64,
    resized: AtomicU64,
    /// Said by the test: give everything back and end.
    over: AtomicU64,
}

fn book(dir: &Path) -> &'static Book {
    use std::os::fd::AsRawFd;
    let path = dir.join("book");
    let file =
        std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("a book");
    file.set_len(4096).expect("a page");
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh shared mapping of a page of an open file, never unmapped; all that lies in it is atomic.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 4096, rights, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast::<Book>()
    }
}

/// The agent's side: its ledger is the book.
struct Ledger {
    book: &'static Book,
    east: IfIndex,
    slots: BTreeMap<u64, u64>,
    next: u64,
}

impl Ledger {
    fn room(&self) -> u64 {
        CAPACITY - self.book.granted.load(SeqCst) - self.book.held.load(SeqCst)
    }
}

impl Route for Ledger {
    fn route(&mut self, _dst: IpAddr, _src: Option<IpAddr>, _iif: Option<IfIndex>) -> RouteDecision {
        RouteDecision::Out { oif: self.east, gateway: None, source: [10, 0, 0, 1].into() }
    }
}

impl TrafficControl for Ledger {
    fn add(&mut self, _now: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        self.next += 1;
        self.slots.insert(self.next, 0);
        let handle = RHandle(self.next);
        self.modify(Time::ZERO, handle, request).map(|()| handle)
    }

    fn modify(&mut self, _now: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        let FlowSpec::ControlledLoad(tspec) = request.flowspec else { panic!("controlled load") };
        let (asked, has) = (tspec.r.as_bps(), self.slots[&handle.0]);
        if asked > self.room() + has {
            let (asked, free) = (tspec.r, Rate::from_bps(self.room() + has));
            return Err(Refused::Capacity { interface: request.oif, asked, free });
        }
        self.book.held.fetch_add(asked, SeqCst);
        self.book.held.fetch_sub(has, SeqCst);
        self.slots.insert(handle.0, asked);
        Ok(())
    }

    fn remove(&mut self, _now: Time, handle: RHandle) {
        self.book.held.fetch_sub(self.slots.remove(&handle.0).unwrap_or(0), SeqCst);
    }

    fn advertise(&self, _now: Time, _oif: IfIndex, arriving: &Adspec) -> Adspec {
        *arriving
    }
}

/// Grows the grant if the ledger has so much: booked first.
fn grow(path: &FastPath, ledger: &Ledger, by: u64) -> bool {
    if ledger.room() < by {
        return false;
    }
    ledger.book.granted.fetch_add(by, SeqCst);
    path.grow(ledger.east, Rate::from_bps(by), CLASS).expect("a small number");
    ledger.book.resized.fetch_add(1, SeqCst);
    true
}

/// Shrinks it: taken first.
fn shrink(path: &FastPath, ledger: &Ledger, by: u64) {
    let taken = path.shrink(ledger.east, Rate::from_bps(by)).as_bps();
    ledger.book.granted.fetch_sub(taken, SeqCst);
    ledger.book.resized.fetch_add(1, SeqCst);
}

const AGENT: &str = "SLUICE_TEST_GRANTS";

/// Not a test of its own: the agent's part in the test below, in a process that is killed.
#[test]
fn the_agent_that_is_killed() {
    let Some(dir) = std::env::var_os(AGENT) else { return };
    let (dir, seed) = (Path::new(&dir), std::process::id());
    let index = |name: &str| Socket::open().and_then(|mut socket| socket.link_by_name(name)).expect(name).index;
    let (west, east) = (index("west"), index("east"));
    let book = book(dir);
    let mut path = open_in(dir, 256);
    // What an earlier life held is gone with it; what it had granted is what the maps say.
    book.held.store(0, SeqCst);
    book.granted.store(path.reclaim(east).expect("counts").as_bps(), SeqCst);
    let mut ledger = Ledger { book, east, slots: BTreeMap::new(), next: 0 };
    let mut engine = Boomerang::new(Config { per_source: u32::MAX, ..Config::default() }, 1);
    let mut dice = Dice(u64::from(seed));
    let mut offset = 0;
    while book.over.load(SeqCst) == 0 {
        match dice.below(8) {
            0 => drop(grow(&path, &ledger, STEP)),
            1 => shrink(&path, &ledger, STEP),
            2 => {
                offset += 1_000_000_000;
                path.set_rules(&ProgramRules { offset: Span::from_nanos(offset), ..RULES });
                let tick = path.now();
                path.sweep(tick, 32);
            }
            _ => {}
        }
        let now = Time::from_nanos(linux::clock::monotonic_coarse() + offset);
        engine.handle(now, &mut ledger, Input::Wake);
        while engine.poll().is_some() {}
        for mut told in std::iter::from_fn(|| path.next_told()).take(16).collect::<Vec<_>>() {
            let mut frame = vec![2; 12];
            frame.extend([8, 0]);
            frame.extend(&told.packet);
            if told.reason == Reason::Exhausted && grow(&path, &ledger, STEP) {
                path.run(&frame, west).expect("again");
                continue;
            }
            engine.handle(now, &mut ledger, Input::Packet { iif: Some(told.iif), packet: &mut told.packet });
            while engine.poll().is_some() {}
            book.admitted.fetch_add(1, SeqCst);
        }
        path.set_room(east, Rate::from_bps(ledger.room()));
    }
    // Everything is over: sessions expire, the grant goes back.
    path.set_rules(&ProgramRules { offset: Span::from_secs(1 << 20), ..RULES });
    let tick = path.now();
    path.sweep(tick, usize::MAX);
    shrink(&path, &ledger, u64::MAX);
    let later = Time::from_nanos(u64::MAX >> 8);
    engine.handle(later, &mut ledger, Input::Wake);
}

fn agent(dir: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["kernel::boomerang::both::the_agent_that_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(AGENT, dir)
        .stdout(Stdio::null())
        .spawn()
        .expect("an agent in this thread's namespace")
}

/// A message of one of a hundred flows.
fn random(dice: &mut Dice) -> Say {
    let rate = if dice.below(5) == 0 { 0 } else { dice.below(u64::from(MOST)) as u32 };
    let mut say = Say::flow(dice.below(100) as u32, rate, 0).transaction(dice.below(3) as u32);
    say.refresh = 1 + dice.below(10) as u8;
    match dice.below(12) {
        0 => say = say.reply().nack(),
        1 => say.options = vec![Opt::Uid(Uid { user: 1, credential: 2 })],
        _ => {}
    }
    say
}

#[test]
fn two_processors_and_an_agent_that_is_killed_never_give_away_more_than_there_is() {
    in_netns(|| {
        let bed = bed(256, Rate::ZERO);
        let (dir, east) = (bed.dir().to_owned(), bed.east);
        let book = book(&dir);
        let messages: u64 = std::env::var("SLUICE_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
        // Held for writing, nobody hammers.
        let (gate, done, start) = (RwLock::new(()), AtomicBool::new(false), Barrier::new(3));
        let (path, admitted) = (&bed.path, AtomicU64::new(0));
        std::thread::scope(|scope| {
            let hammers: Vec<_> = (0..2)
                .map(|cpu| {
                    let (gate, start, admitted, bed) = (&gate, &start, &admitted, &bed);
                    scope.spawn(move || {
                        pin(cpu);
                        let mut dice = Dice(77 + cpu as u64);
                        start.wait();
                        for _ in 0..messages / 2 {
                            let say = random(&mut dice);
                            let iif = if say.leg == TravelDirection::Request { bed.west } else { bed.east };
                            let _open = gate.read().expect("nobody panicked");
                            let ran = bed.path.run(&say.frame(), iif).expect("test run");
                            admitted.fetch_add(u64::from(ran.verdict == REDIRECT), SeqCst);
                        }
                    })
                })
                .collect();
            let (over, looks) = (&done, scope.spawn(|| watch(path, east, book, &done)));
            let mut child = agent(&dir);
            start.wait();
            let mut kills = 0;
            while hammers.iter().any(|hammer| !hammer.is_finished()) {
                std::thread::sleep(Duration::from_millis(40 + kills * 7 % 60));
                child.kill().expect("SIGKILL");
                child.wait().expect("gone");
                let _still = gate.write().expect("nobody panicked");
                // Killed in the middle of a change it has booked at most one step, or one session, more than there is.
                let (there, booked) = (path.reclaim(east).expect("counts").as_bps(), book.granted.load(SeqCst));
                assert!(there <= booked && booked - there <= STEP.max(u64::from(MOST)), "{there} of {booked}");
                kills += 1;
                child = agent(&dir);
                // Every third one is killed while it starts, or soon after. The others work before messages go on,
                // however slow the machine is.
                let before = book.resized.load(SeqCst);
                let patience = std::time::Instant::now() + Duration::from_secs(30);
                while kills % 3 != 0 && book.resized.load(SeqCst) == before && std::time::Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            hammers.into_iter().for_each(|hammer| hammer.join().expect("no panic"));
            book.over.store(1, SeqCst);
            assert!(child.wait().expect("ends").success());
            over.store(true, SeqCst);
            let looks = looks.join().expect("never too much");
            assert!(kills > 0 && looks > 100 && admitted.load(SeqCst) > messages / 10);
            let (own, resized) = (book.admitted.load(SeqCst), book.resized.load(SeqCst));
            assert!(own > 0 && resized > 0);
            println!(
                "{messages} messages, {kills} kills, {looks} looks, {own} for the agent, {resized} grants resized"
            );
        });
        assert_eq!((bed.path.free(east), bed.path.total()), (Rate::ZERO, (0, Rate::ZERO)), "all came back");
        assert_eq!(book.granted.load(SeqCst), 0, "and is free again in the ledger");
    });
}

/// Looks at one instant after another until told; how often.
fn watch(path: &FastPath, east: IfIndex, book: &Book, done: &AtomicBool) -> u64 {
    let mut looks = 0;
    while !done.load(SeqCst) {
        // The program can have at most what was granted and is not free; a free word below zero would be huge.
        let free = path.free(east).as_bps();
        assert!(free <= CAPACITY, "more was taken than there was: {free}");
        let (granted, held) = (book.granted.load(SeqCst), book.held.load(SeqCst));
        // A change is added before what it replaces is taken away: in between one session is there twice.
        assert!(granted <= CAPACITY && held <= CAPACITY + u64::from(MOST), "{granted} granted, {held} held");
        looks += 1;
    }
    looks
}

/// Keeps the calling thread on a processor; where there is but one, they take turns.
fn pin(cpu: usize) {
    // SAFETY: `set` is a valid set of processors; only the calling thread is concerned.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        let _one_only = libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}
