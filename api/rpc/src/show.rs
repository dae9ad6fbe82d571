//! The operator's tables, as `sluice rsvp interface | neighbor | sender | ...` print them.

use crate::agent::{
    CounterRow, FlowSpecDoc, ReservationRow, SenderId, SenderRow, SessionId, SessionRow, StyleDoc, TspecDoc,
};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Which table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Where RSVP is spoken, and what it holds there.
    Interfaces,
    /// Who speaks it with us.
    Neighbours,
    /// Sessions.
    Sessions,
    /// Path states.
    Senders,
    /// What we ask of previous hops.
    Requests,
    /// What next hops and local applications ask of us.
    Reservations,
    /// What the ledger and the kernel hold for it.
    Installed,
    /// Messages by type, and drops by reason.
    Counters,
    /// Messages a second.
    Signalling,
}

/// Which rows; what is left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RowFilter {
    /// In or out by this interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Sessions with this destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<IpAddr>,
    /// And this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<u16>,
    /// At most so many rows; [`MOST_ROWS`] if it is left out or larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Most rows in one answer: they fit in a line.
pub const MOST_ROWS: usize = 1000;

impl RowFilter {
    /// Whether rows of this session are wanted.
    pub fn wants_session(&self, session: &SessionId) -> bool {
        self.dst.is_none_or(|dst| dst == session.dst) && self.dst_port.is_none_or(|port| port == session.dst_port)
    }

    /// Whether rows of one of these interfaces are wanted.
    pub fn wants_interface<'a>(&self, names: impl IntoIterator<Item = Option<&'a str>>) -> bool {
        let Some(wanted) = &self.interface else { return true };
        names.into_iter().flatten().any(|name| name == wanted)
    }

    /// How many rows at most.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(MOST_ROWS).min(MOST_ROWS)
    }
}

/// Most rows of an answer, so that a line stays within [`MAX_LINE`](crate::agent::MAX_LINE).
pub const PAGE: usize = 1000;

/// Which page of a list: what is behind its first rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Skip {
    /// So many rows are left out; at most [`PAGE`] follow. A page that is not full is the last.
    #[serde(default)]
    pub skip: u64,
}

/// A table, and how many of its rows were left out for its length.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TableDoc {
    /// The rows.
    pub rows: Rows,
    /// How many more there are.
    pub more: usize,
}

/// Rows of one table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // Each variant is its view.
pub enum Rows {
    Interfaces(Vec<RsvpInterfaceRow>),
    Neighbours(Vec<NeighbourRow>),
    Sessions(Vec<SessionRow>),
    Senders(Vec<SenderRow>),
    Requests(Vec<RequestRow>),
    Reservations(Vec<ReservationRow>),
    Installed(Vec<InstalledRow>),
    Counters(Vec<CounterRow>),
    Signalling(Vec<SignallingRow>),
}

/// An interface, as RSVP uses it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RsvpInterfaceRow {
    /// Name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// Our addresses there.
    pub addresses: Vec<IpAddr>,
    /// What reservations hold, wire bit/s.
    pub allocated_wire_bps: u64,
    /// The most that they can hold together, wire bit/s; null: nothing is reservable.
    pub reservable_wire_bps: Option<u64>,
    /// How many reservations.
    pub reservations: usize,
    /// How many neighbours.
    pub neighbours: usize,
    /// `none`, or the algorithm of the key that signs.
    pub auth: String,
    /// R, milliseconds.
    pub refresh_ms: u64,
    /// Messages that came in.
    pub received: u64,
    /// Messages that went out.
    pub sent: u64,
}

/// A neighbour.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NeighbourRow {
    /// The interface that it is reached by.
    pub interface: String,
    /// Its address.
    pub address: IpAddr,
    /// Path states of which it is the previous hop.
    pub paths: usize,
    /// Reservation states that it asked for.
    pub reservations: usize,
    /// Whether it is on the link: no hop without RSVP lies between.
    pub direct: bool,
    /// Messages that came with it as the IP source.
    pub received: u64,
    /// Messages that went with it as the IP destination.
    pub sent: u64,
    /// Milliseconds since the last of the former; null: none came.
    pub heard_ms_ago: Option<u64>,
}

/// What we ask of a previous hop.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RequestRow {
    /// The session.
    #[serde(flatten)]
    pub session: SessionId,
    /// The sender.
    #[serde(flatten)]
    pub sender: SenderId,
    /// The previous hop; null: the sender is a local application, which is told.
    pub phop: Option<IpAddr>,
    /// The interface towards it.
    pub interface: Option<String>,
    /// Style, where it is known.
    pub style: Option<StyleDoc>,
    /// How much.
    pub asked: FlowSpecDoc,
    /// Milliseconds until it is asked again.
    pub refresh_in_ms: Option<u64>,
}

/// What an outgoing interface holds for a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstalledRow {
    /// The interface.
    pub interface: String,
    /// The session.
    #[serde(flatten)]
    pub session: SessionId,
    /// The sender.
    #[serde(flatten)]
    pub sender: SenderId,
    /// What was asked, after merging.
    pub asked: FlowSpecDoc,
    /// What the sender says it sends.
    pub tspec: TspecDoc,
    /// What the ledger counts, wire bit/s.
    pub admitted_wire_bps: u64,
    /// `pending`, `installed`, `adopted`, or `missing` where the kernel does not have it any more.
    pub state: String,
    /// Its class, as tc writes it.
    pub class: String,
    /// Whether the class is shared.
    pub shared: bool,
    /// Bucket rate, bit/s; null where the kernel has none.
    pub bucket_bps: Option<u64>,
    /// Bucket depth, bytes.
    pub bucket_bytes: Option<u64>,
    /// Conforming packets.
    pub packets: u64,
    /// Packets above the bucket.
    pub excess_packets: u64,
    /// Milliseconds until an adopted one ends, if nobody refreshes it.
    pub adopted_for_ms: Option<u64>,
}

/// Messages of one type on one interface, and how fast they come and go.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SignallingRow {
    /// The interface.
    pub interface: String,
    /// Type.
    pub message: String,
    /// Since the agent started.
    pub received: u64,
    /// Since the agent started.
    pub sent: u64,
    /// A second, over the last ten.
    pub received_per_s: f64,
    /// A second, over the last ten.
    pub sent_per_s: f64,
    /// The most in one second.
    pub received_peak_per_s: u64,
    /// The most in one second.
    pub sent_peak_per_s: u64,
}
