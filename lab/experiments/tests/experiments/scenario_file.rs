//! Scenario files: the examples show what they must, and what is said of mistakes.

use experiments::scenario::outcome::PointOutcome;
use experiments::scenario::{PlayOptions, ScenarioFile, ScenarioOutcome, SeedMeans, capture, play};
use std::path::{Path, PathBuf};

const VIDEO: &str = include_str!("../../../../examples/video.toml");
const DUMBBELL: &str = include_str!("../../../../examples/dumbbell.toml");

fn parse(text: &str) -> Result<ScenarioFile, String> {
    ScenarioFile::parse(Path::new("video.toml"), text).map_err(|mistake| mistake.to_string())
}

fn example(name: &str) -> ScenarioFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    ScenarioFile::load(&path).unwrap_or_else(|mistake| panic!("{mistake}"))
}

fn played(file: &ScenarioFile) -> ScenarioOutcome {
    play(file, &PlayOptions::plain()).unwrap_or_else(|error| panic!("{error}"))
}

fn value<'a>(point: &'a PointOutcome, field: &str) -> &'a str {
    &point.at.iter().find(|(name, _)| name == field).expect("a swept field").1
}

fn reading<'a>(point: &'a PointOutcome, name: &str) -> &'a SeedMeans {
    point.readings.iter().find(|reading| reading.name == name).expect("a reading")
}

/// Asserts what the paper's Figures 5 to 8 show, and more: the flood gets what the video leaves.
#[test]
fn the_video_survives_the_flood_where_it_reserved_and_collapses_where_not() {
    let outcome = played(&parse(VIDEO).unwrap());
    assert_eq!(outcome.points.len(), 2 * 13);
    for point in &outcome.points {
        let flood: f64 =
            value(point, "source.flood.cbr").trim_matches('"').trim_end_matches("mbit").parse().unwrap_or(0.0);
        let (video, cross) = (reading(point, "video"), reading(point, "flood"));
        let get = |reading: &SeedMeans, what: &str| reading.get(what).unwrap_or_else(|| panic!("{what} of {point:?}"));
        if value(point, "reserve") == "true" {
            assert_eq!(get(video, "loss %"), 0.0, "{point:?}");
            assert!((get(video, "frames/s") - 12.0).abs() <= 0.24, "{point:?}");
            assert!(get(video, "set-up ms") < 5.0, "{point:?}");
            // 9.86 Mb/s of IP bytes fit the wire in packets of 1,000 bytes; the video's wire rate is 3.13 Mb/s.
            let free: f64 = (10.0 - 3.133) / 1.014;
            assert!(get(cross, "received Mb/s") >= 0.95 * free.min(flood), "{point:?}");
        } else if flood <= 6.0 {
            assert_eq!(get(video, "loss %"), 0.0, "there is room for both: {point:?}");
        } else if flood >= 8.0 {
            assert!(get(video, "frames/s") < 6.0, "half the frames are gone: {point:?}");
        }
    }
}

#[test]
fn tcp_shares_a_bottleneck_at_every_rate_of_the_sweep() {
    let mut file = example("dumbbell.toml");
    file.sweep.seeds = 2;
    let outcome = played(&file);
    assert_eq!(outcome.points.len(), 3);
    for (point, rate) in outcome.points.iter().zip([5.0, 10.0, 20.0]) {
        let all = reading(point, "tcp").get("goodput Mb/s").unwrap();
        let bursts = reading(point, "bursts").get("received Mb/s").unwrap();
        assert!(all > 0.5 * rate && all + bursts < rate, "{rate}: {all} and {bursts}");
        for n in 1..=4 {
            let one = reading(point, &format!("flow {n}"));
            let share = one.get("goodput Mb/s").unwrap() / all;
            assert!((0.1..0.5).contains(&share), "{rate}: {one:?}");
            assert!(one.get("mean round trip ms").unwrap() >= 24.0, "propagation alone takes 24 ms: {one:?}");
        }
        let link = reading(point, "left>right");
        assert!(link.get("dropped").unwrap() > 0.0 && link.get("offered Mb/s").unwrap() > all, "{link:?}");
    }
    assert!(outcome.points[0].readings[0].values[0].ci95.is_some(), "two seeds have an interval");
    let csv = outcome.csv();
    assert!(
        csv.starts_with("link.left-right.rate,kind,name,value,mean,ci95\n5mbit,source,bursts,received Mb/s,"),
        "{csv}"
    );
    assert_eq!(outcome.charts().len(), 4, "sources, connections, group and link");
    let again = play(&file, &PlayOptions { threads: Some(1), ..PlayOptions::plain() }).unwrap();
    assert_eq!(outcome, again, "results depend on the number of threads");
}

