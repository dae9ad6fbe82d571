//! `sluice agent --pins`: a folder of a bpffs that is there already, for the kernel's programs and maps.
//!
//! Without it the agent mounts a bpffs of its own under its state directory. For that it needs CAP_SYS_ADMIN, and a mount
//! namespace that its next life shares, which a service has none of once systemd protects the file system. With it
//! the state directory holds a link to the folder, and nothing else changes: whatever opens a pin goes by that link.

use linux::bpf::sys::is_bpffs;
use linux::error::SystemError;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;

/// The name of the link, or of the agent's own bpffs, in the state directory.
pub(crate) const NAME: &str = "bpf";

/// True if pins need no mount of our own: a folder is named, or an earlier agent's bpffs is still mounted.
pub(crate) fn are_there(state: &Path, pins: Option<&Path>) -> bool {
    pins.is_some() || is_bpffs(&state.join(NAME)).unwrap_or(false)
}

/// Makes the folder and the link to it. A bpffs that an earlier agent mounted stays in use until it is gone (a restart of the
/// machine): what is in force is pinned there.
///
/// # Errors
/// The folder is on no bpffs, or the file system refuses.
pub(crate) fn prepare(state: &Path, pins: &Path) -> Result<(), SystemError> {
    let what = || format!("pin the kernel's programs in {}", pins.display());
    let link = state.join(NAME);
    match fs::symlink_metadata(&link) {
        Ok(found) if found.is_symlink() => {}
        Ok(_) if is_bpffs(&link).map_err(SystemError::doing(what()))? => return Ok(()),
        // Empty, or it is no folder of ours, and stays.
        Ok(_) => fs::remove_dir(&link).map_err(SystemError::doing(what()))?,
        Err(_) => {}
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(pins);
    made.map_err(SystemError::doing(what()))?;
    if !is_bpffs(pins).map_err(SystemError::doing(what()))? {
        let why = "it is on no bpffs: mount one (mount -t bpf bpf /sys/fs/bpf), or leave --pins out";
        return Err(SystemError::because(what(), io::Error::other(why)));
    }
    if fs::read_link(&link).is_ok_and(|to| to == pins) {
        return Ok(());
    }
    // A link to another folder was an earlier file's; what is in force there is not left behind.
    if fs::read_dir(&link).is_ok_and(|mut inside| inside.next().is_some()) {
        let why = format!("what is in force is pinned in {}: name that, or restart the machine", show(&link));
        return Err(SystemError::because(what(), io::Error::other(why)));
    }
    let _ = fs::remove_file(&link);
    symlink(pins, &link).map_err(SystemError::doing(what()))
}

fn show(link: &Path) -> String {
    fs::read_link(link).map_or_else(|_| link.display().to_string(), |to| to.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is on no bpffs is refused, with the remedy, and no link is made.
    #[test]
    fn a_folder_elsewhere_is_refused() {
        let state = std::env::temp_dir().join(format!("sluice-pins-{}", std::process::id()));
        fs::create_dir_all(&state).unwrap();
        let refused = prepare(&state, &state.join("pins")).unwrap_err().to_string();
        assert!(refused.contains("on no bpffs"), "{refused}");
        assert!(fs::symlink_metadata(state.join(NAME)).is_err() && !are_there(&state, None));
        fs::remove_dir_all(&state).unwrap();
    }
}
