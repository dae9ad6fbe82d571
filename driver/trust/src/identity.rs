//! A peer's domain, role and name, and its groups.
//!
//! The subject alternative name (RFC 5280 section 4.2.1.6) holds one URI of ours, `sluice://ROLE/NAME`, and
//! one `sluice://group/NAME` for each group that the authority vouches for. A certificate is refused if it
//! has no first URI, two of them, or an unknown role, even if a trusted authority signed it. The domain is
//! not in the certificate: it follows from the authority that signed, which [`crate::TrustGate`] knows.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use terms::Time;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The longest name, characters.
const MAX_NAME: usize = 64;
/// The longest serial number, bytes: 20, and one more if its first bit is set (RFC 5280 section 4.1.2.2).
const MAX_SERIAL: usize = 21;
/// The scheme of our URIs.
const SCHEME: &str = "sluice://";
/// The prefix of a group's name in a URI of ours.
const GROUP: &str = "group/";
/// The most groups in one certificate.
pub(crate) const MAX_GROUPS: usize = 32;

/// The roles that a peer may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum CertificateRole {
    /// A requester: reserves, and sees its own reservations.
    Requester,
    /// An operator: sees and changes the reservations of all owners.
    Operator,
    /// An auditor: sees everything and changes nothing.
    Auditor,
    /// An agent: owns slots.
    Agent,
    /// A broker: finds paths and reserves over agents.
    Broker,
}

/// Every role.
const ROLES: [(CertificateRole, &str); 5] = [
    (CertificateRole::Requester, "requester"),
    (CertificateRole::Operator, "operator"),
    (CertificateRole::Auditor, "auditor"),
    (CertificateRole::Agent, "agent"),
    (CertificateRole::Broker, "broker"),
];

impl CertificateRole {
    /// The role's name in a certificate.
    pub fn name(self) -> &'static str {
        ROLES.iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }

    /// The role with this name.
    pub fn named(name: &str) -> Option<CertificateRole> {
        ROLES.iter().find(|(_, known)| *known == name).map(|(role, _)| *role)
    }

    /// True if this role listens for TLS connections; its certificate then names hosts.
    pub fn serves(self) -> bool {
        matches!(self, CertificateRole::Agent | CertificateRole::Broker)
    }
}

impl fmt::Display for CertificateRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The identity of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The domain of the partner whose authority signed; `None`: our own.
    pub domain: Option<String>,
    /// The peer's role.
    pub role: CertificateRole,
    /// Its name: letters, digits, `-`, `_`, `.` and `@` only, so that logs and policies can contain it unquoted.
    pub name: String,
    /// The groups that the authority vouches for; each has the form of a name.
    pub groups: Vec<String>,
    /// The certificate's serial number, big-endian.
    pub serial: Vec<u8>,
    /// The first moment at which the certificate is valid.
    pub not_before: Time,
    /// The moment at which the certificate expires.
    pub not_after: Time,
}

