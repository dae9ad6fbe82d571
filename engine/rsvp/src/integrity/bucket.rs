//! A token bucket against floods: so many at once, then so many a second.

use terms::{Span, Time};

#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: u64,
    most: u64,
    every: Span,
    since: Time,
}

impl Bucket {
    /// Full, with `most` tokens; one more comes `every` so often.
    pub fn new(most: u64, every: Span) -> Bucket {
        Bucket { tokens: most, most, every, since: Time::ZERO }
    }

    /// Takes one, if there is one.
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
