//! A peer's name and role, as its certificate says them.
//!
//! The subject alternative name (RFC 5280 section 4.2.1.6) holds one URI of ours, `sluice://ROLE/NAME`. A certificate
//! without it, with two of them, or with a role that does not exist is nobody's, whoever signed it: the default is no.

use crate::error::Error;
use std::fmt;
use terms::Time;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The longest name, characters.
const MAX_NAME: usize = 64;
/// The longest serial number, bytes; one more where its first bit is set (RFC 5280 section 4.1.2.2).
const MAX_SERIAL: usize = 21;
/// How our URIs begin.
const SCHEME: &str = "sluice://";

/// What a peer may be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Reserves, and sees what is its own.
    Requester,
    /// Sees and changes everything, whoever owns it.
    Operator,
    /// Sees everything and changes nothing.
    Auditor,
    /// An agent: owns slots.
    Agent,
    /// A broker: finds paths and reserves over agents.
    Broker,
}

/// Every role.
const ROLES: [(Role, &str); 5] = [
    (Role::Requester, "requester"),
    (Role::Operator, "operator"),
    (Role::Auditor, "auditor"),
    (Role::Agent, "agent"),
    (Role::Broker, "broker"),
];

impl Role {
    /// As it stands in a certificate.
    pub fn name(self) -> &'static str {
        ROLES.iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }

    /// The role of that name.
    pub fn named(name: &str) -> Option<Role> {
        ROLES.iter().find(|(_, known)| *known == name).map(|(role, _)| *role)
    }

    /// Whether it listens for TLS connections, so that its certificate names hosts.
    pub fn serves(self) -> bool {
        matches!(self, Role::Agent | Role::Broker)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who a peer is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// What it may be.
    pub role: Role,
    /// Its name: letters, digits, `-`, `_`, `.` and `@` only, so that it can stand in a log and in a policy as it is.
    pub name: String,
    /// The certificate's serial number, big-endian.
    pub serial: Vec<u8>,
    /// From when it is good.
    pub not_before: Time,
    /// Until when it is good.
    pub not_after: Time,
}

impl Identity {
    /// Reads it out of a certificate, DER. Whether the certificate is to be trusted is another question.
    ///
    /// # Errors
    /// [`Error::Refused`]: it is no certificate, or it names nobody.
    pub fn of(der: &[u8]) -> Result<Identity, Error> {
        let refused = |what: &str| Error::Refused(format!("this certificate names nobody: {what}"));
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| refused("it cannot be read"))?;
        let names = certificate.subject_alternative_name().map_err(|_| refused("its alternative name is malformed"))?;
        let mut ours = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::URI(uri) => uri.strip_prefix(SCHEME),
            _ => None,
        });
        let (Some(name), None) = (ours.next(), ours.next()) else {
            return Err(refused("it must have exactly one alternative name of the form sluice://ROLE/NAME"));
        };
        let (role, name) = name.split_once('/').ok_or_else(|| refused("after sluice:// comes ROLE/NAME"))?;
        let role = Role::named(role).ok_or_else(|| refused("its role is none of ours"))?;
        check_name(name)?;
        let at = |seconds: i64| Time::from_nanos(u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000));
        let validity = certificate.validity();
        Ok(Identity {
            role,
            name: name.to_owned(),
            serial: certificate.raw_serial().to_vec(),
            not_before: at(validity.not_before.timestamp()),
            not_after: at(validity.not_after.timestamp()),
        })
    }

    /// One that another process read out of a certificate: what it says is looked at again, whether it could stand in one.
    ///
    /// # Errors
    /// [`Error::Misuse`]: it could not.
    pub fn checked(self) -> Result<Identity, Error> {
        check_name(&self.name)?;
        if self.serial.is_empty() || self.serial.len() > MAX_SERIAL {
            return Err(Error::Misuse("a serial number has 1 to 20 bytes (RFC 5280 section 4.1.2.2)".to_owned()));
        }
        Ok(self)
    }

    /// The URI that says so in a certificate.
    pub fn uri(role: Role, name: &str) -> String {
        format!("{SCHEME}{role}/{name}")
    }

    /// The serial number as tools print it.
    pub fn serial_text(&self) -> String {
        self.serial.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.role, self.name)
    }
}

/// A name that can stand in a file name, a log, a policy and a URI as it is.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) || name.starts_with(['-', '.']) {
        let what = format!("{name:?} is no name: 1 to {MAX_NAME} letters, digits, - _ . @, not beginning with - or .");
        return Err(Error::Misuse(what));
    }
    Ok(())
}
