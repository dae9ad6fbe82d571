//! A TCP flow between two hosts. The sender offers a constant rate, or is greedy, as the seed's ttcp: it writes
//! whatever the socket accepts. The receiver may work on every byte.

use super::digest::Digest;
use bed::host::Host;
use documents::book::FlowDoc;
use linux::error::SystemError;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use terms::Rate;

/// The bytes of one write.
const CHUNK: usize = 16 << 10;
/// The largest delay that the sender makes up for.
const CATCH_UP: Duration = Duration::from_millis(50);
/// The payload and IP bytes of a full packet (20 of IP, 20 of TCP, 12 of its timestamps).
const PAYLOAD: u64 = 1_448;
const PACKET: u64 = 1_500;
const LOOK: Duration = Duration::from_millis(100);
/// The congestion control of both kinds of sender. The default of the machine may be any.
const CONGESTION: &str = "cubic";
const TCP: u8 = 6;

/// The amount that a sender offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOffer {
    /// A constant rate of IP bytes, of which little waits in the socket.
    Rate(Rate),
    /// As much as the socket accepts.
    Greedy,
}

#[derive(Debug, Default)]
struct Shared {
    begun: AtomicBool,
    stop: AtomicBool,
    received: AtomicU64,
    receiver: AtomicU32,
}

/// A flow that runs until this is dropped.
#[derive(Debug)]
pub struct TcpFlow {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    source: SocketAddr,
    sink: SocketAddr,
}

impl TcpFlow {
    /// Connects to `port` of another host. Nothing is sent before [`TcpFlow::begin`]. The receiver spends `digest`
    /// on each byte.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub fn connect(
        from: &Host,
        to: &Host,
        port: u16,
        offer: TcpOffer,
        digest: Option<Digest>,
    ) -> Result<TcpFlow, SystemError> {
        let sink = SocketAddr::from((to.address, port));
        let what = || format!("connect to {sink}");
        let listener = to.namespace.run(|| TcpListener::bind(sink))?.map_err(SystemError::doing(what()))?;
        let stream = from.namespace.run(|| TcpStream::connect(sink))?.map_err(SystemError::doing(what()))?;
        let (taken, _) = listener.accept().map_err(SystemError::doing(what()))?;
        let source = stream.local_addr().map_err(SystemError::doing(what()))?;
        if matches!(offer, TcpOffer::Rate(_)) {
            // What waits in the socket would be sent at once when a reservation comes, and be in excess of it.
            linux::tcp::hold_back(&stream, 4 * CHUNK as u32)?;
        }
        linux::tcp::congestion_control(&stream, CONGESTION)?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(LOOK)))
            .map_err(SystemError::doing(what()))?;
        taken.set_read_timeout(Some(LOOK)).map_err(SystemError::doing(what()))?;
        let shared = Arc::new(Shared::default());
        let mut flow = TcpFlow { shared: shared.clone(), threads: Vec::new(), source, sink };
        let (one, two) = (shared.clone(), shared);
        flow.spawn("tcp-receive", move || receive(taken, &one, digest))?;
        flow.spawn("tcp-send", move || send(stream, &two, offer))?;
        Ok(flow)
    }

    fn spawn(&mut self, name: &str, deed: impl FnOnce() + Send + 'static) -> Result<(), SystemError> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(deed);
        self.threads.push(thread.map_err(SystemError::doing("start a thread"))?);
        Ok(())
    }

    /// Lets the sender send.
    pub fn begin(&self) {
        self.shared.begun.store(true, Relaxed);
    }

    /// Returns the connection as a binding.
    pub fn binding(&self) -> FlowDoc {
        FlowDoc {
            src: Some(self.source.ip()),
            dst: Some(self.sink.ip()),
            protocol: Some(TCP),
            src_port: Some(self.source.port()),
            dst_port: Some(self.sink.port()),
        }
    }

    /// Returns the receiver's thread, once it runs.
    pub fn receiver(&self) -> u32 {
        while self.shared.receiver.load(Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.receiver.load(Relaxed)
    }

    /// Returns the IP bytes of the payload that the receiver has processed.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Relaxed) * PACKET / PAYLOAD
    }
}

impl Drop for TcpFlow {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A panic in a thread has already been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Runs the receiver with the priority of every program of its host: before other work of this machine, and
/// behind the programs of the other hosts.
fn receive(mut stream: TcpStream, shared: &Shared, digest: Option<Digest>) {
    // A process with the right to go first may also go second.
    let _ = linux::process::go_second();
    shared.receiver.store(linux::cpu::deadline::this_thread(), Relaxed);
    let mut buffer = vec![0u8; CHUNK];
    while !shared.stop.load(Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                std::hint::black_box(digest.map(|digest| digest.of(&buffer[..n])));
                shared.received.fetch_add(n as u64, Relaxed);
            }
            // A read that gave up for now.
            Err(_) => {}
        }
    }
}

fn send(mut stream: TcpStream, shared: &Shared, offer: TcpOffer) {
    let chunk = vec![0x55u8; CHUNK];
    while !shared.begun.load(Relaxed) && !shared.stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let payload = match offer {
        TcpOffer::Rate(rate) => rate.as_bps() / 8 * PAYLOAD / PACKET,
        TcpOffer::Greedy => u64::MAX,
    };
    let (mut begin, mut sent) = (Instant::now(), 0u64);
    let mut at = 0;
    while !shared.stop.load(Relaxed) {
        let due = begin + Duration::from_nanos((u128::from(sent) * 1_000_000_000 / u128::from(payload.max(1))) as u64);
        let now = Instant::now();
        if due > now {
            std::thread::sleep((due - now).min(LOOK));
            continue;
        }
        if now - due > CATCH_UP {
            (begin, sent) = (now, 0);
        }
        // A write that gave up for now has taken nothing, or a part.
        if let Ok(n) = stream.write(&chunk[at..]) {
            sent += n as u64;
            at = (at + n) % CHUNK;
        }
    }
}
