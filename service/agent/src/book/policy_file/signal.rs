//! The keys of a policy rule about signalled reservations: `signal`, `source`, `destination`, `priority`.

use super::{MOST_NAMES, RuleFile};
use crate::document::{Document, Mistake};
use booking::policy::{AddressPrefix, SignalScope};
use toml::Spanned;

/// The scope of a rule in signalling. Refuses keys that do not go together.
pub(super) fn signals(document: &Document<'_>, entry: &RuleFile) -> Result<SignalScope, Mistake> {
    let at = |wrong: &str| Err(document.at(entry.name.span(), wrong));
    let ends = !entry.source.is_empty() || !entry.destination.is_empty();
    if entry.signal != Some(true) && (ends || entry.priority.is_some()) {
        return at("source, destination and priority are of what is signalled: write signal = true beside them");
    }
    if entry.signal == Some(true) {
        if !entry.vo.is_empty() {
            return at("what is signalled carries no token: vo does not go with signal = true");
        }
        if entry.longest.is_some() || entry.ahead.is_some() {
            return at(
                "what is signalled begins now and has no end: neither longest nor ahead goes with signal = true",
            );
        }
        if !entry.label.is_empty() || entry.background.is_some() {
            return at("what is signalled has no label and is no background: neither goes with signal = true");
        }
    }
    if entry.deny && entry.priority.is_some() {
        return at("a rule that denies has no priority");
    }
    if entry.source.len() > MOST_NAMES || entry.destination.len() > MOST_NAMES {
        return at("at most 256 prefixes in a rule");
    }
    let prefixes = |all: &[Spanned<String>]| all.iter().map(|one| prefix(document, one)).collect::<Result<Vec<_>, _>>();
    Ok(SignalScope {
        sources: prefixes(&entry.source)?,
        destinations: prefixes(&entry.destination)?,
        priority: entry.priority,
    })
}

fn prefix(document: &Document<'_>, text: &Spanned<String>) -> Result<AddressPrefix, Mistake> {
    let found: documents::boomerang::SitePrefix =
        text.get_ref().parse().map_err(|wrong: String| document.at(text.span(), wrong))?;
    Ok(AddressPrefix { addr: found.addr, length: found.length })
}
