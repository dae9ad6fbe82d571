//! What a TCP connection is: who, when, how much, and every knob of RFC 5681, 6675, 6298, 3042 and 9438.

use super::NodeId;
use terms::{Bytes, Dscp, FlowKey, Span, Time};

/// A TCP connection, by its position in [`super::Scenario::connections`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TcpId(pub usize);

/// A TCP connection: a sender that opens it, and a receiver that takes what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpSpec {
    /// Where the sender sits.
    pub from: NodeId,
    /// Where the receiver sits.
    pub to: NodeId,
    /// The sender's and the receiver's port.
    pub ports: (u16, u16),
    /// When the sender opens the connection.
    pub start: Time,
    /// When the sender stops sending new data; what it has sent is still delivered.
    pub stop: Time,
    /// How much it sends; `None`: as much as it may.
    pub bytes: Option<Bytes>,
    /// Whom a report counts it with: any number.
    pub group: u32,
    /// How it behaves.
    pub tcp: Tcp,
}

impl TcpSpec {
    /// A greedy connection from the beginning.
    pub fn greedy(from: NodeId, to: NodeId, ports: (u16, u16)) -> TcpSpec {
        TcpSpec { from, to, ports, start: Time::ZERO, stop: Time::FOREVER, bytes: None, group: 0, tcp: Tcp::default() }
    }
}

/// How a TCP behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tcp {
    /// Bytes of data in a full segment.
    pub mss: u32,
    /// The receiver's window: at most so much beyond the last byte in order. It reads at once, so the window is always open;
    /// whole segments of it count.
    pub window: Bytes,
    /// Segments that may be sent before the first acknowledgement (RFC 5681 section 3.1, RFC 6928).
    pub initial_window: u32,
    /// The slow start threshold at the start, segments; `None`: the window.
    pub initial_threshold: Option<u32>,
    /// How the window grows in congestion avoidance.
    pub growth: Growth,
    /// Whether the first two duplicate acknowledgements let new segments go (RFC 3042).
    pub limited_transmit: bool,
    /// How long an acknowledgement may wait for a second segment (RFC 5681 section 4.2); `None`: each segment is acknowledged.
    pub delayed_ack: Option<Span>,
    /// The retransmission timer.
    pub rto: RtoSpec,
    /// Whether a timeout makes the sender forget what was selectively acknowledged (RFC 2018 section 8).
    pub forget_on_timeout: bool,
    /// Whether once in a recovery the last segment is sent again when nothing else may be (RFC 6675 section 4, NextSeg rule 4).
    pub rescue: bool,
    /// Code point of its packets, before any marker.
    pub dscp: Dscp,
}

impl Default for Tcp {
    /// SACK TCP as in RFC 6675 with today's timer, 1460 bytes a segment, 64 KB of window and an initial window of RFC 5681.
    fn default() -> Tcp {
        Tcp {
            mss: 1_460,
            window: Bytes::new(65_535),
            initial_window: 3,
            initial_threshold: None,
            growth: Growth::Reno,
            limited_transmit: true,
            delayed_ack: None,
            rto: RtoSpec::default(),
            forget_on_timeout: true,
            rescue: true,
            dscp: Dscp(0),
        }
    }
}

/// How the congestion window grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// A segment a round trip, halved on loss (RFC 5681).
    Reno,
    /// A cubic function of the time since the last loss, to 0.7 on loss (RFC 9438).
    Cubic,
}

/// The retransmission timer (RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoSpec {
    /// Before the first measurement.
    pub initial: Span,
    /// Never less.
    pub floor: Span,
    /// Never more.
    pub ceiling: Span,
    /// G, the clock's granularity: round trips are measured, and timeouts set, in whole ticks.
    pub tick: Span,
}

impl Default for RtoSpec {
    /// RFC 6298: 1 s at first and at least, 60 s at most; a clock of 1 ms.
    fn default() -> RtoSpec {
        RtoSpec {
            initial: Span::from_secs(1),
            floor: Span::from_secs(1),
            ceiling: Span::from_secs(60),
            tick: Span::from_millis(1),
        }
    }
}

/// What a TCP connection did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpReport {
    /// Its five-tuple, from sender to receiver.
    pub flow: FlowKey,
    /// Whom it is counted with.
    pub group: u32,
    /// Bytes that the receiver's application got in order within the measured window: goodput.
    pub goodput: Bytes,
    /// The same from the beginning.
    pub delivered: Bytes,
    /// Segments with data that the sender sent, retransmissions included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Times that the retransmission timer expired.
    pub timeouts: u64,
    /// Times that recovery was entered by duplicate acknowledgements.
    pub recoveries: u64,
    /// Smoothed round trip time now; zero before the first measurement.
    pub srtt: Span,
    /// Round trips measured.
    pub rtt_samples: u64,
    /// Their mean.
    pub rtt_mean: Span,
    /// Congestion window now, in 1/65536 of a segment.
    pub window: u32,
    /// When the handshake was complete.
    pub opened: Option<Time>,
    /// When the last byte of a finite source was acknowledged.
    pub finished: Option<Time>,
}
