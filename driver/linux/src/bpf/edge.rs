//! The rules of edges and the programs that carry them out: five-tuple with wildcards -> (token bucket, code point).
//!
//! The programs are in `driver/linux/bpf/edge.c`, shipped as an object; one is attached at the ingress of an
//! interface, the other at the egress. Like the flow program, they are pinned with their maps and links, and
//! outlive the agent.

use super::entry::RawState;
use super::hook::{Hook, HookPaths, HookPoint, fault};
use super::rule::{RawCredit, RawProfile, RawRuleEntry};
use super::{BPF_F_LOCK, broken, map, present, program_name, refused, sys};
use aya::EbpfLoader;
use aya::maps::{Array, HashMap, Map, MapData, MapError};
use aya::programs::SchedClassifier;
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use terms::{Fault, IfIndex};
use traffic::edge::{ColorCounters, EdgeAt, MOST_KINDS, MOST_RULES, MultiField, Side};
use traffic::plan::Counters;

pub use super::rule::{RawRule, RawRuleKey};

use crate::netlink::Socket;

/// The compiled programs.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/edge.o");

/// The directory of the pins; another layout of the maps has another name.
pub const LAYOUT: &str = "edge1";
/// The most rules of a node's edges together.
pub const MAX_RULES: u32 = MOST_RULES as u32;
/// The end mark of the list of kinds.
const NO_KIND: u8 = 255;
pub(super) const SIDES: [Side; 2] = [Side::Ingress, Side::Egress];
/// A mark in the place of the side: code points of packets from this interface are trusted.
const BELIEVED: u32 = 2;

/// `struct edge_key`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RawEdgeKey {
    ifindex: u32,
    side: u32,
}

/// `struct edge`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RawEdge {
    header: u32,
    zero: u32,
    stripped_packets: u64,
    stripped_bytes: u64,
}

// SAFETY: `repr(C)`, no padding (4 + 4), every bit pattern is a value.
unsafe impl aya::Pod for RawEdgeKey {}
// SAFETY: `repr(C)`, no padding (4 + 4 + 2 * 8 = 24, aligned to 8), every bit pattern is a value.
unsafe impl aya::Pod for RawEdge {}

const _: () = assert!(size_of::<RawEdge>() == 24);

/// The program of one side and its attachment.
struct Program {
    hooks: HookPaths,
    program: OwnedFd,
    id: u32,
}

/// The loaded programs and their maps.
pub struct EdgeTable {
    programs: [Program; 2],
    edges: HashMap<MapData, RawEdgeKey, RawEdge>,
    rules: HashMap<MapData, RawRuleKey, RawRuleEntry>,
    profiles: HashMap<MapData, u32, RawProfile>,
    credits: HashMap<MapData, u32, RawCredit>,
    states: Array<MapData, RawState>,
    kinds: Array<MapData, u64>,
    groups: Array<MapData, GroupFilter>,
}

/// `struct group_filter`.
type GroupFilter = [u64; GROUP_BITS / 64];

/// The number of bits of the filter of groups.
const GROUP_BITS: usize = 512;

impl EdgeTable {
    /// True if an earlier agent left an edge table under this state directory.
    pub fn is_there(state_dir: &Path) -> bool {
        state_dir.join("bpf").join(LAYOUT).exists()
    }

    /// Loads the programs, with the maps that are pinned under `state_dir`, or with new ones the first time.
    /// The flow table must have mounted the bpffs.
    ///
    /// # Errors
    /// A capability is missing, or the kernel has no support for the programs.
    pub fn open(state_dir: &Path, hook: Hook) -> Result<EdgeTable, Fault> {
        let dir = state_dir.join("bpf").join(LAYOUT);
        fs::create_dir_all(&dir).map_err(fault("make a directory in the bpffs"))?;
        let hooks = SIDES.map(|side| HookPaths::under(state_dir, &dir, hook, HookPoint::edge(side)));
        let table = EdgeTable::pinned(&hooks).map_or_else(|| EdgeTable::load(&hooks), Ok)?;
        for of in &table.programs {
            of.hooks.renew(of.program.as_fd(), of.id)?;
        }
        Ok(table)
    }

