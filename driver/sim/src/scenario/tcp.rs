//! The description of a TCP connection: its ends, times and amount, and all parameters of RFC 5681, 6675,
//! 6298, 3042 and 9438.

use super::NodeId;
use terms::{Bytes, Dscp, FlowKey, Span, Time};

/// A TCP connection, by its position in [`super::Scenario::connections`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TcpId(pub usize);

/// A TCP connection: a sender that opens it, and a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpSpec {
    /// The sender's node.
    pub from: NodeId,
    /// The receiver's node.
    pub to: NodeId,
    /// The sender's and the receiver's port.
    pub ports: (u16, u16),
    /// The time at which the sender opens the connection.
    pub start: Time,
    /// The time at which the sender stops sending new data. Data sent before is still delivered.
    pub stop: Time,
    /// The amount that it sends; `None` means no end.
    pub bytes: Option<Bytes>,
    /// The number of its group in reports.
    pub group: u32,
    /// The behaviour of both ends.
    pub tcp: Tcp,
}

impl TcpSpec {
    /// A greedy connection that starts at time zero.
    pub fn greedy(from: NodeId, to: NodeId, ports: (u16, u16)) -> TcpSpec {
        TcpSpec { from, to, ports, start: Time::ZERO, stop: Time::FOREVER, bytes: None, group: 0, tcp: Tcp::default() }
    }
}

/// The behaviour of a TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tcp {
    /// Bytes of data in a full segment.
    pub mss: u32,
    /// The receiver's window: at most so much beyond the last byte in order. The application reads at once,
    /// so the window is always open. Only whole segments of it count.
    pub window: Bytes,
    /// Segments that may be sent before the first acknowledgement (RFC 5681 section 3.1, RFC 6928).
    pub initial_window: u32,
    /// The slow start threshold at the start, segments; `None`: the window.
    pub initial_threshold: Option<u32>,
    /// The growth of the window in congestion avoidance.
    pub growth: Growth,
    /// True if the first two duplicate acknowledgements let new segments go (RFC 3042).
    pub limited_transmit: bool,
    /// Maximum wait of an acknowledgement for a second segment (RFC 5681 section 4.2); `None` if each segment
    /// is acknowledged.
    pub delayed_ack: Option<Span>,
    /// The retransmission timer.
    pub rto: RtoSpec,
    /// True if a timeout makes the sender forget its SACK information (RFC 2018 section 8).
    pub forget_on_timeout: bool,
    /// True if the last segment is sent again, once in a recovery, when nothing else may be (RFC 6675 section
    /// 4, NextSeg rule 4).
    pub rescue: bool,
    /// DSCP of its packets, before any marker.
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

/// The growth of the congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// One segment a round trip; half on loss (RFC 5681).
    Reno,
    /// A cubic function of the time since the last loss; 0.7 of the window on loss (RFC 9438).
    Cubic,
}

/// The retransmission timer (RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoSpec {
    /// The timeout before the first measurement.
    pub initial: Span,
    /// The least timeout.
    pub floor: Span,
    /// The greatest timeout.
    pub ceiling: Span,
    /// G, the clock's granularity: round trips and timeouts are whole ticks.
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

/// The results of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpReport {
    /// Its five-tuple, from sender to receiver.
    pub flow: FlowKey,
    /// The number of its group.
    pub group: u32,
    /// Goodput: bytes that the receiver's application got in order within the measured window.
    pub goodput: Bytes,
    /// Bytes that the receiver's application got in order from the beginning.
    pub delivered: Bytes,
    /// Data segments sent, retransmissions included.
    pub sent: u64,
    /// Data segments sent again.
    pub retransmitted: u64,
    /// The number of expiries of the retransmission timer.
    pub timeouts: u64,
    /// The number of recoveries entered by duplicate acknowledgements.
    pub recoveries: u64,
    /// The present smoothed round trip time; zero before the first measurement.
    pub srtt: Span,
    /// The number of round trips measured.
    pub rtt_samples: u64,
    /// The mean of the round trips measured.
    pub rtt_mean: Span,
    /// The present congestion window, in 1/65536 of a segment.
    pub window: u32,
    /// The time at which the handshake was complete.
    pub opened: Option<Time>,
    /// The time at which the last byte of a finite source was acknowledged.
    pub finished: Option<Time>,
}
