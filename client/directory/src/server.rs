//! The connection to a directory, and the operations that are needed.

use crate::entry::DirectoryEntry;
use crate::guard::{self, Reason, ServerStream};
use crate::place::{DirectoryPlace, Login};
use crate::tls;
use ldap3::asn1::{PL, StructureTag};
use ldap3::{LdapConn, LdapConnSettings, LdapError, LdapResult, Mod, Scope, SearchOptions, StdStream};
use std::collections::HashSet;
use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The most entries that are read.
pub const MAX_ENTRIES: usize = 20_000;
/// Result codes (RFC 4511, appendix A) that are more than a refusal.
const SIZE_LIMIT: u32 = 4;
pub(crate) const NO_SUCH_OBJECT: u32 = 32;
pub(crate) const ALREADY_EXISTS: u32 = 68;

/// The reason of a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryError {
    /// No connection, or it ended: nothing more can be done over it.
    Away(String),
    /// The directory refused this one operation.
    Refused {
        /// The result code.
        code: u32,
        /// Its name and what the server says about it.
        text: String,
    },
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::Away(text) => f.write_str(text),
            DirectoryError::Refused { text, .. } => write!(f, "the directory refuses: {text}"),
        }
    }
}

impl std::error::Error for DirectoryError {}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct DirectoryFound {
    /// The entries that are ours by class, each with its distinguished name.
    pub entries: Vec<(String, DirectoryEntry)>,
    /// True if the server has more than it says at once.
    pub more: bool,
}

/// The entry under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryLook {
    /// No entry, as far as we may see.
    Nothing,
    /// An entry of no class of ours.
    Other,
    /// An entry of ours.
    Ours(DirectoryEntry),
}

/// Attributes with their values.
type Attributes = Vec<(String, Vec<String>)>;

/// A connection, on which we have said who we are.
pub struct DirectoryServer {
    connection: LdapConn,
    reason: Reason,
}

impl fmt::Debug for DirectoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryServer").finish_non_exhaustive()
    }
}

impl DirectoryServer {
    /// Connects, and says who we are. No answer may take longer than `patience`.
    ///
    /// # Errors
    /// [`DirectoryError::Away`], or a refusal of the login.
    pub fn open(
        place: &DirectoryPlace,
        ca: Option<&Path>,
        login: &Login,
        patience: Duration,
    ) -> Result<DirectoryServer, DirectoryError> {
        let away = |why: String| DirectoryError::Away(format!("no directory at {place}: {why}"));
        let stream = connect(place, ca, patience).map_err(away)?;
        let (end, reason) = guard::start(stream, patience).map_err(|error| away(error.to_string()))?;
        let settings = LdapConnSettings::new().set_std_stream(StdStream::Unix(end));
        let connection = LdapConn::with_settings(settings, "ldapi://guard").map_err(|error| away(error.to_string()))?;
        let mut server = DirectoryServer { connection, reason };
        let said = match login {
            Login::Anonymous => return Ok(server),
            Login::External => server.connection.sasl_external_bind(),
            Login::Password(name, password) => server.connection.simple_bind(name, password),
        };
        server.done(said)?;
        Ok(server)
    }

    /// The entries below `base` (with it) that match, of our classes only.
    ///
    /// # Errors
    /// Any [`DirectoryError`].
    pub fn search(&mut self, base: &str, filter: &str) -> Result<DirectoryFound, DirectoryError> {
        let mut found = DirectoryFound::default();
        let more = self.each(base, Scope::Subtree, filter, &["*"], |dn, attributes| {
            let classes = of("objectClass", &attributes);
            found.entries.extend(DirectoryEntry::read(&classes, attributes).map(|entry| (dn, entry)));
        })?;
        found.more = more;
        Ok(found)
    }

