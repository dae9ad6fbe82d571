//! An entry: what it stands for, and its attributes, within limits.

use crate::schema;
use documents::book::Instant;
use std::collections::BTreeMap;
use terms::Time;

/// The most bytes of a value.
pub const MAX_VALUE: usize = 1024;
/// The most values of an attribute.
pub const MAX_VALUES: usize = 256;

/// The year 2262, after which no instant is read: what has no end ends then.
const LAST: u64 = 9_214_646_400_000_000_000;

/// The meaning of an entry. Parents come before their children.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DirectoryKey {
    /// An agent.
    Agent(String),
    /// A resource of an agent.
    Resource(String, String),
    /// A domain.
    Domain(String),
    /// A way through a domain.
    Way(String, String),
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryEntry {
    /// Its meaning.
    pub key: DirectoryKey,
    attributes: BTreeMap<String, Vec<String>>,
}

impl DirectoryKey {
    /// The name of its class.
    pub fn class(&self) -> &'static str {
        match self {
            DirectoryKey::Agent(_) => "sluiceAgent",
            DirectoryKey::Resource(..) => "sluiceResource",
            DirectoryKey::Domain(_) => "sluiceDomain",
            DirectoryKey::Way(..) => "sluiceWay",
        }
    }

    /// Its distinguished name below `base`.
    pub fn dn(&self, base: &str) -> String {
        let one = |attribute: &str, name: &str| format!("{attribute}={}", ldap3::dn_escape(name));
        match self {
            DirectoryKey::Agent(agent) => format!("{},{base}", one("sluiceAgentName", agent)),
            DirectoryKey::Domain(domain) => format!("{},{base}", one("sluiceDomainName", domain)),
            DirectoryKey::Resource(_, resource) => {
                format!("{},{}", one("sluiceResourceName", resource), self.above(base))
            }
            DirectoryKey::Way(_, way) => format!("{},{}", one("sluiceWayName", way), self.above(base)),
        }
    }

    /// The distinguished name above.
    pub fn above(&self, base: &str) -> String {
        match self.parent() {
            Some(parent) => parent.dn(base),
            None => base.to_owned(),
        }
    }

    /// The key of the entry above, if that is one of ours.
    pub fn parent(&self) -> Option<DirectoryKey> {
        match self {
            DirectoryKey::Resource(agent, _) => Some(DirectoryKey::Agent(agent.clone())),
            DirectoryKey::Way(domain, _) => Some(DirectoryKey::Domain(domain.clone())),
            DirectoryKey::Agent(_) | DirectoryKey::Domain(_) => None,
        }
    }

    /// Its names, as attributes have them.
    fn names(&self) -> Vec<(&'static str, &str)> {
        match self {
            DirectoryKey::Agent(agent) => vec![("sluiceAgentName", agent)],
            DirectoryKey::Domain(domain) => vec![("sluiceDomainName", domain)],
            DirectoryKey::Resource(agent, name) => vec![("sluiceAgentName", agent), ("sluiceResourceName", name)],
            DirectoryKey::Way(domain, name) => vec![("sluiceDomainName", domain), ("sluiceWayName", name)],
        }
    }

    /// A name for people: `maui/net/eth1`.
    pub fn text(&self) -> String {
        let names: Vec<&str> = self.names().into_iter().map(|(_, name)| name).collect();
        names.join("/")
    }
}

impl DirectoryEntry {
    /// An entry with nothing but its names.
    pub fn new(key: DirectoryKey) -> DirectoryEntry {
        let mut entry = DirectoryEntry { key: key.clone(), attributes: BTreeMap::new() };
        for (attribute, name) in key.names() {
            entry.set(attribute, name);
        }
        entry
    }

    /// Sets an attribute to one value.
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.attributes.insert(name.to_owned(), vec![value.into()]);
    }

    /// Sets an attribute to these values; to none: it has none.
    pub fn set_all(&mut self, name: &'static str, values: Vec<String>) {
        if !values.is_empty() {
            self.attributes.insert(name.to_owned(), values);
        }
    }

    /// The attributes with their values.
    pub fn attributes(&self) -> &BTreeMap<String, Vec<String>> {
        &self.attributes
    }

    /// The first value of an attribute.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.attributes.get(name)?.first().map(String::as_str)
    }

    /// The end of its validity.
    pub fn valid_until(&self) -> Option<Instant> {
        read_instant(self.value("sluiceValidUntil")?)
    }

    /// Why it cannot be published.
    ///
    /// # Errors
    /// A sentence: a value is empty, too long, or has characters that no name has.
    pub fn check(&self) -> Result<(), String> {
        for (name, values) in &self.attributes {
            if values.len() > MAX_VALUES {
                return Err(format!("{name}: {} values, and {MAX_VALUES} are the most", values.len()));
            }
            for value in values {
                if value.is_empty() || value.len() > MAX_VALUE || value.chars().any(char::is_control) {
                    return Err(format!("{name}: 1 to {MAX_VALUE} bytes without control characters"));
                }
            }
        }
        Ok(())
    }

    /// The entry of these attributes, as a server gave them; `None`: it is none of ours, or a name is missing. What no
    /// schema of ours has, and what is no plain text, is left out.
    pub fn read(classes: &[String], given: Vec<(String, Vec<String>)>) -> Option<DirectoryEntry> {
        let mut attributes = BTreeMap::new();
        for (name, mut values) in given {
            let Some(row) = schema::attribute(&name) else { continue };
            values
                .retain(|value| !value.is_empty() && value.len() <= MAX_VALUE && !value.chars().any(char::is_control));
            values.truncate(if row.many { MAX_VALUES } else { 1 });
            if !values.is_empty() {
                attributes.insert(row.name.to_owned(), values);
            }
        }
        let one = |name: &str| attributes.get(name).and_then(|values| values.first()).cloned();
        let is = |class: &str| classes.iter().any(|one| one.eq_ignore_ascii_case(class));
        let key = if is("sluiceAgent") {
            DirectoryKey::Agent(one("sluiceAgentName")?)
        } else if is("sluiceResource") {
            DirectoryKey::Resource(one("sluiceAgentName")?, one("sluiceResourceName")?)
        } else if is("sluiceDomain") {
            DirectoryKey::Domain(one("sluiceDomainName")?)
        } else if is("sluiceWay") {
            DirectoryKey::Way(one("sluiceDomainName")?, one("sluiceWayName")?)
        } else {
            return None;
        };
        Some(DirectoryEntry { key, attributes })
    }
}

