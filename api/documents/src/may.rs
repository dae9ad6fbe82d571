//! Questions to the policy: the rule that would decide about a request, and its decision. Nothing is
//! reserved.

use crate::event::Direction;
use crate::words::words;
use serde::{Deserialize, Serialize};

/// A signalled request through the local socket, in place of a booking.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignalDoc {
    /// The protocol and role.
    pub how: Signal,
    /// Source address or prefix; null: any source, as in a wildcard reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// Destination address or prefix.
    pub dst: String,
    /// The rate, bit/s; of Boomerang: the forward rate.
    #[serde(default)]
    pub rate: u64,
    /// Of Boomerang: the reverse rate, bit/s.
    #[serde(default)]
    pub reverse: u64,
    /// The pre-emption priority (RFC 3181), the higher of preempting and defending; null: none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
}

/// A way to signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// RSVP, as the sender of a session.
    Send,
    /// RSVP, as a receiver, who reserves.
    Receive,
    /// Boomerang.
    Boomerang,
}

impl Signal {
    /// All ways with their names.
    pub const ALL: [(Signal, &'static str); 3] =
        [(Signal::Send, "send"), (Signal::Receive, "receive"), (Signal::Boomerang, "boomerang")];
}

impl std::str::FromStr for Signal {
    type Err = String;
    fn from_str(text: &str) -> Result<Signal, String> {
        let known = Signal::ALL.into_iter().find(|(_, name)| *name == text);
        known
            .map(|(signal, _)| signal)
            .ok_or_else(|| format!("{text:?} is no way to signal: send, receive or boomerang"))
    }
}

words! {
    /// The rights of a caller over reservations.
    CallerRights {
        /// Rights over its own.
        Owner = "owner",
        /// Reads all.
        Auditor = "auditor",
        /// All rights.
        Operator = "operator",
        /// Speaks for others, as a broker does.
        Broker = "broker",
    }
}

/// The policy's answer about a caller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MayDoc {
    /// The name of the caller.
    pub who: String,
    /// The groups that vouch for the caller.
    pub groups: Vec<String>,
    /// The rights of the caller.
    pub role: CallerRights,
    /// The answers, part by part.
    pub parts: Vec<MayRow>,
}

/// The policy's answer about a part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MayRow {
    /// The resource; of a signalled request the interface, empty if none is known or none is meant.
    pub resource: String,
    /// Of a signalled request: `out` if the packets leave by the interface, `in` if they come in by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<Direction>,
    /// True if a rule allows it. Room is another question.
    pub allowed: bool,
    /// The rule that decides; empty: no rule matches.
    pub rule: String,
    /// The layers that allow it before that rule: a token, the domain's rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
    /// The reason of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl MayDoc {
    /// True if all parts would be allowed.
    pub fn allowed(&self) -> bool {
        self.parts.iter().all(|part| part.allowed)
    }
}