#[test]
fn a_reservation_outlives_lost_signalling_and_a_dead_agent_but_not_a_dead_link() {
    let outcome = played(&example("faults.toml"));
    let [unreserved, reserved] = &outcome.points[..] else { panic!("two points: {outcome}") };
    let loss = |point| reading(point, "stream").get("loss %").unwrap();
    assert!(loss(unreserved) > 20.0, "the flood ruins it: {outcome}");
    // Half a second of thirty without the link, and the packets that were on it.
    assert!((1.0..3.0).contains(&loss(reserved)), "{outcome}");
}

#[test]
fn telephones_that_never_signalled_are_recognised_and_more_of_them_by_what_is_measured() {
    let outcome = played(&example("mace.toml"));
    let [simple, measured] = &outcome.points[..] else { panic!("two points: {outcome}") };
    let get = |point, what: &str| reading(point, "router>far").get(what);
    let mace = |point: &'_ PointOutcome, what: &str| {
        let reading = point.readings.iter().find(|reading| reading.kind == "mace").expect("a queue that recognises");
        reading.get(what).unwrap_or_else(|| panic!("{what}: {outcome}"))
    };
    // 3 Mb/s by 66.8 kbit/s on the wire.
    assert_eq!(mace(simple, "most flows"), 44.0, "{outcome}");
    assert!(mace(measured, "most flows") > 55.0 && mace(measured, "refused") < mace(simple, "refused"), "{outcome}");
    for point in [simple, measured] {
        assert!(mace(point, "CL lost %") < 0.01 && mace(point, "BE lost %") > 20.0, "{outcome}");
        // The early ones that were admitted fall silent at 150 s.
        assert!(mace(point, "silent") >= 20.0 && mace(point, "hoeffding would admit") > 0.0, "{outcome}");
        assert!(get(point, "green Mb/s").is_some_and(|green| green > 0.5), "{outcome}");
    }
    assert!(outcome.to_string().contains("simple-sum would admit"), "{outcome}");
}

#[test]
fn mistakes_about_recognition_are_told_with_their_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let right = std::fs::read_to_string(folder.join("mace.toml")).unwrap();
    let cases = [
        ("rule = \"measured-sum\"", "rule = \"sum\"", "\"sum\" is no rule: write measured-sum"),
        ("window = 20", "window = 0", "window = 0: from 1 to 100000"),
        ("period = \"1s\"", "period = \"1ms\"", "from 100 ms to 24h"),
        ("allocated = \"30%\"", "allocated = \"130%\"", "is no share: 0% to 100%"),
        ("\"mace-applications\"", "\"nowhere\"", "nowhere: No such file"),
        ("\"mace-applications\"", "\"mace.toml\"", "an application is NAME PROTOCOL"),
        ("packets = 50 ", "packets = 0 ", "a queue of 0 packets: allowed are 1 to 100000"),
        ("packets = 50 ", "bytes = \"9kb\"", "a queue with mace has packets, and no bytes"),
        ("window = 20", "windows = 20", "unknown field `windows`"),
        ("agents = false", "agents = true", "router has an agent: a queue recognises flows at nodes without one"),
        (
            "queue = {} ",
            "queue = { mace = { applications = \"mace-applications\" } } ",
            "mace is of the queue of one link",
        ),
    ];
    for (old, new, said) in cases {
        assert!(right.contains(old), "{old}");
        let text = right.replacen(old, new, 1);
        let message = ScenarioFile::parse(&folder.join("mace.toml"), &text).unwrap_err().to_string();
        assert!(message.contains(said) && message.contains("mace.toml:"), "{new}: {message}");
    }
}

