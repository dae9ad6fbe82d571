//! A token bucket against floods: a burst, and then a steady rate.

use terms::{Span, Time};

#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: u64,
    most: u64,
    every: Span,
    since: Time,
}

impl Bucket {
    /// A full bucket of `most` tokens, which gains one per `every`.
    pub fn new(most: u64, every: Span) -> Bucket {
        Bucket { tokens: most, most, every, since: Time::ZERO }
    }

    /// Takes one token; false if there is none.
    pub fn take(&mut self, now: Time) -> bool {
        let came = now.since(self.since).as_nanos() / self.every.as_nanos().max(1);
        if came > 0 {
            self.tokens = self.tokens.saturating_add(came).min(self.most);
            self.since = now;
        }
        let some = self.tokens > 0;
        self.tokens -= u64::from(some);
        some
    }
}
