//! The audit of decisions: who asked what, what was decided, and by which rules.

use super::Instant;
use serde::{Deserialize, Serialize};

/// Which decisions to read; what is left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditAsk {
    /// From this number on; null: the last `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// About this reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Asked by this caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

/// A stretch of the audit, oldest first, each entry proved against the one before it. A call looks at a bounded number of
/// entries, so a page may be empty and not the last.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AuditPage {
    /// Those that match.
    pub entries: Vec<AuditRow>,
    /// Where to go on; greater than `last`: that was all for now.
    pub next: u64,
    /// The number of the last entry that there is; 0: none.
    pub last: u64,
}

/// A decision.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AuditRow {
    /// Its number: the first is 1, none is left out.
    pub number: u64,
    /// When.
    pub at: Instant,
    /// Who asked.
    pub who: String,
    /// `create`, `commit`, `modify`, `bind` or `cancel`.
    pub verb: String,
    /// Of which reservation, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handle: Option<String>,
    /// `granted`, or why not: `policy`, `no_room`, ...
    pub outcome: String,
    /// The rules of policy that decided, part by part.
    pub rules: Vec<String>,
    /// SHA-256 over the hash before it, its number and its record, in hexadecimal.
    pub hash: String,
}
