//! Edges that exist whatever is booked, and the removal of those that no longer have to.

use crate::edges::{EDGES_AGAIN, Edges, LONGEST, Purpose};
use crate::io::{Event, PlanId};
use crate::tc::{ControlOutput, Tc};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use terms::{Fault, IfIndex, Time};
use traffic::edge::EdgeAt;
use traffic::plan::PlanOp;

impl Tc {
    /// Sets the edges that exist whatever is booked, and the interfaces whose marks are trusted. Marks are
    /// trusted only when all edges are in force ([`ControlOutput::Trust`]).
    pub fn stand(&mut self, edges: &BTreeSet<EdgeAt>, trusted: &BTreeSet<IfIndex>) {
        let standing = &mut self.edges.standing;
        if standing.stands && standing.edges == *edges && standing.trusted == *trusted {
            return;
        }
        let old = core::mem::replace(&mut standing.edges, edges.clone());
        standing.trusted.clone_from(trusted);
        for &at in old.difference(edges) {
            // Of an interface that has gone or is down.
            if !self.edges.is_used(at) {
                self.send_edge(vec![PlanOp::DropEdge { at }], Purpose::Tidy);
            }
        }
        self.make_standing();
    }

    /// Makes the edges that stand, each by itself: one that cannot be made leaves the others.
    pub(crate) fn make_standing(&mut self) {
        let standing = &mut self.edges.standing;
        (standing.stands, standing.failed, standing.again) = (false, false, None);
        let edges: Vec<EdgeAt> = standing.edges.iter().copied().collect();
        (standing.open, standing.round) = (edges.len(), standing.round + 1);
        let round = standing.round;
        if edges.is_empty() {
            self.say(ControlOutput::Trust(self.edges.standing.trusted.clone()));
        }
        edges.into_iter().for_each(|at| self.send_edge(vec![PlanOp::Edge { at }], Purpose::Standing(round)));
    }

    pub(crate) fn standing_done(&mut self, now: Time, id: PlanId, round: u64, result: Result<(), Fault>) {
        let standing = &mut self.edges.standing;
        if round != standing.round {
            return;
        }
        standing.open = standing.open.saturating_sub(1);
        standing.failed |= result.is_err();
        let tell = result.err().filter(|_| !core::mem::replace(&mut standing.told, true));
        if standing.open == 0 && standing.failed {
            standing.again = Some(now + EDGES_AGAIN);
        } else if standing.open == 0 {
            let trusted = standing.trusted.clone();
            self.say(ControlOutput::Trust(trusted));
        }
        if let Some(fault) = tell {
            self.say(ControlOutput::Event(Event::PlaneFault { id, fault }));
        }
    }

    /// Takes the answer to [`ControlOutput::Trust`].
    pub fn trusted(&mut self, now: Time, result: Result<(), Fault>) {
        let standing = &mut self.edges.standing;
        standing.stands = result.is_ok();
        match result {
            Ok(()) => standing.told = false,
            Err(fault) => {
                standing.again = Some(now + EDGES_AGAIN);
                if !core::mem::replace(&mut standing.told, true) {
                    let id = self.plane.number();
                    self.say(ControlOutput::Event(Event::PlaneFault { id, fault }));
                }
            }
        }
    }

    /// The time at which something at the edges is tried again.
    pub(crate) fn edges_wake_at(&self) -> Option<Time> {
        [self.edges.standing.again, self.edges.leftovers.again].into_iter().flatten().min()
    }

    /// Tries again what failed at the edges, if it is time.
    pub(crate) fn wake_edges(&mut self, now: Time) {
        if self.edges.standing.again.is_some_and(|again| again <= now) {
            self.make_standing();
        }
        if self.edges.leftovers.again.is_some_and(|again| again <= now) {
            self.tidy_again();
        }
    }

    /// Removes all edges, because the agent stops.
    pub(crate) fn stop_edges(&mut self) {
        let Edges { rules, found_edges, standing, plane, .. } = core::mem::take(&mut self.edges);
        self.edges.plane = plane;
        let all: BTreeSet<EdgeAt> =
            rules.into_keys().map(|(at, _)| at).chain(found_edges).chain(standing.edges).collect();
        all.into_iter().for_each(|at| self.send_edge(vec![PlanOp::DropEdge { at }], Purpose::Tidy));
        self.say(ControlOutput::Trust(BTreeSet::new()));
    }

    /// Tries again to remove what could not be removed, unless it has become needed.
    pub(crate) fn tidy_again(&mut self) {
        let left = &mut self.edges.leftovers;
        (left.again, left.wait) = (None, left.wait.mul_div_ceil(2, 1).min(LONGEST));
        let mut ops: BTreeMap<EdgeAt, Vec<PlanOp>> = BTreeMap::new();
        for op in core::mem::take(&mut left.ops) {
            match op {
                PlanOp::DropRule { at, fields } if !self.edges.rules.contains_key(&(at, fields)) => {
                    ops.entry(at).or_default().push(op);
                }
                PlanOp::DropEdge { at } if !self.edges.stays(at) => ops.entry(at).or_default().push(op),
                _ => {}
            }
        }
        ops.into_values().for_each(|ops| self.send_edge(ops, Purpose::Tidy));
    }
}
