//! One request over one connection to a broker of this machine, by HTTP/1.1 (RFC 9112): on its Unix socket, or its
//! listener without TLS on the loopback.
//!
//! It is strict: what is not exactly an answer is an error. Head, body and time have a limit each.

use crate::connection::CallFailure;
use rpc::place::split;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The socket of this machine's own broker.
const SOCKET: &str = "/run/sluice/broker.sock";
/// The longest head, bytes.
const MAX_HEAD: usize = 64 << 10;
/// The longest body, bytes.
const MAX_BODY: usize = 16 << 20;
/// The most interim answers (1xx) before the answer.
const MAX_INTERIM: usize = 4;

/// The address of a broker.
#[derive(Clone, Debug)]
pub enum LocalBroker {
    /// Its Unix socket.
    Socket(PathBuf),
    /// Its listener on the loopback.
    Loopback(SocketAddr),
}

/// A request.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query, encoded already.
    pub target: &'a str,
    /// The idempotency key; empty: none.
    pub key: &'a str,
    /// The document; `None`: there is none.
    pub body: Option<&'a [u8]>,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The broker's clock (`Date`), seconds since 1970.
    pub date: Option<u64>,
    /// The body.
    pub body: Vec<u8>,
}

enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl LocalBroker {
    /// Parses a path, `unix:PATH`, or `http://127.0.0.1:PORT`; `None` is this machine's broker.
    pub fn parse(place: Option<&str>) -> Result<LocalBroker, CallFailure> {
        let place = place.unwrap_or(SOCKET);
        let wrong = |why: &str| CallFailure::Misuse(format!("{place:?}: {why}"));
        if let Some(address) = place.strip_prefix("http://") {
            let (host, port) = split(address.strip_suffix('/').unwrap_or(address))
                .ok_or_else(|| wrong("write http://127.0.0.1:PORT"))?;
            let host = if host == "localhost" { Ok(Ipv4Addr::LOCALHOST.into()) } else { host.parse::<IpAddr>() };
            let host = host.ok().filter(IpAddr::is_loopback);
            let host = host.ok_or_else(|| wrong("libsluice carries no TLS: name a broker on the loopback"))?;
            return Ok(LocalBroker::Loopback(SocketAddr::new(host, port)));
        }
        let path = place.strip_prefix("unix:").unwrap_or(place);
        if path.is_empty() || path.contains("://") {
            return Err(wrong("libsluice carries no TLS: write unix:/PATH or http://127.0.0.1:PORT"));
        }
        Ok(LocalBroker::Socket(path.into()))
    }

    fn connect(&self, patience: Duration) -> io::Result<Wire> {
        match self {
            LocalBroker::Socket(path) => UnixStream::connect(path).map(Wire::Unix),
            LocalBroker::Loopback(address) => TcpStream::connect_timeout(address, patience).map(Wire::Tcp),
        }
    }

    fn host(&self) -> String {
        match self {
            LocalBroker::Socket(_) => "broker".to_owned(),
            LocalBroker::Loopback(address) => address.to_string(),
        }
    }

    /// Sends a request and reads the answer, both before `until`.
    pub fn ask(&self, request: &HttpRequest<'_>, until: Instant) -> io::Result<HttpAnswer> {
        let text = written(request, &self.host())?;
        let mut wire = self.connect(left(until)?)?;
        wire.limit(until)?;
        wire.write(&text)?;
        read(&mut Input { wire, until, read: Vec::new(), at: 0 })
    }
}

impl std::fmt::Display for LocalBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LocalBroker::Socket(path) => path.display().fmt(f),
            LocalBroker::Loopback(address) => write!(f, "http://{address}"),
        }
    }
}

impl Wire {
    fn limit(&self, until: Instant) -> io::Result<()> {
        let patience = Some(left(until)?);
        match self {
            Wire::Unix(stream) => stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience)),
            Wire::Tcp(stream) => stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Wire::Unix(stream) => stream.write_all(bytes),
            Wire::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Unix(stream) => stream.read(to),
            Wire::Tcp(stream) => stream.read(to),
        }
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn written(request: &HttpRequest<'_>, host: &str) -> io::Result<Vec<u8>> {
    let HttpRequest { method, target, key, body } = request;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain(method) || !plain(target) || !plain(key) {
        return Err(wrong("a line of the request would break"));
    }
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    if !key.is_empty() {
        text += &format!("Idempotency-Key: {key}\r\n");
    }
    if let Some(body) = body {
        text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    } else if *method != "GET" {
        text += "Content-Length: 0\r\n";
    }
    let mut bytes = (text + "\r\n").into_bytes();
    bytes.extend_from_slice(body.unwrap_or_default());
    Ok(bytes)
}

