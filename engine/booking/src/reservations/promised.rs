//! The change of a reservation that is promised to a coordinator. It counts as much as the reservation itself: in the
//! ledger, in the sums of policy and among the bindings.

use super::Reservations;
use super::reservation::{Number, Part};
use crate::state::LifeStep;
use alloc::boxed::Box;
use alloc::vec::Vec;
use commit::{Branch, CoordinatorName};
use terms::book::Binding;

/// A promised change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Promised {
    pub branch: Branch,
    pub coordinator: CoordinatorName,
    pub change: Prepared,
}

/// The change that a decision makes true or drops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Prepared {
    /// It is made.
    Create,
    /// The hold is booked.
    Hold,
    /// Amounts, windows or the label change.
    Modify {
        next: Vec<Part>,
        label: Box<str>,
        /// The pieces of each part that exceed the old ones, with their slots.
        grown: Vec<Part>,
    },
    /// A part is bound to other packets or processes.
    Bind { part: usize, binding: Option<Binding> },
}

impl Prepared {
    /// Its name in documents.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Prepared::Create => "create",
            Prepared::Hold => "hold",
            Prepared::Modify { .. } => "modify",
            Prepared::Bind { .. } => "bind",
        }
    }

    /// The pieces that count beside the reservation's own parts.
    pub(crate) fn grown(&self) -> &[Part] {
        if let Prepared::Modify { grown, .. } = self { grown } else { &[] }
    }
}

impl Reservations {
    /// The change counts from now on.
    pub(crate) fn promise(&mut self, number: Number, promised: Promised) {
        self.count_promise(number, &promised.change, 1);
        if let Some(r) = self.all.get_mut(&number) {
            r.promise = Some(Box::new(promised));
        }
    }

    /// The change does not count any more: it is true now, or dropped. Returns it.
    pub(crate) fn unpromise(&mut self, number: Number) -> Option<Promised> {
        let promised = self.all.get_mut(&number)?.promise.take()?;
        self.count_promise(number, &promised.change, -1);
        Some(*promised)
    }

    fn count_promise(&mut self, number: Number, change: &Prepared, sign: i64) {
        let Some(r) = self.all.get(&number) else { return };
        for part in change.grown() {
            self.sums.add(r.owner, self.grants.get(part.grant), part, sign);
        }
        if let Prepared::Bind { part, binding: Some(binding) } = change
            && let Some(at) = r.parts.get(*part)
        {
            let place = (number, *part);
            // A part that is bound so already is in the index, and stays.
            match sign {
                _ if at.binding.as_ref() == Some(binding) => {}
                1 => self.bound.insert(at.resource, binding, place),
                _ => self.bound.remove(at.resource, binding, place),
            }
        }
    }

    /// The batch that promises it is written.
    pub(crate) fn promised(&mut self, number: Number) {
        self.born(number);
        let Some(r) = self.all.get_mut(&number) else { return };
        let is_hold = r.promise.as_ref().is_some_and(|promised| promised.change == Prepared::Hold);
        if is_hold && let Ok(state) = r.state.after(LifeStep::Promise) {
            r.state = state;
            r.version += 1;
            self.owners.committed(r.owner);
        }
    }

    /// The batch that keeps a promised creation, or a promised hold, is written.
    pub(crate) fn kept(&mut self, number: Number) {
        self.settle(number);
        let Some(r) = self.all.get_mut(&number) else { return };
        if let Ok(state) = r.state.after(LifeStep::Keep) {
            r.state = state;
            r.version += 1;
        }
    }

    /// The batch that withdraws the promise of a hold is written: it is held as before.
    pub(crate) fn withdrawn(&mut self, number: Number) {
        self.settle(number);
        let Some(r) = self.all.get_mut(&number) else { return };
        if let Ok(state) = r.state.after(LifeStep::Withdraw) {
            r.state = state;
            r.version += 1;
            self.owners.held_again(r.owner);
        }
    }

    /// Frees the key of a request that has had no effect.
    pub(crate) fn free_key(&mut self, number: Number) {
        if let Some(r) = self.all.get_mut(&number)
            && let Some(mark) = r.key.take()
        {
            self.keys.remove(&(r.owner, mark.key));
        }
    }
}
