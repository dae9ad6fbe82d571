//! Limits of a group on a disk: `blkio.throttle.*` of version 1, `io.max` of version 2. Each is read back.
//!
//! Version 1 limits direct I/O and reads; kernel threads, which belong to no group, make buffered writes
//! later. Version 2 limits both.

use super::Device;
use crate::cgroup::{ControlGroup, Version};
use crate::error::SystemError;
use std::io;

/// The limit of a group on a disk, in each direction; `None`: unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskLimit {
    /// Bytes a second.
    pub bytes: Option<u64>,
    /// Requests a second.
    pub requests: Option<u64>,
}

const ONE: [(&str, bool); 4] = [
    ("blkio.throttle.read_bps_device", true),
    ("blkio.throttle.write_bps_device", true),
    ("blkio.throttle.read_iops_device", false),
    ("blkio.throttle.write_iops_device", false),
];

/// Sets the limit of a group.
///
/// # Errors
/// The disk is gone, or the kernel refuses or reports another value.
pub fn set(group: &ControlGroup, version: Version, device: &Device, limit: DiskLimit) -> Result<(), SystemError> {
    if get(group, version, device)? == limit {
        return Ok(());
    }
    match version {
        Version::One => {
            for (setting, bytes) in ONE {
                let value = if bytes { limit.bytes } else { limit.requests };
                group.write(setting, &format!("{} {}", device.number, value.unwrap_or(0)))?;
            }
        }
        Version::Two => {
            let word = |value: Option<u64>| value.map_or("max".to_owned(), |value| value.to_string());
            let (bytes, requests) = (word(limit.bytes), word(limit.requests));
            let line = format!("{} rbps={bytes} wbps={bytes} riops={requests} wiops={requests}", device.number);
            group.write("io.max", &line)?;
        }
    }
    let found = get(group, version, device)?;
    if found == limit {
        return Ok(());
    }
    let what = format!("limit {} on {}", group.dir().display(), device.name);
    Err(SystemError::because(what, io::Error::other(format!("the kernel holds {found:?} instead of {limit:?}"))))
}

/// The limit of a group. If the directions differ, which we never set, the value is one that no caller sets.
///
/// # Errors
/// The group is gone.
pub fn get(group: &ControlGroup, version: Version, device: &Device) -> Result<DiskLimit, SystemError> {
    const ODD: Option<u64> = Some(u64::MAX);
    let (mut bytes, mut requests) = (Vec::new(), Vec::new());
    match version {
        Version::One => {
            for (setting, is_bytes) in ONE {
                let text = group.read(setting)?;
                let value = line_of(&text, device).and_then(|words| words.trim().parse().ok());
                if is_bytes { bytes.push(value) } else { requests.push(value) }
            }
        }
        Version::Two => {
            let text = group.read("io.max")?;
            let words = line_of(&text, device).unwrap_or_default();
            for word in words.split_ascii_whitespace() {
                let (name, value) = word.split_once('=').unwrap_or((word, ""));
                let value = value.parse().ok();
                if name.ends_with("bps") { bytes.push(value) } else { requests.push(value) }
            }
        }
    }
    let one = |all: &[Option<u64>]| match all {
        [first, rest @ ..] => {
            if rest.iter().all(|value| value == first) {
                *first
            } else {
                ODD
            }
        }
        [] => None,
    };
    Ok(DiskLimit { bytes: one(&bytes), requests: one(&requests) })
}

/// The text after a disk's number in a setting.
fn line_of<'a>(text: &'a str, device: &Device) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(device.number.as_str())?.strip_prefix(' '))
}

/// Bytes that a group has read and written on a disk since it was made.
pub fn served(group: &ControlGroup, version: Version, device: &Device) -> Option<u64> {
    match version {
        Version::One => {
            let text = group.read("blkio.throttle.io_service_bytes_recursive").ok()?;
            let of = |line: &str| {
                let (kind, value) = line.strip_prefix(device.number.as_str())?.trim().split_once(' ')?;
                matches!(kind, "Read" | "Write").then(|| value.parse::<u64>().ok()).flatten()
            };
            Some(text.lines().filter_map(of).sum())
        }
        Version::Two => {
            let text = group.read("io.stat").ok()?;
            let words = line_of(&text, device).unwrap_or_default().split_ascii_whitespace();
            let of = |word: &str| word.strip_prefix("rbytes=").or(word.strip_prefix("wbytes="))?.parse::<u64>().ok();
            Some(words.filter_map(of).sum())
        }
    }
}
