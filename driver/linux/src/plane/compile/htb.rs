//! HTB's form of a class, and back.
//!
//! HTB has no zero rate: a class without a guarantee has 1 byte/s. It borrows the byte per second that it may lose by
//! rounding.

use super::{NOTHING, bits, full_packet, narrow};
use crate::netlink::tc::class::{HtbClass, TICK_NS};
use terms::{Fault, Rate, ServiceCurve};
use traffic::plan::{ClassSpec, LinkSpec};

/// The burst of a class up to this many bytes: the bytes of this many microseconds at its rate, to catch up
/// after a late timer.
const SMALL_BURST: (u64, u64) = (65_536, 4_000);
/// A larger burst covers this time, microseconds.
const LARGE_BURST_US: u64 = 250;
/// A class's quantum is one full packet for each whole eighth of the link that it shares, at least one.
const QUANTA: u64 = 8;
/// The quantum of a link's class, bytes. A class with children uses none, and the kernel changes none in place.
pub(super) const LINK_QUANTUM: u32 = 60_000;
/// The lowest priority of HTB.
const LAST_PRIORITY: u8 = 7;

/// The class of a link of so many bytes/s.
pub(super) fn link(spec: &LinkSpec, rate: u64, header: u32) -> HtbClass {
    let packet = full_packet(spec);
    let burst = ticks(burst(rate, packet), rate);
    let overhead = super::overhead(spec, header);
    HtbClass { rate, ceil: rate, burst, ceil_burst: burst, quantum: LINK_QUANTUM, prio: 0, overhead }
}

/// A class of that link.
pub(super) fn class(spec: &ClassSpec, on: &LinkSpec, header: u32) -> Result<HtbClass, Fault> {
    let curve = spec.real_time.unwrap_or(ServiceCurve::linear(Rate::ZERO));
    let rate = (curve.m2.as_bps() / 8).max(NOTHING);
    let ceil = super::ceiling(spec, on);
    if ceil < rate {
        return Err(super::LIMIT_TOO_LOW);
    }
    let packet = full_packet(on);
    let most = burst(rate, packet).max(if curve.m1 > curve.m2 { curve.m1.supplies(curve.d).get() } else { 0 });
    let eighths = (spec.link_share.as_bps() / (on.rate.as_bps() / QUANTA).max(1)).clamp(1, QUANTA);
    Ok(HtbClass {
        rate,
        ceil,
        burst: ticks(most, rate),
        ceil_burst: ticks(burst(ceil, packet), ceil),
        quantum: narrow(packet * eighths),
        prio: u32::from(spec.priority.min(LAST_PRIORITY)),
        overhead: super::overhead(on, header),
    })
}

/// The class with this form on that link, as far as the kernel reports it; its queue is not from here.
pub(super) fn class_from(htb: &HtbClass, on: &LinkSpec) -> ClassSpec {
    ClassSpec {
        real_time: (htb.rate > NOTHING).then(|| ServiceCurve::linear(bits(htb.rate))),
        link_share: bits(htb.rate),
        upper_limit: (htb.ceil < on.rate.as_bps() / 8).then(|| bits(htb.ceil)),
        priority: htb.prio as u8,
        queue: super::unlimited(on),
    }
}

/// The burst, bytes: at least two full packets, or the bytes of a late timer at this rate.
fn burst(rate: u64, packet: u64) -> u64 {
    let (small, small_us) = SMALL_BURST;
    let in_us = |us: u64| (u128::from(rate) * u128::from(us) / 1_000_000) as u64;
    in_us(small_us).min(small).max(in_us(LARGE_BURST_US)).max(2 * packet)
}

