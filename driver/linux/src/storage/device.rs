//! Finding a whole disk by its name, or by a file or folder on it.
//!
//! Limits apply to whole disks only, so a partition stands for its disk. A path on several disks, or on none
//! that the kernel can limit (a memory file system, a network one), is refused with the reason.

use crate::error::SystemError;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A whole disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Device {
    /// Its kernel name: `sda`, `nvme0n1`.
    pub name: String,
    /// The device number, with which limits name it: `8:0`.
    pub number: String,
}

impl Device {
    /// The disk with this name (`sda`, `sda1`, `/dev/sda`), or the one with this file or folder.
    ///
    /// # Errors
    /// There is no such disk, or the file system is not on one disk.
    pub fn find(what: &str) -> Result<Device, SystemError> {
        let name = what.strip_prefix("/dev/").unwrap_or(what);
        let class = Path::new("/sys/class/block").join(name);
        if !name.is_empty() && !name.contains('/') && class.exists() {
            return whole(&class);
        }
        Device::under(Path::new(what))
    }

    /// The disk with this file or folder.
    fn under(path: &Path) -> Result<Device, SystemError> {
        let what = || format!("find the disk of {}", path.display());
        let number = fs::metadata(path).map_err(SystemError::doing(what()))?.dev();
        let (major, minor) = (libc::major(number), libc::minor(number));
        let place = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        if place.exists() {
            return whole(&place);
        }
        let source = fs::read_to_string("/proc/self/mountinfo").ok().and_then(|text| source(&text, major, minor));
        match source.as_deref().and_then(|source| source.strip_prefix("/dev/")) {
            Some(name) => whole(&Path::new("/sys/class/block").join(name)),
            None => Err(SystemError::because(
                what(),
                io::Error::other("its file system is not on one disk of this machine"),
            )),
        }
    }

    /// True if it still exists, with the same number.
    pub fn is_there(&self) -> bool {
        whole(&Path::new("/sys/class/block").join(&self.name)).is_ok_and(|found| found == *self)
    }
}

/// The source of a mounted file system without a device number of its own (btrfs, overlays).
fn source(mountinfo: &str, major: u32, minor: u32) -> Option<String> {
    let number = format!("{major}:{minor}");
    let line = mountinfo.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
    line.split(" - ").nth(1)?.split(' ').nth(1).map(str::to_owned)
}

/// The disk of a folder of `/sys`; for a partition, the disk that contains it.
fn whole(place: &Path) -> Result<Device, SystemError> {
    let what = || format!("look at the disk {}", place.display());
    let mut real = fs::canonicalize(place).map_err(SystemError::doing(what()))?;
    if real.join("partition").exists() {
        real.pop();
    }
    let number = fs::read_to_string(real.join("dev")).map_err(SystemError::doing(what()))?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Device { name, number: number.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_no_disk_is_refused_and_what_is_not_there_too() {
        assert!(Device::find("/proc").unwrap_err().to_string().contains("not on one disk"));
        assert!(Device::find("/no/such/file").is_err());
        assert!(Device::find("").is_err());
        assert!(!Device { name: "no-such".into(), number: "1:2".into() }.is_there());
    }

    #[test]
    fn the_source_of_a_file_system_without_a_number_is_found() {
        let text = "36 35 0:41 / /data rw,noatime shared:1 - btrfs /dev/sdb1 rw\n37 35 8:1 / / rw - ext4 /dev/sda1 rw";
        assert_eq!(source(text, 0, 41).unwrap(), "/dev/sdb1");
        assert_eq!(source(text, 0, 42), None);
    }
}
