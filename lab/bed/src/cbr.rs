//! UDP at a constant bit rate: a sender that keeps to its schedule and a receiver that counts. It makes the
//! cross traffic of the experiments and other flows without content.
//!
//! Rates are IP bytes. The schedule is absolute: packet *n* leaves at `start + n * gap`, so that late wake-ups do not
//! lower the rate; after a stop of more than [`CATCH_UP`] the missed packets are forgone rather than sent in one burst.

use crate::host::Host;
use linux::clock::Clock;
use linux::error::SystemError;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use terms::{Bytes, Rate, Span, Time};

/// Length of each packet, IP header included.
pub const PACKET: u32 = 1_400;
/// The largest delay that the sender makes up for.
pub const CATCH_UP: Span = Span::from_millis(50);

/// Bytes of IP and UDP header.
const HEADERS: u32 = 28;
/// The interval at which an idle or waiting thread checks whether it should stop.
const LOOK: Duration = Duration::from_millis(50);

/// The packets sent and received so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketCount {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// IP bytes received.
    pub received_bytes: u64,
}

impl PacketCount {
    /// Returns the difference from an earlier count.
    pub fn since(&self, earlier: &PacketCount) -> PacketCount {
        PacketCount {
            sent: self.sent - earlier.sent,
            received: self.received - earlier.received,
            received_bytes: self.received_bytes - earlier.received_bytes,
        }
    }

    /// Returns the rate of the received IP bytes over `span`, Mb/s.
    pub fn received_mbps(&self, span: Duration) -> f64 {
        self.received_bytes as f64 * 8.0 / 1e6 / span.as_secs_f64()
    }
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    rate_bps: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    received_bytes: AtomicU64,
}

/// A flow from one host to another, silent until it is given a rate. It ends when this is dropped.
#[derive(Debug)]
pub struct Cbr {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Cbr {
    /// Prepares a flow to `port` of `to`, from the same port.
    ///
    /// # Errors
    /// A socket cannot be made.
    pub fn start(from: &Host, to: &Host, port: u16, clock: Clock) -> Result<Cbr, SystemError> {
        Cbr::start_of(PACKET, from, to, port, clock)
    }

    /// As [`Cbr::start`], with packets of another length (IP header included).
    ///
    /// # Errors
    /// A socket cannot be made.
    pub fn start_of(packet: u32, from: &Host, to: &Host, port: u16, clock: Clock) -> Result<Cbr, SystemError> {
        let sink = to.udp(port, LOOK)?;
        let source = from.udp(port, LOOK)?;
        let target = SocketAddr::from((to.address, port));
        source.connect(target).map_err(SystemError::doing(format!("send to {target}")))?;
        let shared = Arc::new(Shared::default());
        let mut cbr = Cbr { shared: shared.clone(), threads: Vec::new() };
        let (one, two) = (shared.clone(), shared);
        cbr.spawn("cbr-receive", move || receive(&sink, &one))?;
        cbr.spawn("cbr-send", move || send(&source, &two, clock, packet))?;
        Ok(cbr)
    }

    fn spawn(&mut self, name: &str, deed: impl FnOnce() + Send + 'static) -> Result<(), SystemError> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(deed);
        self.threads.push(thread.map_err(SystemError::doing("start a thread"))?);
        Ok(())
    }

    /// Returns the sending rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.shared.rate_bps.load(Relaxed))
    }

    /// Sets the sending rate.
    pub fn set_rate(&self, rate: Rate) {
        self.shared.rate_bps.store(rate.as_bps(), Relaxed);
    }

    /// Returns the packets sent and received so far.
    pub fn count(&self) -> PacketCount {
        PacketCount {
            sent: self.shared.sent.load(Relaxed),
            received: self.shared.received.load(Relaxed),
            received_bytes: self.shared.received_bytes.load(Relaxed),
        }
    }
}

impl Drop for Cbr {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A panic in a counter thread has already been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn receive(socket: &UdpSocket, shared: &Shared) {
    let mut buffer = [0u8; 2048];
    while !shared.stop.load(Relaxed) {
        if let Ok(n) = socket.recv(&mut buffer) {
            shared.received.fetch_add(1, Relaxed);
            shared.received_bytes.fetch_add(n as u64 + u64::from(HEADERS), Relaxed);
        }
    }
}

fn send(socket: &UdpSocket, shared: &Shared, clock: Clock, packet: u32) {
    let payload = vec![0x55u8; packet.saturating_sub(HEADERS) as usize];
    let mut schedule = Schedule::of(packet);
    while !shared.stop.load(Relaxed) {
        let now = clock.now();
        let rate = Rate::from_bps(shared.rate_bps.load(Relaxed));
        match schedule.due(now, rate) {
            None => {
                // A full local queue drops the packet: that, too, is the flow's loss and not an error.
                let _ = socket.send(&payload);
                shared.sent.fetch_add(1, Relaxed);
            }
            Some(at) => std::thread::sleep(duration(at.since(now)).min(LOOK)),
        }
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// The schedule of a sender.
#[derive(Debug)]
struct Schedule {
    packet: u32,
    rate: Rate,
    start: Time,
    packets: u64,
}

impl Schedule {
    fn of(packet: u32) -> Schedule {
        Schedule { packet, rate: Rate::ZERO, start: Time::ZERO, packets: 0 }
    }

    /// Returns `None` if a packet is due now, and counts it as sent. Otherwise the time of the next check.
    fn due(&mut self, now: Time, rate: Rate) -> Option<Time> {
        if rate == Rate::ZERO {
            self.rate = rate;
            return Some(now + Span::from_millis(5));
        }
        if rate != self.rate {
            *self = Schedule { rate, start: now, packets: 0, ..*self };
        }
        let at = self.start + rate.span_for(Bytes::new(self.packets * u64::from(self.packet)));
        if at > now {
            return Some(at);
        }
        if now.since(at) > CATCH_UP {
            *self = Schedule { rate, start: now, packets: 0, ..*self };
        }
        self.packets += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_keeps_the_rate_however_late_it_is_asked() {
        let rate = Rate::from_mbps(10);
        for late_us in [0u64, 37, 900, 15_000] {
            let mut schedule = Schedule::of(PACKET);
            let start = Time::from_nanos(1_000_000_000);
            let (mut now, mut sent) = (start, 0u64);
            while now < start + Span::from_secs(1) {
                match schedule.due(now, rate) {
                    None => sent += 1,
                    Some(at) => now = at + Span::from_micros(late_us),
                }
            }
            let bits = sent * u64::from(PACKET) * 8;
            let slack = u64::from(PACKET) * 8 + rate.as_bps() * late_us / 1_000_000;
            assert!(bits.abs_diff(10_000_000) <= slack, "{late_us} us late: {bits}");
        }
    }

    #[test]
    fn a_long_stop_is_forgone() {
        let mut schedule = Schedule::of(PACKET);
        let start = Time::from_nanos(1_000_000_000);
        assert_eq!(schedule.due(start, Rate::from_mbps(10)), None);
        let later = start + Span::from_secs(5);
        let burst = (0..10_000).take_while(|_| schedule.due(later, Rate::from_mbps(10)).is_none()).count();
        assert!(burst <= 2, "{burst}");
        assert!(schedule.due(later, Rate::ZERO).is_some());
    }
}
