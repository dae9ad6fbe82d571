//! Windows, Tspecs and Adspecs: the laws that merging and admission lean on.

use proptest::prelude::*;
use terms::{Adspec, Bytes, FlowSpec, HopExport, Misuse, Rate, Rspec, Span, Time, Tspec, Window};

fn window() -> impl Strategy<Value = Window> {
    (0..40u64, 1..40u64, any::<bool>()).prop_map(|(start, length, open)| {
        let end = if open { Time::FOREVER } else { Time::from_nanos(start + length) };
        Window::new(Time::from_nanos(start), end).unwrap()
    })
}

/// Fields from small sets, so that equal ones are frequent. `M` is set: zero is "unset" and follows no order.
fn tspec() -> impl Strategy<Value = Tspec> {
    let peak = prop_oneof![(0..5u64).prop_map(Rate::from_bps), Just(Rate::INFINITE)];
    (0..5u64, 0..5u64, peak, 0..5u32, 1..5u32).prop_map(|(r, b, p, m, max)| Tspec {
        r: Rate::from_bps(r),
        b: Bytes::new(b),
        p,
        m,
        M: max,
    })
}

/// Requests that mean something, of both services; packet sizes may be unset.
fn flowspec() -> impl Strategy<Value = FlowSpec> {
    let (rates, sizes) = ((0..4u64, 0..3u64, 0..4u64), (0..4u32, 0..4u32, any::<bool>()));
    (rates, sizes, prop::option::of((0..3u64, 0..4u64))).prop_map(|((r, more, b), (m, above, set), rspec)| {
        let max = if set { m.max(1) + above } else { 0 };
        let t = Tspec { r: Rate::from_bps(r), b: Bytes::new(b), p: Rate::from_bps(r + more), m, M: max };
        match rspec {
            None => FlowSpec::ControlledLoad(t),
            Some((extra, s)) => FlowSpec::Guaranteed(t, Rspec { R: Rate::from_bps(r + extra), S: Span::from_nanos(s) }),
        }
    })
}

fn hop() -> impl Strategy<Value = HopExport> {
    let latency = prop::option::of(prop_oneof![any::<u64>(), 0..100u64].prop_map(Span::from_nanos));
    let guaranteed = prop::option::of((any::<u32>(), any::<u32>()));
    (any::<u64>(), any::<u32>(), latency, guaranteed).prop_map(|(bandwidth, mtu, latency, guaranteed)| HopExport {
        bandwidth: Rate::from_bps(bandwidth),
        mtu,
        latency,
        guaranteed,
    })
}

