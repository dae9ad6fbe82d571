//! What an engine may ask of the memory beside it (RFC 2205 section 3.11): the way out, and traffic control.
//!
//! A port answers at once, from memory. What happens in the world (install a class, send a message) is never done
//! through a port; it is an output that the driver carries out and reports on.

use crate::{Adspec, FilterSpec, FlowSpec, IfIndex, Refused, Session, Tspec};
use core::net::IpAddr;

/// Where a packet goes (RFC 2205 section 3.11.3, `Route_Query`).
pub trait Route {
    /// The way from here to `dst`, for packets from `src` that came in on `iif` (`None`: from this node).
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> Way;
}

/// An answer of [`Route`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
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
    /// No way there.
    None,
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
    /// Whose packets: the filter specs; one for FF.
    pub filters: &'a [FilterSpec],
    /// The merged request (`TC_Flowspec`).
    pub flowspec: FlowSpec,
    /// What the matching senders send together (`Path_Te`).
    pub path_te: Tspec,
    /// Whether the flow enters the network here (`E_Police_Flag`, RFC 2205 section 3.11.2): its bucket is kept to the
    /// byte. Elsewhere what queues upstream pushed together is let pass (RFC 2211 section 5, RFC 2212 section 8).
    pub police: bool,
    /// How long the soft state lives unrefreshed; kept beside the flow so that a restarted agent knows.
    pub lifetime: crate::Span,
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

    /// `TC_Advertise`: the Adspec after this node's hop out of `oif`.
    fn advertise(&self, now: crate::Time, oif: IfIndex, arriving: &Adspec) -> Adspec;
}
