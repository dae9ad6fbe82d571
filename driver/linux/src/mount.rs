//! Unmounts what lies below a folder.

use crate::error::SystemError;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Unmounts all mounts below `dir` (a killed agent leaves its bpffs), innermost first.
///
/// # Errors
/// A mount could not be unmounted.
pub fn unmount_below(dir: &Path) -> Result<(), SystemError> {
    let mounts = fs::read("/proc/self/mountinfo").map_err(SystemError::doing("read /proc/self/mountinfo"))?;
    let inside = |line: &[u8]| mount_point(line).filter(|path| path.starts_with(dir) && path != dir);
    let mut paths: Vec<PathBuf> = mounts.split(|&b| b == b'\n').filter_map(inside).collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    for path in paths {
        let what = || format!("unmount {}", path.display());
        let target = CString::new(path.as_os_str().as_bytes());
        let target = target.map_err(|_| SystemError::because(what(), io::ErrorKind::InvalidInput.into()))?;
        // SAFETY: `target` is a C string that outlives the call.
        if unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) } != 0 {
            return Err(SystemError::last(what()));
        }
    }
    Ok(())
}

/// The fifth field of a line of mountinfo, with its octal escapes undone (proc(5)).
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|&b| b == b' ').nth(4)?;
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'\\').then(|| after.get(..3)).flatten();
        let code = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        let line = br"36 35 98:0 / /run/a\040b/bpf rw - bpf none rw";
        assert_eq!(mount_point(line), Some(PathBuf::from("/run/a b/bpf")));
        assert_eq!(mount_point(b"short"), None);
    }
}
