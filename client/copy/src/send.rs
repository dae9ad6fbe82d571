//! The sending end: sends a file at the rate that is allowed at the moment.

use crate::allowance::{Allowance, Allowed};
use crate::error::Error;
use crate::pace;
use crate::protocol::{BLOCK, ReceiverReply, SenderHello, VERSION, hear, hex};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The limit of unsent bytes in the socket, roughly.
const HELD: u32 = 32 << 10;
/// The bytes of one write. The sender checks its rate before each.
const WRITE: usize = 8 << 10;
/// The interval at which a blocked sender checks its permission.
const LOOK: Duration = Duration::from_millis(200);
/// The longest wait for the receiver's check and answer.
const VERDICT: Duration = Duration::from_secs(600);
/// The longest wait for a connection, and for the receiver's first answer.
const CONNECT: Duration = Duration::from_secs(10);

/// A file to send, and its first message.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    hello: SenderHello,
}

/// The progress of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransferProgress {
    /// Bytes of the file that were sent or that the receiver had already.
    pub done: u64,
    /// The length of the file, in bytes.
    pub bytes: u64,
    /// The granted rate, bit/s of IP bytes.
    pub granted_bps: u64,
}

impl FileSource {
    /// Opens a file. `name` is its name at the receiver, by default the same as here.
    ///
    /// # Errors
    /// The file does not exist, is no plain file, or has no valid name.
    pub fn open(path: &Path, name: Option<&str>) -> Result<FileSource, Error> {
        let file = File::open(path).map_err(Error::doing(format!("open {}", path.display())))?;
        let about = file.metadata().map_err(Error::doing(format!("look at {}", path.display())))?;
        if !about.is_file() {
            return Err(Error::Usage(format!("{} is no plain file", path.display())));
        }
        let own = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.map(str::to_owned).or(own).unwrap_or_default();
        let changed = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let mut id = Sha256::new();
        id.update(name.as_bytes());
        id.update(about.len().to_le_bytes());
        id.update(changed.as_nanos().to_le_bytes());
        let id = hex(&id.finalize()[..16]);
        let hello = SenderHello { sluice_copy: VERSION, name, bytes: about.len(), id };
        hello.fault().map_or(Ok(()), |fault| Err(Error::Usage(fault)))?;
        Ok(FileSource { file, hello })
    }

    /// Returns the file's length, in bytes.
    pub fn bytes(&self) -> u64 {
        self.hello.bytes
    }

    /// Returns the file's identifier. The label of its reservation contains it.
    pub fn id(&self) -> &str {
        &self.hello.id
    }
}

/// Connects to the receiver.
///
/// # Errors
/// No receiver listens there.
pub fn connect(to: SocketAddr) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect_timeout(&to, CONNECT)
        .map_err(Error::doing(format!("connect to {to} (is `sluice copy --receive` there?)")))?;
    linux::tcp::hold_back(&stream, HELD)?;
    linux::tcp::keep_alive(&stream, Duration::from_secs(30))?;
    Ok(stream)
}

/// Sends the file from the receiver's offset on, and waits for the receiver's check. The edge's burst lasts
/// one round trip, `rtt`. Calls `tell` with the progress after every block.
///
/// # Errors
/// The connection broke ([`Error::World`]: another attempt continues), the reservation is over, the receiver
/// reports an error, or the user stopped it.
pub fn send(
    source: &mut FileSource,
    stream: &mut TcpStream,
    allowance: &Allowance,
    rtt: Duration,
    tell: &mut impl FnMut(TransferProgress),
) -> Result<(), Error> {
    let to = stream.peer_addr().map_err(Error::doing("see the other end"))?;
    stream.set_read_timeout(Some(CONNECT)).map_err(Error::doing("wait for the receiver"))?;
    stream.set_write_timeout(Some(LOOK)).map_err(Error::doing("wait for the receiver"))?;
    let mut pipe = Pipe { stream, allowance, to, paced: 0, schedule: Schedule::of(rtt) };
    let hello = serde_json::to_vec(&source.hello).map_err(|error| Error::World(error.to_string()))?;
    pipe.put(&[&hello[..], b"\n"].concat(), None)?;
    let offset = match hear(pipe.stream)? {
        ReceiverReply::Offset(offset) if offset <= source.hello.bytes => offset,
        ReceiverReply::Error(text) => return Err(Error::Peer(text)),
        other => return Err(Error::Peer(format!("{other:?} in place of an offset"))),
    };
    let mut digest = Sha256::new();
    let mut block = vec![0; BLOCK];
    std::io::Seek::rewind(&mut source.file).map_err(Error::doing("read the file again"))?;
    let mut progress = TransferProgress { bytes: source.hello.bytes, ..TransferProgress::default() };
    while progress.done < progress.bytes {
        // Up to the offset the receiver has it already, but the digest is of the whole.
        let until = if progress.done < offset { offset } else { progress.bytes };
        let most = (until - progress.done).min(BLOCK as u64) as usize;
        let n = source.file.read(&mut block[..most]).map_err(Error::doing("read the file"))?;
        if n == 0 {
            return Err(Error::Usage("the file became shorter while it was sent".into()));
        }
        digest.update(&block[..n]);
        if progress.done >= offset {
            pipe.put(&block[..n], Some(&mut progress.granted_bps))?;
        }
        progress.done += n as u64;
        tell(progress);
    }
    pipe.put(&digest.finalize(), None)?;
    pipe.stream.set_read_timeout(Some(VERDICT)).map_err(Error::doing("wait for the receiver"))?;
    match hear(pipe.stream)? {
        ReceiverReply::Done(bytes) if bytes == progress.bytes => Ok(()),
        ReceiverReply::Error(text) => Err(Error::Peer(text)),
        other => Err(Error::Peer(format!("{other:?} in place of \"done\""))),
    }
}

