//! The little of HTTP that one request to a broker on its Unix socket needs.

use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The time limit for an answer. It is long because a broker waits for its agents.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest answer that is read, bytes.
const MOST: u64 = 8 << 20;

/// Sends a request and returns the status and document of the answer. Any error counts as no answer.
pub fn ask(socket: &Path, method: &str, path: &str, key: &str, body: &Value) -> io::Result<(u16, Value)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: b\r\nConnection: close\r\nContent-Type: application/json\r\n{key}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())?;
    let mut text = String::new();
    stream.take(MOST).read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    if body.is_empty() {
        return Ok((status, Value::Null));
    }
    Ok((status, serde_json::from_str(body)?))
}
