//! Migration from the map layout of an earlier build, so that no reserved packet loses its class and no
//! promise is lost on an upgrade.
//!
//! The first layout (`v1`) had no shared buckets, no kinds and a shorter record of each flow. Its flows,
//! buckets and records are copied, then its links get this build's program and its pins are removed. Until a
//! link has the new program, the old one polices by the old maps: packets counted there after the copy, for
//! some milliseconds, are missing in the new counters. If the agent stops in between, the next start copies
//! again.

use super::entry::{ClassRecord, FirstFlow, RawClassKey, RawFlow, RawKey, RawState};
use super::{FlowTable, broken, resize};
use aya::maps::{Array, HashMap, Map, MapData};
use std::path::{Path, PathBuf};
use terms::Fault;

/// The maps of the first layout.
pub(super) struct Older {
    dir: PathBuf,
    flows: HashMap<MapData, RawKey, FirstFlow>,
    states: Array<MapData, RawState>,
    classes: HashMap<MapData, RawClassKey, ClassRecord>,
}

impl Older {
    /// Finds the first layout. Pins that cannot be opened are ignored and left alone.
    pub(super) fn find(mount: &Path) -> Option<Older> {
        let dir = mount.join("v1");
        let map = |name: &str| MapData::from_pin(dir.join(name)).ok();
        let flows = HashMap::try_from(Map::HashMap(map("flows")?)).ok()?;
        let states = Array::try_from(Map::Array(map("states")?)).ok()?;
        let classes = HashMap::try_from(Map::HashMap(map("classes")?)).ok()?;
        Some(Older { dir, flows, states, classes })
    }

    /// The number of flows that it has room for; the new maps need as many.
    pub(super) fn limit(&self) -> Result<u32, Fault> {
        resize::room(&self.dir)
    }

    /// Copies everything into this build's maps and moves its links.
    pub(super) fn move_to(&self, table: &mut FlowTable) -> Result<(), Fault> {
        resize::copy(&self.classes, &mut table.classes)?;
        for item in self.flows.iter() {
            let (key, flow) = item.map_err(|error| broken("read the older flow map", &error))?;
            let Some(flow) = RawFlow::from_first(&flow) else { continue };
            let state = self.states.get(&flow.slot, super::BPF_F_LOCK);
            table.put_state(flow.slot, &state.map_err(|error| broken("read the older bucket map", &error))?)?;
            table.put_flow(&key, &flow)?;
        }
        resize::move_links(&self.dir, &table.hooks.pins)
    }

    /// Removes its pins, once every link has the new program.
    pub(super) fn forget(self) -> Result<(), Fault> {
        resize::forget(&self.dir)
    }
}
