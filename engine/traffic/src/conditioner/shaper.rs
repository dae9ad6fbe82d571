//! The shaper of a conditioner, of any kind, and its waiting packets.

use super::meter::Ask;
use super::spec::ShaperSpec;
use crate::bucket::TokenBucket;
use crate::queue::{Fifo, Pool};
use crate::shaper::{BadShaper, Exponential, NeverGreen, Ras, RateCurve};
use crate::spec::{BucketSpec, QueueSpec};
use terms::{Bytes, PacketMeta, Rate, Span, Time};

/// The shaping curve; a token bucket has none, and gets a line.
pub(super) fn curve(shaper: &ShaperSpec, line: Rate) -> Result<RateCurve, BadShaper> {
    match *shaper {
        ShaperSpec::Bucket { rate, buffer, .. } => RateCurve::single(rate, rate, [Bytes::ZERO; 2], buffer, line),
        ShaperSpec::SrRas { rates: [cir, mir], thresholds, ras } => {
            RateCurve::single(cir, mir, thresholds, ras.buffer, line)
        }
        ShaperSpec::TrRas { rates: [cir, pir, mir], thresholds, ras } => {
            RateCurve::two(cir, pir, mir, thresholds, ras.buffer, line)
        }
    }
}

/// A shaper with its waiting packets, which lie in a pool that all shapers of the tree share.
#[derive(Clone, Debug)]
pub(super) enum Shaper {
    Bucket { bucket: TokenBucket, queue: Fifo },
    Ras { ras: Ras<Exponential>, k: Span, green: bool },
}

/// The reason for which a shaper refused a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotHeld {
    /// The buffer is full.
    Full,
    /// The packet is larger than the token bucket, so it would never leave.
    OverDepth,
}

impl Shaper {
    pub(super) fn new(spec: &ShaperSpec, line: Rate, now: Time) -> Result<Shaper, BadShaper> {
        match *spec {
            ShaperSpec::Bucket { rate, depth, buffer } => {
                let bucket = TokenBucket::new(&BucketSpec { rate, depth, min_unit: 0 }, now);
                Ok(Shaper::Bucket { bucket, queue: Fifo::new(room(buffer)) })
            }
            ShaperSpec::SrRas { ras, .. } | ShaperSpec::TrRas { ras, .. } => {
                let shaper = Ras::new(curve(spec, line)?, Exponential::new(ras.k, now));
                Ok(Shaper::Ras { ras: shaper, k: ras.k, green: ras.green })
            }
        }
    }

    /// Changes the description; waiting packets stay in order, even above the new buffer.
    pub(super) fn change(
        &mut self,
        spec: &ShaperSpec,
        line: Rate,
        now: Time,
        pool: &Pool<PacketMeta>,
    ) -> Result<(), BadShaper> {
        match (&mut *self, *spec) {
            (Shaper::Bucket { bucket, queue }, ShaperSpec::Bucket { rate, depth, buffer }) => {
                bucket.change(&BucketSpec { rate, depth, min_unit: 0 }, now);
                queue.set_spec(room(buffer));
                return Ok(());
            }
            (
                Shaper::Ras { ras, k, green },
                ShaperSpec::SrRas { ras: new, .. } | ShaperSpec::TrRas { ras: new, .. },
            ) if *k == new.k => {
                ras.change(now, curve(spec, line)?, pool);
                *green = new.green;
                return Ok(());
            }
            _ => {}
        }
        let waiting = *self.queue();
        *self = Shaper::new(spec, line, now)?;
        match self {
            Shaper::Bucket { queue, .. } => {
                let own = queue.spec();
                *queue = waiting;
                queue.set_spec(own);
            }
            Shaper::Ras { ras, .. } => {
                let mut queue = waiting;
                queue.set_spec(ras.queue().spec());
                ras.take_over(now, queue, pool);
            }
        }
        Ok(())
    }

    /// Holds a packet in the shaper.
    pub(super) fn hold(&mut self, now: Time, packet: PacketMeta, pool: &mut Pool<PacketMeta>) -> Result<(), NotHeld> {
        match self {
            Shaper::Bucket { bucket, queue } => {
                if u64::from(packet.len) > bucket.depth().get() {
                    return Err(NotHeld::OverDepth);
                }
                queue.push(pool, packet.len, packet).map_err(|_| NotHeld::Full)
            }
            Shaper::Ras { ras, .. } => {
                if ras.enqueue(now, packet, pool) {
                    Ok(())
                } else {
                    Err(NotHeld::Full)
                }
            }
        }
    }

    /// The time at which the head may leave. A packet larger than a bucket's new depth leaves at once, to be dropped.
    pub(super) fn due(&self, now: Time, meter: &Ask<'_>, pool: &Pool<PacketMeta>) -> Option<Time> {
        match self {
            Shaper::Bucket { bucket, queue } => Some(bucket.when(now, queue.head_bytes(pool)?).unwrap_or(now)),
            Shaper::Ras { ras, green: true, .. } => ras.wake_at(now, meter, pool),
            Shaper::Ras { ras, .. } => ras.wake_at(now, &NeverGreen, pool),
        }
    }

    /// The head, if it may leave now; the flag is true if it can never conform and must be dropped.
    pub(super) fn release(
        &mut self,
        now: Time,
        meter: &Ask<'_>,
        pool: &mut Pool<PacketMeta>,
    ) -> Option<(PacketMeta, bool)> {
        match self {
            Shaper::Bucket { bucket, queue } => {
                let len = queue.head_bytes(pool)?;
                let never = bucket.when(now, len).is_none();
                if !never && !bucket.take(now, len) {
                    return None;
                }
                queue.pop(pool).map(|(_, packet)| (packet, never))
            }
            Shaper::Ras { ras, green: true, .. } => ras.release(now, meter, pool).map(|packet| (packet, false)),
            Shaper::Ras { ras, .. } => ras.release(now, &NeverGreen, pool).map(|packet| (packet, false)),
        }
    }

    /// The waiting packets.
    pub(super) fn queue(&self) -> &Fifo {
        match self {
            Shaper::Bucket { queue, .. } => queue,
            Shaper::Ras { ras, .. } => ras.queue(),
        }
    }
}

/// The queue limits of a token bucket's buffer, which is limited only in bytes.
const fn room(buffer: Bytes) -> QueueSpec {
    QueueSpec { packets: u32::MAX, bytes: buffer }
}
