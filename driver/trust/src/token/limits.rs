//! Limits of a block, as people write them, and as the checks of a Biscuit.

use super::shape::MAX_SYMBOL;
use crate::error::Error;
use biscuit_auth::builder::{BlockBuilder, Term};
use std::collections::{BTreeMap, HashMap};
use terms::book::ResourceKind;
use terms::{Span, Time};

/// Limits of a token, beside those that it has already.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TokenLimits {
    /// The resources, as `maui/net/eth0`, with at most one `*`; empty: all.
    pub resources: Vec<String>,
    /// The most at once, in the unit of the kind.
    pub at_most: Vec<(ResourceKind, u64)>,
    /// The latest end of a reservation; so the token is worth nothing from then on.
    pub until: Option<Time>,
    /// The longest total length of all windows.
    pub longest: Option<Span>,
    /// The label that requests must have.
    pub label: Option<String>,
}

/// The kind of a resource in checks. An agreement's rate is one of a network.
pub(super) fn kind(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => "network",
        ResourceKind::Cpu => "cpu",
        ResourceKind::Disk => "disk",
        ResourceKind::Countable => "licence",
    }
}

/// An amount or length in checks.
pub(super) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// An instant in checks: whole seconds. An end is rounded up, so that no token allows a part of a second more.
pub(super) fn seconds(t: Time) -> u64 {
    t.as_nanos().div_ceil(Span::NANOS_PER_SEC)
}

impl TokenLimits {
    /// A block with the checks for these limits.
    pub(super) fn block(&self) -> Result<BlockBuilder, Error> {
        let mut block = BlockBuilder::new();
        let mut add = |source: &str, values: Vec<(&str, Term)>| -> Result<(), Error> {
            let values: HashMap<String, Term> =
                values.into_iter().map(|(name, term)| (name.to_owned(), term)).collect();
            let with = std::mem::take(&mut block).code_with_params(source, values, HashMap::new());
            block = with.map_err(super::refused("this limit cannot be written"))?;
            Ok(())
        };
        if !self.resources.is_empty() {
            let mut values = BTreeMap::new();
            let each = self.resources.iter().enumerate().map(|(n, pattern)| one_of(n, pattern, &mut values));
            let each = each.collect::<Result<Vec<_>, _>>()?.join(" || ");
            let values: Vec<(&str, Term)> =
                values.iter().map(|(name, text)| (name.as_str(), Term::Str(text.clone()))).collect();
            add(&format!("check if resource($r), {each};"), values)?;
        }
        for (of, most) in &self.at_most {
            let values = vec![("kind", Term::Str(kind(*of).to_owned())), ("most", Term::Integer(number(*most)))];
            add("check if kind($k), amount($a), $k != {kind} || $a <= {most};", values)?;
        }
        if let Some(until) = self.until {
            let until = Term::Date(until.as_nanos() / Span::NANOS_PER_SEC);
            add("check if end($e), $e <= {until};", vec![("until", until)])?;
        }
        if let Some(longest) = self.longest {
            let most = Term::Integer(number(longest.as_nanos() / Span::NANOS_PER_SEC));
            add("check if length($s), $s <= {most};", vec![("most", most)])?;
        }
        if let Some(label) = &self.label {
            plain(label)?;
            add("check if label($l), $l == {label};", vec![("label", Term::Str(label.clone()))])?;
        }
        Ok(block)
    }
}

/// The condition for one pattern: equal, or what comes before and behind its `*`.
fn one_of(n: usize, pattern: &str, values: &mut BTreeMap<String, String>) -> Result<String, Error> {
    let mut value = |which: &str, text: &str| {
        values.insert(format!("{which}{n}"), text.to_owned());
        format!("{{{which}{n}}}")
    };
    let condition = match pattern.split_once('*') {
        None => format!("$r == {}", value("is", pattern)),
        Some((_, end)) if end.contains('*') => {
            return Err(Error::Misuse(format!("{pattern:?}: a resource has at most one * here")));
        }
        Some((begin, "")) => format!("$r.starts_with({})", value("begin", begin)),
        Some((begin, end)) => {
            format!("($r.starts_with({}) && $r.ends_with({}))", value("begin", begin), value("end", end))
        }
    };
    plain(&pattern.replace('*', ""))?;
    Ok(condition)
}

/// Checks that a text may stand in a token.
pub(super) fn plain(text: &str) -> Result<(), Error> {
    if text.len() > MAX_SYMBOL || !text.chars().all(super::shape::is_plain) {
        let what = format!("{text:?}: a token takes at most {MAX_SYMBOL} letters, digits, spaces and - _ . @ / :");
        return Err(Error::Misuse(what));
    }
    Ok(())
}
