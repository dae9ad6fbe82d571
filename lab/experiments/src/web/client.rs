//! The seed's web client: one GET after the other, each over a connection of its own.
//!
//! It reads no faster than the seed's hosts could send, 41 Mb/s; a small receive buffer tells the server so. That limit was
//! the hosts', not the network's, and without it a transfer alone would take the whole link.

use bed::error::Error;
use bed::host::Host;
use bed::patience::Patience;
use linux::error::SystemError;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use terms::Rate;

/// The bytes of one read.
const CHUNK: usize = 8 << 10;
/// The receive buffer, bytes.
const WINDOW: u32 = 192 << 10;
/// The largest delay that the reader makes up for.
const CATCH_UP: Duration = Duration::from_millis(5);
/// The longest wait in one call.
const LOOK: Duration = Duration::from_millis(100);
/// The pause after a request that failed.
const AGAIN: Duration = Duration::from_millis(10);

/// The result of several requests.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Fetched {
    /// Bytes that came, of all requests.
    pub bytes: u64,
    /// Requests that ended with the whole file.
    pub whole: u32,
    /// Requests whose connection was refused or reset.
    pub failed: u32,
    /// The time from each request to its end, of all together.
    pub transfer: Duration,
    /// The time that all took: also connecting.
    pub took: Duration,
}

impl Fetched {
    /// Returns the throughput of the transfers, Mb/s of payload; 0 if there was none.
    pub fn mbps(&self) -> f64 {
        rate(self.bytes, self.transfer)
    }

    /// Returns the same with the time that connecting took.
    pub fn mbps_with_connecting(&self) -> f64 {
        rate(self.bytes, self.took)
    }
}

fn rate(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / 1e6 / time.as_secs_f64() }
}

/// The requests of a batch.
#[derive(Clone, Copy, Debug)]
pub struct FetchBatch {
    /// The server.
    pub server: SocketAddr,
    /// The length of its file, with its header at least this.
    pub file: u64,
    /// The number of requests.
    pub count: u32,
    /// The time after which the batch ends with what it has.
    pub limit: Duration,
    /// The rate of reading, payload.
    pub pace: Rate,
}

impl FetchBatch {
    /// Fetches from a host.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the user stops the run.
    pub fn fetch(&self, from: &Host, patience: &Patience) -> Result<Fetched, Error> {
        let begin = Instant::now();
        let mut all = Fetched::default();
        for _ in 0..self.count {
            patience.check()?;
            let left = self.limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            let stream = match from.namespace.run(|| TcpStream::connect_timeout(&self.server, left))? {
                Ok(stream) => stream,
                Err(error) => {
                    // What was cut off by the time limit has not failed.
                    all.failed += u32::from(error.kind() != ErrorKind::TimedOut);
                    patience.wait(AGAIN)?;
                    continue;
                }
            };
            let asked = Instant::now();
            let (bytes, ended) = self.read(stream, begin + self.limit)?;
            all.bytes += bytes;
            all.transfer += asked.elapsed();
            match ended {
                true if bytes >= self.file => all.whole += 1,
                true => all.failed += 1,
                false => {}
            }
        }
        all.took = begin.elapsed();
        Ok(all)
    }

    /// Asks for the file and reads to its end, or until a time. Returns the bytes, and whether the server ended it.
    fn read(&self, mut stream: TcpStream, until: Instant) -> Result<(u64, bool), Error> {
        let set = |result: std::io::Result<()>| result.map_err(SystemError::doing("set up a connection"));
        linux::tcp::receive_at_most(&stream, WINDOW)?;
        set(stream.set_read_timeout(Some(LOOK)))?;
        set(stream.set_nodelay(true))?;
        if stream.write_all(b"GET /file HTTP/1.0\r\n\r\n").is_err() {
            return Ok((0, true));
        }
        let mut buffer = [0; CHUNK];
        let (mut begin, mut paced, mut bytes) = (Instant::now(), 0u64, 0u64);
        while Instant::now() < until {
            let due = begin + Duration::from_nanos(paced * 8 * 1_000_000_000 / self.pace.as_bps().max(1));
            let now = Instant::now();
            if due > now {
                std::thread::sleep((due - now).min(LOOK));
                continue;
            }
            if now - due > CATCH_UP {
                (begin, paced) = (now, 0);
            }
            match stream.read(&mut buffer) {
                Ok(0) => return Ok((bytes, true)),
                Ok(n) => {
                    bytes += n as u64;
                    paced += n as u64;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return Ok((bytes, true)),
            }
        }
        Ok((bytes, false))
    }
}
