//! Groups that stand for a host, and hogs.

use linux::cgroup::{GroupPlace, GroupTree, Mounted, all_mounted, for_cpu};
use linux::process::{die_with_us, keep_time};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One test at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A parent group that stands for the host, with a state folder. What is left in it when it goes is killed by those
/// who started it.
pub struct Host {
    pub name: String,
    pub mounted: Vec<Mounted>,
    pub state: PathBuf,
}

impl Host {
    /// For the processors; `None`, said loudly, where that cannot be.
    pub fn for_cpu() -> Option<Host> {
        Host::of(for_cpu(&all_mounted()), "cpu")
    }

    /// Puts what runs in this host before all other work of this machine, and this thread before that: to measure. Nothing may
    /// be started in the mean time: it would have to share with this thread.
    pub fn goes_first(&self) -> GoesFirst<'_> {
        keep_time().expect("root may keep times");
        self.weigh("262144");
        GoesFirst(self)
    }

    fn weigh(&self, shares: &str) {
        fs::write(self.dir(0).join("cpu.shares"), shares).expect("the parent's own weight");
    }

    pub fn of(mounted: Option<Vec<Mounted>>, what: &str) -> Option<Host> {
        // SAFETY: no memory is passed.
        if unsafe { libc::geteuid() } != 0 {
            bench::skipped("control groups need root");
            return None;
        }
        let Some(mounted) = mounted.filter(|all| all[0].version == linux::cgroup::Version::One) else {
            bench::skipped(format!("no hierarchy of version 1 with {what} here"));
            return None;
        };
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sluice-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let state = std::env::temp_dir().join(&name);
        fs::create_dir_all(&state).expect("a state folder");
        let host = Host { name, mounted, state };
        for n in 0..host.mounted.len() {
            fs::create_dir(host.dir(n)).expect("a group of our own");
        }
        Some(host)
    }

    /// Its folder in the n-th hierarchy.
    pub fn dir(&self, n: usize) -> PathBuf {
        self.mounted[n].at.join(&self.name)
    }

    pub fn tree(&self) -> Arc<Mutex<GroupTree>> {
        let parent = Path::new("/").join(&self.name);
        let place = GroupPlace { mounted: self.mounted.clone(), parent, record: self.state.join("groups") };
        Arc::new(Mutex::new(GroupTree::open(place).expect("the tree")))
    }

    /// Starts a shell line in this host, in each of its hierarchies.
    pub fn start(&self, line: &str) -> Process {
        let moves: Vec<String> =
            (0..self.mounted.len()).map(|n| format!("echo $$ > {}/cgroup.procs", self.dir(n).display())).collect();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{} && {line}", moves.join(" && "))]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        die_with_us(&mut command);
        let process = Process(command.spawn().expect("a shell"));
        // In all of them: a move that is still to come would take it out of where a test puts it.
        let id = process.0.id().to_string();
        let is_in = |n| fs::read_to_string(self.dir(n).join("cgroup.procs")).unwrap().contains(&id);
        let there = || (0..self.mounted.len()).all(is_in);
        wait("the process to be in its host", there);
        process
    }

    pub fn hogs(&self, n: usize) -> Vec<Process> {
        (0..n).map(|_| self.start("while :; do :; done")).collect()
    }

    /// What is in the parent's own list.
    pub fn own_processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.dir(0).join("cgroup.procs")).expect("the parent");
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Whether no group of ours is left in it, and no record.
    pub fn is_as_before(&self) -> bool {
        let groups = |n: usize| fs::read_dir(self.dir(n)).unwrap().flatten().filter(|e| e.path().is_dir()).count();
        (0..self.mounted.len()).all(|n| groups(n) == 0) && fs::read_dir(&self.state).unwrap().count() == 0
    }

    /// The same, but for one group of another program in each hierarchy.
    pub fn is_as_before_but(&self, theirs: &str) -> bool {
        let groups = |n: usize| {
            let folders = fs::read_dir(self.dir(n)).unwrap().flatten().filter(|entry| entry.path().is_dir());
            folders.filter(|entry| entry.file_name() != theirs).count()
        };
        (0..self.mounted.len()).all(|n| groups(n) == 0) && fs::read_dir(&self.state).unwrap().count() == 0
    }

    /// Nanoseconds that a group below the parent ran.
    pub fn ran(&self, group: &str) -> u64 {
        let n = self.mounted.len() - 1;
        let path = self.dir(n).join(group).join("cpuacct.usage");
        fs::read_to_string(path).map_or(0, |text| text.trim().parse().expect("a number"))
    }
}

/// A host that goes before all others while this lives.
pub struct GoesFirst<'a>(&'a Host);

impl Drop for GoesFirst<'_> {
    fn drop(&mut self) {
        self.0.weigh("1024");
        let ordinary = libc::sched_param { sched_priority: 0 };
        // SAFETY: `ordinary` outlives the call; 0 is the calling thread.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &ordinary) };
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        for n in 0..self.mounted.len() {
            for folder in
                fs::read_dir(self.dir(n)).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir())
            {
                while fs::remove_dir(folder.path()).is_err() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            while fs::remove_dir(self.dir(n)).is_err() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = fs::remove_dir_all(&self.state);
    }
}

/// A process that ends with this.
pub struct Process(pub Child);

impl Process {
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for something that comes within five seconds.
pub fn wait(what: &str, mut there: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(5);
    while !there() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What `read` finds, and when. The hogs may keep this thread from the processor between the two: then it looks again.
pub fn at_one_moment<T>(read: impl Fn() -> T) -> (T, Instant) {
    let mut found = None;
    for _ in 0..1000 {
        let began = Instant::now();
        let read = read();
        found = Some((read, began));
        if began.elapsed() < Duration::from_millis(1) {
            break;
        }
    }
    found.expect("it was read")
}
