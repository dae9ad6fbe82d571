//! `[[resource]]`: countable resources, such as licences, with their capacity. Interfaces, processors and
//! disks have tables of their own.

use crate::document::{Document, Mistake};
use documents::units;
use serde::Deserialize;
use std::collections::BTreeSet;
use terms::book::ResourceKind;
use toml::Spanned;

/// The most resources in a file.
const MAX_RESOURCES: usize = 1024;
const MAX_NAME: usize = 64;

/// A resource in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceConfig {
    /// `licence/NAME`, for example.
    pub name: String,
    /// The number of units.
    pub capacity: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceFile {
    name: Spanned<String>,
    capacity: Spanned<u64>,
}

/// An amount as people write it, in the unit of a kind.
///
/// # Errors
/// The mistake in the text.
pub fn amount(kind: ResourceKind, text: &str) -> Result<u64, units::BadUnit> {
    match kind {
        ResourceKind::Network | ResourceKind::Disk | ResourceKind::Sla | ResourceKind::Measured => {
            units::parse_rate(text).map(|rate| rate.as_bps())
        }
        ResourceKind::Cpu => cores(text),
        ResourceKind::Countable => text.trim().parse().map_err(|_| format!("{text:?} is no number of pieces")),
    }
}

/// `0.5` of a core, in millionths.
fn cores(text: &str) -> Result<u64, units::BadUnit> {
    let wrong = || format!("{text:?} is no number of cores: write 2 or 0.5, down to a millionth");
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let part: u64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part)).ok_or_else(wrong)
}

pub(crate) fn read(document: &Document<'_>, found: &[ResourceFile]) -> Result<Vec<ResourceConfig>, Mistake> {
    if found.len() > MAX_RESOURCES {
        return Err(document.whole(format!("more than {MAX_RESOURCES} resources")));
    }
    let mut seen = BTreeSet::new();
    found
        .iter()
        .map(|entry| {
            let name = entry.name.get_ref();
            if !seen.insert(name) {
                return Err(document.at(entry.name.span(), format!("the resource {name} is there twice")));
            }
            resource(document, entry)
        })
        .collect()
}

fn resource(document: &Document<'_>, entry: &ResourceFile) -> Result<ResourceConfig, Mistake> {
    let name = entry.name.get_ref();
    let kind = ResourceKind::of(name);
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let in_two = name.split_once('/').is_some_and(|(_, second)| {
        !second.is_empty() && second.chars().all(fits) && name.chars().all(|c| fits(c) || c == '/')
    });
    let own = match kind {
        ResourceKind::Network => Some("an interface is an [[interface]]"),
        ResourceKind::Cpu => Some("processors are [cpu]"),
        ResourceKind::Disk => Some("a disk is a [[disk]]"),
        ResourceKind::Sla => Some("an agreement with a peer is an [[sla]]"),
        ResourceKind::Measured => Some("flows that are admitted by measurement are booked by `booked` of [mace]"),
        ResourceKind::Countable => None,
    };
    if let Some(own) = own {
        return Err(document.at(entry.name.span(), format!("{own}, not a [[resource]]")));
    }
    if name.len() > MAX_NAME || !in_two {
        let wrong =
            format!("{name:?} is no resource: KIND/NAME, such as licence/solver, at most {MAX_NAME} characters");
        return Err(document.at(entry.name.span(), wrong));
    }
    match *entry.capacity.get_ref() {
        0 => Err(document.at(entry.capacity.span(), "a capacity of nothing")),
        capacity => Ok(ResourceConfig { name: name.clone(), capacity }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        assert_eq!(amount(ResourceKind::Cpu, "0.5"), Ok(500_000));
        assert_eq!(amount(ResourceKind::Cpu, "2"), Ok(2_000_000));
        assert_eq!(amount(ResourceKind::Cpu, "1.000001"), Ok(1_000_001));
        assert_eq!(amount(ResourceKind::Disk, "20mbps"), Ok(160_000_000));
        assert_eq!(amount(ResourceKind::Countable, "3"), Ok(3));
        for (kind, text) in [
            (ResourceKind::Cpu, ""),
            (ResourceKind::Cpu, ".5"),
            (ResourceKind::Cpu, "0.0000001"),
            (ResourceKind::Cpu, "-1"),
            (ResourceKind::Cpu, "99999999999999999999"),
            (ResourceKind::Countable, "1.5"),
            (ResourceKind::Countable, "-1"),
            (ResourceKind::Network, "10"),
        ] {
            assert!(amount(kind, text).is_err(), "{kind:?} {text}");
        }
    }
}
