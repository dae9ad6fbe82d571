//! The messages of the two ends: one line each way, the bytes, a digest, one line back. Lines are JSON.
//!
//! ```text
//! sender                                                             receiver
//! {"sluice_copy":1,"name":"a.dat","bytes":N,"id":"9f..."}  ------->
//!                                                          <-------  {"offset":K}   or {"error":"..."}
//! the bytes from K to N, then their SHA-256 from 0 to N    ------->
//!                                                          <-------  {"done":N}     or {"error":"..."}
//! ```

use crate::error::Error;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{Read, Write};

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// The longest line, in bytes.
pub const LONGEST: usize = 4_096;
/// The length of the digest, in bytes.
pub const DIGEST: usize = 32;
/// The largest file: an exbibyte, in bytes.
pub const LARGEST: u64 = 1 << 60;
/// The size of one read or write, in bytes.
pub const BLOCK: usize = 64 << 10;
const LONGEST_NAME: usize = 200;

/// The sender's first message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SenderHello {
    /// [`VERSION`].
    pub sluice_copy: u32,
    /// The file's name at the receiver, without a path.
    pub name: String,
    /// The file's length, in bytes.
    pub bytes: u64,
    /// An identifier of the file. A transfer that broke off continues under the same one.
    pub id: String,
}

/// The receiver's answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiverReply {
    /// The receiver has this many bytes already.
    Offset(u64),
    /// All bytes arrived and the digest is right.
    Done(u64),
    /// The receiver cannot take the file, for this reason.
    Error(String),
}

impl SenderHello {
    /// Returns what is wrong with the message, if anything is.
    pub fn fault(&self) -> Option<String> {
        let name = &self.name;
        let bad = |c: char| c == '/' || c == '\\' || c.is_control();
        if self.sluice_copy != VERSION {
            return Some(format!("language {} is not spoken here, only {VERSION}", self.sluice_copy));
        }
        if name.is_empty() || name.len() > LONGEST_NAME || name.starts_with('.') || name.chars().any(bad) {
            return Some(format!("{name:?} is no name for a file here"));
        }
        if self.bytes > LARGEST {
            return Some(format!("{} bytes are too many", self.bytes));
        }
        let hex = |c: char| c.is_ascii_hexdigit();
        (self.id.len() != 32 || !self.id.chars().all(hex)).then(|| "the id is 32 hexadecimal digits".into())
    }
}

/// Writes one message as a line.
///
/// # Errors
/// The connection broke.
pub fn say(to: &mut impl Write, what: &impl Serialize) -> Result<(), Error> {
    let mut line = serde_json::to_vec(what).map_err(|error| Error::World(error.to_string()))?;
    line.push(b'\n');
    to.write_all(&line).and_then(|()| to.flush()).map_err(Error::doing("write to the other end"))
}

/// Reads one message, byte by byte, because binary data follow the line.
///
/// # Errors
/// The connection broke, the line is too long, or it is no message of this protocol.
pub fn hear<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, Error> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match from.read(&mut byte) {
            Ok(0) => return Err(Error::World("the other end went away".into())),
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() < LONGEST => line.push(byte[0]),
            Ok(_) => return Err(Error::Peer("a line without end".into())),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::doing("read from the other end")(error)),
        }
    }
    serde_json::from_slice(&line)
        .map_err(|error| Error::Peer(format!("something that is not copy's language: {error}")))
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &str) -> SenderHello {
        SenderHello { sluice_copy: VERSION, name: name.into(), bytes: 5, id: "0".repeat(32) }
    }

    #[test]
    fn names_stay_in_their_folder() {
        assert_eq!(hello("a.dat").fault(), None);
        assert_eq!(hello("Bericht 3 äöü.pdf").fault(), None);
        let long = "x".repeat(LONGEST_NAME + 1);
        for name in ["", "..", ".hidden", "a/b", "/etc/passwd", "a\\b", "a\nb", "a\0b", long.as_str()] {
            assert!(hello(name).fault().is_some(), "{name:?}");
        }
        assert!(SenderHello { sluice_copy: 2, ..hello("a") }.fault().is_some());
        assert!(SenderHello { bytes: LARGEST + 1, ..hello("a") }.fault().is_some());
        assert!(SenderHello { id: "../x".into(), ..hello("a") }.fault().is_some());
    }

    #[test]
    fn lines_come_back_and_nonsense_is_an_error() {
        let mut wire = Vec::new();
        say(&mut wire, &ReceiverReply::Offset(7)).expect("said");
        wire.extend(b"rest");
        let mut from = wire.as_slice();
        assert_eq!(hear::<ReceiverReply>(&mut from).expect("heard"), ReceiverReply::Offset(7));
        assert_eq!(from, b"rest");
        for nonsense in [&b"\n"[..], b"{}\n", b"{\"offset\":-1}\n", b"no end", &[b'x'; LONGEST + 2], b"\xff\xfe\n"] {
            assert!(hear::<ReceiverReply>(&mut &*nonsense).is_err());
        }
    }
}
