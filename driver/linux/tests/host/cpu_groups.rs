//! Process groups by weight: their share against hogs, and the host as it was.

use crate::bed::{Host, Process, alone, at_one_moment, wait};
use linux::cpu::{CORE, Cpu, CpuNotice, Means, ThreadTarget, capacity};
use std::fs;
use std::time::{Duration, Instant};

/// A virtual machine whose processors are taken away unevenly shows the share only while they are there.
pub const ATTEMPTS: usize = 8;

pub const BUSY: &str = "while :; do :; done";

pub fn tick(cpu: &mut Cpu, span: Duration) -> Vec<CpuNotice> {
    let until = Instant::now() + span;
    let mut all = Vec::new();
    while Instant::now() < until {
        all.extend(cpu.tick());
        std::thread::sleep(Cpu::TICK);
    }
    all
}

/// What group and rest ran in `span`, in cores.
fn measured(host: &Host, cpu: &mut Cpu, group: &str, span: Duration) -> (f64, f64) {
    let (before, at) = at_one_moment(|| [host.ran(group), host.ran("")]);
    tick(cpu, span);
    let (after, until) = at_one_moment(|| [host.ran(group), host.ran("")]);
    let took = (until - at).as_nanos() as f64;
    let cores = |n: usize| (after[n] - before[n]) as f64 / took;
    (cores(0), cores(1) - cores(0))
}

/// Four hogs, a reserved process: its share of what the host gets is at least 99 % of what was asked, the hogs have
/// the rest.
#[test]
fn a_reserved_group_has_its_share_against_four_hogs_and_they_have_the_rest() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let hogs = host.hogs(4);
    let busy = host.start(BUSY);
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    let cores = capacity::cores();
    let mut told = Vec::new();
    let held = (0..ATTEMPTS).any(|_| {
        cpu.enable("half", CORE / 2).unwrap();
        assert_eq!(cpu.bind("half", ThreadTarget::Process(busy.id())).unwrap(), Means::Weight);
        let first = host.goes_first();
        tick(&mut cpu, Duration::from_millis(1000));
        let (got, rest) = measured(&host, &mut cpu, "sluice.r.half", Duration::from_secs(2));
        // Other work of this machine takes from both: what the host has is what both have together.
        let asked = 0.5 * (got + rest) / cores as f64;
        drop(first);
        told.push((got, rest, asked));
        let status = cpu.status("half").unwrap();
        assert!(status.installed.starts_with("cpu.shares ") && status.installed.contains(" beside "), "{status:?}");
        assert_eq!(status.members, [busy.id()]);
        cpu.disable("half").unwrap();
        got >= 0.99 * asked && rest >= 0.9 * (got + rest - asked)
    });
    assert!(held, "cores of the reserved, of the hogs, and what was asked: {told:?}");
    println!("reserved, hogs, asked (cores): {told:?}");
    wait("everything to be back", || host.is_as_before());
    assert_eq!(host.own_processes().len(), hogs.len() + 1);
}

#[test]
fn what_is_born_in_a_bound_process_is_covered_and_goes_home_with_it() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let parent = host.start("sleep 0.05; sleep 60 & sleep 60 & wait");
    let outsider = host.start("exec sleep 60");
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.enable("a", CORE / 4).unwrap();
    cpu.bind("a", ThreadTarget::Process(parent.id())).unwrap();
    wait("its children", || cpu.status("a").unwrap().members.len() == 3);
    let children = cpu.status("a").unwrap().members;
    assert!(!host.own_processes().contains(&outsider.id()), "the unreserved are in their group");
    let late = host.start("exec sleep 60");
    assert!(host.own_processes().contains(&late.id()));
    tick(&mut cpu, Duration::from_millis(1200));
    assert!(!host.own_processes().contains(&late.id()), "who comes later is gathered too");
    cpu.disable("a").unwrap();
    wait("everything to be back", || host.is_as_before());
    let home = host.own_processes();
    assert!(children.iter().chain([&outsider.id(), &late.id()]).all(|pid| home.contains(pid)), "{home:?}");
    children.into_iter().filter(|&pid| pid != parent.id()).for_each(end);
}

fn end(pid: u32) {
    linux::process::ProcessId::of(pid).unwrap().signal(libc::SIGKILL).unwrap();
}

