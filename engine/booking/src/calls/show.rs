//! Queries of reservations, events and resources. Nothing changes.

use crate::admission::packet;
use crate::background::Background;
use crate::calendar::Calendar;
use crate::enforcement::Enforcement;
use crate::io::{CallResult, Event, EventKind, Matching, Reply};
use crate::journal::EventLog;
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Number, Reservation, Reservations};
use crate::state::BookingState;
use crate::view::{BookingView, PartView, PromiseView, ResourceView};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::Bound;
use terms::book::{Caller, CallerRole, Handle, PacketShape, RateStep, ResourceId};
use terms::ports::Ledger;
use terms::{Span, Window};

/// Most stretches of a timeline in an answer.
const TIMELINE: usize = 1_000;
/// The size of a page of a list, in steps of parts (some 100 bytes of a document each), so that a page stays
/// below 64 KiB; and the sizes that a reservation, four of its members and a part add.
const ROOM: usize = 512;
const OF_ONE: usize = 6;
const MEMBERS: usize = 4;
const OF_PART: usize = 5;

impl Event {
    /// True if the caller may see it. A broker that speaks for no caller follows no events.
    pub fn is_for(&self, caller: &Caller) -> bool {
        match caller.role {
            CallerRole::Auditor | CallerRole::Operator => true,
            CallerRole::Owner => self.owner == caller.name,
            CallerRole::Broker => false,
        }
    }
}

/// The parts of the bookings that answers are made from.
pub(crate) struct Views<'a, L> {
    pub ledger: &'a L,
    pub table: &'a Reservations,
    pub enforcement: &'a Enforcement,
    pub background: &'a Background,
    pub calendar: Calendar,
    /// Most rows in one answer.
    pub rows: usize,
}

impl<L: Ledger> Views<'_, L> {
    pub(crate) fn show(&self, caller: &Caller, handle: Handle) -> Reply {
        self.reservation(self.table.find(caller, handle, false)?)
    }

    /// The answer of a call about one reservation.
    pub(crate) fn reservation(&self, number: Number) -> Reply {
        let view = self.view(number).map(CallResult::Reservation);
        view.ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle))
    }

    /// The view of a reservation.
    fn view(&self, number: Number) -> Option<BookingView> {
        let r = self.table.get(number)?;
        let (today, is_over) = (self.calendar.today(), r.state.is_over());
        let parts = r.parts.iter().enumerate().map(|(n, part)| {
            let resource = self.table.resources().get(part.resource);
            PartView {
                resource: resource.name().to_string(),
                kind: resource.kind(),
                guarantee: resource.id().and_then(|id| Some(self.ledger.offer(id)?.guarantee)),
                steps: part.steps.clone(),
                background: part.background,
                shape: part.shape,
                binding: part.binding.clone(),
                asked: if is_over { 0 } else { part.amount(today) },
                now: self.enforcement.due((number, n)),
                installed: self.enforcement.installed((number, n)),
                enforced: self.enforcement.state(self.table, (number, n)),
            }
        });
        Some(BookingView {
            handle: r.handle,
            owner: self.table.owner_of(r).to_string(),
            label: r.label.to_string(),
            group: r.group.to_string(),
            members: r.members.iter().map(ToString::to_string).collect(),
            state: r.state,
            hold_until: (r.state == BookingState::Held).then_some(r.hold_until),
            notice: r.notice.map(|notice| notice.before),
            created: r.created,
            version: r.version,
            parts: parts.collect(),
            promise: r.promise.as_ref().filter(|_| !r.unborn).map(|promised| PromiseView {
                branch: promised.branch,
                coordinator: promised.coordinator.clone(),
                change: promised.change.name(),
                now: today,
            }),
        })
    }

    pub(crate) fn list(&self, caller: &Caller, matching: &Matching) -> Reply {
        let most = rows(matching.most, self.rows);
        let after = match matching.after {
            Some(handle) => Bound::Excluded(self.table.find(caller, handle, false)?),
            None => Bound::Unbounded,
        };
        let whose = match (&matching.owner, caller.role) {
            (Some(owner), _) => Some(owner.as_str()),
            (None, CallerRole::Owner) => Some(caller.name.as_str()),
            (None, CallerRole::Auditor | CallerRole::Operator | CallerRole::Broker) => None,
        };
        let own = whose.map(|name| self.table.owners().find(name));
        let fits = |r: &&Reservation| !r.unborn && self.table.may(caller, r, false) && self.matches(r, matching);
        let mut found: Vec<&Reservation> = match own {
            Some(None) => Vec::new(),
            Some(Some(owner)) => {
                let numbers = self.table.owners().get(owner).numbers().range((after, Bound::Unbounded));
                numbers.filter_map(|number| self.table.get(*number)).filter(fits).take(most + 1).collect()
            }
            None => self.table.after(after).filter(fits).take(most + 1).collect(),
        };
        let room = in_one_answer(&found).min(most);
        let more = found.len() > room;
        found.truncate(room);
        Ok(CallResult::List { views: found.into_iter().filter_map(|r| self.view(r.number)).collect(), more })
    }

    fn matches(&self, r: &Reservation, matching: &Matching) -> bool {
        let text = |wanted: &Option<alloc::string::String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
        let resource = matching.resource.as_ref().map(|name| self.table.resources().find(name));
        let state = match matching.states.as_slice() {
            [] => !r.state.is_over(),
            states => states.contains(&r.state),
        };
        let meets = |window: Window| r.parts.iter().flat_map(|p| &p.steps).any(|step| step.window.overlaps(&window));
        state
            && text(&matching.group, &r.group)
            && text(&matching.label, &r.label)
            && resource.is_none_or(|resource| r.parts.iter().any(|part| Some(part.resource) == resource))
            && matching.window.is_none_or(meets)
    }

    pub(crate) fn resources(&self, timeline: Option<Window>) -> Reply {
        let ids = self.ledger.resources();
        Ok(CallResult::Resources(ids.into_iter().filter_map(|id| self.resource(id, timeline)).collect()))
    }

    fn resource(&self, id: ResourceId, timeline: Option<Window>) -> Option<ResourceView> {
        let (ledger, table, offset) = (self.ledger, self.table, self.calendar.offset());
        let offer = ledger.offer(id)?;
        let place = table.resources().find(&offer.name);
        let packet = packet(offer.kind, PacketShape::default().packet);
        let free = |window: Window| ledger.free(id, window, packet);
        let now = self.calendar.now();
        let instant = Window::new(now, now.saturating_add(Span::from_nanos(1))).ok()?;
        let stretches = timeline
            .and_then(|window| offset.agents_window(window))
            .map(|window| ledger.stretches(id, window, packet, TIMELINE))
            .unwrap_or_default();
        let step = |(window, amount)| Some(RateStep { window: offset.calendar_window(window)?, amount });
        Some(ResourceView {
            kind: offer.kind,
            guarantee: offer.guarantee,
            capacity: offer.capacity,
            free: free(instant),
            background: place
                .map_or(offer.shared, |place| self.background.available(ledger, table, self.enforcement, now, place)),
            lent: place.map_or(0, |place| self.background.lent(place)),
            reservations: place.map_or(0, |place| table.resources().get(place).users().len()),
            missing: ledger.missing(id).map(|missing| (offset.calendar(missing.first), missing.worst)),
            timeline: stretches.into_iter().filter_map(step).collect(),
            name: offer.name,
        })
    }
}

