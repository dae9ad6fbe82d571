//! The flow map and the program that reads it at the egress: flow -> (class, token bucket). The programs of
//! edges are in [`edge`].
//!
//! The program is in `driver/linux/bpf/flow.c`, shipped as an object. It is pinned with its maps and links in
//! a bpffs under the agent's state directory, so that they outlive the agent: a link without a pin ends with
//! its process, and `ip netns exec` shows an empty `/sys/fs/bpf`. From the pinned map the next agent learns
//! the promises of one that was killed.

pub mod arriving;
pub mod checkpoint;
pub mod edge;
pub mod entry;
mod hook;
pub mod mace;
pub mod masks;
pub mod older;
pub mod packet_order;
pub mod pair_guard;
mod resize;
mod rule;
pub mod sys;

pub use edge::EdgeTable;
pub use hook::Hook;
pub use mace::FlowRecogniser;

use crate::netlink::Socket;
use aya::maps::{Array, HashMap, Map, MapData, MapError};
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader};
use entry::{ClassRecord, RawClassKey, RawFlow, RawKey, RawKinds, RawState};
pub(crate) use hook::fault;
use hook::{HookPaths, HookPoint};
pub use masks::Masks;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use terms::{Fault, FlowKey, IfIndex};
use traffic::plan::{ClassId, Counters};

/// The compiled program.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/flow.o");

/// The number of flows that a node's plane has room for, unless said otherwise.
pub const MAX_FLOWS: u32 = 65_536;
/// The largest number that may be said.
pub const MOST_FLOWS: u32 = 1 << 20;

/// The directory of the pins; another layout of the maps has another name.
pub const LAYOUT: &str = "v2";
/// The prefix of the names of pinned programs.
const PROGRAM: &str = "program_";
/// Takes the bucket's lock while it is copied.
const BPF_F_LOCK: u64 = 4;

/// The loaded program and its maps.
pub struct FlowTable {
    hooks: HookPaths,
    program: OwnedFd,
    /// The kernel's id of the program.
    id: u32,
    flows: HashMap<MapData, RawKey, RawFlow>,
    states: Array<MapData, RawState>,
    classes: HashMap<MapData, RawClassKey, ClassRecord>,
    kinds: Array<MapData, RawKinds>,
    masks: Masks,
    limit: u32,
}

impl FlowTable {
    /// Loads the program, with the maps that are pinned under `state_dir`, or the first time with new ones, which have
    /// room for `max_flows` flows. Pinned maps of another size are replaced, unless what they hold does not fit
    /// into so few ([`FlowTable::limit`]).
    ///
    /// # Errors
    /// A capability is missing (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN to mount), or the kernel has no support
    /// for the program.
    pub fn open(state_dir: &Path, max_flows: u32, hook: Hook) -> Result<FlowTable, Fault> {
        let mount = state_dir.join("bpf");
        fs::create_dir_all(&mount).map_err(fault("make the directory of the bpffs"))?;
        sys::mount_bpffs(&mount).map_err(fault("mount a bpffs under the state directory"))?;
        let dir = mount.join(LAYOUT);
        let hooks = HookPaths::under(state_dir, &dir, hook, HookPoint::FLOWS);
        let older = older::Older::find(&mount);
        let least = older.as_ref().map_or(Ok(0), older::Older::limit)?;
        let other = resize::OtherSize::put_aside(&mount, max_flows)?;
        fs::create_dir_all(&dir).map_err(fault("make a directory in the bpffs"))?;
        let max_flows = other.as_ref().map_or(Ok(max_flows), |other| other.size(max_flows))?.max(least);
        let mut table = FlowTable::pinned(&hooks).map_or_else(|| FlowTable::load(&hooks, max_flows), Ok)?;
        if let Some(older) = &older {
            older.move_to(&mut table)?;
        }
        if let Some(other) = &other {
            other.move_to(&mut table)?;
        }
        table.hooks.renew(table.program(), table.id)?;
        table.masks.renew()?;
        older.map_or(Ok(()), older::Older::forget)?;
        other.map_or(Ok(()), resize::OtherSize::forget)?;
        Ok(table)
    }

    /// The programs of exactly this build and their maps, as an earlier agent pinned them: they need no new
    /// verification.
    fn pinned(hooks: &HookPaths) -> Option<FlowTable> {
        let dir = &hooks.pins;
        let program = |prefix| sys::open_pinned(&dir.join(program_name(prefix, OBJECT))).ok();
        let programs = [program(PROGRAM)?, program(masks::PROGRAM)?];
        let map = |name: &str| MapData::from_pin(dir.join(name)).ok();
        let maps = [
            Map::HashMap(map("flows")?),
            Map::Array(map("states")?),
            Map::HashMap(map("classes")?),
            Map::Array(map("kinds")?),
            Map::HashMap(map("shapes")?),
        ];
        FlowTable::assemble(hooks, programs, maps).ok()
    }

