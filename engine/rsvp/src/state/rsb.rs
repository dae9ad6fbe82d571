//! Reservation state block: the request of one next hop, or of one local application. RFC 2209 section 1.2.
//!
//! A fixed-filter request is a block of its own for each sender; a shared one (SE, WF) is one block whose senders, if it
//! lists them, are kept beside it.

use super::psb::{Forwarded, UNHEARD};
use super::timers::Alarm;
use crate::io::AppId;
use crate::short_list::Few;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::Preemption;
use terms::{FilterSpec, FlowSpec, IfIndex, Span, Style, Time};

/// The requester of a reservation.
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

/// Most earlier requests of an application that are kept to fall back to.
pub const MOST_EARLIER: usize = 4;

/// The most senders that shared reservations of one session may list on one interface.
pub const MOST_FILTERS: usize = 128;

/// Most addresses of a SCOPE object that we keep.
pub const MOST_SCOPE: usize = 128;

/// Reservation state.
pub struct Rsb {
    /// Reservation style.
    pub style: Style,
    /// The flowspec asked for.
    pub flowspec: FlowSpec,
    /// An application's earlier requests, youngest last: a refusal that left the older reservation in place
    /// takes the application back to one of them. Empty for a neighbour.
    pub earlier: Few<FlowSpec>,
    /// The senders of a shared reservation.
    pub shared: Option<Box<SharedSenders>>,
    /// The recipient of a confirmation that has not been passed on yet.
    pub confirm: Option<Confirm>,
    /// Its pre-emption priority (RFC 3181).
    pub priority: Option<Preemption>,
    /// True after a refused increase: then the next request is put before traffic control again, even if it
    /// is unchanged.
    pub refused: bool,
    /// Objects that go unchanged with each Resv upstream.
    pub forward: Few<Forwarded>,
    /// R of the requester.
    pub refresh: Span,
    /// True if the next hop is on the link: then it is answered by the interface that it asks for, otherwise
    /// by the routing table.
    pub direct: bool,
    /// End of its life unless refreshed; never for an application. For SE, when the first of its senders ends.
    pub expires: Time,
    /// The hash or the name of its last refresh, see [`super::heard`].
    pub(super) heard: u64,
    /// Fires at `expires`, or before.
    pub(super) alarm: Alarm,
}

/// The senders that share a reservation.
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
    /// The time at which it leaves the list unless it is named again.
    pub expires: Time,
}

/// The recipient of a confirmation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirm {
    /// The application itself; it stays until the ResvConf comes.
    Application,
    /// The application, after one side of its shared request has confirmed: it is told of further
    /// confirmations, but does not ask again.
    Answered,
    /// The receiver at this address, from RESV_CONFIRM; it is passed upstream once.
    Receiver(IpAddr),
}

/// The contents of a request for a reservation.
pub(crate) struct Request {
    pub style: Style,
    pub flowspec: FlowSpec,
    pub shared: Option<Box<SharedSenders>>,
    pub confirm: Option<Confirm>,
    pub priority: Option<Preemption>,
    pub forward: Few<Forwarded>,
    pub refresh: Span,
    pub direct: bool,
}

impl Rsb {
    /// The reservation state that a Resv message or a RESERVE call makes.
    pub(crate) fn new(request: Request, expires: Time) -> Rsb {
        Rsb {
            style: request.style,
            flowspec: request.flowspec,
            earlier: Few::NONE,
            shared: request.shared,
            confirm: request.confirm,
            priority: request.priority,
            refused: false,
            forward: request.forward,
            refresh: request.refresh,
            direct: request.direct,
            expires,
            heard: UNHEARD,
            alarm: Alarm::OFF,
        }
    }

    /// Moves the expiry: of the whole, or, if senders are listed, of those named.
    pub(crate) fn prolong(&mut self, end: Time, named: &[FilterSpec]) {
        match &mut self.shared {
            Some(shared) if self.style == Style::Se => {
                for filter in named {
                    if let Ok(place) = shared.place(filter) {
                        shared.filters[place].expires = end;
                    }
                }
                self.expires = shared.first_end();
            }
            _ => self.expires = end,
        }
    }

    /// Strikes senders from a shared-explicit request; the request ends with the last of them.
    pub(crate) fn strike(&mut self, gone: impl Fn(&ListedSender) -> bool) {
        if let Some(shared) = &mut self.shared {
            shared.filters.retain(|l| !gone(l));
            self.expires = shared.first_end();
        }
    }

    /// True if a shared request is for this sender, too; a fixed-filter request has its sender in its key.
    pub fn shares(&self, filter: &FilterSpec) -> bool {
        match (self.style, &self.shared) {
            (Style::Wf, _) => true,
            (Style::Se, Some(shared)) => shared.place(filter).is_ok(),
            _ => false,
        }
    }

    /// True if a wildcard request has no scope, or its scope contains this sender.
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
    /// The place of a sender in the list: `Err` is the place at which to insert it.
    pub fn place(&self, filter: &FilterSpec) -> Result<usize, usize> {
        self.filters.binary_search_by_key(filter, |l| l.filter)
    }

    /// True if two requests are for the same senders, however long each of them lives.
    pub fn same_senders(a: &Option<Box<SharedSenders>>, b: &Option<Box<SharedSenders>>) -> bool {
        let filters = |s: &'_ SharedSenders| s.filters.iter().map(|l| l.filter).collect::<Vec<_>>();
        match (a, b) {
            (Some(a), Some(b)) => a.scope == b.scope && filters(a) == filters(b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    /// The time at which the first of the senders expires.
    pub fn first_end(&self) -> Time {
        self.filters.iter().map(|l| l.expires).min().unwrap_or(Time::FOREVER)
    }
}