#[test]
fn after_a_crash_everything_is_found_and_goes_home() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let (kept, dropped, other) =
        (host.start("exec sleep 60"), host.start("exec sleep 60"), host.start("exec sleep 60"));
    // A group of another program, from which one is taken and to which it must return.
    let foreign = host.dir(0).join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("cgroup.procs"), dropped.id().to_string()).unwrap();
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    for (name, process) in [("kept", &kept), ("dropped", &dropped)] {
        cpu.enable(name, CORE / 4).unwrap();
        cpu.bind(name, ThreadTarget::Process(process.id())).unwrap();
    }
    drop(cpu); // as kill -9: nothing is put back
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.enable("kept", CORE / 4).unwrap();
    cpu.bind("kept", ThreadTarget::Process(kept.id())).unwrap();
    cpu.keep_only_enabled().unwrap();
    assert_eq!(cpu.status("kept").unwrap().members, [kept.id()]);
    let home = |dir: &std::path::Path| fs::read_to_string(dir.join("cgroup.procs")).unwrap();
    assert_eq!(home(&foreign), format!("{}\n", dropped.id()));
    drop(cpu);
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.close().unwrap();
    fs::write(host.dir(0).join("cgroup.procs"), dropped.id().to_string()).unwrap();
    fs::remove_dir(&foreign).unwrap();
    assert!(host.is_as_before());
    let mut own = host.own_processes();
    own.sort_unstable();
    let mut all = [kept.id(), dropped.id(), other.id()];
    all.sort_unstable();
    assert_eq!(own, all);
}

#[test]
fn a_group_that_another_program_removes_is_made_again() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let bound = host.start("exec sleep 60");
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.enable("a", CORE / 4).unwrap();
    cpu.bind("a", ThreadTarget::Process(bound.id())).unwrap();
    let before = cpu.status("a").unwrap();
    fs::write(host.dir(0).join("cgroup.procs"), bound.id().to_string()).unwrap();
    fs::remove_dir(host.dir(0).join("sluice.r.a")).unwrap();
    let notices = tick(&mut cpu, Duration::from_millis(1300));
    assert!(
        notices.iter().any(|notice| matches!(notice, CpuNotice::Strayed { pid, .. } if *pid == bound.id())),
        "{notices:?}"
    );
    assert_eq!(cpu.status("a").unwrap().members, before.members);
    assert_eq!(cpu.status("a").unwrap().installed, before.installed, "with its weight");
    drop(bound);
    let notices = tick(&mut cpu, Duration::from_millis(200));
    assert!(notices.iter().any(|notice| matches!(notice, CpuNotice::Ended { .. })), "{notices:?}");
    cpu.close().unwrap();
    assert!(host.is_as_before());
}

#[test]
fn what_cannot_be_bound_is_refused_with_the_reason_and_changes_nothing() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let one = host.start("exec sleep 60");
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    let refused = |cpu: &mut Cpu, name: &str, target: ThreadTarget| cpu.bind(name, target).unwrap_err().to_string();
    assert!(refused(&mut cpu, "a", ThreadTarget::Process(one.id())).contains("its window is not open"));
    cpu.enable("a", CORE / 4).unwrap();
    cpu.enable("b", CORE / 4).unwrap();
    cpu.bind("a", ThreadTarget::Process(one.id())).unwrap();
    let twice = refused(&mut cpu, "b", ThreadTarget::Process(one.id()));
    assert!(twice.contains("it is bound to reservation a already"), "{twice}");
    let nobody = refused(&mut cpu, "b", ThreadTarget::Process(u32::MAX / 2));
    assert!(nobody.contains("it does not run"), "{nobody}");
    let kernel = refused(&mut cpu, "b", ThreadTarget::Process(2));
    assert!(kernel.contains("thread of the kernel"), "{kernel}");
    assert_eq!(cpu.status("a").unwrap().members, [one.id()]);
    assert!(linux::cgroup::GroupTree::open(place(&host)).unwrap_err().to_string().contains("another agent holds it"));
    let two: Process = host.start("exec sleep 60");
    cpu.bind("a", ThreadTarget::Process(two.id())).unwrap();
    assert_eq!(cpu.status("a").unwrap().members, [two.id()], "bound anew");
    cpu.close().unwrap();
    assert!(host.is_as_before());
}

fn place(host: &Host) -> linux::cgroup::GroupPlace {
    let parent = std::path::Path::new("/").join(&host.name);
    linux::cgroup::GroupPlace { mounted: host.mounted.clone(), parent, record: host.state.join("groups") }
}

#[test]
fn a_host_that_has_not_opted_in_is_left_alone() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let (one, other) = (host.start("exec sleep 60"), host.start("exec sleep 60"));
    let mut cpu = Cpu::open(Some(host.tree()), false, &host.state).unwrap();
    cpu.enable("a", CORE / 10).unwrap();
    let means = cpu.bind("a", ThreadTarget::Process(one.id())).unwrap();
    assert_eq!(means, Means::Deadline, "its one thread");
    assert!(host.own_processes().contains(&other.id()));
    assert!(fs::read_dir(host.dir(0)).unwrap().flatten().all(|entry| !entry.path().is_dir()), "no group is made");
    cpu.close().unwrap();
    assert!(host.is_as_before());
}