    /// Loads the programs from the object, with the maps that are already pinned, and pins the rest.
    fn load(hooks: &HookPaths, max_flows: u32) -> Result<FlowTable, Fault> {
        let dir = &hooks.pins;
        let mut object = EbpfLoader::new()
            .default_map_pin_directory(dir)
            .map_max_entries("flows", max_flows)
            .map_max_entries("states", max_flows)
            .load(OBJECT)
            .map_err(|error| refused("load the flow map", &error))?;
        let programs = [classifier(&mut object, "sluice_egress")?, classifier(&mut object, "sluice_masks")?];
        let mut map = |name| map(&mut object, name);
        let maps = [map("flows")?, map("states")?, map("classes")?, map("kinds")?, map("shapes")?];
        let table = FlowTable::assemble(hooks, programs, maps)?;
        for (prefix, program) in [(PROGRAM, table.program()), (masks::PROGRAM, table.masks.program())] {
            masks::pin_alone(dir, program, prefix, &program_name(prefix, OBJECT))?;
        }
        Ok(table)
    }

    fn assemble(hooks: &HookPaths, programs: [OwnedFd; 2], maps: [Map; 5]) -> Result<FlowTable, Fault> {
        let [program, behind] = programs;
        let id = sys::program_id(program.as_fd()).map_err(fault("look at the flow program"))?;
        let pinned = sys::open_pinned(&hooks.pins.join("states"));
        let limit = pinned.and_then(|map| sys::map_room(map.as_fd())).map_err(fault("look at the bucket map"))?;
        let [flows, states, classes, kinds, shapes] = maps;
        Ok(FlowTable {
            hooks: hooks.clone(),
            program,
            id,
            flows: HashMap::try_from(flows).map_err(|e| broken("open the flow map", &e))?,
            states: Array::try_from(states).map_err(|e| broken("open the bucket map", &e))?,
            classes: HashMap::try_from(classes).map_err(|e| broken("open the class map", &e))?,
            kinds: Array::try_from(kinds).map_err(|e| broken("open the map of kinds", &e))?,
            masks: Masks::assemble(hooks, behind, shapes)?,
            limit,
        })
    }

    /// The most flows in the table.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// The kernel's memory for flows and buckets now, as it accounts for them, bytes.
    ///
    /// # Errors
    /// The maps cannot be looked at.
    pub fn memory(&self) -> Result<u64, Fault> {
        let of = |name: &str| sys::map_memory(sys::open_pinned(&self.hooks.pins.join(name))?.as_fd());
        let both = of("flows").and_then(|flows| Ok(flows + of("states")?));
        both.map_err(fault("look at the memory of the flow map"))
    }

    /// The program and shapes for flows of prefixes.
    pub fn masks(&self) -> &Masks {
        &self.masks
    }

    /// The same, mutable.
    pub fn masks_mut(&mut self) -> &mut Masks {
        &mut self.masks
    }

    /// The program, for test runs.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Attaches the program permanently to the egress of an interface of the calling thread's network
    /// namespace.
    pub fn attach(&self, socket: &mut Socket, oif: IfIndex) -> Result<(), Fault> {
        self.hooks.attach(socket, self.program.as_fd(), oif)
    }

    /// Detaches the program from an interface at once.
    pub fn detach(&self, socket: &mut Socket, oif: IfIndex) -> Result<(), Fault> {
        self.hooks.detach(socket, oif)
    }

    /// True if the program is attached to this interface.
    pub fn is_attached(&self, socket: &mut Socket, oif: IfIndex) -> bool {
        self.hooks.is_attached(socket, self.id, oif)
    }

    /// True if it is attached there by a TCX link.
    pub fn is_linked(&self, oif: IfIndex) -> bool {
        self.hooks.is_linked(self.id, oif)
    }

    /// Every installed flow, including entries of another build.
    pub fn flows(&self) -> Result<Vec<(RawKey, RawFlow)>, Fault> {
        self.flows.iter().map(|item| item.map_err(|error| broken("read the flow map", &error))).collect()
    }

    /// One flow.
    pub fn flow(&self, oif: IfIndex, flow: &FlowKey) -> Result<Option<RawFlow>, Fault> {
        present(self.flows.get(&RawKey::new(oif, flow), 0), "read the flow map")
    }

    /// Writes the entry of a flow.
    ///
    /// # Errors
    /// E2BIG: the map is full.
    pub fn put_flow(&mut self, key: &RawKey, flow: &RawFlow) -> Result<(), Fault> {
        self.flows.insert(key, flow, 0).map_err(|error| broken("write the flow map", &error))
    }

    /// Removes a flow's entry; an absent entry is no error.
    pub fn remove_flow(&mut self, key: &RawKey) -> Result<(), Fault> {
        present(self.flows.remove(key), "remove from the flow map").map(drop)
    }

