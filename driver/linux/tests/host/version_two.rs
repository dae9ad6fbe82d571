//! Version 2, against a folder whose files stand for the kernel's: which settings are written, in which order they can
//! be, and what they hold. (What processes get is shown where the kernel has the controllers.)

use linux::cgroup::{ControlGroup, GroupPlace, GroupTree, Mounted, Version};
use linux::cpu::{CORE, Cpu, Means, ThreadTarget};
use linux::storage::Device;
use linux::storage::limits::{self, DiskLimit};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A hierarchy of files.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let dir = std::env::temp_dir().join(format!("sluice-two-{name}-{}", std::process::id()));
        let files = Files(dir);
        for group in ["", "sluice.rest", "sluice.r.a", "sluice.r.b"] {
            let dir = files.0.join(group);
            fs::create_dir_all(&dir).unwrap();
            for (file, text) in [("cgroup.procs", ""), ("cpu.weight", "100\n"), ("cpu.max", "max 100000\n")] {
                fs::write(dir.join(file), text).unwrap();
            }
        }
        fs::write(files.0.join("cgroup.subtree_control"), "memory\n").unwrap();
        fs::create_dir_all(files.0.join("state")).unwrap();
        files
    }

    fn tree(&self) -> Arc<Mutex<GroupTree>> {
        // What lies there already is a reservation of before a crash, so it is not emptied.
        fs::write(self.0.join("state/groups"), "group a cpu 1\ngroup b cpu 1\n").unwrap();
        let mounted =
            Mounted { version: Version::Two, controllers: vec!["cpu".into(), "io".into()], at: self.0.clone() };
        let place =
            GroupPlace { mounted: vec![mounted], parent: Path::new("/").into(), record: self.0.join("state/groups") };
        Arc::new(Mutex::new(GroupTree::open(place).unwrap()))
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap().trim().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn weights_are_written_against_the_rest() {
    let files = Files::new("weight");
    let mut cpu = Cpu::open(Some(files.tree()), true, &files.0.join("state")).unwrap();
    let cores = linux::cpu::capacity::cores();
    cpu.enable("a", cores * CORE / 2).unwrap();
    cpu.enable("b", cores * CORE / 4).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let means = cpu.bind("a", ThreadTarget::Process(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(means.unwrap(), Means::Weight);
    assert_eq!(files.read("sluice.r.a/cgroup.procs"), child.id().to_string());
    assert_eq!(files.read("cgroup.subtree_control"), "+cpu", "the controller is switched on for the groups");
    let weights = ["sluice.r.a", "sluice.r.b", "sluice.rest"].map(|name| files.read(&format!("{name}/cpu.weight")));
    let [a, b, rest] = weights.clone().map(|text| text.parse::<u64>().unwrap());
    // Half of all, and a little more; b is adopted with what it was worth, next to nothing.
    assert!(a == 10_000 && b >= 1 && a * 2 >= a + b + rest && rest * 100 > a * 93, "{weights:?}");
    assert_eq!(cpu.status("a").unwrap().installed, format!("cpu.weight {a} beside {rest}"));
}

#[test]
fn a_group_of_another_program_has_its_weight_where_it_is() {
    let files = Files::new("lent");
    for group in ["theirs", "theirs/inner"] {
        fs::create_dir_all(files.0.join(group)).unwrap();
        for (file, text) in [("cgroup.procs", "7\n"), ("cpu.weight", "300\n"), ("cpu.max", "max 100000\n")] {
            fs::write(files.0.join(group).join(file), text).unwrap();
        }
    }
    let mut cpu = Cpu::open(Some(files.tree()), true, &files.0.join("state")).unwrap();
    let cores = linux::cpu::capacity::cores();
    cpu.enable("c", cores * CORE / 2).unwrap();
    let deep = cpu.bind_group("c", "/theirs/inner").unwrap_err().to_string();
    assert!(deep.contains("not directly below") && deep.contains("choose another [groups] parent"), "{deep}");
    fs::write(files.0.join("theirs/cpu.max"), "50000 100000\n").unwrap();
    let quota = cpu.bind_group("c", "/theirs").unwrap_err().to_string();
    assert!(quota.contains("quota of its own (50000 100000)"), "{quota}");
    fs::write(files.0.join("theirs/cpu.max"), "max 100000\n").unwrap();
    assert_eq!(cpu.bind_group("c", "/theirs").unwrap(), Means::Weight);
    let [theirs, rest] = ["theirs", "sluice.rest"].map(|name| files.read(&format!("{name}/cpu.weight")));
    let [weight, rest] = [theirs, rest].map(|text| text.parse::<u64>().unwrap());
    assert!(weight > 9_000 && rest * 100 > weight * 90, "half of all: {weight} beside {rest}");
    assert_eq!(files.read("theirs/cgroup.procs"), "7", "nothing is moved");
    cpu.disable("c").unwrap();
    assert_eq!(files.read("theirs/cpu.weight"), "300");
}

#[test]
fn the_limits_of_a_disk_are_lines_of_io_max() {
    let files = Files::new("io");
    let device = Device { name: "sda".into(), number: "8:0".into() };
    let group = ControlGroup::at(files.0.join("sluice.r.a"));
    fs::write(group.dir().join("io.max"), "8:16 rbps=1 wbps=1 riops=max wiops=max\n").unwrap();
    let get = || limits::get(&group, Version::Two, &device).unwrap();
    assert_eq!(get(), DiskLimit::default(), "another disk's");
    let limit = DiskLimit { bytes: Some(5_000_000), requests: Some(76) };
    limits::set(&group, Version::Two, &device, limit).unwrap();
    assert_eq!(files.read("sluice.r.a/io.max"), "8:0 rbps=5000000 wbps=5000000 riops=76 wiops=76");
    assert_eq!(get(), limit);
    limits::set(&group, Version::Two, &device, DiskLimit::default()).unwrap();
    assert_eq!(files.read("sluice.r.a/io.max"), "8:0 rbps=max wbps=max riops=max wiops=max");
    fs::write(group.dir().join("io.max"), "8:0 rbps=1 wbps=2 riops=max wiops=max\n").unwrap();
    assert_ne!(get(), DiskLimit { bytes: Some(1), requests: None }, "directions that differ are never what is wanted");
    fs::write(group.dir().join("io.stat"), "8:16 rbytes=9\n8:0 rbytes=10 wbytes=5 rios=1 wios=1 dbytes=7 dios=0\n")
        .unwrap();
    assert_eq!(limits::served(&group, Version::Two, &device), Some(15));
}

#[test]
fn without_opting_in_only_a_quota_is_left_where_deadline_threads_are_forbidden() {
    let files = Files::new("quota");
    let pinned = std::thread::spawn(move || {
        let mut cpu = Cpu::open(Some(files.tree()), false, &files.0.join("state")).unwrap();
        cpu.enable("a", CORE / 4).unwrap();
        // The kernel refuses deadline threads to those who may not run everywhere.
        let mut child = std::process::Command::new("taskset").args(["-c", "0", "sleep", "60"]).spawn().unwrap();
        crate::bed::wait("its affinity", || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            status.contains("Cpus_allowed_list:\t0\n")
        });
        let means = cpu.bind("a", ThreadTarget::Process(child.id()));
        let held = files.read("sluice.r.a/cpu.max");
        child.kill().unwrap();
        child.wait().unwrap();
        (means, held)
    });
    let (means, held) = pinned.join().unwrap();
    if linux::cpu::capacity::cores() == 1 {
        return bench::skipped("one core: every thread may run everywhere");
    }
    let means = means.unwrap();
    assert_eq!((means, means.kind()), (Means::Quota, linux::cpu::ShareKind::Cap));
    assert_eq!(held, "25000 100000");
}