/// A connection that follows the allowed rate.
struct Pipe<'a> {
    stream: &'a mut TcpStream,
    allowance: &'a Allowance,
    to: SocketAddr,
    /// The pacing rate set in the kernel, bytes per second; 0: none yet.
    paced: u64,
    schedule: Schedule,
}

impl Pipe<'_> {
    /// Writes all bytes. With `granted` it stores the rate there, and waits while the rate is zero.
    fn put(&mut self, mut bytes: &[u8], mut granted: Option<&mut u64>) -> Result<(), Error> {
        let mut stuck: Option<Instant> = None;
        while !bytes.is_empty() {
            match self.allowance.now() {
                Allowed::Stopped => return Err(Error::Interrupted),
                Allowed::Over(why) => return Err(Error::Over(why)),
                Allowed::Rate(rate) => {
                    if let Some(granted) = &mut granted {
                        **granted = rate;
                        if rate == 0 {
                            self.schedule.since = None;
                            self.schedule.rate = 0;
                            self.allowance.wait(LOOK);
                            continue;
                        }
                    }
                    self.pace(rate)?;
                }
            }
            match self.stream.write(&bytes[..bytes.len().min(WRITE)]) {
                Ok(0) => return Err(Error::World("the receiver went away".into())),
                Ok(n) => {
                    stuck = None;
                    bytes = &bytes[n..];
                    self.schedule.sent += n as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if stuck.get_or_insert_with(Instant::now).elapsed() > VERDICT {
                        return Err(Error::World("the receiver has not taken anything for ten minutes".into()));
                    }
                }
                Err(error) => return Err(Error::doing("send")(error)),
            }
        }
        Ok(())
    }

    fn pace(&mut self, grant_bps: u64) -> Result<(), Error> {
        let rate = self.schedule.pace(pace::payload_rate(grant_bps, &self.to), Instant::now());
        if rate > 0 && rate != self.paced {
            linux::tcp::pace(self.stream, rate)?;
            self.paced = rate;
        }
        Ok(())
    }
}

/// The distance of a sender from its rate. A busy host delays the sender; it may send the missed bytes later,
/// a little faster, out of the burst that the edge has kept for it.
#[derive(Debug)]
struct Schedule {
    /// The longest delay that is made up for, microseconds: most of the edge's burst.
    most: u64,
    /// The rate of payload, bytes per second.
    rate: u64,
    /// The start of this rate.
    since: Option<Instant>,
    /// The bytes sent since `since`.
    sent: u64,
}

/// The delay above which a sender runs at 1.5 times its rate, microseconds.
const BEHIND: u64 = 5_000;

impl Schedule {
    /// Creates a schedule for a flow whose burst lasts one round trip.
    fn of(rtt: Duration) -> Schedule {
        let most = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX) / 5 * 4;
        Schedule { most, rate: 0, since: None, sent: 0 }
    }

    /// Returns the rate to send at now, bytes per second.
    fn pace(&mut self, rate: u64, now: Instant) -> u64 {
        if rate != self.rate {
            *self = Schedule { rate, since: Some(now), sent: 0, ..*self };
        }
        let since = *self.since.get_or_insert(now);
        let of_time = |us: u64| u64::try_from(u128::from(rate) * u128::from(us) / 1_000_000).unwrap_or(u64::MAX);
        let due = of_time(now.duration_since(since).as_micros().min(u64::MAX.into()) as u64);
        let behind = due.saturating_sub(self.sent);
        if behind > of_time(self.most) {
            self.sent = due - of_time(self.most);
        }
        if behind > of_time(BEHIND) { rate.saturating_add(rate / 2) } else { rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_held_up_catches_up_and_no_more() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut schedule = Schedule::of(Duration::from_millis(75));
        assert_eq!(schedule.pace(1_000_000, at(0)), 1_000_000);
        schedule.sent = 100_000;
        assert_eq!(schedule.pace(1_000_000, at(100)), 1_000_000, "on time");
        assert_eq!(schedule.pace(1_000_000, at(120)), 1_500_000, "20 ms behind");
        schedule.sent += 16_000;
        assert_eq!(schedule.pace(1_000_000, at(120)), 1_000_000, "and no more");
        assert_eq!(schedule.pace(1_000_000, at(10_120)), 1_500_000);
        assert_eq!(schedule.sent, 10_060_000, "of ten seconds 60 ms are made good");
        assert_eq!(schedule.pace(500_000, at(10_120)), 500_000, "another rate, another schedule");
        assert_eq!(schedule.pace(u64::MAX, at(99_000)), u64::MAX, "no rate is too large");
    }
}
