//! A leaf: classifier, shaper, meter, marker, dropper, queue, in this order and each with its own bytes.

use super::*;
use traffic::dropper::{Coupling, RedCurve};
use traffic::meter::{AfClass, Color, Marker};

const LINK: Rate = Rate::from_mbps(100);

fn alone(spec: LeafSpec) -> Link {
    Link::new(tree(LINK, SchedulerKind::Priority, vec![leaf("only", None, TreeShare::Priority(0), spec)]))
}

fn sr_tcm(cir: Rate, cbs: u64, ebs: u64) -> MeterSpec {
    MeterSpec { kind: MeterKind::SrTcm { cir, cbs: Bytes::new(cbs), ebs: Bytes::new(ebs) }, aware: false }
}

fn af(class: u8) -> Option<Marker> {
    AfClass::new(class).map(Marker::af)
}

#[test]
fn colours_are_metered_in_ip_bytes_and_written_as_code_points() {
    let spec = LeafSpec { meter: Some(sr_tcm(Rate::from_kbps(8), 2_000, 1_000)), marker: af(1), ..queue(None) };
    let mut link = alone(spec);
    let verdicts = (0..4).map(|id| link.offer(packet(id, 9, 1_000, Time::ZERO)));
    let colors = [Color::Green, Color::Green, Color::Yellow, Color::Red];
    assert_eq!(verdicts.collect::<Vec<_>>(), colors.map(PathVerdict::Queued));
    // 1,000 bytes at 8 kb/s: a second.
    assert_eq!(link.offer(packet(4, 9, 1_000, ms(1_000))), PathVerdict::Queued(Color::Green));
    link.run(ms(2_000));
    let points: Vec<u8> = link.sent.iter().map(|(_, d)| d.dscp.0).collect();
    assert_eq!(points, [10, 10, 12, 14, 10], "AF11, AF12, AF13: RFC 2597 section 6");
    let counters = link.tree.counters(LeafId(0)).unwrap();
    assert_eq!(counters.of(Color::Green).sent, Tally { packets: 3, bytes: 3_000 });
}

#[test]
fn an_aware_meter_improves_no_colour() {
    let meter = MeterSpec { aware: true, ..sr_tcm(Rate::from_mbps(1), 5_000, 5_000) };
    let mut link = alone(LeafSpec { meter: Some(meter), marker: af(2), ..queue(None) });
    for (id, dscp, color) in [(0, 18, Color::Green), (1, 20, Color::Yellow), (2, 22, Color::Red), (3, 0, Color::Green)]
    {
        let packet = PacketMeta { dscp: Dscp(dscp), ..packet(id, 9, 1_000, Time::ZERO) };
        assert_eq!(link.offer(packet), PathVerdict::Queued(color));
    }
}

#[test]
fn rules_are_asked_in_order_and_the_rest_is_the_defaults() {
    let net = |text: &str, length| Some((text.parse::<IpAddr>().unwrap(), length));
    let with = |rule| LeafSpec { rules: vec![rule], ..queue(None) };
    let nodes = vec![
        leaf(
            "ef",
            None,
            TreeShare::Priority(0),
            with(MultiFieldRule { dscp: Some(Dscp(46)), ..MultiFieldRule::default() }),
        ),
        leaf(
            "lan",
            None,
            TreeShare::Priority(1),
            with(MultiFieldRule { dst: net("10.0.0.0", 30), ..MultiFieldRule::default() }),
        ),
        leaf("rest", None, TreeShare::Priority(2), queue(None)),
        leaf(
            "six",
            None,
            TreeShare::Priority(3),
            with(MultiFieldRule { src: net("2001:db8::", 32), ..MultiFieldRule::default() }),
        ),
    ];
    let tree = Tree::new(tree(LINK, SchedulerKind::Priority, nodes), Time::ZERO, 0).unwrap();
    let name = |packet: &PacketMeta| {
        let id = tree.classify(packet);
        tree.leaves().find(|(known, _)| *known == id).unwrap().1.to_string()
    };
    let plain = packet(0, 9, 100, Time::ZERO);
    let to = |dst: &str| PacketMeta { flow: FlowKey { dst: dst.parse().unwrap(), ..plain.flow }, ..plain };
    assert_eq!(name(&PacketMeta { dscp: Dscp(46), ..plain }), "ef");
    assert_eq!((name(&to("10.0.0.3")), name(&to("10.0.0.4"))), ("lan".to_string(), "rest".to_string()));
    let six = |src: &str| FlowKey { src: src.parse().unwrap(), dst: "::1".parse().unwrap(), ..plain.flow };
    assert_eq!(name(&PacketMeta { flow: six("2001:db8:1::1"), ..plain }), "six");
    assert_eq!(name(&PacketMeta { flow: six("2001:db9::1"), ..plain }), "rest");
}

fn sr_ras(green: bool) -> ShaperSpec {
    let ras = RasSpec { buffer: Bytes::new(50_000), k: Span::from_millis(300), green };
    let thresholds = [Bytes::new(40_000), Bytes::new(50_000)];
    ShaperSpec::SrRas { rates: [Rate::from_mbps(1), Rate::from_mbps(2)], thresholds, ras }
}

