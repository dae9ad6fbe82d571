//! Ours against DPDK's rte_meter and rte_red, in one process, alternately, on one core.
//!
//! Optional: where DPDK (Debian: libdpdk-dev) or a C compiler is missing it says SKIPPED. The peer is compiled when the
//! benchmark runs (`dpdk_peer.c`) and opened as a shared object, so that nobody needs DPDK to build Sluice.

use bench::{Bench, Draw};
use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use terms::{Bytes, Rate, Span, Time};
use traffic::dropper::{Coupling, RedCurve, Rio, RioProfile, Verdict};
use traffic::meter::{Color, Job, PackedState, PackedTrTcm, TrTcm, blind_batch};

const PACKETS: usize = 1 << 20;
const RUNS: usize = 11;
/// Packets a batch.
const BATCH: usize = 1024;
/// How far ahead DPDK's loop prefetches: the best of 16, 32 and 64 here.
const AHEAD: u32 = 64;

fn main() {
    let bench = Bench::from_args();
    let names =
        ["meter_trtcm_1_vs_dpdk", "meter_trtcm_64k_batch_vs_dpdk", "meter_trtcm_1m_batch_vs_dpdk", "rio_vs_dpdk"];
    if !names.iter().any(|name| bench.wants(name)) {
        return;
    }
    let peer = match Peer::open() {
        Ok(peer) => peer,
        Err(why) => return eprintln!("SKIPPED: the comparison with DPDK: {why}"),
    };
    meter(&bench, &peer, names[0], 1, false);
    meter(&bench, &peer, names[1], 1 << 16, true);
    meter(&bench, &peer, names[2], 1 << 20, true);
    rio(&bench, &peer, names[3]);
}

/// Colour-blind trTCM with mixed colours over so many meters in random order; the ratio of the times, ours over theirs. Batches are for a
/// great many meters, which is what packed states are for.
fn meter(bench: &Bench, peer: &Peer, name: &str, count: u32, batch: bool) {
    if !bench.wants(name) {
        return;
    }
    let (cir, cbs) = (Rate::from_mbps(10), Bytes::new(20_000));
    let (pir, pbs) = (Rate::from_mbps(20), Bytes::new(40_000));
    let profile = TrTcm::new(cir, cbs, pir, pbs).expect("a valid profile");
    let packed = PackedTrTcm::new(cir, cbs, pir, pbs).expect("a profile that packs");
    let mut states = vec![profile.start(Time::ZERO); count as usize];
    let mut small = vec![packed.start(Time::ZERO); count as usize];
    assert_eq!((peer.trtcm_new)(count, 1_250_000, 20_000, 2_500_000, 40_000), 0, "DPDK takes the same profile");
    let mut draw = Draw::new(u64::from(count));
    let jobs: Vec<Job> =
        (0..PACKETS).map(|_| Job { meter: draw.next_u32() % count, len: 64 + draw.next_u32() % 1437 }).collect();
    let meters: Vec<u32> = jobs.iter().map(|job| job.meter).collect();
    let lens: Vec<u32> = jobs.iter().map(|job| job.len).collect();
    // 15 Mb/s a meter: between the two rates, so that all three colours occur.
    let gap_ns = (782 * 8 * 1000 / 15 / u64::from(count)).max(1);
    let gap_cycles = (u128::from(gap_ns) * u128::from((peer.hz)()) / 1_000_000_000).max(1) as u64;
    let (mut now, mut cycles, mut theirs) = (Time::ZERO, 0u64, vec![0u8; PACKETS]);
    let mut ours = vec![Color::Green; PACKETS];
    let (own, other, ratio) = bench.pair(
        RUNS,
        || {
            if batch {
                for (jobs, colors) in jobs.chunks(BATCH).zip(ours.chunks_mut(BATCH)) {
                    now = now + Span::from_nanos(gap_ns * BATCH as u64);
                    blind_batch(&packed, &mut small, now, jobs, colors, &linux::cache::prefetch::<PackedState>);
                }
            } else {
                for (job, color) in jobs.iter().zip(&mut ours) {
                    now = now + Span::from_nanos(gap_ns);
                    *color = profile.meter(&mut states[job.meter as usize], now, job.len, Color::Green);
                }
            }
        },
        || {
            let ahead = if batch { AHEAD } else { 0 };
            (peer.trtcm_run)(
                meters.as_ptr(),
                lens.as_ptr(),
                PACKETS as u64,
                cycles,
                gap_cycles,
                ahead,
                theirs.as_mut_ptr(),
            );
            cycles += gap_cycles * PACKETS as u64;
        },
    );
    let shares =
        |colors: &[u8]| [0u8, 1, 2].map(|c| colors.iter().filter(|&&color| color == c).count() * 100 / PACKETS);
    eprintln!(
        "{name}: ours {:.2} ns, DPDK {:.2} ns a packet; green/yellow/red % ours {:?}, DPDK {:?}",
        own / PACKETS as f64,
        other / PACKETS as f64,
        shares(&ours.iter().map(|&color| color as u8).collect::<Vec<u8>>()),
        shares(&theirs)
    );
    bench.report(name, ratio, "ratio", RUNS);
}

