//! Key files: the keys of RSVP integrity (RFC 2747) that neighbours on a link share.
//!
//! ```toml
//! # mode 0600
//! [[key]]
//! id = 1                           # Key Identifier, as the neighbour calls it too; up to 48 bits
//! algorithm = "hmac-sha-256"       # or hmac-sha-1, hmac-md5 for peers that know nothing better
//! secret = "9f86d081884c7d65..."   # in hexadecimal; or text = "..." for peers whose keys are typed in
//! peer = "10.0.1.2"                # the neighbour that it is shared with; default: all on the link
//! from = 2026-11-21T00:00:00Z      # its lifetime; default: always
//! until = 2027-11-21T00:00:00Z
//! ```
//!
//! A file that others can read is refused: a person who has read a key can sign anything with it.

use crate::document::{Document, Mistake};
use jiff::civil::DateTime;
use jiff::tz;
use rsvp::integrity::{Algorithm, IntegrityKey, IntegrityVerdict};
use serde::Deserialize;
use std::fs::File as OpenFile;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use terms::{Span, Time};
use toml::Spanned;
use toml::value::{Datetime, Offset};

pub use rsvp::integrity::KeyTable;

/// The largest key file, bytes.
const MOST_BYTES: u64 = 1 << 20;
/// The shortest secret for the algorithm that is not only for old peers, bytes.
const SHORTEST: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<Spanned<KeyFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    id: u64,
    algorithm: Option<Spanned<String>>,
    secret: Option<Spanned<String>>,
    text: Option<Spanned<String>>,
    peer: Option<IpAddr>,
    from: Option<Spanned<Datetime>>,
    until: Option<Spanned<Datetime>>,
}

/// Reads a key file.
///
/// # Errors
/// The file cannot be read, others can read it, or it has a [`Mistake`]: the first one. No mistake reveals a
/// secret.
pub fn load(file: &Path) -> Result<KeyTable, Mistake> {
    let whole = |message: String| Mistake { file: file.to_owned(), line: 0, message };
    let opened = OpenFile::open(file).map_err(|error| whole(format!("the keys cannot be read: {error}")))?;
    let about = opened.metadata().map_err(|error| whole(format!("the keys cannot be read: {error}")))?;
    if !about.is_file() {
        return Err(whole("this is no file of keys".to_owned()));
    }
    if about.mode() & 0o077 != 0 {
        let mode = about.mode() & 0o7777;
        return Err(whole(format!("its mode is {mode:04o}: others can use the keys; chmod 600 {}", file.display())));
    }
    let mut text = String::new();
    let read = opened.take(MOST_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| whole(format!("the keys cannot be read: {error}")))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(whole(format!("a file of keys is at most {MOST_BYTES} bytes")));
    }
    parse(file, &text)
}

/// Reads a text that came from `file`.
///
/// # Errors
/// The first [`Mistake`] in it.
pub fn parse(file: &Path, text: &str) -> Result<KeyTable, Mistake> {
    let document = Document::new(file, text);
    let found: File = document.parse().map_err(|mistake| match mistake.message.starts_with("invalid") {
        // The parser's words quote a value of a wrong type, and that may be a secret without its quotes.
        true => Mistake { message: "a value of the wrong type".to_owned(), ..mistake },
        false => mistake,
    })?;
    let keys = found.key.iter().map(|entry| key(&document, entry)).collect::<Result<Vec<IntegrityKey>, _>>()?;
    KeyTable::new(keys).map_err(|wrong| document.whole(wrong.to_string()))
}

