//! Threads by SCHED_DEADLINE: the exact share, new threads, what they had before, and reasons.

use crate::bed::{Host, alone, at_one_moment, wait};
use crate::cpu_groups::ATTEMPTS;
use linux::cpu::deadline::{self, Scheduling};
use linux::cpu::{CORE, Cpu, CpuNotice, Means, ThreadTarget, capacity, measure};
use linux::process::die_with_us;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The kernel's answer to a first, small wish; `false`, said loudly, if it gives none.
fn there() -> bool {
    let tried = std::thread::spawn(|| deadline::reserve(0, CORE / 100)).join().expect("a thread");
    if let Err(failed) = &tried {
        bench::skipped(format!("no deadline threads here: {failed}"));
    }
    tried.is_ok()
}

fn state() -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("sluice-threads-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn python(text: &str) -> Ends {
    let mut command = Command::new("python3");
    command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::piped());
    die_with_us(&mut command);
    Ends(command.spawn().expect("python3"))
}

#[test]
fn a_thread_has_exactly_its_share_against_hogs() {
    let _alone = alone();
    if !there() {
        return;
    }
    let Some(host) = Host::for_cpu() else { return };
    let _hogs = host.hogs(4);
    let busy = host.start("while :; do :; done");
    let mut cpu = Cpu::open(None, false, &host.state).unwrap();
    cpu.enable("a", 300_000).unwrap();
    assert_eq!(cpu.bind("a", ThreadTarget::Thread(busy.id())).unwrap(), Means::Deadline);
    assert_eq!(cpu.status("a").unwrap().installed, "deadline 30 %");
    let ran = || measure::thread_times(busy.id(), busy.id()).unwrap().ran;
    // The span is some periods long and need not begin with one; waking up late adds to it.
    let has = |share: std::ops::Range<f64>| {
        let (mut told, _first) = (Vec::new(), host.goes_first());
        let held = (0..ATTEMPTS).any(|_| {
            let (before, at) = at_one_moment(ran);
            std::thread::sleep(Duration::from_millis(1500));
            let (after, until) = at_one_moment(ran);
            told.push((after - before) as f64 / (until - at).as_nanos() as f64);
            share.contains(told.last().expect("pushed"))
        });
        assert!(held, "{told:?}, not within {share:?}");
    };
    has(0.294..0.33);
    cpu.enable("a", 600_000).unwrap();
    has(0.588..0.65);
    let before = Scheduling::of(busy.id()).unwrap().share();
    assert!(cpu.enable("a", 5 * CORE).is_ok(), "more than a core is a core for one thread");
    assert!(Scheduling::of(busy.id()).unwrap().share() > before);
    cpu.close().unwrap();
    assert_eq!(Scheduling::of(busy.id()).unwrap().share(), 0);
    assert!(host.is_as_before());
}

#[test]
fn new_threads_of_a_process_are_covered_within_a_tenth_of_a_second_and_all_are_restored() {
    let _alone = alone();
    if !there() {
        return;
    }
    let state = state();
    let text = "import threading,time,os\n\
        os.setpriority(os.PRIO_PROCESS,0,3)\n\
        print(flush=True)\n\
        time.sleep(0.4)\n\
        [threading.Thread(target=time.sleep,args=(60,),daemon=True).start() for _ in range(3)]\n\
        time.sleep(60)";
    let child = python(text);
    let pid = child.0.id();
    let nice = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().split(' ').nth(18).unwrap().to_owned();
    wait("its nice value", || nice() == "3");
    let before = Scheduling::of(pid).unwrap();
    let mut cpu = Cpu::open(None, false, &state).unwrap();
    cpu.enable("a", 200_000).unwrap();
    cpu.bind("a", ThreadTarget::Process(pid)).unwrap();
    assert_eq!(Scheduling::of(pid).unwrap().share(), 200_000);
    wait("its threads", || measure::threads(pid).len() == 4);
    let at = Instant::now();
    let mut notices = Vec::new();
    let covered = || measure::threads(pid).iter().all(|&tid| Scheduling::of(tid).unwrap().share() == 50_000);
    let mut late = Duration::ZERO; // this thread, on a busy machine
    while !covered() {
        let asleep = Instant::now();
        std::thread::sleep(Cpu::TICK);
        late += asleep.elapsed().saturating_sub(Cpu::TICK);
        notices.extend(cpu.tick());
        assert!(at.elapsed() < Duration::from_secs(5), "{notices:?}");
    }
    let took = at.elapsed().saturating_sub(late);
    assert!(took < Duration::from_millis(200), "a busy machine may double it: {took:?}, woken {late:?} late");
    assert!(notices.iter().any(|notice| matches!(notice, CpuNotice::Divided { threads: 4, .. })), "{notices:?}");
    drop(cpu); // as kill -9
    let mut cpu = Cpu::open(None, false, &state).unwrap();
    assert_eq!(Scheduling::of(pid).unwrap().share(), 50_000, "what an earlier one left is kept");
    cpu.keep_only_enabled().unwrap();
    assert!(measure::threads(pid).iter().all(|&tid| Scheduling::of(tid).unwrap() == before));
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
    std::fs::remove_dir(&state).unwrap();
}

