//! Promises are counted again after a start, the return of a resource, or a change of the clock.

use super::Life;
use crate::io::EventKind;
use crate::reservations::{Number, Part};
use alloc::vec::Vec;
use terms::Span;
use terms::book::ResourceId;
use terms::ports::Ledger;

/// The change of calendar time against the agent's clock, in nanoseconds, above which the ledger is written
/// anew. A smaller one does not matter to a window's edges.
pub(crate) const MOVED: u64 = Span::from_millis(50).as_nanos();
/// Most reservations that have an event of their own when their resource has less than was promised.
const TOLD_SHORT: usize = 1_024;

impl<L: Ledger> Life<'_, L> {
    /// Calendar time has moved against the agent's clock. What lies ahead again is looked at again.
    pub(crate) fn clock_moved(&mut self) {
        for number in self.table.numbers() {
            let freed = self.table.take_slots(number, None);
            self.give_back(freed);
        }
        self.count_anew();
    }

    /// Counts everything that has no slots, in order of creation, and applies the changes by time since the last run.
    pub(crate) fn count_anew(&mut self) {
        let numbers = self.table.numbers();
        for &number in &numbers {
            self.adopt(number, |_| true);
        }
        for number in numbers {
            self.follow(number);
        }
    }

    /// A resource has come, gone, or changed.
    pub(crate) fn resource_changed(&mut self, id: ResourceId) {
        let resources = self.table.resources();
        let resource = match self.ledger.offer(id) {
            Some(offer) => resources.find(&offer.name),
            None => resources.iter().find(|(_, resource)| resource.id() == Some(id)).map(|(place, _)| place),
        };
        let Some(resource) = resource else { return };
        let is = self.ledger.resource(resources.get(resource).name());
        if self.table.set_resource(resource, is) {
            self.replace(resource);
        }
        self.background.touch(resource);
        self.tell_short(resource);
    }

    /// Handles a resource with another ledger, or none: makes its slots anew, and issues its orders again.
    fn replace(&mut self, resource: u32) {
        let users: Vec<Number> = self.table.resources().get(resource).users().iter().copied().collect();
        for number in users {
            // The slots were in a ledger that is no more.
            self.table.take_slots(number, Some(resource));
            self.adopt(number, |part| part.resource == resource);
            let parts = self.table.get(number).into_iter().flat_map(|r| r.parts.iter().enumerate());
            for (n, _) in parts.filter(|(_, part)| part.resource == resource) {
                self.enforcement.untold(resource, (number, n));
            }
        }
    }

    /// Reports a shortage to the reservations whose window is open at its first instant (FAULTS.md T4).
    fn tell_short(&mut self, resource: u32) {
        let its = self.table.resources().get(resource);
        let missing = its.id().and_then(|id| self.ledger.missing(id));
        let (kind, worst) = (its.kind(), missing.map_or(0, |missing| missing.worst));
        let before = self.table.set_missing(resource, worst);
        let Some(missing) = missing.filter(|_| worst > before) else { return };
        let first = self.calendar.offset().calendar(missing.first);
        let mut told = 0;
        for &number in self.table.resources().get(resource).users() {
            let Some(r) = self.table.get(number) else { continue };
            let concerned =
                |part: &Part| part.resource == resource && part.background.is_none() && part.amount(first) > 0;
            let Some(part) = r.parts.iter().position(concerned) else { continue };
            self.journal.note(number, EventKind::Short { part, kind, first, missing: worst });
            told += 1;
            if told >= TOLD_SHORT {
                return;
            }
        }
    }
}