impl Identity {
    /// Reads an identity from a DER certificate, as of our own domain. It checks neither signature nor
    /// domain: [`crate::TrustGate::client`] does.
    ///
    /// # Errors
    /// [`Error::Refused`]: it is no certificate, or its alternative name is not one of ours.
    pub fn of(der: &[u8]) -> Result<Identity, Error> {
        let refused = |what: &str| Error::Refused(format!("this certificate names nobody: {what}"));
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| refused("it cannot be read"))?;
        let names = certificate.subject_alternative_name().map_err(|_| refused("its alternative name is malformed"))?;
        let ours = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::URI(uri) => uri.strip_prefix(SCHEME),
            _ => None,
        });
        let (groups, names): (Vec<&str>, Vec<&str>) = ours.partition(|uri| uri.starts_with(GROUP));
        let [name] = names[..] else {
            return Err(refused("it must have exactly one alternative name of the form sluice://ROLE/NAME"));
        };
        let (role, name) = name.split_once('/').ok_or_else(|| refused("after sluice:// comes ROLE/NAME"))?;
        let role = CertificateRole::named(role).ok_or_else(|| refused("its role is none of ours"))?;
        check_name(name)?;
        let groups: Vec<String> = groups.into_iter().map(|group| group[GROUP.len()..].to_owned()).collect();
        check_groups(&groups)?;
        let at = |seconds: i64| Time::from_nanos(u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000));
        let validity = certificate.validity();
        Ok(Identity {
            domain: None,
            role,
            name: name.to_owned(),
            groups,
            serial: certificate.raw_serial().to_vec(),
            not_before: at(validity.not_before.timestamp()),
            not_after: at(validity.not_after.timestamp()),
        })
    }

    /// The name in policies, owners and audits: `alice` of our own domain, `anl/alice` of a partner's. No
    /// name or group in a certificate has a slash, so the two forms never collide.
    pub fn known_as(&self) -> String {
        self.qualified(&self.name)
    }

    /// The groups in the same form.
    pub fn groups(&self) -> Vec<String> {
        self.groups.iter().map(|group| self.qualified(group)).collect()
    }

    /// The name of a caller for whom this broker speaks. A name from the kernel of the broker's machine
    /// (`uid:0`) is valid on that machine only and is put behind the broker's name. A broker of our own
    /// domain may use the names of all certificates that we know, and those that partners' brokers vouch for; a
    /// partner's broker those of its own domain only.
    pub fn vouches_for(&self, name: &str) -> String {
        let plain = |name: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
            !name.is_empty() && name.chars().all(allowed)
        };
        let local = |name: &str| name.split(':').all(plain);
        match (&self.domain, name.split_once('/')) {
            (None, None) if plain(name) => name.to_owned(),
            (None, Some((domain, rest))) if plain(domain) && plain(rest) => name.to_owned(),
            // People of other domains, by the word of a partner's broker (`esnet/anl/alice`).
            (None, Some((domain, rest))) if plain(domain) && rest.contains('/') && rest.split('/').all(local) => {
                name.to_owned()
            }
            (Some(_), None) if plain(name) => self.qualified(name),
            _ => format!("{}/{name}", self.known_as()),
        }
    }

    fn qualified(&self, name: &str) -> String {
        self.domain.as_ref().map_or_else(|| name.to_owned(), |domain| format!("{domain}/{name}"))
    }

    /// The URI that puts the holder of a certificate into this group.
    pub fn group_uri(group: &str) -> String {
        format!("{SCHEME}{GROUP}{group}")
    }

    /// Checks again an identity that another process read from a certificate.
    ///
    /// # Errors
    /// [`Error::Misuse`]: no certificate could carry it.
    pub fn checked(self) -> Result<Identity, Error> {
        check_name(&self.name)?;
        check_groups(&self.groups)?;
        self.domain.iter().try_for_each(|domain| check_name(domain))?;
        if self.serial.is_empty() || self.serial.len() > MAX_SERIAL {
            return Err(Error::Misuse("a serial number has 1 to 20 bytes (RFC 5280 section 4.1.2.2)".to_owned()));
        }
        Ok(self)
    }

    /// The URI for this role and name in a certificate.
    pub fn uri(role: CertificateRole, name: &str) -> String {
        format!("{SCHEME}{role}/{name}")
    }

    /// The serial number in hexadecimal.
    pub fn serial_text(&self) -> String {
        self.serial.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.domain.iter().try_for_each(|domain| write!(f, "{domain}/"))?;
        write!(f, "{}/{}", self.role, self.name)
    }
}

/// Checks that a name is safe as it is in a file name, a log, a policy and a URI.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) || name.starts_with(['-', '.']) {
        let what = format!("{name:?} is no name: 1 to {MAX_NAME} letters, digits, - _ . @, not beginning with - or .");
        return Err(Error::Misuse(what));
    }
    Ok(())
}

/// Checks that a certificate can carry these groups.
pub(crate) fn check_groups(groups: &[String]) -> Result<(), Error> {
    if groups.len() > MAX_GROUPS {
        return Err(Error::Misuse(format!("a certificate has at most {MAX_GROUPS} groups")));
    }
    groups.iter().try_for_each(|group| check_name(group))
}
