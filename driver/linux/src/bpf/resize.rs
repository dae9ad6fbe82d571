//! Another size of the flow map: the kernel's maps keep theirs for life, so what they hold is moved to new ones.
//!
//! The pins are put aside as a whole, flows, buckets and records are copied, then each link gets the program of the new maps
//! in place. Until then the old program goes on by the old maps: no packet loses its class; what is counted there after
//! the copy, for some milliseconds, is missing in the new counters. An agent that stops in between leaves the old pins where
//! the next one finds them, and copies again.

use super::entry::{ClassRecord, RawClassKey, RawFlow, RawKey, RawKinds, RawState};
use super::hook::{BEHIND, LINK, fault};
use super::masks::RawShapes;
use super::{BPF_F_LOCK, FlowTable, LAYOUT, broken, sys};
use aya::Pod;
use aya::maps::{Array, HashMap, Map, MapData};
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use terms::Fault;

/// The end of the name of the directory while its maps are replaced.
const ASIDE: &str = "-before";
/// The names of the pinned maps that are copied.
const MAPS: [&str; 5] = ["flows", "states", "classes", "kinds", "shapes"];

/// The maps of another size, and their links.
pub(super) struct OtherSize {
    dir: PathBuf,
    flows: HashMap<MapData, RawKey, RawFlow>,
    states: Array<MapData, RawState>,
    classes: HashMap<MapData, RawClassKey, ClassRecord>,
    kinds: Array<MapData, RawKinds>,
    shapes: HashMap<MapData, u32, RawShapes>,
}

impl OtherSize {
    /// Finds the maps that have to be replaced: those that an agent put aside before it was stopped, or else those that
    /// are in use, if they have another size than `max_flows` and what they hold has room in the new ones. The latter
    /// are put aside now.
    ///
    /// # Errors
    /// The maps cannot be read, or the pins cannot be moved.
    pub(super) fn put_aside(mount: &Path, max_flows: u32) -> Result<Option<OtherSize>, Fault> {
        let (used, aside) = (mount.join(LAYOUT), mount.join(format!("{LAYOUT}{ASIDE}")));
        if aside.exists() {
            if let Some(found) = OtherSize::open(&aside) {
                return Ok(Some(found));
            }
            // Unpinned in part: everything is in the new ones.
            if MAPS.iter().all(|name| aside.join(name).exists()) {
                return Err(Fault { what: "open the flow map of another size", code: 0 });
            }
            forget(&aside)?;
        }
        if !used.join("states").exists() || room(&used)? == max_flows {
            return Ok(None);
        }
        let Some(mut found) = OtherSize::open(&used) else { return Ok(None) };
        if !found.fits(max_flows)? {
            return Ok(None);
        }
        fs::rename(&used, &aside).map_err(fault("put the pins of the flow map aside"))?;
        found.dir = aside;
        Ok(Some(found))
    }

    /// The size of the new maps: `max_flows`, or as many as here if what these hold has no room in so few.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub(super) fn size(&self, max_flows: u32) -> Result<u32, Fault> {
        if self.fits(max_flows)? {
            return Ok(max_flows);
        }
        room(&self.dir)
    }

    fn open(dir: &Path) -> Option<OtherSize> {
        let map = |name: &str| MapData::from_pin(dir.join(name)).ok();
        let [flows, states, classes, kinds, shapes] = MAPS.map(map);
        Some(OtherSize {
            dir: dir.to_owned(),
            flows: HashMap::try_from(Map::HashMap(flows?)).ok()?,
            states: Array::try_from(Map::Array(states?)).ok()?,
            classes: HashMap::try_from(Map::HashMap(classes?)).ok()?,
            kinds: Array::try_from(Map::Array(kinds?)).ok()?,
            shapes: HashMap::try_from(Map::HashMap(shapes?)).ok()?,
        })
    }

    /// True if all buckets in use are among the first `max_flows`, and there are no more flows.
    fn fits(&self, max_flows: u32) -> Result<bool, Fault> {
        let mut flows = 0;
        for item in self.flows.iter() {
            let (_, flow) = item.map_err(|error| broken("read the flow map", &error))?;
            flows += 1;
            if flow.slot >= max_flows || flows > max_flows {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Copies everything into the new maps and moves the links.
    pub(super) fn move_to(&self, table: &mut FlowTable) -> Result<(), Fault> {
        copy(&self.classes, &mut table.classes)?;
        copy(&self.shapes, table.masks.shapes_mut())?;
        let kinds = self.kinds.get(&0, 0).map_err(|error| broken("read the map of kinds", &error))?;
        table.put_kinds(&kinds)?;
        for item in self.flows.iter() {
            let (key, flow) = item.map_err(|error| broken("read the flow map", &error))?;
            let state = self.states.get(&flow.slot, BPF_F_LOCK);
            table.put_state(flow.slot, &state.map_err(|error| broken("read the bucket map", &error))?)?;
            table.put_flow(&key, &flow)?;
        }
        move_links(&self.dir, &table.hooks.pins)
    }

    /// Removes the old pins, once every link has the new program.
    pub(super) fn forget(self) -> Result<(), Fault> {
        forget(&self.dir)
    }
}

/// The number of flows that the maps pinned here have room for.
pub(super) fn room(dir: &Path) -> Result<u32, Fault> {
    let pinned = sys::open_pinned(&dir.join("states"));
    pinned.and_then(|map| sys::map_room(map.as_fd())).map_err(fault("look at the bucket map"))
}

/// Moves the pins of all links.
pub(super) fn move_links(from: &Path, to: &Path) -> Result<(), Fault> {
    for file in fs::read_dir(from).map_err(fault("list the pins"))?.flatten() {
        let name = file.file_name();
        if [LINK, BEHIND].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            fs::rename(file.path(), to.join(name)).map_err(fault("move the pin of a link"))?;
        }
    }
    Ok(())
}

/// Unpins all that is in this directory.
pub(super) fn forget(dir: &Path) -> Result<(), Fault> {
    for file in fs::read_dir(dir).map_err(fault("list the pins"))?.flatten() {
        fs::remove_file(file.path()).map_err(fault("unpin a map that was replaced"))?;
    }
    fs::remove_dir(dir).map_err(fault("remove the pins of maps that were replaced"))
}

/// Copies a map.
pub(super) fn copy<K: Pod, V: Pod>(
    from: &HashMap<MapData, K, V>,
    to: &mut HashMap<MapData, K, V>,
) -> Result<(), Fault> {
    for item in from.iter() {
        let (key, value) = item.map_err(|error| broken("read a map that is replaced", &error))?;
        to.insert(key, value, 0).map_err(|error| broken("write a map that replaces another", &error))?;
    }
    Ok(())
}
