//! Conflicts of bindings: two parts of a resource whose windows meet cannot have the same packets or processes.

use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Number, Reservations};
use alloc::string::ToString;
use terms::Time;
use terms::book::{Binding, Caller, RateStep};

/// Checks that no other part whose windows meet the steps of part `n` of a request has the same binding; `but`: parts
/// of this reservation do not count.
pub(crate) fn free_to_bind(
    table: &Reservations,
    caller: &Caller,
    n: usize,
    (resource, binding): (u32, &Binding),
    steps: &[RateStep],
    but: Option<Number>,
) -> Result<(), Refusal> {
    let others = table.bound(resource, binding).iter().filter(|place| but != Some(place.0));
    let mut parts = others.filter_map(|place| {
        let r = table.get(place.0)?;
        Some((r, r.parts.get(place.1)?))
    });
    let Some((r, part)) = parts.find(|(_, part)| meet(steps, &part.steps)) else { return Ok(()) };
    let by = table.may(caller, r, false).then(|| (r.handle, table.owner_of(r).to_string()));
    let until = part.steps.last().map_or(Time::FOREVER, |step| step.window.end());
    Err(Refusal::plain(RefusalReason::Taken { part: n, by, until }))
}

fn meet(steps: &[RateStep], other: &[RateStep]) -> bool {
    let (mut i, mut j) = (0, 0);
    while let (Some(a), Some(b)) = (steps.get(i), other.get(j)) {
        if a.window.overlaps(&b.window) {
            return true;
        }
        if a.window.end() <= b.window.end() { i += 1 } else { j += 1 }
    }
    false
}
