//! What a node holds, for status and for comparison with the kernel's table.

use crate::engine::Boomerang;
use crate::half::{EXACT, HalfKey, State};
use core::net::IpAddr;
use terms::ports::RHandle;
use terms::probe::ProbeObserver;
use terms::{FlowKey, IfIndex, Rate, Time};
use wire::boomerang::Selector;

/// A session block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HalfView {
    /// Whose packets, under the mask.
    pub flow: FlowKey,
    /// The mask, unless it is a whole five-tuple's.
    pub mask: Option<Selector>,
    /// Where they leave.
    pub oif: IfIndex,
    /// How much, IP bytes; zero: a request passed that asked for the other direction alone.
    pub rate: Rate,
    /// The last transaction, and the rate before it.
    pub undo: (u32, Rate),
    /// Who asked.
    pub initiator: IpAddr,
    /// When it is over unless it is refreshed.
    pub expires: Option<Time>,
    /// Whether it waits for its key.
    pub locked: bool,
    /// Whether the plane has said that it is installed.
    pub installed: bool,
    /// Traffic control's handle.
    pub handle: Option<RHandle>,
}

impl<P: ProbeObserver> Boomerang<P> {
    /// Every session block.
    pub fn halves(&self) -> impl Iterator<Item = HalfView> + '_ {
        self.table.iter().map(|(id, key, half)| HalfView {
            flow: key.flow,
            mask: self.table.mask_of(key.mask).copied(),
            oif: key.oif,
            rate: Rate::from_bps(u64::from(half.rate)),
            undo: (half.undo.0, Rate::from_bps(u64::from(half.undo.1))),
            initiator: half.initiator,
            expires: self.timers.due(id),
            locked: half.lock.is_some(),
            installed: half.handle.is_some() && half.state == State::Installed,
            handle: half.handle,
        })
    }

    /// Whether there is a block of this very flow on this interface.
    pub fn holds(&self, oif: IfIndex, flow: &FlowKey) -> bool {
        self.table.find(&HalfKey { flow: *flow, oif, mask: EXACT }).is_some()
    }

    /// How many session blocks there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }
}
