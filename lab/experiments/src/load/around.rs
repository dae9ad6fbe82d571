//! The load beside a flood: calls on fifty connections, routes that come and go, and a probe of scheduling
//! delays.

use bench::order::nearest_rank;
use linux::netlink::Socket;
use linux::netlink::route::RouteEntry;
use linux::netns::Namespace;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The number of connections with calls.
pub const CONNECTIONS: usize = 50;
/// The calls sent before the first answer is read.
const PIPELINED: usize = 16;
const CALLS: [&str; 6] = ["status", "sessions", "senders", "reservations", "counters", "hello"];

/// Threads that run until the end of the flood.
pub struct Around {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    answers: Arc<AtomicU64>,
    routes: Arc<AtomicU64>,
    stalls: Arc<std::sync::Mutex<Vec<u64>>>,
}

impl Around {
    /// Starts calls at a socket, route changes in a namespace, and an idle thread that measures how late it
    /// is woken.
    pub fn begin(socket: &Path, namespace: Namespace) -> Around {
        let (stop, answers, routes) = (Arc::new(AtomicBool::new(false)), Arc::default(), Arc::default());
        let stalls: Arc<std::sync::Mutex<Vec<u64>>> = Arc::default();
        let mut threads = Vec::new();
        for n in 0..CONNECTIONS {
            let (socket, stop, answers) = (socket.to_owned(), stop.clone(), Arc::clone(&answers));
            threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // A connection that breaks is made anew.
                    let _ = calls(&socket, n, &stop, &answers);
                    std::thread::sleep(Duration::from_millis(50));
                }
            }));
        }
        let (ended, changed) = (stop.clone(), Arc::clone(&routes));
        threads.push(std::thread::spawn(move || drop(namespace.run(|| churn(&ended, &changed)))));
        let (ended, late) = (stop.clone(), stalls.clone());
        threads.push(std::thread::spawn(move || {
            let mut found = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                found.push(begun.elapsed().saturating_sub(Duration::from_millis(1)).as_micros() as u64);
            }
            if let Ok(mut late) = late.lock() {
                *late = found;
            }
        }));
        Around { stop, threads, answers, routes, stalls }
    }

    /// Returns the number of answers so far.
    pub fn count(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Returns the number of route changes so far.
    pub fn changes(&self) -> u64 {
        self.routes.load(Ordering::Relaxed)
    }

    /// Ends all threads. Returns how late the idle thread was woken, microseconds: the 99.9th percentile and
    /// the maximum.
    pub fn end(mut self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let mut stalls = self.stalls.lock().map(|mut stalls| std::mem::take(&mut *stalls)).unwrap_or_default();
        stalls.sort_unstable();
        (nearest_rank(&stalls, 0.999).unwrap_or(0), stalls.last().copied().unwrap_or(0))
    }
}

fn calls(socket: &Path, n: usize, stop: &AtomicBool, answers: &AtomicU64) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    let mut buffer = vec![0; 1 << 16];
    let mut serial = n;
    while !stop.load(Ordering::Relaxed) {
        let mut text = String::new();
        for _ in 0..PIPELINED {
            serial += 1;
            text += &format!("{{\"id\":{serial},\"call\":\"{}\"}}\n", CALLS[serial % CALLS.len()]);
        }
        stream.write_all(text.as_bytes())?;
        let mut due = PIPELINED;
        while due > 0 && !stop.load(Ordering::Relaxed) {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => {
                    let lines = buffer[..len].iter().filter(|byte| **byte == b'\n').count();
                    answers.fetch_add(lines as u64, Ordering::Relaxed);
                    due = due.saturating_sub(lines);
                }
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Adds and removes a route that no other part of the test uses.
fn churn(stop: &AtomicBool, changed: &AtomicU64) {
    let Ok(mut socket) = Socket::open() else { return };
    let Ok(lo) = socket.link_by_name("lo") else { return };
    let entry = RouteEntry { dst: [203, 0, 113, 0].into(), prefix: 24, gateway: None, oif: lo.index };
    while !stop.load(Ordering::Relaxed) {
        let done = socket.add_route(&entry).is_ok() && socket.delete_route(&entry).is_ok();
        changed.fetch_add(2 * u64::from(done), Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
    }
}
