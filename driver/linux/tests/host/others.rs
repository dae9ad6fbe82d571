//! Groups of other programs: served where they are, or followed, and as they were at the end.

use crate::bed::{Host, Process, alone, at_one_moment, wait};
use crate::cpu_groups::{ATTEMPTS, BUSY, tick};
use crate::disk::{Folder, MB, served, storage};
use linux::cgroup::{all_mounted, for_disk};
use linux::cpu::{CORE, Cpu, Means, capacity};
use std::fs;
use std::time::{Duration, Instant};

/// A group of another program in every hierarchy of the host; gone with it.
struct Theirs<'a> {
    host: &'a Host,
    path: &'static str,
}

impl Theirs<'_> {
    fn of<'a>(host: &'a Host, path: &'static str) -> Theirs<'a> {
        (0..host.mounted.len()).for_each(|n| fs::create_dir_all(host.dir(n).join(path)).unwrap());
        Theirs { host, path }
    }

    /// As it is bound.
    fn name(&self) -> String {
        format!("/{}/{}", self.host.name, self.path)
    }

    /// The process, and the children that it has already.
    fn put(&self, process: &Process) {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", process.id())).unwrap();
        for pid in [process.id().to_string()].iter().map(String::as_str).chain(children.split_ascii_whitespace()) {
            for n in 0..self.host.mounted.len() {
                // A child may have ended meanwhile.
                let moved = fs::write(self.host.dir(n).join(self.path).join("cgroup.procs"), pid);
                assert!(moved.is_ok() || pid != process.id().to_string(), "{moved:?}");
            }
        }
    }

    fn holds(&self, process: &Process) -> bool {
        let text = fs::read_to_string(self.host.dir(0).join(self.path).join("cgroup.procs")).unwrap();
        text.lines().any(|line| line == process.id().to_string())
    }

    fn read(&self, setting: &str) -> String {
        fs::read_to_string(self.host.dir(0).join(self.path).join(setting)).unwrap().trim().to_owned()
    }

    fn remove(self) {
        for n in 0..self.host.mounted.len() {
            let mut dir = self.host.dir(n).join(self.path);
            while dir != self.host.dir(n) {
                wait("a group to be empty", || fs::remove_dir(&dir).is_ok());
                dir.pop();
            }
        }
    }
}

#[test]
fn a_group_has_its_share_where_it_is_and_its_weight_back() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let theirs = Theirs::of(&host, "theirs");
    fs::write(host.dir(0).join("theirs/cpu.shares"), "2048").unwrap();
    let _hogs = host.hogs(4);
    let busy = host.start(BUSY);
    theirs.put(&busy);
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    let cores = capacity::cores() as f64;
    let mut told = Vec::new();
    let held = (0..ATTEMPTS).any(|_| {
        cpu.enable("half", CORE / 2).unwrap();
        assert_eq!(cpu.bind_group("half", &theirs.name()).unwrap(), Means::Weight);
        assert!(theirs.holds(&busy), "nothing is moved");
        let first = host.goes_first();
        tick(&mut cpu, Duration::from_millis(1000));
        let (before, at) = at_one_moment(|| [host.ran("theirs"), host.ran("")]);
        tick(&mut cpu, Duration::from_secs(2));
        let (after, until) = at_one_moment(|| [host.ran("theirs"), host.ran("")]);
        let took = (until - at).as_nanos() as f64;
        let [got, all] = [0, 1].map(|n| (after[n] - before[n]) as f64 / took);
        drop(first);
        let (status, asked) = (cpu.status("half").unwrap(), 0.5 * all / cores);
        let seen = status.seen.expect("measured for a second");
        assert!(seen.span >= Duration::from_secs(1), "{seen:?}");
        told.push((got, all - got, asked, seen.rate as f64 / 1e6));
        assert_eq!(status.members, [busy.id()]);
        cpu.disable("half").unwrap();
        assert_eq!(theirs.read("cpu.shares"), "2048");
        got >= 0.99 * asked && all - got >= 0.9 * (all - asked) && (seen.rate as f64 / 1e6 / got - 1.0).abs() < 0.2
    });
    println!("a group in place, hogs, asked, measured (cores): {told:?}");
    assert!(held, "cores of the group, of the hogs, asked, measured: {told:?}");
    drop(busy);
    theirs.remove();
    wait("everything to be back", || host.is_as_before());
}

