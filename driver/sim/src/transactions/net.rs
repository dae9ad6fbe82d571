//! The network between brokers and agents: loss, duplication, reordering, messages ten minutes late, partitions of
//! one way and of both, paths that swallow large packets or crawl, peers that are not trusted.

use super::message::{Message, Place};
use super::tally::Tally;
use crate::rng::{Probability, Rng};
use std::collections::BTreeMap;
use terms::{Span, Time};

/// How late a late message is.
const LATE: Span = Span::from_secs(600);

/// The reason why nothing passes from one place to another, or why it passes differently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Trouble {
    /// Both ways are cut.
    Partition,
    /// This way is cut, the other is not.
    OneWay,
    /// One of several that are cut one after the other, and come back in another order.
    Clogged,
    /// The peer has forgotten the connection, and does not say so.
    HalfOpen,
    /// Large packets are swallowed.
    BlackHole,
    /// Each octet takes its time.
    SlowLoris,
    /// The peer was removed from the trust list.
    Untrusted,
    /// A certificate has expired.
    Expired,
}

impl Trouble {
    /// Its row in the tally, when it has stopped or slowed a message.
    const fn name(self) -> &'static str {
        match self {
            Trouble::Partition => "C15 partition",
            Trouble::OneWay => "C15 one-way partition",
            Trouble::Clogged => "C15 swizzle-clog",
            Trouble::HalfOpen => "C13 half-open connection",
            Trouble::BlackHole => "C13 black hole",
            Trouble::SlowLoris => "C13 slow loris",
            Trouble::Untrusted => "C8 not trusted",
            Trouble::Expired => "C14 expired certificate",
        }
    }
}

/// How messages are treated while nothing is cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weather {
    pub(super) loss: Probability,
    pub(super) double: Probability,
    pub(super) slow: Probability,
    pub(super) late: Probability,
}

/// The network.
pub(super) struct Net {
    weather: Weather,
    troubles: BTreeMap<(Place, Place, Trouble), Time>,
    /// By direction, the latest arrival of a message so far, and its kind.
    latest: BTreeMap<(Place, Place), (Time, &'static str)>,
}

impl Net {
    pub(super) fn new() -> Net {
        Net { weather: Weather::default(), troubles: BTreeMap::new(), latest: BTreeMap::new() }
    }

    pub(super) fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Trouble from one place to another, for so long.
    pub(super) fn trouble(&mut self, from: Place, to: Place, trouble: Trouble, until: Time) {
        let end = self.troubles.entry((from, to, trouble)).or_insert(until);
        *end = until.max(*end);
    }

    /// Everything is well from now on.
    pub(super) fn calm(&mut self) {
        self.weather = Weather::default();
        self.troubles.clear();
    }

    /// Sends a message. Returns the times at which it arrives.
    pub(super) fn send(&mut self, now: Time, message: &Message, rng: &mut Rng, tally: &mut Tally) -> Vec<Time> {
        let (from, to, kind) = (message.from, message.to, message.body.kind());
        let mut delay = Span::from_micros(200 + rng.below(8_000));
        let found: Vec<(Trouble, Time)> = self
            .troubles
            .range((from, to, Trouble::Partition)..=(from, to, Trouble::Expired))
            .map(|((.., trouble), until)| (*trouble, *until))
            .filter(|(_, until)| now < *until)
            .collect();
        for (trouble, _) in found {
            match trouble {
                Trouble::BlackHole if !message.body.is_large() => continue,
                Trouble::SlowLoris => {
                    tally.count(trouble.name(), "");
                    delay = delay.saturating_add(Span::from_secs(5 + rng.below(60)));
                    continue;
                }
                _ => {}
            }
            tally.count(trouble.name(), "");
            return Vec::new();
        }
        if rng.happens(self.weather.loss) {
            tally.count("C4 lost", kind);
            return Vec::new();
        }
        if rng.happens(self.weather.slow) {
            delay = delay.saturating_add(Span::from_millis(rng.below(2_000)));
        }
        if rng.happens(self.weather.late) {
            tally.count("C4 ten minutes late", kind);
            return [now + LATE].into();
        }
        let mut arrivals = vec![now + delay];
        if rng.happens(self.weather.double) {
            tally.count("C4 doubled", kind);
            arrivals.push(now + delay + Span::from_millis(rng.below(3_000)));
        }
        let first = arrivals[0];
        let (latest, before) = self.latest.get(&(from, to)).copied().unwrap_or((Time::ZERO, kind));
        if first < latest {
            tally.count("C4 overtaken", before);
        } else {
            self.latest.insert((from, to), (first, kind));
        }
        arrivals
    }
}