#[test]
fn the_network_of_rfc2963_as_a_file_is_the_one_that_the_experiment_builds() {
    use sim::scenarios::rfc2963::{Params, Shaping, rfc2963};
    let file = example("rfc2963.toml");
    let built = rfc2963(&Params { shaping: Shaping::Green, ..Params::default() }).scenario;
    let found = &file.scenario;
    assert_eq!((found.nodes.len(), found.links.len()), (built.nodes.len(), built.links.len()));
    assert_eq!(found.connections.len(), 100);
    let behaviour = |scenario: &sim::Scenario| scenario.connections[0].tcp;
    assert_eq!(behaviour(found), behaviour(&built), "TCP");
    let uplinks = |scenario: &sim::Scenario| {
        let conditioners = scenario.egress.iter().filter_map(|egress| egress.conditioner);
        conditioners.map(|conditioner| (conditioner.meter, conditioner.shaper.map(thresholds))).collect::<Vec<_>>()
    };
    assert_eq!(uplinks(found), uplinks(&built), "conditioners");
    let bottleneck = |scenario: &sim::Scenario| {
        scenario.egress.iter().find(|egress| egress.conditioner.is_none()).expect("a RIO").queue.clone()
    };
    assert_eq!(bottleneck(found), bottleneck(&built), "RIO");
}

