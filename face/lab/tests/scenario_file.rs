//! The video experiment as a file: what it must show, and what is said of mistakes in such files.

use lab::scenario::{Row, ScenarioFile, play};
use std::path::Path;

const VIDEO: &str = include_str!("../../../examples/video.toml");

fn parse(text: &str) -> Result<ScenarioFile, String> {
    ScenarioFile::parse(Path::new("video.toml"), text).map_err(|mistake| mistake.to_string())
}

/// Asserts what the paper's Figures 5 to 8 show, and more: the flood gets what the video leaves.
#[test]
fn the_video_survives_the_flood_where_it_reserved_and_collapses_where_not() {
    let outcome = play(&parse(VIDEO).unwrap(), |_| {}).unwrap();
    assert_eq!(outcome.rows.len(), 2 * 13 * 2);
    let of = |row: &&Row| (row.source == "video", row.reserved);
    for row in outcome.rows.iter().filter(|row| of(row) == (true, true)) {
        assert_eq!(row.loss, 0.0, "{row:?}");
        assert!((row.fps.unwrap() - 12.0).abs() <= 0.24, "{row:?}");
        assert!(row.setup_ms.unwrap() < 5.0, "{row:?}");
    }
    for row in outcome.rows.iter().filter(|row| of(row) == (true, false)) {
        let flood = row.swept_bps.unwrap();
        if flood <= 6_000_000 {
            assert_eq!(row.loss, 0.0, "there is room for both: {row:?}");
        } else if flood >= 8_000_000 {
            assert!(row.fps.unwrap() < 6.0, "half the frames are gone: {row:?}");
        }
    }
    for row in outcome.rows.iter().filter(|row| of(row) == (false, true)) {
        // 9.86 Mb/s of IP bytes fit the wire in packets of 1,000 bytes; the video's wire rate is 3.13 Mb/s.
        let free: f64 = (10_000_000.0 - 3_133_000.0) / 1.014;
        let due = free.min(row.swept_bps.unwrap() as f64);
        assert!(row.received_bps as f64 >= 0.95 * due, "{row:?}");
    }
}

#[test]
fn a_mistake_is_told_with_its_line() {
    let cases = [
        ("seed = 1998", "sede = 1998", "video.toml:5: unknown field `sede`"),
        ("delay = \"50us\"", "delay = \"50\"", "video.toml:24: \"50\" has no unit"),
        ("between = [\"yosemite\", \"maui\"]", "between = [\"yosemite\", \"mauii\"]", "there is no node \"mauii\""),
        ("cbr = \"10mbit\"", "cbr = \"10mbut\"", "\"mbut\" is no unit of rate"),
        ("source = \"flood\"", "source = \"video\"", "only a source with cbr has a rate to sweep"),
        ("measure = [\"2s\", \"12s\"]", "measure = [\"12s\", \"2s\"]", "video.toml:7: the end is not after the start"),
        ("rate = \"100mbit\"\ndelay", "rate = \"0mbit\"\ndelay", "a link of rate zero carries nothing"),
        ("to = \"glenwood:9000\"", "to = \"glenwood:90000\"", "\"90000\" is no port"),
        ("service = \"controlled-load\"", "service = \"gold\"", "\"gold\" is no service"),
        ("name = \"maui\"", "name = \"yosemite\"", "the node \"yosemite\" is there twice"),
    ];
    for (right, wrong, said) in cases {
        assert!(VIDEO.contains(right), "{right}");
        let message = parse(&VIDEO.replacen(right, wrong, 1)).unwrap_err();
        assert!(message.contains(said), "{wrong}: {message}");
    }
}

#[test]
fn a_source_without_a_way_is_refused() {
    let cut = VIDEO.replacen("between = [\"maui\", \"glenwood\"]", "between = [\"maui\", \"yosemite\"]", 1);
    let message = parse(&cut).unwrap_err();
    assert!(message.contains("no address") || message.contains("no way"), "{message}");
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let text = VIDEO.replacen("rates = [\"0bit\", \"1mbit\", \"2mbit\", \"3mbit\", \"4mbit\", \"5mbit\", \"6mbit\", \"7mbit\", \"8mbit\", \"9mbit\", \"10mbit\", \"11mbit\", \"12mbit\"]", "rates = [\"8mbit\"]", 1);
    let file = parse(&text).unwrap();
    assert_eq!(file.points.len(), 2);
    assert_eq!(play(&file, |_| {}).unwrap(), play(&file, |_| {}).unwrap());
}
