//! The shaper itself.

use super::curve::RateCurve;
use super::estimator::RateEstimator;
use crate::meter::{SrTcm, TokenCounts, TrTcm};
use crate::queue::{Fifo, Pool};
use crate::spec::QueueSpec;
use terms::{Bytes, PacketMeta, Rate, Time};

/// The meter behind a green shaper, which tells when it would colour a packet green.
pub trait Greener {
    /// The time of green, not before `now`; `None`: never (RFC 2963 sections 3.3 and 3.5: infinity if B exceeds CBS
    /// or PBS).
    fn green_at(&self, now: Time, len: u32) -> Option<Time>;
}

/// No meter behind the shaper: the plain srRAS and trRAS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeverGreen;

impl Greener for NeverGreen {
    fn green_at(&self, _now: Time, _len: u32) -> Option<Time> {
        None
    }
}

impl Greener for (&SrTcm, &TokenCounts) {
    fn green_at(&self, now: Time, len: u32) -> Option<Time> {
        self.0.green_at(self.1, now, len)
    }
}

impl Greener for (&TrTcm, &TokenCounts) {
    fn green_at(&self, now: Time, len: u32) -> Option<Time> {
        self.0.green_at(self.1, now, len)
    }
}

/// A rate adaptive shaper: single or two rates by its [`RateCurve`], plain or green by its [`Greener`]. Its
/// packets lie in a pool that many shapers share: each call must be given the same one.
#[derive(Clone, Debug)]
pub struct Ras<E> {
    curve: RateCurve,
    estimator: E,
    queue: Fifo,
    /// The time at which the last packet left.
    released: Option<Time>,
    /// The time at which the head may leave by the shaping rate: T1.
    due: Time,
    dropped: u64,
}

impl<E: RateEstimator> Ras<E> {
    /// An empty shaper.
    pub fn new(curve: RateCurve, estimator: E) -> Ras<E> {
        Ras {
            curve,
            estimator,
            queue: Fifo::new(QueueSpec { packets: u32::MAX, bytes: Bytes::MAX }),
            released: None,
            due: Time::ZERO,
            dropped: 0,
        }
    }

    /// Takes an arriving packet. `false`: the buffer (or the pool) is full and the packet is dropped at the
    /// tail. It counts in the average either way, because the estimator measures arrivals.
    pub fn enqueue(&mut self, now: Time, packet: PacketMeta, pool: &mut Pool<PacketMeta>) -> bool {
        self.estimator.arrival(now, packet.len);
        let after = self.occupancy().saturating_add(Bytes::new(u64::from(packet.len)));
        if after > self.curve.buffer() || self.queue.push(pool, packet.len, packet).is_err() {
            self.dropped += 1;
            return false;
        }
        self.schedule(now, pool);
        true
    }

    /// The time at which the head packet may leave: `min(T1, T2)`; `None` if no packet waits.
    pub fn wake_at(&self, now: Time, meter: &impl Greener, pool: &Pool<PacketMeta>) -> Option<Time> {
        let head = self.queue.head_bytes(pool)?;
        let t1 = self.due.max(now);
        Some(meter.green_at(now, head).map_or(t1, |t2| t1.min(t2)))
    }

    /// The head packet, if it may leave now.
    pub fn release(&mut self, now: Time, meter: &impl Greener, pool: &mut Pool<PacketMeta>) -> Option<PacketMeta> {
        if self.wake_at(now, meter, pool)? > now {
            return None;
        }
        let (_, packet) = self.queue.pop(pool)?;
        self.released = Some(now);
        self.schedule(now, pool);
        Some(packet)
    }

    /// Changes the curve at once: waiting packets stay, even above the new buffer.
    pub fn change(&mut self, now: Time, curve: RateCurve, pool: &Pool<PacketMeta>) {
        self.curve = curve;
        self.schedule(now, pool);
    }

    /// Takes over packets that waited elsewhere, even above the buffer; they do not count as arrivals. None may wait
    /// here.
    pub fn take_over(&mut self, now: Time, queue: Fifo, pool: &Pool<PacketMeta>) {
        debug_assert!(self.queue.is_empty(), "what waits would be lost");
        self.queue = queue;
        self.schedule(now, pool);
    }

    /// The waiting packets, as a queue.
    pub fn queue(&self) -> &Fifo {
        &self.queue
    }

    /// The waiting bytes.
    pub fn occupancy(&self) -> Bytes {
        Bytes::new(self.queue.bytes())
    }

    /// The shaping rate at this instant.
    pub fn shaping_rate(&self) -> Rate {
        self.curve.shaping_rate(self.occupancy(), self.estimator.average())
    }

    /// The packets dropped at the tail.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Sets T1 of the head: its length over the shaping rate since the last release; at once before the first
    /// release.
    fn schedule(&mut self, now: Time, pool: &Pool<PacketMeta>) {
        let Some(head) = self.queue.head_bytes(pool) else { return };
        let spacing = self.shaping_rate().span_for(Bytes::new(u64::from(head)));
        self.due = self.released.map_or(now, |released| released + spacing);
    }
}