    /// The entry of this name.
    ///
    /// # Errors
    /// Any [`DirectoryError`].
    pub fn look(&mut self, dn: &str) -> Result<DirectoryLook, DirectoryError> {
        let mut found = DirectoryLook::Nothing;
        let said = self.each(dn, Scope::Base, "(objectClass=*)", &["*"], |_, attributes| {
            let classes = of("objectClass", &attributes);
            found = DirectoryEntry::read(&classes, attributes).map_or(DirectoryLook::Other, DirectoryLook::Ours);
        });
        match said {
            Err(DirectoryError::Refused { code: NO_SUCH_OBJECT, .. }) => Ok(DirectoryLook::Nothing),
            Err(error) => Err(error),
            Ok(_) => Ok(found),
        }
    }

    /// True if the server's schema has our classes; `None`: it does not show its schema.
    ///
    /// # Errors
    /// [`DirectoryError::Away`].
    pub fn has_schema(&mut self) -> Result<Option<bool>, DirectoryError> {
        let mut place = None;
        let said = self.each("", Scope::Base, "(objectClass=*)", &["subschemaSubentry"], |_, attributes| {
            place = of("subschemaSubentry", &attributes).pop();
        });
        let mut classes = Vec::new();
        let place = match (said, place) {
            (Err(error @ DirectoryError::Away(_)), _) => return Err(error),
            (Ok(_), Some(place)) => place,
            _ => return Ok(None),
        };
        let said = self.each(&place, Scope::Base, "(objectClass=subschema)", &["objectClasses"], |_, attributes| {
            classes = of("objectClasses", &attributes);
        });
        match said {
            Err(error @ DirectoryError::Away(_)) => Err(error),
            Ok(_) if !classes.is_empty() => Ok(Some(crate::schema::CLASSES.iter().all(|class| {
                let name = format!("'{}'", class.name);
                classes.iter().any(|text| text.contains(&name))
            }))),
            _ => Ok(None),
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Any [`DirectoryError`].
    pub fn add(&mut self, dn: &str, class: &str, attributes: &[(String, Vec<String>)]) -> Result<(), DirectoryError> {
        let mut all = vec![("objectClass", HashSet::from([class]))];
        for (name, values) in attributes {
            all.push((name, values.iter().map(String::as_str).collect()));
        }
        let said = self.connection.add(dn, all);
        self.done(said)
    }

    /// Replaces attributes; one without values is removed.
    ///
    /// # Errors
    /// Any [`DirectoryError`].
    pub fn replace(&mut self, dn: &str, attributes: &[(String, Vec<String>)]) -> Result<(), DirectoryError> {
        let all = attributes.iter().map(|(name, values)| {
            Mod::Replace(name.as_str(), values.iter().map(String::as_str).collect::<HashSet<&str>>())
        });
        let said = self.connection.modify(dn, all.collect());
        self.done(said)
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// Any [`DirectoryError`].
    pub fn remove(&mut self, dn: &str) -> Result<(), DirectoryError> {
        let said = self.connection.delete(dn);
        self.done(said)
    }

    /// Hands each entry that a search finds to `take`; true if there are more.
    fn each(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
        mut take: impl FnMut(String, Attributes),
    ) -> Result<bool, DirectoryError> {
        let most = i32::try_from(MAX_ENTRIES).unwrap_or(i32::MAX);
        self.connection.with_search_options(SearchOptions::new().sizelimit(most));
        let (reason, mut count, mut away) = (self.reason.clone(), 0, None);
        let mut stream = match self.connection.streaming_search(base, scope, filter, attributes) {
            Ok(stream) => stream,
            Err(error) => return Err(lost(&reason, &error)),
        };
        loop {
            match stream.next() {
                Ok(Some(entry)) if !entry.is_ref() && !entry.is_intermediate() => {
                    count += 1;
                    if count > MAX_ENTRIES {
                        away = Some(format!("the directory sends more than {MAX_ENTRIES} entries"));
                        break;
                    }
                    if let Some((dn, attributes)) = read(entry.0) {
                        take(dn, attributes);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return Err(lost(&reason, &error)),
            }
        }
        let said = stream.result();
        match (away, said.rc) {
            (Some(away), _) => Err(DirectoryError::Away(away)),
            (None, 0) => Ok(false),
            (None, SIZE_LIMIT) => Ok(true),
            (None, _) => Err(refused(&said)),
        }
    }

    fn done(&self, said: Result<LdapResult, LdapError>) -> Result<(), DirectoryError> {
        match said {
            Ok(said) if said.rc == 0 => Ok(()),
            Ok(said) => Err(refused(&said)),
            Err(error) => Err(lost(&self.reason, &error)),
        }
    }
}

fn connect(place: &DirectoryPlace, ca: Option<&Path>, patience: Duration) -> Result<Box<dyn ServerStream>, String> {
    let (host, port) = match place {
        DirectoryPlace::Socket(path) => {
            let stream = UnixStream::connect(path).map_err(|error| error.to_string())?;
            stream.set_read_timeout(Some(patience)).map_err(|error| error.to_string())?;
            stream.set_write_timeout(Some(patience)).map_err(|error| error.to_string())?;
            return Ok(Box::new(stream));
        }
        DirectoryPlace::Tls(host, port) | DirectoryPlace::Plain(host, port) => (host, *port),
    };
    let addresses = (host.as_str(), port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut why = "its name has no address".to_owned();
    let stream = addresses
        .into_iter()
        .find_map(|at| TcpStream::connect_timeout(&at, patience).map_err(|error| why = error.to_string()).ok());
    let stream = stream.ok_or(why)?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(patience)).map_err(|error| error.to_string())?;
    stream.set_write_timeout(Some(patience)).map_err(|error| error.to_string())?;
    match place {
        DirectoryPlace::Tls(..) => {
            let ca = ca.ok_or("ldaps:// needs the authority that vouches for the server (--server-ca)")?;
            Ok(Box::new(tls::connect(stream, host, ca)?))
        }
        _ => Ok(Box::new(stream)),
    }
}

/// The name and attributes of an entry, whose shape the guard has checked; values that are no text are left out.
fn read(entry: StructureTag) -> Option<(String, Attributes)> {
    let inside = |tag: StructureTag| if let PL::C(parts) = tag.payload { Some(parts.into_iter()) } else { None };
    let text = |tag: StructureTag| if let PL::P(bytes) = tag.payload { String::from_utf8(bytes).ok() } else { None };
    let mut parts = inside(entry)?;
    let name = text(parts.next()?)?;
    let mut attributes = Vec::new();
    for attribute in inside(parts.next()?)? {
        let mut parts = inside(attribute)?;
        let name = text(parts.next()?)?;
        attributes.push((name, inside(parts.next()?)?.filter_map(text).collect()));
    }
    Some((name, attributes))
}

/// The values of an attribute, whatever capitals its name has.
fn of(name: &str, attributes: &[(String, Vec<String>)]) -> Vec<String> {
    let found = attributes.iter().find(|(one, _)| one.eq_ignore_ascii_case(name));
    found.map(|(_, values)| values.clone()).unwrap_or_default()
}

fn lost(reason: &Reason, error: &LdapError) -> DirectoryError {
    // The guard writes down why before the library sees the end of the connection; its thread may be slower.
    for _ in 0..50 {
        if let Some(why) = reason.said() {
            return DirectoryError::Away(why);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    DirectoryError::Away(format!("the directory went away: {error}"))
}

fn refused(said: &LdapResult) -> DirectoryError {
    let why: String = said.text.chars().filter(|one| !one.is_control()).take(200).collect();
    let name = match said.rc {
        4 => "its limit of entries",
        11 => "a limit of its administrator",
        19 => "a value that its rules do not allow",
        21 => "a value of another syntax",
        32 => "there is no such entry, or none above it",
        49 => "name or password is wrong",
        50 => "we have no right to this",
        51 => "it is busy",
        52 => "it is not available now",
        53 => "it is unwilling",
        65 => "its schema does not allow this: was dist/ldap/sluice.ldif added?",
        17 | 34 => "it does not know our attributes: was dist/ldap/sluice.ldif added?",
        66 => "other entries are below it",
        68 => "the entry is there already",
        80 => "it failed by itself, as a full one does",
        _ => "code",
    };
    let number = said.rc;
    let text = if why.is_empty() { format!("{name} ({number})") } else { format!("{name} ({number}: {why})") };
    DirectoryError::Refused { code: number, text }
}
