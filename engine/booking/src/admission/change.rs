//! Alternatives to a change that does not fit. The reservation's own amounts count as free for it. Nothing is
//! given back to find out.

use super::packet;
use crate::calendar::Calendar;
use crate::config::Config;
use crate::refusal::{Alternative, AlternativeKind, OfferedPart, Refusal, RefusalReason};
use crate::reservations::{Part, Reservation, Resources};
use alloc::vec::Vec;
use terms::book::{RateStep, ResourceId, amount_at};
use terms::ports::Ledger;
use terms::ports::book::Demand;
use terms::{Time, Window};

/// The most stretches of a timeline that are looked at for one part.
const STRETCHES: usize = 1_024;
/// The most rounds in which parts may disagree about the earliest start before the search is given up.
const ROUNDS: usize = 256;

/// A part after the change, in one window.
struct Asked<'a> {
    old: &'a Part,
    /// `None`: a background part, which needs no room.
    id: Option<ResourceId>,
    packet: u32,
    step: RateStep,
}

/// The search for a change that would fit.
pub(crate) struct OtherChanges<'a, L> {
    ledger: &'a L,
    config: &'a Config,
    calendar: Calendar,
    resources: &'a Resources,
}

impl<'b, L: Ledger> OtherChanges<'b, L> {
    pub(crate) fn new(
        ledger: &'b L,
        config: &'b Config,
        calendar: Calendar,
        resources: &'b Resources,
    ) -> OtherChanges<'b, L> {
        OtherChanges { ledger, config, calendar, resources }
    }

    /// The refusal with the first stretch that is short, and with alternatives if every part of the change
    /// has one window.
    pub(crate) fn offer(&self, old: &Reservation, next: &Reservation, mut refusal: Refusal) -> Refusal {
        let RefusalReason::NoRoom { part: n, asked, free, window, .. } = &mut refusal.why else { return refusal };
        let Some(parts) = self.each_in_one_window(old, next) else { return refusal };
        let short = self.stretches(&parts[*n], parts[*n].step.window);
        if let Some(&(first, left)) = short.iter().find(|(_, left)| *left < parts[*n].step.amount) {
            (*asked, *free, *window) = (parts[*n].step.amount, left, first);
        }
        let begun =
            old.parts.iter().any(|part| part.steps.iter().any(|step| step.window.start() <= self.calendar.today()));
        let all = [
            (AlternativeKind::Later, if begun { None } else { self.later(&parts) }),
            (AlternativeKind::Slower, self.slower(&parts)),
            (AlternativeKind::Shorter, self.shorter(&parts)),
        ];
        let offered = |steps: Vec<RateStep>| {
            let each = old.parts.iter().zip(steps);
            each.map(|(part, step)| OfferedPart {
                kind: self.resources.get(part.resource).kind(),
                steps: [step].into(),
            })
        };
        let found = all.into_iter().filter_map(|(sort, steps)| Some((sort, steps?)));
        let found = found.map(|(sort, steps)| Alternative { sort, parts: offered(steps).collect() });
        refusal.alternatives.extend(found);
        refusal
    }

    /// The parts, if each has one window. `None`: a part has several windows, or its resource is away, or two
    /// parts are of one resource.
    fn each_in_one_window<'a>(&self, old: &'a Reservation, next: &Reservation) -> Option<Vec<Asked<'a>>> {
        let part = |(old, next): (&'a Part, &Part)| {
            let named = self.resources.get(old.resource);
            let [step] = next.steps[..] else { return None };
            let start = step.window.start().max(self.calendar.today());
            let step = RateStep { window: Window::new(start, step.window.end()).ok()?, ..step };
            let id = if old.background.is_none() { Some(named.id()?) } else { None };
            Some(Asked { old, id, packet: packet(named.kind(), old.shape.packet), step })
        };
        let parts: Vec<Asked<'a>> = old.parts.iter().zip(&next.parts).map(part).collect::<Option<_>>()?;
        let twice =
            |(n, part): (usize, &Asked<'_>)| parts[..n].iter().any(|other| other.old.resource == part.old.resource);
        (!parts.iter().enumerate().any(twice)).then_some(parts)
    }

    /// The amount that the part could have in each stretch of a window: the free amount plus its own.
    fn stretches(&self, part: &Asked<'_>, window: Window) -> Vec<(Window, u64)> {
        let (Some(id), Some(asked)) = (part.id, self.calendar.offset().agents_window(window)) else {
            return Vec::new();
        };
        let free = self.ledger.stretches(id, asked, part.packet, STRETCHES);
        let free =
            free.into_iter().filter_map(|(window, free)| Some((self.calendar.offset().calendar_window(window)?, free)));
        free.flat_map(|(window, free)| with_own(&part.old.steps, window, free)).collect()
    }

    /// The same amount and length, at the first free time; the part's own amount does not count as free here.
    fn later(&self, parts: &[Asked<'_>]) -> Option<Vec<RateStep>> {
        let first = parts.first()?.step.window;
        if first.end() == Time::FOREVER || parts.iter().any(|part| part.step.window != first) {
            return None;
        }
        let by = first
            .end()
            .saturating_add(self.config.look_ahead)
            .min(self.calendar.today().saturating_add(self.config.horizon));
        let mut start = first.start();
        for _ in 0..ROUNDS {
            let asked = start;
            for part in parts {
                let Some(id) = part.id else { continue };
                let want = Demand { amount: part.step.amount, packet: part.packet };
                let (from, by) = (self.calendar.offset().agents(start), self.calendar.offset().agents(by));
                start = self.calendar.offset().calendar(self.ledger.find(id, want, first.span(), from, by)?);
            }
            if start == asked {
                let window = Window::new(start, start.saturating_add(first.span())).ok()?;
                return Some(parts.iter().map(|part| RateStep { window, ..part.step }).collect());
            }
        }
        None
    }

    /// The same windows, with as much as there is.
    fn slower(&self, parts: &[Asked<'_>]) -> Option<Vec<RateStep>> {
        let part = |part: &Asked<'_>| {
            let least = self.stretches(part, part.step.window).into_iter().map(|(_, free)| free).min();
            let amount = part.step.amount.min(if part.id.is_some() { least? } else { u64::MAX });
            (amount > 0 && part.old.background.is_none_or(|terms| terms.floor <= amount))
                .then_some(RateStep { amount, ..part.step })
        };
        parts.iter().map(part).collect()
    }

    /// The same start and amount, until the first part is short.
    fn shorter(&self, parts: &[Asked<'_>]) -> Option<Vec<RateStep>> {
        let mut end = parts.iter().map(|part| part.step.window.end()).max()?;
        if parts.iter().any(|part| part.step.window.end() != end) {
            return None;
        }
        for part in parts.iter().filter(|part| part.id.is_some()) {
            let stretches = self.stretches(part, part.step.window);
            let short = stretches.iter().find(|(_, free)| *free < part.step.amount);
            end = end.min(short.map_or(stretches.last()?.0.end(), |(first, _)| first.start()));
        }
        if end <= self.calendar.today() {
            return None;
        }
        let step =
            |part: &Asked<'_>| Some(RateStep { window: Window::new(part.step.window.start(), end).ok()?, ..part.step });
        parts.iter().map(step).collect()
    }
}

/// The stretch, cut at the part's own steps; each piece has the free amount plus the part's own.
fn with_own(steps: &[RateStep], window: Window, free: u64) -> Vec<(Window, u64)> {
    let mut edges: Vec<Time> = steps.iter().flat_map(|step| [step.window.start(), step.window.end()]).collect();
    edges.retain(|edge| *edge > window.start() && *edge < window.end());
    edges.extend([window.start(), window.end()]);
    edges.sort_unstable();
    edges.dedup();
    let pairs = edges.windows(2).filter_map(|pair| Window::new(pair[0], pair[1]).ok());
    pairs.map(|piece| (piece, free.saturating_add(amount_at(steps, piece.start())))).collect()
}
