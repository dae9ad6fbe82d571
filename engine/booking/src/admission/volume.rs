//! A volume by a deadline: at the least constant rate that is enough, otherwise at the flattest stepped rate.
//! If neither is possible, the refusal says when it could be done at the earliest.

use super::{Plan, Room, STRETCHES, Wanted, check};
use crate::refusal::{Alternative, AlternativeKind, OfferedPart, Refusal, RefusalReason};
use alloc::vec::Vec;
use terms::book::RateStep;
use terms::ports::Ledger;
use terms::{Bytes, Rate, Time, Window};

/// The free amount of each stretch for all parts together, at most the amount that each can use.
type Profile = Vec<(Window, u64)>;

impl<L: Ledger> Room<'_, L> {
    pub(super) fn volume(
        &self,
        wanted: &[Wanted<'_>],
        bytes: u64,
        not_before: Option<Time>,
        deadline: Time,
    ) -> Result<Plan, Refusal> {
        let start = not_before.unwrap_or(self.today).max(self.today);
        let Ok(window) = Window::new(start, deadline) else {
            return Err(Refusal::meaningless(None, "the deadline is before the start"));
        };
        let constant = rate_for(bytes, window);
        let most = most(wanted);
        if constant <= most && wanted.iter().all(|part| self.free(part, window) >= constant) {
            return Ok(wanted.iter().map(|_| alloc::vec![RateStep { window, amount: constant }]).collect());
        }
        let profile = self.together(wanted, window, most);
        let Some(level) = flattest(&profile, bytes) else {
            return Err(self.too_much(wanted, bytes, window, constant));
        };
        let steps = at_level(&profile, level);
        if steps.len() > self.config.steps {
            return Err(check::limit("steps of a volume", self.config.steps));
        }
        Ok(wanted.iter().map(|_| steps.clone()).collect())
    }

    /// Stretches in which the same amount is free for all parts.
    fn together(&self, wanted: &[Wanted<'_>], window: Window, most: u64) -> Profile {
        let mut profile: Profile = alloc::vec![(window, most)];
        for part in wanted {
            profile = meet(&profile, &self.stretches(part, window, STRETCHES));
        }
        profile
    }

    fn too_much(&self, wanted: &[Wanted<'_>], bytes: u64, window: Window, constant: u64) -> Refusal {
        let lacks = |part: &&Wanted<'_>| self.free(part, window) < constant || constant > most_of(part);
        let n = wanted.iter().position(|part| lacks(&part)).unwrap_or(0);
        let free = self.free(&wanted[n], window).min(most_of(&wanted[n]));
        let resource = wanted[n].ask.resource.clone();
        let mut refusal = Refusal::plain(RefusalReason::NoRoom { part: n, resource, asked: constant, free, window });
        refusal.alternatives.extend(self.done_earliest(wanted, bytes, window.start()));
        refusal
    }

    /// The alternative that moves the volume as fast as possible from the start on.
    fn done_earliest(&self, wanted: &[Wanted<'_>], bytes: u64, start: Time) -> Option<Alternative> {
        let ahead = Window::new(start, self.today.saturating_add(self.config.horizon)).ok()?;
        let profile = self.together(wanted, ahead, most(wanted));
        let (mut steps, mut left): (Vec<RateStep>, u64) = (Vec::new(), bytes);
        for (window, free) in profile.into_iter().filter(|(_, free)| *free > 0) {
            let needed = Rate::from_bps(free).span_for(Bytes::new(left));
            let end = window.end().min(window.start().saturating_add(needed));
            let Ok(used) = Window::new(window.start(), end) else { continue };
            push(&mut steps, RateStep { window: used, amount: free });
            left = left.saturating_sub(Rate::from_bps(free).supplies(used.span()).get());
            if left == 0 {
                break;
            }
        }
        let in_time = left == 0 && steps.len() <= self.config.steps;
        let part = |part: &Wanted<'_>| OfferedPart { kind: part.kind, steps: steps.clone() };
        in_time.then(|| Alternative { sort: AlternativeKind::Later, parts: wanted.iter().map(part).collect() })
    }
}

/// The most that a part can use.
fn most_of(part: &Wanted<'_>) -> u64 {
    if part.ask.amount == 0 { part.offer.capacity } else { part.ask.amount }
}

fn most(wanted: &[Wanted<'_>]) -> u64 {
    wanted.iter().map(most_of).min().unwrap_or(0)
}

/// The least rate, bit/s, that moves `bytes` in this window: rounded up, because it is demand.
fn rate_for(bytes: u64, window: Window) -> u64 {
    let bit_nanos = u128::from(bytes) * 8_000_000_000;
    u64::try_from(bit_nanos.div_ceil(u128::from(window.span().as_nanos()))).unwrap_or(u64::MAX)
}

/// The smaller of two profiles at every instant.
fn meet(a: &Profile, b: &Profile) -> Profile {
    let (mut out, mut i, mut j) = (Vec::new(), 0, 0);
    while let (Some((x, free_a)), Some((y, free_b))) = (a.get(i), b.get(j)) {
        if let Ok(both) = Window::new(x.start().max(y.start()), x.end().min(y.end())) {
            out.push((both, *free_a.min(free_b)));
        }
        if x.end() <= y.end() {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}

/// The bytes that a profile moves at no more than `level`, each stretch rounded down because it is supply.
fn moved(profile: &Profile, level: u64) -> u128 {
    let supplied = |(window, free): &(Window, u64)| Rate::from_bps((*free).min(level)).supplies(window.span()).get();
    profile.iter().map(|stretch| u128::from(supplied(stretch))).sum()
}

/// The lowest level that moves `bytes`; `None`: no level does.
fn flattest(profile: &Profile, bytes: u64) -> Option<u64> {
    let highest = profile.iter().map(|(_, free)| *free).max()?;
    if moved(profile, highest) < u128::from(bytes) {
        return None;
    }
    let (mut low, mut high) = (0, highest);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if moved(profile, middle) >= u128::from(bytes) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

fn at_level(profile: &Profile, level: u64) -> Vec<RateStep> {
    let mut steps = Vec::new();
    for (window, free) in profile.iter().filter(|(_, free)| *free > 0) {
        push(&mut steps, RateStep { window: *window, amount: (*free).min(level) });
    }
    steps
}

/// Appends a step, or makes the last step longer if it continues with the same amount.
fn push(steps: &mut Vec<RateStep>, step: RateStep) {
    match steps.last_mut() {
        Some(last) if last.amount == step.amount && last.window.end() == step.window.start() => {
            if let Ok(longer) = Window::new(last.window.start(), step.window.end()) {
                last.window = longer;
            }
        }
        _ => steps.push(step),
    }
}
