//! A session block: the reservation of one flow on one outgoing interface. A session with reservations in
//! both directions has two on a node, because the routes may differ.

use core::net::IpAddr;
use terms::ports::RHandle;
use terms::{FlowKey, IfIndex, Span};

/// The key of a session block: the flow under its mask (ends and ports exchanged for the reverse half), and
/// the outgoing interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct HalfKey {
    pub flow: FlowKey,
    pub oif: IfIndex,
    /// Number of the mask; [`EXACT`] for one five-tuple.
    pub mask: u16,
}

/// The mask of a whole five-tuple.
pub(crate) const EXACT: u16 = 0;

/// A session block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half {
    /// Traffic control's handle; `None` while nothing is reserved.
    pub handle: Option<RHandle>,
    /// The rate, in bit/s of IP packets.
    pub rate: u32,
    /// The last transaction that changed or confirmed the rate, and the rate before it.
    pub undo: (u32, u32),
    /// The lifetime without a refresh, as traffic control was told.
    pub life: Span,
    /// The initiating node.
    pub initiator: IpAddr,
    /// The prime of the lock, until the initiating node sends a multiple of it.
    pub lock: Option<u64>,
    /// The state of the reservation in the plane.
    pub state: State,
}

/// The state of a block's reservation in the plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not reported yet.
    Pending,
    /// Installed.
    Installed,
    /// Not installable, or displaced: the next reply of its transaction is refused.
    Lost,
}

/// The lifetime without a refresh: 3.5 times the interval in the message, of which zero counts as one second.
/// So three refreshes in a row may be lost.
pub fn life(refresh: u8) -> Span {
    Span::from_millis(u64::from(refresh.max(1)) * 3_500)
}
