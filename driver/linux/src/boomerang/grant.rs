//! Grants: the rate of an interface that the programs may assign without user space.
//!
//! The ledger books a grant as one open slot before it grows, and releases the difference after it was
//! shrunk. The programs and user space take by compare-and-swap and never add a rate that is not booked. So
//! at every instant `free + rates in the table <= grant <= booked in the ledger`. `room` is the rate that the
//! ledger could add on demand: a program refuses at once a request beyond it, and leaves smaller ones to user
//! space.

use super::FastPath;
use super::layout::{flag, oif};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use terms::{Fault, IfIndex, Rate};

/// The most attempts to read a grant while no session changes.
const LOOKS: usize = 16;

impl FastPath {
    /// Adds to the grant of an interface, which admits from then on; the ledger must have booked it.
    /// `priority` is the class of admitted packets, in the form of `skb->priority`.
    ///
    /// # Errors
    /// The interface's number exceeds the table.
    pub fn grow(&self, oif: IfIndex, by: Rate, priority: u32) -> Result<(), Fault> {
        let interface = self.interface(oif).ok_or(super::PAST_THE_END)?;
        interface.priority.store(priority, Release);
        interface.free.fetch_add(by.as_bps(), AcqRel);
        interface.flags.fetch_or(flag::ADMITS, Release);
        Ok(())
    }

    /// Takes at most `by` from the free part of an interface's grant. Returns the rate that was taken, which
    /// the ledger may release.
    pub fn shrink(&self, oif: IfIndex, by: Rate) -> Rate {
        let Some(interface) = self.interface(oif) else { return Rate::ZERO };
        let less = |free: u64| Some(free - free.min(by.as_bps()));
        let before = interface.free.fetch_update(AcqRel, Acquire, less).unwrap_or(0);
        Rate::from_bps(before.min(by.as_bps()))
    }

    /// Stops admission on an interface; its sessions stay until they expire or are released. Returns the rate
    /// that was free.
    pub fn close(&self, oif: IfIndex) -> Rate {
        if let Some(interface) = self.interface(oif) {
            interface.flags.fetch_and(!flag::ADMITS, Release);
        }
        self.shrink(oif, Rate::from_bps(u64::MAX))
    }

    /// Sets the rate that the ledger could still add to the grant of an interface.
    pub fn set_room(&self, oif: IfIndex, room: Rate) {
        if let Some(interface) = self.interface(oif) {
            interface.room.store(room.as_bps(), Release);
        }
    }

    /// The free rate of the grant.
    pub fn free(&self, oif: IfIndex) -> Rate {
        Rate::from_bps(self.interface(oif).map_or(0, |interface| interface.free.load(Acquire)))
    }

    /// True if the programs admit sessions on this interface.
    pub fn admits(&self, oif: IfIndex) -> bool {
        self.interface(oif).is_some_and(|interface| interface.flags.load(Acquire) & flag::ADMITS != 0)
    }

    /// The interfaces on which the programs admit.
    pub fn admitting(&self) -> impl Iterator<Item = IfIndex> + '_ {
        (1..super::layout::MOST_INTERFACES).map(IfIndex).filter(|oif| self.admits(*oif))
    }

    /// The sum of the rates of an interface's sessions in the table.
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

    /// The grant of an interface, computed as free plus held rates. An agent that starts and finds the maps
    /// of a killed one uses it; the ledger books this rate before the first message is read. While messages
    /// are admitted, both values are read until no session changed in between. If that never happens, the
    /// program admits nothing on the interface for a moment and leaves its messages to user space.
    ///
    /// # Errors
    /// The kernel does not answer, or the values never agree.
    pub fn reclaim(&self, oif: IfIndex) -> Result<Rate, Fault> {
        if let Some(all) = self.look_often(oif)? {
            return Ok(all);
        }
        let Some(interface) = self.interface(oif) else { return Err(super::PAST_THE_END) };
        let before = interface.flags.fetch_and(!flag::ADMITS, AcqRel);
        let all = self.look_often(oif);
        interface.flags.fetch_or(before & flag::ADMITS, AcqRel);
        all?.ok_or(Fault { what: "count a grant that changes all the time", code: libc::EAGAIN })
    }

    fn look_often(&self, oif: IfIndex) -> Result<Option<Rate>, Fault> {
        for _ in 0..LOOKS {
            if let Some(all) = self.look(oif)? {
                return Ok(Some(all));
            }
        }
        Ok(None)
    }

    /// Free plus held rates, if no session changed while they were read. The program counts a change at its
    /// end, and has taken the rate before: so the counters are read again when every program that ran
    /// meanwhile has ended.
    fn look(&self, oif: IfIndex) -> Result<Option<Rate>, Fault> {
        let moved = |counts: super::ProgramCounts| [counts.made, counts.changed, counts.released];
        let now = || Ok::<_, Fault>((self.free(oif), moved(self.counts()?)));
        let before = now()?;
        let held = self.held(oif);
        if now()? != before {
            return Ok(None);
        }
        crate::bpf::sys::wait_for_programs();
        Ok((now()? == before).then(|| before.0.saturating_add(held)))
    }
}
