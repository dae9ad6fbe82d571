//! Messages between the agent and its front: one JSON document in each, at most
//! [`linux::channel::MAX_MESSAGE`] bytes, the first one with a version. Unknown fields are refused.
//!
//! The agent does not trust them blindly, because an attacker may control the front. It checks a name against
//! the rules for names and the dates of a certificate against its own clock, and cuts texts short.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use terms::Time;
use trust::{CertificateRole, Domain, Files, Identity};

/// The version of the messages; both sides are the same program while it is equal.
pub(super) const VERSION: u32 = 1;
/// The most characters of the front's text that are repeated.
const MAX_TEXT: usize = 300;

/// Messages from the agent to the front.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Order {
    /// The first order: the user and group to become, and the files that will be handed over.
    Begin { version: u32, uid: u32, gid: u32, files: Files },
    /// The message carries a listening socket.
    Listener {},
    /// The message carries the open file; otherwise `missing` says why it cannot be opened.
    File { path: PathBuf, missing: Option<String> },
    /// All files have been handed over and are in force from now on.
    Open {},
    /// The message carries the socket for this caller's calls.
    Seat { session: u64 },
    /// The caller gets no seat; `why` is the reason.
    NoSeat { session: u64, why: String },
    /// End all connections in good order, and exit.
    Close {},
}

/// Messages from the front to the agent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(tag = "word", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Word {
    /// The front has given its rights up, and serves; `restricted`: system calls are restricted too.
    Ready { restricted: bool },
    /// A caller with a good certificate asks for a seat.
    Enter { session: u64, from: IpAddr, who: Shown },
    /// A caller was refused, or its connection was ended.
    Refused { from: IpAddr, why: String },
    /// A file that was handed over is bad; the one before stays in force.
    Complaint { text: String },
}

/// The contents of a certificate.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Shown {
    domain: Option<String>,
    role: String,
    name: String,
    groups: Vec<String>,
    serial: Vec<u8>,
    not_before_ns: u64,
    not_after_ns: u64,
}

impl From<&Identity> for Shown {
    fn from(identity: &Identity) -> Shown {
        Shown {
            domain: identity.domain.clone(),
            role: identity.role.name().to_owned(),
            name: identity.name.clone(),
            groups: identity.groups.clone(),
            serial: identity.serial.clone(),
            not_before_ns: identity.not_before.as_nanos(),
            not_after_ns: identity.not_after.as_nanos(),
        }
    }
}

impl Shown {
    /// The identity, if such a certificate can be valid now: of our own domain, or of a partner's that may
    /// have this role.
    pub(super) fn identity(self, now: Time, partners: &[Domain]) -> Option<Identity> {
        let role = CertificateRole::named(&self.role)?;
        let of = |domain: &String| partners.iter().any(|one| one.name == *domain && one.roles.contains(&role));
        if !self.domain.iter().all(of) {
            return None;
        }
        let identity = Identity {
            domain: self.domain,
            role,
            name: self.name,
            groups: self.groups,
            serial: self.serial,
            not_before: Time::from_nanos(self.not_before_ns),
            not_after: Time::from_nanos(self.not_after_ns),
        };
        let identity = identity.checked().ok()?;
        (identity.not_before <= now && now < identity.not_after).then_some(identity)
    }
}

/// A text of the front, made safe for a log.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

/// Encodes a message.
pub(super) fn write(frame: &impl Serialize) -> Vec<u8> {
    // Our own frames have string keys and no maps: they can always be written.
    serde_json::to_vec(frame).unwrap_or_default()
}

/// Reads a message.
///
/// # Errors
/// The bytes are no message of ours: a sentence.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("a message that is none: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(role: &str, name: &str, serial: usize) -> Shown {
        let (role, name, serial) = (role.to_owned(), name.to_owned(), vec![1; serial]);
        Shown { domain: None, role, name, groups: Vec::new(), serial, not_before_ns: 10, not_after_ns: 20 }
    }

    #[test]
    fn what_could_not_stand_in_a_certificate_is_nobody() {
        let at = Time::from_nanos(15);
        let good = shown("operator", "root", 20).identity(at, &[]).expect("good");
        assert_eq!(Shown::from(&good), shown("operator", "root", 20));
        for (wrong, at) in [
            (shown("emperor", "root", 1), 15),
            (shown("operator", "uid:0", 1), 15),
            (shown("operator", "", 1), 15),
            (shown("operator", &"x".repeat(65), 1), 15),
            (shown("operator", "a\nb", 1), 15),
            (shown("operator", "root", 0), 15),
            (shown("operator", "root", 22), 15),
            (shown("operator", "root", 1), 9),
            (shown("operator", "root", 1), 20),
        ] {
            assert_eq!(wrong.clone().identity(Time::from_nanos(at), &[]), None, "{wrong:?} at {at}");
        }
    }

    #[test]
    fn a_partner_has_no_other_names_and_roles_than_we_gave_it() {
        let (name, ca) = ("anl".to_owned(), PathBuf::from("anl.pem"));
        let partners = [Domain { name, ca, revoked: None, roles: vec![CertificateRole::Requester] }];
        let from = |domain: &str, role: &str| Shown { domain: Some(domain.to_owned()), ..shown(role, "alice", 1) };
        let known = |shown: Shown| shown.identity(Time::from_nanos(15), &partners).map(|who| who.known_as());
        assert_eq!(known(from("anl", "requester")).as_deref(), Some("anl/alice"));
        for wrong in [from("anl", "operator"), from("cern", "requester"), from("", "requester")] {
            assert_eq!(known(wrong.clone()), None, "{wrong:?}");
        }
        let group = Shown { groups: vec!["a/b".to_owned()], ..shown("requester", "alice", 1) };
        assert_eq!(known(group), None);
    }

    #[test]
    fn frames_are_read_strictly() {
        let enter = Word::Enter { session: 7, from: [10, 0, 0, 1].into(), who: shown("broker", "main", 1) };
        assert_eq!(read::<Word>(&write(&enter)), Ok(enter));
        for wrong in [
            &b""[..],
            b"{}",
            br#"{"word":"ready"}"#,
            br#"{"word":"ready","restricted":true,"more":1}"#,
            br#"{"word":"ready","restricted":true} {"word":"ready","restricted":true}"#,
            br#"{"word":"stop"}"#,
            br#"{"word":"refused","from":"somewhere","why":""}"#,
            br#"{"word":"enter","session":-1,"from":"10.0.0.1","who":{}}"#,
            br#"{"order":"close"}"#,
            &[0xff; 100],
        ] {
            assert!(read::<Word>(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
        assert_eq!(plain("a\r\nb\u{1b}[2J"), "ab[2J");
        assert_eq!(plain(&"x".repeat(5000)).len(), MAX_TEXT);
    }
}
