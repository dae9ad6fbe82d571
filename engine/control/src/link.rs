//! An interface whose link takes reservations: its ledger, its classes, and its reservations.

use crate::classes::{self, Premium, ReservedLoad};
use crate::core::SetApart;
use crate::granted::{Granted, GrantedShare};
use crate::held::{Held, MOST, Place};
use crate::io::Reservable;
use crate::plane::Shadow;
use crate::ranks::{Ranks, Victim};
use admit::{Denied, Grant, Inside, Limits, LinkTerms, SlotId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{FlowSpec, IfIndex, Rate, Refused, Time, Window};
use traffic::plan::{ClassId, ClassSpec};

/// Each guaranteed flow has its own class while ids last: 16 bits, as in the kernel, which reserves the last.
const LAST_OWN: u16 = u16::MAX - 1;
const OWN_CLASSES: usize = (LAST_OWN - ClassId::FIRST_OWN.0) as usize + 1;

/// An interface with a link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) terms: Reservable,
    pub(crate) ledger: admit::LinkLedger,
    pub(crate) load: ReservedLoad,
    pub(crate) premium: Premium,
    /// The grant that the fast path divides.
    pub(crate) granted: Option<Granted>,
    /// The grant that flows admitted by measurement share.
    measured: Option<Grant>,
    /// The largest wire rate that the rule of that grant admits now; `None`: no signalled reservation is admitted by it.
    measured_room: Option<Rate>,
    /// The slot for the background's rate, if that is promised.
    lent: Option<SlotId>,
    /// The configured guarantees of the code point classes.
    apart: SetApart,
    /// The reservation of each own class.
    pub(crate) own: BTreeMap<ClassId, RHandle>,
    /// The start of the search for a free id; an id rests as long as possible before it is used again.
    next_own: u16,
    /// The reservations in the order of displacement.
    ranks: Ranks,
    /// The place of each slot's reservation, by the index of the slot.
    by_slot: Vec<Place>,
}

/// The place for a slot without a reservation: a booking's.
const NOBODY: Place = Place::MAX;

impl Link {
    /// The load of the premium classes: the booked and the configured one.
    pub(crate) fn served(&self) -> Premium {
        let apart = self.apart.served;
        Premium {
            foreground: self.premium.foreground.with(apart.foreground),
            background: self.premium.background.with(apart.background),
        }
    }

    /// The load of the configured guarantees.
    pub(crate) fn set_apart_load(&self) -> Premium {
        self.apart.served
    }

    /// Notes the slot for the background's rate.
    pub(crate) fn lend(&mut self, slot: SlotId) {
        self.lent = Some(slot);
    }

    /// True if the slot is of a class as a whole: the background's, or that of flows admitted by measurement.
    pub(crate) fn is_of_class(&self, slot: SlotId) -> bool {
        self.lent == Some(slot) || self.measured_slot() == Some(slot)
    }

    /// The reservations to displace for a request of this priority, the fewest and least important; see [`Ranks::choose`].
    pub(crate) fn to_displace(&self, preempting: u16, need: Rate, but: Option<Place>) -> Option<Vec<Victim>> {
        self.ranks.choose(preempting, need, but)
    }

    /// Counts the configured guarantees even if they do not fit beside other slots. The ledger then reports
    /// the shortfall.
    pub(crate) fn set_apart(&mut self, now: Time, served: Premium) {
        self.ledger.expire(now);
        if let Some(slot) = self.apart.slot.take() {
            // It never ends by itself.
            let _ = self.ledger.release(now, slot);
        }
        let rate = served.foreground.rate.saturating_add(served.background.rate);
        let slot = Window::open(now).ok().filter(|_| rate > Rate::ZERO);
        let slot = slot.and_then(|ever| self.ledger.table_mut().adopt_booked(ever, rate).ok());
        self.apart = SetApart { served, slot };
    }

