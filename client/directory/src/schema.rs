//! Attributes and object classes (RFC 4512): one table, from which the schema files of `dist/ldap` are made.
//!
//! The object identifiers are below 2.25, the arc of UUIDs (ITU-T X.667), where no registration is needed:
//! 8f0c1d52-6a5e-4c1b-9a0e-3b1f5d7c2e64, as one number. Below it, 1 has the attributes and 2 the classes.

use std::fmt::Write;

/// The arc of all identifiers.
pub const ARC: &str = "2.25.190142505679052629302026768364787740260";

/// The sort of an attribute's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeSyntax {
    /// Text, in which capitals matter.
    Text,
    /// A whole number.
    Number,
    /// An instant in UTC: `20261128170000Z`.
    Instant,
}

/// An attribute.
#[derive(Clone, Copy, Debug)]
pub struct SchemaAttribute {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub syntax: AttributeSyntax,
    /// True if an entry may have several.
    pub many: bool,
    /// The meaning of its values.
    pub text: &'static str,
}

/// An object class; all are structural.
#[derive(Clone, Copy, Debug)]
pub struct SchemaClass {
    /// Its name.
    pub name: &'static str,
    /// Attributes that each entry has.
    pub must: &'static [&'static str],
    /// Attributes that it may have.
    pub may: &'static [&'static str],
    /// The meaning of an entry.
    pub text: &'static str,
}

use AttributeSyntax::{Instant, Number, Text};

const fn one(name: &'static str, syntax: AttributeSyntax, text: &'static str) -> SchemaAttribute {
    SchemaAttribute { name, syntax, many: false, text }
}

const fn many(name: &'static str, text: &'static str) -> SchemaAttribute {
    SchemaAttribute { name, syntax: Text, many: true, text }
}

/// The attributes. A new one goes to the end, because its place is its number.
pub const ATTRIBUTES: &[SchemaAttribute] = &[
    one("sluiceAgentName", Text, "Name of the agent that keeps the resource"),
    one("sluiceResourceName", Text, "Name of the resource at its agent: net/eth1, cpu"),
    one("sluiceDomainName", Text, "Name of the domain"),
    one("sluiceWayName", Text, "Name of the way through the domain: its two ends"),
    one("sluicePublisher", Text, "Who wrote the entry, and removes it"),
    one("sluiceValidUntil", Instant, "From then on the entry is not to be believed"),
    one("sluiceUpdated", Instant, "When the figures were read"),
    one("sluiceState", Text, "up, or away: the agent did not answer"),
    one("sluiceVersion", Text, "Version of the agent"),
    one("sluiceUnit", Text, "Unit of the amounts: bit/s, bytes/s, millicores, pieces"),
    one("sluiceGuarantee", Text, "Strength of the guarantee"),
    one("sluiceCapacity", Number, "The most that can be booked at all; rounded down"),
    one("sluiceFree", Number, "What could be booked when the figures were read; rounded down"),
    one("sluiceNextChange", Instant, "When another amount is free, as it is booked now"),
    one("sluiceNextFree", Number, "What is free from then on; rounded down"),
    one("sluiceFromNeighbour", Text, "Domain from which packets come in; absent: from our own hosts"),
    one("sluiceFromLink", Text, "Network of the border link by which they come in"),
    one("sluiceToNeighbour", Text, "Domain to which packets go on; absent: to our own hosts"),
    one("sluiceToLink", Text, "Network of the border link by which they leave"),
    one("sluiceCost", Number, "Cost of the way"),
    many("sluiceNetwork", "A network of the domain's hosts"),
    many("sluiceContact", "Where to reserve: https://HOST:PORT of the broker, tls://HOST:PORT of the agent"),
];

const COMMON: &[&str] = &["sluicePublisher", "sluiceValidUntil", "sluiceUpdated"];

/// The classes.
pub const CLASSES: &[SchemaClass] = &[
    SchemaClass {
        name: "sluiceAgent",
        must: &["sluiceAgentName", "sluiceState"],
        may: &["sluiceVersion", "sluiceContact"],
        text: "An agent, which keeps the resources of one machine",
    },
    SchemaClass {
        name: "sluiceResource",
        must: &["sluiceAgentName", "sluiceResourceName", "sluiceUnit", "sluiceCapacity", "sluiceFree"],
        may: &["sluiceGuarantee", "sluiceNextChange", "sluiceNextFree"],
        text: "A resource that can be reserved",
    },
    SchemaClass {
        name: "sluiceDomain",
        must: &["sluiceDomainName"],
        may: &["sluiceNetwork", "sluiceContact"],
        text: "A domain, as it publishes itself",
    },
    SchemaClass {
        name: "sluiceWay",
        must: &["sluiceDomainName", "sluiceWayName", "sluiceUnit", "sluiceCapacity", "sluiceFree"],
        may: &[
            "sluiceFromNeighbour",
            "sluiceFromLink",
            "sluiceToNeighbour",
            "sluiceToLink",
            "sluiceCost",
            "sluiceNextChange",
            "sluiceNextFree",
        ],
        text: "A way through a domain, between border links",
    },
];

