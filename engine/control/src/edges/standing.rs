//! EdgeState that exist whatever is booked, and the removal of those that no longer have to.

use super::{EDGES_AGAIN, EdgeState, EdgeTurn, LONGEST, Purpose};
use crate::io::{Event, PlanId};
use crate::outbox::ControlOutput;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use terms::{Fault, IfIndex, Time};
use traffic::edge::EdgeAt;
use traffic::plan::PlanOp;

impl EdgeTurn<'_> {
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
    fn make_standing(&mut self) {
        let standing = &mut self.edges.standing;
        (standing.stands, standing.failed, standing.again) = (false, false, None);
        let edges: Vec<EdgeAt> = standing.edges.iter().copied().collect();
        (standing.open, standing.round) = (edges.len(), standing.round + 1);
        let round = standing.round;
        if edges.is_empty() {
            self.out.say(ControlOutput::Trust(self.edges.standing.trusted.clone()));
        }
        edges.into_iter().for_each(|at| self.send_edge(vec![PlanOp::Edge { at }], Purpose::Standing(round)));
    }

    pub(super) fn standing_done(&mut self, now: Time, id: PlanId, round: u64, result: Result<(), Fault>) {
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
            self.out.say(ControlOutput::Trust(trusted));
        }
        if let Some(fault) = tell {
            self.out.say(ControlOutput::Event(Event::PlaneFault { id, fault }));
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
                    let id = self.out.number();
                    self.out.say(ControlOutput::Event(Event::PlaneFault { id, fault }));
                }
            }
        }
    }

    /// Tries again what failed at the edges, if it is time.
    pub(crate) fn wake(&mut self, now: Time) {
        if self.edges.standing.again.is_some_and(|again| again <= now) {
            self.make_standing();
        }
        if self.edges.leftovers.again.is_some_and(|again| again <= now) {
            self.tidy_again();
        }
        self.wake_slas(now);
    }

    /// Removes all edges, because the agent stops.
    pub(crate) fn stop(&mut self) {
        let EdgeState { rules, found_edges, standing, plane, told, .. } = core::mem::take(self.edges);
        (self.edges.plane, self.edges.told) = (plane, told);
        let all: BTreeSet<EdgeAt> =
            rules.into_keys().map(|(at, _)| at).chain(found_edges).chain(standing.edges).collect();
        all.into_iter().for_each(|at| self.send_edge(vec![PlanOp::DropEdge { at }], Purpose::Tidy));
        self.out.say(ControlOutput::Trust(BTreeSet::new()));
    }

    /// Tries again to remove what could not be removed, unless it has become needed.
    fn tidy_again(&mut self) {
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
