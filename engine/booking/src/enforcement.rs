//! Due amounts, amounts that the kernel has, and the orders that make them equal: one order at a time for
//! each part. On one resource no amount is raised while another is being lowered, so that adjacent windows
//! never overlap in the kernel.

use crate::io::{EventKind, Order, OrderAction, OrderId, Output};
use crate::outbox::Outbox;
use crate::reservations::{Number, Place, Reservations};
use crate::view::Enforced;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use terms::book::{Binding, Handle};
use terms::{Amount, Span, Time};

/// The first wait before a failed order is tried again; it doubles each time.
const FIRST_WAIT: Span = Span::from_secs(1);
const LONGEST_WAIT: Span = Span::from_secs(60);

/// A binding and an amount.
type Told = (Option<Binding>, Amount);

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

/// The parts of one resource together.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// The due amount of its foreground parts at this instant.
    foreground: u64,
    /// Orders under way that take something away.
    lowering: usize,
}

/// All parts that are, or are to be, enforced.
#[derive(Clone, Default)]
pub(crate) struct Enforcement {
    live: BTreeMap<Place, Live>,
    levels: BTreeMap<u32, Level>,
    orders: BTreeMap<OrderId, Place>,
    next: u64,
    /// Parts that may need an order, by resource.
    dirty: BTreeSet<(u32, Place)>,
    /// Parts whose order failed, by the time of the next attempt.
    retries: BTreeSet<(Time, u32, Place)>,
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
    /// The amount.
    pub amount: Amount,
}

impl Enforcement {
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

    /// The due amount of the foreground parts of a resource.
    pub(crate) fn foreground(&self, resource: u32) -> u64 {
        self.levels.get(&resource).map_or(0, |level| level.foreground)
    }

    /// The amount that the driver has read back for a part.
    pub(crate) fn installed(&self, place: Place) -> u64 {
        self.live.get(&place).and_then(|live| live.told.as_ref()).map_or(0, |(_, amount)| amount.count())
    }

    /// Forgets the kernel's state of a part whose resource has gone.
    pub(crate) fn untold(&mut self, resource: u32, place: Place) {
        if let Some(live) = self.live.get_mut(&place) {
            live.told = None;
            self.dirty.insert((resource, place));
        }
    }

    /// The binding of a part has changed.
    pub(crate) fn rebound(&mut self, resource: u32, place: Place) {
        if self.live.contains_key(&place) {
            self.dirty.insert((resource, place));
        }
    }

    /// Sets the amount that a part is to have from now on; true if it is another one.
    pub(crate) fn set_due(&mut self, resource: u32, place: Place, due: u64, foreground: bool) -> bool {
        let live = match self.live.get_mut(&place) {
            Some(live) => live,
            None if due == 0 => return false,
            None => self.live.entry(place).or_default(),
        };
        let had = core::mem::replace(&mut live.due, due);
        if had == due {
            return false;
        }
        if foreground {
            let level = self.levels.entry(resource).or_default();
            level.foreground = level.foreground - had + due;
        }
        self.dirty.insert((resource, place));
        true
    }

    /// Issues the orders that are needed, on every resource with a change.
    pub(crate) fn issue(&mut self, table: &Reservations, now: Time, out: &mut Outbox) {
        let mut from = 0;
        while let Some(&(resource, _)) = self.dirty.range((from, (0, 0))..).next() {
            self.issue_on(resource, table, now, out);
            from = resource + 1;
        }
    }

    fn issue_on(&mut self, resource: u32, table: &Reservations, now: Time, out: &mut Outbox) {
        let most = (Number::MAX, usize::MAX);
        let dirty: Vec<Place> =
            self.dirty.range((resource, (0, 0))..=(resource, most)).map(|(_, place)| *place).collect();
        // Twice: what takes away goes first, and what gives waits until all of that is answered.
        let mut waiting = Vec::new();
        for place in dirty {
            match self.step(place, table, now) {
                None => _ = self.dirty.remove(&(resource, place)),
                Some(step) if step.lowers => self.order(resource, place, step, table, out),
                Some(step) => waiting.push((place, step)),
            }
        }
        if self.levels.get(&resource).is_none_or(|level| level.lowering == 0) {
            for (place, step) in waiting {
                self.order(resource, place, step, table, out);
            }
        }
    }

    /// The next step from the state that was told towards the due amount. `None`: no step is needed, or one is under
    /// way, or it is too early to try again.
    fn step(&mut self, place: Place, table: &Reservations, now: Time) -> Option<Step> {
        let live = self.live.get(&place)?;
        if live.under_way.is_some() || live.again > now {
            return None;
        }
        let step = |action, holds, lowers| Some(Step { action, holds, lowers });
        match (live.told.clone(), wanted(table, place, live.due)) {
            (None, None) => {
                if live.due == 0 {
                    self.live.remove(&place);
                }
                None
            }
            (Some(told), Some(wanted)) if told == wanted => None,
            (None, Some((binding, amount))) => {
                step(OrderAction::Enable { binding: binding.clone(), amount }, Some((binding, amount)), false)
            }
            (Some((old, had)), Some((binding, amount))) if old == binding => {
                step(OrderAction::Change { binding: binding.clone(), amount }, Some((binding, amount)), amount < had)
            }
            // Gone, or for others: what they had goes first.
            (Some((old, _)), _) => step(OrderAction::Disable { binding: old }, None, true),
        }
    }