/// The name of a class, as definitions and entries write it.
pub fn attribute(name: &str) -> Option<&'static SchemaAttribute> {
    ATTRIBUTES.iter().find(|row| row.name.eq_ignore_ascii_case(name))
}

impl SchemaAttribute {
    /// Its definition behind the identifier.
    fn definition(&self, number: usize) -> String {
        let rules = match self.syntax {
            Text => {
                "EQUALITY caseExactMatch SUBSTR caseExactSubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15{1024}"
            }
            Number => "EQUALITY integerMatch ORDERING integerOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27",
            Instant => {
                "EQUALITY generalizedTimeMatch ORDERING generalizedTimeOrderingMatch \
                 SYNTAX 1.3.6.1.4.1.1466.115.121.1.24"
            }
        };
        let single = if self.many { "" } else { " SINGLE-VALUE" };
        format!("( {ARC}.1.{number} NAME '{}' DESC '{}' {rules}{single} )", self.name, quoted(self.text))
    }
}

impl SchemaClass {
    fn definition(&self, number: usize) -> String {
        let must: Vec<&str> = self.must.iter().chain(COMMON).copied().collect();
        let (name, text) = (self.name, quoted(self.text));
        let (must, may) = (must.join(" $ "), self.may.join(" $ "));
        format!("( {ARC}.2.{number} NAME '{name}' DESC '{text}' SUP top STRUCTURAL MUST ( {must} ) MAY ( {may} ) )")
    }
}

/// A string between quotes (RFC 4512, section 1.4, `qdstring`).
fn quoted(text: &str) -> String {
    text.replace('\\', "\\5c").replace('\'', "\\27")
}

fn definitions() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let attributes = ATTRIBUTES
        .iter()
        .enumerate()
        .map(|(number, row)| ("attributetype", "olcAttributeTypes", row.definition(number + 1)));
    let classes =
        CLASSES.iter().enumerate().map(|(number, row)| ("objectclass", "olcObjectClasses", row.definition(number + 1)));
    attributes.chain(classes)
}

/// The file for `include` in a `slapd.conf`.
pub fn schema_file() -> String {
    let mut text = head("include /usr/share/sluice/ldap/sluice.schema");
    for (word, _, definition) in definitions() {
        let _ = write!(text, "\n{word} {definition}\n");
    }
    text
}

/// The file for a server that keeps its configuration in `cn=config`.
pub fn schema_ldif() -> String {
    let mut text = head("ldapadd -Y EXTERNAL -H ldapi:/// -f /usr/share/sluice/ldap/sluice.ldif");
    text += "dn: cn=sluice,cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: sluice\n";
    for (_, word, definition) in definitions() {
        text += &crate::ldif::line(word, &definition);
    }
    text
}

fn head(how: &str) -> String {
    format!(
        "# Schema of what `sluice directory` publishes; see docs/directory.md.\n# {how}\n# Object identifiers: below {ARC},\n\
         # the UUID 8f0c1d52-6a5e-4c1b-9a0e-3b1f5d7c2e64 in the arc 2.25 of ITU-T X.667.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The files are made of this table: `SLUICE_UPDATE=1` writes them.
    #[test]
    fn the_files_are_what_is_said_here() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/ldap");
        for (name, text) in [("sluice.schema", schema_file()), ("sluice.ldif", schema_ldif())] {
            let path = dir.join(name);
            if std::env::var_os("SLUICE_UPDATE").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{name}: run again with SLUICE_UPDATE=1");
        }
    }

    #[test]
    fn every_name_is_there_once_and_every_class_has_names_that_are_there() {
        let mut names: Vec<&str> = ATTRIBUTES.iter().map(|row| row.name).collect();
        names.extend(CLASSES.iter().map(|row| row.name));
        let all = names.len();
        names.sort_by_key(|name| name.to_ascii_lowercase());
        names.dedup_by_key(|name| name.to_ascii_lowercase());
        assert_eq!(names.len(), all);
        for name in CLASSES.iter().flat_map(|class| class.must.iter().chain(class.may).chain(COMMON)) {
            assert!(attribute(name).is_some(), "{name}");
        }
        assert_eq!(quoted("a'b\\"), "a\\27b\\5c");
    }
}
