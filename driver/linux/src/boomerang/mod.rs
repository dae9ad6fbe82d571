//! Boomerang's fast path: the program that reserves for messages as they come in (`bpf/boomerang.c`), and its
//! counterpart in user space.
//!
//! The program makes and refreshes sessions of one flow without user space. It keeps them in a table that is
//! also mapped into our memory, out of a grant per interface that the ledger has booked. It sends messages
//! that it does not decide through a ring buffer. We grow and shrink the grants ([`grant`]), remove expired
//! sessions ([`FastPath::sweep`]), and list the others ([`FastPath::sessions`]). Programs, maps and links are
//! pinned in the agent's bpffs: when the agent is killed, refreshes go on, and the next agent books as grant
//! the sessions' rates and the free rate ([`FastPath::reclaim`]).
//!
//! `docs/boomerang.md`, "The fast path", describes the table.

pub mod grant;
mod hang;
pub mod layout;
pub mod packet_script;
pub mod ring;
pub(crate) mod shared;
mod sweep;
mod theirs;

pub use hang::Hanging;
pub use layout::KernelSession;
pub use ring::{Reason, UserMessage};
pub use sweep::Expired;
pub use theirs::Taken;

use crate::bpf::arriving::{self, Ran};
use crate::bpf::entry::RawState;
use crate::bpf::sys::SkBuff;
use crate::bpf::{fault, map, program_name, refused, sys};
use aya::maps::{Array, Map, MapData, PerCpuArray, RingBuf};
use aya::programs::{SchedClassifier, Xdp as XdpProgram};
use aya::{Ebpf, EbpfLoader};
use layout::{InterfaceCell, MOST_INTERFACES, Settings, TableRow, WAYS, Wide, flag};
use shared::Shared;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Release};
use terms::{Bytes, Fault, IfIndex, Span};
use traffic::plan::Counters;

/// The compiled programs.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/boomerang.o");

/// The directory of the pins; another layout of the maps has another name.
const LAYOUT: &str = "boomerang_v2";
/// The prefix of the names of all layouts.
const LAYOUTS: &str = "boomerang_v";
/// The most rows.
pub const MOST_ROWS: u32 = 1 << 22;

/// The number of rows for this many sessions, with three of four places taken. 48,000 sessions take 2 MiB,
/// and three times as much for IPv6 addresses and meters.
pub fn rows_for(sessions: u32) -> u32 {
    sessions.div_ceil(3).next_power_of_two().clamp(1 << 8, MOST_ROWS)
}

/// The settings of the programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramRules {
    /// The longest refresh interval, s; a longer one is shortened.
    pub most_refresh: u8,
    /// The depth of a session's token bucket, as time at the session's rate (at most 4 s),
    pub burst: Span,
    /// and its least depth.
    pub burst_least: Bytes,
    /// The least size that a packet is charged with, IP bytes.
    pub min_unit: u32,
    /// The most messages per second from one source; a new session counts as ten. One second's worth may come
    /// at once.
    pub per_source: u32,
    /// Boot clock minus monotonic clock: the time that the machine was suspended, which counts for the expiry
    /// of sessions.
    pub offset: Span,
}

/// The counters of the programs, summed over all CPUs.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProgramCounts {
    /// Refreshes of sessions.
    pub refreshed: u64,
    /// New sessions.
    pub made: u64,
    /// Sessions whose rate was raised or lowered.
    pub changed: u64,
    /// Sessions that were released, or undone because the request failed downstream.
    pub released: u64,
    /// Refused requests: the interface has too little free rate.
    pub refused: u64,
    /// Messages forwarded without any effect here.
    pub carried: u64,
    /// Messages sent to user space.
    pub told: u64,
    /// Messages not sent to user space because no process reads the ring or it is full: forwarded as by a
    /// node without Boomerang.
    pub unheard: u64,
    /// Messages dropped because their source sends too many.
    pub silenced: u64,
}

// SAFETY: `repr(C)` of integers alone, without gaps; every bit pattern is a value.
unsafe impl aya::Pod for ProgramCounts {}

/// The programs, in the order of [`PROGRAMS`].
struct Programs {
    xdp: OwnedFd,
    ingress: OwnedFd,
    egress: OwnedFd,
}

/// The loaded programs and their maps, of one network namespace.
pub struct FastPath {
    pins: PathBuf,
    programs: Programs,
    rows: Shared<TableRow>,
    wide: Shared<Wide>,
    interfaces: Shared<InterfaceCell>,
    settings: Shared<Settings>,
    counts: PerCpuArray<MapData, ProgramCounts>,
    meters: Array<MapData, RawState>,
    ring: RingBuf<MapData>,
    /// The next row to sweep.
    next: usize,
}

