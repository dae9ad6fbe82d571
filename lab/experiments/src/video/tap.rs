//! A capture of the video's RTP packets on one interface, kept for the whole experiment.

use super::rtp::{self, RtpPacket, Unwrap};
use bed::host::Host;
use linux::capture::Capture;
use linux::clock::Clock;
use linux::error::SystemError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use terms::Span;

/// The direction of captured packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapDirection {
    /// Outgoing packets, after the queueing discipline.
    Out,
    /// Incoming packets.
    In,
}

/// The interval at which a waiting capture checks whether it should stop.
const LOOK: Span = Span::from_millis(50);
/// The largest number of packets kept. No experiment has as many; the limit bounds memory if another program
/// uses the port.
const MOST: usize = 4_000_000;

/// A running capture. It ends when this is dropped.
#[derive(Debug)]
pub struct Tap {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    missed: AtomicU64,
    packets: Mutex<Vec<RtpPacket>>,
}

impl Tap {
    /// Starts a capture.
    ///
    /// # Errors
    /// The interface cannot be captured on.
    pub fn start(host: &Host, port: u16, way: TapDirection, clock: Clock) -> Result<Tap, SystemError> {
        let capture = host.namespace.run(|| Capture::udp_to(&host.interface, port, clock))??;
        let shared = Arc::new(Shared::default());
        let inside = shared.clone();
        let thread = std::thread::Builder::new().name("tap".into());
        let thread =
            thread.spawn(move || collect(capture, way, &inside)).map_err(SystemError::doing("start a thread"))?;
        Ok(Tap { shared, thread: Some(thread) })
    }

    /// Returns every packet so far, in order of arrival.
    pub fn packets(&self) -> Vec<RtpPacket> {
        self.shared.packets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of packets that the capture itself missed. Any number above zero makes its figures
    /// void.
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Relaxed)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has already been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn collect(mut capture: Capture, way: TapDirection, shared: &Shared) {
    let mut unwrap = Unwrap::default();
    while !shared.stop.load(Relaxed) {
        match capture.next(LOOK) {
            Ok(Some(seen)) if seen.outgoing == (way == TapDirection::Out) => {
                let Some(sequence) = rtp::sequence(&seen) else { continue };
                let packet = RtpPacket { at: seen.at, len: seen.len, sequence: unwrap.next(sequence) };
                let mut packets = shared.packets.lock().unwrap_or_else(PoisonError::into_inner);
                if packets.len() < MOST {
                    packets.push(packet);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                shared.missed.fetch_add(u64::from(capture.overrun().unwrap_or(0)), Relaxed);
            }
            // The interface went: the experiment is over, or about to fail for a better reason.
            Err(_) => return,
        }
    }
    shared.missed.fetch_add(u64::from(capture.overrun().unwrap_or(0)), Relaxed);
}
