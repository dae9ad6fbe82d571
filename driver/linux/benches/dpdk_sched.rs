//! Our schedulers against DPDK's rte_sched, in one process, alternately, on one core: 4,096 leaves, packets of 1,500 bytes.
//!
//! Optional: where DPDK (Debian: libdpdk-dev) or a C compiler is missing it says SKIPPED. The peer is compiled when the
//! benchmark runs (`dpdk_sched_peer.c`) and opened as a shared object, so that nobody needs DPDK to build Sluice.
//! Each figure is the worse of two ratios: backlogged and drained (see `plane`).

#[path = "../../../engine/traffic/benches/plane/mod.rs"]
mod plane;

use bench::{Bench, Draw};
use plane::{LEN, Plane};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use terms::{Rate, ServiceCurve, Span, Time};
use traffic::scheduler::SchedulerClass;
use traffic::scheduler::hfsc::{Curves, Hfsc};
use traffic::scheduler::wf2q::Wf2q;

const LEAVES: u32 = 4096;
const PACKETS: u64 = 1 << 18;
const RUNS: usize = 11;

/// Makes one of ours.
type Make = fn() -> Plane;

fn main() {
    let bench = Bench::from_args();
    let contenders: [(&str, Make); 2] = [("sched_wf2q_vs_rte_sched", wf2q), ("sched_hfsc_vs_rte_sched", hfsc)];
    if !contenders.iter().any(|(name, _)| bench.wants(name)) {
        return;
    }
    let peer = match Peer::open() {
        Ok(peer) => peer,
        Err(why) => return eprintln!("SKIPPED: the comparison with DPDK's scheduler: {why}"),
    };
    let mut draw = Draw::new(7);
    let order: Vec<u32> = (0..1 << 16).map(|_| draw.next_u32() % LEAVES).collect();
    for (name, make) in contenders {
        if bench.wants(name) {
            let ratios = [true, false].map(|backlogged| compare(&bench, &peer, &order, name, make, backlogged));
            bench.report(name, ratios[0].max(ratios[1]), "ratio", RUNS);
        }
    }
}

fn compare(bench: &Bench, peer: &Peer, order: &[u32], name: &str, make: Make, backlogged: bool) -> f64 {
    let mut plane = make();
    plane.prepare(LEAVES, backlogged);
    let made = (peer.sched_new)(LEAVES, if backlogged { 2 } else { 0 }, LEN);
    assert_eq!(made, 0, "DPDK takes {LEAVES} pipes");
    let (own, other, ratio) = bench.pair(
        RUNS,
        || plane.run(PACKETS, backlogged),
        || {
            let out = (peer.sched_run)(PACKETS, order.as_ptr(), c_int::from(backlogged));
            assert_eq!(out, PACKETS, "DPDK holds packets back");
        },
    );
    let kind = if backlogged { "backlogged" } else { "drained" };
    let each = |ns: f64| ns / PACKETS as f64;
    eprintln!("{name}, {kind}: ours {:.1} ns, DPDK {:.1} ns a packet, ratio {ratio:.2}", each(own), each(other));
    ratio
}

fn share() -> Rate {
    Rate::from_bps(10_000_000_000 / u64::from(LEAVES))
}

fn wf2q() -> Plane {
    let mut s = Wf2q::new(Rate::from_mbps(10_000));
    let nodes = (0..LEAVES).map(|_| s.add(share())).collect();
    Plane::new(Box::new(s), nodes)
}

/// Half of the link guaranteed, every other class with a burst; all of it shared.
fn hfsc() -> Plane {
    let mut s = Hfsc::new();
    let half = ServiceCurve::linear(Rate::from_bps(share().as_bps() / 2));
    let burst = ServiceCurve { m1: share(), d: Span::from_millis(10), m2: half.m2 };
    let curves = |i: u32| Curves {
        real_time: Some(if i.is_multiple_of(2) { half } else { burst }),
        link_share: Some(ServiceCurve::linear(share())),
        upper_limit: None,
    };
    let nodes =
        (0..LEAVES).map(|i| s.add(Time::ZERO, SchedulerClass::ROOT, curves(i)).expect("below the root")).collect();
    Plane::new(Box::new(s), nodes)
}

/// The compiled peer.
struct Peer {
    sched_new: extern "C" fn(u32, u32, u32) -> c_int,
    sched_run: extern "C" fn(u64, *const u32, c_int) -> u64,
}

impl Peer {
    fn open() -> Result<Peer, String> {
        let object = compile()?;
        let path = CString::new(object.to_string_lossy().as_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: the path is a C string; the object is never closed, so its functions live as long as the process.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err("the compiled peer cannot be opened".to_string());
        }
        // SAFETY: each symbol is defined in dpdk_sched_peer.c with exactly the type that the field (or the binding) has.
        let (start, peer) = unsafe {
            let start = symbol(handle, c"peer_start")?;
            let (new, run) = (symbol(handle, c"peer_sched_new")?, symbol(handle, c"peer_sched_run")?);
            (
                std::mem::transmute::<*mut c_void, extern "C" fn(*const c_char) -> c_int>(start),
                Peer {
                    sched_new: std::mem::transmute::<*mut c_void, extern "C" fn(u32, u32, u32) -> c_int>(new),
                    sched_run: std::mem::transmute::<*mut c_void, extern "C" fn(u64, *const u32, c_int) -> u64>(run),
                },
            )
        };
        if start(c"0".as_ptr()) != 0 {
            return Err("DPDK's environment does not start here".to_string());
        }
        Ok(peer)
    }
}

/// # Safety
/// `handle` must come from `dlopen`.
unsafe fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is open and the name a C string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() { Err(format!("the peer has no {name:?}")) } else { Ok(found) }
}

/// Compiles the peer into the build folder.
fn compile() -> Result<PathBuf, String> {
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]).output();
    let flags =
        flags.ok().filter(|out| out.status.success()).ok_or("pkg-config finds no libdpdk (Debian: libdpdk-dev)")?;
    let flags = String::from_utf8_lossy(&flags.stdout).into_owned();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/dpdk_sched_peer.c");
    let object = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("libdpdk_sched_peer.so");
    let out = Command::new("cc")
        .args(["-O3", "-march=native", "-shared", "-fPIC", "-o"])
        .args([&object, &source])
        .args(flags.split_whitespace())
        .output()
        .map_err(|e| format!("no C compiler: {e}"))?;
    if out.status.success() { Ok(object) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}
