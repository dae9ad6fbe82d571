//! A session block: what one flow has on one outgoing interface. A session through a node with reservations in both
//! directions is two of them, because the ways may differ.

use core::net::IpAddr;
use terms::ports::RHandle;
use terms::{FlowKey, IfIndex, Span};

/// What tells session blocks apart: the flow under its mask (ends and ports exchanged for the reverse half), and where its
/// packets leave.
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
    /// Traffic control's; `None` while nothing is reserved.
    pub handle: Option<RHandle>,
    /// bit/s of IP bytes.
    pub rate: u32,
    /// The last transaction that changed or confirmed the rate, and the rate before it.
    pub undo: (u32, u32),
    /// How long it lives unrefreshed, as traffic control was told.
    pub life: Span,
    /// Who asked.
    pub initiator: IpAddr,
    /// Locked with this prime until the initiating node says a multiple of it.
    pub lock: Option<u64>,
    /// What the plane said of it.
    pub state: State,
}

/// Whether a block's reservation is in the plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// On its way.
    Pending,
    /// In it.
    Installed,
    /// It could not be installed, or made way: the next reply of its transaction is refused.
    Lost,
}

/// How long state lives without a refresh: 3.5 times the interval in the message; an interval of zero counts as a second.
/// So three refreshes in a row may be lost.
pub fn life(refresh: u8) -> Span {
    Span::from_millis(u64::from(refresh.max(1)) * 3_500)
}