fn key(document: &Document<'_>, entry: &Spanned<KeyFile>) -> Result<IntegrityKey, Mistake> {
    let found = entry.get_ref();
    let algorithm = match &found.algorithm {
        None => {
            let wrong = format!(
                "key {} needs algorithm = \"hmac-sha-256\" (hmac-sha-1 or hmac-md5 for peers that know nothing better)",
                found.id
            );
            return Err(document.at(entry.span(), wrong));
        }
        Some(name) => algorithm(name.get_ref()).ok_or_else(|| {
            let wrong = format!("{:?} is no algorithm: hmac-sha-256, hmac-sha-1 or hmac-md5", name.get_ref());
            document.at(name.span(), wrong)
        })?,
    };
    let secret = match (&found.secret, &found.text) {
        (Some(hex), None) => {
            unhex(hex.get_ref()).ok_or_else(|| document.at(hex.span(), "a secret is pairs of hexadecimal digits"))?
        }
        (None, Some(text)) => text.get_ref().as_bytes().to_vec(),
        _ => {
            return Err(
                document.at(entry.span(), format!("key {} needs secret = \"HEX\", or text = \"...\"", found.id))
            );
        }
    };
    if algorithm == Algorithm::HmacSha256 && secret.len() < SHORTEST {
        let wrong = format!("the secret of key {} is shorter than {SHORTEST} bytes: it could be guessed", found.id);
        return Err(document.at(entry.span(), wrong));
    }
    let instant = |text: &Option<Spanned<Datetime>>, default: Time| match text {
        None => Ok(default),
        Some(text) => unix_time(text.get_ref()).ok_or_else(|| {
            document.at(text.span(), "write a time with its zone, such as 2026-11-21T00:00:00Z, from 1970 to 2500")
        }),
    };
    Ok(IntegrityKey {
        id: found.id,
        algorithm,
        secret,
        peer: found.peer,
        from: instant(&found.from, Time::ZERO)?,
        until: instant(&found.until, Time::FOREVER)?,
    })
}

fn algorithm(name: &str) -> Option<Algorithm> {
    match name {
        "hmac-sha-256" => Some(Algorithm::HmacSha256),
        "hmac-sha-1" => Some(Algorithm::HmacSha1),
        "hmac-md5" => Some(Algorithm::HmacMd5),
        _ => None,
    }
}

/// The name in a file of keys.
pub fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::HmacSha256 => "hmac-sha-256",
        Algorithm::HmacSha1 => "hmac-sha-1",
        Algorithm::HmacMd5 => "hmac-md5",
    }
}

/// The verdict on a message's INTEGRITY, for people and scripts.
pub fn verdict_name(verdict: IntegrityVerdict) -> &'static str {
    match verdict {
        IntegrityVerdict::Unsigned => "none",
        IntegrityVerdict::Good => "good",
        IntegrityVerdict::Bad => "bad",
        IntegrityVerdict::UnknownKey => "unknown key",
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let whole = pairs.remainder().is_empty() && !digits.is_empty();
    whole.then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The instant that a date, a time and a zone define.
fn unix_time(at: &Datetime) -> Option<Time> {
    let (date, time, offset) = (at.date?, at.time?, at.offset?);
    let offset = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i32::from(minutes) * 60,
    };
    if !(1970..=2500).contains(&date.year) {
        return None;
    }
    let field = |n: u8| i8::try_from(n).ok();
    let year = i16::try_from(date.year).ok()?;
    let minute =
        DateTime::new(year, field(date.month)?, field(date.day)?, field(time.hour)?, field(time.minute)?, 0, 0);
    let begun = tz::Offset::from_seconds(offset).ok()?.to_timestamp(minute.ok()?).ok()?.as_second();
    let second = i64::from(time.second.unwrap_or(0));
    u64::try_from(begun + second).ok().map(|seconds| Time::ZERO + Span::from_secs(seconds))
}

