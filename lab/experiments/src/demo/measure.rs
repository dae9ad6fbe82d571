//! The measurement of one point of the sweep.

use super::live::DemoPages;
use super::report::{DemoPoint, ETHERNET};
use crate::reserve::ReservedFlow;
use crate::video::rtp;
use crate::video::show;
use crate::video::stream::Stream;
use bed::cbr::{Cbr, PACKET, PacketCount};
use bed::error::Error;
use bed::patience::Patience;
use bed::{Bed, CARRIERS};
use linux::clock::Clock;
use std::time::{Duration, Instant};
use terms::{Rate, Time};

/// The pause between a change and the measurement: queues fill, and the decoder finds a key picture.
pub const SETTLE: Duration = Duration::from_millis(1_500);
/// The time between two reports to those who look on.
const TOLD_EACH: Duration = Duration::from_secs(1);
/// The pause after a measurement, for packets that are still on the path.
const STRAGGLERS: Duration = Duration::from_millis(150);

/// The running programs and flows, and the settings of a measurement.
pub struct Scene<'a> {
    pub stream: Stream,
    pub flood: Cbr,
    pub clock: Clock,
    pub patience: &'a Patience,
    pub length: Duration,
    pub windows: u32,
    /// The pages for browsers that look on.
    pub pages: Option<DemoPages>,
    /// True while the video has a reservation.
    pub reserved: bool,
}

/// A stretch of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredWindow {
    pub from: Time,
    pub until: Time,
}

impl MeasuredWindow {
    pub fn contains(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }

    fn seconds(&self) -> f64 {
        self.until.since(self.from).as_nanos() as f64 / 1e9
    }
}

impl Scene<'_> {
    /// Sets the flood, waits until the queues have settled, and measures.
    pub fn point(&mut self, flood: Rate, setup: Option<Duration>) -> Result<(DemoPoint, MeasuredWindow), Error> {
        self.flood.set_rate(flood);
        self.wait(SETTLE)?;
        let mut edges = vec![(self.clock.now(), self.flood.count())];
        for _ in 0..self.windows {
            self.wait(self.length / self.windows)?;
            edges.push((self.clock.now(), self.flood.count()));
        }
        self.patience.wait(STRAGGLERS)?;
        self.stream.check()?;
        Ok(self.evaluate(flood, setup, &edges))
    }

    /// Waits, and tells those who look on how it goes.
    fn wait(&self, span: Duration) -> Result<(), Error> {
        let Some(pages) = &self.pages else { return self.patience.wait(span) };
        let until = Instant::now() + span;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.patience.wait(left.min(TOLD_EACH))?;
            if left <= TOLD_EACH {
                return Ok(());
            }
            pages.tell(self.clock.now(), &self.stream.shown(), &self.stream.came(), self.flood.rate(), self.reserved);
        }
    }

    fn evaluate(
        &self,
        flood: Rate,
        setup: Option<Duration>,
        edges: &[(Time, PacketCount)],
    ) -> (DemoPoint, MeasuredWindow) {
        let (came, shown) = (self.stream.came(), self.stream.shown());
        let all = MeasuredWindow { from: edges[0].0, until: edges[edges.len() - 1].0 };
        let tally = rtp::tally(&came, all.from, all.until);
        let sent = rtp::tally(&self.stream.sent(), all.from, all.until);
        let screen = show::screen(&shown, all.from, all.until);
        let (mut video, mut wire, mut fps, mut flood_sent, mut flood_got) = (vec![], vec![], vec![], vec![], vec![]);
        for pair in edges.windows(2) {
            let ((from, before), (until, after)) = (pair[0], pair[1]);
            let window = MeasuredWindow { from, until };
            let rate = |bytes: u64| bytes as f64 * 8.0 / 1e6 / window.seconds();
            let packets = came.iter().filter(|packet| window.contains(packet.at)).count() as u64;
            let bytes = rtp::tally(&came, from, until).bytes.get();
            video.push(rate(bytes));
            wire.push(rate(bytes + packets * u64::from(ETHERNET)));
            fps.push(show::screen(&shown, from, until).fps);
            flood_sent.push(rate((after.sent - before.sent) * u64::from(PACKET)));
            flood_got.push(rate(after.received_bytes - before.received_bytes));
        }
        // If nothing at all came, the sequence has no gaps to count: then all that was sent was lost.
        let loss = if tally.expected == 0 && sent.expected > 0 { 1.0 } else { tally.loss() };
        let point = DemoPoint {
            flood_asked_mbps: flood.as_bps() as f64 / 1e6,
            flood_sent_mbps: bench::median(&mut flood_sent),
            reserved: setup.is_some(),
            video_mbps: bench::median(&mut video),
            video_wire_mbps: bench::median(&mut wire),
            fps: bench::median(&mut fps),
            damaged_frames: screen.damaged(),
            frame_error_rate: screen.error_rate,
            loss,
            lost_packets: tally.lost,
            overtaken_packets: tally.overtaken,
            flood_mbps: bench::median(&mut flood_got),
            setup_ms: setup.map(|span| span.as_secs_f64() * 1e3),
        };
        (point, all)
    }
}

/// Returns the packets of the flow that exceeded its bucket at the worst node, since it was installed.
pub fn excess_packets(bed: &Bed, flow: &ReservedFlow) -> Result<u64, Error> {
    let mut most = 0;
    for name in CARRIERS {
        let rows = bed.status(name)?.reservations;
        let of_flow = rows.iter().filter(|row| (row.session, row.sender) == (flow.session, flow.sender));
        let excess = of_flow.filter_map(|row| row.measured.as_ref()).map(|measured| measured.excess_packets);
        most = most.max(excess.max().unwrap_or(0));
    }
    Ok(most)
}