/// The bytes of an answer, as they are read.
struct Input<R> {
    wire: R,
    until: Instant,
    read: Vec<u8>,
    at: usize,
}

/// Reads that can be given another limit of time.
trait Limited: Read {
    fn limited(&self, until: Instant) -> io::Result<()>;
}

impl Limited for Wire {
    fn limited(&self, until: Instant) -> io::Result<()> {
        self.limit(until)
    }
}

impl<R: Limited> Input<R> {
    /// Reads more; false: there is no more.
    fn fill(&mut self) -> io::Result<bool> {
        self.wire.limited(self.until)?;
        let mut piece = [0; 16 << 10];
        let count = self.wire.read(&mut piece)?;
        self.read.drain(..self.at);
        self.at = 0;
        self.read.extend_from_slice(&piece[..count]);
        Ok(count > 0)
    }

    /// A line without its end (CR LF).
    fn line(&mut self) -> io::Result<String> {
        let mut scanned = 0;
        loop {
            let here = &self.read[self.at..];
            if let Some(end) = here[scanned..].iter().position(|byte| *byte == b'\n').map(|end| end + scanned) {
                let line = here[..end].strip_suffix(b"\r").ok_or_else(|| wrong("a line ends without CR"))?;
                let line = std::str::from_utf8(line).map_err(|_| wrong("a line is no text"))?.to_owned();
                self.at += end + 1;
                return Ok(line);
            }
            scanned = here.len();
            if scanned > MAX_HEAD {
                return Err(wrong("a line without an end"));
            }
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// So many bytes, behind those of `to`.
    fn take(&mut self, count: usize, to: &mut Vec<u8>) -> io::Result<()> {
        if count > MAX_BODY.saturating_sub(to.len()) {
            return Err(wrong("the answer is too large"));
        }
        while self.read.len() - self.at < count {
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        to.extend_from_slice(&self.read[self.at..self.at + count]);
        self.at += count;
        Ok(())
    }
}

/// How a body ends.
enum BodyEnd {
    Length(usize),
    Chunks,
    Connection,
}

fn read<R: Limited>(input: &mut Input<R>) -> io::Result<HttpAnswer> {
    for _ in 0..=MAX_INTERIM {
        let (status, date, end) = head(input)?;
        if (100..200).contains(&status) {
            continue;
        }
        let body = match end {
            _ if status == 204 || status == 304 => Vec::new(),
            BodyEnd::Length(count) => {
                let mut body = Vec::new();
                input.take(count, &mut body)?;
                body
            }
            BodyEnd::Chunks => chunks(input)?,
            BodyEnd::Connection => {
                while input.fill()? {
                    if input.read.len() > MAX_BODY {
                        return Err(wrong("the answer is too large"));
                    }
                }
                input.read.split_off(input.at)
            }
        };
        return Ok(HttpAnswer { status, date, body });
    }
    Err(wrong("there are too many interim answers"))
}

/// Status, date, and how the body ends.
fn head<R: Limited>(input: &mut Input<R>) -> io::Result<(u16, Option<u64>, BodyEnd)> {
    let first = input.line()?;
    let code = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
    let code = code.and_then(|rest| rest.get(..3)).filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()));
    let status =
        code.and_then(|code| code.parse().ok()).ok_or_else(|| wrong("what answers there speaks no HTTP/1.1"))?;
    let (mut date, mut length, mut chunked, mut size) = (None, None, false, first.len());
    loop {
        let line = input.line()?;
        size += line.len() + 2;
        if line.is_empty() {
            break;
        }
        if size > MAX_HEAD {
            return Err(wrong("the head is too large"));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("a line of the head has no colon"))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let count = Some(value).filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
                let count: usize = count.and_then(|value| value.parse().ok()).ok_or_else(|| wrong("no length"))?;
                if length.replace(count).is_some_and(|before| before != count) {
                    return Err(wrong("two lengths"));
                }
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") && !chunked => chunked = true,
            "transfer-encoding" => return Err(wrong("a transfer encoding that is not known")),
            "date" => date = seconds(value),
            _ => {}
        }
    }
    let end = match (chunked, length) {
        (true, Some(_)) => return Err(wrong("a length, and chunks")),
        (true, None) => BodyEnd::Chunks,
        (false, Some(count)) => BodyEnd::Length(count),
        (false, None) => BodyEnd::Connection,
    };
    Ok((status, date, end))
}

