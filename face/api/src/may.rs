//! Which rule of the policy would decide, and what it would say, without asking for anything.

use serde::{Deserialize, Serialize};

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
    /// Which resource.
    pub resource: String,
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
