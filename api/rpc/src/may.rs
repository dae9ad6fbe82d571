//! Which rule of the policy would decide, and what it would say, without asking for anything.

use serde::{Deserialize, Serialize};

/// Something that somebody would signal through the local socket, in place of what they would book.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignalDoc {
    /// How.
    pub how: Signal,
    /// From where the packets come, an address or a prefix; null: from anywhere, as a wildcard reservation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// Where they go.
    pub dst: String,
    /// How much, bit/s; of Boomerang: forward.
    #[serde(default)]
    pub rate: u64,
    /// Of Boomerang: how much comes back.
    #[serde(default)]
    pub reverse: u64,
    /// The pre-emption priority (RFC 3181), the higher of preempting and defending; null: none is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
}

/// How something is signalled.
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
    /// All of them.
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

/// What policy would say to somebody.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MayDoc {
    /// To whom.
    pub who: String,
    /// The groups that vouch for them.
    pub groups: Vec<String>,
    /// `owner`, `auditor` or `operator`.
    pub role: String,
    /// Part by part.
    pub parts: Vec<MayRow>,
}

/// What it would say about a part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MayRow {
    /// Which resource; of what is signalled the interface, empty where none is known or none is meant.
    pub resource: String,
    /// Of what is signalled: whether the packets leave there, `out`, or come in, `in`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// Whether a rule allows it; whether there is room is another question.
    pub allowed: bool,
    /// The rule that decides; empty: none is about it.
    pub rule: String,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl MayDoc {
    /// Whether all of it would be allowed.
    pub fn allowed(&self) -> bool {
        self.parts.iter().all(|part| part.allowed)
    }
}