    /// The programs of exactly this build and their maps, as an earlier agent pinned them.
    fn pinned(hooks: &[HookPaths; 2]) -> Option<EdgeTable> {
        let dir = &hooks[0].pins;
        let program = |side| sys::open_pinned(&dir.join(name_of(side))).ok();
        let programs = [program(Side::Ingress)?, program(Side::Egress)?];
        let map = |name: &str| MapData::from_pin(dir.join(name)).ok();
        let (edges, rules) = (Map::HashMap(map("edges")?), Map::HashMap(map("rules")?));
        let (states, kinds) = (Map::Array(map("rule_states")?), Map::Array(map("rule_kinds")?));
        let groups = Map::Array(map("rule_groups")?);
        let meters = [Map::HashMap(map("rule_profiles")?), Map::HashMap(map("rule_credits")?)];
        EdgeTable::assemble(hooks, programs, [edges, rules, states, kinds, groups], meters).ok()
    }

    fn load(hooks: &[HookPaths; 2]) -> Result<EdgeTable, Fault> {
        let dir = &hooks[0].pins;
        let mut object = EbpfLoader::new()
            .default_map_pin_directory(dir)
            .load(OBJECT)
            .map_err(|error| refused("load the edge's maps", &error))?;
        let mut program = |name: &str| -> Result<OwnedFd, Fault> {
            let program: &mut SchedClassifier = object
                .program_mut(name)
                .and_then(|program| program.try_into().ok())
                .ok_or(Fault { what: "an edge program is not in its object", code: 0 })?;
            program.load().map_err(|error| refused("load an edge program", &error))?;
            let fd = program.fd().map_err(|error| refused("hold an edge program", &error))?;
            fd.as_fd().try_clone_to_owned().map_err(fault("hold an edge program"))
        };
        let programs = [program("sluice_edge_in")?, program("sluice_edge_out")?];
        let mut map = |name| map(&mut object, name);
        let maps = [map("edges")?, map("rules")?, map("rule_states")?, map("rule_kinds")?, map("rule_groups")?];
        let meters = [map("rule_profiles")?, map("rule_credits")?];
        let table = EdgeTable::assemble(hooks, programs, maps, meters)?;
        for file in fs::read_dir(dir).map_err(fault("list the bpffs"))?.flatten() {
            if file.file_name().to_string_lossy().starts_with(super::PROGRAM) {
                fs::remove_file(file.path()).map_err(fault("unpin an older edge program"))?;
            }
        }
        for side in SIDES {
            sys::pin(table.program(side), &dir.join(name_of(side))).map_err(fault("pin an edge program"))?;
        }
        Ok(table)
    }

    fn assemble(
        hooks: &[HookPaths; 2],
        programs: [OwnedFd; 2],
        maps: [Map; 5],
        meters: [Map; 2],
    ) -> Result<EdgeTable, Fault> {
        let [incoming, outgoing] = programs;
        let of = |side: Side, program: OwnedFd| -> Result<Program, Fault> {
            let id = sys::program_id(program.as_fd()).map_err(fault("look at an edge program"))?;
            Ok(Program { hooks: hooks[side as usize].clone(), program, id })
        };
        let [edges, rules, states, kinds, groups] = maps;
        let [profiles, credits] = meters;
        Ok(EdgeTable {
            programs: [of(Side::Ingress, incoming)?, of(Side::Egress, outgoing)?],
            edges: HashMap::try_from(edges).map_err(|e| broken("open the map of edges", &e))?,
            rules: HashMap::try_from(rules).map_err(|e| broken("open the map of rules", &e))?,
            profiles: HashMap::try_from(profiles).map_err(|e| broken("open the edge's map of meters", &e))?,
            credits: HashMap::try_from(credits).map_err(|e| broken("open the edge's map of meters' credit", &e))?,
            states: Array::try_from(states).map_err(|e| broken("open the edge's bucket map", &e))?,
            kinds: Array::try_from(kinds).map_err(|e| broken("open the edge's map of kinds", &e))?,
            groups: Array::try_from(groups).map_err(|e| broken("open the edge's map of groups", &e))?,
        })
    }

