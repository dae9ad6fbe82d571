//! Ports: the queries that an engine makes of the memory beside it (RFC 2205 section 3.11), for routes and
//! traffic control.
//!
//! A port answers at once, from memory. Actions in the world (install a class, send a message) never go
//! through a port; each is an output that the driver carries out and reports on.

pub mod book;

use crate::{Adspec, FilterSpec, FlowSpec, IfIndex, Refused, SenderGroup, Session, Style, Tspec};
pub use book::{Ledger, PolicyPort};
use core::net::IpAddr;

/// Routing (RFC 2205 section 3.11.3, `Route_Query`).
pub trait Route {
    /// The route from here to `dst`, for packets from `src` that came in on `iif` (`None`: from this node).
    /// For a multicast destination `src` is the sender, and the answer is [`RouteDecision::Tree`] or
    /// [`RouteDecision::None`].
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> RouteDecision;

    /// This host's control group at a path below the root of the version 2 hierarchy, or with the folder in which it is
    /// mounted. `None`: there is none, or this host has no such groups.
    fn sender_group(&mut self, path: &str) -> Option<SenderGroup> {
        let _ = path;
        None
    }
}

/// An answer of [`Route`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteDecision {
    /// The destination is this node.
    Local,
    /// Out of `oif`, to `gateway` if the destination is not on that link; `source` is our address there.
    Out {
        /// Outgoing interface.
        oif: IfIndex,
        /// Next hop, if it is not the destination itself.
        gateway: Option<IpAddr>,
        /// Our address on that interface.
        source: IpAddr,
    },
    /// The destination is a multicast group: the branches of the sender's distribution tree at this node.
    Tree(MulticastTree),
    /// There is no route.
    None,
}

/// The multicast routes of one sender and one group (RFC 2205 section 3.11.3: `OutInterface_list` and
/// `InInterface`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MulticastTree {
    /// The interface on which the sender's packets must arrive; `None`: the sender is this node, or routing
    /// accepts any interface.
    pub iif: Option<IfIndex>,
    /// The outgoing interfaces; never the incoming one.
    pub oifs: Oifs,
}

/// The most branches that a distribution tree has at one node: the kernel's `MAXVIFS`.
pub const MOST_BRANCHES: usize = 32;

/// Outgoing interfaces, in the order of their numbers, each once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Oifs {
    len: u8,
    all: [IfIndex; MOST_BRANCHES],
}

impl Oifs {
    /// The empty list.
    pub const NONE: Oifs = Oifs { len: 0, all: [IfIndex(0); MOST_BRANCHES] };

    /// Adds an interface; `false` if the list is full.
    pub fn add(&mut self, oif: IfIndex) -> bool {
        let len = usize::from(self.len);
        let Err(place) = self.as_slice().binary_search(&oif) else { return true };
        if len == MOST_BRANCHES {
            return false;
        }
        self.all.copy_within(place..len, place + 1);
        self.all[place] = oif;
        self.len += 1;
        true
    }

    /// Removes an interface, if it is there.
    pub fn remove(&mut self, oif: IfIndex) {
        let len = usize::from(self.len);
        if let Ok(place) = self.as_slice().binary_search(&oif) {
            self.all.copy_within(place + 1..len, place);
            self.len -= 1;
            // What is equal must look equal.
            self.all[len - 1] = IfIndex(0);
        }
    }

    /// The interfaces.
    pub fn as_slice(&self) -> &[IfIndex] {
        &self.all[..usize::from(self.len)]
    }

    /// True if the list has the interface.
    pub fn contains(&self, oif: IfIndex) -> bool {
        self.as_slice().binary_search(&oif).is_ok()
    }

    /// True if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Oifs {
    fn default() -> Oifs {
        Oifs::NONE
    }
}

impl core::fmt::Debug for Oifs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.as_slice().iter().map(|i| i.0)).finish()
    }
}

impl FromIterator<IfIndex> for Oifs {
    /// The first [`MOST_BRANCHES`] of the interfaces.
    fn from_iter<I: IntoIterator<Item = IfIndex>>(all: I) -> Oifs {
        let mut oifs = Oifs::NONE;
        for oif in all {
            oifs.add(oif);
        }
        oifs
    }
}

