//! Reservation state block: what one next hop, or one local application, asks for. RFC 2209 section 1.2.
//!
//! A fixed-filter request is a block of its own for each sender; a shared one (SE, WF) is one block whose senders, if it
//! lists them, are kept beside it.

use crate::io::AppId;
use crate::psb::Forwarded;
use crate::session::SessionState;
use crate::short_list::Few;
use crate::table::BlockId;
use crate::timers::Alarm;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::Preemption;
use terms::{FilterSpec, FlowSpec, IfIndex, Span, Style, Time};

/// What a reservation state is found by: the sender for FF, `None` for a shared style.
pub type RsbKey = (BlockId<SessionState>, NextHop, Option<FilterSpec>);

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

/// The most senders that shared reservations of one session may list on one interface.
pub const MOST_FILTERS: usize = 128;

/// The most addresses that a SCOPE object may leave with us.
pub const MOST_SCOPE: usize = 128;

/// Reservation state.
pub struct Rsb {
    /// Reservation style.
    pub style: Style,
    /// What is asked.
    pub flowspec: FlowSpec,
    /// What an application asked before, youngest last: where a refusal that left the older reservation in place takes
    /// it back to. Empty for a neighbour.
    pub earlier: Few<FlowSpec>,
    /// The senders of a shared reservation.
    pub shared: Option<Box<SharedSenders>>,
    /// Who wants a confirmation that has not been passed on yet.
    pub confirm: Option<Confirm>,
    /// How it stands against others (RFC 3181).
    pub priority: Option<Preemption>,
    /// Whether an increase was refused since: the next request is put before traffic control again, whatever it asks.
    pub refused: bool,
    /// Objects that go with each Resv upstream as they came.
    pub forward: Few<Forwarded>,
    /// R of whoever asks.
    pub refresh: Span,
    /// Whether it is on the link: then it is answered by the interface it asks for, otherwise by the routing table.
    pub direct: bool,
    /// End of its life unless refreshed; never for an application. For SE, when the first of its senders ends.
    pub expires: Time,
    /// What its last refresh looked like, see [`crate::heard`].
    pub heard: u64,
    /// Fires at `expires`, or before.
    pub alarm: Alarm,
}

/// Which senders share a reservation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedSenders {
    /// SE: the senders asked for, in ascending order. Each has a life of its own (RFC 2209 section 2.4).
    pub filters: Vec<ListedSender>,
    /// WF: the senders that the request is meant for; `None`: every sender that routes to its interface.
    pub scope: Option<Box<[IpAddr]>>,
}

/// One sender of a shared-explicit request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedSender {
    /// The sender.
    pub filter: FilterSpec,
    /// When it leaves the list unless it is named again.
    pub expires: Time,
}

/// Who wants a confirmation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirm {
    /// The application itself; it stays until the ResvConf comes.
    Application,
    /// The application, of a shared request that one of its senders' sides has confirmed: it hears of the others too, but
    /// does not ask again.
    Answered,
    /// The receiver at this address, from RESV_CONFIRM; it is passed upstream once.
    Receiver(IpAddr),
}

impl Rsb {
    /// Whether a shared request is for this sender, too; a fixed-filter request says it in its key.
    pub fn shares(&self, filter: &FilterSpec) -> bool {
        match (self.style, &self.shared) {
            (Style::Wf, _) => true,
            (Style::Se, Some(shared)) => shared.place(filter).is_ok(),
            _ => false,
        }
    }

    /// Whether the scope of a wildcard request, if it has one, reaches this sender.
    pub fn reaches(&self, src: IpAddr) -> bool {
        match self.scope() {
            Some(scope) => scope.contains(&src),
            None => true,
        }
    }

    /// The scope of a wildcard request, if it came with one.
    pub fn scope(&self) -> Option<&[IpAddr]> {
        self.shared.as_ref().and_then(|s| s.scope.as_deref())
    }

    /// The senders that an SE request lists.
    pub fn listed(&self) -> impl Iterator<Item = FilterSpec> + Clone {
        self.shared.iter().flat_map(|s| s.filters.iter().map(|l| l.filter))
    }
}

impl SharedSenders {
    /// Where a sender is in the list, or belongs.
    pub fn place(&self, filter: &FilterSpec) -> Result<usize, usize> {
        self.filters.binary_search_by_key(filter, |l| l.filter)
    }

    /// Whether two requests are for the same senders, whatever is left of their lives.
    pub fn same_senders(a: &Option<Box<SharedSenders>>, b: &Option<Box<SharedSenders>>) -> bool {
        let filters = |s: &'_ SharedSenders| s.filters.iter().map(|l| l.filter).collect::<Vec<_>>();
        match (a, b) {
            (Some(a), Some(b)) => a.scope == b.scope && filters(a) == filters(b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    /// When the first of the senders ends.
    pub fn first_end(&self) -> Time {
        self.filters.iter().map(|l| l.expires).min().unwrap_or(Time::FOREVER)
    }
}
