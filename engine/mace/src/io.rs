//! Inputs, outputs and events of [`Mace`](crate::Mace).

use crate::list::ApplicationList;
use crate::rules::{RuleTerms, SharedTerms};
use alloc::string::String;
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{Bytes, Fault, FlowKey, Rate, Span, Time};

/// The most rules in shadow.
pub const MOST_SHADOWS: usize = 8;
/// The decisions that are kept: the last ones.
pub const MOST_DECISIONS: usize = 64;

/// The parameters of an interface's engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The allocation, and how it is measured.
    pub shared: SharedTerms,
    /// The rule that decides.
    pub rule: RuleTerms,
    /// The rules that are asked beside it, at most [`MOST_SHADOWS`].
    pub shadow: Vec<RuleTerms>,
    /// The bytes that the link adds to each packet.
    pub overhead: u32,
    /// A flow that was refused asks again after this time.
    pub refused_for: Span,
    /// The time between two looks for silent flows.
    pub look: Span,
    /// The places for candidates.
    pub candidates: usize,
    /// Keys the table of candidates.
    pub key: [u64; 2],
}

/// An input.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A packet that no flow claims.
    Packet(FlowKey),
    /// A plane that counts for itself has seen as many packets of this flow as its application's threshold.
    Recognised(FlowKey),
    /// The answer to [`Output::Promote`].
    Installed {
        /// The flow.
        flow: FlowKey,
        /// The plane's result.
        result: Result<(), Fault>,
    },
    /// The plane has lost a promoted flow, or another reservation has it.
    Lost(FlowKey),
    /// The flow has ended: the caller knows, so that its timeout need not pass.
    Ended(FlowKey),
    /// A reservation that was signalled and admitted up to [`Mace::room`](crate::Mace::room) counts, or counts as another
    /// rate from now on.
    Counts {
        /// Its handle.
        handle: RHandle,
        /// The rate that it declares, wire rate.
        declared: Rate,
    },
    /// Such a reservation counts no longer.
    Gone(RHandle),
    /// The plane holds a flow that an earlier run had promoted. Told before the first reading.
    Adopted {
        /// The flow.
        flow: FlowKey,
        /// The rate that counts for it, wire rate.
        declared: Rate,
        /// Its timeout.
        timeout: Span,
    },
    /// The answer to [`Output::Look`]: the flows, each with the time of its last packet.
    Looked(&'a [(FlowKey, Time)]),
    /// A reading of the counter of all bytes of promoted flows so far, wire bytes.
    Counter {
        /// The time of the reading.
        at: Time,
        /// The counter.
        bytes: Bytes,
    },
    /// Another list, from now on. Flows that are promoted stay, by the terms of their admission.
    Applications(ApplicationList),
    /// Another allocation, from now on, wire rate. Flows that are promoted stay.
    Allocated(Rate),
    /// `wake_at()` has come.
    Wake,
}

/// The terms of a flow that is to be promoted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promotion {
    /// The flow.
    pub flow: FlowKey,
    /// The name of its application.
    pub application: String,
    /// The rate of its policer, IP bytes.
    pub rate: Rate,
    /// The bucket of its policer, IP bytes.
    pub depth: Bytes,
    /// A shorter packet counts as this long, IP bytes.
    pub least_packet: u32,
    /// The rate that counts for it, wire rate.
    pub declared: Rate,
    /// Silence after which it is demoted.
    pub timeout: Span,
}

/// A flow that asked, and the answers of the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowDecision {
    /// The time.
    pub at: Time,
    /// The flow.
    pub flow: FlowKey,
    /// Its application.
    pub application: String,
    /// The rate that it declares, wire rate.
    pub declared: Rate,
    /// The rate that the flows before it counted as for the rule in force, wire rate.
    pub usage: Rate,
    /// True: the rule in force admitted it.
    pub admitted: bool,
    /// The answers of the rules in shadow, in their order: true if the rule would have admitted it.
    pub shadows: Vec<bool>,
}

/// An output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Give this flow its class and policer, read them back, and answer with [`Input::Installed`].
    Promote(Promotion),
    /// Take class and policer away: its packets are best effort from now on.
    Demote(FlowKey),
    /// Look when each promoted flow last had a packet, and answer with [`Input::Looked`].
    Look,
    /// An event for people and tests.
    Event(Event),
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A flow was admitted and is in the plane.
    Promoted {
        /// The flow.
        flow: FlowKey,
        /// Its application.
        application: String,
        /// The rate that counts for it, wire rate.
        declared: Rate,
    },
    /// A flow was recognised and refused.
    Refused {
        /// The flow.
        flow: FlowKey,
        /// Its application.
        application: String,
        /// The rate that it declares, wire rate.
        declared: Rate,
        /// The rate that was free.
        free: Rate,
        /// It does not ask again before this time.
        until: Time,
    },
    /// A flow was admitted, and the plane could not have it.
    Failed {
        /// The flow.
        flow: FlowKey,
        /// The plane's fault.
        fault: Fault,
    },
    /// A promoted flow is one no longer.
    Demoted {
        /// The flow.
        flow: FlowKey,
        /// Its application.
        application: String,
        /// Why.
        why: Demotion,
    },
    /// A flow of an earlier run is promoted again.
    Adopted {
        /// The flow.
        flow: FlowKey,
        /// The rate that counts for it, wire rate.
        declared: Rate,
    },
    /// A reading of the counter could not be believed: declared rates count for a while.
    Doubted {
        /// The sum of the declared rates.
        declared: Rate,
    },
}

/// Why a flow was demoted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Demotion {
    /// It had no packet for its timeout.
    Silent,
    /// The caller said that it has ended.
    Ended,
    /// The plane lost it, or another reservation has it.
    Lost,
}
