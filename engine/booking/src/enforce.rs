//! Due amounts, amounts that the kernel has, and the orders that make them equal: one order at a time for
//! each part. On one resource no amount is raised while another is being lowered, so that adjacent windows
//! never overlap in the kernel.

use crate::broker::Bookings;
use crate::io::{EventKind, Order, OrderAction, OrderId, Output};
use crate::reservation::Number;
use crate::state::BookingState;
use crate::view::Enforced;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use terms::book::{Binding, Handle};
use terms::{Span, Time};

/// The first wait before a failed order is tried again; it doubles each time.
const FIRST_WAIT: Span = Span::from_secs(1);
const LONGEST_WAIT: Span = Span::from_secs(60);

/// A part of a reservation.
pub(crate) type Place = (Number, usize);

/// A binding and an amount.
type Told = (Option<Binding>, u64);

/// A part that has a due amount, or had one a moment ago.
#[derive(Clone, Debug, Default)]
struct Live {
    /// The amount that it is to have now.
    due: u64,
    /// The state that the driver has read back.
    told: Option<Told>,
    /// The order under way, the state if it succeeds, and true if it takes something away.
    under_way: Option<(OrderId, Option<Told>, bool)>,
    failed: Option<String>,
    /// The earliest next attempt; the agent's clock.
    again: Time,
    wait: Span,
}

/// All parts that are, or are to be, enforced.
#[derive(Clone, Default)]
pub(crate) struct Force {
    live: BTreeMap<Place, Live>,
    orders: BTreeMap<OrderId, Place>,
    next: u64,
    /// Parts that may need an order, by resource.
    dirty: BTreeSet<(u32, Place)>,
    /// Parts whose order failed, by the time of the next attempt.
    retries: BTreeSet<(Time, u32, Place)>,
    /// Resources whose background must be divided anew.
    pub(crate) touched: BTreeSet<u32>,
    /// Resources whose background has a slot of the ledger, and those whose slot is released while foreground
    /// is counted.
    pub(crate) lent: BTreeSet<u32>,
    pub(crate) laid: BTreeSet<u32>,
    /// The parts of a resource, by their binding.
    bound: BTreeMap<(u32, Binding), Vec<Place>>,
}

/// A part that is to be enforced now; a driver compares it with the kernel's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    /// The handle of the reservation.
    pub handle: Handle,
    /// The part, from 0.
    pub part: usize,
    /// The resource's name.
    pub resource: String,
    /// The packets or processes; `None`: the resource needs no binding.
    pub binding: Option<Binding>,
    /// The amount, in the unit of the resource's kind.
    pub amount: u64,
}

impl Force {
    pub(crate) fn bind(&mut self, resource: u32, binding: &Binding, number: Number, part: usize) {
        self.bound.entry((resource, binding.clone())).or_default().push((number, part));
    }

    pub(crate) fn unbind(&mut self, resource: u32, binding: &Binding, number: Number, part: usize) {
        let key = (resource, binding.clone());
        if let Some(places) = self.bound.get_mut(&key) {
            places.retain(|place| *place != (number, part));
            if places.is_empty() {
                self.bound.remove(&key);
            }
        }
    }

    /// The parts of a resource with this binding.
    pub(crate) fn bound(&self, resource: u32, binding: &Binding) -> &[Place] {
        self.bound.get(&(resource, binding.clone())).map(Vec::as_slice).unwrap_or_default()
    }

    /// The earliest next attempt of a failed order; the agent's clock.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.retries.first().map(|(at, _, _)| *at)
    }

    /// Marks the parts whose wait after a failure is over.
    pub(crate) fn retry(&mut self, now: Time) {
        while let Some(&(at, resource, place)) = self.retries.first() {
            if at > now {
                return;
            }
            self.retries.pop_first();
            self.dirty.insert((resource, place));
        }
    }

    /// The amount that a part is to have now.
    pub(crate) fn due(&self, place: Place) -> u64 {
        self.live.get(&place).map_or(0, |live| live.due)
    }

    /// The amount that the driver has read back for a part.
    pub(crate) fn installed(&self, place: Place) -> u64 {
        self.live.get(&place).and_then(|live| live.told.as_ref()).map_or(0, |(_, amount)| *amount)
    }

    /// Forgets the kernel's state of a part whose resource has gone.
    pub(crate) fn untold(&mut self, resource: u32, place: Place) {
        if let Some(live) = self.live.get_mut(&place) {
            live.told = None;
            self.dirty.insert((resource, place));
        }
    }

    fn touch(&mut self, resource: u32, place: Place) {
        if self.live.contains_key(&place) {
            self.dirty.insert((resource, place));
        }
    }
}