/// A body in chunks (RFC 9112, section 7.1).
fn chunks<R: Limited>(input: &mut Input<R>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = input.line()?;
        let size = line.split(';').next().unwrap_or_default().trim_end();
        let plain = !size.is_empty() && size.len() <= 8 && size.bytes().all(|byte| byte.is_ascii_hexdigit());
        let size =
            usize::from_str_radix(size, 16).ok().filter(|_| plain).ok_or_else(|| wrong("a chunk without a size"))?;
        if size == 0 {
            // What may follow is of no use here, and the connection ends.
            return Ok(body);
        }
        input.take(size, &mut body)?;
        if !input.line()?.is_empty() {
            return Err(wrong("a chunk is longer than it says"));
        }
    }
}

/// Seconds since 1970 of an IMF-fixdate (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
fn seconds(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = words.next()?.split(':').map(|number| number.parse::<u64>().ok());
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    if words.next() != Some("GMT") || hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    // Days since 1 March of the year 0 (the year begins with March, so that a leap day is its last).
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Said(io::Cursor<Vec<u8>>);

    impl Read for Said {
        /// A byte at a time: pieces may break anywhere.
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = 1.min(to.len());
            self.0.read(&mut to[..count])
        }
    }

    impl Limited for Said {
        fn limited(&self, _: Instant) -> io::Result<()> {
            Ok(())
        }
    }

    fn heard(text: &[u8]) -> io::Result<HttpAnswer> {
        let wire = Said(io::Cursor::new(text.to_vec()));
        read(&mut Input { wire, until: Instant::now(), read: Vec::new(), at: 0 })
    }

    #[test]
    fn bodies_end_where_they_say() {
        let ok = |text: &[u8]| heard(text).map(|answer| (answer.status, answer.body)).unwrap();
        assert_eq!(ok(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"), (200, b"abc".to_vec()));
        assert_eq!(ok(b"HTTP/1.1 204 No Content\r\n\r\n"), (204, Vec::new()));
        assert_eq!(ok(b"HTTP/1.0 404 No\r\n\r\nto the end"), (404, b"to the end".to_vec()));
        let chunks = b"HTTP/1.1 100 x\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(ok(chunks), (200, b"abc0123456789".to_vec()));
        let dated = heard(b"HTTP/1.1 204 x\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n").unwrap();
        assert_eq!(dated.date, Some(784_111_777));
        assert_eq!(seconds("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for text in [
            &b""[..],
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 2\r\n\r\n",
            b"HTTP/1.1 200 OK\n\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
            b"HTTP/1.1 100 x\r\n\r\nHTTP/1.1 100 x\r\n\r\nHTTP/1.1 100 x\r\n\r\nHTTP/1.1 100 x\r\n\r\nHTTP/1.1 100 x\r\n\r\nHTTP/1.1 200 x\r\n\r\n",
            &[b'a'; 70_000],
        ] {
            assert!(heard(text).is_err(), "{:?}", String::from_utf8_lossy(&text[..text.len().min(80)]));
        }
        let request = HttpRequest { method: "GET", target: "/", key: "a\r\nX: y", body: None };
        assert!(written(&request, "b").is_err());
    }

    #[test]
    fn only_brokers_of_this_machine_are_named() {
        for good in
            ["/run/b.sock", "unix:/run/b.sock", "http://127.0.0.1:8080/", "http://[::1]:8080", "http://localhost:1"]
        {
            assert!(LocalBroker::parse(Some(good)).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "https://127.0.0.1:8443",
            "http://10.0.0.1:80",
            "http://example.org:80",
            "http://127.0.0.1",
            "ftp://x:1",
        ] {
            assert!(LocalBroker::parse(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