#[test]
fn a_group_further_down_is_followed_and_goes_home() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let theirs = Theirs::of(&host, "outer/inner");
    let (one, late) = (host.start("exec sleep 60"), host.start("exec sleep 60"));
    theirs.put(&one);
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.enable("a", CORE / 4).unwrap();
    cpu.bind_group("a", &theirs.name()).unwrap();
    assert_eq!(cpu.status("a").unwrap().members, [one.id()]);
    theirs.put(&late);
    let at = Instant::now();
    while cpu.status("a").unwrap().members.len() < 2 {
        tick(&mut cpu, Cpu::TICK);
        assert!(at.elapsed() < Duration::from_secs(5), "covered at the next look");
    }
    cpu.enable("b", CORE / 4).unwrap();
    let twice = cpu.bind_group("b", &format!("/{}/outer/inner", host.name)).unwrap_err().to_string();
    assert!(twice.contains("it meets the group of reservation a"), "{twice}");
    drop(cpu); // as kill -9
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.keep_only_enabled().unwrap();
    assert!(theirs.holds(&one) && theirs.holds(&late), "home");
    cpu.close().unwrap();
    drop((one, late));
    theirs.remove();
    wait("everything to be back", || host.is_as_before());
}

#[test]
fn what_was_lent_is_handed_back_after_a_crash_and_what_cannot_be_lent_is_refused() {
    let _alone = alone();
    let Some(host) = Host::for_cpu() else { return };
    let theirs = Theirs::of(&host, "theirs");
    let one = host.start("exec sleep 60");
    theirs.put(&one);
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.enable("a", CORE / 4).unwrap();
    let refused = |cpu: &mut Cpu, path: &str| cpu.bind_group("a", path).unwrap_err().to_string();
    assert!(refused(&mut cpu, "/elsewhere").contains("not below"), "another part of the host");
    assert!(refused(&mut cpu, &format!("/{}/none", host.name)).contains("no such group"));
    assert!(refused(&mut cpu, &format!("/{}/../x", host.name)).contains("a path below"));
    assert!(refused(&mut cpu, &format!("/{}/sluice.rest", host.name)).contains("Sluice's own"));
    fs::write(host.dir(0).join("theirs/cpu.cfs_quota_us"), "50000").unwrap();
    let quota = refused(&mut cpu, &theirs.name());
    assert!(quota.contains("quota of its own (50000)"), "{quota}");
    fs::write(host.dir(0).join("theirs/cpu.cfs_quota_us"), "-1").unwrap();
    assert!(host.is_as_before_but("theirs"), "refusals leave nothing");
    let folder = host.dir(0).join("theirs");
    cpu.bind_group("a", folder.to_str().unwrap()).unwrap();
    assert_ne!(theirs.read("cpu.shares"), "1024");
    assert!(cpu.bind("a", linux::cpu::ThreadTarget::Process(one.id())).is_err(), "it serves a group");
    drop(cpu); // as kill -9
    assert_ne!(theirs.read("cpu.shares"), "1024", "in force while no agent lives");
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.enable("a", CORE / 4).unwrap();
    cpu.bind_group("a", &theirs.name()).unwrap();
    cpu.keep_only_enabled().unwrap();
    assert_ne!(theirs.read("cpu.shares"), "1024", "taken over");
    drop(cpu);
    let mut cpu = Cpu::open(Some(host.tree()), true, &host.state).unwrap();
    cpu.keep_only_enabled().unwrap();
    assert_eq!(theirs.read("cpu.shares"), "1024", "nobody asked for it again");
    cpu.close().unwrap();
    drop(cpu);
    let mut cpu = Cpu::open(Some(host.tree()), false, &host.state).unwrap();
    cpu.enable("a", CORE / 4).unwrap();
    let closed = refused(&mut cpu, &theirs.name());
    assert!(closed.contains("has not opted in"), "{closed}");
    drop((cpu, one));
    theirs.remove();
    wait("everything to be back", || host.is_as_before());
}

#[test]
fn a_group_has_its_part_of_a_disk_against_direct_writers() {
    let _alone = alone();
    let (Some(host), folder) = (Host::of(for_disk(&all_mounted()), "blkio"), Folder::new()) else { return };
    let Some(mut storage) = storage(&host, &folder, true, None) else { return };
    let theirs = Theirs::of(&host, "theirs");
    let one = folder.writer(&host, "one");
    theirs.put(&one);
    let _hogs = [folder.writer(&host, "hog1"), folder.writer(&host, "hog2")];
    storage.enable("main", "a", 24 * MB).unwrap();
    storage.bind_group("main", "a", &theirs.name()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let mut told = Vec::new();
    let held = (0..ATTEMPTS).any(|_| {
        let found = served(&host, &mut storage, &["theirs", "sluice.rest"], Duration::from_millis(2500));
        told.push(found.clone());
        let seen = storage.status("main", "a").unwrap().seen.map_or(0.0, |seen| seen.rate as f64 / MB as f64);
        found[0] >= 0.9 * 24.0 && found[1] >= 0.9 * 24.0 && found[1] <= 1.1 * 24.0 && seen >= 0.9 * 24.0
    });
    println!("a group of 24, left 24 MB/s: {told:?}");
    assert!(held, "MB/s of 24 and 24: {told:?}");
    storage.close().unwrap();
    assert!(theirs.holds(&one));
    drop(one);
    theirs.remove();
    wait("everything to be back", || host.is_as_before());
}