/// The duration of `bytes` at `rate`, in ticks, rounded up; HTB's maximum is about 275 s.
fn ticks(bytes: u64, rate: u64) -> u32 {
    let ns = u128::from(bytes) * 1_000_000_000;
    let ticks = ns.div_ceil(u128::from(rate.max(1)) * u128::from(TICK_NS));
    ticks.clamp(1, u128::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::super::{Compiled, class, class_from, link, link_from};
    use super::*;
    use crate::netlink::tc::qdisc::Discipline;
    use terms::{Bytes, Span};
    use traffic::plan::QueueSpec;
    use traffic::scheduler::SchedulerKind;

    const LINK: LinkSpec =
        LinkSpec { rate: Rate::from_mbps(10), overhead: 38, mtu: 1500, scheduler: SchedulerKind::Htb };

    fn htb(compiled: Result<Compiled, Fault>) -> HtbClass {
        compiled.expect("fits").kind.htb().expect("HTB's")
    }

    fn spec(rate: Rate) -> ClassSpec {
        let queue = QueueSpec { packets: 50, bytes: Bytes::new(1 << 20) };
        let real_time = Some(ServiceCurve::linear(rate));
        ClassSpec { real_time, link_share: rate, upper_limit: None, priority: 2, queue }
    }

    #[test]
    fn a_video_on_ten_megabits() {
        let compiled = class(&spec(Rate::from_mbps(4)), &LINK, 14).expect("fits");
        let htb = compiled.kind.htb().expect("HTB's");
        assert_eq!((htb.rate, htb.ceil, htb.prio, htb.overhead), (500_000, 1_250_000, 2, 24));
        // Two packets of 1,538 bytes at 500,000 bytes/s: 6.152 ms; 5,000 bytes at 1,250,000 bytes/s: 4 ms.
        assert_eq!(u64::from(htb.burst) * TICK_NS, 6_152_000);
        assert_eq!(u64::from(htb.ceil_burst) * TICK_NS, 4_000_000);
        assert_eq!(htb.quantum, 3 * 1538, "its share is three whole eighths");
        assert_eq!(compiled.queue, Some(Discipline::Pfifo { limit: 50 }));
    }

    #[test]
    fn no_class_is_without_burst() {
        for gigabits in [1, 34, 100, 800] {
            let fast = LinkSpec { rate: Rate::from_mbps(gigabits * 1000), ..LINK };
            for htb in [htb(link(&fast, 14)), htb(class(&spec(fast.rate), &fast, 14))] {
                let bytes = u128::from(htb.burst) * 64 * u128::from(htb.rate) / 1_000_000_000;
                assert!(bytes >= 65_536.min(u128::from(htb.rate) / 4000), "{gigabits} Gbit/s: {bytes}");
            }
        }
    }

    #[test]
    fn a_steep_start_becomes_burst() {
        let curve = ServiceCurve { m1: Rate::from_mbps(8), d: Span::from_millis(20), m2: Rate::from_mbps(1) };
        let steep = htb(class(&ClassSpec { real_time: Some(curve), ..spec(Rate::ZERO) }, &LINK, 14));
        // 20 ms of 8 Mb/s are 20,000 bytes: 160 ms at 1 Mb/s.
        assert_eq!(u64::from(steep.burst) * TICK_NS, 160_000_000);
    }

    #[test]
    fn extremes_are_numbers_or_refusals() {
        let nothing = ClassSpec { real_time: None, ..spec(Rate::ZERO) };
        assert_eq!(htb(class(&nothing, &LINK, 14)).rate, NOTHING);
        assert!(class(&spec(Rate::from_mbps(11)), &LINK, 14).is_err(), "over the link");
        let low = ClassSpec { upper_limit: Some(Rate::from_mbps(1)), ..spec(Rate::from_mbps(2)) };
        assert!(class(&low, &LINK, 14).is_err(), "ceil < rate, which the kernel would take");
        assert!(link(&LinkSpec { rate: Rate::from_bps(7), ..LINK }, 14).is_err());
        let odd = LinkSpec { rate: Rate::INFINITE, overhead: u32::MAX, mtu: u32::MAX, scheduler: SchedulerKind::Htb };
        assert!(link(&odd, 0).is_ok());
        assert!(class(&spec(Rate::INFINITE), &odd, 0).is_ok());
    }

    #[test]
    fn a_class_read_back_compiles_to_itself() {
        for rate in [64_000, 3_300_000, 9_000_000] {
            let compiled = class(&spec(Rate::from_bps(rate)), &LINK, 14).expect("fits");
            let again = class(&class_from(&compiled, &LINK), &LINK, 14).expect("fits");
            assert_eq!(again, compiled);
        }
        let root = link(&LINK, 14).expect("fits");
        assert_eq!(link_from(&root.kind, None, 14, 1500), LINK);
    }
}