impl FastPath {
    /// Loads the programs, with the maps that are pinned under `state_dir`. The first time it makes a new
    /// table of `rows` rows (a power of two) of four sessions each; `seed` is then the random seed of its
    /// hash. An existing table of another size is kept while it has sessions ([`FastPath::rows`]).
    ///
    /// # Errors
    /// A capability is missing (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN to mount), no memory is left, or the kernel
    /// lacks a feature of the programs.
    pub fn open(state_dir: &Path, rows: u32, seed: [u64; 2]) -> Result<FastPath, Fault> {
        if !rows.is_power_of_two() || rows > MOST_ROWS {
            return Err(Fault { what: "make a session table: its rows are no power of two up to 2^22", code: 0 });
        }
        let mount = state_dir.join("bpf");
        fs::create_dir_all(&mount).map_err(fault("make the directory of the bpffs"))?;
        sys::mount_bpffs(&mount).map_err(fault("mount a bpffs under the state directory"))?;
        let pins = mount.join(LAYOUT);
        fs::create_dir_all(&pins).map_err(fault("make a directory in the bpffs"))?;
        hang::forget_others(&mount)?;
        let there = |pins: &Path| FastPath::pinned(pins).map_or_else(|| FastPath::load(pins, rows), Ok);
        let mut path = there(&pins)?;
        if path.rows() != rows && path.total().0 == 0 {
            drop(path);
            hang::forget(&pins)?;
            fs::create_dir_all(&pins).map_err(fault("make a directory in the bpffs"))?;
            path = there(&pins)?;
        }
        let (set, mask) = (path.settings(), path.rows.all().len() as u64 - 1);
        if set.mask.load(Acquire) != mask {
            set.seed[0].store(seed[0], Release);
            set.seed[1].store(seed[1], Release);
            set.mask.store(mask, Release);
        }
        path.renew()?;
        Ok(path)
    }

    /// The programs of exactly this build, as an earlier agent pinned them.
    fn pinned(pins: &Path) -> Option<FastPath> {
        let program = |name: &str| sys::open_pinned(&pins.join(program_name(name, OBJECT))).ok();
        let [xdp, ingress, egress] = PROGRAMS.map(program);
        let programs = Programs { xdp: xdp?, ingress: ingress?, egress: egress? };
        let map = |name: &str| MapData::from_pin(pins.join(name)).ok();
        FastPath::assemble(pins, programs, [map("counts")?, map("meters")?, map("ring")?]).ok()
    }

