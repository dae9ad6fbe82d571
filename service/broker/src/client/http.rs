//! The part of HTTP/1.1 (RFC 9112) that a broker's answers need: a status, a head of bounded length, and a
//! body of known length or in chunks.

use super::endpoint::Wire;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

/// The longest silence before a broker's answer; it waits for its agents itself.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time to send a request.
const SENDING: Duration = Duration::from_secs(10);
/// The longest head, bytes.
const MAX_HEAD: u64 = 64 << 10;
/// The most that is read of an answer, bytes.
const MAX_BODY: u64 = 64 << 20;
/// The longest line with the size of a chunk.
const MAX_SIZE_LINE: u64 = 256;

/// A request.
pub(super) struct Request<'a> {
    pub method: &'a str,
    /// Path and query, encoded already.
    pub target: &'a str,
    pub host: String,
    /// The idempotency key; empty: none.
    pub key: &'a str,
    pub body: Option<&'a [u8]>,
}

/// An answer, its body yet to be read.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    body: Body,
}

#[derive(Debug)]
struct Body {
    wire: BufReader<Wire>,
    length: Length,
}

/// The length of the rest of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Length {
    /// A known number of octets.
    Known(u64),
    /// The octets left in this chunk; `first`: no chunk has come yet.
    Chunk { left: u64, first: bool },
    /// All octets until the connection ends.
    ToEnd,
    /// No octets.
    Over,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Sends a request, and reads the head of the answer.
pub(super) fn ask(mut wire: Wire, request: &Request<'_>, silence: Duration) -> io::Result<Reply> {
    wire.set_patience(silence, SENDING)?;
    let Request { method, target, host, key, body } = request;
    // A key with a line break would be a field of its own.
    if !key.chars().all(|c| c.is_ascii_graphic()) {
        return Err(wrong("a key has visible ASCII characters only"));
    }
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    if !key.is_empty() {
        head += &format!("Idempotency-Key: {key}\r\n");
    }
    if let Some(body) = body {
        head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    let mut all = (head + "\r\n").into_bytes();
    all.extend_from_slice(body.unwrap_or_default());
    wire.write_all(&all)?;
    wire.flush()?;
    let mut wire = BufReader::new(wire);
    let (status, length) = head_of(&mut wire)?;
    Ok(Reply { status, body: Body { wire, length } })
}

fn head_of(wire: &mut impl BufRead) -> io::Result<(u16, Length)> {
    let mut head = wire.take(MAX_HEAD);
    let mut line = || -> io::Result<String> {
        let mut text = String::new();
        head.read_line(&mut text)?;
        match text.strip_suffix('\n') {
            Some(line) => Ok(line.trim_end().to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    };
    let first = line()?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    let status = status.ok_or_else(|| wrong("what answers there is no broker: it does not speak HTTP/1.1"))?;
    let mut length = if status == 204 { Length::Over } else { Length::ToEnd };
    loop {
        let field = line()?;
        if field.is_empty() {
            return Ok((status, length));
        }
        let Some((name, value)) = field.split_once(':') else { return Err(wrong("a field without a name")) };
        if name.eq_ignore_ascii_case("content-length") {
            length = Length::Known(value.trim().parse().map_err(|_| wrong("a length that is none"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            length = Length::Chunk { left: 0, first: true };
        }
    }
}

impl Reply {
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The whole body.
    pub(super) fn text(&mut self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        (&mut self.body).take(MAX_BODY + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_BODY { Err(wrong("an answer without an end")) } else { Ok(text) }
    }

    /// The body as it comes.
    pub(super) fn lines(self) -> impl BufRead + Send + std::fmt::Debug {
        BufReader::new(self.body)
    }
}

impl Body {
    /// Reads the size of the next chunk.
    fn next_chunk(&mut self, first: bool) -> io::Result<()> {
        let mut size_line = || -> io::Result<String> {
            let mut line = String::new();
            (&mut self.wire).take(MAX_SIZE_LINE).read_line(&mut line)?;
            Ok(line)
        };
        if !first && size_line()?.trim() != "" {
            return Err(wrong("a chunk that is longer than it says"));
        }
        let line = size_line()?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let left = u64::from_str_radix(digits, 16).map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        self.length = if left == 0 { Length::Over } else { Length::Chunk { left, first: false } };
        Ok(())
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Length::Chunk { left: 0, first } = self.length {
            self.next_chunk(first)?;
        }
        let most = match self.length {
            Length::Over | Length::Known(0) => return Ok(0),
            Length::ToEnd => return self.wire.read(buffer),
            Length::Known(left) | Length::Chunk { left, .. } => left,
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.wire.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match &mut self.length {
            Length::Known(left) | Length::Chunk { left, .. } => *left -= read as u64,
            Length::ToEnd | Length::Over => {}
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// The client's answer or error for these bytes.
    fn heard(bytes: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        let other = std::thread::spawn(move || {
            let _ = theirs.read(&mut [0; 4096]);
            let _ = theirs.write_all(&bytes);
        });
        let request = Request { method: "GET", target: "/", host: "b".into(), key: "", body: None };
        let said = ask(Wire::Unix(ours), &request, Duration::from_secs(5))
            .and_then(|mut reply| Ok((reply.status(), reply.text()?)));
        other.join().unwrap();
        said
    }

    #[test]
    fn bodies_end_where_they_say() {
        let ok = |text: &[u8]| heard(text).unwrap();
        assert_eq!(ok(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"), (200, b"abc".to_vec()));
        assert_eq!(ok(b"HTTP/1.1 204 No Content\r\n\r\n"), (204, Vec::new()));
        assert_eq!(ok(b"HTTP/1.0 404 No\r\n\r\nto the end"), (404, b"to the end".to_vec()));
        let chunks =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(ok(chunks), (200, b"abc0123456789".to_vec()));
    }

    #[test]
    fn what_is_no_answer_is_said_to_be_none() {
        for text in [
            &b""[..],
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
            &[b'a'; 70_000],
        ] {
            assert!(heard(text).is_err(), "{:?}", String::from_utf8_lossy(&text[..text.len().min(80)]));
        }
        let request = Request { method: "GET", target: "/", host: "b".into(), key: "a\r\nX: y", body: None };
        assert!(ask(Wire::Unix(UnixStream::pair().unwrap().0), &request, PATIENCE).is_err());
    }
}
