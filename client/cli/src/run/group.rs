//! The control group of a command: what is started in it, and all that it starts, is in it.

use crate::complain::Complaint;
use linux::cgroup;
use linux::process::ProcessId;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NAME: &str = "sluice-run-";
/// How long the last process of an ended command may take to go.
const PATIENCE: Duration = Duration::from_millis(500);

/// A group of version 2 below the one that we are in; it is removed when nothing is left in it.
pub struct RunGroup(PathBuf);

impl RunGroup {
    /// Makes it.
    pub fn make() -> Result<RunGroup, Complaint> {
        let root = cgroup::for_packets(&cgroup::all_mounted()).ok_or_else(|| {
            Complaint::world(
                "packets belong to control groups of version 2, and none are mounted here; \
                 ip netns exec hides them, nsenter --net=/run/netns/NAME does not",
            )
        })?;
        let home = cgroup::home_of(std::process::id(), &root).unwrap_or(root.at);
        sweep(&home);
        let place = home.join(format!("{NAME}{}", std::process::id()));
        match std::fs::create_dir(&place) {
            Ok(()) => Ok(RunGroup(place)),
            Err(error) => Err(Complaint::world(format!(
                "cannot make the control group {}: {error}; be root, or have a group of your own: \
                 systemd-run --user --scope -p Delegate=yes sluice run ...",
                place.display()
            ))),
        }
    }

    /// Its folder.
    pub fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Moves a process into it.
    pub fn take(&self, pid: u32) -> Result<(), Complaint> {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string())
            .map_err(|error| Complaint::world(format!("cannot move the command to {}: {error}", self.0.display())))
    }
}

impl Drop for RunGroup {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        // What the command has left running keeps the group; the next `sluice run` removes it.
        while std::fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes the empty groups of those that were killed.
fn sweep(home: &Path) {
    for entry in std::fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse().ok());
        if pid.is_some_and(|pid| ProcessId::of(pid).is_none()) {
            // One that holds processes stays.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}
