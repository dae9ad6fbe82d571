//! State of many thousand TCP connections at their sending and receiving hosts.
//!
//! `hosts` has what happens at the ends: packets that arrive, and timers.

mod hosts;

use crate::labels::Labels;
use crate::packet::NONE;
use crate::scenario::{NodeId, Scenario, TcpReport, TcpSpec};
use crate::tcp::{Conduct, HEADERS, TcpReceiver, TcpSender};
use std::rc::Rc;
use terms::{Bytes, FlowKey, Span, Time};

/// All connections.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// The senders, by connection.
    senders: Vec<SenderEnd>,
    /// The receivers, by connection.
    receivers: Vec<ReceiverEnd>,
    /// The conducts. Ends refer to them by number.
    conducts: Vec<Conduct>,
    /// Seldom used state, by connection.
    details: Vec<Details>,
    labels: Rc<Labels>,
}

/// A sender and its route: two cache lines that every acknowledgement needs, and one more.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct SenderEnd {
    /// The time of the timer's event, ns; `u64::MAX` if none is set.
    alarm: u64,
    /// The direction of a link by which it sends.
    hop: u32,
    /// The number of the last segment, if there is one.
    last: u32,
    /// Length of that segment, IP bytes.
    last_len: u16,
    /// Length of the other segments, IP bytes.
    full_len: u16,
    /// The number of its conduct.
    conduct: u16,
    /// The receiver's node.
    peer: u16,
    /// The sender.
    tcp: TcpSender,
    /// The DSCP of its packets.
    dscp: u8,
}

/// A receiver and its route: a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct ReceiverEnd {
    /// The time of the timer's event, ns; `u64::MAX` if none is set.
    alarm: u64,
    /// The receiver.
    tcp: TcpReceiver,
    /// The direction of a link by which it sends.
    hop: u32,
    /// The number of its conduct.
    conduct: u16,
    /// The sender's node.
    peer: u16,
    /// The DSCP of its packets.
    dscp: u8,
}

/// Seldom used state of a connection.
#[derive(Clone, Copy, Debug)]
struct Details {
    /// The connection's description.
    spec: TcpSpec,
    /// The time at which the handshake was complete.
    opened: Option<Time>,
    /// The time at which the last segment was acknowledged.
    finished: Option<Time>,
    /// Segments delivered until the start and until the end of the measured window.
    edges: [Option<u32>; 2],
    /// The number of segments of a finite source.
    segments: u32,
}

impl Connections {
    /// The connections of a valid scenario.
    pub(crate) fn new(scenario: &Scenario, labels: Rc<Labels>) -> Connections {
        let most = scenario.connections.len();
        let mut all = Connections {
            senders: Vec::with_capacity(most),
            receivers: Vec::with_capacity(most),
            conducts: Vec::new(),
            details: Vec::with_capacity(most),
            labels,
        };
        for spec in &scenario.connections {
            let conduct = Conduct::new(&spec.tcp);
            // There are few, and mostly it is the last one.
            let known = all.conducts.iter().rposition(|known| *known == conduct);
            let number = known.unwrap_or_else(|| {
                all.conducts.push(conduct);
                all.conducts.len() - 1
            });
            all.add(spec, number as u16);
        }
        all
    }

    fn add(&mut self, spec: &TcpSpec, conduct: u16) {
        let mss = u64::from(spec.tcp.mss);
        let segments =
            spec.bytes.map_or(u32::MAX, |bytes| u32::try_from(bytes.get().div_ceil(mss)).unwrap_or(u32::MAX));
        let rest = spec.bytes.map_or(mss, |bytes| match bytes.get() % mss {
            0 => mss,
            rest => rest,
        });
        let (from, to) = (spec.from.0 as u16, spec.to.0 as u16);
        let dscp = spec.tcp.dscp.0;
        self.senders.push(SenderEnd {
            tcp: TcpSender::new(&self.conducts[usize::from(conduct)], segments),
            alarm: u64::MAX,
            hop: NONE,
            last: segments.wrapping_sub(1),
            last_len: (rest as u32 + HEADERS) as u16,
            full_len: (spec.tcp.mss + HEADERS) as u16,
            peer: to,
            conduct,
            dscp,
        });
        let tcp = TcpReceiver::default();
        self.receivers.push(ReceiverEnd { tcp, alarm: u64::MAX, hop: NONE, peer: from, conduct, dscp });
        self.details.push(Details { spec: *spec, opened: None, finished: None, edges: [None; 2], segments });
    }

    /// The five-tuple of the sender's packets.
    pub fn flow(&self, number: u32) -> FlowKey {
        self.labels.of_connection(number)
    }

    /// Updates the first direction of every connection.
    pub(crate) fn find_ways(&mut self, ways: impl Fn(usize, usize) -> Option<usize>) {
        let hop = |at: NodeId, to: NodeId| ways(at.0, to.0).map_or(NONE, |hop| hop as u32);
        for (details, (sender, receiver)) in self.details.iter().zip(self.senders.iter_mut().zip(&mut self.receivers)) {
            sender.hop = hop(details.spec.from, details.spec.to);
            receiver.hop = hop(details.spec.to, details.spec.from);
        }
    }

    /// Reads the state that an end will need soon, so that it is in the cache. The result has no meaning.
    #[inline]
    pub(crate) fn expect(&self, flow: u32, sender: bool) -> u64 {
        let flow = flow as usize;
        if sender {
            let end = &self.senders[flow];
            end.alarm ^ end.tcp.wake_at().as_nanos()
        } else {
            self.receivers[flow].alarm
        }
    }

    /// Notes the counters at an edge of the measured window: 0 or 1.
    pub(crate) fn edge(&mut self, edge: usize) {
        for (details, end) in self.details.iter_mut().zip(&self.receivers) {
            details.edges[edge] = Some(end.tcp.delivered());
        }
    }

    /// The report of a connection.
    pub fn report(&self, number: usize) -> TcpReport {
        let (details, sender) = (&self.details[number], &self.senders[number]);
        let counts = sender.tcp.counts();
        let delivered = self.receivers[number].tcp.delivered();
        let bytes = |segments| details.bytes(segments);
        let within = details.edges[0].map_or(0, |from| bytes(details.edges[1].unwrap_or(delivered)) - bytes(from));
        TcpReport {
            flow: self.flow(number as u32),
            group: details.spec.group,
            goodput: Bytes::new(within),
            delivered: Bytes::new(bytes(delivered)),
            sent: sender.tcp.sent().into(),
            retransmitted: sender.tcp.again().into(),
            timeouts: counts.timeouts.into(),
            recoveries: counts.recoveries.into(),
            srtt: sender.tcp.timer().srtt(),
            rtt_samples: counts.rtt_samples.into(),
            rtt_mean: Span::from_nanos(counts.rtt_sum.checked_div(counts.rtt_samples.into()).unwrap_or(0)),
            window: sender.tcp.window(),
            opened: details.opened,
            finished: details.finished,
        }
    }

    /// Memory of all connections, bytes.
    pub fn memory(&self) -> usize {
        self.senders.len() * (size_of::<SenderEnd>() + size_of::<ReceiverEnd>())
    }
}

impl Details {
    /// Bytes of data in the first `segments` segments.
    fn bytes(&self, segments: u32) -> u64 {
        let whole = u64::from(segments) * u64::from(self.spec.tcp.mss);
        match self.spec.bytes {
            Some(bytes) if segments >= self.segments => bytes.get(),
            _ => whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_four_cache_lines() {
        assert_eq!((size_of::<SenderEnd>(), size_of::<ReceiverEnd>()), (192, 64));
    }
}
