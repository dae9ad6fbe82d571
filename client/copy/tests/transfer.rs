//! Files from one end to the other over loopback: whole, broken off and gone on with, at the rate that is allowed, and
//! what a stranger may try.

use copy::Error;
use copy::allowance::Allowance;
use copy::receive::{FinishedTransfer, TransferStore, UnderWay, serve, take};
use copy::send::{FileSource, TransferProgress, connect, send};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const RTT: Duration = Duration::from_millis(100);

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sluice-copy-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("there")).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str, bytes: usize) -> (PathBuf, Vec<u8>) {
        let content: Vec<u8> = (0..bytes as u64).map(|n| ((n * n) >> 7) as u8).collect();
        let path = self.0.join(name);
        fs::write(&path, &content).expect("written");
        (path, content)
    }

    fn there(&self) -> PathBuf {
        self.0.join("there")
    }

    fn arrived(&self) -> Vec<String> {
        let entries = fs::read_dir(self.there()).expect("a folder").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A receiver that runs until the test is over.
fn receiver(store: TransferStore) -> (SocketAddr, Receiver<FinishedTransfer>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    let (tell, heard) = channel();
    std::thread::spawn(move || serve(&listener, &store, move |received| drop(tell.send(received))));
    (address, heard)
}

fn allowed(bps: u64) -> Allowance {
    let allowance = Allowance::new();
    allowance.set(bps);
    allowance
}

fn copy(path: &Path, to: SocketAddr, allowance: &Allowance) -> Result<TransferProgress, Error> {
    let mut source = FileSource::open(path, None)?;
    let mut last = TransferProgress::default();
    send(&mut source, &mut connect(to)?, allowance, RTT, &mut |progress| last = progress)?;
    Ok(last)
}

fn next(heard: &Receiver<FinishedTransfer>) -> FinishedTransfer {
    heard.recv_timeout(Duration::from_secs(10)).expect("told")
}

#[test]
fn a_file_arrives_whole_and_nothing_is_written_over() {
    let folder = Folder::new("whole");
    let (path, content) = folder.file("a.dat", 3_000_001);
    let (to, heard) = receiver(TransferStore::Folder(folder.there()));
    for (n, name) in ["a.dat", "a.dat.1", "a.dat.2"].into_iter().enumerate() {
        let done = copy(&path, to, &allowed(u64::MAX)).expect("copied");
        assert_eq!((done.done, done.bytes), (3_000_001, 3_000_001));
        assert_eq!(next(&heard).result.expect("received"), 3_000_001);
        assert_eq!(folder.arrived().len(), n + 1);
        assert!(fs::read(folder.there().join(name)).expect("there") == content);
    }
    let (empty, _) = folder.file("empty", 0);
    copy(&empty, to, &allowed(1)).expect("copied");
    assert_eq!(fs::read(folder.there().join("empty")).expect("there"), b"");
}

#[test]
fn what_broke_off_goes_on_where_it_was() {
    let folder = Folder::new("resume");
    let (path, content) = folder.file("big.dat", 4_000_000);
    let (to, heard) = receiver(TransferStore::Folder(folder.there()));
    // 8 Mb/s: it would take four seconds; stopped in the middle.
    let allowance = allowed(8_000_000);
    let stopper = allowance.clone();
    let mut source = FileSource::open(&path, None).expect("there");
    let mut stopped_at = 0;
    let result = send(&mut source, &mut connect(to).expect("connects"), &allowance, RTT, &mut |progress| {
        if progress.done > 1_000_000 {
            stopper.stop();
        }
        stopped_at = progress.done;
    });
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert!(next(&heard).result.is_err());
    let part = folder.arrived();
    assert!(part.len() == 1 && part[0].starts_with("big.dat.") && part[0].ends_with(".part"), "{part:?}");
    let kept = fs::metadata(folder.there().join(&part[0])).expect("there").len();
    assert!(kept > 0 && kept <= stopped_at, "{kept} of {stopped_at}");
    let mut rates = Vec::new();
    let mut again = FileSource::open(&path, None).expect("there");
    send(&mut again, &mut connect(to).expect("connects"), &allowed(u64::MAX), RTT, &mut |p| rates.push(p))
        .expect("copied");
    // What was there was hashed, not sent: nothing is granted for it.
    assert!(rates.iter().any(|p| p.done == kept && p.granted_bps == 0), "it began at {kept}");
    assert_eq!(next(&heard).result.expect("received"), 4_000_000);
    assert_eq!(folder.arrived(), ["big.dat"]);
    assert!(fs::read(folder.there().join("big.dat")).expect("there") == content);
}

#[test]
fn the_rate_follows_what_is_allowed_and_nothing_goes_while_nothing_is() {
    let folder = Folder::new("rate");
    let (path, _) = folder.file("rate.dat", 3_000_000);
    let (to, heard) = receiver(TransferStore::Nowhere);
    let allowance = Allowance::new();
    let changer = allowance.clone();
    // Nothing for 300 ms, 16 Mb/s for half a second (about 1 MB), then as fast as can be.
    let steps = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        changer.set(16_000_000);
        std::thread::sleep(Duration::from_millis(500));
        changer.set(u64::MAX);
    });
    let begin = Instant::now();
    let mut marks = Vec::new();
    let mut source = FileSource::open(&path, None).expect("there");
    send(&mut source, &mut connect(to).expect("connects"), &allowance, RTT, &mut |p| {
        marks.push((begin.elapsed(), p.done));
    })
    .expect("copied");
    steps.join().expect("no panic");
    assert_eq!(next(&heard).result.expect("received"), 3_000_000);
    let by = |ms: u64| marks.iter().filter(|(at, _)| at.as_millis() < u128::from(ms)).map(|(_, done)| *done).max();
    assert_eq!(by(300), None, "nothing while nothing is allowed");
    let half = by(800).unwrap_or(0);
    assert!((400_000..1_500_000).contains(&half), "{half} bytes at 16 Mb/s in half a second");
}

