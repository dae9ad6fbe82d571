//! Admission decides whether a booking fits: from a request to a grant of windows and amounts, computed from the free
//! amounts of the ledger, and then asked of policy. Nothing here changes anything.
//!
//! `check` refuses what makes no sense; `window`, `earliest`, `volume` and `series` look for room; `alternative` and
//! `change` say what would fit instead; `conflict` keeps two parts from the same packets; `permission` asks policy.

mod alternative;
mod change;
mod check;
mod conflict;
mod earliest;
mod permission;
mod series;
mod volume;
mod window;

use crate::calendar::Calendar;
use crate::config::Config;
use crate::io::{BookingRequest, CalendarOffset, PartAsk, When};
use crate::refusal::{OfferedPart, Refusal, RefusalReason};
use alloc::vec::Vec;
pub(crate) use change::OtherChanges;
pub(crate) use check::{check_binding, check_text};
pub(crate) use conflict::free_to_bind;
pub(crate) use permission::{Judge, Permission, Sought, allowed, permitted_anew, rules, rules_of, sought};
use terms::book::{RateStep, ResourceId, ResourceKind};
use terms::ports::Ledger;
use terms::ports::book::{Demand, Offer};
use terms::{Span, Time, Window};

/// The most stretches of a timeline that are looked at for one part.
const STRETCHES: usize = 8_192;

/// The windows and amounts of every part.
pub(crate) type Plan = Vec<Vec<RateStep>>;

/// The data for computing answers.
pub(crate) struct Room<'a, L> {
    ledger: &'a L,
    clock: CalendarOffset,
    config: &'a Config,
    /// Calendar time.
    today: Time,
}

/// A part that has been checked.
pub(crate) struct Wanted<'a> {
    ask: &'a PartAsk,
    id: ResourceId,
    kind: ResourceKind,
    offer: Offer,
}

impl<'a> Wanted<'a> {
    /// The part of the request.
    pub(crate) fn ask(&self) -> &'a PartAsk {
        self.ask
    }

    /// The ledger's number of its resource.
    pub(crate) fn id(&self) -> ResourceId {
        self.id
    }

    /// The ledger's offer of its resource.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// The least size of its packets; zero unless it is a network part.
    pub(crate) fn packet(&self) -> u32 {
        packet(self.kind, self.ask.shape.packet)
    }

    /// Background parts need no room: they take what is left.
    pub(crate) fn needs_room(&self) -> bool {
        self.ask.background.is_none()
    }

    fn want(&self, amount: u64) -> Demand {
        Demand { amount, packet: self.packet() }
    }
}

/// The least size of a part's packets, as the ledger needs it: zero unless it is a network part.
pub(crate) fn packet(kind: ResourceKind, packet: u32) -> u32 {
    if kind == ResourceKind::Network { packet } else { 0 }
}

impl<'a, L: Ledger> Room<'a, L> {
    pub(crate) fn new(ledger: &'a L, config: &'a Config, calendar: Calendar) -> Room<'a, L> {
        Room { ledger, clock: calendar.offset(), config, today: calendar.today() }
    }

    /// The grant of a request.
    ///
    /// # Errors
    /// [`Refusal`], with alternatives.
    pub(crate) fn resolve(&self, ask: &'a BookingRequest) -> Result<(Vec<Wanted<'a>>, Plan), Refusal> {
        let wanted = self.check(ask)?;
        let plan = match &ask.when {
            When::Window { start, end } => self.in_window(&wanted, *start, end.unwrap_or(Time::FOREVER)),
            // Whole seconds are what people read and type again.
            When::Now { span } => self.in_window(&wanted, None, self.today.saturating_add(*span).whole_second()),
            When::Earliest { span, not_before, by } => self.earliest(&wanted, *span, *not_before, *by),
            When::Volume { bytes, not_before, deadline } => self.volume(&wanted, *bytes, *not_before, *deadline),
            When::Series { windows, may_fail } => self.series(&wanted, windows, may_fail),
        }?;
        Ok((wanted, plan))
    }

    /// The resources of the parts, checked in an order that explains a mistake well.
    pub(crate) fn check(&self, ask: &'a BookingRequest) -> Result<Vec<Wanted<'a>>, Refusal> {
        check::shape(ask, self.config)?;
        let parts = ask.parts.iter().enumerate();
        let wanted: Vec<Wanted<'a>> =
            parts.map(|(n, part)| self.wanted(n, part, ask)).collect::<Result<_, Refusal>>()?;
        check::when(&ask.when, &wanted, self.config, self.today)?;
        Ok(wanted)
    }

    fn wanted(&self, n: usize, ask: &'a PartAsk, whole: &BookingRequest) -> Result<Wanted<'a>, Refusal> {
        let gone = || Refusal::plain(RefusalReason::NoResource { part: n, name: ask.resource.clone() });
        let id = self.ledger.resource(&ask.resource).ok_or_else(gone)?;
        let offer = self.ledger.offer(id).ok_or_else(gone)?;
        let wanted = Wanted { ask, id, kind: offer.kind, offer };
        check::part(n, &wanted, &whole.when)?;
        Ok(wanted)
    }

    /// The amount that is free over a whole window of calendar time.
    pub(crate) fn free(&self, wanted: &Wanted<'_>, window: Window) -> u64 {
        let window = self.clock.agents_window(window);
        window.map_or(0, |window| self.ledger.free(wanted.id, window, wanted.packet()))
    }

    fn find(&self, wanted: &Wanted<'_>, amount: u64, span: Span, from: Time, by: Time) -> Option<Time> {
        let (from, by) = (self.clock.agents(from), self.clock.agents(by));
        self.ledger.find(wanted.id, wanted.want(amount), span, from, by).map(|t| self.clock.calendar(t))
    }

    fn stretches(&self, wanted: &Wanted<'_>, window: Window, most: usize) -> Vec<(Window, u64)> {
        let Some(asked) = self.clock.agents_window(window) else { return Vec::new() };
        let found = self.ledger.stretches(wanted.id, asked, wanted.packet(), most);
        found.into_iter().filter_map(|(window, free)| Some((self.clock.calendar_window(window)?, free))).collect()
    }

    /// The refusal, with the first stretch that has too little.
    fn no_room(&self, n: usize, wanted: &Wanted<'_>, asked: u64, window: Window, taken: u64) -> Refusal {
        let stretches = self.stretches(wanted, window, 64);
        let left = |free: u64| free.saturating_sub(taken);
        let short = stretches.iter().copied().find(|(_, free)| left(*free) < asked);
        let (window, free) = short.unwrap_or_else(|| (window, self.free(wanted, window)));
        let resource = wanted.ask.resource.clone();
        Refusal::plain(RefusalReason::NoRoom { part: n, resource, asked, free: left(free), window })
    }
}

/// The plan, as an answer shows it.
pub(crate) fn offered(wanted: &[Wanted<'_>], plan: &Plan) -> Vec<OfferedPart> {
    wanted.iter().zip(plan).map(|(w, steps)| OfferedPart { kind: w.kind, steps: steps.clone() }).collect()
}
