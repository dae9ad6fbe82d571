//! Edges in the kernel: the steps of an operation, its writes, and the adoption of edges after a restart.

use super::port::{EdgePort, KernelPort};
use super::slots::Slots;
use super::write::{Kernel, Undo, Write, confirmed};
use crate::bpf::edge::{MAX_RULES, RawRule, RawRuleKey};
use crate::bpf::{EdgeTable, Hook};
use crate::netlink::link::LinkState;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use terms::{Fault, IfIndex};
use traffic::edge::{ColorCounters, EdgeAt, EdgeRule, KINDS, MOST_KINDS, MultiField, ORDER};
use traffic::plan::{Counters, EdgePlan};
use traffic::plane::PlaneCounters;

/// The state of all edges, except that of ports.
pub struct Edges {
    /// Programs and maps; `None` until the first edge is made.
    table: Option<EdgeTable>,
    /// The arguments for loading them.
    state_dir: PathBuf,
    hook: Hook,
    slots: Slots,
    /// The number of rules of each kind of wildcards.
    kinds: [u32; KINDS],
    /// The number of rules of each control group, by its number.
    groups: BTreeMap<u64, u32>,
}

impl Edges {
    /// The edges that an earlier agent left under this state directory, or none.
    pub fn find(state_dir: &Path, hook: Hook) -> Result<Edges, Fault> {
        let table = EdgeTable::is_there(state_dir).then(|| EdgeTable::open(state_dir, hook)).transpose()?;
        let slots = Slots::new(MAX_RULES, &BTreeSet::new());
        Ok(Edges { table, state_dir: state_dir.to_owned(), hook, slots, kinds: [0; KINDS], groups: BTreeMap::new() })
    }

    fn loaded(&mut self) -> Result<&mut EdgeTable, Fault> {
        if self.table.is_none() {
            let mut table = EdgeTable::open(&self.state_dir, self.hook)?;
            table.put_kinds(&[])?;
            self.table = Some(table);
        }
        self.table.as_mut().ok_or(NO_EDGE)
    }

    /// Counts one more rule of this kind, or one less: the programs look up only kinds that have rules.
    fn count_kind(&mut self, fields: &MultiField, comes: bool) -> Result<(), Fault> {
        if fields.aggregate.is_some() {
            return Ok(()); // of every premium packet
        }
        let before = kinds_of(&self.kinds);
        let mut kinds = self.kinds;
        let rules = &mut kinds[usize::from(fields.kind())];
        *rules = if comes { rules.saturating_add(1) } else { rules.saturating_sub(1) };
        let after = kinds_of(&kinds);
        if after.len() > MOST_KINDS {
            return Err(Fault { what: "rules have too many kinds of wildcards at once", code: libc::ENOSPC });
        }
        if let Some(group) = fields.group {
            self.count_group(group.id, comes)?;
        }
        if before != after {
            self.loaded()?.put_kinds(&after)?;
        }
        self.kinds = kinds;
        Ok(())
    }

    /// Counts one more rule of this control group, or one less.
    fn count_group(&mut self, id: u64, comes: bool) -> Result<(), Fault> {
        let mut groups = self.groups.clone();
        let rules = groups.entry(id).or_default();
        *rules = if comes { rules.saturating_add(1) } else { rules.saturating_sub(1) };
        groups.retain(|_, rules| *rules > 0);
        self.loaded()?.put_groups(groups.keys().copied())?;
        self.groups = groups;
        Ok(())
    }
}

/// The kinds that have rules, the closest first.
fn kinds_of(rules: &[u32; KINDS]) -> Vec<u8> {
    ORDER.into_iter().filter(|kind| rules[usize::from(*kind)] > 0).collect()
}

const NO_EDGE: Fault = Fault { what: "this side of the interface is no edge", code: libc::ENODEV };

impl Kernel {
    /// A rule, from memory.
    pub fn rule(&self, at: EdgeAt, fields: &MultiField) -> Option<&RawRule> {
        self.ports.get(&at.interface)?.edges.get(&at.side)?.rules.get(fields)
    }

    /// The writes that make an edge.
    pub fn make_edge(&mut self, at: EdgeAt) -> Result<Vec<Write>, Fault> {
        let link = self.socket.link_by_index(at.interface)?;
        let port = self.port(at.interface);
        (port.header, port.mtu) = (link.header_len(), link.mtu);
        let there = port.edges.get(&at.side).is_some_and(|edge| edge.attached);
        Ok(if there { vec![] } else { vec![Write::MakeEdge(at.side)] })
    }

