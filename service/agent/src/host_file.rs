//! Processors and disks in the agent's file.
//!
//! ```toml
//! [groups]                             # opting in: what is not reserved may be held back
//! hold_back = true                     # all in `parent` that is not reserved goes to a group of ours while it is
//!                                      # needed, and back; off unless said
//! parent = "/"                         # the control group that stands for the host; the default: all of it
//!
//! [cpu]                                # the processors can be reserved
//! capacity = "1.8"                     # cores; default: what the kernel admits when it is asked
//! kept_back = "10%"                    # of it, or cores: what is never reserved; the default
//!
//! [[disk]]                             # a disk can be reserved, as disk/NAME
//! name = "data"
//! device = "/dev/sdb"                  # or a file or folder on it
//! capacity = "200mbps"                 # bytes a second, of each direction: `sluice doctor --disk` measures it
//! kept_back = "5%"                     # of it, or a rate: what is never reserved; the default
//! request = "64kb"                     # the unreserved get as many requests as make up their rate; default: uncounted
//! ```

use crate::document::{Document, Mistake};
use crate::fields::{RateShare, node_name, share, unit};
use documents::units;
use serde::Deserialize;
use std::path::{Component, Path, PathBuf};
use terms::Rate;
use toml::Spanned;

/// The agent's rights on the host's control groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupsConfig {
    /// If true, unreserved processes may be moved to a group of ours and held back.
    pub hold_back: bool,
    /// The group that stands for the host, below the roots of the hierarchies.
    pub parent: PathBuf,
}

impl Default for GroupsConfig {
    fn default() -> GroupsConfig {
        GroupsConfig { hold_back: false, parent: PathBuf::from("/") }
    }
}

/// The processors as a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuConfig {
    /// Millionths of a core; `None`: as much as the kernel admits.
    pub capacity: Option<u64>,
    /// The share that is never reserved.
    pub kept_back: HostShare,
}

/// A disk as a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskConfig {
    /// The name; the resource is `disk/NAME`.
    pub name: String,
    /// The device, or a file or folder on it.
    pub device: String,
    /// The capacity, bytes a second in each direction.
    pub capacity: u64,
    /// The rate that is never reserved, bytes a second.
    pub kept_back: u64,
    /// The size of the requests with which the capacity was measured, bytes.
    pub request: Option<u64>,
}

/// A part of the processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostShare {
    /// Thousandths of all processors.
    PerMille(u32),
    /// Millionths of a core.
    Cores(u64),
}

impl HostShare {
    /// The default: a tenth.
    pub const USUAL: HostShare = HostShare::PerMille(100);

    /// This share of a capacity in millionths of a core, rounded up.
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            HostShare::PerMille(n) => (u128::from(capacity) * u128::from(n)).div_ceil(1000) as u64,
            HostShare::Cores(cores) => cores.min(capacity),
        }
    }
}