/// When ten packets of 1,000 bytes that come at once leave a shaper in front of a meter of 1 Mb/s and 4,000 bytes, µs.
fn releases(green: bool) -> (Vec<u64>, LeafCounters) {
    let meter = Some(sr_tcm(Rate::from_mbps(1), 4_000, 0));
    let mut link = alone(LeafSpec { shaper: Some(sr_ras(green)), meter, ..queue(None) });
    for id in 0..10 {
        assert_eq!(link.offer(packet(id, 9, 1_000, Time::ZERO)), PathVerdict::Held);
    }
    link.run(ms(200));
    (link.sent.iter().map(|(when, _)| when.as_nanos() / 1_000).collect(), link.tree.counters(LeafId(0)).unwrap())
}

#[test]
fn the_green_shaper_asks_the_meter_behind_it() {
    let (plain, counters) = releases(false);
    assert_eq!(counters.of(Color::Green).sent.packets, 10, "1 Mb/s is what the meter allows");
    assert_eq!(plain[0], 0);
    let (green, counters) = releases(true);
    assert_eq!(counters.of(Color::Green).sent.packets, 10);
    // The bucket's 4,000 bytes at once (83 us each on the link); asking took none of them.
    assert_eq!(green[..4], [0, 83, 166, 249]);
    assert!(green[4] > 400, "the fifth was not green yet");
    let last = (green[9], plain[9]);
    assert!(last.0 < last.1, "green ends at {} us, plain at {} us", last.0, last.1);
}

#[test]
fn a_bucket_shapes_every_window() {
    let rate = Rate::from_mbps(2);
    let bucket = ShaperSpec::Bucket { rate, depth: Bytes::new(3_000), buffer: Bytes::new(200_000) };
    let mut link = alone(LeafSpec { shaper: Some(bucket), ..queue(None) });
    for id in 0..300 {
        link.offer(packet(
            id,
            9,
            100 + (id as u32 * 677) % 1_400,
            Time::ZERO + Span::from_micros(id * id % 977 + id * 1_000),
        ));
    }
    link.run(ms(10_000));
    assert_eq!(link.sent.len(), 300);
    for from in 0..link.sent.len() {
        let mut bytes = 0;
        for to in from..link.sent.len() {
            bytes += u64::from(link.sent[to].1.packet.len);
            let window = link.sent[to].0.since(link.sent[from].0);
            // One packet of queueing behind the shaper may close a gap.
            assert!(bytes <= rate.supplies(window).get() + 3_000 + 1_500, "{bytes} bytes in {window:?}");
        }
    }
    let too_large = link.offer(packet(300, 9, 3_001, ms(10_000)));
    assert_eq!(too_large, PathVerdict::Dropped(Drop::OverDepth));
}

#[test]
fn releases_do_not_depend_on_how_often_the_driver_asks() {
    let spec = || {
        let meter = Some(sr_tcm(Rate::from_mbps(1), 4_000, 1_000));
        let spec = LeafSpec { shaper: Some(sr_ras(true)), meter, marker: af(1), ..queue(None) };
        tree(LINK, SchedulerKind::Priority, vec![leaf("only", None, TreeShare::Priority(0), spec)])
    };
    let (mut lazy, mut eager) = (Tree::new(spec(), Time::ZERO, 1).unwrap(), Tree::new(spec(), Time::ZERO, 1).unwrap());
    for id in 0..50 {
        let at = Time::ZERO + Span::from_micros(id * 700);
        lazy.enqueue(at, packet(id, 9, 900, at));
        for step in 0..7 {
            eager.wake_at(at);
            if step == 0 {
                eager.enqueue(at, packet(id, 9, 900, at));
            } else {
                let (before, now) = (eager.queued(), at + Span::from_micros(step * 100));
                // Asked, but everything is put back by not taking it: only shapers move.
                let none = eager.enqueue(now, PacketMeta { len: 1, ..packet(0, 9, 0, now) });
                assert_eq!(none, PathVerdict::Dropped(Drop::Runt));
                assert!(eager.queued() >= before);
            }
        }
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    while let Some(departure) = lazy.dequeue(ms(1_000)) {
        a.push(departure);
    }
    while let Some(departure) = eager.dequeue(ms(1_000)) {
        b.push(departure);
    }
    assert_eq!((a.len(), &a), (50, &b));
}

#[test]
fn a_dropper_decides_before_the_queue() {
    let curve = |min, max| RedCurve { min, max, max_p: 1 << 15, gentle: false };
    let dropper = DropperSpec {
        curves: [curve(40, 50), curve(20, 30), curve(5, 10)],
        weight: 1 << 32,
        slot: Span::from_micros(100),
        coupling: Coupling::Single,
        unit: QueueUnit::Packets,
    };
    let meter = Some(sr_tcm(Rate::from_kbps(8), 10_000, 10_000));
    let spec = LeafSpec { meter, dropper: Some(dropper), ..queue(None) };
    let mut only = Tree::new(
        tree(LINK, SchedulerKind::Priority, vec![leaf("only", None, TreeShare::Priority(0), spec)]),
        Time::ZERO,
        3,
    )
    .unwrap();
    for id in 0..100 {
        only.enqueue(Time::ZERO, packet(id, 9, 1_000, Time::ZERO));
    }
    let counters = only.counters(LeafId(0)).unwrap();
    assert_eq!(counters.of(Color::Green).queued.packets, 10, "below green's lower threshold");
    assert_eq!(counters.of(Color::Yellow).queued.packets, 10, "up to yellow's lower threshold");
    let red = counters.of(Color::Red);
    assert_eq!((red.queued.packets, red.forced.packets), (0, 80), "above red's upper threshold");
}