impl Bookings {
    /// Computes the due amount of every part of a reservation. Background parts have their share.
    pub(crate) fn update_due(&mut self, number: Number) {
        let today = self.today();
        let Some(r) = self.all.get(&number) else { return };
        let in_force = !(r.unborn || r.state.is_over() || r.state == BookingState::Held);
        for part in 0..r.parts.len() {
            let Some(p) = self.all.get(&number).and_then(|r| r.parts.get(part)) else { continue };
            let (resource, most, packet) = (p.resource, if in_force { p.amount(today) } else { 0 }, p.shape.packet);
            match p.background {
                Some(terms) => self.share(resource, (number, part), terms, most, packet),
                None => self.set_due(resource, (number, part), most, true),
            }
        }
    }

    /// Sets the amount that a part is to have from now on.
    pub(crate) fn set_due(&mut self, resource: u32, place: Place, due: u64, foreground: bool) {
        let live = match self.force.live.get_mut(&place) {
            Some(live) => live,
            None if due == 0 => return,
            None => self.force.live.entry(place).or_default(),
        };
        let had = core::mem::replace(&mut live.due, due);
        if had == due {
            return;
        }
        if foreground {
            let named = self.resources.get_mut(resource);
            named.foreground = named.foreground - had + due;
            self.force.touched.insert(resource);
        }
        self.force.dirty.insert((resource, place));
    }

    /// The binding of a part has changed.
    pub(crate) fn rebound(&mut self, resource: u32, place: Place) {
        self.force.touch(resource, place);
    }

    /// Issues the orders that are needed, on every resource with a change.
    pub(crate) fn issue_orders(&mut self) {
        let mut from = 0;
        while let Some(&(resource, _)) = self.force.dirty.range((from, (0, 0))..).next() {
            self.press(resource);
            from = resource + 1;
        }
    }

    fn press(&mut self, resource: u32) {
        let most = (Number::MAX, usize::MAX);
        let dirty: Vec<Place> =
            self.force.dirty.range((resource, (0, 0))..=(resource, most)).map(|(_, place)| *place).collect();
        // Twice: what takes away goes first, and what gives waits until all of that is answered.
        let mut waiting = Vec::new();
        for place in dirty {
            match self.step(place) {
                None => _ = self.force.dirty.remove(&(resource, place)),
                Some((action, holds, true)) => self.order(resource, place, action, holds, true),
                Some((action, holds, false)) => waiting.push((place, action, holds)),
            }
        }
        if self.resources.get(resource).lowering == 0 {
            for (place, action, holds) in waiting {
                self.order(resource, place, action, holds, false);
            }
        }
    }

    /// The next step from the state that was told towards the due amount, and true if it takes something
    /// away. `None`: no step is needed, or one is under way, or it is too early to try again.
    fn step(&mut self, place: Place) -> Option<(OrderAction, Option<Told>, bool)> {
        let live = self.force.live.get(&place)?;
        if live.under_way.is_some() || live.again > self.now {
            return None;
        }
        let wanted = self.wanted(place, live.due);
        let step = match (live.told.clone(), wanted) {
            (None, None) => {
                if live.due == 0 {
                    self.force.live.remove(&place);
                }
                return None;
            }
            (Some(told), Some(wanted)) if told == wanted => return None,
            (None, Some((binding, amount))) => {
                (OrderAction::Enable { binding: binding.clone(), amount }, Some((binding, amount)), false)
            }
            (Some((old, had)), Some((binding, amount))) if old == binding => {
                (OrderAction::Change { binding: binding.clone(), amount }, Some((binding, amount)), amount < had)
            }
            // Gone, or for others: what they had goes first.
            (Some((old, _)), _) => (OrderAction::Disable { binding: old }, None, true),
        };
        Some(step)
    }

