//! The sender: told of acknowledgements and time, it says which segment goes next and when to wake it.

mod recovery;

use super::growth::Grower;
use super::scoreboard::Scoreboard;
use super::timer::Timer;
use super::{Blocks, Conduct, ONE};
use terms::{Span, Time};

/// A segment to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// Opens the connection.
    Syn,
    /// Data that has not been sent before.
    New(u32),
    /// Data that has been sent before.
    Again(u32),
}

/// The phase of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SenderPhase {
    /// Not yet told to open.
    Closed,
    /// Its SYN is on the way.
    Opening,
    /// Slow start or congestion avoidance.
    Open,
    /// Loss recovery by SACK (RFC 6675 section 5).
    Recovery,
    /// After a timeout, until all that was sent before it is acknowledged.
    Loss,
}

/// Counters of rare events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpCounts {
    /// Timeouts.
    pub timeouts: u32,
    /// Entries into recovery.
    pub recoveries: u32,
    /// The number of round trips measured.
    pub rtt_samples: u32,
    /// Sum of the round trips measured, ns.
    pub rtt_sum: u64,
}

/// A sender and its state. The fields that each acknowledgement needs come first.
#[derive(Clone, PartialEq, Debug)]
#[repr(C)]
pub struct TcpSender {
    board: Scoreboard,
    /// RecoveryPoint + 1, of the last recovery or timeout.
    recover: u32,
    /// One past the last segment of the source.
    limit: u32,
    /// Congestion window and threshold, 2^-16 segments.
    window: u32,
    threshold: u32,
    /// RescueRxt.
    rescued: u32,
    phase: SenderPhase,
    dup_acks: u8,
    /// Segments sent by limited transmit since the last cumulative acknowledgement; they do not count in FlightSize.
    limited: u8,
    /// True if a retransmission or SYN goes whatever the window allows.
    urgent: bool,
    /// Data segments sent, and those of them that were sent before.
    sent: u32,
    again: u32,
    timer: Timer,
    grower: Grower,
    counts: TcpCounts,
}

impl TcpSender {
    /// A sender of `segments` segments; `u32::MAX` means no end.
    pub fn new(conduct: &Conduct, segments: u32) -> TcpSender {
        TcpSender {
            board: Scoreboard::default(),
            recover: 0,
            limit: segments,
            window: conduct.initial_window * ONE,
            threshold: conduct.threshold * ONE,
            rescued: 0,
            phase: SenderPhase::Closed,
            dup_acks: 0,
            limited: 0,
            urgent: false,
            sent: 0,
            again: 0,
            timer: Timer::new(&conduct.rto),
            grower: Grower::new(conduct.growth),
            counts: TcpCounts::default(),
        }
    }

    /// Opens the connection.
    pub fn open(&mut self, now: Time) {
        if self.phase == SenderPhase::Closed {
            self.phase = SenderPhase::Opening;
            self.urgent = true;
            self.timer.start(now);
            self.timer.sent(now, 0);
        }
    }

    /// Handles the answer to the SYN.
    pub fn opened(&mut self, conduct: &Conduct, now: Time) {
        if self.phase != SenderPhase::Opening {
            return;
        }
        self.urgent = false;
        self.phase = SenderPhase::Open;
        let sample = self.timer.acked(&conduct.rto, now, 1);
        self.sampled(sample);
        self.timer.stop();
        if self.timer.backed_off() > 0 {
            // RFC 5681 section 3.1 and RFC 6298 section 5.7: the SYN or its answer was lost.
            self.window = ONE;
            self.timer.after_lost_handshake();
        }
    }

    /// Stops new data from now on.
    pub fn stop(&mut self) {
        self.limit = self.board.high;
    }

    /// Handles an acknowledgement: all segments below `ack` have arrived, and those in `blocks`.
    #[inline]
    pub fn acknowledged(&mut self, conduct: &Conduct, now: Time, ack: u32, blocks: &Blocks) {
        let (acked, _) = self.board.advance(ack);
        let sacked = if blocks[0].1 == 0 { 0 } else { self.board.sack(blocks) };
        if acked > 0 {
            let sample = self.timer.acked(&conduct.rto, now, ack);
            self.sampled(sample);
            self.dup_acks = 0;
            self.limited = 0;
            self.forward(conduct, now, acked);
            // RFC 6298 sections 5.2 and 5.3.
            if self.board.flight() == 0 {
                self.timer.stop();
            } else {
                self.timer.start(now);
            }
        }
        if sacked > 0 && self.phase == SenderPhase::Open {
            self.duplicate();
        }
    }

