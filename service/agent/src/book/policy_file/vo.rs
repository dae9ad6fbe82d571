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

#[cfg(test)]
mod tests {
    use super::super::{load_of_domain, parse};
    use std::path::Path;

    const KEY: &str = "ed25519/7bf02f9d0328699d5185c37f82e4b5bd0351ec3757ca67db02a7655f035b0361";

    #[test]
    fn organisations_and_mistakes() {
        let dir = std::env::temp_dir().join(format!("sluice-vo-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("policy.toml");
        let of = |text: &str| parse(&file, text).map(|found| found.organisations).map_err(|bad| bad.to_string());
        let number = "0A".repeat(64);
        std::fs::write(dir.join("list"), format!("# lost\n\n{number} # alice's\n")).unwrap();
        std::fs::write(dir.join("short"), "0a0b\n").unwrap();
        let vo = |name: &str, more: &str| format!("[[vo]]\nname = {name:?}\nkey = {KEY:?}\n{more}\n");
        let good = of(&vo("atlas", "domain = \"anl\"\nthrough = [\"esnet\"]\nrevoked = \"list\"")).unwrap();
        assert_eq!((good[0].domain.as_deref(), &good[0].through[..]), (Some("anl"), &["esnet".to_owned()][..]));
        assert!(good[0].revoked.contains(&number.to_lowercase()) && good[0].key.to_string() == KEY);
        for (text, why) in [
            (vo("at las", ""), ":2: \"at las\" is no name"),
            (vo("atlas", "through = [\"a/b\"]"), ":4: \"a/b\" is no name"),
            (vo("atlas", "revoked = \"short\""), "line 1: 128 hexadecimal digits"),
            (vo("atlas", "revoked = \"none\""), "none"),
            (vo("a", "") + &vo("b", ""), "two organisations have this name, or this key"),
            ("[[vo]]\nname = \"a\"\nkey = \"ed25519/12\"\n".to_owned(), ":3: no public key"),
            ("[[rule]]\nname = \"r\"\nvo = [\"\"]\n".to_owned(), ":3: \"\" names nothing"),
            (
                "[[rule]]\nname = \"r\"\nvo = [\"a\"]\nsignal = true\n".to_owned(),
                ":2: what is signalled carries no token",
            ),
        ] {
            let said = of(&text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
        // A domain's file has rules and nothing else.
        let domain = |text: &str| {
            std::fs::write(&file, text).unwrap();
            load_of_domain(Path::new(&file)).map_err(|bad| bad.to_string())
        };
        assert!(domain(&vo("atlas", "")).unwrap_err().contains("each agent's own"));
        assert!(domain("brokers = [\"main\"]\n").unwrap_err().contains("each agent's own"));
        assert!(domain("[[rule]]\nname = \"r\"\nvo = [\"atlas\"]\n").is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
