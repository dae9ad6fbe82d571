//! SACK TCP, as a sender and a receiver that are told and say.
//!
//! Sequence numbers count segments, not bytes. Every segment is full except the last of a finite source.
//! Packets have the lengths of real headers (RFC 9293 with options of RFC 2018).
//!
//! Reading order: [`ranges`] (segments known to have arrived), [`scoreboard`] (RFC 6675 section 4), [`timer`]
//! (RFC 6298), [`growth`] (RFC 5681, RFC 9438), [`sender`] with its reaction to loss
//! (`sender/recovery.rs`), [`receiver`].

pub mod growth;
pub mod ranges;
pub mod receiver;
pub mod scoreboard;
pub mod sender;
pub mod timer;

pub use receiver::{AckTiming, TcpReceiver};
pub use sender::{Segment, TcpSender};

use crate::scenario::{Growth, RtoSpec, Tcp};
use terms::Span;

/// Bytes of IPv4 and TCP headers without options.
pub const HEADERS: u32 = 40;
/// Bytes of a SYN or SYN+ACK: the options maximum segment size, SACK permitted, window scale, and three bytes
/// of padding.
pub const SYN_LEN: u32 = HEADERS + 12;
/// Maximum number of SACK blocks in an acknowledgement.
pub const BLOCKS: usize = 3;
/// Maximum number of segments in a window, so that 32 bits hold it in units of 2^-16.
pub const MAX_WINDOW: u32 = u16::MAX as u32;
/// One segment in the unit of a congestion window.
pub const ONE: u32 = 1 << 16;

/// SACK blocks: the first segment, and the first one after the block. Empty ones are `(0, 0)`.
pub type Blocks = [(u32, u32); BLOCKS];

/// IP bytes of an acknowledgement with that number of SACK blocks: two of padding, two of header, eight each.
pub const fn ack_len(blocks: u32) -> u32 {
    if blocks == 0 { HEADERS } else { HEADERS + 4 + 8 * blocks }
}

/// The behaviour of a TCP, computed from [`Tcp`]. All connections that behave alike share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conduct {
    /// Bytes of a full segment.
    pub mss: u32,
    /// The receiver's window, segments.
    pub window: u32,
    /// The initial window, segments.
    pub initial_window: u32,
    /// The initial slow start threshold, segments.
    pub threshold: u32,
    /// The growth of the window.
    pub growth: Growth,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Maximum wait of an acknowledgement.
    pub delayed_ack: Option<Span>,
    /// The retransmission timer.
    pub rto: RtoSpec,
    /// Forget SACK information on a timeout (RFC 2018 section 8).
    pub forget_on_timeout: bool,
    /// Rescue retransmission (RFC 6675 NextSeg rule 4).
    pub rescue: bool,
}

impl Conduct {
    /// Converts bytes to segments.
    pub fn new(tcp: &Tcp) -> Conduct {
        let window = tcp.window.get() / u64::from(tcp.mss.max(1));
        let window = u32::try_from(window).unwrap_or(MAX_WINDOW).clamp(1, MAX_WINDOW);
        Conduct {
            mss: tcp.mss,
            window,
            initial_window: tcp.initial_window.clamp(1, window),
            threshold: tcp.initial_threshold.map_or(window, |t| t.clamp(1, window)),
            growth: tcp.growth,
            limited_transmit: tcp.limited_transmit,
            delayed_ack: tcp.delayed_ack,
            rto: tcp.rto,
            forget_on_timeout: tcp.forget_on_timeout,
            rescue: tcp.rescue,
        }
    }
}
