//! HFSC's form of a class, and back.
//!
//! A link is an inner class that shares and is limited at its rate. A class below it has all three curves always: the
//! kernel lets a change leave a curve out, and then keeps the old one, so a class could never lose its guarantee or its
//! limit in place. What stands for "nothing guaranteed" is 1 byte/s, and for "no limit" the link's rate.

use super::{LIMIT_TOO_LOW, NOTHING, bits};
use crate::netlink::tc::hfsc::{HfscClass, TcCurve};
use terms::{Fault, Rate, ServiceCurve, Span};
use traffic::plan::{ClassSpec, LinkSpec};

/// The class of a link of so many bytes/s.
pub(super) fn link(rate: u64) -> Result<HfscClass, Fault> {
    let all = TcCurve::linear(counted(rate)?);
    Ok(HfscClass { real_time: None, link_share: Some(all), upper_limit: Some(all) })
}

/// A class of that link.
pub(super) fn class(spec: &ClassSpec, on: &LinkSpec) -> Result<HfscClass, Fault> {
    let curve = curve(spec.real_time.unwrap_or(ServiceCurve::linear(Rate::ZERO)))?;
    let limit = counted(super::ceiling(spec, on))?;
    if limit < curve.highest() {
        return Err(LIMIT_TOO_LOW);
    }
    let share = counted((spec.link_share.as_bps() / 8).max(NOTHING))?;
    Ok(HfscClass {
        real_time: Some(curve),
        link_share: Some(TcCurve::linear(share)),
        upper_limit: Some(TcCurve::linear(limit)),
    })
}

/// The rate that a class is limited to, bytes/s.
pub(super) fn limit(class: &HfscClass) -> u64 {
    class.upper_limit.map_or(0, |curve| u64::from(curve.m2))
}

/// The class with this form on that link, as far as the kernel reports it; its queue is not from here.
pub(super) fn class_from(class: &HfscClass, on: &LinkSpec) -> ClassSpec {
    let told = |curve: TcCurve| ServiceCurve {
        m1: bits(u64::from(curve.m1)),
        d: Span::from_micros(u64::from(curve.d)),
        m2: bits(u64::from(curve.m2)),
    };
    let limit = limit(class);
    ClassSpec {
        real_time: class.real_time.filter(|curve| u64::from(curve.highest()) > NOTHING).map(told),
        link_share: bits(class.link_share.map_or(0, |curve| u64::from(curve.m2))),
        upper_limit: (limit < on.rate.as_bps() / 8).then(|| bits(limit)),
        priority: 0,
        queue: super::unlimited(on),
    }
}

fn curve(curve: ServiceCurve) -> Result<TcCurve, Fault> {
    let rate = |rate: Rate| counted((rate.as_bps() / 8).max(NOTHING));
    let d = u32::try_from(curve.d.as_nanos() / 1_000).unwrap_or(u32::MAX);
    let m2 = rate(curve.m2)?;
    // Without a duration the first slope says nothing.
    Ok(if d == 0 { TcCurve::linear(m2) } else { TcCurve { m1: rate(curve.m1)?, d, m2 } })
}

fn counted(rate: u64) -> Result<u32, Fault> {
    let what = "the kernel's hfsc counts at most 34.3 Gbit/s: scheduler = \"htb\" for a faster link";
    u32::try_from(rate).map_err(|_| Fault { what, code: libc::ERANGE })
}

#[cfg(test)]
mod tests {
    use super::super::{class, class_from, guaranteed, link, link_from, root};
    use super::*;
    use crate::netlink::tc::qdisc::Discipline;
    use terms::Bytes;
    use traffic::plan::QueueSpec;
    use traffic::scheduler::SchedulerKind;

    const LINK: LinkSpec =
        LinkSpec { rate: Rate::from_mbps(10), overhead: 38, mtu: 1500, scheduler: SchedulerKind::Hfsc };

    fn spec(curve: Option<ServiceCurve>, share: Rate) -> ClassSpec {
        let queue = QueueSpec { packets: 50, bytes: Bytes::new(1 << 20) };
        ClassSpec { real_time: curve, link_share: share, upper_limit: None, priority: 0, queue }
    }

    #[test]
    fn a_steep_start_stays_a_steep_start() {
        let steep = ServiceCurve { m1: Rate::from_mbps(8), d: Span::from_millis(20), m2: Rate::from_mbps(1) };
        let compiled = class(&spec(Some(steep), Rate::from_mbps(1)), &LINK, 14).expect("fits");
        let kind = compiled.kind.hfsc().expect("HFSC's");
        assert_eq!(kind.real_time, Some(TcCurve { m1: 1_000_000, d: 20_000, m2: 125_000 }));
        assert_eq!(kind.link_share, Some(TcCurve::linear(125_000)));
        assert_eq!(kind.upper_limit, Some(TcCurve::linear(1_250_000)), "as the link");
        assert_eq!(guaranteed(&compiled.kind), 1_000_000, "at its steepest");
        assert_eq!(root(&LINK, 14), Ok(Discipline::Hfsc { default: 2, overhead: 24 }));
    }

    #[test]
    fn a_class_read_back_compiles_to_itself() {
        let mut curves = vec![None];
        for rate in [64_000, 3_300_000, 9_000_000] {
            let m2 = Rate::from_bps(rate);
            curves.push(Some(ServiceCurve::linear(m2)));
            curves.push(Some(ServiceCurve { m1: Rate::from_mbps(9), d: Span::from_millis(3), m2 }));
        }
        for curve in curves {
            let compiled = class(&spec(curve, Rate::from_kbps(80)), &LINK, 14).expect("fits");
            assert_eq!(class(&class_from(&compiled, &LINK), &LINK, 14), Ok(compiled));
        }
        let all = link(&LINK, 14).expect("fits");
        assert_eq!(link_from(&all.kind, root(&LINK, 14).ok().as_ref(), 14, 1500), LINK);
    }

    #[test]
    fn extremes_are_numbers_or_refusals() {
        let nothing = class(&spec(None, Rate::ZERO), &LINK, 14).expect("fits");
        assert_eq!(guaranteed(&nothing.kind), NOTHING);
        let over = spec(Some(ServiceCurve::linear(Rate::from_mbps(11))), Rate::from_mbps(1));
        assert!(class(&over, &LINK, 14).is_err(), "over the link");
        let low = ClassSpec {
            upper_limit: Some(Rate::from_mbps(1)),
            ..spec(Some(ServiceCurve::linear(Rate::from_mbps(2))), Rate::ZERO)
        };
        assert_eq!(class(&low, &LINK, 14), Err(LIMIT_TOO_LOW));
        assert!(link(&LinkSpec { rate: Rate::from_mbps(34_000), ..LINK }, 14).is_ok());
        assert_eq!(
            link(&LinkSpec { rate: Rate::from_mbps(40_000), ..LINK }, 14).expect_err("too fast").code,
            libc::ERANGE
        );
        let forever = ServiceCurve {
            m1: Rate::from_mbps(2),
            d: Span::from_secs(u64::MAX / 2_000_000_000),
            m2: Rate::from_mbps(1),
        };
        assert!(class(&spec(Some(forever), Rate::ZERO), &LINK, 14).is_ok());
    }
}
