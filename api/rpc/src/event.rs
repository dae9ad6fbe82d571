//! What comes over the socket unasked: news of an application's sessions, of the node, and of single messages.

use crate::agent::{FlowSpecDoc, SenderId, SessionId, TspecDoc};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Which way a message went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// It came.
    In,
    /// It went.
    Out,
}

/// Which messages are traced; what is left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceFilter {
    /// By this interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// From or to this address, by the IP header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// This way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Of these types, by RSVP's numbers (1 is Path); none: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<u8>,
}

/// News.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventDoc {
    /// Path state came or changed (PATH_EVENT).
    Path {
        /// The session.
        session: SessionId,
        /// The sender.
        sender: SenderId,
        /// What it sends.
        tspec: TspecDoc,
        /// Least bandwidth on the path, bit/s, if the path says so.
        path_bps: Option<u64>,
        /// Path MTU, if the path says so.
        path_mtu: Option<u32>,
        /// MTU of the link that the path comes in by; none for a sender of the agent's own node.
        #[serde(default)]
        own_mtu: Option<u32>,
        /// Whether every hop offers guaranteed service.
        guaranteed: bool,
        /// `C_tot` of guaranteed service, bytes, where every hop offers it.
        #[serde(default)]
        c_tot_bytes: Option<u32>,
        /// `D_tot`, microseconds.
        #[serde(default)]
        d_tot_us: Option<u32>,
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
        /// What.
        flowspec: FlowSpecDoc,
    },
    /// That reservation went.
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
        /// What.
        flowspec: FlowSpecDoc,
        /// Who confirmed.
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
        /// Who found it.
        node: IpAddr,
        /// Error code, RFC 2205 appendix B.
        code: u8,
        /// Error value.
        value: u16,
        /// The code in words.
        meaning: String,
        /// The refusing node's own words: node, interface, asked, free.
        text: Option<String>,
        /// Whether an older reservation is still in place.
        in_place: bool,
    },
    /// A message that came or went (only to connections that trace).
    Message {
        /// Whether it came or went.
        direction: Direction,
        /// By which interface; null: by the routing table.
        interface: Option<String>,
        /// IP source.
        src: IpAddr,
        /// IP destination.
        dst: IpAddr,
        /// TTL, or hop limit.
        ttl: u8,
        /// Whether the Router Alert option goes with it; null where the sockets do not tell.
        router_alert: Option<bool>,
        /// The RSVP message, in hex.
        bytes: String,
        /// Messages that were left out before this one, because they were too many.
        lost: u64,
    },
    /// News of a session that was reserved by Boomerang.
    Boomerang {
        /// Its number.
        number: u64,
        /// What.
        #[serde(flatten)]
        news: crate::boomerang::BoomerangNews,
    },
    /// A Boomerang message that came or went (only to connections that trace it).
    Echo {
        /// Whether it came or went.
        direction: Direction,
        /// By which interface; null: a local application's.
        interface: Option<String>,
        /// The IP packet, in hex.
        bytes: String,
        /// What became of one that came: `passed`, `answered`, `heard`, or why it ended.
        became: Option<String>,
    },
    /// Something happened to a reservation of the book (only to connections that follow it).
    Book(crate::book::BookEvent),
    /// Anything else that happened in the node, as words (only to connections that watch).
    Node {
        /// A stable name: `path_created`, `admitted`, `adopted`, `plane_fault`, ...
        name: String,
        /// What, for people.
        text: String,
    },
}