    /// The state that the kernel is to have for a part; `None`: nothing.
    fn wanted(&self, place: Place, due: u64) -> Option<Told> {
        let part = self.all.get(&place.0)?.parts.get(place.1).filter(|_| due > 0)?;
        let named = self.resources.get(part.resource);
        let needs = named.kind.needs_binding();
        // What is not there cannot be changed; when it comes back it is told anew.
        named.id?;
        (part.binding.is_some() || !needs).then(|| (part.binding.clone(), due))
    }

    fn order(&mut self, resource: u32, place: Place, action: OrderAction, holds: Option<Told>, lowers: bool) {
        let Some(r) = self.all.get(&place.0) else { return };
        let Some(part) = r.parts.get(place.1) else { return };
        let id = OrderId(self.force.next);
        self.force.next += 1;
        let order = Order {
            id,
            handle: r.handle,
            part: place.1,
            resource: self.resources.get(resource).name.to_string(),
            background: part.background.is_some(),
            shape: part.shape,
            action,
        };
        self.force.dirty.remove(&(resource, place));
        self.force.orders.insert(id, place);
        self.resources.get_mut(resource).lowering += usize::from(lowers);
        if let Some(live) = self.force.live.get_mut(&place) {
            live.under_way = Some((id, holds, lowers));
        }
        self.say(Output::Enforce(order));
    }

    /// The driver has carried out an order, or could not.
    pub(crate) fn enforced(&mut self, id: OrderId, result: Result<(), String>) {
        let Some(place) = self.force.orders.remove(&id) else { return };
        let Some(resource) = self.all.get(&place.0).and_then(|r| Some(r.parts.get(place.1)?.resource)) else { return };
        let now = self.now;
        let Some(live) = self.force.live.get_mut(&place) else { return };
        let Some((_, holds, lowers)) = live.under_way.take() else { return };
        self.resources.get_mut(resource).lowering -= usize::from(lowers);
        let what = match result {
            Ok(()) => {
                live.told = holds;
                (live.again, live.wait) = (Time::ZERO, Span::ZERO);
                live.failed.take().map(|_| EventKind::InForce { part: place.1 })
            }
            Err(text) => {
                live.wait = live.wait.saturating_add(live.wait).max(FIRST_WAIT).min(LONGEST_WAIT);
                live.again = now.saturating_add(live.wait);
                self.force.retries.insert((live.again, resource, place));
                let first = live.failed.replace(text.clone()).is_none();
                first.then_some(EventKind::Failing { part: place.1, text })
            }
        };
        if let Some(what) = what {
            self.fact(place.0, what);
        }
        // Others may have waited for this one; it may have to go on itself.
        self.force.dirty.insert((resource, place));
    }

    /// The state of a part's enforcement.
    pub(crate) fn how_enforced(&self, place: Place) -> Enforced {
        let Some(live) = self.force.live.get(&place) else { return Enforced::Idle };
        let wanted = self.wanted(place, live.due);
        match &live.failed {
            Some(why) => Enforced::Failed(why.clone()),
            None if live.due == 0 => Enforced::Idle,
            None if self.is_away(place) => Enforced::Failed("its resource is not there at present".into()),
            None if wanted.is_none() => Enforced::Unbound,
            None if live.told == wanted => Enforced::InForce,
            None => Enforced::Pending,
        }
    }

    fn is_away(&self, place: Place) -> bool {
        let part = self.all.get(&place.0).and_then(|r| r.parts.get(place.1));
        part.is_none_or(|part| self.resources.get(part.resource).id.is_none())
    }

    /// All parts that are to be enforced at this instant, in order of creation.
    pub fn due(&self) -> impl Iterator<Item = Due> + '_ {
        self.force.live.iter().filter_map(|(place, live)| {
            let (binding, amount) = self.wanted(*place, live.due)?;
            let r = self.all.get(&place.0)?;
            let resource = self.resources.get(r.parts.get(place.1)?.resource).name.to_string();
            Some(Due { handle: r.handle, part: place.1, resource, binding, amount })
        })
    }
}
