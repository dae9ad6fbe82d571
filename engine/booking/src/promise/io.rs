//! Calls of coordinators, and questions to them.

use crate::io::{BookingChange, BookingRequest};
use alloc::string::String;
use alloc::vec::Vec;
use commit::coordinator::Serial;
use commit::{Branch, CoordinatorName, Decision, Epoch};
use terms::Time;
use terms::book::{Binding, Handle};

/// A coordinator asks for a promise. The caller of the call is the one for whom it asks; the answer is the
/// reservation, or a refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrepareCall {
    /// The part of the transaction.
    pub branch: Branch,
    /// The coordinator. The driver has checked that it is this one who asks.
    pub coordinator: CoordinatorName,
    /// The coordinator's epoch.
    pub epoch: Epoch,
    /// The place of the transaction in the epoch.
    pub serial: Serial,
    /// The change that is to be promised.
    pub ask: PrepareAsk,
}

/// A change that can be promised. A cancellation is none: it cannot be refused, so it is ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrepareAsk {
    /// Reserve, all parts or none.
    Create {
        /// The request.
        ask: BookingRequest,
        /// The owner's key; see [`Call::Create`](crate::Call::Create). An abort frees it.
        key: String,
    },
    /// Book a held reservation.
    Hold(Handle),
    /// Change amounts or windows. Until it is decided the greater of old and new is counted at every instant.
    Modify {
        /// The reservation.
        handle: Handle,
        /// The change.
        change: BookingChange,
    },
    /// Bind a part to packets or processes, or (`None`) to nothing.
    Bind {
        /// The reservation.
        handle: Handle,
        /// The part, from 0.
        part: usize,
        /// The packets or processes.
        binding: Option<Binding>,
    },
}

impl PrepareAsk {
    /// The reservation that it changes; `None`: it makes one.
    pub fn handle(&self) -> Option<Handle> {
        match self {
            PrepareAsk::Create { .. } => None,
            PrepareAsk::Hold(handle) | PrepareAsk::Modify { handle, .. } | PrepareAsk::Bind { handle, .. } => {
                Some(*handle)
            }
        }
    }
}

/// A coordinator tells its decision. The answer comes when it is carried out and on the disk: the reservation, or
/// [`CallResult::Nothing`](crate::io::CallResult::Nothing) if there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecideCall {
    /// The part of the transaction.
    pub branch: Branch,
    /// The coordinator. The driver has checked that it is this one who speaks.
    pub coordinator: CoordinatorName,
    /// The coordinator's present epoch.
    pub epoch: Epoch,
    /// The decision.
    pub decision: Decision,
}

/// A coordinator asks for the open promises to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromisesCall {
    /// The coordinator. The driver has checked that it is this one who asks.
    pub coordinator: CoordinatorName,
    /// The coordinator's epoch.
    pub epoch: Epoch,
    /// The last one of the previous page.
    pub after: Option<Branch>,
}

/// A page of the open promises to a coordinator, in order, and the time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromiseList {
    /// The promises, each with the number of the epoch in which it was made.
    pub promises: Vec<(Branch, u64)>,
    /// True if there are more: ask again after the last.
    pub more: bool,
    /// The time of this answer; calendar time.
    pub now: Time,
}

/// A question to a coordinator that has not told its decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecisionQuestion {
    /// The part of the transaction.
    pub branch: Branch,
    /// The coordinator.
    pub coordinator: CoordinatorName,
    /// The epoch in which it was promised.
    pub epoch: Epoch,
}

/// A decision that contradicts an earlier one of an operator or of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contradiction {
    /// The part of the transaction.
    pub branch: Branch,
    /// The reservation; `None`: it is not kept any more.
    pub handle: Option<Handle>,
    /// True: the other members made the change.
    pub committed: bool,
}