/// Arrivals at a queue of 150 packets: red's average lies between its thresholds, yellow's and green's below theirs. Both are told the
/// queue and keep one average a colour (`Rio::decide`). Coupled averages of a queue that we count ourselves do more, which DPDK
/// does not offer: `rio_decide` of `cargo bench -p sluice-traffic --bench conditioning` times them.
fn rio(bench: &Bench, peer: &Peer, name: &str) {
    if !bench.wants(name) {
        return;
    }
    let (min, max, inverse) = ([400u16, 200, 100], [800u16, 400, 200], [50u16, 20, 10]);
    assert_eq!((peer.red_new)(min.as_ptr(), max.as_ptr(), inverse.as_ptr()), 0, "DPDK takes the same curves");
    let curve = |i: usize| RedCurve {
        min: u32::from(min[i]),
        max: u32::from(max[i]),
        max_p: 65536 / u32::from(inverse[i]),
        gentle: false,
    };
    let profile = RioProfile::new([curve(0), curve(1), curve(2)], 1 << 23, Span::from_micros(171), Coupling::Decoupled)
        .expect("valid curves");
    let mut rio = Rio::new();
    let mut draw = Draw::new(2);
    let colors: Vec<u8> = (0..PACKETS).map(|_| (draw.next_u32() % 3) as u8).collect();
    let named: Vec<Color> = colors.iter().map(|&c| [Color::Green, Color::Yellow, Color::Red][usize::from(c)]).collect();
    let chances: Vec<u32> = (0..PACKETS).map(|_| draw.next_u32()).collect();
    let (mut now, mut cycles) = (Time::from_nanos(1000), 0u64);
    let gap_cycles = (u128::from((peer.hz)()) * 171 / 1_000_000) as u64;
    let (own, other, ratio) = bench.pair(
        RUNS,
        || {
            let mut accepted = 0;
            for (&color, &chance) in named.iter().zip(&chances) {
                now = now + Span::from_micros(171);
                accepted += u64::from(rio.decide(&profile, now, color, 150, chance) == Verdict::Accept);
            }
            black_box(accepted);
        },
        || {
            black_box((peer.red_run)(colors.as_ptr(), PACKETS as u64, 150, cycles, gap_cycles));
            cycles += gap_cycles * PACKETS as u64;
        },
    );
    eprintln!("{name}: ours {:.2} ns, DPDK {:.2} ns a decision", own / PACKETS as f64, other / PACKETS as f64);
    bench.report(name, ratio, "ratio", RUNS);
}

type TrtcmRun = extern "C" fn(*const u32, *const u32, u64, u64, u64, u32, *mut u8);

/// The compiled peer.
struct Peer {
    hz: extern "C" fn() -> u64,
    trtcm_new: extern "C" fn(u32, u64, u64, u64, u64) -> c_int,
    trtcm_run: TrtcmRun,
    red_new: extern "C" fn(*const u16, *const u16, *const u16) -> c_int,
    red_run: extern "C" fn(*const u8, u64, u32, u64, u64) -> u64,
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
        // SAFETY: each symbol is defined in dpdk_peer.c with exactly the type that the field (or the binding) has.
        let (start, peer): (extern "C" fn(*const c_char) -> c_int, Peer) = unsafe {
            (
                std::mem::transmute::<*mut c_void, extern "C" fn(*const c_char) -> c_int>(symbol(
                    handle,
                    c"peer_start",
                )?),
                Peer {
                    hz: std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(symbol(handle, c"peer_hz")?),
                    trtcm_new: std::mem::transmute::<*mut c_void, extern "C" fn(u32, u64, u64, u64, u64) -> c_int>(
                        symbol(handle, c"peer_trtcm_new")?,
                    ),
                    trtcm_run: std::mem::transmute::<*mut c_void, TrtcmRun>(symbol(handle, c"peer_trtcm_run")?),
                    red_new: std::mem::transmute::<
                        *mut c_void,
                        extern "C" fn(*const u16, *const u16, *const u16) -> c_int,
                    >(symbol(handle, c"peer_red_new")?),
                    red_run: std::mem::transmute::<*mut c_void, extern "C" fn(*const u8, u64, u32, u64, u64) -> u64>(
                        symbol(handle, c"peer_red_run")?,
                    ),
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
unsafe fn symbol(handle: *mut c_void, name: &std::ffi::CStr) -> Result<*mut c_void, String> {
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
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/dpdk_peer.c");
    let object = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("libdpdk_peer.so");
    let out = Command::new("cc")
        .args(["-O3", "-march=native", "-shared", "-fPIC", "-o"])
        .args([&object, &source])
        .args(flags.split_whitespace())
        .output()
        .map_err(|e| format!("no C compiler: {e}"))?;
    if out.status.success() { Ok(object) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}
