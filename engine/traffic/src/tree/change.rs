//! Live change of one node or of the link, without an effect on the others.
//!
//! Only the parts that a change can break are checked again: a leaf's description by itself, a leaf's share beside
//! its siblings'. Shares of inner nodes, service curves and the link's rate affect the whole tree, and all of it is
//! checked.

use super::check::{self, Survey};
use super::fault::{TreeFault, Unworkable};
use super::inner::Inner;
use super::spec::{LeafSpec, NodeKind, Sharing, TreeShare};
use super::{LeafId, Tree};
use alloc::boxed::Box;
use terms::{Rate, Time};

impl Tree {
    /// Changes a leaf's description at once. Its packets stay in order; credit, averages and counters carry
    /// over if old and new are of one kind. If the shaper goes, its packets pass the meter now.
    ///
    /// # Errors
    /// [`Unworkable`]; the tree is unchanged.
    pub fn change(&mut self, now: Time, name: &str, leaf: LeafSpec) -> Result<(), Unworkable> {
        let now = self.advance(now);
        let id = self.leaf(name).ok_or_else(|| unknown(name, TreeFault::UnknownLeaf))?;
        let node = self.leaves[id.0 as usize].node;
        let NodeKind::Leaf(known) = &self.spec.nodes[node].kind else {
            return Err(unknown(name, TreeFault::UnknownLeaf));
        };
        check::replacement(&self.spec, &self.survey, self.rules.count(), node, (known, &leaf))?;
        let other_rules = known.rules != leaf.rules;
        let seat = &mut self.leaves[id.0 as usize];
        let freed = if leaf.shaper.is_none() { seat.leaf.without_shaper() } else { None };
        let fault = |fault| Unworkable { path: name.into(), node: Some(node), part: "", fault };
        seat.leaf.change(&leaf, self.spec.link.rate, now, &self.buffers).map_err(fault)?;
        self.spec.nodes[node].kind = NodeKind::Leaf(Box::new(leaf));
        self.reserve();
        let mut freed = freed;
        while let Some((_, packet)) = freed.as_mut().and_then(|queue| queue.pop(&mut self.buffers.held)) {
            let chance = self.draw();
            let seat = &mut self.leaves[id.0 as usize];
            let before = seat.leaf.backlog();
            let verdict = seat.leaf.condition(now, packet, &mut self.buffers, chance);
            self.settle(now, id, before, packet, verdict);
        }
        self.schedule(now, id);
        if other_rules {
            self.index_rules();
        }
        Ok(())
    }

    /// Changes a leaf's or an inner node's share of its parent's bandwidth, within its kind. An inner node's
    /// children share the new bandwidth as they shared the old one; the node's scheduler cannot change.
    ///
    /// # Errors
    /// [`Unworkable`]; the tree is unchanged.
    pub fn change_share(&mut self, now: Time, name: &str, share: TreeShare) -> Result<(), Unworkable> {
        let now = self.advance(now);
        let node = self.node(name).ok_or_else(|| unknown(name, TreeFault::UnknownNode))?;
        let old = core::mem::replace(&mut self.spec.nodes[node].share, share);
        let leaf = matches!(self.spec.nodes[node].kind, NodeKind::Leaf(_));
        let curves = check::sharing(&self.spec, self.survey.parents[node]) == Sharing::Hfsc;
        let checked = if leaf && !curves {
            check::beside(&self.spec, &self.survey, node).map(|()| None)
        } else {
            check::survey(&self.spec).map(Some)
        };
        let survey = match checked {
            Ok(survey) => survey,
            Err(refused) => {
                self.spec.nodes[node].share = old;
                return Err(refused);
            }
        };
        let (parent, class) = match self.places[node] as usize {
            at if leaf => (self.leaves[at].parent, self.leaves[at].class),
            at => (self.inners[at].parent, self.inners[at].class),
        };
        let changed = self.inners[parent as usize].server.change(now, class, share);
        changed.map_err(|_| unknown(name, TreeFault::UnknownNode))?;
        self.apply(survey);
        Ok(())
    }

    /// Changes the rate of the link.
    ///
    /// # Errors
    /// [`Unworkable`], for instance if the shares no longer fit; the tree is unchanged.
    pub fn change_link(&mut self, now: Time, rate: Rate) -> Result<(), Unworkable> {
        self.advance(now);
        let old = core::mem::replace(&mut self.spec.link.rate, rate);
        match check::survey(&self.spec) {
            Ok(survey) => {
                self.apply(Some(survey));
                Ok(())
            }
            Err(refused) => {
                self.spec.link.rate = old;
                Err(refused)
            }
        }
    }

    /// Applies a survey: sets the rate of each inner node.
    fn apply(&mut self, survey: Option<Survey>) {
        let Some(survey) = survey else { return };
        for Inner { node, server, .. } in &mut self.inners {
            server.change_rate(node.map_or(self.spec.link.rate, |node| survey.rates[node]));
        }
        self.survey = survey;
    }

    /// The index in [`super::TreeSpec::nodes`] of the node with this name.
    fn node(&self, name: &str) -> Option<usize> {
        let nodes = &self.spec.nodes;
        let at = self.names.binary_search_by(|&node| nodes[node as usize].name.as_str().cmp(name)).ok()?;
        Some(self.names[at] as usize)
    }

    /// The leaf with this name.
    pub fn leaf(&self, name: &str) -> Option<LeafId> {
        let node = self.node(name)?;
        matches!(self.spec.nodes[node].kind, NodeKind::Leaf(_)).then(|| LeafId(self.places[node]))
    }
}

fn unknown(name: &str, fault: TreeFault) -> Unworkable {
    Unworkable { path: name.into(), node: None, part: "", fault }
}
