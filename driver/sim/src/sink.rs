//! The sink of a source's packets: loss, throughput, delay, and whole frames.

use crate::packet::Data;
use crate::scenario::SourceSpec;
use crate::source::frame_packets;
use terms::{Rate, Span, Time};

/// Number of buckets of the delay histogram. Bucket `i` holds delays below `2^i` microseconds; the last holds
/// all longer ones.
pub const DELAY_BUCKETS: usize = 28;

/// The report of a sink on one source. It counts packets sent within the measured window, unless a field says
/// otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowReport {
    /// The number of packets sent.
    pub sent: u64,
    /// The number of those packets that arrived.
    pub received: u64,
    /// IP bytes that arrived within the window, also of packets sent before it.
    pub bytes_in_window: u64,
    /// The longest delay from source to sink.
    pub delay_max: Span,
    /// The sum of all delays, nanoseconds.
    pub delay_sum: u128,
    /// Histogram of the delays, in powers of two of a microsecond.
    pub delays: [u64; DELAY_BUCKETS],
    /// The number of frames sent.
    pub frames_sent: u64,
    /// The number of frames that arrived whole.
    pub frames_whole: u64,
    /// The number of frames that arrived in part.
    pub frames_damaged: u64,
    /// The measured window.
    pub window: (Time, Time),
}

/// A sink and its counters.
#[derive(Clone, Debug)]
pub struct Sink {
    report: FlowReport,
    packets_per_frame: u32,
    /// By frame: counted packets sent and received.
    frames: Vec<(u32, u32)>,
}

impl Sink {
    /// The sink of a source.
    pub fn new(source: &SourceSpec, window: (Time, Time)) -> Sink {
        Sink {
            report: FlowReport {
                sent: 0,
                received: 0,
                bytes_in_window: 0,
                delay_max: Span::ZERO,
                delay_sum: 0,
                delays: [0; DELAY_BUCKETS],
                frames_sent: 0,
                frames_whole: 0,
                frames_damaged: 0,
                window,
            },
            packets_per_frame: frame_packets(&source.pattern),
            frames: Vec::new(),
        }
    }

    /// Counts a packet that the source sends.
    pub fn sent(&mut self, data: &Data) {
        if self.counts(data.sent) {
            self.report.sent += 1;
            if let Some(frame) = self.frame(data) {
                frame.0 += 1;
            }
        }
    }

    /// Counts a packet that arrives.
    pub fn arrived(&mut self, now: Time, data: &Data) {
        if self.counts(now) {
            self.report.bytes_in_window += u64::from(data.len);
        }
        if !self.counts(data.sent) {
            return;
        }
        let delay = now - data.sent;
        self.report.received += 1;
        self.report.delay_max = self.report.delay_max.max(delay);
        self.report.delay_sum += u128::from(delay.as_nanos());
        let bucket = (u64::BITS - delay.as_micros().leading_zeros()) as usize;
        self.report.delays[bucket.min(DELAY_BUCKETS - 1)] += 1;
        if let Some(frame) = self.frame(data) {
            frame.1 += 1;
        }
    }

    /// The report so far. Packets that have not arrived count as lost.
    pub fn report(&self) -> FlowReport {
        let mut report = self.report.clone();
        let whole_sent = self.frames.iter().filter(|(sent, _)| *sent == self.packets_per_frame);
        for (sent, received) in whole_sent {
            report.frames_sent += 1;
            report.frames_whole += u64::from(received == sent);
            report.frames_damaged += u64::from(received != sent && *received > 0);
        }
        report
    }

    fn counts(&self, at: Time) -> bool {
        self.report.window.0 <= at && at < self.report.window.1
    }

    fn frame(&mut self, data: &Data) -> Option<&mut (u32, u32)> {
        if self.packets_per_frame == 1 {
            return None;
        }
        let at = usize::try_from(data.sequence / u64::from(self.packets_per_frame)).ok()?;
        if self.frames.len() <= at {
            self.frames.resize(at + 1, (0, 0));
        }
        self.frames.get_mut(at)
    }
}

impl FlowReport {
    /// The number of packets lost.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Packets lost per million sent.
    pub fn loss_ppm(&self) -> u64 {
        (self.lost() * 1_000_000).checked_div(self.sent).unwrap_or(0)
    }

    /// IP bytes that arrived, as a rate over the window.
    pub fn throughput(&self) -> Rate {
        let span = (self.window.1 - self.window.0).as_nanos().max(1);
        let bits = u128::from(self.bytes_in_window) * 8 * u128::from(Span::NANOS_PER_SEC);
        Rate::from_bps(u64::try_from(bits / u128::from(span)).unwrap_or(u64::MAX))
    }

    /// Whole frames per 1,000 seconds.
    pub fn frames_per_kilosecond(&self) -> u64 {
        let span = (self.window.1 - self.window.0).as_nanos().max(1);
        let wide = u128::from(self.frames_whole) * 1_000 * u128::from(Span::NANOS_PER_SEC) / u128::from(span);
        u64::try_from(wide).unwrap_or(u64::MAX)
    }

    /// Mean delay.
    pub fn delay_mean(&self) -> Span {
        let mean = self.delay_sum.checked_div(u128::from(self.received)).unwrap_or(0);
        Span::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }
}