proptest! {
    #![proptest_config(chance::cases(5_000))]

    #[test]
    fn a_window_is_never_empty(start in any::<u64>(), end in any::<u64>()) {
        let (start, end) = (Time::from_nanos(start), Time::from_nanos(end));
        match Window::new(start, end) {
            Ok(window) => {
                prop_assert!(start < end && window.contains(start) && !window.contains(end));
                prop_assert_eq!((window.start(), window.end(), window.span()), (start, end, end - start));
                prop_assert!(window.span() > Span::ZERO);
            }
            Err(misuse) => prop_assert_eq!((misuse, start >= end), (Misuse::EmptyWindow { start, end }, true)),
        }
    }

    #[test]
    fn windows_overlap_where_an_instant_is_in_both(a in window(), b in window()) {
        let shared = (0..100).map(Time::from_nanos).any(|t| a.contains(t) && b.contains(t));
        prop_assert_eq!(a.overlaps(&b), shared);
        prop_assert_eq!(b.overlaps(&a), shared);
        if let Ok(next) = Window::new(a.end(), Time::FOREVER) {
            prop_assert!(!a.overlaps(&next), "windows that touch do not overlap");
        }
    }

    /// The order of RFC 2211 section 6 is a partial order, and the two bounds are its least upper and greatest lower.
    #[test]
    fn tspecs_form_a_lattice(a in tspec(), b in tspec(), c in tspec()) {
        prop_assert!(a.covers(&a));
        prop_assert!(!(a.covers(&b) && b.covers(&a)) || a == b);
        prop_assert!(!(a.covers(&b) && b.covers(&c)) || a.covers(&c));
        let (upper, lower) = (a.least_common(&b), a.greatest_lower_bound(&b));
        prop_assert!(upper.covers(&a) && upper.covers(&b) && a.covers(&lower) && b.covers(&lower));
        prop_assert!(!(c.covers(&a) && c.covers(&b)) || c.covers(&upper), "least");
        prop_assert!(!(a.covers(&c) && b.covers(&c)) || lower.covers(&c), "greatest");
        prop_assert_eq!(upper, b.least_common(&a));
        prop_assert_eq!(lower, b.greatest_lower_bound(&a));
        prop_assert_eq!(upper.least_common(&c), a.least_common(&b.least_common(&c)));
        prop_assert_eq!(a.least_common(&a), a);
        prop_assert_eq!(a.greatest_lower_bound(&upper), a);
    }

    #[test]
    fn an_unset_packet_size_takes_the_other_ones(a in tspec(), b in tspec()) {
        let unset = Tspec { M: 0, ..a };
        prop_assert_eq!(unset.greatest_lower_bound(&b).M, b.M);
        prop_assert_eq!(b.greatest_lower_bound(&unset).M, b.M);
    }

    /// The curve of a flow never promises more than any of the rates it was made of, and serves the bucket at its peak.
    #[test]
    fn a_service_curve_keeps_to_the_request(rcv in tspec(), snd in tspec(), extra in 0..5u64) {
        let rspec = Rspec { R: Rate::from_bps(rcv.r.as_bps() + extra), S: Span::ZERO };
        for (spec, cap) in [(FlowSpec::ControlledLoad(rcv), Rate::INFINITE), (FlowSpec::Guaranteed(rcv, rspec), rspec.R)] {
            let curve = spec.service_curve(&snd);
            prop_assert!(curve.m2 <= cap && curve.m2 <= rcv.r && curve.m2 <= snd.r);
            prop_assert!(curve.m1 >= curve.m2 && !curve.m1.is_infinite());
            if !curve.is_linear() {
                prop_assert!(curve.m1 <= rcv.p && curve.m1 <= snd.p);
                prop_assert!(curve.service(curve.d) >= rcv.b.min(snd.b), "the bucket is served by d");
            }
            prop_assert!(spec.rate() >= rcv.r);
        }
    }

    /// Composition hop by hop never promises more than the hops so far, whatever the order of equal hops.
    #[test]
    fn an_adspec_only_gets_worse(hops in prop::collection::vec(hop(), 1..6)) {
        let mut so_far = Adspec::origin(9000);
        for hop in &hops {
            let next = so_far.through(hop);
            prop_assert!(next.bandwidth <= so_far.bandwidth && next.bandwidth <= hop.bandwidth);
            prop_assert!(next.path_mtu <= so_far.path_mtu && next.path_mtu <= hop.mtu);
            prop_assert_eq!(next.is_hops, so_far.is_hops + 1);
            prop_assert!(next.min_latency.is_none() || next.min_latency >= so_far.min_latency);
            let (old, new) = (so_far.guaranteed.unwrap(), next.guaranteed.unwrap());
            prop_assert!(new.c_tot >= old.c_tot && new.d_tot >= old.d_tot);
            prop_assert_eq!(new.break_bit, old.break_bit || hop.guaranteed.is_none(), "the break bit is sticky");
            so_far = next;
        }
        let indeterminate = hops.iter().any(|hop| hop.latency.is_none());
        prop_assert_eq!(so_far.min_latency.is_none(), indeterminate, "indeterminate stays so");
        let turned = hops.iter().rev().fold(Adspec::origin(9000), |adspec, hop| adspec.through(hop));
        prop_assert_eq!((turned.bandwidth, turned.path_mtu, turned.min_latency),
            (so_far.bandwidth, so_far.path_mtu, so_far.min_latency));
    }
}

proptest! {
    #![proptest_config(chance::cases(100_000))]

    /// I28. Merging is commutative, associative and idempotent, whatever the packet sizes, and what is merged serves
    /// each; two services never merge; the greatest lower bound is served by each.
    #[test]
    fn merging_is_a_semilattice(a in flowspec(), b in flowspec(), c in flowspec()) {
        let (ab, bc) = (a.merged(&b), b.merged(&c));
        prop_assert_eq!(a.merged(&a), Some(a));
        prop_assert_eq!(ab, b.merged(&a));
        prop_assert_eq!(ab.and_then(|ab| ab.merged(&c)), bc.and_then(|bc| a.merged(&bc)));
        prop_assert_eq!(ab.is_none(), core::mem::discriminant(&a) != core::mem::discriminant(&b));
        if let Some(ab) = ab {
            prop_assert!(ab.serves(&a) && ab.serves(&b) && ab.rate() >= a.rate().max(b.rate()));
            prop_assert!(!(c.serves(&a) && c.serves(&b)) || c.serves(&ab), "least");
        }
        let low = a.greatest_lower_bound(&b);
        prop_assert_eq!(low, b.greatest_lower_bound(&a));
        prop_assert_eq!(
            low.and_then(|l| l.greatest_lower_bound(&c)),
            b.greatest_lower_bound(&c).and_then(|l| a.greatest_lower_bound(&l))
        );
        if let Some(low) = low {
            prop_assert!(low.rate() <= a.rate().min(b.rate()));
            let t = low.tspec();
            prop_assert!(t.p >= t.r && (t.M == 0 || t.m <= t.M), "a bound of what means something means something");
        }
    }
}
