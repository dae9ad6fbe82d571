//! Views of reservations and resources, as answers show them.

use crate::BookingState;
use alloc::string::String;
use alloc::vec::Vec;
use commit::{Branch, CoordinatorName};
use terms::book::{Background, Binding, Guarantee, Handle, PacketShape, RateStep, ResourceKind};
use terms::{Span, Time};

/// A reservation. Times are calendar time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookingView {
    /// Its handle.
    pub handle: Handle,
    /// The name of its owner.
    pub owner: String,
    /// The owner's label for it.
    pub label: String,
    /// The group of reservations at several agents to which it belongs; empty: none.
    pub group: String,
    /// All members of its group, as the creator of the group named them.
    pub members: Vec<String>,
    /// The state in its life.
    pub state: BookingState,
    /// The end of the hold, if it is held.
    pub hold_until: Option<Time>,
    /// How long before its end its owner is told.
    pub notice: Option<Span>,
    /// The time of its creation.
    pub created: Time,
    /// The number of its version; it grows by one with each change that is written.
    pub version: u64,
    /// Its parts.
    pub parts: Vec<PartView>,
    /// The change that is promised to a coordinator and not decided yet.
    pub promise: Option<PromiseView>,
}

/// A promise to a coordinator: a part of a transaction over several agents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromiseView {
    /// The part of the transaction.
    pub branch: Branch,
    /// The coordinator.
    pub coordinator: CoordinatorName,
    /// The change: `create`, `hold`, `modify` or `bind`.
    pub change: &'static str,
    /// The time of this answer.
    pub now: Time,
}

/// A part of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartView {
    /// The resource's name.
    pub resource: String,
    /// The kind, and so the unit of its amounts.
    pub kind: ResourceKind,
    /// The strength of the promise; `None`: the resource is not there at present.
    pub guarantee: Option<Guarantee>,
    /// Its windows with their amounts. The amounts of a background part are the most that it wants.
    pub steps: Vec<RateStep>,
    /// The terms of a background part, which only shares the amount that foreground leaves; `None`: a
    /// foreground part.
    pub background: Option<Background>,
    /// How its packets travel.
    pub shape: PacketShape,
    /// The packets or processes; `None`: not bound.
    pub binding: Option<Binding>,
    /// The amount that its windows ask for at this instant; for a background part, the most that it wants.
    pub asked: u64,
    /// The amount that was admitted for this instant.
    pub now: u64,
    /// The amount that the driver has read back for it.
    pub installed: u64,
    /// The state of its enforcement.
    pub enforced: Enforced,
}

/// The state of a part's enforcement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Enforced {
    /// No window is open, or its background share is nothing.
    Idle,
    /// A window is open, but the part is not bound to packets or processes.
    Unbound,
    /// The order was given to the driver, without an answer so far.
    Pending,
    /// The driver has read it back.
    InForce,
    /// The driver failed, for this reason; the order is tried again.
    Failed(String),
}

/// A resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceView {
    /// Its name.
    pub name: String,
    /// The kind, and so the unit of an amount.
    pub kind: ResourceKind,
    /// The strength of a promise.
    pub guarantee: Guarantee,
    /// The most that can be booked at this instant.
    pub capacity: u64,
    /// The amount that can be booked at this instant.
    pub free: u64,
    /// The most that background parts may share at this instant.
    pub background: u64,
    /// The amount that background parts have; it does not reduce the amount that can be booked.
    pub lent: u64,
    /// Reservations with a part of it that are not over.
    pub reservations: usize,
    /// The shortage, if more was promised than there is: its first instant, and its largest amount.
    pub missing: Option<(Time, u64)>,
    /// The free amounts over time, as far ahead as the call asked.
    pub timeline: Vec<RateStep>,
}
