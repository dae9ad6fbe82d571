//! The state of a search for the reservations that make a batch fail: the groups that are yet to be tried.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use terms::ports::RHandle;

/// After so many reservations in a row that failed alone, the plane refuses everything, and so do we.
const MOST_GUILTY: u32 = 16;

/// A search on one interface.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The reservations that are yet to be tried, each group in a batch of its own.
    groups: VecDeque<Vec<RHandle>>,
    /// How many in a row failed alone.
    guilty: u32,
}

impl Search {
    /// True if some are yet to be tried.
    pub(crate) fn goes_on(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The next group, and all reservations of the later ones.
    pub(crate) fn next(&mut self) -> Option<(Vec<RHandle>, BTreeSet<RHandle>)> {
        let group = self.groups.pop_front()?;
        Some((group, self.groups.iter().flatten().copied().collect()))
    }

    /// Notes that a batch was carried out.
    pub(crate) fn succeeded(&mut self) {
        self.guilty = 0;
    }

    /// Takes the reservations of a failed batch, equal ones side by side. Returns those that are refused now: the one
    /// that failed alone, and with the last of too many in a row all that are left.
    pub(crate) fn failed(&mut self, mut waits: Vec<RHandle>) -> Vec<RHandle> {
        let (Some(&first), Some(&last)) = (waits.first(), waits.last()) else { return waits };
        if first != last {
            let middle = waits.get(waits.len() / 2).copied().unwrap_or(last);
            let second = waits.iter().position(|handle| *handle == middle).filter(|at| *at > 0);
            let at = second.or_else(|| waits.iter().position(|handle| *handle != first));
            let second = waits.split_off(at.unwrap_or(waits.len()));
            self.groups.push_front(second);
            self.groups.push_front(waits);
            return Vec::new();
        }
        self.guilty += 1;
        if self.guilty >= MOST_GUILTY {
            waits.extend(self.groups.drain(..).flatten());
        }
        waits
    }
}
