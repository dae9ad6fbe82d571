//! Messages of LDAP (RFC 4511, section 4.1.1) as bytes: where one ends, and whether it has the shape that its kind must have.
//!
//! The library that takes them apart trusts their shape. So nothing reaches it that was not checked here: sizes, nesting,
//! text that is UTF-8, and no operation that was not asked for.

use std::io::{self, Read};

/// The most bytes of a message.
pub const MAX_MESSAGE: usize = 1 << 20;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const CONTROLS: u8 = 0xa0;

/// The operations that are asked for.
pub mod request {
    pub const BIND: u8 = 0x60;
    pub const UNBIND: u8 = 0x42;
    pub const SEARCH: u8 = 0x63;
    pub const MODIFY: u8 = 0x66;
    pub const ADD: u8 = 0x68;
    pub const DELETE: u8 = 0x4a;
}

const ENTRY: u8 = 0x64;
const REFERENCE: u8 = 0x73;
const EXTENDED: u8 = 0x78;

/// A message that was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Checked {
    /// An entry or a reference of a search: more comes.
    Part,
    /// The result of the operation.
    Result,
    /// The server ends the connection, for this reason.
    Ends(String),
}

/// Elements, one behind the other.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The next element: its tag and content. `Err`: the bytes are no element.
    fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, &'static str> {
        let Some((&tag, rest)) = self.0.split_first() else { return Ok(None) };
        let (length, behind) = length(rest).ok_or("a length that makes no sense")?;
        let (content, rest) = behind.split_at_checked(length).ok_or("an element that is longer than its message")?;
        if tag & 0x1f == 0x1f {
            return Err("a tag that LDAP does not have");
        }
        self.0 = rest;
        Ok(Some((tag, content)))
    }

    /// The next element, which must have this tag.
    fn must(&mut self, tag: u8) -> Result<&'a [u8], &'static str> {
        match self.next()? {
            Some((found, content)) if found == tag => Ok(content),
            _ => Err("an element that is missing or another one"),
        }
    }

    fn text(&mut self, tag: u8) -> Result<&'a str, &'static str> {
        std::str::from_utf8(self.must(tag)?).map_err(|_| "text that is not UTF-8")
    }
}

/// A length in at most four octets, and what is behind it.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((usize::from(first), rest));
    }
    let octets = usize::from(first & 0x7f);
    let (octets, rest) = rest.split_at_checked(octets).filter(|(octets, _)| (1..=4).contains(&octets.len()))?;
    Some((octets.iter().fold(0, |length, octet| length << 8 | usize::from(*octet)), rest))
}

/// Reads one message; `None`: the stream ended before it.
///
/// # Errors
/// Those of the stream; `InvalidData`: this is no message, or one that is too long.
pub fn read(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let wrong = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut message = vec![0; 2];
    if stream.read(&mut message[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut message[1..])?;
    if message[0] != SEQUENCE {
        return Err(wrong("this is not LDAP"));
    }
    let octets = if message[1] < 0x80 { 0 } else { usize::from(message[1] & 0x7f) };
    if octets > 4 || message[1] == 0x80 {
        return Err(wrong("a length that makes no sense"));
    }
    message.resize(2 + octets, 0);
    stream.read_exact(&mut message[2..])?;
    let (body, _) = length(&message[1..]).ok_or_else(|| wrong("a length that makes no sense"))?;
    if body > MAX_MESSAGE {
        return Err(wrong("a message of more than a mebibyte"));
    }
    let head = message.len();
    message.resize(head + body, 0);
    stream.read_exact(&mut message[head..])?;
    Ok(Some(message))
}

/// The tag of the operation in a message.
pub fn operation(message: &[u8]) -> Option<u8> {
    let mut inside = Elements(Elements(message).must(SEQUENCE).ok()?);
    inside.must(INTEGER).ok()?;
    inside.next().ok()?.map(|(tag, _)| tag)
}

/// Checks a message of the server; `asked`: the operation that was asked for.
///
/// # Errors
/// The mistake in it.
pub fn check(message: &[u8], asked: u8) -> Result<Checked, &'static str> {
    let mut outside = Elements(message);
    let mut inside = Elements(outside.must(SEQUENCE)?);
    let id = inside.must(INTEGER)?;
    if id.is_empty() || id.len() > 4 {
        return Err("a number of a message that makes no sense");
    }
    let (tag, content) = inside.next()?.ok_or("a message without an operation")?;
    let checked = match tag {
        ENTRY if asked == request::SEARCH => entry(content).map(|()| Checked::Part)?,
        REFERENCE if asked == request::SEARCH => texts(content, OCTETS).map(|()| Checked::Part)?,
        EXTENDED => return result(content).map(|text| Checked::Ends(text.to_owned())),
        _ if Some(tag) == answer(asked) => result(content).map(|_| Checked::Result)?,
        _ => return Err("an answer to something else"),
    };
    match inside.next()? {
        None => Ok(checked),
        Some((CONTROLS, content)) if inside.0.is_empty() => controls(content).map(|()| checked),
        Some(_) => Err("something behind the operation"),
    }
}