    fn order(&mut self, resource: u32, place: Place, step: Step, table: &Reservations, out: &mut Outbox) {
        let Some((r, part)) = table.get(place.0).and_then(|r| Some((r, r.parts.get(place.1)?))) else { return };
        let id = OrderId(self.next);
        self.next += 1;
        self.dirty.remove(&(resource, place));
        self.orders.insert(id, place);
        self.levels.entry(resource).or_default().lowering += usize::from(step.lowers);
        if let Some(live) = self.live.get_mut(&place) {
            live.under_way = Some((id, step.holds, step.lowers));
        }
        out.say(Output::Enforce(Order {
            id,
            handle: r.handle,
            part: place.1,
            resource: table.resources().get(part.resource).name().to_string(),
            background: part.background.is_some(),
            shape: part.shape,
            action: step.action,
        }));
    }

    /// The driver has carried out an order, or could not. The event of its reservation, if it is news.
    pub(crate) fn enforced(
        &mut self,
        table: &Reservations,
        now: Time,
        id: OrderId,
        result: Result<(), String>,
    ) -> Option<(Number, EventKind)> {
        let place = self.orders.remove(&id)?;
        let resource = table.part(place)?.resource;
        let live = self.live.get_mut(&place)?;
        let (_, holds, lowers) = live.under_way.take()?;
        self.levels.entry(resource).or_default().lowering -= usize::from(lowers);
        // Others may have waited for this one; it may have to go on itself.
        self.dirty.insert((resource, place));
        let what = match result {
            Ok(()) => {
                live.told = holds;
                (live.again, live.wait) = (Time::ZERO, Span::ZERO);
                live.failed.take().map(|_| EventKind::InForce { part: place.1 })
            }
            Err(text) => {
                live.wait = live.wait.saturating_add(live.wait).max(FIRST_WAIT).min(LONGEST_WAIT);
                live.again = now.saturating_add(live.wait);
                self.retries.insert((live.again, resource, place));
                let first = live.failed.replace(text.clone()).is_none();
                first.then_some(EventKind::Failing { part: place.1, text })
            }
        };
        what.map(|what| (place.0, what))
    }

    /// The state of a part's enforcement.
    pub(crate) fn state(&self, table: &Reservations, place: Place) -> Enforced {
        let Some(live) = self.live.get(&place) else { return Enforced::Idle };
        let wanted = wanted(table, place, live.due);
        match &live.failed {
            Some(why) => Enforced::Failed(why.clone()),
            None if live.due == 0 => Enforced::Idle,
            None if is_away(table, place) => Enforced::Failed("its resource is not there at present".into()),
            None if wanted.is_none() => Enforced::Unbound,
            None if live.told == wanted => Enforced::InForce,
            None => Enforced::Pending,
        }
    }

    /// All parts that are to be enforced at this instant, in order of creation.
    pub(crate) fn all_due(&self, table: &Reservations) -> impl Iterator<Item = Due> {
        self.live.iter().filter_map(|(place, live)| {
            let (binding, amount) = wanted(table, *place, live.due)?;
            let r = table.get(place.0)?;
            let resource = table.resources().get(r.parts.get(place.1)?.resource).name().to_string();
            Some(Due { handle: r.handle, part: place.1, resource, binding, amount })
        })
    }

    /// For tests: checks that the sum of every resource agrees with the parts.
    pub(crate) fn audit(&self, table: &Reservations) -> Result<(), &'static str> {
        for (resource, _) in table.resources().iter() {
            let parts = self.live.iter().filter_map(|(place, live)| Some((table.part(*place)?, live)));
            let due = parts.filter(|(part, _)| part.resource == resource && part.background.is_none());
            if due.map(|(_, live)| live.due).sum::<u64>() != self.foreground(resource) {
                return Err("what is due to foreground");
            }
        }
        Ok(())
    }
}

/// A step of one part.
struct Step {
    action: OrderAction,
    /// The state of the kernel if it succeeds.
    holds: Option<Told>,
    /// True if it takes something away.
    lowers: bool,
}

/// The state that the kernel is to have for a part; `None`: nothing.
fn wanted(table: &Reservations, place: Place, due: u64) -> Option<Told> {
    let part = table.part(place).filter(|_| due > 0)?;
    let resource = table.resources().get(part.resource);
    // What is not there cannot be changed; when it comes back it is told anew.
    resource.id()?;
    (part.binding.is_some() || !resource.kind().needs_binding())
        .then(|| (part.binding.clone(), resource.kind().amount(due)))
}

fn is_away(table: &Reservations, place: Place) -> bool {
    table.part(place).is_none_or(|part| table.resources().get(part.resource).id().is_none())
}
