//! Path state block: one sender of one session, and the request to its previous hop. RFC 2209 section 1.2.

use super::bsb::Bsb;
use super::timers::Alarm;
use crate::io::AppId;
use crate::short_list::Few;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::Oifs;
use terms::{Adspec, FlowSpec, IfIndex, Span, Style, Time, Tspec};

/// The mark of a state whose next refresh must be read.
pub const UNHEARD: u64 = 0;

/// Most bytes of objects to be passed on that we keep of one message.
pub const MOST_FORWARDED: usize = 1024;

/// An object that is passed on unchanged: of an unknown class from 0xc0 (RFC 2205 section 3.10), or
/// POLICY_DATA, which a node without a policy of its own leaves to others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Forwarded {
    /// Class-Num.
    pub class: u8,
    /// C-Type.
    pub ctype: u8,
    /// The body after the header.
    pub body: Vec<u8>,
}

/// Path state.
pub struct Psb {
    /// The origin of the Path messages.
    pub origin: Origin,
    /// SENDER_TSPEC.
    pub tspec: Tspec,
    /// ADSPEC as it arrived; `None` if the sender sent none.
    pub adspec: Option<Adspec>,
    /// The ADSPEC's fragments for services that we do not know, as they go on.
    pub fragments: Few<u8>,
    /// IP TTL of the Path messages that we send; zero: they do not leave this node.
    pub ttl: u8,
    /// The outgoing interfaces of the session's packets.
    pub out: OutgoingInterfaces,
    /// Objects that go unchanged with each Path.
    pub forward: Few<Forwarded>,
    /// R of the previous hop.
    pub refresh: Span,
    /// End of its life unless refreshed; never for a local sender.
    pub expires: Time,
    /// The hash or the name of its last refresh, see [`super::heard`].
    pub(super) heard: u64,
    /// The time of the next Path.
    pub path_refresh_at: Time,
    /// The number of PathErr messages that may pass upstream: one for each Path sent, at most
    /// [`MOST_CREDIT`].
    pub credit: u8,
    /// The time at which the previous hop last changed.
    pub phop_since: Time,
    /// Another previous hop, heard before the present one and not yet expired: after a route change upstream
    /// the old branch goes on refreshing until it expires, and only its tear shows which of the two was old.
    pub other: Option<Box<OtherHop>>,
    /// A receiver downstream that still waits for a confirmation: it goes with the next Resv, once.
    pub confirm: Option<IpAddr>,
    /// A request for this sender that failed upstream (RFC 2205 section 3.5).
    pub blockade: Option<Box<Bsb>>,
    /// `E_Police` of the SESSION object: this node is the first that can police (RFC 2205 section 3.8).
    pub entry: bool,
    /// Our request to the previous hop.
    pub request: Option<UpstreamRequest>,
    /// The alarm at the next of its deadlines.
    pub(super) alarm: Alarm,
}

/// Most error messages that may answer messages already sent.
pub const MOST_CREDIT: u8 = 8;

/// The origin of a sender's Path messages.
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
    /// The interface that it came in on.
    pub iif: IfIndex,
    /// Its address.
    pub addr: IpAddr,
    /// Its logical interface handle, echoed in Resv messages and never interpreted.
    pub lih: u32,
    /// True if a hop between it and us does not speak RSVP.
    pub non_rsvp: bool,
}

/// A previous hop that was heard before the present one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherHop {
    /// The hop.
    pub phop: Phop,
    /// The time at which it expires unless heard again.
    pub expires: Time,
}

/// The outgoing interfaces of the session's packets.
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
    /// By no interface, for now.
    Nowhere,
}

impl Phop {
    /// The interface to send to it by; `None`: it is not on the link, and the routing table decides.
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

    /// True if an interface is among them.
    pub fn takes(&self, oif: IfIndex) -> bool {
        match self {
            OutgoingInterfaces::Interface { oif: one, .. } => *one == oif,
            OutgoingInterfaces::Tree(oifs) => oifs.contains(oif),
            OutgoingInterfaces::Local | OutgoingInterfaces::Nowhere => false,
        }
    }

    /// True if local applications may receive the sender's packets.
    pub fn is_heard_here(&self) -> bool {
        matches!(self, OutgoingInterfaces::Local | OutgoingInterfaces::Tree(_))
    }
}

/// The reservation that we ask of the previous hop for this sender, or that a local sender was told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpstreamRequest {
    /// The flowspec asked for.
    pub flowspec: FlowSpec,
    /// Its style.
    pub style: Style,
    /// The time of the next Resv; for a local sender, of the check after a reroute that the reservation is
    /// back.
    pub refresh_at: Time,
    /// The number of ResvErr messages that may pass downstream: one for each Resv sent, at most
    /// [`MOST_CREDIT`].
    pub credit: u8,
}

impl Phop {
    /// True if both are the same neighbour on the same interface.
    pub fn is_same(&self, other: &Phop) -> bool {
        (self.iif, self.addr) == (other.iif, other.addr)
    }
}

/// The contents of a Path message, or of a SENDER call, besides session and sender.
pub(crate) struct News {
    pub origin: Origin,
    pub tspec: Tspec,
    pub adspec: Option<Adspec>,
    pub fragments: Few<u8>,
    pub ttl: u8,
    pub forward: Few<Forwarded>,
    pub refresh: Span,
    /// The `E_Police` flag.
    pub entry: bool,
}

impl Psb {
    /// The path state that a Path message or a SENDER call makes.
    pub(crate) fn new(now: Time, news: News, out: OutgoingInterfaces, expires: Time) -> Psb {
        Psb {
            origin: news.origin,
            tspec: news.tspec,
            adspec: news.adspec,
            fragments: news.fragments,
            ttl: news.ttl,
            out,
            forward: news.forward,
            refresh: news.refresh,
            expires,
            heard: UNHEARD,
            path_refresh_at: Time::FOREVER,
            credit: 0,
            phop_since: now,
            other: None,
            confirm: None,
            blockade: None,
            entry: news.entry,
            request: None,
            alarm: Alarm::OFF,
        }
    }

    /// The contents of the last Path message.
    pub(crate) fn news(&self) -> News {
        News {
            origin: self.origin,
            tspec: self.tspec,
            adspec: self.adspec,
            fragments: self.fragments.clone(),
            ttl: self.ttl,
            forward: self.forward.clone(),
            refresh: self.refresh,
            entry: self.entry,
        }
    }

    /// True if its packets are policed on entry: the sender is local, or the Path has the `E_Police` flag.
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