/// The number of these reservations, from the first on, that fit in one answer: a recurrence has a
/// thousand steps. At least one.
fn in_one_answer(found: &[&Reservation]) -> usize {
    let size = |r: &&Reservation| {
        let parts: usize = r.parts.iter().map(|part| OF_PART + part.steps.len()).sum();
        OF_ONE + r.members.len().div_ceil(MEMBERS) + parts
    };
    let sizes = found.iter().map(size).scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    sizes.take_while(|sum| *sum <= ROOM).count().max(1)
}

/// The number of rows of an answer: as many as are wanted (0: as many as there may be).
fn rows(wanted: usize, most: usize) -> usize {
    if wanted == 0 { most } else { wanted.min(most) }
}

/// A page of one reservation's events after this event number.
pub(crate) fn history(
    table: &Reservations,
    log: &EventLog,
    caller: &Caller,
    handle: Handle,
    after: u64,
    most: usize,
) -> Reply {
    table.find(caller, handle, false)?;
    let its = log.after(after).filter(|event| event.handle == handle);
    let events: Vec<Event> = its.take(most).cloned().collect();
    let lost = match after {
        0 => !events.first().is_some_and(|event| matches!(event.what, EventKind::Created(_))),
        after => log.has_lost_after(after),
    };
    Ok(CallResult::Events { events, last: log.last(), lost })
}

/// The events that a caller may see after this event number.
pub(crate) fn since(log: &EventLog, caller: &Caller, seq: u64, wanted: usize, most: usize) -> Reply {
    let (events, last) = events_after(log, caller, seq, rows(wanted, most));
    Ok(CallResult::Events { events, last, lost: log.has_lost_after(seq) })
}

/// At most `most` events that a caller may see, and the number of the newest event that there is.
pub(crate) fn events_after(log: &EventLog, caller: &Caller, seq: u64, most: usize) -> (Vec<Event>, u64) {
    let sees = |event: &&Event| event.is_for(caller);
    (log.after(seq).filter(sees).take(most).cloned().collect(), log.last())
}
