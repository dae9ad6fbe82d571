//! The name and folder of a run, and the removal of the remains of killed runs.

use linux::error::SystemError;
use linux::process::ProcessId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The prefix of a run's name. Behind it stand the process number and, from a process's second run on, a
/// count.
const PREFIX: &str = "demo-";

/// A run's folder. It goes when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    name: String,
    path: PathBuf,
}

impl Scratch {
    /// Creates the folder.
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

    /// Returns the run's name, which also fits a testbed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the folder.
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

/// Removes the testbeds and folders of runs whose process was killed.
pub fn sweep(testbeds: &Path) {
    for name in crate::testbed::list(testbeds) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        if pid.is_some_and(|pid| ProcessId::of(pid).is_none()) {
            // One that will not go is told of by `sluice down`, not by a run that has nothing to do with it.
            let _ = crate::testbed::down(testbeds, &name);
            let _ = std::fs::remove_dir_all(folder(&name));
        }
    }
}