    fn load(pins: &Path, rows: u32) -> Result<FastPath, Fault> {
        let mut object = EbpfLoader::new()
            .default_map_pin_directory(pins)
            .map_max_entries("rows", rows)
            .map_max_entries("wide", rows * WAYS as u32)
            .map_max_entries("meters", rows * WAYS as u32)
            .load(OBJECT)
            .map_err(|error| refused("load the session table", &error))?;
        let program: &mut XdpProgram = object
            .program_mut("boomerang_xdp")
            .and_then(|program| program.try_into().ok())
            .ok_or(Fault { what: "find the XDP program in its object", code: 0 })?;
        program.load().map_err(|error| refused("load the XDP program", &error))?;
        let xdp = program.fd().map_err(|error| refused("hold the XDP program", &error))?;
        let xdp = xdp.as_fd().try_clone_to_owned().map_err(fault("hold the XDP program"))?;
        let (ingress, egress) =
            (classifier(&mut object, "boomerang_tc")?, classifier(&mut object, "boomerang_egress")?);
        for file in fs::read_dir(pins).map_err(fault("list the bpffs"))?.flatten() {
            if PROGRAMS.iter().any(|name| file.file_name().to_string_lossy().starts_with(name)) {
                fs::remove_file(file.path()).map_err(fault("unpin an older program"))?;
            }
        }
        let mut data = |name: &'static str| match map(&mut object, name)? {
            Map::PerCpuArray(data) | Map::Array(data) | Map::RingBuf(data) => Ok(data),
            _ => Err(Fault { what: "find a map of the right kind in the object", code: 0 }),
        };
        let maps = [data("counts")?, data("meters")?, data("ring")?];
        let path = FastPath::assemble(pins, Programs { xdp, ingress, egress }, maps)?;
        for (name, program) in PROGRAMS.into_iter().zip(path.programs.all()) {
            sys::pin(program, &pins.join(program_name(name, OBJECT))).map_err(fault("pin a program"))?;
        }
        Ok(path)
    }

    fn assemble(pins: &Path, programs: Programs, maps: [MapData; 3]) -> Result<FastPath, Fault> {
        let open = |name: &str| sys::open_pinned(&pins.join(name)).map_err(fault("open a map of the session table"));
        let room = |map: BorrowedFd<'_>| sys::map_room(map).map_err(fault("look at the session table"));
        let what = "map the session table into memory";
        let (rows, wide, interfaces, settings) = (open("rows")?, open("wide")?, open("interfaces")?, open("settings")?);
        let [counts, meters, ring] = maps;
        Ok(FastPath {
            pins: pins.to_owned(),
            programs,
            rows: Shared::map(rows.as_fd(), room(rows.as_fd())? as usize).map_err(fault(what))?,
            wide: Shared::map(wide.as_fd(), room(wide.as_fd())? as usize).map_err(fault(what))?,
            interfaces: Shared::map(interfaces.as_fd(), MOST_INTERFACES as usize).map_err(fault(what))?,
            settings: Shared::map(settings.as_fd(), 1).map_err(fault(what))?,
            counts: PerCpuArray::try_from(Map::PerCpuArray(counts)).map_err(|e| refused("open the counters", &e))?,
            meters: Array::try_from(Map::Array(meters)).map_err(|e| refused("open the meters", &e))?,
            ring: RingBuf::try_from(Map::RingBuf(ring)).map_err(|e| refused("open the ring buffer", &e))?,
            next: 0,
        })
    }

    /// Rows of the table, of four sessions each.
    pub fn rows(&self) -> u32 {
        self.rows.all().len() as u32
    }

    fn settings(&self) -> &Settings {
        &self.settings.all()[0]
    }

    fn interface(&self, index: IfIndex) -> Option<&InterfaceCell> {
        self.interfaces.all().get(index.0 as usize)
    }

    /// Sets the rules of the programs.
    pub fn set_rules(&self, rules: &ProgramRules) {
        let set = self.settings();
        set.most_refresh.store(u32::from(rules.most_refresh.max(1)), Release);
        set.burst_ns.store(u32::try_from(rules.burst.as_nanos()).unwrap_or(u32::MAX), Release);
        set.burst_least.store(rules.burst_least.get().min(1 << 30) as u32, Release);
        set.min_unit.store(rules.min_unit, Release);
        set.per_source.store(rules.per_source, Release);
        set.offset.store(rules.offset.as_nanos(), Release);
    }

    /// Sets the time that the machine was suspended so far ([`crate::clock::slept`]): it may have slept since
    /// the rules were set, and that time counts for the expiry of sessions.
    pub fn set_slept(&self, slept: Span) {
        let set = self.settings();
        // Two clocks are read one after the other: less than this is no sleep.
        if set.offset.load(Acquire).abs_diff(slept.as_nanos()) > LEAST_SLEEP.as_nanos() {
            set.offset.store(slept.as_nanos(), Release);
        }
    }

    /// Promises to read the ring until this instant of the boot clock, ns. After it, messages that the
    /// programs do not decide are forwarded untouched, so that a dead agent loses none. Before the first call
    /// the ring counts as read.
    pub fn reads_until(&self, boot_nanos: u64) {
        self.settings().read_until.store(boot_nanos, Release);
    }

    /// Turns the handling of messages that come in by this interface on or off; its other flags stay.
    ///
    /// # Errors
    /// The interface's number exceeds the table.
    pub fn listen(&self, iif: IfIndex, on: bool) -> Result<(), Fault> {
        self.set_flag(iif, flag::LISTENS, on)
    }

    /// Allows or forbids replies to reserve on this interface without a request that passed (`replies =
    /// "any"`).
    ///
    /// # Errors
    /// As [`FastPath::listen`].
    pub fn trust_replies(&self, oif: IfIndex, on: bool) -> Result<(), Fault> {
        self.set_flag(oif, flag::ANY_REPLIES, on)
    }

    /// States whether the device accepts frames that another device redirects to it.
    ///
    /// # Errors
    /// As [`FastPath::listen`].
    pub fn redirect(&self, oif: IfIndex, on: bool) -> Result<(), Fault> {
        self.set_flag(oif, flag::REDIRECTS, on)
    }

    fn set_flag(&self, index: IfIndex, bit: u32, on: bool) -> Result<(), Fault> {
        let Some(interface) = self.interface(index) else { return Err(PAST_THE_END) };
        if on {
            interface.flags.fetch_or(bit, Release);
        } else {
            interface.flags.fetch_and(!bit, Release);
        }
        Ok(())
    }

    /// Runs the XDP program on a frame as if it came in by `iif` (to which it must be attached), for example
    /// to repeat a message after its grant has grown. No frame is sent: the caller carries out a verdict of
    /// [`REDIRECT`].
    ///
    /// # Errors
    /// The kernel refuses to run it.
    pub fn run(&self, frame: &[u8], iif: IfIndex) -> Result<Ran, Fault> {
        self.run_often(frame, iif, 1)
    }

    /// Like [`FastPath::run`], `times` times.
    ///
    /// # Errors
    /// As [`FastPath::run`].
    pub fn run_often(&self, frame: &[u8], iif: IfIndex, times: u32) -> Result<Ran, Fault> {
        arriving::run_xdp(self.programs.xdp.as_fd(), frame, iif.0, times).map_err(fault("run the XDP program"))
    }

    /// Like [`FastPath::run`], with the program for the ingress of traffic control.
    ///
    /// # Errors
    /// As [`FastPath::run`].
    pub fn run_ingress(&self, frame: &[u8], iif: IfIndex) -> Result<Ran, Fault> {
        arriving::run_ingress(self.programs.ingress.as_fd(), frame, iif.0, 1).map_err(fault("run the ingress program"))
    }

    /// Runs the egress program on a frame that leaves as `context` says.
    ///
    /// # Errors
    /// As [`FastPath::run`].
    pub fn run_egress(&self, frame: &[u8], context: &mut SkBuff) -> Result<i32, Fault> {
        sys::test_run(self.programs.egress.as_fd(), frame, context).map_err(fault("run the egress program"))
    }

    /// Like [`FastPath::run_egress`], `times` times; returns the mean time of a run, ns.
    ///
    /// # Errors
    /// As [`FastPath::run`].
    pub fn run_egress_often(&self, frame: &[u8], context: &mut SkBuff, times: u32) -> Result<u32, Fault> {
        let ran = sys::test_runs(self.programs.egress.as_fd(), frame, context, times);
        ran.map(|(_, nanos)| nanos).map_err(fault("run the egress program"))
    }

    /// The counters of a session at the egress since it was made.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn measured(&self, session: &KernelSession) -> Result<Counters, Fault> {
        let state = self.meters.get(&session.place, BPF_F_LOCK).map_err(|error| refused("read a meter", &error))?;
        if state.tag() != session.tag {
            return Ok(Counters::default());
        }
        let RawState { packets, bytes, over_packets, over_bytes, .. } = state;
        Ok(Counters { packets, bytes, over_packets, over_bytes })
    }

    /// The counters of the programs since they were first loaded.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn counts(&self) -> Result<ProgramCounts, Fault> {
        let all = self.counts.get(&0, 0).map_err(|error| refused("read the counters", &error))?;
        Ok(all.iter().fold(ProgramCounts::default(), |sum, one| ProgramCounts {
            refreshed: sum.refreshed.wrapping_add(one.refreshed),
            made: sum.made.wrapping_add(one.made),
            changed: sum.changed.wrapping_add(one.changed),
            released: sum.released.wrapping_add(one.released),
            refused: sum.refused.wrapping_add(one.refused),
            carried: sum.carried.wrapping_add(one.carried),
            told: sum.told.wrapping_add(one.told),
            unheard: sum.unheard.wrapping_add(one.unheard),
            silenced: sum.silenced.wrapping_add(one.silenced),
        }))
    }
}

