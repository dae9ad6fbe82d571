//! `[store]` of the configuration: the file systems for the journal, and the number of audit entries that it
//! keeps.

use crate::document::{Document, Mistake};
use serde::Deserialize;
use toml::Spanned;

/// The least `audit_keep`: a start verifies the last 10,000 entries.
const FEWEST: u64 = 10_000;
/// The default number of entries that are kept.
const USUAL: u64 = 1_000_000;

/// The section as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreFile {
    #[serde(default)]
    any_filesystem: bool,
    audit_keep: Option<u64>,
}

/// The journal of bookings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// True if the journal may lie on file systems that lose written data.
    pub any_filesystem: bool,
    /// The least number of audit entries that are kept.
    pub audit_keep: u64,
}

pub(crate) fn read(document: &Document<'_>, found: Option<&Spanned<StoreFile>>) -> Result<StoreConfig, Mistake> {
    let Some(spanned) = found else { return Ok(StoreConfig { any_filesystem: false, audit_keep: USUAL }) };
    let found = spanned.get_ref();
    let audit_keep = found.audit_keep.unwrap_or(USUAL);
    if audit_keep < FEWEST {
        return Err(document.at(spanned.span(), format!("audit_keep = {audit_keep}: at least {FEWEST}")));
    }
    Ok(StoreConfig { any_filesystem: found.any_filesystem, audit_keep })
}
