//! A hundred greedy TCP connections of the kernel, Reno with SACK, one for each workstation.

use super::site::LiveSite;
use bed::error::Error;
use linux::error::SystemError;
use sim::scenarios::rfc2963::{ROUTERS, WORKSTATIONS};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use terms::Rng;

/// The congestion control. The default of a machine may be any.
const CONGESTION: &str = "reno";
/// The bytes of one write, and the unsent bytes that wait in a socket at most.
const CHUNK: usize = 32 << 10;
/// The connections begin within this time, by chance.
const SPREAD_MS: u64 = 1_000;
/// How long a thread waits in the kernel before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// A thread needs little.
const STACK: usize = 64 << 10;

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    received: [AtomicU64; ROUTERS],
}

/// The connections, until this is dropped.
pub(super) struct Connections {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Connections {
    /// Connects all, and lets each begin at a time that the seed says.
    ///
    /// # Errors
    /// A connection cannot be made.
    pub(super) fn start(site: &LiveSite, seed: u64) -> Result<Connections, Error> {
        let mut all = Connections { shared: Arc::default(), threads: Vec::new() };
        let mut chance = Rng::seeded(seed);
        for customer in 0..ROUTERS {
            for workstation in 0..WORKSTATIONS {
                let wait = Duration::from_millis((u64::from(chance.next_u32()) * SPREAD_MS) >> 32);
                all.connect(site, customer, workstation, wait)?;
            }
        }
        Ok(all)
    }

    fn connect(&mut self, site: &LiveSite, customer: usize, workstation: usize, wait: Duration) -> Result<(), Error> {
        let [stream, taken] = site.connect(customer, workstation)?;
        linux::tcp::congestion_control(&stream, CONGESTION)?;
        linux::tcp::hold_back(&stream, CHUNK as u32)?;
        let timeouts = stream.set_write_timeout(Some(LOOK)).and_then(|()| taken.set_read_timeout(Some(LOOK)));
        timeouts.map_err(SystemError::doing("set a timeout of a connection"))?;
        let (one, two) = (self.shared.clone(), self.shared.clone());
        self.spawn(move || receive(taken, &one, customer))?;
        self.spawn(move || send(stream, &two, wait))
    }

    fn spawn(&mut self, deed: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = std::thread::Builder::new().name("tcp".into()).stack_size(STACK).spawn(deed);
        self.threads.push(thread.map_err(SystemError::doing("start a thread"))?);
        Ok(())
    }

    /// The bytes that the applications of each customer have received so far.
    pub(super) fn received(&self) -> Vec<u64> {
        self.shared.received.iter().map(|bytes| bytes.load(Relaxed)).collect()
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// True if the call would have waited for longer, or a signal came.
fn is_pause(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn send(mut stream: TcpStream, shared: &Shared, wait: Duration) {
    let chunk = vec![0x5a; CHUNK];
    std::thread::sleep(wait);
    while !shared.stop.load(Relaxed) {
        match stream.write(&chunk) {
            Ok(_) => {}
            Err(error) if is_pause(&error) => {}
            Err(_) => return,
        }
    }
}

fn receive(mut stream: TcpStream, shared: &Shared, customer: usize) {
    let mut chunk = vec![0; CHUNK];
    while !shared.stop.load(Relaxed) {
        match stream.read(&mut chunk) {
            Ok(0) => return,
            Ok(bytes) => _ = shared.received[customer].fetch_add(bytes as u64, Relaxed),
            Err(error) if is_pause(&error) => {}
            Err(_) => return,
        }
    }
}