    pub(crate) fn new(oif: IfIndex, terms: Reservable) -> Link {
        Link {
            terms,
            ledger: admit::LinkLedger::new(oif, Link::ledger_terms(&terms), Limits::default()),
            load: ReservedLoad::default(),
            premium: Premium::default(),
            granted: None,
            measured: None,
            measured_room: None,
            lent: None,
            apart: SetApart::default(),
            own: BTreeMap::new(),
            next_own: ClassId::FIRST_OWN.0,
            ranks: Ranks::default(),
            by_slot: Vec::new(),
        }
    }

    pub(crate) fn ledger_terms(terms: &Reservable) -> LinkTerms {
        LinkTerms {
            rate: terms.spec.rate,
            kept_back: classes::kept_back(terms),
            signalled_share: terms.signalled_share,
            assumed_holding: terms.assumed_holding,
        }
    }

    /// The most that reservations can hold together.
    pub(crate) fn reservable(&self) -> Rate {
        let for_sale = self.terms.spec.rate.saturating_sub(classes::kept_back(&self.terms));
        for_sale.min(self.terms.signalled_share)
    }

    /// The classes that every interface has or may have, in order, for this load, after what the plane has
    /// (`told`).
    pub(crate) fn base(&self, load: &ReservedLoad, told: Option<&Shadow>) -> [(ClassId, Option<ClassSpec>); 6] {
        let (spec, premium) = (&self.terms.spec, &self.served());
        let has = told.and_then(|told| told.classes.get(&ClassId::CONTROLLED_LOAD));
        let shared = classes::controlled_load(spec, load, premium, has);
        [
            (ClassId::BEST_EFFORT, Some(classes::best_effort(spec, load, premium, classes::guaranteed(&shared)))),
            (ClassId::CONTROL, Some(classes::control(spec))),
            (ClassId::CONTROLLED_LOAD, Some(shared)),
            (ClassId::PREMIUM, classes::premium(spec, load, premium)),
            (ClassId::BACKGROUND, classes::background(spec, load, premium)),
            (ClassId::MEASURED, self.measured_class()),
        ]
    }

    pub(crate) fn own_class(&self, held: &Held) -> ClassSpec {
        classes::own(&self.terms.spec, &held.charged(), held.admitted)
    }

    /// The class for a flowspec: the shared one, the present one (`keep`), or the next free one. An id is
    /// free only if neither a reservation nor the plane has it.
    pub(crate) fn class_for(
        &self,
        flowspec: &FlowSpec,
        keep: Option<ClassId>,
        told: Option<&Shadow>,
    ) -> Result<ClassId, Refused> {
        if let FlowSpec::ControlledLoad(_) = flowspec {
            return Ok(ClassId::CONTROLLED_LOAD);
        }
        if let Some(class) = keep.filter(|&class| class >= ClassId::FIRST_OWN) {
            return Ok(class);
        }
        let from = self.next_own.max(ClassId::FIRST_OWN.0);
        let is_free = |id: &ClassId| !self.own.contains_key(id) && !told.is_some_and(|t| t.classes.contains_key(id));
        let ids = (from..=LAST_OWN).chain(ClassId::FIRST_OWN.0..from);
        let full = Refused::Limit { what: "classes of an interface", limit: OWN_CLASSES };
        ids.map(ClassId).find(is_free).ok_or(full)
    }

