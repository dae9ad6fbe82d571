//! Live change of one node; the others go on as if nothing had happened.

use super::check;
use super::fault::{TreeFault, Unworkable};
use super::inner::Child;
use super::spec::{LeafSpec, NodeKind, Share};
use super::{LeafId, Tree};
use alloc::boxed::Box;
use terms::Time;

impl Tree {
    /// Another description for a leaf, at once. Its packets stay and keep their order; credit, averages and counters go on
    /// where old and new are of one kind. If the shaper goes, what it held passes the meter now.
    ///
    /// # Errors
    /// [`Unworkable`]; nothing has changed then.
    pub fn change(&mut self, now: Time, name: &str, leaf: LeafSpec) -> Result<(), Unworkable> {
        let now = self.advance(now);
        let id = self.leaf(name).ok_or_else(|| unknown(name))?;
        let node = self.leaves[id.0 as usize].node;
        let unshaped = leaf.shaper.is_none();
        let old = core::mem::replace(&mut self.spec.nodes[node].kind, NodeKind::Leaf(Box::new(leaf)));
        if let Err(refused) = check::survey(&self.spec) {
            self.spec.nodes[node].kind = old;
            return Err(refused);
        }
        let line = self.spec.link.rate;
        let seat = &mut self.leaves[id.0 as usize];
        let freed = unshaped.then(|| seat.leaf.without_shaper());
        if let NodeKind::Leaf(leaf) = &self.spec.nodes[node].kind {
            let fault = |fault| Unworkable { path: name.into(), node: Some(node), part: "", fault };
            seat.leaf.change(leaf, line, now, &self.buffers).map_err(fault)?;
        }
        self.reserve();
        let mut freed = freed.flatten();
        while let Some((_, packet)) = freed.as_mut().and_then(|queue| queue.pop(&mut self.buffers.held)) {
            let chance = self.draw();
            let seat = &mut self.leaves[id.0 as usize];
            let before = seat.leaf.backlog();
            let verdict = seat.leaf.condition(now, packet, &mut self.buffers, chance);
            self.settle(now, id, before, packet, verdict);
        }
        self.schedule(now, id);
        self.index_rules();
        Ok(())
    }

    /// Another share for a leaf of its parent's bandwidth, of the same kind as before.
    ///
    /// # Errors
    /// [`Unworkable`]; nothing has changed then.
    pub fn change_share(&mut self, now: Time, name: &str, share: Share) -> Result<(), Unworkable> {
        let now = self.advance(now);
        let id: LeafId = self.leaf(name).ok_or_else(|| unknown(name))?;
        let seat = &self.leaves[id.0 as usize];
        let (node, parent, class) = (seat.node, seat.parent, seat.class);
        let old = core::mem::replace(&mut self.spec.nodes[node].share, share);
        if let Err(refused) = check::survey(&self.spec) {
            self.spec.nodes[node].share = old;
            return Err(refused);
        }
        let inner = &mut self.inners[parent as usize];
        debug_assert_eq!(inner.child(class), Some(Child::Leaf(id.0)));
        inner.server.change(now, class, share).map_err(|_| unknown(name))
    }
}

fn unknown(name: &str) -> Unworkable {
    Unworkable { path: name.into(), node: None, part: "", fault: TreeFault::UnknownLeaf }
}