    /// Handles newly acknowledged data.
    fn forward(&mut self, conduct: &Conduct, now: Time, acked: u32) {
        match self.phase {
            SenderPhase::Recovery if self.board.una >= self.recover => {
                self.phase = SenderPhase::Open;
                self.board.restart();
            }
            SenderPhase::Recovery => {}
            SenderPhase::Loss if self.board.una >= self.recover => {
                self.phase = SenderPhase::Open;
                self.board.restart();
                self.grow(conduct, now, acked);
            }
            SenderPhase::Open | SenderPhase::Loss => self.grow(conduct, now, acked),
            SenderPhase::Closed | SenderPhase::Opening => {}
        }
    }

    fn grow(&mut self, conduct: &Conduct, now: Time, acked: u32) {
        let most = conduct.window * ONE;
        if self.window >= most {
            self.window = most;
        } else if self.window < self.threshold {
            // RFC 5681 equation 2.
            self.window = (self.window + ONE).min(most);
        } else {
            self.window = self.grower.avoid(now, self.timer.srtt(), self.window, acked).min(most);
        }
    }

    /// The segment to send now, if one may be sent.
    #[inline]
    pub fn poll(&mut self, conduct: &Conduct, now: Time) -> Option<Segment> {
        let segment = match self.phase {
            SenderPhase::Closed => return None,
            SenderPhase::Opening => {
                let go = core::mem::take(&mut self.urgent);
                return go.then_some(Segment::Syn);
            }
            SenderPhase::Open => self.next_open(conduct)?,
            SenderPhase::Recovery => self.next_in_recovery(conduct)?,
            SenderPhase::Loss => self.next_after_timeout(conduct)?,
        };
        self.sent = self.sent.saturating_add(1);
        match segment {
            Segment::New(number) if self.phase == SenderPhase::Open => self.timer.sent(now, number),
            Segment::Again(_) => self.again = self.again.saturating_add(1),
            _ => {}
        }
        if !self.timer.runs() {
            self.timer.start(now);
        }
        Some(segment)
    }

    /// The time at which to wake it; [`Time::FOREVER`] if no timer runs.
    #[inline]
    pub fn wake_at(&self) -> Time {
        self.timer.deadline()
    }

    /// Handles the time: a timeout, if it is due.
    pub fn wake(&mut self, conduct: &Conduct, now: Time) {
        if now >= self.timer.deadline() {
            self.timed_out(conduct, now);
        }
    }

    fn next_open(&mut self, conduct: &Conduct) -> Option<Segment> {
        let flight = self.board.flight();
        if self.dup_acks > 0 && conduct.limited_transmit {
            // RFC 6675 section 5 step 3, RFC 3042.
            if self.board.pipe() >= self.window >> 16 || self.limited >= 2 {
                return None;
            }
            let new = self.new_data(conduct)?;
            self.limited += 1;
            return Some(new);
        }
        if flight >= self.window >> 16 {
            return None;
        }
        self.new_data(conduct)
    }

    /// The next segment that was never sent, if there is one and the receiver's window has room.
    #[inline]
    fn new_data(&mut self, conduct: &Conduct) -> Option<Segment> {
        let next = self.board.high;
        if next >= self.limit || next - self.board.una >= conduct.window {
            return None;
        }
        self.board.high += 1;
        Some(Segment::New(next))
    }

    fn sampled(&mut self, sample: Option<Span>) {
        if let Some(rtt) = sample {
            self.counts.rtt_samples += 1;
            self.counts.rtt_sum = self.counts.rtt_sum.saturating_add(rtt.as_nanos());
        }
    }

    /// True if all segments of the source are acknowledged.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.board.una >= self.limit
    }

    /// The present phase.
    pub fn phase(&self) -> SenderPhase {
        self.phase
    }

    /// Congestion window, 2^-16 segments.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Slow start threshold, 2^-16 segments.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The scoreboard.
    pub fn board(&self) -> &Scoreboard {
        &self.board
    }

    /// The retransmission timer.
    pub fn timer(&self) -> &Timer {
        &self.timer
    }

    /// The number of data segments sent.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// The number of data segments that were sent before.
    pub fn again(&self) -> u32 {
        self.again
    }

    /// Counters of rare events.
    pub fn counts(&self) -> TcpCounts {
        self.counts
    }
}
