//! The terms that the plan shares with the parts of a packet path: limits of a queue, a bucket, counters.

use terms::{Bytes, Rate};

/// Limits of a FIFO; a packet that would exceed either is dropped at the tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSpec {
    /// The most packets.
    pub packets: u32,
    /// The most bytes.
    pub bytes: Bytes,
}

/// A token bucket: conforming packets go to the flow's class, the rest to best effort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketSpec {
    /// The fill rate, in IP bytes.
    pub rate: Rate,
    /// Depth.
    pub depth: Bytes,
    /// The minimum policed unit (RFC 2210's `m`), in bytes: a shorter packet counts as this long.
    pub min_unit: u32,
}

/// The counters of one class, flow or rule since its installation; flows that share a bucket have joint
/// counters. Bytes are IP bytes for flows, wire bytes for classes (as the kernel counts them).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets sent (class) or conforming (flow, rule).
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped (class, rule) or in excess of the bucket (flow).
    pub over_packets: u64,
    /// Their bytes; zero if the plane cannot count them.
    pub over_bytes: u64,
}
