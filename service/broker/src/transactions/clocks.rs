//! The clocks of agents, compared with each other: windows of one reservation must meet.

use std::sync::{Mutex, PoisonError};
use terms::{Span, Time};

/// The age from which a measurement is taken anew before a change begins.
const OLD: Span = Span::from_secs(5);

/// A measurement: the least and the most that an agent's clock is ahead of ours, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offset {
    least: i128,
    most: i128,
    at: Time,
}

/// The offset of each agent's clock from ours. Only their differences matter.
#[derive(Debug)]
pub struct Clocks {
    offsets: Mutex<Vec<Option<Offset>>>,
}

impl Clocks {
    /// Nothing is known of so many agents.
    pub fn new(agents: usize) -> Clocks {
        Clocks { offsets: Mutex::new(vec![None; agents]) }
    }

    /// Notes that an agent's clock was at `shown` between these instants of ours.
    pub fn note(&self, agent: usize, shown: Time, before: Time, after: Time) {
        let nanos = |time: Time| i128::from(time.as_nanos());
        let offset = Offset { least: nanos(shown) - nanos(after), most: nanos(shown) - nanos(before), at: after };
        if let Some(known) = self.offsets.lock().unwrap_or_else(PoisonError::into_inner).get_mut(agent) {
            *known = Some(offset);
        }
    }

    /// True if the agent's clock was not compared a moment ago.
    pub fn is_old(&self, agent: usize, now: Time) -> bool {
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        offsets.get(agent).copied().flatten().is_none_or(|offset| offset.at.saturating_add(OLD) < now)
    }

    /// Two of these agents whose clocks are further apart than that, and by how much at least, whatever time
    /// their answers took.
    pub fn apart(&self, agents: &[usize], most: Span) -> Option<(usize, usize, Span)> {
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |agent: &usize| Some((*agent, offsets.get(*agent).copied().flatten()?));
        let known: Vec<(usize, Offset)> = agents.iter().filter_map(known).collect();
        // The one that is surely the earliest, and the one that is surely the latest.
        let (slow, behind) = known.iter().min_by_key(|(_, offset)| offset.most)?;
        let (fast, ahead) = known.iter().max_by_key(|(_, offset)| offset.least)?;
        let apart = u64::try_from(ahead.least - behind.most).unwrap_or(0);
        (apart > most.as_nanos()).then(|| (*slow, *fast, Span::from_nanos(apart)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_travel_time_of_answers_is_no_difference() {
        let clocks = Clocks::new(3);
        let seconds = |n: u64| Time::from_nanos(n * 1_000_000_000);
        clocks.note(0, seconds(105), seconds(100), seconds(110));
        clocks.note(1, seconds(114), seconds(100), seconds(110));
        assert_eq!(clocks.apart(&[0, 1], Span::from_secs(1)), None, "both may be 4 s ahead");
        clocks.note(2, seconds(112), seconds(110), seconds(110));
        clocks.note(1, seconds(114), seconds(110), seconds(110));
        assert_eq!(clocks.apart(&[0, 1, 2], Span::from_secs(1)), Some((2, 1, Span::from_secs(2))));
        assert_eq!(clocks.apart(&[0, 1, 2], Span::from_secs(2)), None);
        assert!(!clocks.is_old(1, seconds(115)) && clocks.is_old(1, seconds(116)) && clocks.is_old(7, seconds(0)));
    }
}
