//! Updating the plane: due changes on an interface become one batch as soon as no other is in progress there.

use crate::io::PlanId;
use crate::link::Link;
use crate::order;
use crate::plane::{Due, Shadow};
use crate::tc::{ControlOutput, Tc};
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

    /// Updates the base classes, these classes and all flows that differ, as soon as no batch is in progress
    /// on the interface. A reservation that waits for it (`waits`) is told when it is installed.
    pub(crate) fn sync(&mut self, oif: IfIndex, classes: &[ClassId], waits: Option<RHandle>) {
        if let Some(held) = waits.and_then(|handle| self.held.get_mut(handle)) {
            held.pending += 1;
        }
        let own = classes.iter().copied().filter(|&class| class >= ClassId::FIRST_OWN);
        let due = Due { classes: own.collect(), all: false, waits: waits.into_iter().collect() };
        self.plane.put(oif, due);
        self.proceed(oif);
    }

    /// Updates all of an interface, after the ledger's notices.
    pub(crate) fn sync_all(&mut self, now: Time, oif: IfIndex) {
        self.heed_ledger(now, oif);
        self.plane.put(oif, Due { all: true, ..Due::default() });
        self.proceed(oif);
    }

    /// Sends the next batch of an interface, if one is due and allowed.
    pub(crate) fn proceed(&mut self, oif: IfIndex) {
        let Some(due) = self.plane.take(oif) else { return };
        let ops = self.steps_for(oif, &due);
        if ops.is_empty() {
            self.tell_installed(&due.waits);
            return;
        }
        let id: PlanId = self.plane.tell(oif, &ops, due);
        self.say(ControlOutput::Plan(id, ops));
    }

    /// Reports these reservations as installed: one answer for each call of `add` or `modify`.
    pub(crate) fn tell_installed(&mut self, waits: &[RHandle]) {
        for &handle in waits {
            if let Some(held) = self.held.get_mut(handle) {
                held.pending = held.pending.saturating_sub(1);
                self.say(ControlOutput::Installed(handle, Ok(())));
            }
        }
    }

    fn steps_for(&mut self, oif: IfIndex, due: &Due) -> Vec<PlanOp> {
        let Some(link) = self.links.get(&oif) else {
            let there = self.plane.link(oif).is_some_and(Shadow::is_there);
            return if there { vec![PlanOp::DropLink { oif }] } else { Vec::new() };
        };
        let mut want = core::mem::take(&mut self.scratch);
        want.classes.clear();
        want.flows.clear();
        want.link = Some(link.terms.spec);
        self.classes_due(oif, link, due, &mut want.classes);
        self.plane.link_mut(oif).differing(&self.held, &mut want.flows);
        let ops = order::steps(oif, self.plane.link(oif), &want);
        // Not what a start with a million flows needed.
        if want.flows.capacity() <= SCRATCH {
            self.scratch = want;
        }
        ops
    }

    /// The wanted state of the due classes, in order.
    pub(crate) fn classes_due(
        &self,
        oif: IfIndex,
        link: &Link,
        due: &Due,
        wanted: &mut Vec<(ClassId, Option<ClassSpec>)>,
    ) {
        wanted.extend(link.base());
        let mut own: Vec<ClassId> = due.classes.iter().copied().filter(|&class| class >= ClassId::FIRST_OWN).collect();
        if due.all {
            own.extend(link.own.keys());
            let told = self.plane.link(oif).into_iter().flat_map(|told| told.classes.range(ClassId::FIRST_OWN..));
            own.extend(told.map(|(&class, _)| class));
        }
        own.sort_unstable();
        own.dedup();
        for class in own {
            let whose = link.own.get(&class).and_then(|handle| self.held.get(*handle));
            wanted.push((class, whose.map(|held| link.own_class(held))));
        }
    }
}
