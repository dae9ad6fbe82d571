//! What the book shows of reservations and resources.

use crate::BookingState;
use alloc::string::String;
use alloc::vec::Vec;
use terms::Time;
use terms::book::{Background, Binding, Guarantee, Handle, PacketShape, RateStep, ResourceKind};

/// A reservation. Times are calendar time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookingView {
    /// Its handle.
    pub handle: Handle,
    /// Whose it is.
    pub owner: String,
    /// What its owner calls it.
    pub label: String,
    /// What it belongs to, with reservations of other agents; empty: nothing.
    pub group: String,
    /// All that its group has, as whoever made it named them.
    pub members: Vec<String>,
    /// Where it is in its life.
    pub state: BookingState,
    /// Until when it is held, while it is.
    pub hold_until: Option<Time>,
    /// When it was created.
    pub created: Time,
    /// How often it has changed; grows by one with each change that is written down.
    pub version: u64,
    /// Its parts.
    pub parts: Vec<PartView>,
}

/// A part of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartView {
    /// Which resource.
    pub resource: String,
    /// What its amounts count.
    pub kind: ResourceKind,
    /// What the promise is worth; `None`: the resource is not there at present.
    pub guarantee: Option<Guarantee>,
    /// How much and when. The amounts of a background part are the most that it wants.
    pub steps: Vec<RateStep>,
    /// Whether it only shares what foreground leaves.
    pub background: Option<Background>,
    /// How its packets travel.
    pub shape: PacketShape,
    /// Whose packets or processes.
    pub binding: Option<Binding>,
    /// What its windows ask for at this instant; of a background part, the most that it wants.
    pub asked: u64,
    /// What it may have at this instant: what was admitted.
    pub now: u64,
    /// What the driver has read back for it.
    pub installed: u64,
    /// What became of that.
    pub enforced: Enforced,
}

/// What became of the wish to enforce a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Enforced {
    /// No window is open, or its background share is nothing.
    Idle,
    /// A window is open, but nobody has said whose packets or processes it is for.
    Unbound,
    /// Told to the driver, not answered yet.
    Pending,
    /// The driver has read it back.
    InForce,
    /// The driver could not; it is tried again.
    Failed(String),
}

/// A resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceView {
    /// Its name.
    pub name: String,
    /// What an amount counts.
    pub kind: ResourceKind,
    /// What a promise is worth.
    pub guarantee: Guarantee,
    /// The most that can be booked at all, at this instant.
    pub capacity: u64,
    /// What can be booked at this instant.
    pub free: u64,
    /// What background parts may have together at this instant.
    pub background: u64,
    /// What they have; not taken from what can be booked.
    pub lent: u64,
    /// Reservations with a part of it that are not over.
    pub reservations: usize,
    /// What is given away and not there: since when, and how much at most.
    pub missing: Option<(Time, u64)>,
    /// How much is free from when to when, as far ahead as was asked for.
    pub timeline: Vec<RateStep>,
}
