//! The probes. Each undoes its changes, or makes them where they end with the thread.

use super::{DoctorFinding, finding, flow_program};
use crate::netlink::Socket;
use crate::netlink::tc::TcHandle;
use crate::netlink::tc::qdisc::Discipline;
use crate::sockets::raw::{set, socket};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use terms::IfIndex;

/// The result of a probe: details if it worked, else the reason.
pub type Tried = Result<String, String>;

/// The release of the running kernel.
pub fn kernel() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_else(|reason| reason)
}

fn read(path: &str) -> Tried {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(|error| format!("{path}: {error}"))
}

/// Capabilities (capabilities(7)) by their bit in CapEff.
const RIGHTS: [(u32, &str, &str, &str); 5] = [
    (12, "CAP_NET_ADMIN", "traffic control", "no reservation can be installed"),
    (13, "CAP_NET_RAW", "signalling (raw sockets)", "no signalling"),
    (39, "CAP_BPF", "the flow program", "no reservation can be installed"),
    (21, "CAP_SYS_ADMIN", "namespaces, and mounting the bpffs", "no testbed; mount a bpffs under the state directory"),
    (23, "CAP_SYS_NICE", "CPU reservations", "no CPU reservation"),
];

/// The capabilities of this process.
pub fn rights() -> Vec<DoctorFinding> {
    let held = read("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    });
    let held = held.unwrap_or(0);
    let one = |&(bit, name, used_for, instead): &(u32, &'static str, &'static str, &'static str)| {
        let tried = if held >> bit & 1 == 1 { Ok(String::new()) } else { Err("run as root".to_owned()) };
        finding("rights", name, tried, used_for, instead)
    };
    RIGHTS.iter().map(one).collect()
}

const NO_RESERVATIONS: &str = "nothing: no reservations on this machine";
const SIMULATED: &str = "the simulator";
const FIFO: &str = "pfifo";

/// Disciplines: kernel name, use, substitute.
const DISCIPLINES: [(&str, &str, &str); 15] = [
    ("htb", "classes of the kernel plane", NO_RESERVATIONS),
    ("pfifo", "queues of classes", NO_RESERVATIONS),
    ("bfifo", "queues of classes", FIFO),
    ("hfsc", "classes of the kernel plane, delay bounds", "htb: no delay bound exported, guaranteed service refused"),
    ("prio", "strict priority", "htb's priorities"),
    ("tbf", "shaping without classes", "htb"),
    ("red", "early drop", SIMULATED),
    ("gred", "early drop with precedences", SIMULATED),
    ("drr", "fair shares without rates", "htb's quanta"),
    ("ets", "fair shares under strict priority", "htb's quanta and priorities"),
    ("fq", "pacing for best effort", FIFO),
    ("fq_codel", "short queues for best effort", FIFO),
    ("cake", "a foreign root that doctor knows", "refused like any other"),
    ("netem", "delay on a testbed's links", "links without delay"),
    ("clsact", "the flow program before Linux 6.6", "TCX links"),
];

/// The probes that need a network namespace.
pub fn in_scratch_namespace() -> Vec<DoctorFinding> {
    let thread = std::thread::spawn(|| {
        // SAFETY: only the network changes, and of this thread alone, which ends here.
        let moved = unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from);
        let mut socket = moved.as_ref().ok().and_then(|()| Socket::open().ok());
        let here = moved.map(|()| String::new()).map_err(|error| error.to_string());
        let mut all = vec![finding("rights", "network namespaces", here, "testbeds, trying things", SIMULATED)];
        all.extend(schedulers(&mut socket));
        all.extend(classifiers(&mut socket));
        all
    });
    thread.join().unwrap_or_default()
}

/// Runs a probe with the scratch namespace's socket, if there is one.
fn there(socket: &mut Option<Socket>, probe: impl FnOnce(&mut Socket) -> Tried) -> Tried {
    socket.as_mut().map_or(Err("not tried: that needs a network namespace".to_owned()), probe)
}

fn schedulers(socket: &mut Option<Socket>) -> Vec<DoctorFinding> {
    let mut oif = IfIndex(1); // the loopback takes disciplines too
    let pair = there(socket, |socket| {
        let veth = socket.add_veth("doctor0", "doctor1", None).and_then(|()| socket.link_by_name("doctor0"));
        oif = veth.map_err(|error| error.to_string())?.index;
        Ok(String::new())
    });
    let mut all = vec![finding("scheduler", "veth", pair, "testbed links", SIMULATED)];
    for (name, used_for, instead) in DISCIPLINES {
        let tried = there(socket, |socket| discipline(socket, oif, name));
        all.push(finding("scheduler", name, tried, used_for, instead));
    }
    all
}