/// What a shaper is made of, without its buffer, which is large in both.
fn thresholds(shaper: traffic::tree::ShaperSpec) -> String {
    match shaper {
        traffic::tree::ShaperSpec::TrRas { rates, thresholds, ras } => {
            format!("{rates:?} {thresholds:?} {:?} {}", ras.k, ras.green)
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_capture_of_a_link_holds_both_directions_in_order() {
    let short = DUMBBELL.replace("[\"5s\", \"35s\"]", "[\"1s\", \"2s\"]");
    let file = parse(&short).unwrap();
    let folder = std::env::temp_dir().join(format!("sluice-sim-pcap-{}", std::process::id()));
    let (path, packets) = capture::write(&file, "right-left", &folder).unwrap();
    assert_eq!(path, PathBuf::from(&folder).join("left-right.pcap"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let mut last = 0;
    let mut destinations = std::collections::BTreeSet::new();
    let mut count = 0;
    for record in experiments::capture::CaptureFile::new(&bytes).unwrap() {
        let Ok(record) = record else { panic!("a record is cut off") };
        assert!(record.nanos >= last);
        last = record.nanos;
        let ip = experiments::capture::frame::ip_packet(record.link, record.bytes).expect("IP");
        destinations.insert(ip[16..20].to_vec());
        count += 1;
    }
    assert_eq!(count, packets);
    assert!(packets > 500 && destinations.len() >= 8, "{packets} packets to {destinations:?}");
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
        ("rate = \"100mbit\"\ndelay", "rate = \"0mbit\"\ndelay", "video.toml:23: a link of rate zero carries nothing"),
        ("to = \"glenwood:9000\"", "to = \"glenwood:90000\"", "\"90000\" is no port"),
        ("service = \"controlled-load\"", "service = \"gold\"", "\"gold\" is no service"),
        ("name = \"maui\"", "name = \"yosemite\"", "the node \"yosemite\" is there twice"),
        ("rates = [\"0bit\"", "rates = [\"0but\"", "with source.flood.cbr = \"0but\": \"but\" is no unit"),
    ];
    mistakes(VIDEO, &cases);
}

#[test]
fn mistakes_in_the_newer_entries_are_told_too() {
    let at = |entry: &str| format!("[[at]]\ntime = \"1s\"\n{entry}\n\n[sweep]");
    let cases = [
        ("growth = \"reno\"", "growth = \"vegas\"", "\"vegas\" is no growth of a window: reno or cubic"),
        ("window = \"256kb\"", "window = \"1000b\"", "window is 1000b: allowed is one segment (1460b) to 1gb"),
        ("tick = \"1ms\"", "tick = \"0ms\"", "tick and initial are more than nothing"),
        ("shape = 1.5", "shape = 1.0", "the shape is 1: allowed is above 1"),
        ("from = \"S{n}\"", "from = \"S{m}\"", "\"S{m}\" has a counter that `repeat` of this entry does not have"),
        ("repeat = { n = 4 }              #", "repeat = { n = 0 }              #", "0 copies: allowed are 1 to"),
        ("p = 0.1,", "p = 1.1,", "the probability p is 1.1: allowed is above 0, at most 1"),
        ("packets = 100,", "packets = 0,", "a queue for nothing: allowed is 1 packet"),
        ("field = \"link.left-right.rate\"", "field = \"link.left-right.rat\"", "there is no \"link.left-right.rat\""),
        ("seeds = 3", "seeds = 1000000", "a sweep of 3000000 runs; at most 10000 are allowed: take fewer values"),
        ("\"20mbit\"] }]", "\"0mbit\"] }]", "with link.left-right.rate = \"0mbit\": a link of rate zero"),
        ("[sweep]", &at("link_down = \"left-wrong\""), "there is no link \"left-wrong\": write its ends as NODE-NODE"),
        ("[sweep]", &at("crash = \"left\"\nheal = true"), "a time and exactly one of"),
        ("[sweep]", &at("impair = { link = \"left-right\", loss = 1.5 }"), "loss is 1.5: allowed is 0 to 1"),
        ("[sweep]", &at("impair = { link = \"left-right\", reorder = 0.5 }"), "reorder needs late"),
        ("to = \"D{n}\"", "to = \"S{n}\"", "a connection from a node to itself"),
    ];
    mistakes(DUMBBELL, &cases);
    let silent = parse(&DUMBBELL[..DUMBBELL.find("[[tcp]]").unwrap()]).unwrap_err();
    assert!(silent.contains("nothing is sent: add a [[source]] or a [[tcp]] entry"), "{silent}");
}

fn mistakes(text: &str, cases: &[(&str, &str, &str)]) {
    for (right, wrong, said) in cases {
        assert!(text.contains(right), "{right}");
        let message = parse(&text.replacen(right, wrong, 1)).unwrap_err();
        assert!(message.contains(said), "{wrong}: {message}");
        assert!(message.starts_with("video.toml:") && !message.starts_with("video.toml: "), "no line: {message}");
    }
}

#[test]
fn a_source_without_a_way_is_refused() {
    let cut = VIDEO.replacen("between = [\"maui\", \"glenwood\"]", "between = [\"glenwood\", \"glenwood2\"]", 1);
    let cut = cut.replacen("name = \"glenwood\"", "name = \"glenwood\"\n\n[[node]]\nname = \"glenwood2\"", 1);
    let message = parse(&cut).unwrap_err();
    assert!(message.contains("there is no way there from the source: add a link"), "{message}");
    let alone = VIDEO.replacen("between = [\"maui\", \"glenwood\"]", "between = [\"maui\", \"swissvale\"]", 1);
    let message = parse(&alone).unwrap_err();
    assert!(message.contains("has no link, so it has no address: add a link"), "{message}");
}

#[test]
fn a_trace_is_replayed_as_it_was_captured() {
    let folder = std::env::temp_dir().join(format!("sluice-sim-trace-{}", std::process::id()));
    let short = DUMBBELL.replace("[\"5s\", \"35s\"]", "[\"1s\", \"2s\"]");
    capture::write(&parse(&short).unwrap(), "left-right", &folder).unwrap();
    let trace = "trace = { file = \"left-right.pcap\", dst_port = 6000 }";
    let text = short.replace("pareto = { rate = \"4mbit\", on = \"200ms\", off = \"800ms\", shape = 1.5 }", trace);
    let file = ScenarioFile::parse(&folder.join("replay.toml"), &text).unwrap_or_else(|mistake| panic!("{mistake}"));
    std::fs::remove_dir_all(&folder).unwrap();
    let packets = &file.scenario.traces[0].packets;
    assert!(packets.len() > 10 && packets.iter().all(|(_, length)| *length == 500), "{packets:?}");
    assert!(packets.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let missing = ScenarioFile::parse(&folder.join("replay.toml"), &text).unwrap_err().to_string();
    assert!(missing.contains("left-right.pcap: No such file"), "{missing}");
}
