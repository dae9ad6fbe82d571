//! Events over the socket: of an application's sessions, of the node, and of single messages.

use crate::session::{AdspecDoc, FlowSpecDoc, SenderId, SessionId, StyleDoc, TspecDoc};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The direction of a message or of packets at an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// A filter of traced messages. A field that is left out matches every message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceFilter {
    /// The interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The source or destination address of the IP header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The types, by RSVP's numbers (1 is Path); none: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<u8>,
}

/// An event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventDoc {
    /// Path state came or changed (PATH_EVENT).
    Path {
        /// The session.
        session: SessionId,
        /// The sender.
        sender: SenderId,
        /// The sender's Tspec.
        tspec: TspecDoc,
        /// Least bandwidth on the path, bit/s, if the path says so.
        path_bps: Option<u64>,
        /// Path MTU, if the path says so.
        path_mtu: Option<u32>,
        /// MTU of the link that the path comes in by; none for a sender of the agent's own node.
        #[serde(default)]
        own_mtu: Option<u32>,
        /// True if every hop offers guaranteed service.
        guaranteed: bool,
        /// `C_tot` of guaranteed service, bytes, where every hop offers it.
        #[serde(default)]
        c_tot_bytes: Option<u32>,
        /// `D_tot`, microseconds.
        #[serde(default)]
        d_tot_us: Option<u32>,
        /// The ADSPEC, if the Path carries one.
        #[serde(default)]
        adspec: Option<AdspecDoc>,
    },
    /// Path state went.
    PathGone {
        /// The session.
        session: SessionId,
        /// The sender.
        sender: SenderId,
    },
    /// The sender's flow is reserved up to this node (RESV_EVENT).
    Resv {
        /// The session.
        session: SessionId,
        /// The sender.
        sender: SenderId,
        /// The style of the receivers' requests; null: an agent of an earlier version.
        #[serde(default)]
        style: Option<StyleDoc>,
        /// The flowspec that is reserved.
        flowspec: FlowSpecDoc,
    },
    /// The reservation went.
    ResvGone {
        /// The session.
        session: SessionId,
        /// The sender.
        sender: SenderId,
    },
    /// RESV_CONFIRM.
    Confirm {
        /// The session.
        session: SessionId,
        /// The sender.
        sender: SenderId,
        /// The flowspec that is confirmed.
        flowspec: FlowSpecDoc,
        /// The node that confirmed.
        node: IpAddr,
    },
    /// PATH_ERROR or RESV_ERROR.
    Error {
        /// The session.
        session: SessionId,
        /// The sender, if one is named.
        sender: Option<SenderId>,
        /// `path` or `resv`.
        answers: String,
        /// The node that found the error.
        node: IpAddr,
        /// Error code, RFC 2205 appendix B.
        code: u8,
        /// Error value.
        value: u16,
        /// The code in words.
        meaning: String,
        /// The refusing node's own words: node, interface, asked, free.
        text: Option<String>,
        /// True if an older reservation is still in place.
        in_place: bool,
        /// True if this receiver's request is not the one that failed (NotGuilty).
        #[serde(default)]
        not_guilty: bool,
        /// The flowspec that was refused, if the message carries it.
        #[serde(default)]
        flowspec: Option<FlowSpecDoc>,
    },
    /// A message that was received or sent (only to connections that trace).
    Message {
        /// The direction.
        direction: Direction,
        /// The interface; null: the routing table decides.
        interface: Option<String>,
        /// IP source.
        src: IpAddr,
        /// IP destination.
        dst: IpAddr,
        /// TTL, or hop limit.
        ttl: u8,
        /// True if the Router Alert option goes with it; null where the sockets do not report it.
        router_alert: Option<bool>,
        /// The RSVP message, in hex.
        bytes: String,
        /// The number of messages that were left out before this one because they were too many.
        lost: u64,
    },
    /// An event of a session that was reserved by Boomerang.
    Boomerang {
        /// The number of the session.
        number: u64,
        /// The event.
        #[serde(flatten)]
        news: crate::boomerang::BoomerangNews,
    },
    /// A Boomerang message that was received or sent (only to connections that trace it).
    Echo {
        /// The direction.
        direction: Direction,
        /// The interface; null: a local application's.
        interface: Option<String>,
        /// The IP packet, in hex.
        bytes: String,
        /// The fate of a received message: `passed`, `answered`, `heard`, or why it ended.
        became: Option<String>,
    },
    /// An event of a booking (only to connections that follow bookings).
    Book(crate::book::BookEvent),
    /// Any other event of the node, as words (only to connections that watch).
    Node {
        /// A stable name: `path_created`, `admitted`, `adopted`, `plane_fault`, ...
        name: String,
        /// The event in words, for people.
        text: String,
    },
}
