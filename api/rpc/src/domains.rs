//! Partners' domains in a configuration file, the same for agents (`[[listen.domain]]`) and brokers (`[[tls.domain]]`).
//!
//! ```toml
//! [[listen.domain]]                    # beside our own, which the `ca` of the listener makes; it is called `home`
//! name = "anl"                         # its people are anl/NAME in policies, lists and audits
//! ca = "trust/anl.pem"                 # its authority; from here if relative
//! revoked = "trust/anl-revoked.pem"    # its own list, read again whenever it changes; default: nothing is revoked
//! roles = ["requester"]                # what its certificates may be here; the default
//! ```

use crate::document::{Document, Mistake};
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;
use trust::{CertificateRole, Domain, HOME};

/// A partner's domain as the file has it.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct DomainFile {
    name: Spanned<String>,
    ca: PathBuf,
    revoked: Option<PathBuf>,
    roles: Option<Vec<Spanned<String>>>,
}

/// Reads all domains of a file.
///
/// # Errors
/// The first [`Mistake`] in them.
pub fn read(document: &Document<'_>, found: &[DomainFile]) -> Result<Vec<Domain>, Mistake> {
    let mut all: Vec<Domain> = Vec::new();
    for one in found {
        let name = one.name.get_ref();
        let at = |what: String| document.at(one.name.span(), what);
        if name == HOME || all.iter().any(|other| other.name == *name) {
            return Err(at(format!("{name:?}: a domain is there once, and our own is called {HOME:?}")));
        }
        if !is_name(name) {
            return Err(at(format!("{name:?} is no name of a domain: 1 to 64 letters, digits, - _ .")));
        }
        let from = |path: &PathBuf| document.file().parent().map_or_else(|| path.clone(), |dir| dir.join(path));
        let role = |text: &Spanned<String>| {
            let wrong = || format!("{:?} is no role: requester, operator, auditor, agent or broker", text.get_ref());
            CertificateRole::named(text.get_ref()).ok_or_else(|| document.at(text.span(), wrong()))
        };
        let roles = match &one.roles {
            None => vec![CertificateRole::Requester],
            Some(roles) => roles.iter().map(role).collect::<Result<_, _>>()?,
        };
        all.push(Domain { name: name.clone(), ca: from(&one.ca), revoked: one.revoked.as_ref().map(from), roles });
    }
    Ok(all)
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain) && !name.starts_with(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[derive(Deserialize)]
    struct File {
        domain: Vec<DomainFile>,
    }

    fn parse(text: &str) -> Result<Vec<Domain>, String> {
        let document = Document::new(Path::new("/etc/sluice/agent.toml"), text);
        let file: File = document.parse().map_err(|mistake| mistake.to_string())?;
        read(&document, &file.domain).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn what_is_not_said_is_the_least() {
        let all = parse("[[domain]]\nname = \"anl\"\nca = \"trust/anl.pem\"\n").unwrap();
        let anl = Domain {
            name: "anl".into(),
            ca: "/etc/sluice/trust/anl.pem".into(),
            revoked: None,
            roles: vec![CertificateRole::Requester],
        };
        assert_eq!(all, [anl]);
        let text = "[[domain]]\nname = \"anl\"\nca = \"/x\"\nrevoked = \"r\"\nroles = [\"requester\", \"broker\"]\n";
        let all = parse(text).unwrap();
        assert_eq!(all[0].roles, [CertificateRole::Requester, CertificateRole::Broker]);
        assert_eq!(all[0].revoked, Some("/etc/sluice/r".into()));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line, why) in [
            ("[[domain]]\nname = \"home\"\nca = \"x\"", 2, "our own is called"),
            ("[[domain]]\nname = \"a\"\nca = \"x\"\n[[domain]]\nname = \"a\"\nca = \"y\"", 5, "is there once"),
            ("[[domain]]\nname = \"a/b\"\nca = \"x\"", 2, "no name of a domain"),
            ("[[domain]]\nname = \"a\"\nca = \"x\"\nroles = [\"king\"]", 4, "is no role"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(&format!(":{line}:")) && said.contains(why), "{said}");
        }
    }
}
