//! The retransmission timer of RFC 6298, with a clock of whole ticks.

use crate::scenario::RtoSpec;
use terms::{Span, Time};

/// The smoothed round trip time, its variation, and the timeout from both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    /// The time at which it expires, ns; `u64::MAX` if it is off.
    deadline: u64,
    /// The time at which the measured segment was sent, ns.
    timed_at: u64,
    /// In microseconds, as the next two: 32 bits hold more than an hour.
    srtt: u32,
    rttvar: u32,
    rto: u32,
    /// The measured segment, if `timing`.
    timed: u32,
    timing: bool,
    /// Timeouts since the last measurement.
    backed_off: u8,
}

impl Timer {
    /// A timer before the first measurement.
    pub fn new(spec: &RtoSpec) -> Timer {
        let rto = micros(spec.initial).max(1);
        Timer { srtt: 0, rttvar: 0, rto, deadline: u64::MAX, timed_at: 0, timed: 0, timing: false, backed_off: 0 }
    }

    /// The time at which it expires.
    #[inline]
    pub fn deadline(&self) -> Time {
        Time::from_nanos(self.deadline)
    }

    /// Sections 5.1 and 5.3: starts or restarts the timer.
    #[inline]
    pub fn start(&mut self, now: Time) {
        self.deadline = now.as_nanos().saturating_add(u64::from(self.rto) * 1_000);
    }

    /// True if the timer runs.
    #[inline]
    pub fn runs(&self) -> bool {
        self.deadline != u64::MAX
    }

    /// Section 5.2: stops the timer.
    #[inline]
    pub fn stop(&mut self) {
        self.deadline = u64::MAX;
    }

    /// Notes that a segment is sent for the first time. It is measured if no other is.
    #[inline]
    pub fn sent(&mut self, now: Time, segment: u32) {
        if !self.timing {
            (self.timed, self.timed_at, self.timing) = (segment, now.as_nanos(), true);
        }
    }

    /// Karn's algorithm (section 3): ends the measurement after a retransmission.
    #[inline]
    pub fn do_not_measure(&mut self) {
        self.timing = false;
    }

    /// Handles an acknowledgement of all segments below `ack`. Returns the round trip time if that ends a
    /// measurement.
    #[inline]
    pub fn acked(&mut self, spec: &RtoSpec, now: Time, ack: u32) -> Option<Span> {
        if !self.timing || ack <= self.timed {
            return None;
        }
        self.timing = false;
        let rtt = now.since(Time::from_nanos(self.timed_at));
        self.measured(spec, rtt);
        Some(rtt)
    }

    /// Sections 2.2 to 2.5, with the measurement and the timeout rounded up to whole ticks.
    pub fn measured(&mut self, spec: &RtoSpec, rtt: Span) {
        let tick = u64::from(micros(spec.tick).max(1));
        let r = whole(rtt.as_nanos().div_ceil(1_000), tick).max(tick);
        let (mut srtt, mut rttvar) = (u64::from(self.srtt), u64::from(self.rttvar));
        if srtt == 0 {
            (srtt, rttvar) = (r, r / 2);
        } else {
            rttvar = (3 * rttvar + srtt.abs_diff(r)) / 4;
            srtt = (7 * srtt + r) / 8;
        }
        let rto = whole(srtt + (4 * rttvar).max(tick), tick);
        (self.srtt, self.rttvar) = (narrow(srtt), narrow(rttvar));
        self.rto = narrow(rto).max(micros(spec.floor)).min(micros(spec.ceiling)).max(1);
        self.backed_off = 0;
    }

    /// Section 5.5: the timer has expired; its timeout doubles.
    pub fn expired(&mut self, spec: &RtoSpec) {
        self.rto = self.rto.saturating_mul(2).min(micros(spec.ceiling).max(1));
        self.backed_off = self.backed_off.saturating_add(1);
        self.timing = false;
    }

    /// Section 5.7: the handshake's timer had expired, so data starts with 3 s at least.
    pub fn after_lost_handshake(&mut self) {
        self.rto = self.rto.max(3_000_000);
    }

    /// Timeouts since the last measurement.
    pub fn backed_off(&self) -> u8 {
        self.backed_off
    }

    /// The present timeout.
    pub fn rto(&self) -> Span {
        Span::from_micros(u64::from(self.rto))
    }

    /// Smoothed round trip time; zero before the first measurement.
    pub fn srtt(&self) -> Span {
        Span::from_micros(u64::from(self.srtt))
    }
}

fn whole(micros: u64, tick: u64) -> u64 {
    micros.div_ceil(tick).saturating_mul(tick)
}

/// Microseconds, rounded up.
fn micros(span: Span) -> u32 {
    narrow(span.as_nanos().div_ceil(1_000))
}

fn narrow(micros: u64) -> u32 {
    u32::try_from(micros).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(floor_ms: u64, tick_ms: u64) -> RtoSpec {
        let (floor, tick) = (Span::from_millis(floor_ms), Span::from_millis(tick_ms));
        RtoSpec { initial: Span::from_secs(3), floor, ceiling: Span::from_secs(60), tick }
    }

    #[test]
    fn the_first_measurements_are_those_of_rfc_6298() {
        let spec = spec(0, 1);
        let mut timer = Timer::new(&spec);
        assert_eq!(timer.rto(), Span::from_secs(3));
        timer.measured(&spec, Span::from_millis(100));
        assert_eq!((timer.srtt().as_millis(), timer.rto().as_millis()), (100, 300), "R + 4 R/2");
        timer.measured(&spec, Span::from_millis(180));
        // RTTVAR = 3/4 50 + 1/4 80 = 57.5; SRTT = 7/8 100 + 1/8 180 = 110.
        assert_eq!((timer.srtt().as_millis(), timer.rto().as_millis()), (110, 340));
    }

    #[test]
    fn a_coarse_clock_measures_whole_ticks_and_a_floor_holds() {
        let coarse = spec(1_000, 100);
        let mut timer = Timer::new(&coarse);
        timer.measured(&coarse, Span::from_millis(31));
        assert_eq!((timer.srtt().as_millis(), timer.rto().as_millis()), (100, 1_000));
        let fine = spec(200, 100);
        timer = Timer::new(&fine);
        timer.measured(&fine, Span::from_millis(131));
        assert_eq!((timer.srtt().as_millis(), timer.rto().as_millis()), (200, 600));
    }

    #[test]
    fn it_backs_off_to_its_ceiling_and_the_next_measurement_ends_that() {
        let spec = spec(1_000, 1);
        let mut timer = Timer::new(&spec);
        timer.measured(&spec, Span::from_millis(10));
        let series: Vec<u64> = (0..8)
            .map(|_| {
                timer.expired(&spec);
                timer.rto().as_millis()
            })
            .collect();
        assert_eq!(series, [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
        timer.measured(&spec, Span::from_millis(10));
        assert_eq!((timer.rto().as_millis(), timer.backed_off()), (1_000, 0));
    }

    #[test]
    fn what_was_sent_again_is_not_measured() {
        let spec = spec(0, 1);
        let mut timer = Timer::new(&spec);
        timer.sent(Time::ZERO, 5);
        timer.sent(Time::from_nanos(1), 6);
        assert_eq!(timer.acked(&spec, Time::from_nanos(9), 5), None, "5 is not covered");
        assert_eq!(timer.acked(&spec, Time::from_nanos(9), 6), Some(Span::from_nanos(9)));
        timer.sent(Time::ZERO, 7);
        timer.do_not_measure();
        assert_eq!(timer.acked(&spec, Time::from_nanos(9), 8), None);
    }
}
