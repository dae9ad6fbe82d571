//! For tests: a check that all sums and indexes agree with the reservations (FAULTS.md I2, I10), and a digest
//! of the state (I5, I9).

use super::{Part, Reservations, accounts};
use crate::state::BookingState;
use alloc::collections::BTreeMap;
use terms::Time;

impl Reservations {
    /// A digest of every reservation, its owner, and the sums: equal states, equal digests. Counters of calls
    /// (numbers of batches, events and orders) are not part of it.
    pub(crate) fn digest(&self) -> u64 {
        let mut all = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |bytes: &[u8]| {
            for byte in bytes {
                all = (all ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for r in self.all.values() {
            mix(&self.encoded(r));
            mix(&[u8::from(r.busy.is_some()), u8::from(r.unborn), u8::from(r.promise.is_some())]);
        }
        for (place, owner) in self.owners.iter().filter(|(_, owner)| !owner.numbers().is_empty()) {
            mix(owner.name().as_bytes());
            mix(&(owner.live() as u64).to_be_bytes());
            mix(&(owner.held() as u64).to_be_bytes());
            for step in self.sums.owners(place).flat_map(|(_, total)| total.steps()) {
                mix(&step.0.as_nanos().to_be_bytes());
                mix(&step.1.to_be_bytes());
            }
        }
        mix(&(self.live as u64).to_be_bytes());
        mix(&(self.keys.len() as u64).to_be_bytes());
        all
    }

    /// Checks all indexes and sums against the reservations. Takes time in proportion to them.
    ///
    /// # Errors
    /// The table or sum that does not agree; our own fault.
    pub(crate) fn audit(&self) -> Result<(), &'static str> {
        let over = self.all.values().filter(|r| r.state.is_over()).count();
        if self.live != self.all.len() - over || self.finished.len() != over {
            return Err("the number of live reservations");
        }
        if self.handles.len() != self.all.len() {
            return Err("the table of handles");
        }
        let keyed = self.all.values().filter_map(|r| Some(((r.owner, r.key.as_ref()?.key.clone()), r.number)));
        if keyed.collect::<BTreeMap<_, _>>() != self.keys {
            return Err("the table of keys");
        }
        let looks = self.all.values().filter(|r| r.look != Time::FOREVER).map(|r| (r.look, r.number));
        if !looks.eq(self.all.values().filter_map(|r| Some(*self.agenda.get(&(r.look, r.number))?)))
            || self.agenda.len() != self.all.values().filter(|r| r.look != Time::FOREVER).count()
        {
            return Err("the agenda");
        }
        if self.all.values().any(|r| r.promise.is_some() && r.state.is_over()) {
            return Err("a promise of what is over");
        }
        self.audit_owners()?;
        self.audit_grants()?;
        self.audit_resources()
    }

    fn audit_owners(&self) -> Result<(), &'static str> {
        for (place, owner) in self.owners.iter() {
            let own = || self.all.values().filter(move |r| r.owner == place);
            let live = || own().filter(|r| !r.state.is_over());
            if owner.live() != live().count()
                || owner.held() != live().filter(|r| r.state == BookingState::Held).count()
            {
                return Err("the counts of an owner");
            }
            if !own().map(|r| r.number).eq(owner.numbers().iter().copied()) {
                return Err("the reservations of an owner");
            }
            for (resource, total) in self.sums.owners(place) {
                let parts =
                    || live().flat_map(|r| r.counted()).filter(|p| p.resource == resource && p.background.is_none());
                let sum = |t: Time| parts().map(|part| part.amount(t)).sum::<u64>();
                if total.steps().any(|(at, level)| level != sum(at)) {
                    return Err("the sum of an owner");
                }
                if parts()
                    .flat_map(|part| &part.steps)
                    .any(|step| total.level(step.window.start()) != sum(step.window.start()))
                {
                    return Err("the sum of an owner lacks an edge");
                }
            }
        }
        Ok(())
    }

    fn audit_grants(&self) -> Result<(), &'static str> {
        let live = || self.all.values().filter(|r| !r.state.is_over()).flat_map(|r| r.counted());
        for (account, resource, total) in self.sums.rules() {
            let counts = |part: &&Part| {
                let granted = || accounts(self.grants.get(part.grant));
                part.resource == resource && part.background.is_none() && granted().any(|one| one == *account)
            };
            let sum = |t: Time| live().filter(counts).map(|part| part.amount(t)).sum::<u64>();
            let edges = live().filter(counts).flat_map(|part| &part.steps).map(|step| step.window.start());
            if total.steps().any(|(at, level)| level != sum(at))
                || edges.into_iter().any(|at| total.level(at) != sum(at))
            {
                return Err("the sum of a rule");
            }
        }
        for (resource, total) in self.sums.all() {
            let counts = |part: &&Part| part.resource == resource && part.background.is_none();
            let sum = |t: Time| live().filter(counts).map(|part| part.amount(t)).sum::<u64>();
            if total.steps().any(|(at, level)| level != sum(at)) {
                return Err("the sum of everybody");
            }
        }
        Ok(())
    }

    fn audit_resources(&self) -> Result<(), &'static str> {
        for (place, resource) in self.resources.iter() {
            let users = self.all.values().filter(|r| !r.state.is_over());
            let users = users.filter(|r| r.parts.iter().any(|part| part.resource == place)).map(|r| r.number);
            if !users.eq(resource.users().iter().copied()) {
                return Err("the users of a resource");
            }
        }
        Ok(())
    }
}