    /// The writes that remove an edge.
    pub fn drop_edge(&mut self, at: EdgeAt) -> Vec<Write> {
        let Some(edge) = self.port(at.interface).edges.get(&at.side) else { return vec![] };
        let rules = edge.rules.keys().map(|fields| Write::Rule(at.side, *fields, None));
        rules.chain([Write::DropEdge(at.side)]).collect()
    }

    /// The writes for a rule.
    pub fn set_rule(&mut self, at: EdgeAt, fields: MultiField, rule: EdgeRule) -> Result<Vec<Write>, Fault> {
        if !fields.is_possible() {
            return Err(Fault {
                what: "a rule's addresses are of two families, or an aggregate names a flow",
                code: 0,
            });
        }
        if !rule.is_possible() {
            return Err(Fault { what: "only rules of AF1x have meters, and a code point has six bits", code: 0 });
        }
        let edge = self.port(at.interface).edges.get(&at.side).ok_or(NO_EDGE)?;
        let Some(old) = edge.rules.get(&fields) else { return Ok(vec![Write::NewRule(at.side, fields, rule)]) };
        let new = RawRule::new(old.slot(), &rule);
        Ok(if *old == new { vec![] } else { vec![Write::Rule(at.side, fields, Some(new))] })
    }

    /// Makes a write at an edge, records its undo, and reads it back.
    pub fn carry_out_at_edge(&mut self, oif: IfIndex, write: Write, undo: &mut Undo) -> Result<(), Fault> {
        match write {
            Write::MakeEdge(side) => {
                self.fault_injection.spend()?;
                let (at, header) = (EdgeAt { interface: oif, side }, self.port(oif).header);
                undo.push((oif, Write::DropEdge(side)));
                let table = self.edges.loaded()?;
                table.attach(&mut self.socket, at, header)?;
                let attached = table.is_attached(&mut self.socket, at);
                self.port(oif).edges.entry(side).or_default().attached = attached;
                confirmed(attached)
            }
            Write::DropEdge(side) => {
                self.fault_injection.spend()?;
                self.edges.loaded()?.detach(&mut self.socket, EdgeAt { interface: oif, side })?;
                undo.push((oif, Write::MakeEdge(side)));
                self.port(oif).edges.remove(&side);
                Ok(())
            }
            Write::NewRule(side, fields, rule) => self.new_rule(EdgeAt { interface: oif, side }, fields, &rule, undo),
            Write::Rule(side, fields, rule) => {
                if let Some(back) = &rule {
                    self.edges.slots.keep(back.slot());
                }
                self.put_rule(EdgeAt { interface: oif, side }, fields, rule, undo)
            }
            _ => Ok(()),
        }
    }

    fn new_rule(&mut self, at: EdgeAt, fields: MultiField, rule: &EdgeRule, undo: &mut Undo) -> Result<(), Fault> {
        let slot = self.edges.slots.take()?;
        let raw = RawRule::new(slot, rule);
        let table = self.edges.loaded();
        let bucket = self.fault_injection.spend().and_then(|()| table?.put_state(slot, &raw.full()));
        let done = bucket.and_then(|()| self.put_rule(at, fields, Some(raw), undo));
        if done.is_err() && self.rule(at, &fields).is_none() {
            self.edges.slots.give(slot);
        }
        done
    }