#[test]
fn the_end_of_the_reservation_and_a_receiver_that_is_not_there_are_told() {
    let folder = Folder::new("ends");
    let (path, _) = folder.file("x.dat", 200_000);
    let (to, _heard) = receiver(TransferStore::Nowhere);
    let over = Allowance::new();
    over.end("the reservation has ended");
    assert!(matches!(copy(&path, to, &over), Err(Error::Over(why)) if why.contains("ended")));
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address");
    assert!(matches!(copy(&path, nobody, &allowed(1)), Err(Error::World(why)) if why.contains("--receive")));
    assert!(matches!(copy(&folder.there(), to, &allowed(1)), Err(Error::Usage(_))), "a folder is no file");
    assert!(matches!(copy(&folder.0.join("none"), to, &allowed(1)), Err(Error::World(_))));
}

#[test]
fn strangers_write_nothing_outside_and_break_nothing() {
    let folder = Folder::new("strangers");
    let (to, heard) = receiver(TransferStore::Folder(folder.there()));
    let id = "0".repeat(32);
    let nonsense = [
        "GET / HTTP/1.1\r\n\r\n".to_string(),
        "{}\n".into(),
        format!("{{\"sluice_copy\":1,\"name\":\"../evil\",\"bytes\":3,\"id\":\"{id}\"}}\nabc"),
        format!("{{\"sluice_copy\":1,\"name\":\"/etc/x\",\"bytes\":3,\"id\":\"{id}\"}}\nabc"),
        format!("{{\"sluice_copy\":1,\"name\":\"x\",\"bytes\":3,\"id\":\"../../{}\"}}\nabc", "0".repeat(26)),
        format!("{{\"sluice_copy\":1,\"name\":\"x\",\"bytes\":18446744073709551615,\"id\":\"{id}\"}}\n"),
        "x".repeat(100_000),
        // The right number of bytes with another digest.
        format!("{{\"sluice_copy\":1,\"name\":\"x\",\"bytes\":3,\"id\":\"{id}\"}}\nabc{}", "d".repeat(32)),
    ];
    for words in nonsense {
        let mut stream = TcpStream::connect(to).expect("connects");
        // It may be refused before all of it is written.
        let _ = stream.write_all(words.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(next(&heard).result.is_err(), "{words:.60}");
    }
    assert_eq!(folder.arrived(), Vec::<String>::new());
    assert!(!folder.0.join("evil").exists());
    // And it still works.
    let (path, _) = folder.file("fine", 10);
    copy(&path, to, &allowed(u64::MAX)).expect("copied");
    assert_eq!(folder.arrived(), ["fine"]);
}

#[test]
fn one_file_is_received_by_one_transfer_at_a_time() {
    let folder = Folder::new("twice");
    let (path, _) = folder.file("twice.dat", 2_000_000);
    let (to, heard) = receiver(TransferStore::Folder(folder.there()));
    let slow = allowed(1_000_000);
    let (first, path_of_first) = (slow.clone(), path.clone());
    let one = std::thread::spawn(move || copy(&path_of_first, to, &first));
    std::thread::sleep(Duration::from_millis(200));
    let other = copy(&path, to, &allowed(u64::MAX));
    assert!(matches!(&other, Err(Error::Peer(why)) if why.contains("already")), "{other:?}");
    assert!(next(&heard).result.is_err());
    slow.set(u64::MAX);
    one.join().expect("no panic").expect("copied");
    assert_eq!(next(&heard).result.expect("received"), 2_000_000);
    // A sender that says nothing is sent away.
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let silent = TcpStream::connect(listener.local_addr().expect("address")).expect("connects");
    drop(silent);
    let (stream, _) = listener.accept().expect("accept");
    assert!(take(stream, &TransferStore::Nowhere, &UnderWay::default()).1.is_err());
}