fn classifiers(socket: &mut Option<Socket>) -> Vec<DoctorFinding> {
    // Whoever looks at the same time in this process has another.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("sluice-doctor-{}-{number}", std::process::id()));
    let works = there(socket, |socket| {
        fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        let works = flow_program(socket, &dir);
        fs::remove_dir_all(&dir).map_err(|error| error.to_string()).and(works)
    });
    let (used_for, instead) = ("flow to class and policer (eBPF at the egress)", NO_RESERVATIONS);
    let types = fs::metadata("/sys/kernel/btf/vmlinux").map(|_| String::new()).map_err(|error| error.to_string());
    vec![
        finding("classifier", "flow program", works, used_for, instead),
        finding("classifier", "BTF", types, "programs that read kernel structures", "none here needs it"),
    ]
}

/// Adds a discipline without options; if the kernel demands options, the discipline is available too.
fn discipline(socket: &mut Socket, oif: IfIndex, name: &str) -> Tried {
    let (what, handle, parent) = match name {
        "htb" => (Discipline::Htb { default: 1 }, TcHandle::new(1, 0), TcHandle::ROOT),
        "pfifo" => (Discipline::Pfifo { limit: 10 }, TcHandle::new(1, 0), TcHandle::ROOT),
        "bfifo" => (Discipline::Bfifo { limit: 3000 }, TcHandle::new(1, 0), TcHandle::ROOT),
        "clsact" => (Discipline::Clsact, TcHandle::new(0xffff, 0), TcHandle::CLSACT),
        other => (Discipline::Other(other.to_owned()), TcHandle::new(1, 0), TcHandle::ROOT),
    };
    match socket.add_qdisc(oif, handle, parent, &what) {
        Ok(()) => {
            socket.delete_qdisc(oif, handle, parent).map_err(|error| error.to_string())?;
            Ok(String::new())
        }
        Err(error) if error.errno == libc::ENOENT || error.errno == libc::EPERM => Err(error.to_string()),
        Err(_) => Ok(String::new()), // it is known, and wants options
    }
}

/// Raw sockets for RSVP (RFC 2205 section 3.11.6).
pub fn signalling() -> Vec<DoctorFinding> {
    let four = raw(libc::AF_INET, 46, libc::IPPROTO_IP, libc::IP_ROUTER_ALERT);
    let six = raw(libc::AF_INET6, libc::IPPROTO_RAW, libc::IPPROTO_IPV6, libc::IPV6_ROUTER_ALERT);
    let (used_for, instead) = ("catching RSVP messages addressed to others", "this node only speaks for itself");
    vec![
        finding("signalling", "IPv4 Router Alert", four, used_for, instead),
        finding("signalling", "IPv6 Router Alert", six, used_for, instead),
    ]
}

fn raw(family: i32, protocol: i32, level: i32, option: i32) -> Tried {
    let tried = socket(family, protocol).and_then(|socket| set(&socket, level, option, 1, "an option"));
    tried.map(|()| String::new()).map_err(|failed| failed.error.to_string())
}

/// Control groups and the deadline scheduler.
pub fn cpu_and_disk() -> Vec<DoctorFinding> {
    let one = read("/proc/mounts").and_then(|mounts| {
        let of = |line: &str| {
            let mut words = line.split_whitespace();
            let (kind, options) = (words.nth(2)?, words.next()?);
            let names = options.split(',').filter(|word| matches!(*word, "cpu" | "blkio" | "memory" | "cpuset"));
            (kind == "cgroup").then(|| names.collect::<Vec<_>>().join(","))
        };
        let held: Vec<String> = mounts.lines().filter_map(of).filter(|names| !names.is_empty()).collect();
        if held.is_empty() { Err("no version 1 controller is mounted".to_owned()) } else { Ok(held.join(" ")) }
    });
    let two = read("/proc/mounts").and_then(|mounts| {
        let of = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let (place, kind) = (words.next()?, words.next()?);
            (kind == "cgroup2").then(|| place.to_owned())
        };
        let place = mounts.lines().find_map(of).ok_or("not mounted")?;
        match read(&format!("{place}/cgroup.controllers"))? {
            held if held.split(' ').any(|name| name == "cpu" || name == "io") => Ok(held),
            held => Err(format!("mounted at {place} with neither cpu nor io ({held})")),
        }
    });
    let (used_for, instead) = ("shares and caps of CPU and disk", "the other version, if that is there");
    vec![
        finding("cpu and disk", "cgroup v1", one, used_for, instead),
        finding("cpu and disk", "cgroup v2", two, used_for, instead),
        finding("cpu and disk", "SCHED_DEADLINE", deadline(), "CPU reservations", "caps, which are no guarantee"),
    ]
}

/// `struct sched_attr` (sched_setattr(2)).
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Tries to make one thread a deadline thread, with one percent of a core.
fn deadline() -> Tried {
    let thread = std::thread::spawn(|| {
        let size = size_of::<SchedAttr>() as u32;
        let (runtime, period) = (1_000_000, 100_000_000);
        let attr = SchedAttr { size, policy: 6, flags: 0, nice: 0, priority: 0, runtime, deadline: period, period };
        // SAFETY: `attr` is valid for reads of the size that it states and outlives the call; 0 is this thread.
        let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&attr), 0) };
        if rc < 0 { Err(io::Error::last_os_error().to_string()) } else { Ok(String::new()) }
    });
    thread.join().unwrap_or_else(|_| Err("the probe's thread ended".to_owned()))
}
