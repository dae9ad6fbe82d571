//! What arrives of a source's packets: loss, throughput, delay, and frames that are whole.

use crate::packet::Data;
use crate::scenario::SourceSpec;
use crate::source::frame_packets;
use terms::{Rate, Span, Time};

/// Bounds of the delay histogram: bucket `i` holds delays below `2^i` microseconds, the last all that are longer.
pub const DELAY_BUCKETS: usize = 28;

/// What a sink has seen of one source. Only packets sent within the measured window count, except where said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowReport {
    /// Packets sent.
    pub sent: u64,
    /// Packets of them that arrived.
    pub received: u64,
    /// IP bytes that arrived within the window, whenever they were sent.
    pub bytes_in_window: u64,
    /// The longest delay from source to sink.
    pub delay_max: Span,
    /// The sum of all delays, nanoseconds.
    pub delay_sum: u128,
    /// Delays, in powers of two of a microsecond.
    pub delays: [u64; DELAY_BUCKETS],
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames of them that arrived whole.
    pub frames_whole: u64,
    /// Frames of them that arrived in part.
    pub frames_damaged: u64,
    /// The measured window.
    pub window: (Time, Time),
}

/// A sink at work.
#[derive(Clone, Debug)]
pub struct Sink {
    report: FlowReport,
    packets_per_frame: u32,
    /// By frame: packets sent and received, of those that count.
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

    /// The source sends.
    pub fn sent(&mut self, data: &Data) {
        if self.counts(data.sent) {
            self.report.sent += 1;
            if let Some(frame) = self.frame(data) {
                frame.0 += 1;
            }
        }
    }

    /// A packet arrives.
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

    /// What it has seen; frames are judged as if nothing more came.
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
    /// Packets lost.
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
