//! The receiving end: stores files in one folder, one connection for each.
//!
//! A file is `NAME.ID.part` until it is complete and its digest is right; then it gets its name. A partial
//! file stays, and the next transfer of the same file continues there.

use crate::error::Error;
use crate::protocol::{BLOCK, DIGEST, ReceiverReply, SenderHello, hear, say};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The largest number of transfers at the same time.
pub const MOST: usize = 64;
/// The longest wait for a peer's first message. A peer that is silent for longer may lose its place.
const MANNERS: Duration = Duration::from_secs(10);
/// The interval of TCP keep-alives. A suspended sender may be silent for long.
const SILENCE: Duration = Duration::from_secs(30);

/// The destination of received files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransferStore {
    /// Files go into this folder.
    Folder(PathBuf),
    /// Files are counted and checked, but not stored.
    Nowhere,
}

/// A transfer that ended, with success or without.
#[derive(Debug)]
pub struct FinishedTransfer {
    /// The sender's address.
    pub from: SocketAddr,
    /// The file's name; empty if the sender gave no valid one.
    pub name: String,
    /// The file's length in bytes, or the reason why the transfer failed.
    pub result: Result<u64, Error>,
}

/// Accepts transfers in parallel until the listener fails. Calls `tell` for each that ends.
///
/// # Errors
/// The listener failed.
pub fn serve(
    listener: &TcpListener,
    store: &TransferStore,
    tell: impl Fn(FinishedTransfer) + Send + Sync,
) -> Result<(), Error> {
    let under_way = UnderWay::default();
    let (tell, under_way) = (&tell, &under_way);
    std::thread::scope(|scope| {
        loop {
            let (stream, from) = listener.accept().map_err(Error::doing("accept a transfer"))?;
            let seat = under_way.sit(&stream);
            let Some(seat) = seat else {
                // Told if it can be told; either way it ends here.
                let _ = say(
                    &mut &stream,
                    &ReceiverReply::Error(format!("{MOST} transfers are under way: try again later")),
                );
                continue;
            };
            scope.spawn(move || {
                let (name, result) = take_on(stream, store, under_way, &seat);
                under_way.rise(&seat);
                tell(FinishedTransfer { from, name, result });
            });
        }
    })
}

/// The transfers in progress.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// The open connections.
    seats: Mutex<Vec<Arc<Seat>>>,
    /// The identifiers of the files. Two senders of one file would overwrite each other's bytes.
    files: Mutex<BTreeSet<String>>,
}

/// A connection, and the time of its last bytes.
#[derive(Debug)]
struct Seat {
    /// `None`: another thread cannot shut the connection down.
    stream: Option<TcpStream>,
    begun: Instant,
    /// The time of the last bytes, milliseconds after `begun`.
    heard: AtomicU64,
}

impl Seat {
    fn of(stream: &TcpStream) -> Seat {
        Seat { stream: stream.try_clone().ok(), begun: Instant::now(), heard: AtomicU64::new(0) }
    }

