//! The kernel's stamps of numbered packets on one interface.

use bed::host::Host;
use linux::capture::Capture;
use linux::clock::Clock;
use linux::error::SystemError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use terms::Span;

/// The direction of the packets that are stamped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TapSide {
    /// Leaving the host.
    Out,
    /// Coming into it.
    In,
}

/// The interval at which a waiting capture checks whether it should stop.
const LOOK: Span = Span::from_millis(50);
/// No packet has a higher number: bounds memory if another program uses the port.
const MOST: u64 = 1 << 24;

/// A running capture.
#[derive(Debug)]
pub(super) struct StampTap {
    stop: Arc<AtomicBool>,
    missed: Arc<AtomicU64>,
    thread: Option<JoinHandle<Vec<u64>>>,
}

impl StampTap {
    /// Starts a capture of UDP packets to a port.
    pub(super) fn start(host: &Host, port: u16, side: TapSide) -> Result<StampTap, SystemError> {
        let capture = host.namespace.run(|| Capture::udp_to(&host.interface, port, Clock::start()))??;
        let (stop, missed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, count) = (stop.clone(), missed.clone());
        let thread = std::thread::Builder::new().name("stamps".into());
        let thread = thread.spawn(move || collect(capture, side, &told, &count));
        let thread = thread.map_err(SystemError::doing("start a thread"))?;
        Ok(StampTap { stop, missed, thread: Some(thread) })
    }

    /// Packets that the capture itself missed. Any number above zero makes its figures void.
    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// Ends it. By number: the wall clock when the packet passed, ns; 0: it did not.
    pub(super) fn end(mut self) -> Vec<u64> {
        self.stop.store(true, Relaxed);
        // A panic there has already been reported by the panic hook.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for StampTap {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn collect(mut capture: Capture, side: TapSide, stop: &AtomicBool, missed: &AtomicU64) -> Vec<u64> {
    let mut stamps = Vec::new();
    loop {
        // An interface that is gone ends the capture: what follows is missing, and that is seen.
        let Ok(found) = capture.next(LOOK) else { return stamps };
        let Some(frame) = found else {
            missed.fetch_add(capture.overrun().map_or(1, u64::from), Relaxed);
            if stop.load(Relaxed) {
                return stamps;
            }
            continue;
        };
        let number = frame.payload().get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let right = frame.outgoing == (side == TapSide::Out) && frame.stamp > 0;
        let Some(number) = number.filter(|number| right && *number < MOST) else { continue };
        let number = number as usize;
        if stamps.len() <= number {
            stamps.resize(number + 1, 0);
        }
        stamps[number] = frame.stamp;
    }
}