/// The most disks in a file.
const MAX_DISKS: usize = 64;
/// The most cores in a file.
const MAX_CORES: u64 = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupsFile {
    hold_back: Option<bool>,
    parent: Option<Spanned<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CpuFile {
    capacity: Option<Spanned<String>>,
    kept_back: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiskFile {
    name: Spanned<String>,
    device: Spanned<String>,
    capacity: Spanned<String>,
    kept_back: Option<Spanned<String>>,
    request: Option<Spanned<String>>,
}

/// Reads `[groups]`.
pub(crate) fn groups(document: &Document<'_>, found: Option<&GroupsFile>) -> Result<GroupsConfig, Mistake> {
    let mut config = GroupsConfig::default();
    let Some(found) = found else { return Ok(config) };
    config.hold_back = found.hold_back.unwrap_or(false);
    if let Some(parent) = &found.parent {
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !parent.get_ref().is_absolute() || !parent.get_ref().components().all(plain) {
            let wrong = "a group is written from the hierarchy's root: / or /system.slice/mine";
            return Err(document.at(parent.span(), wrong));
        }
        config.parent.clone_from(parent.get_ref());
    }
    Ok(config)
}

/// Reads `[cpu]`.
pub(crate) fn cpu(document: &Document<'_>, found: Option<&CpuFile>) -> Result<Option<CpuConfig>, Mistake> {
    let Some(found) = found else { return Ok(None) };
    let capacity = found.capacity.as_ref().map(|text| cores(document, text)).transpose()?;
    let kept_back = match &found.kept_back {
        None => HostShare::USUAL,
        Some(text) if text.get_ref().ends_with('%') => match share(document, text)? {
            RateShare::PerMille(n) => HostShare::PerMille(n),
            RateShare::Rate(_) => HostShare::PerMille(1000),
        },
        Some(text) => HostShare::Cores(cores(document, text)?),
    };
    if let (Some(text), true) = (&found.kept_back, capacity.is_some_and(|all| kept_back.of(all) >= all)) {
        return Err(document.at(text.span(), "kept_back leaves nothing of the processors to reserve"));
    }
    Ok(Some(CpuConfig { capacity, kept_back }))
}

fn cores(document: &Document<'_>, text: &Spanned<String>) -> Result<u64, Mistake> {
    let found = parse_cores(text.get_ref()).map_err(|wrong| document.at(text.span(), wrong))?;
    if found == 0 || found > MAX_CORES * 1_000_000 {
        return Err(document.at(text.span(), format!("cores are more than 0 and at most {MAX_CORES}")));
    }
    Ok(found)
}

/// `1.5`, or `50%` of one core, in millionths of a core.
///
/// # Errors
/// A sentence for the person who wrote it.
pub fn parse_cores(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no number of cores: write 1.5, or 50% of one");
    let (number, one) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 10_000_u64),
        None => (text.trim(), 1_000_000),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let places = one.ilog10() as usize;
    if number.is_empty() || whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > places {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let padded = format!("{fraction:0<places$}");
    let part: u64 = padded.parse().map_err(|_| wrong())?;
    whole.checked_mul(one).and_then(|whole| whole.checked_add(part)).ok_or_else(wrong)
}

/// Reads every `[[disk]]`.
pub(crate) fn disks(document: &Document<'_>, found: &[DiskFile]) -> Result<Vec<DiskConfig>, Mistake> {
    if found.len() > MAX_DISKS {
        return Err(document.whole(format!("more than {MAX_DISKS} disks")));
    }
    let mut all: Vec<DiskConfig> = Vec::new();
    for entry in found {
        let disk = disk(document, entry)?;
        if all.iter().any(|other| other.name == disk.name) {
            return Err(document.at(entry.name.span(), format!("the disk {} is there twice", disk.name)));
        }
        all.push(disk);
    }
    Ok(all)
}

fn disk(document: &Document<'_>, entry: &DiskFile) -> Result<DiskConfig, Mistake> {
    let name = node_name(document, &entry.name)?;
    let device = entry.device.get_ref().clone();
    if device.is_empty() || !Path::new(&device).is_absolute() && device.contains('/') {
        return Err(document.at(entry.device.span(), "a device is /dev/sda, sda, or a path from the root"));
    }
    let rate = unit(document, &entry.capacity, units::parse_rate)?;
    let capacity = bytes(rate);
    if capacity < 1 << 20 {
        return Err(document.at(
            entry.capacity.span(),
            "a disk of less than 1mbps is not supported (200mbps is 200 million bytes a second)",
        ));
    }
    let kept_back = match &entry.kept_back {
        None => capacity / 20,
        Some(text) => bytes(share(document, text)?.of(rate)),
    };
    if let (Some(text), true) = (&entry.kept_back, kept_back >= capacity) {
        return Err(document.at(text.span(), "kept_back leaves nothing of the disk to reserve"));
    }
    let request = match &entry.request {
        None => None,
        Some(text) => match unit(document, text, units::parse_bytes)?.get() {
            bytes @ 512..=67_108_864 => Some(bytes),
            _ => return Err(document.at(text.span(), "a request is 512b to 64mb")),
        },
    };
    Ok(DiskConfig { name, device, capacity, kept_back, request })
}

fn bytes(rate: Rate) -> u64 {
    rate.as_bps() / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_numbers_or_parts_of_one() {
        assert_eq!(parse_cores("1.5"), Ok(1_500_000));
        assert_eq!(parse_cores("50%"), Ok(500_000));
        assert_eq!(parse_cores("0.000001"), Ok(1));
        assert_eq!(parse_cores("12.5 %"), Ok(125_000));
        for wrong in ["", "-1", "1.5.5", "0.0000001", "x", "1e3", "%", ".5", "99999999999999999999"] {
            assert!(parse_cores(wrong).unwrap_err().contains("no number of cores"), "{wrong}");
        }
        assert_eq!(HostShare::PerMille(100).of(1_800_001), 180_001);
        assert_eq!(HostShare::Cores(5).of(3), 3);
    }
}