    fn hear(&self) {
        self.heard.store(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    fn silent(&self) -> Duration {
        self.begun.elapsed().saturating_sub(Duration::from_millis(self.heard.load(Relaxed)))
    }
}

impl UnderWay {
    /// Registers a new connection. If all seats are taken, closes the one that has been silent longest,
    /// provided that is at least `MANNERS`. Its sender can continue later from the same byte.
    fn sit(&self, stream: &TcpStream) -> Option<Arc<Seat>> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.len() >= MOST {
            let longest = (0..seats.len()).max_by_key(|n| seats[*n].silent())?;
            if seats[longest].silent() < MANNERS {
                return None;
            }
            let idle = seats.swap_remove(longest);
            // Its thread ends with the connection.
            let _ = idle.stream.as_ref()?.shutdown(std::net::Shutdown::Both);
        }
        let seat = Arc::new(Seat::of(stream));
        seats.push(seat.clone());
        Some(seat)
    }

    fn rise(&self, seat: &Arc<Seat>) {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, seat));
    }

    fn files(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives one transfer.
pub fn take(stream: TcpStream, store: &TransferStore, under_way: &UnderWay) -> (String, Result<u64, Error>) {
    let seat = Seat::of(&stream);
    take_on(stream, store, under_way, &seat)
}

fn take_on(
    mut stream: TcpStream,
    store: &TransferStore,
    under_way: &UnderWay,
    seat: &Seat,
) -> (String, Result<u64, Error>) {
    let mut name = String::new();
    let result = greet(&mut stream, &mut name).and_then(|hello| {
        if !under_way.files().insert(hello.id.clone()) {
            return Err(Error::Usage(format!("{} is being received already", hello.name)));
        }
        let result = receive(&mut stream, store, &hello, seat);
        under_way.files().remove(&hello.id);
        result
    });
    if let Err(error) = &result {
        // If the connection broke, this message cannot arrive.
        let _ = say(&mut stream, &ReceiverReply::Error(error.to_string()));
    }
    (name, result)
}

fn greet(stream: &mut TcpStream, name: &mut String) -> Result<SenderHello, Error> {
    stream.set_read_timeout(Some(MANNERS)).map_err(Error::doing("wait for a transfer"))?;
    let hello: SenderHello = hear(stream)?;
    if let Some(fault) = hello.fault() {
        return Err(Error::Usage(fault));
    }
    name.clone_from(&hello.name);
    stream.set_read_timeout(None).map_err(Error::doing("wait for bytes"))?;
    linux::tcp::keep_alive(stream, SILENCE)?;
    Ok(hello)
}

fn receive(stream: &mut TcpStream, store: &TransferStore, hello: &SenderHello, seat: &Seat) -> Result<u64, Error> {
    let mut target = Target::open(store, hello)?;
    say(stream, &ReceiverReply::Offset(target.length))?;
    let mut block = vec![0; BLOCK];
    while target.length < hello.bytes {
        let most = (hello.bytes - target.length).min(BLOCK as u64) as usize;
        match stream.read(&mut block[..most]) {
            Ok(0) => return Err(Error::World("the sender went away in the middle".into())),
            Ok(n) => {
                seat.hear();
                target.put(&block[..n])?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::doing("read from the sender")(error)),
        }
    }
    let mut digest = [0; DIGEST];
    stream.read_exact(&mut digest).map_err(Error::doing("read the digest"))?;
    target.finish(&digest)?;
    say(stream, &ReceiverReply::Done(hello.bytes))?;
    Ok(hello.bytes)
}

/// A file in the course of its transfer.
struct Target {
    file: Option<(File, PathBuf, PathBuf)>,
    length: u64,
    digest: Sha256,
}

impl Target {
    /// Opens the partial file, or starts an empty one.
    fn open(store: &TransferStore, hello: &SenderHello) -> Result<Target, Error> {
        let mut target = Target { file: None, length: 0, digest: Sha256::new() };
        let TransferStore::Folder(folder) = store else { return Ok(target) };
        let part = folder.join(format!("{}.{}.part", hello.name, hello.id));
        let mut file = linux::files::open_plain(&part).map_err(Error::doing(format!("open {}", part.display())))?;
        let there = file.metadata().map_err(Error::doing("look at what has arrived"))?.len();
        if there > hello.bytes {
            file.set_len(0).map_err(Error::doing("begin again"))?;
        }
        let mut block = vec![0; BLOCK];
        loop {
            match file.read(&mut block).map_err(Error::doing("read what has arrived"))? {
                0 => break,
                n => {
                    target.digest.update(&block[..n]);
                    target.length += n as u64;
                }
            }
        }
        file.seek(SeekFrom::Start(target.length)).map_err(Error::doing("go to the end of what has arrived"))?;
        target.file = Some((file, part, free_name(folder, &hello.name)));
        Ok(target)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some((file, part, _)) = &mut self.file {
            file.write_all(bytes).map_err(Error::doing(format!("write {}", part.display())))?;
        }
        self.digest.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Gives the complete file its name, if the digest is right.
    fn finish(self, expected: &[u8; DIGEST]) -> Result<(), Error> {
        let right = self.digest.finalize()[..] == expected[..];
        let Some((file, part, name)) = self.file else {
            return if right { Ok(()) } else { Err(other_bytes()) };
        };
        if !right {
            fs::remove_file(&part).map_err(Error::doing(format!("remove {}", part.display())))?;
            return Err(other_bytes());
        }
        file.sync_all().map_err(Error::doing(format!("write {} to the disk", part.display())))?;
        fs::rename(&part, &name).map_err(Error::doing(format!("rename {} to {}", part.display(), name.display())))
    }
}

fn other_bytes() -> Error {
    Error::World("what arrived is not what was sent; begin again".into())
}

/// Returns a path with this name that is not taken, with a number if needed. No file is overwritten.
fn free_name(folder: &Path, name: &str) -> PathBuf {
    let first = folder.join(name);
    let numbered = (1..u32::MAX).map(|n| folder.join(format!("{name}.{n}")));
    std::iter::once(first.clone()).chain(numbered).find(|path| !path.exists()).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 silent connections kept every other sender out.
    #[test]
    fn who_is_silent_for_longest_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (under_way, mut peers, mut seats) = (UnderWay::default(), Vec::new(), Vec::new());
        for _ in 0..MOST {
            peers.push(peer());
            seats.push(under_way.sit(&listener.accept().unwrap().0).unwrap());
        }
        peers.push(peer());
        let (late, _) = listener.accept().unwrap();
        assert!(under_way.sit(&late).is_none(), "all of them were heard a moment ago");
        // One of them has said nothing for longer than manners allow, another for longer still, but has just been heard.
        let long_ago = |seat: &Arc<Seat>, span| {
            let begun = Instant::now().checked_sub(span).unwrap();
            Arc::new(Seat {
                stream: seat.stream.as_ref().map(|s| s.try_clone().unwrap()),
                begun,
                heard: AtomicU64::new(0),
            })
        };
        let (silent, busy) = (long_ago(&seats[7], MANNERS * 2), long_ago(&seats[9], MANNERS * 3));
        busy.hear();
        {
            let mut there = under_way.seats.lock().unwrap();
            (there[7], there[9]) = (silent, busy);
        }
        let seat = under_way.sit(&late).expect("a seat");
        assert_eq!(peers[7].read(&mut [0; 1]).unwrap(), 0, "the silent one is cut off");
        peers[9].set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(peers[9].read(&mut [0; 1]).is_err(), "the busy one is not");
        under_way.rise(&seat);
        assert_eq!(under_way.seats.lock().unwrap().len(), MOST - 1);
    }
}