/// Writes a file with one fresh key that only its owner can read.
///
/// # Errors
/// It is there already, or cannot be written.
pub fn write(file: &Path, id: u64, secret: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut new = OpenFile::options().write(true).create_new(true).mode(0o600).open(file)?;
    write!(new, "# made by sluice up\n[[key]]\nid = {id}\nalgorithm = \"hmac-sha-256\"\nsecret = \"{hex}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const SECRET: &str = "000102030405060708090a0b0c0d0e0f";

    fn told(text: &str) -> Result<KeyTable, String> {
        parse(Path::new("k.toml"), text).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn a_full_file() {
        let text = format!(
            "[[key]]\nid = 1\nalgorithm = \"hmac-sha-256\"\nsecret = \"{SECRET}\"\n[[key]]\nid = 2\nalgorithm = \"hmac-md5\"\ntext = \"cisco\"\n\
             peer = \"10.0.1.2\"\nfrom = 2026-11-21T00:00:00Z\nuntil = 2026-11-21T02:00:00+01:00\n"
        );
        let table = told(&text).unwrap();
        let [one, two] = table.keys() else { panic!("{table:?}") };
        assert_eq!((one.id, one.algorithm, one.secret.len(), one.peer), (1, Algorithm::HmacSha256, 16, None));
        assert_eq!((one.from, one.until), (Time::ZERO, Time::FOREVER));
        assert_eq!(
            (two.algorithm, two.secret.as_slice(), two.peer),
            (Algorithm::HmacMd5, &b"cisco"[..], "10.0.1.2".parse().ok())
        );
        let at = |hour: u64| Time::ZERO + Span::from_secs(1_795_219_200 + hour * 3600);
        assert_eq!((two.from, two.until), (at(0), at(1)), "zones count");
    }

    #[test]
    fn mistakes_name_their_line_and_no_secret() {
        let key = |rest: &str| format!("[[key]]\nid = 1\n{rest}\nalgorithm = \"hmac-sha-256\"\n");
        let good = format!("secret = \"{SECRET}\"");
        let table = [
            (String::new(), "k.toml: a key table without a key"),
            (key(""), "k.toml:1: key 1 needs secret"),
            (key(&format!("{good}\ntext = \"x\"")), "k.toml:1: key 1 needs secret"),
            (key("secret = 1234567"), "k.toml:3: a value of the wrong type"),
            (key("secret = \"00f\""), "k.toml:3: a secret is pairs of hexadecimal"),
            (key("secret = \"0g\""), "k.toml:3: a secret is pairs of hexadecimal"),
            (key("secret = \"0011\""), "k.toml:1: the secret of key 1 is shorter than 16 bytes"),
            (
                key(&good).replace("algorithm = \"hmac-sha-256\"", ""),
                "k.toml:1: key 1 needs algorithm = \"hmac-sha-256\"",
            ),
            (key(&good).replace("hmac-sha-256", "rot13"), "k.toml:4: \"rot13\" is no algorithm"),
            (key(&format!("{good}\nfrom = 2026-11-21")), "k.toml:4: write a time with its zone"),
            (key(&format!("{good}\nfrom = 1969-11-21T00:00:00Z")), "k.toml:4: write a time with its zone"),
            (key(&format!("{good}\nuntil = 1970-01-01T00:00:00Z")), "k.toml: key 1 ends before it begins"),
            (key(&good).repeat(2), "k.toml: key 1 is there twice"),
            (key(&format!("{good}\ncolour = 1")), "k.toml:4: unknown field `colour`"),
            (key(&good).replace("id = 1", "id = 281474976710656"), "k.toml: key 281474976710656: identifiers have 48"),
        ];
        for (text, expected) in table {
            let wrong = told(&text).expect_err(&text);
            assert!(wrong.starts_with(expected), "{wrong}\n expected: {expected}");
            assert!(!wrong.contains(SECRET), "{wrong}");
        }
    }

    #[test]
    fn what_others_can_read_is_refused_and_what_is_made_is_not() {
        let file = std::env::temp_dir().join(format!("agent-keys-{}", std::process::id()));
        let _ = fs::remove_file(&file);
        write(&file, 7, &[0xab; 32]).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
        let made = load(&file).unwrap();
        assert_eq!((made.keys()[0].id, made.keys()[0].secret.as_slice()), (7, &[0xab; 32][..]));
        assert!(write(&file, 8, &[0; 32]).is_err(), "a key is never written over");
        for mode in [0o640, 0o604, 0o610, 0o666] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let wrong = load(&file).unwrap_err().to_string();
            assert!(wrong.contains(&format!("its mode is {mode:04o}")) && wrong.contains("chmod 600"), "{wrong}");
        }
        fs::remove_file(&file).unwrap();
        assert!(load(&file).unwrap_err().to_string().contains("cannot be read"));
        assert!(load(&std::env::temp_dir()).unwrap_err().to_string().contains("no file of keys"));
    }

    #[test]
    fn days() {
        for (date, days) in [("1970-01-01", 0), ("2000-02-29", 11_016), ("2000-03-01", 11_017), ("2026-11-21", 20_778)]
        {
            let at = unix_time(&format!("{date}T00:00:00Z").parse().unwrap());
            assert_eq!(at.map(Time::as_secs), Some(days * 86_400), "{date}");
        }
        let at = |text: &str| unix_time(&text.parse().unwrap()).map(Time::as_secs);
        assert_eq!(at("1970-01-02T01:00:00+01:00"), Some(86_400));
        assert_eq!(at("1970-01-01T00:00:00+00:01"), None);
    }
}
