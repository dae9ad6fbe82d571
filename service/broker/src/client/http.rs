//! One request over one connection, by hyper's HTTP/1.1: the caller waits for the answer, of which the head and
//! the body have a limit each.

use super::endpoint::{BrokerEndpoint, Wire};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header;
use hyper_util::rt::TokioIo;
use std::error::Error as _;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;
use tokio::runtime::{self, Runtime};
use tokio::time::{sleep, timeout};

/// The longest silence before a broker's answer; it waits for its agents itself.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The pause before the others of several brokers are looked at, and the longest look at one.
const LOOK: Duration = Duration::from_secs(1);
/// The longest head, bytes.
const MAX_HEAD: usize = 64 << 10;
/// The most that is read of an answer, bytes.
const MAX_BODY: u64 = 64 << 20;

/// A request.
pub(super) struct Request<'a> {
    pub method: &'a str,
    /// Path and query, encoded already.
    pub target: &'a str,
    pub host: String,
    /// The idempotency key; empty: none.
    pub key: &'a str,
    /// The token of a virtual organisation; empty: none.
    pub token: &'a str,
    /// The user for whom it is made, with the groups; empty: who asks.
    pub user: &'a str,
    pub body: Option<Vec<u8>>,
}

/// An answer, its body yet to be read.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    body: Body,
}

/// A body that blocks its reader until more of it comes.
#[derive(Debug)]
struct Body {
    /// Drives the connection during each wait for the body.
    runtime: Runtime,
    incoming: Incoming,
    /// The bytes that have come and were not read yet.
    left: Bytes,
    silence: Duration,
}

/// The reason why there is no answer.
#[derive(Debug)]
pub(super) enum AskFailure {
    /// There was no connection: the request was not sent.
    Unreached(io::Error),
    /// The connection broke, or no answer came in time: the request may have been carried out.
    Broken(io::Error),
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// The system's or the TLS session's own error, if hyper's has one for a reason.
fn plain(error: hyper::Error) -> io::Error {
    let mut source = error.source();
    while let Some(reason) = source {
        if let Some(reason) = reason.downcast_ref::<io::Error>() {
            return io::Error::new(reason.kind(), reason.to_string());
        }
        source = reason.source();
    }
    if error.is_incomplete_message() {
        return io::ErrorKind::UnexpectedEof.into();
    }
    if error.is_parse() {
        return wrong("what answers there is no broker: it does not speak HTTP/1.1");
    }
    io::Error::other(error.to_string())
}

/// Connects, sends a request, and reads the head of the answer. It is not waited for any more when one of `others` leads.
pub(super) fn ask(
    connect: impl Future<Output = io::Result<Box<dyn Wire>>>,
    request: Request<'_>,
    silence: Duration,
    others: &[&BrokerEndpoint],
) -> Result<Reply, AskFailure> {
    let request = written(request).map_err(AskFailure::Unreached)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(AskFailure::Unreached)?;
    let wire = runtime.block_on(connect).map_err(AskFailure::Unreached)?;
    let answer = runtime.block_on(async {
        tokio::select! {
            answer = timeout(silence, exchange(wire, request)) => answer?,
            () = another_leads(others) => Err(io::Error::new(io::ErrorKind::TimedOut, "another broker leads by now")),
        }
    });
    let answer = answer.map_err(AskFailure::Broken)?;
    let status = answer.status().as_u16();
    let body = Body { runtime, incoming: answer.into_body(), left: Bytes::new(), silence };
    Ok(Reply { status, body })
}

/// Completes when one of these brokers leads, which are looked at from time to time: one that is stopped takes
/// connections and says nothing.
async fn another_leads(others: &[&BrokerEndpoint]) {
    loop {
        sleep(LOOK).await;
        for door in others {
            if timeout(LOOK, leads(door)).await.is_ok_and(|leads| leads.unwrap_or(false)) {
                return;
            }
        }
    }
}

async fn leads(door: &BrokerEndpoint) -> io::Result<bool> {
    let request =
        Request { method: "GET", target: "/v1/me", host: door.host(), key: "", token: "", user: "", body: None };
    let answer = exchange(door.connect().await?, written(request)?).await?;
    Ok(answer.status().as_u16() < 500)
}

fn written(request: Request<'_>) -> io::Result<hyper::Request<Full<Bytes>>> {
    let Request { method, target, host, key, token, user, body } = request;
    if !key.chars().chain(token.chars()).all(|c| c.is_ascii_graphic()) {
        return Err(wrong("a key or a token has visible ASCII characters only"));
    }
    let mut head = hyper::Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, host)
        .header(header::CONNECTION, "close");
    if !key.is_empty() {
        head = head.header("idempotency-key", key);
    }
    if !token.is_empty() {
        head = head.header("sluice-token", token);
    }
    if !user.is_empty() {
        head = head.header("sluice-for", user);
    }
    if body.is_some() {
        head = head.header(header::CONTENT_TYPE, "application/json");
    }
    head.body(Full::from(body.unwrap_or_default())).map_err(|error| wrong(&error.to_string()))
}

async fn exchange(wire: Box<dyn Wire>, request: hyper::Request<Full<Bytes>>) -> io::Result<hyper::Response<Incoming>> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(wire)).await.map_err(plain)?;
    // Its errors come out where the answer or the body is waited for.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(plain)
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

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() {
            let Body { runtime, incoming, silence, .. } = self;
            match runtime.block_on(async { timeout(*silence, incoming.frame()).await })? {
                Some(frame) => self.left = frame.map_err(plain)?.into_data().unwrap_or_default(),
                None => return Ok(0),
            }
        }
        let read = self.left.len().min(buffer.len());
        buffer[..read].copy_from_slice(&self.left.split_to(read));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    async fn over(socket: UnixStream) -> io::Result<Box<dyn Wire>> {
        socket.set_nonblocking(true)?;
        Ok(Box::new(tokio::net::UnixStream::from_std(socket)?))
    }

    fn reason(failure: AskFailure) -> io::Error {
        match failure {
            AskFailure::Unreached(error) | AskFailure::Broken(error) => error,
        }
    }

    /// The client's answer or error for these bytes.
    fn heard(bytes: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        let other = std::thread::spawn(move || {
            let _ = theirs.read(&mut [0; 4096]);
            let _ = theirs.write_all(&bytes);
        });
        let request =
            Request { method: "GET", target: "/", host: "b".into(), key: "", token: "", user: "", body: None };
        let said = ask(over(ours), request, Duration::from_secs(5), &[]).map_err(reason);
        let said = said.and_then(|mut reply| Ok((reply.status(), reply.text()?)));
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
        let request =
            Request { method: "GET", target: "/", host: "b".into(), key: "a\r\nX: y", token: "", user: "", body: None };
        assert!(ask(over(UnixStream::pair().unwrap().0), request, PATIENCE, &[]).is_err());
    }

    #[test]
    fn a_silent_peer_is_waited_for_so_long_and_no_longer() {
        let request =
            || Request { method: "GET", target: "/", host: "b".into(), key: "", token: "", user: "", body: None };
        let silence = Duration::from_millis(50);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(reason(ask(over(ours), request(), silence, &[]).unwrap_err()).kind(), io::ErrorKind::TimedOut);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").unwrap();
        let mut reply = ask(over(ours), request(), Duration::from_secs(5), &[]).unwrap();
        reply.body.silence = silence;
        assert_eq!(reply.text().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
