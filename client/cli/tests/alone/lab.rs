//! The experiments in short form, on real packets between real agents: what `sluice demo` and `sluice lab` must show.
//!
//! One at a time: they measure, and would disturb one another. Without root each says so loudly and is not run.

use crate::alone;
use crate::onlooker::{Moment, Onlooker};
use bed::error::Error;
use bed::patience::Patience;
use bed::scratch;
use bed::testbed::UpOptions;
use experiments::demo::{self, DemoOptions};
use experiments::setup;
use experiments::trial::{self, excess, kill_receiver, kill_router};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use std::time::Duration;
use terms::{Rate, Span};

fn options() -> UpOptions {
    let testbeds = std::env::temp_dir().join(format!("sluice-lab-beds-{}", std::process::id()));
    UpOptions { program: env!("CARGO_BIN_EXE_sluice").into(), testbeds }
}

/// `None`, loudly, where this machine has no testbeds to offer; any other failure is one.
fn possible<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Testbed(why)) if why.contains("needs root") => {
            bench::skipped(why);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn reservations_are_in_place_on_every_hop_when_they_are_confirmed() {
    let _alone = alone();
    let Some(found) = possible(setup::alone(&options(), 10, &Patience::endless())) else { return };
    println!("{}", found.line());
    assert_eq!(found.count, 10);
    assert!(found.setup_ms > 0.0 && found.end_to_end_ms >= found.setup_ms, "{found:?}");
}

#[test]
fn a_reserved_sender_that_sends_three_times_as_much_costs_nobody_anything() {
    let _alone = alone();
    let Some((bed, _scratch)) = possible(trial::bed(Span::from_secs(30), &options())) else { return };
    let found = excess::run(&bed, Duration::from_secs(3), &Patience::endless()).unwrap();
    println!("{found}");
    assert_eq!(found.shortfalls(), Vec::<String>::new());
}

#[test]
fn reserved_packets_do_not_notice_that_a_routers_agent_was_killed() {
    let _alone = alone();
    let Some((bed, _scratch)) = possible(trial::bed(Span::from_secs(4), &options())) else { return };
    let (found, _agent) = kill_router::run(&bed, Duration::from_secs(4), &Patience::endless()).unwrap();
    println!("{found}");
    assert_eq!(found.shortfalls(), Vec::<String>::new());
}

#[test]
fn a_reservation_outlives_its_receivers_agent_by_its_lifetime_and_no_ledger_keeps_it() {
    let _alone = alone();
    let refresh = Span::from_secs(1);
    let Some((bed, _scratch)) = possible(trial::bed(refresh, &options())) else { return };
    let found = kill_receiver::run(&bed, refresh, &Patience::endless()).unwrap();
    println!("{found}");
    assert_eq!(found.lifetime_ms, 5_250.0);
    assert_eq!(found.shortfalls(1_500.0), Vec::<String>::new());
}

#[test]
fn a_reserved_video_survives_a_flood_that_ruins_an_unreserved_one() {
    let _alone = alone();
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        bench::skipped("ffmpeg is not installed");
        return;
    }
    let mut short = DemoOptions::quick(options());
    short.floods = [0, 12].map(Rate::from_mbps).to_vec();
    (short.length, short.windows, short.setups, short.progress) = (Duration::from_secs(3), 1, 5, false);
    short.web = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let onlooker = Onlooker::of(&short.up.testbeds);
    let report = possible(demo::run(&short, &Patience::endless()));
    let seen = onlooker.saw();
    let Some(report) = report else { return };
    println!("{}", report.text());
    let [calm, ruined, saved] = &report.points[..] else { panic!("three points: {:?}", report.points) };
    assert_eq!((calm.loss, saved.loss), (0.0, 0.0));
    assert!(calm.fps > 20.0 && ruined.fps < calm.fps / 2.0 && saved.fps > calm.fps * 0.9, "{:?}", report.points);
    assert!(ruined.loss > 0.05 && ruined.damaged_frames > 30, "{ruined:?}");
    assert!(saved.flood_mbps > 6.0, "{saved:?}");
    assert!(!Path::new(&short.up.testbeds).exists(), "something was left behind");
    // And whoever looks on in a browser sees it as it happens.
    let is = |moment: &Moment, name: &str, so: fn(f64) -> bool| {
        moment.iter().any(|(found, value)| found == name && so(*value))
    };
    let frames = "video: frames per second";
    let flooded = |moment: &&Moment| is(moment, "flood: offered", |mbps| mbps > 11.0);
    let reserved = |moment: &&Moment| is(moment, "video: reserved", |so| so == 1.0);
    assert!(seen.iter().any(|moment| is(moment, frames, |fps| fps > 20.0) && !flooded(&moment)), "calm: {seen:?}");
    assert!(seen.iter().filter(flooded).any(|moment| is(moment, frames, |fps| fps < 12.0)), "ruined: {seen:?}");
    assert!(
        seen.iter().filter(flooded).filter(reserved).any(|moment| is(moment, frames, |fps| fps > 20.0)),
        "saved: {seen:?}"
    );
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    let _alone = alone();
    let options = options();
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let (dead, living) = (format!("demo-{}", child.id()), format!("demo-{}", std::process::id()));
    for name in [&dead, &living, &"mine".to_string()] {
        std::fs::create_dir_all(options.testbeds.join(name)).unwrap();
    }
    scratch::sweep(&options.testbeds);
    let mut left = bed::testbed::list(&options.testbeds);
    left.sort();
    std::fs::remove_dir_all(&options.testbeds).unwrap();
    assert_eq!(left, [living, "mine".to_string()]);
}