    /// Sets the kinds of flows in use besides whole five-tuples. Call it before the first flow of a kind is
    /// added and after the last is removed.
    pub fn put_kinds(&mut self, kinds: &RawKinds) -> Result<(), Fault> {
        self.kinds.set(0, kinds, 0).map_err(|error| broken("write the map of kinds", &error))
    }

    /// The bucket and counters of a slot.
    pub fn state(&self, slot: u32) -> Result<RawState, Fault> {
        self.states.get(&slot, BPF_F_LOCK).map_err(|error| broken("read the bucket map", &error))
    }

    /// Sets the bucket and counters of a slot, before a flow uses it.
    pub fn put_state(&mut self, slot: u32, state: &RawState) -> Result<(), Fault> {
        self.states.set(slot, state, 0).map_err(|error| broken("write the bucket map", &error))
    }

    /// The counters of a slot.
    pub fn counters(&self, slot: u32) -> Result<Counters, Fault> {
        let state = self.state(slot)?;
        Ok(Counters {
            packets: state.packets,
            bytes: state.bytes,
            over_packets: state.over_packets,
            over_bytes: state.over_bytes,
        })
    }

    /// The specification of each class as its record ([`ClassId::LINK`]: of the link).
    pub fn class_records(&self) -> Result<Vec<(IfIndex, ClassId, ClassRecord)>, Fault> {
        let item = |item: Result<(RawClassKey, ClassRecord), MapError>| {
            item.map(|(key, record)| (IfIndex(key.ifindex), ClassId(key.class as u16), record))
                .map_err(|error| broken("read the class map", &error))
        };
        self.classes.iter().map(item).collect()
    }

    /// Writes the specification of a class.
    pub fn put_class(&mut self, oif: IfIndex, class: ClassId, record: &ClassRecord) -> Result<(), Fault> {
        let key = RawClassKey { ifindex: oif.0, class: u32::from(class.0) };
        self.classes.insert(key, record, 0).map_err(|error| broken("write the class map", &error))
    }

    /// Removes a class; an absent class is no error.
    pub fn remove_class(&mut self, oif: IfIndex, class: ClassId) -> Result<(), Fault> {
        let key = RawClassKey { ifindex: oif.0, class: u32::from(class.0) };
        present(self.classes.remove(&key), "remove from the class map").map(drop)
    }
}

/// Removes all pins under `state_dir`, and the bpffs. It must not be called while a plane is open there.
///
/// # Errors
/// The bpffs cannot be unmounted.
pub fn forget(state_dir: &Path) -> Result<(), Fault> {
    let mount = state_dir.join("bpf");
    if !mount.exists() || !sys::is_bpffs(&mount).map_err(fault("look at the bpffs"))? {
        return Ok(());
    }
    for layout in fs::read_dir(&mount).into_iter().flatten().flatten() {
        for file in fs::read_dir(layout.path()).into_iter().flatten().flatten() {
            fs::remove_file(file.path()).map_err(fault("unpin"))?;
        }
    }
    // A link leads to a bpffs that somebody else mounted.
    if mount.is_symlink() {
        return fs::remove_file(&mount).map_err(fault("remove the link to the pins"));
    }
    sys::unmount_bpffs(&mount).map_err(fault("unmount the bpffs"))
}

/// The name of the pin of this build's program; it contains a hash of the object.
pub(crate) fn program_name(prefix: &str, object: &[u8]) -> String {
    let hash = object.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3) // FNV-1a
    });
    format!("{prefix}{hash:016x}")
}

fn classifier(object: &mut Ebpf, name: &str) -> Result<OwnedFd, Fault> {
    let program: &mut SchedClassifier = object
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or(Fault { what: "the flow program is not in its object", code: 0 })?;
    program.load().map_err(|error| refused("load the flow program", &error))?;
    let fd = program.fd().map_err(|error| refused("hold the flow program", &error))?;
    fd.as_fd().try_clone_to_owned().map_err(fault("hold the flow program"))
}

pub(crate) fn map(object: &mut Ebpf, name: &str) -> Result<Map, Fault> {
    object.take_map(name).ok_or(Fault { what: "a map is not in the flow program's object", code: 0 })
}

fn present<T>(found: Result<T, MapError>, what: &'static str) -> Result<Option<T>, Fault> {
    match found {
        Ok(value) => Ok(Some(value)),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(error) => match broken(what, &error) {
            Fault { code: libc::ENOENT, .. } => Ok(None),
            fault => Err(fault),
        },
    }
}

pub(crate) fn broken(what: &'static str, error: &MapError) -> Fault {
    refused(what, error)
}

/// A [`Fault`] with the errno at the end of a chain of errors.
pub(crate) fn refused(what: &'static str, error: &(dyn std::error::Error + 'static)) -> Fault {
    let mut next = Some(error);
    let mut code = 0;
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            code = io.raw_os_error().unwrap_or(0);
        }
        next = error.source();
    }
    Fault { what, code }
}
