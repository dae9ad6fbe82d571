//! A name and a folder for one run, and the removal of what a killed run left.

use linux::error::SystemError;
use linux::process::ProcessId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Runs are called by this and their process number, with a count behind it from a process's second run on.
const PREFIX: &str = "demo-";

/// A run's folder. It goes when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    name: String,
    path: PathBuf,
}

impl Scratch {
    /// Makes one.
    ///
    /// # Errors
    /// The temporary folder is full or not ours to write to.
    pub fn create() -> Result<Scratch, SystemError> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = RUNS.fetch_add(1, Relaxed);
        let name =
            format!("{PREFIX}{}{}", std::process::id(), if run == 0 { String::new() } else { format!("-{run}") });
        let path = folder(&name);
        std::fs::create_dir(&path).map_err(SystemError::doing(format!("make {}", path.display())))?;
        Ok(Scratch { name, path })
    }

    /// The name: good for a testbed, too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the temporary folder, where the system removes it.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("sluice-{name}"))
}

/// Removes the testbeds and folders of runs whose process is gone without having been able to: it was killed.
pub fn sweep(testbeds: &Path) {
    for name in agent_service::testbed::list(testbeds) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        if pid.is_some_and(|pid| ProcessId::of(pid).is_none()) {
            // One that will not go is told of by `sluice down`, not by a run that has nothing to do with it.
            let _ = agent_service::testbed::down(testbeds, &name);
            let _ = std::fs::remove_dir_all(folder(&name));
        }
    }
}
