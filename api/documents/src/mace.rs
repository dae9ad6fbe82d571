//! Flows that never signalled, as `sluice mace ...` prints them.

use crate::session::{SenderId, SessionId};
use serde::{Deserialize, Serialize};

/// An interface whose flows are recognised and admitted by measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MaceDoc {
    /// The interface.
    pub interface: String,
    /// The rule that decides.
    pub rule: String,
    /// The rate that promoted flows have together, wire bit/s.
    pub allocated_wire_bps: u64,
    /// The last sample of what they bring, wire bit/s; null: none yet.
    pub measured_wire_bps: Option<u64>,
    /// The rate that they count as for the rule, wire bit/s.
    pub estimate_wire_bps: u64,
    /// The sum of what they declare, wire bit/s.
    pub declared_wire_bps: u64,
    /// True while declared rates count because the measurement is in doubt.
    pub in_doubt: bool,
    /// The time between samples, ms.
    pub period_ms: u64,
    /// The samples of a window.
    pub window: u32,
    /// The promoted flows; at most as many as the filter's limit.
    pub flows: Vec<MaceFlowRow>,
    /// The number of promoted flows.
    pub promoted: usize,
    /// The signalled reservations that were admitted by measurement; null: those are exact.
    #[serde(default)]
    pub signalled: Option<usize>,
    /// The application list, in its order.
    pub applications: Vec<MaceApplicationRow>,
    /// The rules in shadow.
    pub shadows: Vec<MaceShadowRow>,
    /// The last decisions, the newest first.
    pub decisions: Vec<MaceDecisionRow>,
    /// The counts since the agent's start.
    pub counts: MaceCountRow,
}

/// A promoted flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MaceFlowRow {
    /// Destination.
    pub session: SessionId,
    /// Source.
    pub sender: SenderId,
    /// Its application; empty: the list has none for it any more.
    pub application: String,
    /// The rate that counts for it, wire bit/s.
    pub declared_wire_bps: u64,
    /// The time since its admission, ms.
    pub age_ms: u64,
    /// The time since its last packet, as it was last looked for, ms.
    pub silent_ms: u64,
    /// Silence after which it is demoted, ms.
    pub timeout_ms: u64,
    /// True once the kernel has it.
    pub installed: bool,
}

/// A line of the application list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MaceApplicationRow {
    /// Its name.
    pub name: String,
    /// IP protocol.
    pub protocol: u8,
    /// The first port.
    pub first_port: u16,
    /// The last port.
    pub last_port: u16,
    /// The rate of one flow, IP bit/s.
    pub rate_bps: u64,
    /// The bucket of one flow, IP bytes.
    pub bucket_bytes: u64,
    /// The packets after which a flow is recognised.
    pub threshold: u32,
    /// Silence after which a flow is demoted, ms.
    pub timeout_ms: u64,
    /// Flows that asked since the agent's start.
    pub asked: u64,
    /// Of these, admitted.
    pub admitted: u64,
    /// The rate that one flow declares, wire bit/s.
    pub declared_wire_bps: u64,
    /// The rules, in force and in shadow, that would admit one more flow now.
    pub would_admit: Vec<String>,
}

/// A flow that asked, and the answers of the rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MaceDecisionRow {
    /// The time since, ms.
    pub age_ms: u64,
    /// Destination.
    pub session: SessionId,
    /// Source.
    pub sender: SenderId,
    /// Its application.
    pub application: String,
    /// The rate that it declares, wire bit/s.
    pub declared_wire_bps: u64,
    /// The rate that the flows before it counted as for the rule in force, wire bit/s.
    pub estimate_wire_bps: u64,
    /// True: the rule in force admitted it.
    pub admitted: bool,
    /// The rules in shadow that would have admitted it.
    pub would_admit: Vec<String>,
}

/// A rule in shadow: what it would have decided about the same flows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MaceShadowRow {
    /// The rule.
    pub rule: String,
    /// The rate that the promoted flows count as for it, wire bit/s.
    pub estimate_wire_bps: u64,
    /// Flows that it would have admitted.
    pub admitted: u64,
    /// Flows that it would have refused.
    pub refused: u64,
}

/// The counts since the agent's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MaceCountRow {
    /// Flows that reached their threshold and asked.
    pub asked: u64,
    /// Of these, admitted.
    pub admitted: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Admitted, but the kernel could not have them.
    pub failed: u64,
    /// Demoted because they were silent.
    pub silent: u64,
    /// Ended otherwise.
    pub ended: u64,
    /// Samples that counted.
    pub samples: u64,
    /// Readings that were missed, or not believed.
    pub doubted: u64,
}
