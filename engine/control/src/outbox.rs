//! The outputs of traffic control that are not yet polled, and the numbers of its batches.

use crate::io::{Event, PartId, PlanId};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use terms::ports::{Preemption, RHandle};
use terms::{Fault, FlowKey, IfIndex, Rate};
use traffic::plan::PlanOp;

/// An output of traffic control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlOutput {
    /// A batch of plan operations to carry out.
    Plan(PlanId, Vec<PlanOp>),
    /// An event.
    Event(Event),
    /// The result of an installation, for RSVP; one for each `add` and `modify`, unless the reservation is gone.
    Installed(RHandle, Result<(), Fault>),
    /// The result of [`Tc::promote`](crate::Tc::promote); one for each, unless the flow was given up before.
    Promoted {
        /// Its handle.
        handle: RHandle,
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The plane's result.
        result: Result<(), Fault>,
    },
    /// A signalled reservation that shares the grant of flows admitted by measurement has come, changed or gone.
    ByMeasurement(SignalledFlow),
    /// Tells RSVP that a reservation was displaced: by a request of that priority, or (`None`) by a booking.
    /// Its handle is no longer valid.
    Displaced(RHandle, Option<Preemption>),
    /// The result of an order for a premium flow; one for each [`EdgeTurn::set_part`](crate::edges::EdgeTurn::set_part).
    Enforced(PartId, Result<(), Fault>),
    /// Trust the marks of packets from exactly these interfaces; answer with
    /// [`EdgeTurn::trusted`](crate::edges::EdgeTurn::trusted).
    Trust(BTreeSet<IfIndex>),
}

/// News of signalled reservations that are admitted by measurement, for the owner of the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalledFlow {
    /// It has come, or counts as another rate from now on.
    Counts {
        /// Its handle.
        handle: RHandle,
        /// The outgoing interface.
        oif: IfIndex,
        /// The rate that it declares, wire rate.
        declared: Rate,
    },
    /// It has gone, or is an exact reservation now.
    Gone {
        /// Its handle.
        handle: RHandle,
        /// The outgoing interface.
        oif: IfIndex,
    },
    /// A reservation has claimed a flow that was recognised: it is promoted no longer.
    Claimed {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
    },
}

/// The outputs in order. Each batch has a number of its own.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    said: VecDeque<ControlOutput>,
    last: u64,
}

impl Outbox {
    pub(crate) fn poll(&mut self) -> Option<ControlOutput> {
        self.said.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    pub(crate) fn say(&mut self, said: ControlOutput) {
        self.said.push_back(said);
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.say(ControlOutput::Event(event));
    }

    /// The number of a new batch.
    pub(crate) fn number(&mut self) -> PlanId {
        self.last += 1;
        PlanId(self.last)
    }
}
