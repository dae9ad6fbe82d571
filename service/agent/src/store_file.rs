//! `[store]` of the configuration: where the journal may lie, and how much of the audit it keeps.

use crate::document::{Document, Mistake};
use serde::Deserialize;
use toml::Spanned;

/// Fewest entries that may be kept: a start proves the last 10,000.
const FEWEST: u64 = 10_000;
/// How many are kept unless it is said.
const USUAL: u64 = 1_000_000;

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreFile {
    #[serde(default)]
    any_filesystem: bool,
    audit_keep: Option<u64>,
}

/// The journal of the book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// Whether it takes file systems that may forget.
    pub any_filesystem: bool,
    /// How many entries of the audit are kept at least.
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