/// The tag of the result of an operation.
fn answer(asked: u8) -> Option<u8> {
    Some(match asked {
        request::BIND => 0x61,
        request::SEARCH => 0x65,
        request::MODIFY => 0x67,
        request::ADD => 0x69,
        request::DELETE => 0x6b,
        _ => return None,
    })
}

fn entry(content: &[u8]) -> Result<(), &'static str> {
    let mut parts = Elements(content);
    parts.text(OCTETS)?;
    let mut attributes = Elements(parts.must(SEQUENCE)?);
    while let Some((tag, content)) = attributes.next()? {
        let mut one = Elements(content);
        if tag != SEQUENCE {
            return Err("an attribute that is none");
        }
        one.text(OCTETS)?;
        let mut values = Elements(one.must(SET)?);
        while let Some((tag, _)) = values.next()? {
            if tag != OCTETS {
                return Err("a value that is none");
            }
        }
        if !one.0.is_empty() {
            return Err("something behind an attribute");
        }
    }
    if parts.0.is_empty() { Ok(()) } else { Err("something behind an entry") }
}

/// The diagnostic text of a result.
fn result(content: &[u8]) -> Result<&str, &'static str> {
    let mut parts = Elements(content);
    let code = parts.must(ENUMERATED)?;
    if code.is_empty() || code.len() > 4 {
        return Err("a result code that makes no sense");
    }
    parts.text(OCTETS)?;
    let text = parts.text(OCTETS)?;
    while let Some((tag, content)) = parts.next()? {
        match tag {
            0xa3 => texts(content, OCTETS)?,
            0x87 | 0x8b => {}
            0x8a if std::str::from_utf8(content).is_ok() => {}
            _ => return Err("something behind a result"),
        }
    }
    Ok(text)
}

fn texts(content: &[u8], tag: u8) -> Result<(), &'static str> {
    let mut parts = Elements(content);
    while !parts.0.is_empty() {
        parts.text(tag)?;
    }
    Ok(())
}