/// The points at which a flow is policed (`TC_AddFlowspec`'s police flags, RFC 2205 section 3.11.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Police {
    /// `E_Police_Flag`: the flow enters the network here. Its bucket is kept to the byte; elsewhere bursts
    /// that upstream queues made are let pass (RFC 2211 section 5, RFC 2212 section 8).
    pub entry: bool,
    /// `M_Police_Flag`: several senders share one reservation (SE, WF).
    pub merge: bool,
    /// `B_Police_Flag`: another outgoing interface of this node has a larger or incomparable reservation for
    /// the same senders.
    pub branch: bool,
}

/// The priority of a request (RFC 3181 section 3, PREEMPTION_PRI): the higher number goes before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Preemption {
    /// Preemption Priority: compared with the `defending` of the reservations that it may displace.
    pub preempting: u16,
    /// Defending Priority: a request needs a higher `preempting` to displace it; at least as high as its own
    /// `preempting`.
    pub defending: u16,
}

impl Preemption {
    /// The higher of both, each field for itself, for two requests that share a reservation (RFC 3181 section
    /// 4.3, "take highest priority").
    pub fn merged(self, other: Preemption) -> Preemption {
        Preemption { preempting: self.preempting.max(other.preempting), defending: self.defending.max(other.defending) }
    }

    /// True if a request of this priority may displace a reservation that defends itself by `other`.
    pub fn displaces(self, other: Preemption) -> bool {
        self.preempting > other.defending
    }
}

/// A handle that traffic control gave out for an installed flowspec (`RHandle`, RFC 2205 section 3.11.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RHandle(pub u64);

/// RSVP's request to traffic control for one reservation on one outgoing interface.
#[derive(Clone, Copy, Debug)]
pub struct TcRequest<'a> {
    /// Outgoing interface.
    pub oif: IfIndex,
    /// The session.
    pub session: Session,
    /// How the senders share: not at all (FF), those of the list (SE), all senders to the session (WF).
    pub style: Style,
    /// The packets: one filter spec for FF; for SE a list, in ascending order, that shares one bucket; none
    /// for WF, because every packet of the session goes through one bucket.
    pub filters: &'a [FilterSpec],
    /// The number of low bits of the session's destination and of its one sender's address that do not count;
    /// they are zero there. Only with FF.
    pub wild: crate::Wild,
    /// The merged request (`TC_Flowspec`).
    pub flowspec: FlowSpec,
    /// The sum of the Tspecs of the matching senders (`Path_Te`).
    pub path_te: Tspec,
    /// The points at which the flow must be policed or reshaped.
    pub police: Police,
    /// How long the soft state lives unrefreshed; kept beside the flow so that a restarted agent knows.
    pub lifetime: crate::Span,
    /// The priority against other reservations if there is not room for all; `None` (no priority was stated)
    /// counts as zero and zero, the lowest.
    pub priority: Option<Preemption>,
}

impl TcRequest<'_> {
    /// True if the reservation is for every sender of the session.
    pub fn is_wildcard(&self) -> bool {
        self.style == Style::Wf
    }
}

/// Traffic control as RSVP sees it (RFC 2205 section 3.11.2). The answers are admissions; what is installed in a
/// plane follows as an output of the node, and its success or failure comes back as an input.
pub trait TrafficControl {
    /// `TC_AddFlowspec` and `TC_AddFilter`.
    ///
    /// # Errors
    /// [`Refused`]; the state is unchanged then.
    fn add(&mut self, now: crate::Time, request: &TcRequest<'_>) -> Result<RHandle, Refused>;

    /// `TC_ModFlowspec`. The old reservation stays if the new one is refused.
    ///
    /// # Errors
    /// [`Refused`]; the state is unchanged then.
    fn modify(&mut self, now: crate::Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused>;

    /// `TC_DelFlowspec` with its filters. An unknown handle is ignored.
    fn remove(&mut self, now: crate::Time, handle: RHandle);

    /// The rate that a new request could have on an interface at this moment, in bit/s of IP bytes, if no
    /// packet of it counts as shorter than `min_packet` bytes: supply, rounded down. Zero if nothing can be
    /// reserved.
    fn offers(&self, now: crate::Time, oif: IfIndex, min_packet: u32) -> crate::Rate {
        let _ = (now, oif, min_packet);
        crate::Rate::ZERO
    }

    /// The most that Paths of sessions without a reservation may take out of `oif`; `None`: no limit.
    fn set_up_rate(&self, oif: IfIndex) -> Option<crate::Rate> {
        let _ = oif;
        None
    }

    /// `TC_Advertise`: the Adspec after this node's hop out of `oif`.
    fn advertise(&self, now: crate::Time, oif: IfIndex, arriving: &Adspec) -> Adspec;
}
