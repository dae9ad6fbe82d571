//! Names and sizes of public types: no name in two crates, and no type with more methods than the limit.
//!
//! Both limits are ratchets: a change may lower them, and nothing may exceed them.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Words that every crate may have for its own.
const COMMON: [&str; 6] = ["Error", "Event", "Input", "Output", "Config", "Limits"];
/// Crates that may have a public type of one name.
const CRATES: usize = 1;
/// Names in more than [`CRATES`] crate today; it only falls.
const MOST_NAMES: usize = 4;
/// The most methods of a type.
const MOST_METHODS: usize = 80;

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let found = read(root);
    let mut findings = Vec::new();
    let many = found.shared_names();
    if many.len() > MOST_NAMES {
        findings.push(format!(
            "{} public type names are in more than {CRATES} crate, at most {MOST_NAMES}: {}",
            many.len(),
            many.join(", ")
        ));
    }
    for (name, count) in found.biggest().into_iter().filter(|(_, count)| *count > MOST_METHODS) {
        findings.push(format!("{name} has {count} methods, at most {MOST_METHODS}"));
    }
    findings
}

/// The figures, for a person.
pub fn figures(root: &Path) -> Vec<String> {
    let found = read(root);
    let many = found.shared_names();
    let mut lines = vec![format!("{} public type names in more than {CRATES} crate: {}", many.len(), many.join(", "))];
    lines.extend(found.biggest().into_iter().take(6).map(|(name, count)| format!("{count} methods: {name}")));
    lines
}

#[derive(Default)]
struct Found {
    /// Crates of each public type name.
    names: BTreeMap<String, BTreeSet<String>>,
    /// Methods of each type, `crate::Type`.
    methods: BTreeMap<String, usize>,
}

impl Found {
    fn names_in(&self, crates: usize) -> Vec<String> {
        let many =
            self.names.iter().filter(|(name, within)| within.len() >= crates && !COMMON.contains(&name.as_str()));
        many.map(|(name, within)| format!("{name} ({})", within.len())).collect()
    }

    fn shared_names(&self) -> Vec<String> {
        self.names_in(CRATES + 1)
    }

    fn biggest(&self) -> Vec<(String, usize)> {
        let mut all: Vec<_> = self.methods.iter().map(|(name, count)| (name.clone(), *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }
}

fn read(root: &Path) -> Found {
    let mut found = Found::default();
    for path in source::files(root, &[".rs"]) {
        let name = path.to_string_lossy().into_owned();
        if let Some((within, _)) = name.split_once("/src/") {
            file(within, &source::read(root, &path), &mut found);
        }
    }
    found
}

/// One file of a crate. rustfmt puts items at the left margin and methods four spaces in.
fn file(within: &str, text: &str, found: &mut Found) {
    let mut owner: Option<String> = None;
    for line in text.lines() {
        if line.starts_with("#[cfg(test)]") {
            break; // tests are at the end of a file
        }
        if line.starts_with('}') {
            owner = None;
        } else if line.starts_with("impl") {
            owner = inherent(line).map(|name| format!("{within}::{name}"));
        } else if let Some(name) = public_type(line) {
            found.names.entry(name.to_owned()).or_default().insert(within.to_owned());
        } else if let (Some(owner), true) = (&owner, is_method(line)) {
            *found.methods.entry(owner.clone()).or_default() += 1;
        }
    }
}

/// The type of `impl<T> Type<T> {`; `None` for an implementation of a trait.
fn inherent(line: &str) -> Option<&str> {
    if line.contains(" for ") {
        return None;
    }
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0_i32;
        let end = rest.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '<') - i32::from(*c == '>');
            depth == 0
        })?;
        rest = &rest[end.0 + 1..];
    }
    let path = rest.trim_start().split(['<', ' ', '{']).next()?;
    path.rsplit("::").next()
}

fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "union "].into_iter().find_map(|word| rest.strip_prefix(word))?;
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

fn is_method(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' ')) else { return false };
    let rest = match rest.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ").map_or("", |(_, rest)| rest),
        None => rest,
    };
    let words = ["pub ", "const ", "async ", "unsafe "];
    words.into_iter().fold(rest, |rest, word| rest.strip_prefix(word).unwrap_or(rest)).starts_with("fn ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_public_types_and_counts_methods() {
        let text = "pub struct Place<T> {\n    pub x: T,\n}\n\nimpl<T: Into<u8>> Place<T> {\n    pub const fn a() {}\n    fn b() {}\n}\n\
                    impl Drop for Place<u8> {\n    fn drop(&mut self) {}\n}\nstruct Hidden;\n";
        let mut found = Found::default();
        for within in ["engine/a", "engine/b", "engine/c"] {
            file(within, text, &mut found);
        }
        assert_eq!(found.shared_names(), ["Place (3)"]);
        assert_eq!(found.biggest()[0], ("engine/a::Place".to_owned(), 2));
    }
}
