//! The authority of one site: a key, a certificate, the certificates that it issued and revoked, in one
//! folder.
//!
//! ```text
//! ca.pem  ca.key  revoked.pem          the authority, and the list of what is good no more (RFC 5280 section 5)
//! requester-alice.pem  requester-alice.key
//! ```
//! Making an authority again adds the files that are missing and leaves the others alone.

use crate::error::Error;
use crate::gate::revoked_serials;
use crate::identity::{CertificateRole, Identity, check_groups, check_name};
use crate::pem;
use crate::source::DiskSource;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason, RevokedCertParams, SanType, SerialNumber,
};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use terms::{Span, Time};
use time::OffsetDateTime;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

/// Validity of the authority's own certificate.
const CA_LIFE: Span = Span::from_secs(3650 * 86_400);
/// Validity of a revocation list; each change makes a new one.
const LIST_LIFE: Span = Span::from_secs(3650 * 86_400);
/// The clock difference between machines that a new certificate tolerates.
const SLACK: Span = Span::from_secs(300);
/// The most host names in a certificate.
const MAX_HOSTS: usize = 64;

/// An authority that can issue and revoke.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("dir", &self.dir).finish()
    }
}

/// A request for a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateRequest {
    /// The holder's role.
    pub role: CertificateRole,
    /// The holder's name.
    pub name: String,
    /// DNS names and addresses of the holder; needed by brokers and agents, ignored for others.
    pub hosts: Vec<String>,
    /// The groups that the holder is in.
    pub groups: Vec<String>,
    /// Validity from now on.
    pub life: Span,
}

/// A certificate that was issued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issued {
    /// Its file.
    pub certificate: PathBuf,
    /// Its key's file, mode 0600.
    pub key: PathBuf,
}

/// A certificate in the folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IssuedCertificate {
    /// The identity in the certificate.
    pub identity: Identity,
    /// Its file.
    pub certificate: PathBuf,
    /// True if it is revoked.
    pub revoked: bool,
}

impl Authority {
    /// Opens the authority in `dir`, or makes a new one there (folder 0700, `ca.key` 0600, an empty `revoked.pem`).
    ///
    /// # Errors
    /// A file cannot be read or written, or only half of an authority is there.
    pub fn open_or_make(dir: &Path, name: &str, now: Time) -> Result<(Authority, bool), Error> {
        let (ca, key) = (dir.join("ca.pem"), dir.join("ca.key"));
        match (ca.exists(), key.exists()) {
            (true, true) => Ok((Authority::open(dir)?, false)),
            (false, false) => Ok((Authority::make(dir, name, now)?, true)),
            (true, false) => {
                Err(Error::content(&key, "missing: only the machine that holds it can issue certificates"))
            }
            (false, true) => {
                Err(Error::content(&ca, "missing, but there is a ca.key: restore it, or take another folder"))
            }
        }
    }

