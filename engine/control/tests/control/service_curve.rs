//! Why a guaranteed flow's class has the line of `R`: held against the bound of RFC 2212 section 5 for a fluid source.

use control::classes;
use terms::{Bytes, FlowSpec, Rate, Rspec, ServiceCurve, Span, Tspec};
use traffic::plan::LinkSpec;

/// The most that the source sends in `t`: `min(p t, b + r t)`.
fn arrivals(t: Span, source: &Tspec) -> Bytes {
    source.p.demands(t).min(source.b + source.r.demands(t))
}

/// The longest that any byte of the source's worst burst waits under that curve, looked at every millisecond.
fn longest_wait(source: &Tspec, curve: &ServiceCurve) -> Span {
    let served_by = |bytes: Bytes| (0..10_000).map(Span::from_millis).find(|t| curve.service(*t) >= bytes);
    let wait = |at: Span| served_by(arrivals(at, source)).expect("served").saturating_sub(at);
    (0..2_000).map(|ms| wait(Span::from_millis(ms))).max().unwrap_or(Span::ZERO)
}

/// RFC 2212 section 5 for `p > R >= r`, without packets and error terms: `b / R * (p - R) / (p - r)`.
fn bound(source: &Tspec, service: Rate) -> Span {
    let (p, r, big_r) = (source.p.as_bps(), source.r.as_bps(), service.as_bps());
    service.span_for(source.b).mul_div_ceil(p - big_r, p - r)
}

#[test]
fn the_line_of_the_reserved_rate_keeps_the_bound_and_the_two_piece_curve_does_not() {
    let source = Tspec { r: Rate::from_mbps(1), b: Bytes::new(125_000), p: Rate::from_mbps(3), m: 1_000, M: 1_000 };
    let service = Rate::from_mbps(2);
    let flowspec = FlowSpec::Guaranteed(source, Rspec { R: service, S: Span::ZERO });
    let bound = bound(&source, service);
    assert_eq!(bound, Span::from_millis(250));

    let link = LinkSpec {
        rate: Rate::from_mbps(100),
        overhead: 0,
        mtu: 1_500,
        scheduler: traffic::scheduler::SchedulerKind::Htb,
    };
    let ours = classes::own(&link, &flowspec, classes::demand(&link, &flowspec)).real_time.expect("guaranteed");
    assert_eq!(ours, ServiceCurve::linear(service));
    assert!(longest_wait(&source, &ours) <= bound + Span::from_millis(1));

    let two_piece = flowspec.service_curve(&source);
    assert_eq!((two_piece.m1, two_piece.d, two_piece.m2), (service, Span::from_millis(500), source.r));
    assert!(longest_wait(&source, &two_piece) >= Span::from_millis(499), "b / R");
}
