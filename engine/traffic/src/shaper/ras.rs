//! The shaper itself.

use super::curve::RateCurve;
use super::estimator::Estimator;
use crate::meter::{SrTcm, State, TrTcm};
use alloc::collections::VecDeque;
use terms::{Bytes, PacketMeta, Rate, Time};

/// The meter that follows a green shaper: when would it colour a packet green?
pub trait Greener {
    /// Not before `now`; `None`: never (RFC 2963 sections 3.3 and 3.5: infinity if B exceeds CBS or PBS).
    fn green_at(&self, now: Time, len: u32) -> Option<Time>;
}

/// Nobody follows: the plain srRAS and trRAS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeverGreen;

impl Greener for NeverGreen {
    fn green_at(&self, _now: Time, _len: u32) -> Option<Time> {
        None
    }
}

impl Greener for (&SrTcm, &State) {
    fn green_at(&self, now: Time, len: u32) -> Option<Time> {
        self.0.green_at(self.1, now, len)
    }
}

impl Greener for (&TrTcm, &State) {
    fn green_at(&self, now: Time, len: u32) -> Option<Time> {
        self.0.green_at(self.1, now, len)
    }
}

/// A rate adaptive shaper: single or two rates by its [`RateCurve`], plain or green by what it is asked with.
#[derive(Clone, Debug)]
pub struct Ras<E> {
    curve: RateCurve,
    estimator: E,
    queue: VecDeque<PacketMeta>,
    waiting: Bytes,
    /// When the last packet left.
    released: Option<Time>,
    /// When the head may leave by the shaping rate: T1.
    due: Time,
    dropped: u64,
}

impl<E: Estimator> Ras<E> {
    /// An empty shaper.
    pub fn new(curve: RateCurve, estimator: E) -> Ras<E> {
        Ras {
            curve,
            estimator,
            queue: VecDeque::new(),
            waiting: Bytes::ZERO,
            released: None,
            due: Time::ZERO,
            dropped: 0,
        }
    }

    /// A packet arrives. `false`: the buffer is full and it was dropped at the tail. It counts in the average either way: the
    /// estimator measures what comes in.
    pub fn enqueue(&mut self, now: Time, packet: PacketMeta) -> bool {
        self.estimator.arrival(now, packet.len);
        let after = self.waiting.saturating_add(Bytes::new(u64::from(packet.len)));
        if after > self.curve.buffer() {
            self.dropped += 1;
            return false;
        }
        self.waiting = after;
        self.queue.push_back(packet);
        self.schedule(now);
        true
    }

    /// When the head packet may leave: `min(T1, T2)`; `None` if nothing waits.
    pub fn wake_at(&self, now: Time, meter: &impl Greener) -> Option<Time> {
        let head = self.queue.front()?;
        let t1 = self.due.max(now);
        Some(meter.green_at(now, head.len).map_or(t1, |t2| t1.min(t2)))
    }

    /// The head packet, if it may leave now.
    pub fn release(&mut self, now: Time, meter: &impl Greener) -> Option<PacketMeta> {
        if self.wake_at(now, meter)? > now {
            return None;
        }
        let packet = self.queue.pop_front()?;
        self.waiting = self.waiting.saturating_sub(Bytes::new(u64::from(packet.len)));
        self.released = Some(now);
        self.schedule(now);
        Some(packet)
    }

    /// Another curve, at once: what waits stays, also if it is more than the new buffer.
    pub fn change(&mut self, now: Time, curve: RateCurve) {
        self.curve = curve;
        self.schedule(now);
    }

    /// Takes over a packet that waited elsewhere: behind the others, whatever the buffer, and not counted as an arrival.
    pub fn take_over(&mut self, now: Time, packet: PacketMeta) {
        self.waiting = self.waiting.saturating_add(Bytes::new(u64::from(packet.len)));
        self.queue.push_back(packet);
        self.schedule(now);
    }

    /// Gives up the packets that wait, the head first.
    pub fn give_up(&mut self) -> VecDeque<PacketMeta> {
        self.waiting = Bytes::ZERO;
        core::mem::take(&mut self.queue)
    }

    /// The packet that leaves next.
    pub fn head(&self) -> Option<&PacketMeta> {
        self.queue.front()
    }

    /// Packets that wait.
    pub fn packets(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that wait.
    pub fn occupancy(&self) -> Bytes {
        self.waiting
    }

    /// The shaping rate of this instant.
    pub fn shaping_rate(&self) -> Rate {
        self.curve.shaping_rate(self.waiting, self.estimator.average())
    }

    /// Packets dropped at the tail.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// T1 of the head: its length over the shaping rate since the last release; at once if nothing was ever released.
    fn schedule(&mut self, now: Time) {
        let Some(head) = self.queue.front() else { return };
        let spacing = self.shaping_rate().span_for(Bytes::new(u64::from(head.len)));
        self.due = self.released.map_or(now, |released| released + spacing);
    }
}
