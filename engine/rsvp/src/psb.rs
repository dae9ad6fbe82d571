//! Path state block: one sender of one session, and what was asked of its previous hop. RFC 2209 section 1.2.

use crate::bsb::Bsb;
use crate::io::AppId;
use crate::session::SessionState;
use crate::short_list::Few;
use crate::table::BlockId;
use crate::timers::Alarm;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::Oifs;
use terms::{Adspec, FlowSpec, IfIndex, SenderTemplate, Span, Style, Time, Tspec};

/// What a path state is found by. The last part is `None` for the path that is forwarded and reserved along; a multicast
/// sender whose Paths come in by another interface as well has a further path state for each (`Local_Only` of RFC 2209
/// section 1.2), which is only remembered.
pub type PsbKey = (BlockId<SessionState>, SenderTemplate, Option<IfIndex>);

/// The most bytes of objects to be passed on untouched that one message may leave with us.
pub const MOST_FORWARDED: usize = 1024;

/// An object that is passed on as it came: of an unknown class from 0xc0 (RFC 2205 section 3.10), or POLICY_DATA, which
/// a node without a policy of its own leaves to others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Forwarded {
    /// Class-Num.
    pub class: u8,
    /// C-Type.
    pub ctype: u8,
    /// What follows the header.
    pub body: Vec<u8>,
}

/// Path state.
pub struct Psb {
    /// Whose Path messages these are.
    pub origin: Origin,
    /// SENDER_TSPEC.
    pub tspec: Tspec,
    /// ADSPEC as it arrived; `None` if the sender sent none.
    pub adspec: Option<Adspec>,
    /// Its fragments of services that we do not know, as they go on.
    pub fragments: Few<u8>,
    /// IP TTL of the Path messages that we send; zero: the sender's do not leave this node.
    pub ttl: u8,
    /// Where the session's packets leave.
    pub out: OutgoingInterfaces,
    /// Objects that go with each Path as they came.
    pub forward: Few<Forwarded>,
    /// R of whoever sends it to us.
    pub refresh: Span,
    /// End of its life unless refreshed; never for a local sender.
    pub expires: Time,
    /// What its last refresh looked like, see [`crate::heard`].
    pub heard: u64,
    /// When the next Path goes out.
    pub path_refresh_at: Time,
    /// How many PathErr messages may pass upstream: one for each Path sent, at most [`MOST_CREDIT`].
    pub credit: u8,
    /// When the previous hop last changed.
    pub phop_since: Time,
    /// Another previous hop, heard before the present one and not yet dead: after a route change upstream the old branch
    /// goes on refreshing until it expires, and only its tear tells which of the two was the old one.
    pub other: Option<Box<OtherHop>>,
    /// Who downstream still waits for a confirmation: goes with the next Resv, once.
    pub confirm: Option<IpAddr>,
    /// A request for this sender failed upstream (RFC 2205 section 3.5).
    pub blockade: Option<Box<Bsb>>,
    /// `E_Police` of the SESSION object: nobody upstream could police, we are the first (RFC 2205 section 3.8).
    pub entry: bool,
    /// What we asked of the previous hop.
    pub request: Option<UpstreamRequest>,
    /// The next of its deadlines.
    pub alarm: Alarm,
}

/// Error messages that may answer messages already sent.
pub const MOST_CREDIT: u8 = 8;

/// Where Path messages of a sender come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// A local application.
    Local(AppId),
    /// A neighbour: the previous hop.
    Hop(Phop),
}

/// Previous hop: RSVP_HOP of the Path message, and the interface it came in on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Phop {
    /// Where it came in.
    pub iif: IfIndex,
    /// Its address.
    pub addr: IpAddr,
    /// Its logical interface handle, echoed in Resv messages and never looked into.
    pub lih: u32,
    /// Whether something between it and us does not speak RSVP.
    pub non_rsvp: bool,
}

/// A previous hop that was heard before the present one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherHop {
    /// The hop.
    pub phop: Phop,
    /// When it is dead unless heard again.
    pub expires: Time,
}

/// Where the session's packets leave.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum OutgoingInterfaces {
    /// The destination is this node.
    Local,
    /// Through an interface, which has this address of ours.
    Interface {
        /// Outgoing interface.
        oif: IfIndex,
        /// Next hop of the route, if not the destination itself.
        gateway: Option<IpAddr>,
        /// Our address there.
        source: IpAddr,
    },
    /// Through any number of interfaces: the session is multicast.
    Tree(Box<Oifs>),
    /// Nowhere, for now.
    Nowhere,
}

impl Phop {
    /// The interface to send to it by; `None`: as the routing table says, where it is not on the link.
    pub fn by(&self) -> Option<IfIndex> {
        if self.non_rsvp { None } else { Some(self.iif) }
    }
}

impl OutgoingInterfaces {
    /// The outgoing interfaces.
    pub fn oifs(&self) -> &[IfIndex] {
        match self {
            OutgoingInterfaces::Interface { oif, .. } => core::slice::from_ref(oif),
            OutgoingInterfaces::Tree(oifs) => oifs.as_slice(),
            OutgoingInterfaces::Local | OutgoingInterfaces::Nowhere => &[],
        }
    }

    /// Whether an interface is among them.
    pub fn takes(&self, oif: IfIndex) -> bool {
        match self {
            OutgoingInterfaces::Interface { oif: one, .. } => *one == oif,
            OutgoingInterfaces::Tree(oifs) => oifs.contains(oif),
            OutgoingInterfaces::Local | OutgoingInterfaces::Nowhere => false,
        }
    }

    /// Whether local applications may receive what the sender sends.
    pub fn is_heard_here(&self) -> bool {
        matches!(self, OutgoingInterfaces::Local | OutgoingInterfaces::Tree(_))
    }
}

/// The reservation that we ask of the previous hop for this sender (with a local sender: that it was told of).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpstreamRequest {
    /// What we ask.
    pub flowspec: FlowSpec,
    /// In which style.
    pub style: Style,
    /// When the next Resv goes out; for a local sender only after a reroute, to see whether the reservation came back.
    pub refresh_at: Time,
    /// How many ResvErr messages may pass downstream: one for each Resv sent, at most [`MOST_CREDIT`].
    pub credit: u8,
}

impl Phop {
    /// Whether both are the same neighbour on the same interface.
    pub fn is_same(&self, other: &Phop) -> bool {
        (self.iif, self.addr) == (other.iif, other.addr)
    }
}

impl Psb {
    /// Whether its packets are policed where they enter: they begin here, or the Path said so.
    pub fn is_policed(&self) -> bool {
        self.entry || self.phop().is_none()
    }

    /// The previous hop, unless the sender is local.
    pub fn phop(&self) -> Option<&Phop> {
        match &self.origin {
            Origin::Hop(hop) => Some(hop),
            Origin::Local(_) => None,
        }
    }

    /// The earliest of its deadlines.
    pub fn next_deadline(&self) -> Time {
        let resv = self.request.map_or(Time::FOREVER, |r| r.refresh_at);
        self.expires.min(self.path_refresh_at).min(resv)
    }
}
