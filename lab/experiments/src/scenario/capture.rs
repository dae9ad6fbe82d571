//! The packets on a link as a capture file that Wireshark opens: both directions in one file, by time.

use super::file::ScenarioFile;
use super::play::played;
use crate::capture::{CaptureFile, write::Writer};
use crate::experiment::sweep::RunFailed;
use bed::error::Error;
use bed::results::put;
use sim::scenario::{CaptureSpec, LinkId};
use std::path::{Path, PathBuf};

/// The largest number of packets kept for a direction, and of bytes kept of each.
const PACKETS: usize = 1_000_000;
const SNAP: u32 = 65_535;

/// Plays the first point of a scenario with its first seed, and writes the packets on the link into the
/// folder. Returns the file's path, and the number of packets in it.
///
/// # Errors
/// There is no such link; the scenario cannot be played; the file cannot be written.
pub fn write(file: &ScenarioFile, link: &str, folder: &Path) -> Result<(PathBuf, usize), Error> {
    let backwards = link.split_once('-').map(|(a, b)| format!("{b}-{a}"));
    let known = |name: &str| file.links.iter().position(|known| known == name);
    let place = known(link).or_else(|| known(&backwards?));
    let place = place.ok_or_else(|| {
        let some: Vec<&str> = file.links.iter().take(5).map(String::as_str).collect();
        Error::Void(format!("there is no link {link:?}; there is {}{}", some.join(", "), dots(file.links.len())))
    })?;
    let void = |RunFailed(why): RunFailed| Error::Void(why);
    let first = file.sweep.points().swap_remove(0);
    let (mut point, reserved) = file.sweep.at(file, &first).map_err(|mistake| Error::Void(mistake.to_string()))?;
    let sides = 0..2;
    point.scenario.captures =
        sides.map(|side| CaptureSpec { link: LinkId(place), side, snap: SNAP, packets: PACKETS }).collect();
    let (_, world) = played(&point, reserved, file.scenario.seed).map_err(void)?;
    let (bytes, packets) = merged([world.pcap(0), world.pcap(1)]).map_err(|what| Error::Void(what.to_string()))?;
    let name = format!("{}.pcap", file.links[place]);
    if !folder.as_os_str().is_empty() {
        let wrong = |error| linux::error::SystemError::because(format!("make {}", folder.display()), error);
        std::fs::create_dir_all(folder).map_err(wrong)?;
    }
    put(folder, &name, &bytes)?;
    Ok((folder.join(name), packets))
}

fn dots(count: usize) -> &'static str {
    if count > 5 { ", ..." } else { "" }
}

/// Merges the records of both files in the order of their times.
fn merged(files: [&[u8]; 2]) -> Result<(Vec<u8>, usize), &'static str> {
    let mut records = Vec::new();
    for file in files {
        for record in CaptureFile::new(file)? {
            records.push(record.map_err(|cut| cut.what)?);
        }
    }
    records.sort_by_key(|record| record.nanos);
    let mut writer = Writer::new(records.first().map_or(101, |record| record.link));
    for record in &records {
        writer.frame(record.nanos, record.bytes).map_err(|_| "later than the file format knows")?;
    }
    Ok((writer.finish(), records.len()))
}
