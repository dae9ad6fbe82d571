//! The operator's tables, as `sluice rsvp interface | neighbor | sender | ...` print them.

use crate::mace::MaceDoc;
use crate::rows::{CounterRow, InstalledState, ReservationRow, SenderRow, SessionRow};
use crate::session::{FlowSpecDoc, SenderId, SessionId, StyleDoc, TspecDoc};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The interfaces that speak RSVP, and the rates reserved there.
    Interfaces,
    /// Neighbours that speak RSVP.
    Neighbours,
    /// Sessions.
    Sessions,
    /// Path states.
    Senders,
    /// Requests to previous hops.
    Requests,
    /// Requests of next hops and local applications.
    Reservations,
    /// Reservations as the ledger and the kernel hold them.
    Installed,
    /// Messages by type, and drops by reason.
    Counters,
    /// Rates of messages.
    Signalling,
    /// Flows that never signalled: `sluice mace ...`.
    Mace,
}

/// A filter of rows. A field that is left out matches every row.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RowFilter {
    /// The incoming or outgoing interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The destination of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<IpAddr>,
    /// The destination port of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<u16>,
    /// The most rows; [`MOST_ROWS`] if it is left out or larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Most rows in one answer: they fit in a line.
pub const MOST_ROWS: usize = 1000;

impl RowFilter {
    /// True if rows of this session are wanted.
    pub fn wants_session(&self, session: &SessionId) -> bool {
        self.dst.is_none_or(|dst| dst == session.dst) && self.dst_port.is_none_or(|port| port == session.dst_port)
    }

    /// True if rows of one of these interfaces are wanted.
    pub fn wants_interface<'a>(&self, names: impl IntoIterator<Item = Option<&'a str>>) -> bool {
        let Some(wanted) = &self.interface else { return true };
        names.into_iter().flatten().any(|name| name == wanted)
    }

    /// The most rows in the answer.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(MOST_ROWS).min(MOST_ROWS)
    }
}

/// Most rows of an answer, so that a line stays within [`MAX_LINE`](crate::agent::MAX_LINE).
pub const PAGE: usize = 1000;

/// A page of a list, by the number of rows before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Skip {
    /// The number of rows to leave out; at most [`PAGE`] follow. A page that is not full is the last.
    #[serde(default)]
    pub skip: u64,
}

/// A table, and the number of rows that were left out for its length.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TableDoc {
    /// The rows.
    pub rows: Rows,
    /// The number of rows left out.
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
    Mace(Vec<MaceDoc>),
}

/// An interface, as RSVP uses it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RsvpInterfaceRow {
    /// Name.
    pub name: String,
    /// True if it is up.
    pub up: bool,
    /// Our addresses there.
    pub addresses: Vec<IpAddr>,
    /// The rate that reservations hold, wire bit/s.
    pub allocated_wire_bps: u64,
    /// The most that they can hold together, wire bit/s; null: nothing is reservable.
    pub reservable_wire_bps: Option<u64>,
    /// The number of reservations.
    pub reservations: usize,
    /// The number of neighbours.
    pub neighbours: usize,
    /// `none`, or the algorithm of the key that signs.
    pub auth: String,
    /// The refresh period R, milliseconds.
    pub refresh_ms: u64,
    /// Messages received.
    pub received: u64,
    /// Messages sent.
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
    /// True if it is on the link: no hop without RSVP lies between.
    pub direct: bool,
    /// True if it says that it reduces refreshes (RFC 2961); null: refresh reduction is off here, or it was not
    /// heard.
    pub refresh_reduction: Option<bool>,
    /// Its Hellos (RFC 3209 section 5).
    pub hello: HelloStateDoc,
    /// The keys that it has signed with since the agent started.
    pub keys: Vec<NeighbourKeyDoc>,
    /// Messages received with it as the IP source.
    pub received: u64,
    /// Messages sent with it as the IP destination.
    pub sent: u64,
    /// Milliseconds since the last one received; null: none came.
    pub heard_ms_ago: Option<u64>,
}

/// The Hellos of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelloStateDoc {
    /// It has said none.
    Unheard,
    /// It says Hello.
    Up,
    /// It was silent for three and a half intervals; it is asked again when it is heard.
    Silent,
}

impl HelloStateDoc {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            HelloStateDoc::Unheard => "unheard",
            HelloStateDoc::Up => "up",
            HelloStateDoc::Silent => "silent",
        }
    }
}

/// A key of a neighbour.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NeighbourKeyDoc {
    /// Key Identifier.
    pub id: u64,
    /// Its algorithm; null: it is no longer in the file of keys.
    pub algorithm: Option<String>,
}

/// A request to a previous hop.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RequestRow {
    /// The session.
    #[serde(flatten)]
    pub session: SessionId,
    /// The sender.
    #[serde(flatten)]
    pub sender: SenderId,
    /// The previous hop; null: the sender is a local application, which gets an event.
    pub phop: Option<IpAddr>,
    /// The interface towards it.
    pub interface: Option<String>,
    /// Style.
    pub style: Option<StyleDoc>,
    /// The requested flowspec.
    pub asked: FlowSpecDoc,
    /// Milliseconds until the next refresh.
    pub refresh_in_ms: Option<u64>,
}

/// A reservation of a flow on an outgoing interface.
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
    /// The requested flowspec, after merging.
    pub asked: FlowSpecDoc,
    /// The sender's Tspec.
    pub tspec: TspecDoc,
    /// The rate that the ledger counts, wire bit/s.
    pub admitted_wire_bps: u64,
    /// Its state in the plane.
    pub state: InstalledState,
    /// Its class, as tc writes it.
    pub class: String,
    /// True if the class is shared.
    pub shared: bool,
    /// Bucket rate, bit/s; null where the kernel has none.
    pub bucket_bps: Option<u64>,
    /// Bucket depth, bytes.
    pub bucket_bytes: Option<u64>,
    /// Conforming packets.
    pub packets: u64,
    /// Packets above the bucket.
    pub excess_packets: u64,
    /// Milliseconds until an adopted reservation ends without a refresh.
    pub adopted_for_ms: Option<u64>,
}

/// Counts and rates of one message type on one interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SignallingRow {
    /// The interface.
    pub interface: String,
    /// The message type.
    pub message: String,
    /// Messages received since the agent started.
    pub received: u64,
    /// Messages sent since the agent started.
    pub sent: u64,
    /// Messages received a second, over the last ten.
    pub received_per_s: f64,
    /// Messages sent a second, over the last ten.
    pub sent_per_s: f64,
    /// The most received in one second.
    pub received_peak_per_s: u64,
    /// The most sent in one second.
    pub sent_peak_per_s: u64,
}
