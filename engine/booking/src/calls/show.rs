//! Queries of reservations, events and resources. Nothing changes.

use crate::broker::Bookings;
use crate::io::{CallResult, Event, Matching, Reply};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservation::{Number, Reservation};
use crate::state::BookingState;
use crate::view::{BookingView, PartView, ResourceView};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::Bound;
use terms::book::{Caller, CallerRole, Handle, RateStep, ResourceId};
use terms::ports::Ledger;
use terms::{Span, Window};

/// Most stretches of a timeline in an answer.
const TIMELINE: usize = 1_000;
/// The size of a list, in steps of parts (some 100 bytes of a document each), and the sizes that a
/// reservation and a part add: a thousand reservations of one part and one step.
const ROOM: usize = 8_192;
const OF_ONE: usize = 4;
const OF_PART: usize = 3;

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

impl Bookings {
    pub(crate) fn show<L: Ledger>(&self, ledger: &L, caller: &Caller, handle: Handle) -> Reply {
        let number = self.find(caller, handle, false)?;
        let view = self.view(ledger, number).map(CallResult::Reservation);
        view.ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle))
    }

    /// The view of a reservation.
    pub(crate) fn view<L: Ledger>(&self, ledger: &L, number: Number) -> Option<BookingView> {
        let r = self.all.get(&number)?;
        let (today, is_over) = (self.today(), r.state.is_over());
        let parts = r.parts.iter().enumerate().map(|(n, part)| {
            let named = self.resources.get(part.resource);
            PartView {
                resource: named.name.to_string(),
                kind: named.kind,
                guarantee: named.id.and_then(|id| Some(ledger.offer(id)?.guarantee)),
                steps: part.steps.clone(),
                background: part.background,
                shape: part.shape,
                binding: part.binding.clone(),
                asked: if is_over { 0 } else { part.amount(today) },
                now: self.force.due((number, n)),
                installed: self.force.installed((number, n)),
                enforced: self.how_enforced((number, n)),
            }
        });
        Some(BookingView {
            handle: r.handle,
            owner: self.owners.get(r.owner).name.to_string(),
            label: r.label.to_string(),
            group: r.group.to_string(),
            members: r.members.iter().map(ToString::to_string).collect(),
            state: r.state,
            hold_until: (r.state == BookingState::Held).then_some(r.hold_until),
            created: r.created,
            version: r.version,
            parts: parts.collect(),
        })
    }

    pub(crate) fn list<L: Ledger>(&self, ledger: &L, caller: &Caller, matching: &Matching) -> Reply {
        let most = match matching.most {
            0 => self.config.rows,
            most => most.min(self.config.rows),
        };
        let after = match matching.after {
            Some(handle) => Bound::Excluded(self.find(caller, handle, false)?),
            None => Bound::Unbounded,
        };
        let whose = match (&matching.owner, caller.role) {
            (Some(owner), _) => Some(owner.as_str()),
            (None, CallerRole::Owner) => Some(caller.name.as_str()),
            (None, CallerRole::Auditor | CallerRole::Operator | CallerRole::Broker) => None,
        };
        let own = whose.map(|name| self.owners.find(name));
        let fits = |number: &Number| {
            let r = self.all.get(number)?;
            (!r.unborn && self.may(caller, r, false) && self.matches(r, matching)).then_some(*number)
        };
        let range = (after, Bound::Unbounded);
        let mut found: Vec<Number> = match own {
            Some(None) => Vec::new(),
            Some(Some(owner)) => self.owners.get(owner).numbers.range(range).filter_map(fits).take(most + 1).collect(),
            None => self.all.range(range).map(|(number, _)| number).filter_map(fits).take(most + 1).collect(),
        };
        let room = self.in_one_answer(&found).min(most);
        let more = found.len() > room;
        found.truncate(room);
        Ok(CallResult::List { views: found.into_iter().filter_map(|number| self.view(ledger, number)).collect(), more })
    }

    /// The number of these reservations, from the first on, that fit in one answer: a recurrence has a
    /// thousand steps. At least one.
    fn in_one_answer(&self, numbers: &[Number]) -> usize {
        let size = |number: &Number| {
            let parts = self.all.get(number).map_or(&[][..], |r| &r.parts);
            OF_ONE + parts.iter().map(|part| OF_PART + part.steps.len()).sum::<usize>()
        };
        let sizes = numbers.iter().map(size).scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        sizes.take_while(|sum| *sum <= ROOM).count().max(1)
    }

    fn matches(&self, r: &Reservation, matching: &Matching) -> bool {
        let text = |wanted: &Option<alloc::string::String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
        let resource = matching.resource.as_ref().map(|name| self.resources.find(name));
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

    pub(crate) fn history(&self, caller: &Caller, handle: Handle, after: u64) -> Reply {
        self.find(caller, handle, false)?;
        let from = self.events.partition_point(|event| event.seq <= after);
        let its = self.events.range(from..).filter(|event| event.handle == handle);
        let events: Vec<Event> = its.take(self.config.rows).cloned().collect();
        let oldest = self.events.front().map_or(self.next_seq, |event| event.seq);
        let lost = match after {
            0 => !events.first().is_some_and(|event| matches!(event.what, crate::io::EventKind::Created(_))),
            after => self.lost_events && after + 1 < oldest,
        };
        Ok(CallResult::Events { events, last: self.last_event(), lost })
    }

    pub(crate) fn since(&self, caller: &Caller, seq: u64, most: usize) -> Reply {
        let most = match most {
            0 => self.config.rows,
            most => most.min(self.config.rows),
        };
        let sees = |event: &&Event| event.is_for(caller);
        let from = self.events.partition_point(|event| event.seq <= seq);
        let events: Vec<Event> = self.events.range(from..).filter(sees).take(most).cloned().collect();
        let oldest = self.events.front().map_or(self.next_seq, |event| event.seq);
        Ok(CallResult::Events { events, last: self.last_event(), lost: self.lost_events && seq + 1 < oldest })
    }

    fn last_event(&self) -> u64 {
        self.events.back().map_or(0, |event| event.seq)
    }

    pub(crate) fn show_resources<L: Ledger>(&self, ledger: &L, timeline: Option<Window>) -> Reply {
        let ids = ledger.resources();
        Ok(CallResult::Resources(ids.into_iter().filter_map(|id| self.resource_view(ledger, id, timeline)).collect()))
    }

    fn resource_view<L: Ledger>(&self, ledger: &L, id: ResourceId, timeline: Option<Window>) -> Option<ResourceView> {
        let offer = ledger.offer(id)?;
        let place = self.resources.find(&offer.name);
        let packet = crate::ask::packet(offer.kind, terms::book::PacketShape::default().packet);
        let free = |window: Window| ledger.free(id, window, packet);
        let instant = Window::new(self.now, self.now.saturating_add(Span::from_nanos(1))).ok()?;
        let stretches = timeline
            .and_then(|window| self.clock.agents_window(window))
            .map(|window| ledger.stretches(id, window, packet, TIMELINE))
            .unwrap_or_default();
        let step = |(window, amount)| Some(RateStep { window: self.clock.calendar_window(window)?, amount });
        Some(ResourceView {
            kind: offer.kind,
            guarantee: offer.guarantee,
            capacity: offer.capacity,
            free: free(instant),
            background: place.map_or(offer.shared, |place| self.grant(ledger, place)),
            lent: place.map_or(0, |p| self.resources.get(p).sharing.values().map(|sharer| sharer.share).sum()),
            reservations: place.map_or(0, |place| self.resources.get(place).users.len()),
            missing: ledger.missing(id).map(|missing| (self.clock.calendar(missing.first), missing.worst)),
            timeline: stretches.into_iter().filter_map(step).collect(),
            name: offer.name,
        })
    }
}