    fn put_rule(
        &mut self,
        at: EdgeAt,
        fields: MultiField,
        rule: Option<RawRule>,
        undo: &mut Undo,
    ) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        let key = RawRuleKey::new(at, &fields);
        let old = self.rule(at, &fields).copied();
        match &rule {
            Some(rule) => {
                if old.is_none() {
                    self.edges.count_kind(&fields, true)?;
                }
                self.edges.loaded()?.put_rule(&key, rule)?;
                self.port(at.interface).edges.entry(at.side).or_default().rules.insert(fields, *rule);
            }
            None => {
                self.edges.loaded()?.remove_rule(&key)?;
                self.port(at.interface).edges.entry(at.side).or_default().rules.remove(&fields);
                if let Some(old) = old {
                    self.edges.count_kind(&fields, false)?;
                    self.edges.slots.give(old.slot());
                }
            }
        }
        undo.push((at.interface, Write::Rule(at.side, fields, old)));
        confirmed(self.edges.loaded()?.rule(at, &fields)? == rule)
    }

    /// Adopts the edges and rules of an earlier agent; removes those of interfaces that are gone, and those
    /// without an attached program.
    pub fn read_edges(&mut self, links: &[LinkState]) -> Result<(), Fault> {
        let Some(table) = &mut self.edges.table else { return Ok(()) };
        let mut found: BTreeMap<EdgeAt, EdgePort> = BTreeMap::new();
        for at in table.edges()? {
            let there = links.iter().any(|link| link.index == at.interface);
            if there && table.is_attached(&mut self.socket, at) {
                found.insert(at, EdgePort { attached: true, rules: BTreeMap::new() });
            } else {
                table.detach(&mut self.socket, at)?;
            }
        }
        let mut used = BTreeSet::new();
        let mut kinds = [0; KINDS];
        let mut groups: BTreeMap<u64, u32> = BTreeMap::new();
        for (key, rule) in table.rules()? {
            let read = key.read().filter(|(at, fields)| RawRuleKey::new(*at, fields) == key && rule.read().is_some());
            match read.and_then(|(at, fields)| Some((fields, found.get_mut(&at)?))) {
                Some((fields, edge)) if used.insert(rule.slot()) => {
                    edge.rules.insert(fields, rule);
                    if let Some(rules) = kinds.get_mut(usize::from(fields.kind())) {
                        *rules += 1;
                    }
                    if let Some(group) = fields.group {
                        *groups.entry(group.id).or_default() += 1;
                    }
                }
                _ => table.remove_rule(&key)?,
            }
        }
        table.put_groups(groups.keys().copied())?;
        table.put_kinds(&kinds_of(&kinds))?;
        (self.edges.kinds, self.edges.groups) = (kinds, groups);
        self.edges.slots = Slots::new(MAX_RULES, &used);
        for (at, edge) in found {
            let link = links.iter().find(|link| link.index == at.interface);
            let port = self.port(at.interface);
            if let Some(link) = link {
                (port.header, port.mtu) = (link.header_len(), link.mtu);
            }
            port.edges.insert(at.side, edge);
        }
        Ok(())
    }

    /// Checks again whether the programs of an interface's edges are attached.
    pub fn look_at_edges(&mut self, oif: IfIndex, port: &mut KernelPort) {
        let Some(table) = &self.edges.table else { return };
        for (&side, edge) in &mut port.edges {
            edge.attached = table.is_attached(&mut self.socket, EdgeAt { interface: oif, side });
        }
    }

    /// Trusts the code points of packets from exactly these interfaces (`core`): such packets keep them.
    pub fn believe(&mut self, interfaces: &BTreeSet<IfIndex>) -> Result<(), Fault> {
        if interfaces.is_empty() && self.edges.table.is_none() {
            return Ok(());
        }
        self.edges.loaded()?.believe(interfaces)
    }

    /// The counters of a rule.
    pub fn rule_counters(&self, at: EdgeAt, fields: &MultiField) -> Result<Option<Counters>, Fault> {
        let there = self.rule(at, fields).zip(self.edges.table.as_ref());
        there.map(|(rule, table)| table.counters(rule.slot())).transpose()
    }

    /// The packets of a rule by colour; `None`: it has no meter.
    pub fn rule_colors(&self, at: EdgeAt, fields: &MultiField) -> Result<Option<ColorCounters>, Fault> {
        let metered = self.rule(at, fields).filter(|rule| rule.is_metered());
        let there = metered.zip(self.edges.table.as_ref());
        there.map_or(Ok(None), |(rule, table)| table.colors(rule.slot()))
    }

    /// The counters of every edge.
    pub fn count_edges(&self, all: &mut PlaneCounters) -> Result<(), Fault> {
        let Some(table) = &self.edges.table else { return Ok(()) };
        for (at, edge) in edges(self) {
            all.stripped.insert(at, table.stripped(at)?);
            for (fields, rule) in &edge.rules {
                all.rules.insert((at, *fields), table.counters(rule.slot())?);
            }
        }
        Ok(())
    }
}

/// The edges in force in the kernel.
pub fn plan(kernel: &Kernel) -> BTreeMap<EdgeAt, EdgePlan> {
    let rules =
        |edge: &EdgePort| edge.rules.iter().filter_map(|(fields, rule)| Some((*fields, rule.read()?))).collect();
    edges(kernel).filter(|(_, edge)| edge.attached).map(|(at, edge)| (at, rules(edge))).collect()
}

fn edges(kernel: &Kernel) -> impl Iterator<Item = (EdgeAt, &EdgePort)> {
    kernel
        .ports
        .iter()
        .flat_map(|(&interface, port)| port.edges.iter().map(move |(&side, edge)| (EdgeAt { interface, side }, edge)))
}