    /// Counts a reservation at this place.
    pub(crate) fn count(&mut self, held: &mut Held, handle: RHandle, place: Place) {
        let Some(slot) = held.slot else { return };
        self.load = self.load.plus(&held.charged(), held.admitted, &self.terms.spec);
        if held.class >= ClassId::FIRST_OWN && self.own.insert(held.class, handle).is_none() {
            self.next_own = held.class.0 + 1;
        }
        held.rank = self.ranks.add(held.priority.defending, held.admitted, place);
        let slot = slot_place(slot);
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, NOBODY);
        }
        self.by_slot[slot] = place;
    }

    /// Removes a reservation from the counts. Returns the place that has its rank now, if there is one.
    pub(crate) fn uncount(&mut self, held: &Held) -> Option<Place> {
        let slot = held.slot?;
        self.load = self.load.minus(&held.charged(), held.admitted, &self.terms.spec);
        self.own.remove(&held.class);
        if let Some(whose) = self.by_slot.get_mut(slot_place(slot)) {
            *whose = NOBODY;
        }
        self.ranks.remove(held.priority.defending, held.admitted, held.rank)
    }

    /// The place of the reservation with this slot.
    pub(crate) fn whose(&self, slot: SlotId) -> Option<Place> {
        self.by_slot.get(slot_place(slot)).copied().filter(|&place| place != NOBODY)
    }

    /// The load of the classes: reservations, and the part of the grant that fits beside them. An adopted
    /// grant may be larger until it is shrunk.
    pub(crate) fn carried(&self) -> ReservedLoad {
        self.carried_beside(self.load)
    }

    /// The same if the reservations were this load.
    pub(crate) fn carried_beside(&self, load: ReservedLoad) -> ReservedLoad {
        let load = ReservedLoad { own: load.own.saturating_add(self.measured_rate()), ..load };
        let Some(granted) = &self.granted else { return load };
        let for_sale = self.terms.spec.rate.saturating_sub(classes::kept_back(&self.terms));
        let left = for_sale.saturating_sub(load.shared).saturating_sub(load.own);
        load.plus(&granted.share().flowspec(), granted.admitted().min(left), &self.terms.spec)
    }

    /// Takes the grant of flows that are admitted by measurement, or what is free of it: exact reservations go before.
    pub(crate) fn grant_measured(&mut self, now: Time) {
        let (wanted, Ok(ever)) = (self.terms.measured, Window::open(now)) else { return };
        if wanted == Rate::ZERO || self.measured.is_some() {
            return;
        }
        self.ledger.expire(now);
        let table = self.ledger.table_mut();
        let mut take = |rate| Grant::take(table, ever, rate, Inside::Statistical, MOST);
        self.measured = match take(wanted) {
            Err(Denied::Capacity { free, .. }) if free > Rate::ZERO => take(free).ok(),
            taken => taken.ok(),
        };
    }

    /// Gives that grant back.
    pub(crate) fn give_measured_back(&mut self, now: Time) {
        self.ledger.expire(now);
        if let Some(grant) = self.measured.take() {
            grant.give_back(self.ledger.table_mut());
        }
    }

    /// The rate that flows admitted by measurement have together, wire rate.
    pub(crate) fn measured_rate(&self) -> Rate {
        self.measured.as_ref().map_or(Rate::ZERO, Grant::rate)
    }

    /// The rate that one more reservation may have: exact, or by measurement where that admits more.
    pub(crate) fn free_now(&self) -> Rate {
        self.ledger.free_then().max(self.measured_room.unwrap_or(Rate::ZERO))
    }

    /// Says what the rule of that grant admits now.
    pub(crate) fn set_measured_room(&mut self, room: Option<Rate>) {
        self.measured_room = room;
    }

    /// The largest rate that the rule of that grant admits now, if signalled reservations are admitted by it.
    pub(crate) fn measured_room(&self) -> Option<Rate> {
        self.measured_room
    }

    /// The slot of that grant.
    pub(crate) fn measured_slot(&self) -> Option<SlotId> {
        self.measured.as_ref().map(Grant::slot)
    }

    fn measured_class(&self) -> Option<ClassSpec> {
        let rate = self.measured_rate();
        (self.terms.measured > Rate::ZERO).then(|| classes::measured(&self.terms.spec, rate))
    }

    /// The rate of a share with link headers.
    pub(crate) fn on_the_wire(&self, share: &GrantedShare) -> Rate {
        share.rate.with_overhead(self.terms.spec.overhead, share.min_packet)
    }

    /// Adapts the slot to the link's changed terms, if the same share still fits.
    pub(crate) fn grant_again(&mut self, now: Time) {
        let Some((slot, share)) = self.granted.map(|granted| (granted.slot(), granted.share())) else { return };
        let admitted = self.on_the_wire(&share);
        if self.ledger.modify(now, slot, admitted).is_ok() {
            self.granted = Some(Granted::new(slot, share, admitted));
        }
    }
}

/// The index of a slot in its table; see [`SlotId::as_u64`].
fn slot_place(slot: SlotId) -> usize {
    slot.as_u64() as u32 as usize
}
