//! Reservation state block: what one next hop, or one local application, asks for. RFC 2209 section 1.2.

use crate::io::AppId;
use crate::psb::Forwarded;
use crate::session::SessionState;
use crate::table::Id;
use crate::timers::Alarm;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{FilterSpec, FlowSpec, IfIndex, Span, Style, Time};

/// What a reservation state is found by. The shared styles (SE, WF) will widen the filter to a list of filters.
pub type RsbKey = (Id<SessionState>, NextHop, FilterSpec);

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NextHop {
    /// A local application.
    App(AppId),
    /// A neighbour, for packets that leave by an interface: RSVP_HOP of its Resv.
    Hop {
        /// The interface that its LIH names: ours, from our Path.
        oif: IfIndex,
        /// Its address.
        addr: IpAddr,
    },
}

impl NextHop {
    /// The outgoing interface; `None` for an application.
    pub fn oif(&self) -> Option<IfIndex> {
        match self {
            NextHop::App(_) => None,
            NextHop::Hop { oif, .. } => Some(*oif),
        }
    }
}

/// How many earlier requests of an application are kept to fall back to.
pub const MOST_EARLIER: usize = 4;

/// Reservation state.
pub struct Rsb {
    /// Reservation style.
    pub style: Style,
    /// What is asked.
    pub flowspec: FlowSpec,
    /// What an application asked before, youngest last: where a refusal that left the older reservation in place takes
    /// it back to. Empty for a neighbour.
    pub earlier: Vec<FlowSpec>,
    /// Who wants a confirmation that has not been passed on yet.
    pub confirm: Option<Confirm>,
    /// Whether an increase was refused since: the next request is put before traffic control again, whatever it asks.
    pub refused: bool,
    /// Objects that go with each Resv upstream as they came.
    pub forward: Vec<Forwarded>,
    /// R of whoever asks.
    pub refresh: Span,
    /// Whether it is on the link: then it is answered by the interface it asks for, otherwise by the routing table.
    pub direct: bool,
    /// End of its life unless refreshed; never for an application.
    pub expires: Time,
    /// What its last refresh looked like, see [`crate::heard`].
    pub heard: u64,
    /// Fires at `expires`, or before.
    pub alarm: Alarm,
}

/// Who wants a confirmation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirm {
    /// The application itself; it stays until the ResvConf comes.
    Application,
    /// The receiver at this address, from RESV_CONFIRM; it is passed upstream once.
    Receiver(IpAddr),
}
