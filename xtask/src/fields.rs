//! Fields that a type shows to other files of its crate: `pub(crate)`, `pub(super)`, `pub(in ...)`.
//!
//! Such a field has no one who keeps its invariant. The number may only fall; lower [`MOST`] with it.

use crate::source;
use std::cmp::Reverse;
use std::path::Path;

/// The most fields that may be shown inside their crates, all crates together: half of those before the house was rebuilt.
const MOST: usize = 201;
/// The number of files that a finding and the figures name.
const NAMED: usize = 5;

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let files = counted(root);
    let sum: usize = files.iter().map(|(_, count)| count).sum();
    if sum <= MOST {
        return Vec::new();
    }
    vec![format!(
        "{sum} fields are shown inside their crates, at most {MOST}: make them private, with methods that keep what the \
         type promises, or put the file that needs them below the type's; most are in {}",
        said(&files)
    )]
}

/// The figures, for a person.
pub fn figures(root: &Path) -> Vec<String> {
    let files = counted(root);
    let sum: usize = files.iter().map(|(_, count)| count).sum();
    vec![format!("{sum} fields are shown inside their crates, at most {MOST}: {}", said(&files))]
}

fn said(files: &[(String, usize)]) -> String {
    files.iter().take(NAMED).map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", ")
}

/// The number of such fields in each file that has any, most first.
fn counted(root: &Path) -> Vec<(String, usize)> {
    let files = source::files(root, &[".rs"]).into_iter();
    let count = |path: std::path::PathBuf| {
        let count: usize = source::read(root, &path).lines().map(shown).sum();
        (path.to_string_lossy().into_owned(), count)
    };
    let mut all: Vec<(String, usize)> = files.map(count).filter(|(_, count)| *count > 0).collect();
    all.sort_by_key(|(name, count)| (Reverse(*count), name.clone()));
    all
}

/// The number of fields on a line that others of the crate see: one with a name, or those of a tuple.
fn shown(line: &str) -> usize {
    let line = line.trim_start();
    if line.starts_with("//") {
        return 0;
    }
    if let Some((_, rest)) =
        line.split_once("struct ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
    {
        let tuple = rest.split_once('(').map_or("", |(_, rest)| rest);
        return tuple.matches("pub(").count();
    }
    let Some(rest) = line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")).map(|(_, rest)| rest) else {
        return 0;
    };
    let name = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '#')).unwrap_or(rest.len());
    usize::from(name > 0 && rest[name..].starts_with(':') && !rest[name..].starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_what_is_none() {
        for (line, count) in [
            ("    pub(crate) rate: Rate,", 1),
            ("    pub(super) keys: [u64; N],", 1),
            ("    pub(in crate::state) r#type: u8,", 1),
            ("pub(crate) struct Place(pub(crate) u32, pub(super) u32);", 2),
            ("    rate: Rate,", 0),
            ("    pub rate: Rate,", 0),
            ("    pub(crate) fn rate(&self) -> Rate {", 0),
            ("    pub(crate) const MOST: usize = 3;", 0),
            ("pub(crate) use crate::place::Place;", 0),
            ("pub(crate) mod place;", 0),
            ("        (\"pub(crate) struct Place(pub(crate) u32);\", 1),", 0),
            ("    // pub(crate) rate: Rate,", 0),
            ("impl Deref for Place {", 0),
        ] {
            assert_eq!(shown(line), count, "{line}");
        }
    }
}
