//! Blockade state block: a request of this sender that failed admission upstream, so that repeated failures
//! of it do not keep smaller ones from being made. RFC 2205 section 3.5, RFC 2209 section 1.2.

use terms::{FlowSpec, Time};

/// Blockade state of one sender (of one previous hop for wildcard reservations: then of all its senders).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bsb {
    /// `Qb`: the flowspec that failed.
    pub flowspec: FlowSpec,
    /// `Tb`: the end of the blockade.
    pub until: Time,
}

impl Bsb {
    /// True if a request must not be merged into the request upstream for now.
    pub fn blocks(&self, now: Time, request: &FlowSpec) -> bool {
        self.until > now && !exceeds(&self.flowspec, request)
    }
}

/// True if `failed` is strictly greater than `request`: it would serve it, and its rate is higher.
///
/// RFC 2205 section 3.5 calls a vector strictly greater if *each* component is. Taken to the letter, a large
/// request would blockade every smaller one that has the same bucket or packet size, and the killer
/// reservation would have won. A link's ledger refuses rates, so the rate must differ.
pub(crate) fn exceeds(failed: &FlowSpec, request: &FlowSpec) -> bool {
    failed.rate() > request.rate() && failed.serves(request)
}

/// The request to a previous hop for these requests: the least that serves all that are not blockaded. If all
/// are blockaded: `None` if `settle` is off (RFC 2209: `B_Merge`), otherwise their greatest lower bound.
pub(crate) fn merged_past(
    bsb: &Bsb,
    now: Time,
    requests: impl Iterator<Item = FlowSpec> + Clone,
    settle: bool,
) -> Option<FlowSpec> {
    // Two services were not let in side by side; where they meet all the same, the first one counts.
    let free = requests.clone().filter(|q| !bsb.blocks(now, q));
    let least = free.reduce(|sum, q| sum.merged(&q).unwrap_or(sum));
    least.or_else(|| requests.filter(|_| settle).reduce(|sum, q| sum.greatest_lower_bound(&q).unwrap_or(sum)))
}
