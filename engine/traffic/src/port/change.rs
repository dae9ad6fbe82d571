//! Operations of the plan, carried out in a port.

use super::flows::{Flows, TooMany};
use super::{Member, Port, PortLoss, PortRefused};
use crate::conditioner::{self, ConditionerSpec};
use crate::edge::{Edge, EdgeAt, EdgeFull, EdgeRule, MultiField};
use crate::path::{Drop, InnerId, LeafId, LeafParts, PacketPath, TreeShare, mix};
use crate::plan::{ClassId, ClassSpec, Counters, FlowSpecEntry, LinkSpec, PlanOp, QueueSpec};
use terms::{FlowKey, Time};

impl Port {
    /// Carries out one operation of the plan.
    ///
    /// # Errors
    /// [`PortRefused`]; the port is unchanged.
    pub fn apply(&mut self, now: Time, op: &PlanOp) -> Result<(), PortRefused> {
        let now = self.clock(now);
        let oif = op.oif();
        if oif != self.oif {
            return Err(PortRefused::OtherInterface(oif));
        }
        match *op {
            PlanOp::Link { spec, .. } => self.set_link(now, spec),
            PlanOp::DropLink { .. } => {
                self.drop_link(now);
                Ok(())
            }
            PlanOp::Class { class, spec, .. } => self.set_class(now, class, spec),
            PlanOp::DropClass { class, .. } => self.drop_class(now, class),
            PlanOp::Condition { class, spec, .. } => self.set_conditioner(now, class, Some(spec)),
            PlanOp::DropCondition { class, .. } if !self.classes.contains_key(&class) => Ok(()),
            PlanOp::DropCondition { class, .. } => self.set_conditioner(now, class, None),
            PlanOp::Flow { flow, entry, .. } => self.set_flow(now, flow, entry),
            PlanOp::DropFlow { flow, .. } => {
                if let Some(had) = self.flows.remove(&flow) {
                    self.members[had.0 as usize].flows -= 1;
                }
                Ok(())
            }
            PlanOp::Edge { at } => {
                let (key, signalling) = (self.key, self.signalling);
                self.edges.entry(at.side).or_insert_with(|| Edge::new(key, signalling));
                Ok(())
            }
            PlanOp::DropEdge { at } => {
                self.edges.remove(&at.side);
                Ok(())
            }
            PlanOp::Rule { at, fields, rule } => self.set_rule(now, at, fields, rule),
            PlanOp::DropRule { at, fields } => {
                self.edges.get_mut(&at.side).into_iter().for_each(|edge| edge.remove(&fields));
                Ok(())
            }
        }
    }

    /// Gives up the link and every packet: the interface is as it was in the beginning, and all packets are lost.
    pub fn clear(&mut self, now: Time) {
        let now = self.clock(now);
        self.drop_link(now);
        self.edges.clear();
        while let Some((_, packet)) = self.plain.pop(&mut self.pool) {
            self.lost.push_back(PortLoss { packet, class: ClassId::LINK, why: Drop::Purged });
        }
    }

    fn set_rule(&mut self, now: Time, at: EdgeAt, fields: MultiField, rule: EdgeRule) -> Result<(), PortRefused> {
        let edge = self.edges.get_mut(&at.side).ok_or(PortRefused::NoEdge)?;
        if !fields.is_possible() {
            return Err(PortRefused::Impossible);
        }
        if !rule.is_possible() {
            return Err(PortRefused::Meter);
        }
        edge.set(now, fields, rule).map_err(|full| match full {
            EdgeFull::Rules => PortRefused::Rules,
            EdgeFull::Kinds => PortRefused::Kinds,
        })
    }

    fn set_link(&mut self, now: Time, spec: LinkSpec) -> Result<(), PortRefused> {
        let Some(path) = &mut self.path else {
            let seed = mix(self.key[0] ^ self.key[1].rotate_left(32));
            self.path = Some(PacketPath::new(spec, self.limits.packets, now, seed));
            return Ok(());
        };
        if *path.link() == spec {
            return Ok(());
        }
        self.separate(now);
        let Some(path) = &mut self.path else { return Ok(()) };
        let (members, classes) = (&self.members, &self.classes);
        let share = |leaf: LeafId| {
            let member = members.get(leaf.0 as usize).filter(|member| classes.get(&member.class) == Some(&leaf))?;
            Some(TreeShare::of(spec.scheduler, &member.spec, &spec))
        };
        let changed = path.change_link(now, spec, share);
        debug_assert!(changed.is_ok(), "a share is made for its scheduler");
        for leaf in self.classes.values() {
            let member = &self.members[leaf.0 as usize];
            let parts = parts(&spec, member.spec.queue, member.conditioner);
            // Only what a slower link cannot carry is refused: the conditioner stays as it was.
            let _ = path.change_leaf(now, *leaf, &parts);
        }
        self.arrange(now);
        Ok(())
    }

    /// Goes back to one FIFO; it takes the packets of the classes as far as there is room.
    fn drop_link(&mut self, now: Time) {
        self.claim_losses();
        self.separate(now);
        let Some(mut path) = self.path.take() else { return };
        for leaf in (0..self.members.len() as u32).map(LeafId) {
            if self.classes.get(&self.members[leaf.0 as usize].class) == Some(&leaf) {
                let removed = path.remove_leaf(now, leaf);
                debug_assert!(removed.is_ok(), "every class is directly below the link");
            }
        }
        while let Some(loss) = path.poll_loss() {
            let (packet, wire) = (loss.packet, path.wire_bytes(loss.packet.len));
            if self.plain.push(&mut self.pool, wire, packet).is_err() {
                let class = self.members[loss.leaf.0 as usize].class;
                self.lost.push_back(PortLoss { packet, class, why: Drop::Purged });
            }
        }
        self.classes.clear();
        self.name_defaults();
        self.members.clear();
        self.flows = Flows::new(self.key, self.limits.flows);
    }

