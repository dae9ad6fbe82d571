//! Inputs and events of traffic control: interfaces, batches of plan operations, and what happened.
//!
//! Requests and notices that come together are a *turn*: after them, [`Tc::end_turn`](crate::Tc::end_turn) draws one
//! batch for each interface where a change is due. On each interface one batch at a time is in progress: until
//! [`Tc::plan_done`](crate::Tc::plan_done) answers it, further changes wait and go into the next batch together. If a
//! batch fails, its reservations are tried again in smaller ones, and only those that fail alone are lost.

pub use admit::LinkLedger;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::book::Handle;
use terms::ports::Preemption;
use terms::{Fault, FlowKey, IfIndex, Rate, Span};
use traffic::plan::LinkSpec;

/// The number of a batch of plan operations for the data plane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlanId(pub u64);

/// A part of a reservation: its handle, and its number from 0.
pub type PartId = (Handle, usize);

/// An interface and its link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceState {
    /// The index of the interface.
    pub index: IfIndex,
    /// The name, for people.
    pub name: String,
    /// This node's addresses on the interface.
    pub addresses: Vec<IpAddr>,
    /// MTU, bytes.
    pub mtu: u32,
    /// True if RSVP runs here.
    pub rsvp: bool,
    /// The link, if its rate is known; without it, there are no reservations and the plane ignores the interface.
    pub link: Option<Reservable>,
}

/// A link that takes reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservable {
    /// Rate, overhead, MTU.
    pub spec: LinkSpec,
    /// The most that signalled (open-ended) reservations may hold together, wire rate.
    pub signalled_share: Rate,
    /// The wire rate that best effort and signalling always keep.
    pub kept_back: Rate,
    /// The time for which a new signalled reservation is safe from advance bookings; `None`: for ever, and
    /// then a booking must find room beside it.
    pub assumed_holding: Option<Span>,
    /// The `C` (bytes) and `D` (microseconds) of the plane; `None`: no bound, guaranteed service is refused.
    pub guaranteed: Option<(u32, u32)>,
    /// The wire rate set aside for flows that are admitted by measurement ([`crate::Tc::promote`]); zero: there are none.
    pub measured: Rate,
}

/// An event of traffic control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A slot was opened on an interface.
    Admitted {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The rate that the ledger counts.
        rate: Rate,
    },
    /// A slot was released.
    Released {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The released rate.
        rate: Rate,
    },
    /// A flow that was found in the plane holds capacity again.
    Adopted {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The rate that the ledger counts.
        rate: Rate,
    },
    /// An adopted flow was not refreshed within its lifetime.
    AdoptedExpired {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
    },
    /// A reservation was displaced: by a request of that priority, or (`None`) by a booking that begins.
    Displaced {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The lost rate.
        rate: Rate,
        /// The priority of the request.
        by: Option<Preemption>,
    },
    /// A booked slot's window has begun.
    Opens {
        /// The interface.
        oif: IfIndex,
        /// The ledger's handle.
        slot: u64,
        /// The rate of the slot.
        rate: Rate,
    },
    /// A booked slot's window is over, or a hold was not promised in time.
    Closes {
        /// The interface.
        oif: IfIndex,
        /// The ledger's handle.
        slot: u64,
        /// The rate of the slot.
        rate: Rate,
    },
    /// A bookable resource has come, gone or changed. Signalled reservations on an interface change the room
    /// for its background too, but without this event.
    Resource {
        /// The resource.
        resource: terms::book::ResourceId,
    },
    /// A booked part of an interface has this rate at its edge from now on; zero: it has gone.
    Enforced {
        /// The handle of the reservation.
        handle: Handle,
        /// The part, from 0.
        part: usize,
        /// The rate, in IP bytes.
        rate: Rate,
    },
    /// The plane could not carry out a batch.
    PlaneFault {
        /// The number of the batch.
        id: PlanId,
        /// The fault.
        fault: Fault,
    },
}
