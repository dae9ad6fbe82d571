//! The removal of expired sessions, and the list of live ones.

use super::FastPath;
use super::layout::{self, CellState, KernelSession, TICK, WAYS, oif};
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use terms::Rate;

/// A session that the sweep removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expired {
    /// The session before its removal.
    pub session: KernelSession,
}

impl FastPath {
    /// The current tick of the programs.
    pub fn now(&self) -> u64 {
        crate::clock::monotonic_coarse().wrapping_add(self.settings().offset.load(Acquire)) >> TICK
    }

    /// Examines the next `rows` rows of the table, removes sessions that have expired at this tick and
    /// returns their rates to the grant. A session that is refreshed at the same instant is either refreshed
    /// or removed, never both.
    pub fn sweep(&mut self, tick: u64, rows: usize) -> Vec<Expired> {
        let all = self.rows.all().len();
        let mut over = Vec::new();
        for _ in 0..rows.min(all) {
            let index = self.next;
            self.next = (self.next + 1) % all;
            (0..WAYS).for_each(|way| over.extend(self.take_out(index, way, tick)));
        }
        over
    }

    fn take_out(&self, index: usize, way: usize, tick: u64) -> Option<Expired> {
        let row = &self.rows.all()[index];
        let state = CellState(row.at[way].state.load(Acquire));
        if !state.is_live() || !state.is_over(tick) {
            return None;
        }
        let session = layout::session(row, index * WAYS + way, self.wide.all().get(index * WAYS + way), tick)?;
        // Another session that came here meanwhile would not be over: its state is another.
        row.at[way].state.compare_exchange(state.0, state.freed().0, AcqRel, Acquire).ok()?;
        let interface = self.interface(session.oif)?;
        interface.free.fetch_add(state.rate().as_bps(), AcqRel);
        Some(Expired { session })
    }

    /// The live sessions, each as it was at some instant of the walk; `skip` and `most` select a page.
    pub fn sessions(&self, tick: u64, skip: usize, most: usize) -> Vec<KernelSession> {
        let rows = self.rows.all().iter().enumerate();
        let places = rows.flat_map(|(index, row)| (0..WAYS).map(move |way| (index, row, way)));
        let wide = self.wide.all();
        let live = places.filter_map(|(index, row, way)| {
            layout::session(row, index * WAYS + way, wide.get(index * WAYS + way), tick)
        });
        live.skip(skip).take(most).collect()
    }

    /// The number of sessions on all interfaces, and the sum of their rates.
    pub fn total(&self) -> (usize, Rate) {
        let (mut count, mut sum) = (0, 0_u64);
        for row in self.rows.all() {
            for way in 0..WAYS {
                let state = CellState(row.at[way].state.load(Acquire));
                if state.is_live() && oif(row.at[way].place.load(Acquire)).0 != 0 {
                    count += 1;
                    sum = sum.saturating_add(state.rate().as_bps());
                }
            }
        }
        (count, Rate::from_bps(sum))
    }
}