    /// Moves the path's losses to the port's own, before their class's name is gone.
    fn claim_losses(&mut self) {
        let Some(path) = &mut self.path else { return };
        while let Some(loss) = path.poll_loss() {
            let member = &mut self.members[loss.leaf.0 as usize];
            if loss.why != Drop::Purged {
                member.counters.over_packets += 1;
                member.counters.over_bytes += u64::from(path.wire_bytes(loss.packet.len));
            }
            self.lost.push_back(PortLoss { packet: loss.packet, class: member.class, why: loss.why });
        }
    }

    fn set_class(&mut self, now: Time, class: ClassId, spec: ClassSpec) -> Result<(), PortRefused> {
        let path = self.path.as_mut().ok_or(PortRefused::NoLink)?;
        if class == ClassId::LINK {
            return Err(PortRefused::Root);
        }
        let link = *path.link();
        let share = TreeShare::of(link.scheduler, &spec, &link);
        if let Some(&leaf) = self.classes.get(&class) {
            let joined = self.joined.is_some_and(|joined| joined.contains(&leaf));
            let member = &mut self.members[leaf.0 as usize];
            if member.spec == spec {
                return Ok(());
            }
            if member.spec.queue != spec.queue {
                let wanted = checked(&link, spec.queue, member.conditioner)?;
                path.change_leaf(now, leaf, &wanted).map_err(|fault| PortRefused::Conditioner("", fault))?;
            }
            if !joined {
                path.change_share(now, leaf, share).map_err(|_| PortRefused::UnknownClass(class))?;
            }
            member.spec = spec;
            self.arrange(now);
            return Ok(());
        }
        if self.classes.len() >= self.limits.classes {
            return Err(PortRefused::Classes);
        }
        let added = path.add_leaf(now, InnerId::LINK, share, &parts(&link, spec.queue, None));
        let leaf = added.ok().flatten().ok_or(PortRefused::Classes)?;
        path.reserve();
        let member = Member { class, spec, conditioner: None, counters: Counters::default(), flows: 0 };
        match self.members.get_mut(leaf.0 as usize) {
            Some(vacant) => *vacant = member,
            None => self.members.push(member),
        }
        self.classes.insert(class, leaf);
        self.name_defaults();
        self.arrange(now);
        Ok(())
    }

    fn drop_class(&mut self, now: Time, class: ClassId) -> Result<(), PortRefused> {
        let Some(&leaf) = self.classes.get(&class) else { return Ok(()) };
        if self.members[leaf.0 as usize].flows > 0 {
            return Err(PortRefused::FlowsRemain(class));
        }
        if self.is_joined(leaf) {
            self.separate(now);
        }
        let Some(path) = &mut self.path else { return Ok(()) };
        path.remove_leaf(now, leaf).map_err(|_| PortRefused::UnknownClass(class))?;
        self.claim_losses();
        self.classes.remove(&class);
        self.name_defaults();
        Ok(())
    }

    fn set_conditioner(
        &mut self,
        now: Time,
        class: ClassId,
        wanted: Option<ConditionerSpec>,
    ) -> Result<(), PortRefused> {
        let path = self.path.as_mut().ok_or(PortRefused::NoLink)?;
        let leaf = *self.classes.get(&class).ok_or(PortRefused::UnknownClass(class))?;
        let member = &mut self.members[leaf.0 as usize];
        if member.conditioner == wanted {
            return Ok(());
        }
        let parts = checked(path.link(), member.spec.queue, wanted)?;
        path.change_leaf(now, leaf, &parts).map_err(|fault| PortRefused::Conditioner("", fault))?;
        member.conditioner = wanted;
        self.arrange(now);
        Ok(())
    }

    fn set_flow(&mut self, now: Time, key: FlowKey, entry: FlowSpecEntry) -> Result<(), PortRefused> {
        if self.path.is_none() {
            return Err(PortRefused::NoLink);
        }
        let leaf = *self.classes.get(&entry.class).ok_or(PortRefused::UnknownClass(entry.class))?;
        let had = self.flows.set(now, key, entry, leaf).map_err(|TooMany| PortRefused::Flows)?;
        if let Some(had) = had {
            self.members[had.0 as usize].flows -= 1;
        }
        self.members[leaf.0 as usize].flows += 1;
        Ok(())
    }

    fn name_defaults(&mut self) {
        self.best_effort = self.classes.get(&ClassId::BEST_EFFORT).copied();
        self.control = self.classes.get(&ClassId::CONTROL).copied();
    }
}

/// The leaf of a class. Its queue counts bytes on the wire.
fn parts(link: &LinkSpec, queue: QueueSpec, conditioner: Option<ConditionerSpec>) -> LeafParts {
    LeafParts { conditioner: conditioner.unwrap_or_default(), queue, overhead: link.overhead }
}

/// The same, refused if a conditioner cannot work beside this queue.
fn checked(link: &LinkSpec, queue: QueueSpec, conditioner: Option<ConditionerSpec>) -> Result<LeafParts, PortRefused> {
    if let Some(spec) = &conditioner {
        conditioner::check(spec, &queue, link.rate).map_err(|(part, fault)| PortRefused::Conditioner(part, fault))?;
    }
    Ok(parts(link, queue, conditioner))
}
