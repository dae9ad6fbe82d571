//! The virtual organisations of a policy file.

use super::MOST_NAMES;
use crate::document::{Document, Mistake, read};
use crate::fields::unit;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::Spanned;
use trust::token::{Organisation, TokenPublicKey};

/// The most organisations, and revoked blocks of one.
const MOST: usize = 64;
const MOST_REVOKED: usize = 100_000;
/// A block's number is an Ed25519 signature: 64 bytes, hexadecimal.
const NUMBER: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VoFile {
    name: Spanned<String>,
    key: Spanned<String>,
    domain: Option<Spanned<String>>,
    #[serde(default)]
    through: Vec<Spanned<String>>,
    revoked: Option<PathBuf>,
}

/// Reads the organisations, and the files of their revoked tokens.
pub(super) fn organisations(
    document: &Document<'_>,
    file: &Path,
    found: &[VoFile],
) -> Result<Vec<Organisation>, Mistake> {
    if found.len() > MOST {
        return Err(document.whole(format!("at most {MOST} organisations")));
    }
    let mut all: Vec<Organisation> = Vec::new();
    for entry in found {
        let next = organisation(document, file, entry)?;
        if all.iter().any(|known| known.name == next.name || known.key == next.key) {
            return Err(document.at(entry.name.span(), "two organisations have this name, or this key"));
        }
        all.push(next);
    }
    Ok(all)
}

fn organisation(document: &Document<'_>, file: &Path, entry: &VoFile) -> Result<Organisation, Mistake> {
    if entry.through.len() > MOST_NAMES {
        return Err(document.at(entry.name.span(), format!("at most {MOST_NAMES} domains")));
    }
    let plain = |text: &Spanned<String>| -> Result<String, Mistake> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        let name = text.get_ref();
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let wrong = format!("{name:?} is no name: 1 to 64 letters, digits and - _ . @");
            return Err(document.at(text.span(), wrong));
        }
        Ok(name.clone())
    };
    let key = |text: &str| TokenPublicKey::parse(text).map_err(|error| error.to_string());
    Ok(Organisation {
        name: plain(&entry.name)?,
        key: unit(document, &entry.key, key)?,
        domain: entry.domain.as_ref().map(plain).transpose()?,
        through: entry.through.iter().map(plain).collect::<Result<_, _>>()?,
        revoked: entry.revoked.as_ref().map_or_else(|| Ok(BTreeSet::new()), |list| revoked(file, list))?,
    })
}

/// The numbers in a file of revoked blocks; `#` begins a comment.
fn revoked(policy: &Path, list: &Path) -> Result<BTreeSet<String>, Mistake> {
    let path = policy.parent().unwrap_or(Path::new("")).join(list);
    let text = read(&path)?;
    let document = Document::new(&path, &text);
    let mut all = BTreeSet::new();
    for (n, line) in text.lines().enumerate() {
        let number = line.split('#').next().unwrap_or("").trim();
        if number.is_empty() {
            continue;
        }
        let is_number = number.len() == NUMBER && number.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_number || all.len() == MOST_REVOKED {
            let what = format!(
                "line {}: {NUMBER} hexadecimal digits, as `sluice token show` prints them; at most {MOST_REVOKED}",
                n + 1
            );
            return Err(document.whole(what));
        }
        all.insert(number.to_ascii_lowercase());
    }
    Ok(all)
}