    /// Opens the authority in `dir`.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(dir: &Path) -> Result<Authority, Error> {
        let (ca, key) = (dir.join("ca.pem"), dir.join("ca.key"));
        let text = |path: &Path| {
            String::from_utf8(pem::read(&DiskSource, path)?)
                .map_err(|_| Error::content(path, "is no text; PEM is expected"))
        };
        let pair = KeyPair::from_pem(&text(&key)?).map_err(|error| Error::content(&key, error))?;
        let issuer = Issuer::from_ca_cert_pem(&text(&ca)?, pair).map_err(|error| Error::content(&ca, error))?;
        Ok(Authority { dir: dir.to_owned(), issuer })
    }

    fn make(dir: &Path, name: &str, now: Time) -> Result<Authority, Error> {
        check_name(name)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::file(dir))?;
        let pair = KeyPair::generate().map_err(wrong)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, format!("Sluice authority {name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = (date(now.saturating_sub(SLACK))?, date(now.saturating_add(CA_LIFE))?);
        let certificate = params.self_signed(&pair).map_err(wrong)?;
        pem::write(&dir.join("ca.key"), 0o600, &pair.serialize_pem())?;
        pem::write(&dir.join("ca.pem"), 0o644, &certificate.pem())?;
        let authority = Authority { dir: dir.to_owned(), issuer: Issuer::new(params, pair) };
        authority.write_list(&[], 1, now)?;
        Ok(authority)
    }

    /// The path of the list of revoked certificates.
    pub fn revoked_file(&self) -> PathBuf {
        self.dir.join("revoked.pem")
    }

    /// The paths of the certificate and the key of this role and name.
    pub fn files_of(&self, role: CertificateRole, name: &str) -> Issued {
        let file = |end: &str| self.dir.join(format!("{role}-{name}.{end}"));
        Issued { certificate: file("pem"), key: file("key") }
    }

    /// Issues a certificate and its key.
    ///
    /// # Errors
    /// [`Error::Misuse`]: a name or a host is malformed, or the certificate exists already; a file cannot be
    /// written.
    pub fn issue(&self, request: &CertificateRequest, now: Time) -> Result<Issued, Error> {
        check_name(&request.name)?;
        check_groups(&request.groups)?;
        let files = self.files_of(request.role, &request.name);
        if files.certificate.exists() || files.key.exists() {
            let what = format!("{} is already there: revoke it, and move it away", files.certificate.display());
            return Err(Error::Misuse(what));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, request.name.clone());
        params.subject_alt_names = alternative_names(request)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match request.role.serves() {
            true => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            false => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) =
            (date(now.saturating_sub(SLACK))?, date(now.saturating_add(request.life))?);
        let pair = KeyPair::generate().map_err(wrong)?;
        let certificate = params.signed_by(&pair, &self.issuer).map_err(wrong)?;
        pem::write(&files.key, 0o600, &pair.serialize_pem())?;
        pem::write(&files.certificate, 0o644, &certificate.pem())?;
        Ok(files)
    }

    /// Revokes a certificate; brokers that read the list refuse it from their next look on. `false`: it was
    /// revoked before.
    ///
    /// # Errors
    /// There is no such certificate in the folder, or a file cannot be written.
    pub fn revoke(&self, role: CertificateRole, name: &str, now: Time) -> Result<bool, Error> {
        check_name(name)?;
        let file = self.files_of(role, name).certificate;
        let identity = read_identity(&file)?;
        let (mut serials, number) = self.read_list()?;
        if serials.contains(&identity.serial) {
            return Ok(false);
        }
        serials.push(identity.serial);
        self.write_list(&serials, number + 1, now)?;
        Ok(true)
    }

    /// Every certificate in the folder, by file name.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self) -> Result<Vec<IssuedCertificate>, Error> {
        let (serials, _) = self.read_list()?;
        let entries = fs::read_dir(&self.dir).map_err(Error::file(&self.dir))?;
        let mut found: Vec<IssuedCertificate> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "pem"))
            .filter_map(|certificate| {
                let identity = read_identity(&certificate).ok()?;
                let revoked = serials.contains(&identity.serial);
                Some(IssuedCertificate { identity, certificate, revoked })
            })
            .collect();
        found.sort_by(|a, b| a.certificate.cmp(&b.certificate));
        Ok(found)
    }

    /// The serial numbers of revoked certificates, and the number of the list.
    fn read_list(&self) -> Result<(Vec<Vec<u8>>, u64), Error> {
        let path = self.revoked_file();
        let mut serials = Vec::new();
        let mut last = 0;
        for list in pem::revoked(&DiskSource, &path)? {
            serials.extend(revoked_serials(&list).map_err(|what| Error::content(&path, what))?);
            let (_, list) =
                CertificateRevocationList::from_der(&list).map_err(|_| Error::content(&path, "is malformed"))?;
            let number = list.crl_number().map_or(0, |number| number.iter_u64_digits().next().unwrap_or(0));
            last = last.max(number);
        }
        Ok((serials, last))
    }

    fn write_list(&self, serials: &[Vec<u8>], number: u64, now: Time) -> Result<(), Error> {
        let taken_back = |serial: &Vec<u8>| -> Result<RevokedCertParams, Error> {
            Ok(RevokedCertParams {
                serial_number: SerialNumber::from_slice(serial),
                revocation_time: date(now)?,
                reason_code: Some(RevocationReason::Unspecified),
                invalidity_date: None,
            })
        };
        let list = CertificateRevocationListParams {
            this_update: date(now.saturating_sub(SLACK))?,
            next_update: date(now.saturating_add(LIST_LIFE))?,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(taken_back).collect::<Result<_, _>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(wrong)?;
        pem::write(&self.revoked_file(), 0o644, &list)
    }
}

/// The alternative names: our URI, those of the groups, and the hosts if the role serves.
fn alternative_names(request: &CertificateRequest) -> Result<Vec<SanType>, Error> {
    let text = |text: &str| {
        Ia5String::try_from(text.to_owned()).map_err(|_| Error::Misuse(format!("{text:?} is no host name")))
    };
    let mut names = vec![SanType::URI(text(&Identity::uri(request.role, &request.name))?)];
    for group in &request.groups {
        names.push(SanType::URI(text(&Identity::group_uri(group))?));
    }
    if !request.role.serves() {
        return Ok(names);
    }
    if request.hosts.is_empty() || request.hosts.len() > MAX_HOSTS {
        let what = format!("{} {} needs 1 to {MAX_HOSTS} host names or addresses", request.role, request.name);
        return Err(Error::Misuse(what));
    }
    for host in &request.hosts {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        names.push(match host.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) if !host.is_empty() && host.len() <= 253 && host.chars().all(plain) => SanType::DnsName(text(host)?),
            Err(_) => return Err(Error::Misuse(format!("{host:?} is neither a host name nor an address"))),
        });
    }
    Ok(names)
}

fn read_identity(file: &Path) -> Result<Identity, Error> {
    let chain = pem::certificates(&DiskSource, file)?;
    Identity::of(&chain[0])
}

fn date(at: Time) -> Result<OffsetDateTime, Error> {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| Error::Misuse("no such date".to_owned()))
}

fn wrong(error: rcgen::Error) -> Error {
    Error::Misuse(format!("the certificate cannot be made: {error}"))
}
