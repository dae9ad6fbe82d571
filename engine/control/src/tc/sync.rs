//! Updating the plane: at the end of a turn, all due changes on an interface become one batch, unless another is in
//! progress there.

use super::Tc;
use crate::classes::ReservedLoad;
use crate::link::Link;
use crate::order;
use crate::outbox::ControlOutput;
use crate::plane::{Due, Shadow};
use crate::search::Search;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{IfIndex, Time};
use traffic::plan::{ClassId, ClassSpec, PlanOp};

/// The most differences whose memory is kept.
const SCRATCH: usize = 256;

impl Tc {
    /// Updates the plane for a reservation that waits for it.
    pub(crate) fn sync_reservation(&mut self, handle: RHandle) {
        let Some(held) = self.held.get(handle) else { return };
        let (oif, class) = (held.oif, held.class);
        self.sync(oif, &[class], Some(handle));
    }

    /// Updates the base classes, these classes and all flows that differ, at the end of the turn. A reservation
    /// that waits for it (`waits`) is told when it is installed.
    pub(crate) fn sync(&mut self, oif: IfIndex, classes: &[ClassId], waits: Option<RHandle>) {
        if let Some(held) = waits.and_then(|handle| self.held.get_mut(handle)) {
            held.pending += 1;
        }
        let own = classes.iter().copied().filter(|&class| class >= ClassId::FIRST_OWN);
        let due = Due { classes: own.collect(), all: false, waits: waits.into_iter().collect() };
        self.plane.put(oif, due);
    }

    /// Updates all of an interface, after the ledger's notices.
    pub(crate) fn sync_all(&mut self, now: Time, oif: IfIndex) {
        self.read_ledger(now, oif);
        self.plane.put(oif, Due { all: true, ..Due::default() });
    }

    /// Ends a turn: draws the next batch of each interface where one is due and allowed. Call it after all
    /// requests, answers and notices that came together, and then drain [`Tc::poll`]. True if there is
    /// anything to poll.
    pub fn end_turn(&mut self) -> bool {
        for oif in self.plane.due() {
            self.proceed(oif);
        }
        !self.out.is_empty()
    }

    /// Sends the next batch of an interface, if one is due and allowed.
    fn proceed(&mut self, oif: IfIndex) {
        loop {
            let searched = self.searches.get(&oif).is_some_and(Search::goes_on);
            let Some(mut due) = self.plane.take(oif, searched) else { return };
            let apart = self.next_group(oif, &mut due);
            let ops = self.steps_for(oif, &due, apart);
            if !ops.is_empty() {
                let id = self.out.number();
                self.plane.tell(id, oif, &ops, due);
                return self.out.say(ControlOutput::Plan(id, ops));
            }
            self.tell_installed(&due.waits);
            self.batch_succeeded(oif);
        }
    }

    /// Reports these reservations as installed: one answer for each call of `add` or `modify`.
    pub(crate) fn tell_installed(&mut self, waits: &[RHandle]) {
        for &handle in waits {
            if let Some(held) = self.held.get_mut(handle) {
                held.pending = held.pending.saturating_sub(1);
                let installed = super::measured::installed(handle, held, Ok(()));
                self.out.say(installed);
            }
        }
    }

    fn steps_for(&mut self, oif: IfIndex, due: &Due, apart: BTreeSet<RHandle>) -> Vec<PlanOp> {
        let Some(link) = self.links.get(&oif) else {
            let there = self.plane.link(oif).is_some_and(Shadow::is_there);
            return if there { vec![PlanOp::DropLink { oif }] } else { Vec::new() };
        };
        let mut want = core::mem::take(&mut self.scratch);
        want.classes.clear();
        want.flows.clear();
        want.link = Some(link.terms.spec);
        let (apart, load) = self.load_beside(link, self.plane.link(oif), apart);
        self.classes_due(oif, link, due, &load, &mut want.classes);
        want.classes.retain(|(class, _)| !apart.keeps(*class));
        self.plane.link_mut(oif).differing(&self.held, apart.handles(), &mut want.flows);
        let ops = order::steps(oif, self.plane.link(oif), &want);
        // Not what a start with a million flows needed.
        if want.flows.capacity() <= SCRATCH {
            self.scratch = want;
        }
        ops
    }

    /// The wanted state of the due classes under this load, in order.
    pub(crate) fn classes_due(
        &self,
        oif: IfIndex,
        link: &Link,
        due: &Due,
        load: &ReservedLoad,
        wanted: &mut Vec<(ClassId, Option<ClassSpec>)>,
    ) {
        let told = self.plane.link(oif);
        wanted.extend(link.base(load, told));
        let mut own: Vec<ClassId> = due.classes.iter().copied().filter(|&class| class >= ClassId::FIRST_OWN).collect();
        if due.all {
            own.extend(link.own.keys());
            own.extend(
                told.into_iter().flat_map(|told| told.classes.range(ClassId::FIRST_OWN..)).map(|(&class, _)| class),
            );
        }
        own.sort_unstable();
        own.dedup();
        for class in own {
            let whose = link.own.get(&class).and_then(|handle| self.held.get(*handle));
            wanted.push((class, whose.map(|held| link.own_class(held))));
        }
    }
}
