//! Grants: how much of an interface the programs may give away by themselves.
//!
//! The ledger books the grant as one open slot before it is grown, and is told after it was shrunk; programs and we
//! take by compare-and-swap and never add what is not there yet. So at every instant
//! `free + rates in the table <= grant <= what the ledger booked`. `room` is what the ledger could add on demand: a
//! program refuses at once what even that would not cover, and lets user space decide what it would.

use super::FastPath;
use super::layout::{flag, oif};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use terms::{Fault, IfIndex, Rate};

/// How often a grant is looked at for an instant in which nothing moved.
const LOOKS: usize = 16;

impl FastPath {
    /// Adds to the grant of an interface, which admits from then on; the ledger has booked it. `priority` is the class
    /// of what is admitted, as `skb->priority` takes it.
    ///
    /// # Errors
    /// The interface's number is past the table's end.
    pub fn grow(&self, oif: IfIndex, by: Rate, priority: u32) -> Result<(), Fault> {
        let interface = self.interface(oif).ok_or(super::PAST_THE_END)?;
        interface.priority.store(priority, Release);
        interface.free.fetch_add(by.as_bps(), AcqRel);
        interface.flags.fetch_or(flag::ADMITS, Release);
        Ok(())
    }

    /// Takes from the grant of an interface what is free of it, `by` at the most; returns what was taken, which the
    /// ledger may have back.
    pub fn shrink(&self, oif: IfIndex, by: Rate) -> Rate {
        let Some(interface) = self.interface(oif) else { return Rate::ZERO };
        let less = |free: u64| Some(free - free.min(by.as_bps()));
        let before = interface.free.fetch_update(AcqRel, Acquire, less).unwrap_or(0);
        Rate::from_bps(before.min(by.as_bps()))
    }

    /// Stops admitting on an interface; what is there stays until it expires or is released. Returns what was free.
    pub fn close(&self, oif: IfIndex) -> Rate {
        if let Some(interface) = self.interface(oif) {
            interface.flags.fetch_and(!flag::ADMITS, Release);
        }
        self.shrink(oif, Rate::from_bps(u64::MAX))
    }

    /// Says what the ledger could still add to the grant of an interface.
    pub fn set_room(&self, oif: IfIndex, room: Rate) {
        if let Some(interface) = self.interface(oif) {
            interface.room.store(room.as_bps(), Release);
        }
    }

    /// What of the grant nobody has.
    pub fn free(&self, oif: IfIndex) -> Rate {
        Rate::from_bps(self.interface(oif).map_or(0, |interface| interface.free.load(Acquire)))
    }

    /// Whether the programs admit on this interface.
    pub fn admits(&self, oif: IfIndex) -> bool {
        self.interface(oif).is_some_and(|interface| interface.flags.load(Acquire) & flag::ADMITS != 0)
    }

    /// The interfaces on which the programs admit.
    pub fn admitting(&self) -> impl Iterator<Item = IfIndex> + '_ {
        (1..super::layout::MOST_INTERFACES).map(IfIndex).filter(|oif| self.admits(*oif))
    }

    /// What the sessions of the table have of an interface.
    pub fn held(&self, of: IfIndex) -> Rate {
        let mut sum: u64 = 0;
        for row in self.rows.all() {
            for way in 0..super::layout::WAYS {
                let state = super::layout::CellState(row.at[way].state.load(Acquire));
                if state.is_live() && oif(row.at[way].place.load(Relaxed)) == of {
                    sum = sum.saturating_add(state.rate().as_bps());
                }
            }
        }
        Rate::from_bps(sum)
    }

    /// What the grant of an interface is, by what is there: free and held. For an agent that starts and finds the maps
    /// of one that was killed; the ledger books this before the first message is read. While messages are admitted
    /// both are read until nothing moved in between; where that never happens, with nothing free for the moment, so
    /// that nothing can be made.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn reclaim(&self, oif: IfIndex) -> Result<Rate, Fault> {
        for _ in 0..LOOKS {
            if let Some(all) = self.look(oif)? {
                return Ok(all);
            }
        }
        let aside = self.shrink(oif, Rate::from_bps(u64::MAX));
        let mut rest = self.held(oif);
        for _ in 0..LOOKS {
            if let Some(all) = self.look(oif)? {
                rest = all;
                break;
            }
        }
        if let Some(interface) = self.interface(oif) {
            interface.free.fetch_add(aside.as_bps(), AcqRel);
        }
        Ok(aside.saturating_add(rest))
    }

    /// Free and held, if nothing moved while they were read.
    fn look(&self, oif: IfIndex) -> Result<Option<Rate>, Fault> {
        let moved = |counts: super::ProgramCounts| [counts.made, counts.changed, counts.released];
        let before = (self.free(oif), moved(self.counts()?));
        let held = self.held(oif);
        let after = (self.free(oif), moved(self.counts()?));
        Ok((before == after).then(|| before.0.saturating_add(held)))
    }
}
