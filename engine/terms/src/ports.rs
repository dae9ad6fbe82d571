//! What an engine may ask of the memory beside it (RFC 2205 section 3.11): the way out, and traffic control.
//!
//! A port answers at once, from memory. What happens in the world (install a class, send a message) is never done
//! through a port; it is an output that the driver carries out and reports on.

pub mod book;

use crate::{Adspec, FilterSpec, FlowSpec, IfIndex, Refused, Session, Style, Tspec};
pub use book::{Ledger, PolicyPort};
use core::net::IpAddr;

/// Where a packet goes (RFC 2205 section 3.11.3, `Route_Query`).
pub trait Route {
    /// The way from here to `dst`, for packets from `src` that came in on `iif` (`None`: from this node). For a
    /// multicast destination `src` is the sender, and the answer is [`RouteDecision::Tree`] or [`RouteDecision::None`].
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> RouteDecision;
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
        /// Next hop, if not the destination itself.
        gateway: Option<IpAddr>,
        /// Our address on that interface.
        source: IpAddr,
    },
    /// The destination is a multicast group: the branches of the sender's distribution tree at this node.
    Tree(MulticastTree),
    /// No way there.
    None,
}

/// What multicast routing says of one sender and one group (RFC 2205 section 3.11.3: `OutInterface_list` and
/// `InInterface`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MulticastTree {
    /// Where the sender's packets must come in; `None`: the sender is this node, or routing does not care.
    pub iif: Option<IfIndex>,
    /// Where they go out; never where they come in.
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
    /// None.
    pub const NONE: Oifs = Oifs { len: 0, all: [IfIndex(0); MOST_BRANCHES] };

    /// Adds an interface; `false` if there is no room for it.
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

    /// Takes an interface out, if it is there.
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

    /// Whether an interface is among them.
    pub fn contains(&self, oif: IfIndex) -> bool {
        self.as_slice().binary_search(&oif).is_ok()
    }

    /// Whether there are none.
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
    /// The first [`MOST_BRANCHES`] of them.
    fn from_iter<I: IntoIterator<Item = IfIndex>>(all: I) -> Oifs {
        let mut oifs = Oifs::NONE;
        for oif in all {
            oifs.add(oif);
        }
        oifs
    }
}

/// Where a flow must be kept to its description (`TC_AddFlowspec`'s police flags, RFC 2205 section 3.11.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Police {
    /// `E_Police_Flag`: the flow enters the network here. Its bucket is kept to the byte; elsewhere what queues
    /// upstream pushed together is let pass (RFC 2211 section 5, RFC 2212 section 8).
    pub entry: bool,
    /// `M_Police_Flag`: several senders share one reservation (SE, WF).
    pub merge: bool,
    /// `B_Police_Flag`: another outgoing interface of this node has more reserved for the same senders, or something
    /// that does not compare.
    pub branch: bool,
}

/// The priority of a request (RFC 3181 section 3, PREEMPTION_PRI): the higher number goes before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Preemption {
    /// Preemption Priority: how far it may displace others, by their `defending`.
    pub preempting: u16,
    /// Defending Priority: what it takes to displace it once it is there; at least as high as `preempting`.
    pub defending: u16,
}

impl Preemption {
    /// The higher of both, each part for itself: what serves two requests that share a reservation (RFC 3181 section
    /// 4.3, "take highest priority").
    pub fn merged(self, other: Preemption) -> Preemption {
        Preemption { preempting: self.preempting.max(other.preempting), defending: self.defending.max(other.defending) }
    }

    /// Whether a request of this priority may displace a reservation that defends itself by `other`.
    pub fn displaces(self, other: Preemption) -> bool {
        self.preempting > other.defending
    }
}

/// A handle that traffic control gave out for an installed flowspec (`RHandle`, RFC 2205 section 3.11.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RHandle(pub u64);

/// What RSVP asks of traffic control for one reservation on one outgoing interface.
#[derive(Clone, Copy, Debug)]
pub struct TcRequest<'a> {
    /// Outgoing interface.
    pub oif: IfIndex,
    /// The session.
    pub session: Session,
    /// How the senders share: not at all (FF), those of the list (SE), whoever sends to the session (WF).
    pub style: Style,
    /// Whose packets: one filter spec for FF; for SE a list, in ascending order, whose packets go through one bucket;
    /// none for WF, where every packet of the session goes through one bucket.
    pub filters: &'a [FilterSpec],
    /// How many of the last bits of the session's destination and of its one sender's address do not count; they are zero
    /// there. Only with FF.
    pub wild: crate::Wild,
    /// The merged request (`TC_Flowspec`).
    pub flowspec: FlowSpec,
    /// What the matching senders send together (`Path_Te`).
    pub path_te: Tspec,
    /// Where the flow must be policed or reshaped.
    pub police: Police,
    /// How long the soft state lives unrefreshed; kept beside the flow so that a restarted agent knows.
    pub lifetime: crate::Span,
    /// How it stands against other reservations where there is not room for all; `None` (no priority was stated) counts
    /// as zero and zero, the lowest there is.
    pub priority: Option<Preemption>,
}

impl TcRequest<'_> {
    /// Whether the reservation is for every sender of the session.
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
    /// [`Refused`]; nothing has changed then.
    fn add(&mut self, now: crate::Time, request: &TcRequest<'_>) -> Result<RHandle, Refused>;

    /// `TC_ModFlowspec`. The old reservation stays if the new one is refused.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    fn modify(&mut self, now: crate::Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused>;

    /// `TC_DelFlowspec` with its filters. An unknown handle is ignored.
    fn remove(&mut self, now: crate::Time, handle: RHandle);

    /// What a new request could have on an interface at this moment, in IP bytes, if no packet of it counts as shorter than
    /// `min_packet` bytes: supply, rounded down. Zero where nothing can be reserved.
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
