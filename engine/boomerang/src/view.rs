//! The session blocks of a node, for status and for comparison with the kernel's table.

use crate::blocks::Blocks;
use crate::half::State;
use core::net::IpAddr;
use terms::ports::RHandle;
use terms::{FlowKey, IfIndex, Rate, Time};
use wire::boomerang::Selector;

/// A session block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HalfView {
    /// The flow whose packets are meant, under the mask.
    pub flow: FlowKey,
    /// The mask; `None` for a whole five-tuple.
    pub mask: Option<Selector>,
    /// The interface that the packets leave by.
    pub oif: IfIndex,
    /// The rate, counted in IP bytes; zero if only the other direction was asked for.
    pub rate: Rate,
    /// The last transaction, and the rate before it.
    pub undo: (u32, Rate),
    /// The initiating node.
    pub initiator: IpAddr,
    /// The time at which the block expires unless it is refreshed.
    pub expires: Option<Time>,
    /// True if the block is locked and waits for its key.
    pub locked: bool,
    /// True if the plane has reported the reservation as installed.
    pub installed: bool,
    /// Traffic control's handle.
    pub handle: Option<RHandle>,
}

/// Every session block.
pub(crate) fn halves(blocks: &Blocks) -> impl Iterator<Item = HalfView> + '_ {
    blocks.table().iter().map(|(id, key, half)| HalfView {
        flow: key.flow,
        mask: blocks.table().mask_of(key.mask).copied(),
        oif: key.oif,
        rate: Rate::from_bps(u64::from(half.rate)),
        undo: (half.undo.0, Rate::from_bps(u64::from(half.undo.1))),
        initiator: half.initiator,
        expires: blocks.expires(id),
        locked: half.lock.is_some(),
        installed: half.handle.is_some() && half.state == State::Installed,
        handle: half.handle,
    })
}