fn controls(content: &[u8]) -> Result<(), &'static str> {
    let mut all = Elements(content);
    while !all.0.is_empty() {
        let mut one = Elements(all.must(SEQUENCE)?);
        one.text(OCTETS)?;
        let (mut value, flag) = (one.next()?, BOOLEAN);
        if let Some((tag, content)) = value
            && tag == flag
        {
            if content.len() != 1 {
                return Err("a control that is none");
            }
            value = one.next()?;
        }
        if value.is_some_and(|(tag, _)| tag != OCTETS) || !one.0.is_empty() {
            return Err("a control that is none");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut all = vec![tag, 0x82];
        all.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        all.extend(content);
        all
    }

    fn message(operation: &[u8]) -> Vec<u8> {
        tlv(SEQUENCE, &[tlv(INTEGER, &[1]), operation.to_vec()].concat())
    }

    fn done(tag: u8, code: &[u8], text: &[u8], more: &[u8]) -> Vec<u8> {
        tlv(tag, &[tlv(ENUMERATED, code), tlv(OCTETS, b""), tlv(OCTETS, text), more.to_vec()].concat())
    }

    fn an_entry() -> Vec<u8> {
        let values = tlv(SET, &tlv(OCTETS, b"\xff"));
        let attributes = tlv(SEQUENCE, &tlv(SEQUENCE, &[tlv(OCTETS, b"cn"), values].concat()));
        tlv(ENTRY, &[tlv(OCTETS, b"cn=a"), attributes].concat())
    }

    #[test]
    fn what_was_asked_for_passes_and_nothing_else() {
        use request::*;
        let bind = message(&done(0x61, &[0], b"", &tlv(0x87, b"x")));
        assert_eq!(check(&bind, BIND), Ok(Checked::Result));
        assert_eq!(operation(&bind), Some(0x61));
        assert!(check(&bind, SEARCH).is_err());
        assert_eq!(check(&message(&an_entry()), SEARCH), Ok(Checked::Part));
        assert!(check(&message(&an_entry()), ADD).is_err());
        assert_eq!(check(&message(&done(0x65, &[4], b"enough", &[])), SEARCH), Ok(Checked::Result));
        let ends = message(&done(EXTENDED, &[52], b"goodbye", &tlv(0x8a, b"1.3.6.1.4.1.1466.20036")));
        assert_eq!(check(&ends, ADD), Ok(Checked::Ends("goodbye".to_owned())));
        for wrong in [
            done(0x61, &[], b"", &[]),
            done(0x61, &[0], b"\xff", &[]),
            done(0x61, &[0], b"", &tlv(SEQUENCE, &[])),
            tlv(0x61, &[]),
            tlv(0x61, &tlv(ENUMERATED, &[0])),
            vec![],
        ] {
            assert!(check(&message(&wrong), BIND).is_err(), "{wrong:02x?}");
        }
        assert!(check(&[SEQUENCE, 0], BIND).is_err());
    }

    /// Every cut and every changed byte of good messages: an answer, never a panic, and what passes the library can read.
    #[test]
    fn whatever_comes_is_answered() {
        let control = tlv(SEQUENCE, &[tlv(OCTETS, b"1.2"), tlv(BOOLEAN, &[1]), tlv(OCTETS, b"v")].concat());
        let with_control =
            tlv(SEQUENCE, &[tlv(INTEGER, &[1]), done(0x65, &[0], b"", &[]), tlv(CONTROLS, &control)].concat());
        assert_eq!(check(&with_control, request::SEARCH), Ok(Checked::Result));
        for good in
            [message(&an_entry()), with_control, message(&done(0x61, &[0], b"t", &tlv(0xa3, &tlv(OCTETS, b"u"))))]
        {
            for cut in 0..good.len() {
                assert!(check(&good[..cut], request::SEARCH).is_err());
            }
            for at in 0..good.len() {
                for byte in 0..=255 {
                    let mut changed = good.clone();
                    changed[at] = byte;
                    for asked in [request::SEARCH, request::BIND] {
                        let _ = check(&changed, asked);
                    }
                    let _ = read(&mut changed.as_slice());
                }
            }
        }
    }

    #[test]
    fn one_message_after_the_other_is_read_and_none_is_too_long() {
        let one = message(&done(0x61, &[0], b"", &[]));
        let two = [one.clone(), one.clone()].concat();
        let mut stream = two.as_slice();
        assert_eq!(read(&mut stream).unwrap().unwrap(), one);
        assert_eq!(read(&mut stream).unwrap().unwrap(), one);
        assert!(read(&mut stream).unwrap().is_none());
        for wrong in [
            &[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff][..],
            b"HTTP/1.1",
            &[0x30, 0x80],
            &[0x30, 0x85, 0, 0, 0, 0, 1],
            &[0x30, 5, 1],
        ] {
            assert!(read(&mut &wrong[..]).is_err(), "{wrong:02x?}");
        }
    }
}
