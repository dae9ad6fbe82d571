//! The sender's reaction to loss: duplicate acknowledgements (RFC 6675 section 5), NextSeg (section 4), and
//! timeouts (section 5.1, RFC 5681 section 3.1, RFC 6298 section 5).

use super::super::scoreboard::DUP_THRESH;
use super::super::{Conduct, ONE};
use super::{Segment, SenderPhase, TcpSender};
use terms::Time;

impl TcpSender {
    /// Handles an acknowledgement with new SACK information outside of a recovery. After a timeout no
    /// recovery begins until all segments sent before it are acknowledged: the phase prevents that.
    pub(super) fn duplicate(&mut self) {
        self.dup_acks = self.dup_acks.saturating_add(1);
        if u32::from(self.dup_acks) >= DUP_THRESH || self.board.first_is_lost() {
            self.enter_recovery();
        }
    }

    /// Step 4: enters loss recovery.
    fn enter_recovery(&mut self) {
        let flight = self.board.flight().saturating_sub(u32::from(self.limited));
        self.recover = self.board.high;
        self.threshold = self.grower.reduce(self.window, flight.max(1) * ONE);
        self.window = self.threshold;
        self.board.restart();
        self.phase = SenderPhase::Recovery;
        self.urgent = true;
        self.rescued = self.board.una;
        self.counts.recoveries += 1;
        self.timer.do_not_measure();
    }

    /// Step C: the next segment in recovery, by NextSeg.
    pub(super) fn next_in_recovery(&mut self, conduct: &Conduct) -> Option<Segment> {
        if core::mem::take(&mut self.urgent) {
            // Step 4.3, whatever the window says.
            return Some(self.resend(self.board.una));
        }
        if self.board.pipe() >= self.window >> 16 {
            return None;
        }
        if let Some(lost) = self.board.next_lost() {
            return Some(self.resend(lost));
        }
        if let Some(new) = self.new_data(conduct) {
            return Some(new);
        }
        if let Some(doubtful) = self.board.next_doubtful() {
            return Some(self.resend(doubtful));
        }
        // HighACK is greater than RescueRxt.
        if conduct.rescue && self.board.una > self.rescued + 1 {
            let last = self.board.last_missing()?;
            self.rescued = self.recover;
            return Some(Segment::Again(last));
        }
        None
    }

    fn resend(&mut self, segment: u32) -> Segment {
        self.board.send_again(segment);
        Segment::Again(segment)
    }

    /// Handles an expiry of the retransmission timer.
    pub(super) fn timed_out(&mut self, conduct: &Conduct, now: Time) {
        let first = self.timer.backed_off() == 0;
        self.timer.expired(&conduct.rto);
        self.counts.timeouts += 1;
        if self.phase == SenderPhase::Opening {
            self.urgent = true;
            self.timer.start(now);
            return;
        }
        if self.board.flight() == 0 {
            self.timer.stop();
            return;
        }
        // RFC 5681 equation 4: the threshold is held when the same segment times out again.
        if first {
            let flight = self.board.flight().saturating_sub(u32::from(self.limited));
            self.threshold = self.grower.reduce(self.window, flight.max(1) * ONE);
        }
        self.grower.timeout();
        self.window = ONE;
        self.phase = SenderPhase::Loss;
        self.urgent = false;
        self.recover = self.board.high;
        self.dup_acks = 0;
        self.limited = 0;
        if conduct.forget_on_timeout {
            self.board.forget();
        } else {
            self.board.restart();
        }
        self.timer.start(now);
    }

    /// The next segment after a timeout. All missing segments count as lost and are sent again in order, then
    /// new data, in slow start.
    pub(super) fn next_after_timeout(&mut self, conduct: &Conduct) -> Option<Segment> {
        if self.board.resent >= self.window >> 16 {
            return None;
        }
        let hole = self.board.next_hole();
        if hole < self.board.high {
            return Some(self.resend(hole));
        }
        let new = self.new_data(conduct)?;
        self.board.send_again(self.board.high - 1);
        Some(new)
    }
}
