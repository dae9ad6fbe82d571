//! *Measured*, the last of the four words: rates from two readings of a flow's counters.

use documents::agent::FlowMeasured;
use linux::plane::KernelPlane;
use std::collections::BTreeMap;
use terms::{FlowKey, IfIndex, Span, Time};
use traffic::plan::Counters;

/// The least time between readings; within it the last rate is returned again.
const LEAST: Span = Span::from_millis(200);

/// The interval between reads of the kernel's flows, and the most flows in one read. With more flows, each is read
/// less often.
const LOOK_EVERY: Span = Span::from_secs(1);
const AT_ONCE: usize = 256;
/// The time for which a reading is kept beyond a round of reads.
const KEPT: Span = Span::from_secs(60);

/// The last reading of each flow, and the rate that it gave.
#[derive(Debug, Default)]
pub struct FlowMeter {
    flows: BTreeMap<(IfIndex, FlowKey), Reading>,
    /// The flow that was read last.
    looked: Option<(IfIndex, FlowKey)>,
    next: Time,
    /// The time at which the reads of all flows began anew.
    round: Time,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Time,
    counters: Counters,
    /// The time between the reading before and this one.
    over: Span,
    bytes: u64,
    excess_bytes: u64,
}

impl FlowMeter {
    /// The time of the next look, if there is anything to see.
    pub fn wake_at(&self, plane: &KernelPlane) -> Option<Time> {
        plane.has_flows().then_some(self.next)
    }

    /// Reads the counters of those whose turn it is, if it is time: so that a question is answered at once.
    pub fn look(&mut self, now: Time, plane: &KernelPlane) {
        if now < self.next {
            return;
        }
        self.next = now + LOOK_EVERY;
        let turn = plane.flows_after(self.looked, AT_ONCE);
        // Fewer: the last has been read, and the first is next.
        self.looked = turn.last().map(|(key, _)| *key).filter(|_| turn.len() == AT_ONCE);
        if self.looked.is_none() {
            // Flows that have gone are forgotten also where the status is never asked for.
            self.forget(now, now.since(self.round) + KEPT);
            self.round = now;
        }
        for ((oif, flow), counters) in turn {
            counters.map(|counters| self.read(now, oif, &flow, counters));
        }
    }

    /// Takes a reading, and returns the rate since the one before.
    pub fn read(&mut self, now: Time, oif: IfIndex, flow: &FlowKey, counters: Counters) -> FlowMeasured {
        let last = self.flows.get(&(oif, *flow)).copied();
        let fresh = Reading { at: now, counters, over: Span::ZERO, bytes: 0, excess_bytes: 0 };
        let reading = match last {
            None => fresh,
            // A flow that was removed and installed again counts from zero.
            Some(last) if counters.bytes < last.counters.bytes || counters.packets < last.counters.packets => fresh,
            Some(last) if now.since(last.at) < LEAST => return told(&last, &counters),
            Some(last) => Reading {
                over: now.since(last.at),
                bytes: counters.bytes - last.counters.bytes,
                excess_bytes: counters.over_bytes.saturating_sub(last.counters.over_bytes),
                ..fresh
            },
        };
        self.flows.insert((oif, *flow), reading);
        told(&reading, &counters)
    }

    /// The last rate of a flow; `None`: it has not been read twice.
    pub fn last(&self, oif: IfIndex, flow: &FlowKey) -> Option<FlowMeasured> {
        let reading = self.flows.get(&(oif, *flow)).filter(|reading| reading.over > Span::ZERO)?;
        Some(told(reading, &reading.counters))
    }

    /// Forgets flows that were not read for the time `after`.
    pub fn forget(&mut self, now: Time, after: Span) {
        self.flows.retain(|_, reading| now.since(reading.at) < after);
    }

    /// Forgets flows that are no longer there.
    pub fn keep(&mut self, is_there: impl Fn(&(IfIndex, FlowKey)) -> bool) {
        self.flows.retain(|key, _| is_there(key));
    }
}

fn told(reading: &Reading, now: &Counters) -> FlowMeasured {
    let seconds = reading.over.as_nanos() as f64 / Span::NANOS_PER_SEC as f64;
    let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    FlowMeasured {
        interval_ms: reading.over.as_millis(),
        bps: rate(reading.bytes),
        excess_bps: rate(reading.excess_bytes),
        packets: now.packets,
        bytes: now.bytes,
        excess_packets: now.over_packets,
        excess_bytes: now.over_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const FLOW: FlowKey = FlowKey {
        src: IpAddr::V4(Ipv4Addr::LOCALHOST),
        dst: IpAddr::V4(Ipv4Addr::LOCALHOST),
        protocol: 17,
        src_port: 1,
        dst_port: 2,
        wild: terms::Wild::NONE,
    };

    fn counters(bytes: u64, over_bytes: u64) -> Counters {
        Counters { packets: bytes / 1000, bytes, over_packets: over_bytes / 1000, over_bytes }
    }

    #[test]
    fn a_rate_is_of_two_readings_and_says_over_what() {
        let mut meter = FlowMeter::default();
        let at = |ms| Time::from_nanos(0) + Span::from_millis(ms);
        let mut read = |ms, bytes, over| {
            let m = meter.read(at(ms), IfIndex(1), &FLOW, counters(bytes, over));
            (m.interval_ms, m.bps, m.excess_bps, m.bytes)
        };
        assert_eq!(read(0, 5_000, 0), (0, 0.0, 0.0, 5_000), "one reading is no rate");
        assert_eq!(read(1_000, 130_000, 1_000), (1_000, 1_000_000.0, 8_000.0, 130_000));
        assert_eq!(read(1_100, 190_000, 1_000), (1_000, 1_000_000.0, 8_000.0, 190_000), "too soon for a new rate");
        assert_eq!(read(3_000, 380_000, 1_000), (2_000, 1_000_000.0, 0.0, 380_000));
        assert_eq!(read(4_000, 1_000, 0), (0, 0.0, 0.0, 1_000), "installed anew");
    }

    /// The wall clock steps by an hour inside a window, either way (FAULTS.md M7): the rate is what went by.
    #[test]
    fn a_clock_that_steps_inside_a_window_changes_no_rate() {
        let step: &'static linux::clock::ClockAdjustment = Box::leak(Box::default());
        let clock = linux::clock::Clock::stepped(step);
        for hours in [1, -1, 24 * 365] {
            let mut meter = FlowMeter::default();
            let begun = clock.now();
            meter.read(begun, IfIndex(3), &FLOW, counters(1_000_000, 0));
            step.set(hours * 3_600_000_000_000);
            std::thread::sleep(std::time::Duration::from_millis(210));
            let now = clock.now();
            let told = meter.read(now, IfIndex(3), &FLOW, counters(2_000_000, 0));
            let expected = 8e6 / (now.since(begun).as_nanos() as f64 / 1e9);
            assert!((told.bps / expected - 1.0).abs() < 1e-9 && told.interval_ms < 60_000, "{told:?}");
        }
    }
}
