//! A disk against direct writers: what is reserved is had, the unreserved have the rest, and the host is as it was.

use crate::bed::{Host, Process, alone, wait};
use linux::cgroup::{all_mounted, for_disk};
use linux::storage::{Device, DiskNotice, ReservableDisk, Storage, limits};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub const MB: u64 = 1_000_000;

/// Files on the disk that this is built on; they go when it does.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Folder(dir)
    }

    /// Writes one file over and over, past the cache.
    pub fn writer(&self, host: &Host, name: &str) -> Process {
        let file = self.0.join(name);
        let line = format!(
            "while :; do dd if=/dev/zero of={} bs=256k count=200 oflag=direct conv=notrunc 2>/dev/null; done",
            file.display()
        );
        host.start(&line)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn storage(host: &Host, folder: &Folder, opted_in: bool, request: Option<u64>) -> Option<Storage> {
    let device = match Device::find(folder.0.to_str().unwrap()) {
        Ok(device) => device,
        Err(failed) => {
            bench::skipped(failed);
            return None;
        }
    };
    let disks = BTreeMap::from([("main".to_owned(), ReservableDisk { device, capacity: 48 * MB, request })]);
    Some(Storage::open(host.tree(), opted_in, disks))
}

/// Bytes a second that groups of the host were served in `span`.
pub fn served(host: &Host, storage: &mut Storage, groups: &[&str], span: Duration) -> Vec<f64> {
    let device = storage.disks()["main"].device.clone();
    let now = || -> Vec<u64> {
        let group = |name: &&str| linux::cgroup::ControlGroup::at(host.dir(0).join(name));
        groups.iter().map(|name| limits::served(&group(name), host.mounted[0].version, &device).unwrap()).collect()
    };
    let (before, at) = (now(), Instant::now());
    while at.elapsed() < span {
        storage.tick();
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = at.elapsed().as_secs_f64();
    now().iter().zip(before).map(|(after, before)| (after - before) as f64 / took / MB as f64).collect()
}

#[test]
fn reserved_writers_have_their_rates_and_the_hogs_the_rest() {
    let _alone = alone();
    let (Some(host), folder) = (Host::of(for_disk(&all_mounted()), "blkio"), Folder::new()) else { return };
    let Some(mut storage) = storage(&host, &folder, true, None) else { return };
    let (one, two) = (folder.writer(&host, "one"), folder.writer(&host, "two"));
    let _hogs = [folder.writer(&host, "hog1"), folder.writer(&host, "hog2")];
    for (name, rate, process) in [("a", 24 * MB, &one), ("b", 8 * MB, &two)] {
        storage.enable("main", name, rate).unwrap();
        storage.bind("main", name, process.id()).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut told = Vec::new();
    let held = (0..3).any(|_| {
        let found =
            served(&host, &mut storage, &["sluice.r.a", "sluice.r.b", "sluice.rest"], Duration::from_millis(1500));
        told.push(found.clone());
        found[0] >= 0.9 * 24.0 && found[1] >= 0.9 * 8.0 && found[2] >= 0.9 * 16.0 && found[2] <= 1.1 * 16.0
    });
    println!("reserved 24, reserved 8, left 16 MB/s: {told:?}");
    assert!(held, "MB/s of 24, 8 and 16: {told:?}");
    let status = storage.status("main", "a").unwrap();
    assert_eq!(status.installed, "24000000 B/s, the unreserved 16000000 B/s");
    storage.disable("main", "b").unwrap();
    let status = storage.status("main", "a").unwrap();
    assert_eq!(status.installed, "no limit, the unreserved 24000000 B/s", "a single one takes what it can");
    storage.close().unwrap();
    wait("everything to be back", || host.is_as_before());
    assert!(host.own_processes().contains(&one.id()));
}

#[test]
fn limits_come_back_after_a_crash_and_go_at_the_end() {
    let _alone = alone();
    let (Some(host), folder) = (Host::of(for_disk(&all_mounted()), "blkio"), Folder::new()) else { return };
    let Some(mut first) = storage(&host, &folder, true, Some(65_536)) else { return };
    let (one, other) = (host.start("exec sleep 60"), host.start("exec sleep 60"));
    first.enable("main", "a", 10 * MB).unwrap();
    assert!(first.bind("main", "b", one.id()).is_err(), "not enabled");
    assert!(first.enable("none", "a", MB).is_err(), "no such disk");
    first.bind("main", "a", one.id()).unwrap();
    let device = first.disks()["main"].device.clone();
    let rest = linux::cgroup::ControlGroup::at(host.dir(0).join("sluice.rest"));
    let held = || limits::get(&rest, host.mounted[0].version, &device).unwrap();
    assert_eq!((held().bytes, held().requests), (Some(38 * MB), Some(38 * MB / 65_536)));
    drop(first); // as kill -9
    let mut second = storage(&host, &folder, true, None).unwrap();
    assert_eq!(held().bytes, Some(38 * MB), "what an earlier one left is kept");
    second.enable("main", "c", 8 * MB).unwrap();
    second.bind("main", "c", other.id()).unwrap();
    second.keep_only_enabled().unwrap();
    assert_eq!(held().bytes, Some(40 * MB), "the one that nobody enabled is gone");
    std::fs::write(host.dir(0).join("cgroup.procs"), other.id().to_string()).unwrap();
    std::fs::remove_dir(host.dir(0).join("sluice.r.c")).unwrap();
    let notices = second.tick();
    assert!(notices.iter().any(|notice| matches!(notice, DiskNotice::Strayed { .. })), "{notices:?}");
    assert_eq!(second.status("main", "c").unwrap().members, [other.id()]);
    second.close().unwrap();
    assert!(host.is_as_before());
    assert_eq!(host.own_processes().len(), 2);
}

#[test]
fn processes_that_nobody_holds_back_make_a_guarantee_impossible_and_a_cap_needs_none_of_it() {
    let _alone = alone();
    let (Some(host), folder) = (Host::of(for_disk(&all_mounted()), "blkio"), Folder::new()) else { return };
    let Some(mut guarantee) = storage(&host, &folder, true, None) else { return };
    let (one, stranger) = (host.start("exec sleep 60"), host.start("exec sleep 60"));
    let foreign = host.dir(0).join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("cgroup.procs"), stranger.id().to_string()).unwrap();
    guarantee.enable("main", "a", MB).unwrap();
    let why = guarantee.bind("main", "a", one.id()).unwrap_err().to_string();
    assert!(why.contains("groups of other programs") && why.contains("foreign"), "{why}");
    assert!(host.own_processes().contains(&one.id()), "nothing has changed");
    guarantee.close().unwrap();
    drop(guarantee);
    let mut cap = storage(&host, &folder, false, None).unwrap();
    cap.enable("main", "a", 5 * MB).unwrap();
    assert_eq!(cap.bind("main", "a", one.id()).unwrap(), linux::cpu::ShareKind::Cap);
    assert_eq!(cap.status("main", "a").unwrap().installed, "5000000 B/s");
    cap.close().unwrap();
    std::fs::write(host.dir(0).join("cgroup.procs"), stranger.id().to_string()).unwrap();
    std::fs::remove_dir(foreign).unwrap();
    assert!(host.is_as_before());
}
