//! The place of a directory, and the name under which we come: addresses, and passwords in files.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most bytes of a password file.
const MAX_PASSWORD: u64 = 4096;
/// The socket of this machine's server, where Debian has it.
const SOCKET: &str = "/run/slapd/ldapi";

/// The place of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryPlace {
    /// `ldapi://%2Frun%2Fslapd%2Fldapi`: a socket of this machine.
    Socket(PathBuf),
    /// `ldaps://HOST:PORT`.
    Tls(String, u16),
    /// `ldap://127.0.0.1:PORT`: without TLS, on the loopback only.
    Plain(String, u16),
}

/// The name under which we come.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// No name.
    Anonymous,
    /// The user of this process, as the socket shows it (SASL EXTERNAL).
    External,
    /// A name and its password.
    Password(String, String),
}

impl fmt::Debug for Login {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Login::Anonymous => f.write_str("Anonymous"),
            Login::External => f.write_str("External"),
            Login::Password(name, _) => write!(f, "Password({name:?})"),
        }
    }
}

impl DirectoryPlace {
    /// Reads an address.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(text: &str) -> Result<DirectoryPlace, String> {
        let wrong =
            || format!("{text:?}: write ldapi:///, ldapi://%2FPATH%2FTO%2FSOCKET, ldaps://HOST or ldaps://HOST:PORT");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        match scheme {
            "ldapi" if rest.is_empty() => Ok(DirectoryPlace::Socket(SOCKET.into())),
            "ldapi" => {
                let path =
                    decoded(rest).filter(|path| path.starts_with('/') && !path.contains('\0')).ok_or_else(wrong)?;
                Ok(DirectoryPlace::Socket(path.into()))
            }
            "ldaps" => host(rest, 636).map(|(host, port)| DirectoryPlace::Tls(host, port)).ok_or_else(wrong),
            "ldap" => {
                let (host, port) = host(rest, 389).ok_or_else(wrong)?;
                let loopback = host == "localhost" || host.parse().is_ok_and(|at: std::net::IpAddr| at.is_loopback());
                match loopback {
                    true => Ok(DirectoryPlace::Plain(host, port)),
                    false => {
                        Err(format!("{text:?}: a directory on another machine is spoken to with TLS only: ldaps://"))
                    }
                }
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for DirectoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryPlace::Socket(path) => write!(f, "{}", path.display()),
            DirectoryPlace::Tls(host, port) => write!(f, "ldaps://{host}:{port}"),
            DirectoryPlace::Plain(host, port) => write!(f, "ldap://{host}:{port}"),
        }
    }
}

/// Percent-decoding.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                (u8::try_from(digit(high)? * 16 + digit(low)?).ok()?, behind)
            }
            (b'%', _) => return None,
            (byte, behind) => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

/// A host, and a port or the usual one; an IPv6 address stands in brackets.
fn host(text: &str, usual: u16) -> Option<(String, u16)> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']')?;
            (name, port.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    let port = port.map_or(Some(usual), |port| port.parse().ok().filter(|port| *port > 0))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    (!name.is_empty() && name.len() <= 253 && name.chars().all(plain)).then(|| (name.to_owned(), port))
}

/// Reads a password from a file that no other user may read; the end of its line is not part of it.
///
/// # Errors
/// A sentence.
pub fn password(path: &Path) -> Result<String, String> {
    let wrong = |what: String| format!("{}: {what}", path.display());
    let about = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    let own = std::fs::metadata("/proc/self").map_err(|error| error.to_string())?.uid();
    if !about.is_file() || about.len() > MAX_PASSWORD {
        return Err(wrong(format!("a file of at most {MAX_PASSWORD} bytes is needed")));
    }
    if about.uid() != own && about.uid() != 0 || about.mode() & 0o077 != 0 {
        return Err(wrong(
            "others may read or change this password: chmod 600, and its owner who runs this".to_owned(),
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    // A name without a password is nobody, says RFC 4513, section 5.1.2; a server may take it for success.
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(wrong("one line with the password is needed".to_owned()));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse = |text: &str| DirectoryPlace::parse(text);
        assert_eq!(parse("ldapi:///").unwrap(), DirectoryPlace::Socket(SOCKET.into()));
        assert_eq!(parse("ldapi://%2Ftmp%2fa%20b").unwrap(), DirectoryPlace::Socket("/tmp/a b".into()));
        assert_eq!(parse("ldaps://ldap.example.org").unwrap(), DirectoryPlace::Tls("ldap.example.org".into(), 636));
        assert_eq!(parse("ldaps://[fd00::1]:1636/").unwrap(), DirectoryPlace::Tls("fd00::1".into(), 1636));
        assert_eq!(parse("ldap://127.0.0.1:3890").unwrap(), DirectoryPlace::Plain("127.0.0.1".into(), 3890));
        assert!(parse("ldap://ldap.example.org").unwrap_err().contains("with TLS only"));
        for wrong in [
            "",
            "ldaps://",
            "http://a",
            "ldaps://a:0",
            "ldaps://a b",
            "ldapi://tmp",
            "ldapi://%2",
            "ldapi://%ff",
            "ldaps://a/b",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_that_others_may_read_or_that_is_none_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("sluice-directory-{}", std::process::id()));
        let write = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            password(&path)
        };
        assert_eq!(write("secret\n", 0o600).unwrap(), "secret");
        assert!(write("secret\n", 0o640).unwrap_err().contains("others may read"));
        assert!(write("\n", 0o600).unwrap_err().contains("one line"));
        assert!(write("a\nb\n", 0o600).is_err());
        assert!(write(&"x".repeat(5000), 0o600).unwrap_err().contains("at most"));
        std::fs::remove_file(&path).unwrap();
        assert!(password(&path).is_err());
        assert!(!format!("{:?}", Login::Password("cn=a".into(), "secret".into())).contains("secret"));
    }
}