/// The verdict of an XDP program by which a frame leaves by another interface.
pub const REDIRECT: u32 = 4;
/// The verdict by which a frame goes to the kernel's stack.
pub const PASS: u32 = 2;
/// The verdict by which a frame is consumed.
pub const DROP: u32 = 1;

/// The largest difference between two successive clock readings that does not count as sleep.
const LEAST_SLEEP: Span = Span::from_millis(10);
/// Takes the lock of a map's value while it is copied.
const BPF_F_LOCK: u64 = 4;
const PAST_THE_END: Fault = Fault { what: "use the fast path on an interface with a number past 4095", code: 0 };
/// The prefixes of the names of pinned programs.
const PROGRAMS: [&str; 3] = ["xdp_program_", "ingress_program_", "egress_program_"];

impl Programs {
    fn all(&self) -> [BorrowedFd<'_>; 3] {
        [self.xdp.as_fd(), self.ingress.as_fd(), self.egress.as_fd()]
    }
}

fn classifier(object: &mut Ebpf, name: &str) -> Result<OwnedFd, Fault> {
    let program: &mut SchedClassifier = object
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or(Fault { what: "find a program in its object", code: 0 })?;
    program.load().map_err(|error| refused("load a program", &error))?;
    let fd = program.fd().map_err(|error| refused("hold a program", &error))?;
    fd.as_fd().try_clone_to_owned().map_err(fault("hold a program"))
}