#[test]
fn refusals_say_why() {
    let _alone = alone();
    if !there() {
        return;
    }
    let state = state();
    let mut cpu = Cpu::open(None, false, &state).unwrap();
    if capacity::cores() > 1 {
        let pinned = python("import os,time\nos.sched_setaffinity(0,{0})\nprint(flush=True)\ntime.sleep(60)");
        let line = |child: &Ends| std::fs::read_to_string(format!("/proc/{}/status", child.0.id())).unwrap();
        wait("its affinity", || line(&pinned).contains("Cpus_allowed_list:\t0\n"));
        cpu.enable("a", 100_000).unwrap();
        let why = cpu.bind("a", ThreadTarget::Process(pinned.0.id())).unwrap_err().to_string();
        assert!(why.contains("may not run on every core"), "{why}");
        assert_eq!(Scheduling::of(pinned.0.id()).unwrap().share(), 0);
    }
    let full: Vec<Ends> = (0..capacity::cores()).map(|_| python("import time\ntime.sleep(60)")).collect();
    let mut last = None;
    for (n, child) in full.iter().enumerate() {
        let name = format!("full{n}");
        cpu.enable(&name, 980_000).unwrap();
        last = cpu.bind(&name, ThreadTarget::Thread(child.0.id())).err().or(last);
    }
    let why = last.expect("the kernel does not admit 98 % of every core").to_string();
    assert!(why.contains("admits no more deadline threads"), "{why}");
    let many = python(
        "import threading,time\n[threading.Thread(target=time.sleep,args=(60,),daemon=True).start() for _ in range(70)]\ntime.sleep(60)",
    );
    wait("its threads", || measure::threads(many.0.id()).len() > 64);
    let why = cpu.bind("full0", ThreadTarget::Process(many.0.id())).unwrap_err().to_string();
    assert!(why.contains("threads") && why.contains("groups = true"), "{why}");
    cpu.close().unwrap();
    let _ = std::fs::remove_dir(&state);
}

#[test]
fn the_kernel_is_asked_for_the_capacity() {
    let _alone = alone();
    if !there() {
        return;
    }
    let found = capacity::probe().unwrap();
    assert_eq!(found.cores, capacity::cores());
    assert!(found.share > found.cores * CORE / 2 && found.share <= found.cores * CORE, "{found:?}");
    // Other programs of this machine may hold some for a moment.
    let all_is_back = || capacity::probe().unwrap().share >= found.share;
    wait("what the probe held", all_is_back);
    let state = state();
    let sleeper = python("import time\ntime.sleep(60)");
    for _ in 0..4 {
        let mut cpu = Cpu::open(None, false, &state).unwrap();
        cpu.enable("a", 300_000).unwrap();
        cpu.bind("a", ThreadTarget::Process(sleeper.0.id())).unwrap();
        // Long enough that the kernel takes it for inactive, which is when it would lose count.
        std::thread::sleep(Duration::from_millis(60));
        cpu.close().unwrap();
    }
    std::fs::remove_dir(&state).unwrap();
    wait("what a thread held that slept", all_is_back);
}