/// An instant as the directory has it (RFC 4517, section 3.3.13), without its fraction.
pub fn write_instant(at: Instant) -> String {
    let whole = at.0.as_nanos().min(LAST) / 1_000_000_000 * 1_000_000_000;
    Instant(Time::from_nanos(whole)).to_string().chars().filter(|one| !"-:T".contains(*one)).collect()
}

/// Reads what [`write_instant`] writes; minutes and seconds may be missing, and there may be a fraction.
pub fn read_instant(text: &str) -> Option<Instant> {
    let digits = text.strip_suffix('Z')?;
    let (digits, fraction) = digits.split_once(['.', ',']).map_or((digits, None), |(a, b)| (a, Some(b)));
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let full = match digits.len() {
        10 if fraction.is_none() => format!("{digits}0000"),
        12 if fraction.is_none() => format!("{digits}00"),
        14 => digits.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| &full[from..to];
    let (date, time) =
        ([part(0, 4), part(4, 6), part(6, 8)].join("-"), [part(8, 10), part(10, 12), part(12, 14)].join(":"));
    let fraction = fraction.map(|fraction| format!(".{fraction}")).unwrap_or_default();
    format!("{date}T{time}{fraction}Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_must_be_escaped_stay_one_name() {
        let base = "ou=sluice,dc=example";
        let key = DirectoryKey::Resource("maui".into(), "net/a,b+c".into());
        let dn = key.dn(base);
        assert!(dn.ends_with(",sluiceAgentName=maui,ou=sluice,dc=example") && !dn.contains("a,b"), "{dn}");
        assert_eq!(key.above(base), "sluiceAgentName=maui,ou=sluice,dc=example");
        assert_eq!(key.text(), "maui/net/a,b+c");
        assert!(DirectoryKey::Agent("z".into()) < DirectoryKey::Resource("a".into(), "cpu".into()));
        assert!(DirectoryKey::Domain("z".into()) < DirectoryKey::Way("a".into(), "x".into()));
    }

    #[test]
    fn instants_are_written_and_read() {
        let at: Instant = "2026-11-28T17:05:09.25Z".parse().unwrap();
        assert_eq!(write_instant(at), "20261128170509Z");
        assert_eq!(read_instant("20261128170509Z"), Some("2026-11-28T17:05:09Z".parse().unwrap()));
        assert_eq!(read_instant("20261128170509.25Z"), Some(at));
        assert_eq!(read_instant("202611281705Z"), Some("2026-11-28T17:05:00Z".parse().unwrap()));
        assert_eq!(read_instant("2026112817Z"), Some("2026-11-28T17:00:00Z".parse().unwrap()));
        for wrong in [
            "",
            "Z",
            "20261328170509Z",
            "20261128170509",
            "2026112817050\u{e4}Z",
            "-0261128170509Z",
            "20261128170509.Z",
        ] {
            assert_eq!(read_instant(wrong), None, "{wrong}");
        }
        assert!(read_instant(&write_instant(Instant(Time::FOREVER))).is_some());
    }

    #[test]
    fn what_is_too_much_or_no_text_is_not_published_and_not_read() {
        let mut entry = DirectoryEntry::new(DirectoryKey::Agent("maui".into()));
        assert!(entry.check().is_ok());
        for wrong in [String::new(), "x".repeat(MAX_VALUE + 1), "a\nb".to_owned(), "\u{1b}[2J".to_owned()] {
            entry.set("sluiceVersion", wrong);
            assert!(entry.check().is_err());
        }
        let given =
            |values: &[&str]| vec![("SLUICEAGENTNAME".to_owned(), values.iter().map(|v| (*v).to_owned()).collect())];
        let class = ["top".to_owned(), "sluiceagent".to_owned()];
        let read = DirectoryEntry::read(&class, given(&["\u{1b}[2J", "maui", "other"])).unwrap();
        assert_eq!(read.key, DirectoryKey::Agent("maui".into()));
        assert!(DirectoryEntry::read(&class, given(&["a\nb"])).is_none());
        assert!(DirectoryEntry::read(&["person".to_owned()], given(&["maui"])).is_none());
    }
}