    /// The program of a side, for test runs.
    pub fn program(&self, side: Side) -> BorrowedFd<'_> {
        self.of(side).program.as_fd()
    }

    fn of(&self, side: Side) -> &Program {
        &self.programs[side as usize]
    }

    /// Makes an edge whose packets have `header` bytes of link header: writes its entry, then attaches the
    /// program.
    pub fn attach(&mut self, socket: &mut Socket, at: EdgeAt, header: u32) -> Result<(), Fault> {
        self.note(at, header)?;
        let of = self.of(at.side);
        of.hooks.attach(socket, of.program.as_fd(), at.interface)
    }

    /// Writes the entry of an edge without attaching the program.
    pub fn note(&mut self, at: EdgeAt, header: u32) -> Result<(), Fault> {
        let edge = RawEdge { header, zero: 0, stripped_packets: 0, stripped_bytes: 0 };
        self.edges.insert(raw_at(at), edge, 0).map_err(|error| broken("write the map of edges", &error))
    }

    /// Trusts the code points of packets from exactly these interfaces: such packets keep them.
    pub fn believe(&mut self, interfaces: &BTreeSet<IfIndex>) -> Result<(), Fault> {
        let keys: Result<Vec<RawEdgeKey>, MapError> = self.edges.keys().collect();
        let keys = keys.map_err(|error| broken("read the map of edges", &error))?;
        for key in keys.iter().filter(|key| key.side == BELIEVED && !interfaces.contains(&IfIndex(key.ifindex))) {
            present(self.edges.remove(key), "remove from the map of edges")?;
        }
        let edge = RawEdge { header: 0, zero: 0, stripped_packets: 0, stripped_bytes: 0 };
        for interface in interfaces {
            let key = RawEdgeKey { ifindex: interface.0, side: BELIEVED };
            self.edges.insert(key, edge, 0).map_err(|error| broken("write the map of edges", &error))?;
        }
        Ok(())
    }

    /// Detaches the program from an edge and removes its entry. An absent edge is no error.
    pub fn detach(&mut self, socket: &mut Socket, at: EdgeAt) -> Result<(), Fault> {
        self.of(at.side).hooks.detach(socket, at.interface)?;
        present(self.edges.remove(&raw_at(at)), "remove from the map of edges").map(drop)
    }

    /// True if the program is attached to this edge.
    pub fn is_attached(&self, socket: &mut Socket, at: EdgeAt) -> bool {
        let of = self.of(at.side);
        of.hooks.is_attached(socket, of.id, at.interface)
    }

    /// Every edge that has an entry.
    pub fn edges(&self) -> Result<Vec<EdgeAt>, Fault> {
        let keys: Result<Vec<RawEdgeKey>, MapError> = self.edges.keys().collect();
        let read = |key: RawEdgeKey| {
            let side = *SIDES.get(key.side as usize)?;
            Some(EdgeAt { interface: IfIndex(key.ifindex), side })
        };
        Ok(keys.map_err(|error| broken("read the map of edges", &error))?.into_iter().filter_map(read).collect())
    }

    /// Every rule.
    pub fn rules(&self) -> Result<Vec<(RawRuleKey, RawRule)>, Fault> {
        let all: Result<Vec<(RawRuleKey, RawRuleEntry)>, MapError> = self.rules.iter().collect();
        let all = all.map_err(|error| broken("read the map of rules", &error))?;
        all.into_iter().map(|(key, entry)| Ok((key, self.with_profile(entry)?))).collect()
    }

    /// One rule.
    pub fn rule(&self, at: EdgeAt, fields: &MultiField) -> Result<Option<RawRule>, Fault> {
        let entry = present(self.rules.get(&RawRuleKey::new(at, fields), 0), "read the map of rules")?;
        entry.map(|entry| self.with_profile(entry)).transpose()
    }

    fn with_profile(&self, entry: RawRuleEntry) -> Result<RawRule, Fault> {
        let profile = match entry.is_metered() {
            true => present(self.profiles.get(&entry.slot(), 0), "read the edge's map of meters")?,
            false => None,
        };
        Ok(RawRule::of(entry, profile))
    }

    /// Writes the entry of a rule; its meter is there first. If that fails the meter is the old one again.
    ///
    /// # Errors
    /// E2BIG: the map is full.
    pub fn put_rule(&mut self, key: &RawRuleKey, rule: &RawRule) -> Result<(), Fault> {
        let write = |error: MapError| broken("write the edge's map of meters", &error);
        let before = present(self.profiles.get(&rule.slot(), 0), "read the edge's map of meters")?;
        if let Some(profile) = rule.profile() {
            if present(self.credits.get(&rule.slot(), BPF_F_LOCK), "read the edge's map of meters' credit")?.is_none() {
                self.credits.insert(rule.slot(), RawCredit::default(), 0).map_err(write)?;
            }
            self.profiles.insert(rule.slot(), profile, 0).map_err(write)?;
        }
        let put = self.rules.insert(key, rule.entry(), 0).map_err(|error| broken("write the map of rules", &error));
        if let (Err(_), Some(before)) = (&put, before) {
            self.profiles.insert(rule.slot(), before, 0).map_err(write)?;
        }
        put
    }

    /// Removes a rule; an absent rule is no error.
    pub fn remove_rule(&mut self, key: &RawRuleKey) -> Result<(), Fault> {
        present(self.rules.remove(key), "remove from the map of rules").map(drop)
    }

    /// Sets the kinds of wildcards in use, the closest first, at most [`MOST_KINDS`]. Call it before the
    /// first rule of a kind is added and after the last is removed.
    pub fn put_kinds(&mut self, kinds: &[u8]) -> Result<(), Fault> {
        let byte = |n: usize| u64::from(kinds.get(n).copied().unwrap_or(NO_KIND));
        let word: u64 = (0..MOST_KINDS).map(|n| byte(n) << (8 * n)).sum();
        self.kinds.set(0, word, 0).map_err(|error| broken("write the edge's map of kinds", &error))
    }

    /// Sets the control groups that have rules, by their numbers. Call it before the first rule of a group is added and
    /// after the last is removed.
    pub fn put_groups(&mut self, ids: impl Iterator<Item = u64>) -> Result<(), Fault> {
        let mut filter: GroupFilter = [0; GROUP_BITS / 64];
        for id in ids {
            let place = (id ^ id >> 32) as usize % GROUP_BITS;
            filter[place / 64] |= 1 << (place % 64);
        }
        self.groups.set(0, filter, 0).map_err(|error| broken("write the edge's map of groups", &error))
    }

    /// The bucket and counters of a slot.
    pub fn state(&self, slot: u32) -> Result<RawState, Fault> {
        self.states.get(&slot, BPF_F_LOCK).map_err(|error| broken("read the edge's bucket map", &error))
    }

    /// Sets the bucket and counters of a slot, before a rule uses it; a meter of it starts anew.
    pub fn put_state(&mut self, slot: u32, state: &RawState) -> Result<(), Fault> {
        present(self.profiles.remove(&slot), "remove from the edge's map of meters")?;
        present(self.credits.remove(&slot), "remove from the edge's map of meters' credit")?;
        self.states.set(slot, state, 0).map_err(|error| broken("write the edge's bucket map", &error))
    }

    /// The credit of the meter of a slot, and its counts; `None`: it had none since the slot was set.
    pub fn credit(&self, slot: u32) -> Result<Option<RawCredit>, Fault> {
        present(self.credits.get(&slot, BPF_F_LOCK), "read the edge's map of meters' credit")
    }

    /// Packets of the rule in this slot that a meter coloured; `None`: it had none.
    pub fn colors(&self, slot: u32) -> Result<Option<ColorCounters>, Fault> {
        Ok(self.credit(slot)?.map(|credit| credit.colors()))
    }

    /// Conforming and excess packets of the rule in this slot, under its bucket and under its meter.
    pub fn counters(&self, slot: u32) -> Result<Counters, Fault> {
        let RawState { packets, bytes, over_packets, over_bytes, .. } = self.state(slot)?;
        let metered = self.credit(slot)?.map_or(Counters::default(), |credit| credit.counters());
        Ok(Counters {
            packets: packets + metered.packets,
            bytes: bytes + metered.bytes,
            over_packets: over_packets + metered.over_packets,
            over_bytes: over_bytes + metered.over_bytes,
        })
    }

    /// Packets of this edge that lost a premium code point because no rule gave it to them.
    pub fn stripped(&self, at: EdgeAt) -> Result<Counters, Fault> {
        let edge = present(self.edges.get(&raw_at(at), 0), "read the map of edges")?;
        let of = |edge: RawEdge| (edge.stripped_packets, edge.stripped_bytes);
        let (packets, bytes) = edge.map_or((0, 0), of);
        Ok(Counters { packets, bytes, ..Counters::default() })
    }
}

/// The name of the pin of this build's program for a side.
fn name_of(side: Side) -> String {
    match side {
        Side::Ingress => program_name("program_in_", OBJECT),
        Side::Egress => program_name("program_out_", OBJECT),
    }
}

fn raw_at(at: EdgeAt) -> RawEdgeKey {
    RawEdgeKey { ifindex: at.interface.0, side: at.side as u32 }
}
