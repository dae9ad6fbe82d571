//! A conditioner's shaper: a rate adaptive shaper or a token bucket.

use super::meter::ShaperQuery;
use crate::packet::UDP;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Time};
use traffic::bucket::TokenBucket;
use traffic::plan::BucketSpec;
use traffic::queue::Pool;
use traffic::shaper::{Exponential, NeverGreen, Ras, RateCurve};
use traffic::tree::ShaperSpec;

/// A shaper and its state.
#[derive(Clone, Debug)]
pub enum Shaper {
    /// RFC 2963: the shaper, true for a green one, the pool of waiting packets, and the pool's size.
    Ras(Box<Ras<Exponential>>, bool, Pool<PacketMeta>, u64),
    /// A token bucket, the waiting packets (number and length), their bytes, and the size of the buffer in
    /// bytes.
    Bucket(TokenBucket, VecDeque<(u32, u32)>, u64, u64),
}

impl Shaper {
    /// An empty shaper for a line of rate `line`.
    ///
    /// # Errors
    /// A text that names the error.
    pub fn new(spec: &ShaperSpec, line: Rate, now: Time) -> Result<Shaper, String> {
        let words = |why: traffic::shaper::BadShaper| why.to_string();
        let (curve, ras) = match *spec {
            ShaperSpec::Bucket { rate, depth, buffer } => {
                let bucket = TokenBucket::new(&BucketSpec { rate, depth, min_unit: 0 }, now);
                return Ok(Shaper::Bucket(bucket, VecDeque::new(), 0, buffer.get()));
            }
            ShaperSpec::SrRas { rates: [cir, mir], thresholds, ras } => {
                (RateCurve::single(cir, mir, thresholds, ras.buffer, line).map_err(words)?, ras)
            }
            ShaperSpec::TrRas { rates: [cir, pir, mir], thresholds, ras } => {
                (RateCurve::two(cir, pir, mir, thresholds, ras.buffer, line).map_err(words)?, ras)
            }
        };
        Ok(Shaper::Ras(Box::new(Ras::new(curve, Exponential::new(ras.k, now))), ras.green, Pool::new(u32::MAX), 0))
    }

    /// Holds a packet. Returns false if there is no room, or if it could never leave.
    pub fn hold(&mut self, now: Time, number: u32, len: u32) -> bool {
        match self {
            Shaper::Ras(ras, _, pool, room) => {
                let waiting = u64::from(pool.len());
                if waiting >= *room {
                    *room = 2 * waiting.max(32);
                    pool.reserve(*room);
                }
                ras.enqueue(now, meta(number, len), pool)
            }
            Shaper::Bucket(bucket, queue, waiting, buffer) => {
                if Bytes::new(u64::from(len)) > bucket.depth() || *waiting + u64::from(len) > *buffer {
                    return false;
                }
                *waiting += u64::from(len);
                queue.push_back((number, len));
                true
            }
        }
    }

    /// The time at which its first packet may leave.
    pub fn due(&self, now: Time, ask: &ShaperQuery<'_>) -> Option<Time> {
        match self {
            Shaper::Ras(ras, true, pool, _) => ras.wake_at(now, ask, pool),
            Shaper::Ras(ras, false, pool, _) => ras.wake_at(now, &NeverGreen, pool),
            Shaper::Bucket(bucket, queue, ..) => bucket.when(now, queue.front()?.1),
        }
    }

    /// The first packet, if it may leave now.
    pub fn release(&mut self, now: Time, ask: &ShaperQuery<'_>) -> Option<u32> {
        match self {
            Shaper::Ras(ras, true, pool, _) => ras.release(now, ask, pool).map(|packet| packet.id as u32),
            Shaper::Ras(ras, false, pool, _) => ras.release(now, &NeverGreen, pool).map(|packet| packet.id as u32),
            Shaper::Bucket(bucket, queue, waiting, _) => {
                let &(_, len) = queue.front()?;
                if !bucket.take(now, len) {
                    return None;
                }
                *waiting -= u64::from(len);
                queue.pop_front().map(|(number, _)| number)
            }
        }
    }

    /// The number of the first packet.
    pub fn head(&self) -> Option<u32> {
        match self {
            Shaper::Ras(ras, _, pool, _) => ras.queue().head(pool).map(|packet| packet.id as u32),
            Shaper::Bucket(_, queue, ..) => queue.front().map(|(number, _)| *number),
        }
    }

    /// The number of waiting packets.
    pub fn packets(&self) -> usize {
        match self {
            Shaper::Ras(ras, ..) => ras.queue().packets() as usize,
            Shaper::Bucket(_, queue, ..) => queue.len(),
        }
    }
}

/// The packet data that a shaper of `traffic` reads: only length and number count.
fn meta(number: u32, len: u32) -> PacketMeta {
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let flow = FlowKey { src: nobody, dst: nobody, protocol: UDP, src_port: 0, dst_port: 0, wild: terms::Wild::NONE };
    PacketMeta { flow, len, dscp: Dscp(0), arrival: Time::ZERO, id: u64::from(number) }
}
