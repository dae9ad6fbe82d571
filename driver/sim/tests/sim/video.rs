//! The video experiment: with the reservation nothing happens to the stream whatever the flood does; without it the
//! stream collapses as the paper's Figure 6 shows. On both schedulers.

use sim::experiment::{FRAMES_PER_SECOND, SimPoint, SimSweep, video};
use terms::{Rate, Span};
use traffic::port::SchedulerKind;

/// Printed when a test fails: the sweep, as a person reads it.
fn table(points: &[SimPoint]) -> String {
    let head = format!(
        "{:>8} {:>9} {:>8} {:>6} {:>7} {:>8} {:>10} {:>9} {:>8}",
        "flood", "reserved", "video", "fps", "damaged", "loss ppm", "flood got", "delay max", "set-up"
    );
    let line = |p: &SimPoint| {
        format!(
            "{:>8} {:>9} {:>8} {:>3}.{:02} {:>7} {:>8} {:>10} {:>7}us {:>6}us",
            p.offered.to_string(),
            p.reserved,
            p.video.throughput().as_bps() / 1000,
            p.video.frames_per_kilosecond() / 1000,
            p.video.frames_per_kilosecond() % 1000 / 10,
            p.video.frames_damaged,
            p.video.loss_ppm(),
            p.flood.throughput().as_bps() / 1000,
            p.video.delay_max.as_micros(),
            p.set_up.map_or(0, Span::as_micros),
        )
    };
    std::iter::once(head).chain(points.iter().map(line)).collect::<Vec<_>>().join("\n")
}

fn sweep(scheduler: SchedulerKind) -> Vec<SimPoint> {
    let points = video(&SimSweep { scheduler, ..SimSweep::default() }).expect("every law holds");
    println!("{scheduler:?}\n{}", table(&points));
    assert_eq!(points.len(), 26);
    points
}

fn reserved_stream_is_untouched(points: &[SimPoint]) {
    for p in points.iter().filter(|p| p.reserved) {
        assert_eq!(p.video.lost(), 0, "flood {}", p.offered);
        let unloaded = FRAMES_PER_SECOND * 1000;
        let fps = p.video.frames_per_kilosecond();
        assert!((unloaded * 98 / 100..=unloaded * 102 / 100).contains(&fps), "flood {}: {fps}", p.offered);
        assert!(p.set_up.is_some(), "the reservation was confirmed");
    }
}

fn unreserved_stream_collapses_once_the_link_is_full(points: &[SimPoint]) {
    let whole =
        |mbit| points.iter().find(|p| !p.reserved && p.offered == Rate::from_mbps(mbit)).map(|p| p.video.frames_whole);
    let unloaded = whole(0).unwrap();
    for mbit in 1..=6 {
        assert_eq!(whole(mbit), Some(unloaded), "{mbit} Mbit/s still fit");
    }
    assert!(whole(7).unwrap() <= unloaded / 2, "half the frames are gone as soon as the link is full");
    assert!(whole(8).unwrap() <= unloaded / 6, "2 fps or less of 12");
}

fn flood_gets_what_the_video_leaves(points: &[SimPoint]) {
    for p in points.iter().filter(|p| p.reserved) {
        let left = Rate::from_mbps(10).saturating_sub(p.video_wire_rate());
        let due = left.min(p.offered).share(95, 100);
        assert!(p.flood.throughput() >= due, "flood {}: got {} of {due}", p.offered, p.flood.throughput());
    }
}

#[test]
fn on_htb() {
    let points = sweep(SchedulerKind::Htb);
    reserved_stream_is_untouched(&points);
    unreserved_stream_collapses_once_the_link_is_full(&points);
    flood_gets_what_the_video_leaves(&points);
}

#[test]
fn on_hfsc() {
    let points = sweep(SchedulerKind::Hfsc);
    reserved_stream_is_untouched(&points);
    unreserved_stream_collapses_once_the_link_is_full(&points);
    flood_gets_what_the_video_leaves(&points);
}

#[test]
fn a_set_up_takes_less_than_three_round_trips_and_a_millisecond() {
    let points = video(&SimSweep { floods: vec![Rate::ZERO], ..SimSweep::default() }).expect("every law holds");
    let line = sim::experiment::testbed(SchedulerKind::Htb, Span::from_secs(30), 1);
    let round_trip = sim::experiment::round_trip(&line, 92);
    assert_eq!(round_trip.as_micros(), 503, "300 us of wire, and 106 bytes on 100, 10 and 100 Mbit/s, twice");
    let set_up = points[1].set_up.expect("confirmed");
    assert!(set_up <= round_trip.mul_div_ceil(3, 1) + Span::from_millis(1), "{set_up:?}");
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let quick =
        |seed| SimSweep { floods: vec![Rate::from_mbps(8)], measured: Span::from_secs(2), seed, ..SimSweep::default() };
    let [a, b, c] = [1, 1, 2].map(|seed| video(&quick(seed)).expect("every law holds"));
    assert_eq!(a, b);
    assert_ne!(a[0].flood, c[0].flood);
}
