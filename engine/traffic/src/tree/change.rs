//! Live change of one node or of the link, without an effect on the others.
//!
//! Only the parts that a change can break are checked again: a leaf's description by itself, a leaf's share beside
//! its siblings'. Shares of inner nodes, service curves and the link's rate affect the whole tree, and all of it is
//! checked.

use super::check::{self, Survey};
use super::fault::{TreeFault, Unworkable};
use super::spec::{LeafSpec, NodeKind};
use super::{LeafId, Place, SchedulerKind, Tree, TreeShare};
use crate::conditioner::ConditionerFault;
use crate::path::InnerId;
use alloc::boxed::Box;
use terms::{Rate, Time};

impl Tree {
    /// Changes a leaf's description at once. Its packets stay in order; credit, averages and counters carry
    /// over if old and new are of one kind. If the shaper goes, its packets pass the meter now.
    ///
    /// # Errors
    /// [`Unworkable`]; the tree is unchanged.
    pub fn change(&mut self, now: Time, name: &str, leaf: LeafSpec) -> Result<(), Unworkable> {
        let id = self.leaf(name).ok_or_else(|| unknown(name, TreeFault::UnknownLeaf))?;
        let node = self.nodes[id.0 as usize];
        let NodeKind::Leaf(known) = &self.spec.nodes[node].kind else {
            return Err(unknown(name, TreeFault::UnknownLeaf));
        };
        check::replacement(&self.spec, &self.survey, self.rules.count(), node, (known, &leaf))?;
        let other_rules = known.rules != leaf.rules;
        let fault =
            |fault: ConditionerFault| Unworkable { path: name.into(), node: Some(node), part: "", fault: fault.into() };
        self.path.change_leaf(now, id, &leaf.parts()).map_err(fault)?;
        self.spec.nodes[node].kind = NodeKind::Leaf(Box::new(leaf));
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
        let node = self.node(name).ok_or_else(|| unknown(name, TreeFault::UnknownNode))?;
        let old = core::mem::replace(&mut self.spec.nodes[node].share, share);
        let leaf = matches!(self.spec.nodes[node].kind, NodeKind::Leaf(_));
        let curves = check::sharing(&self.spec, self.survey.parents[node]) == SchedulerKind::Hfsc;
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
        let changed = match self.places[node] {
            Place::Leaf(id) => self.path.change_share(now, id, share),
            Place::Inner(id) => self.path.change_inner_share(now, id, share),
        };
        changed.map_err(|_| unknown(name, TreeFault::UnknownNode))?;
        self.apply(survey);
        Ok(())
    }

    /// Changes the rate of the link.
    ///
    /// # Errors
    /// [`Unworkable`], for instance if the shares no longer fit; the tree is unchanged.
    pub fn change_link(&mut self, now: Time, rate: Rate) -> Result<(), Unworkable> {
        self.path.advance(now);
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
        self.path.change_rate(InnerId::LINK, self.spec.link.rate);
        for (place, rate) in self.places.iter().zip(&survey.rates) {
            if let Place::Inner(inner) = place {
                self.path.change_rate(*inner, *rate);
            }
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
        match self.places[self.node(name)?] {
            Place::Leaf(id) => Some(id),
            Place::Inner(_) => None,
        }
    }
}

fn unknown(name: &str, fault: TreeFault) -> Unworkable {
    Unworkable { path: name.into(), node: None, part: "", fault }
}
