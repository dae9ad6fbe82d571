//! The profile as a whole, in its quick form: nine tables for scripts, figures on disk, and text that says what is beside
//! what.

use bed::patience::Patience;
use profile::{self, ProfileOptions};

#[test]
fn a_quick_profile_has_nine_tables_and_its_figures() {
    let options = ProfileOptions { quick: true, progress: false };
    let report = profile::run(&options, &Patience::endless()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let tables = json["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 9);
    let real = bed::Bed::possible().is_ok();
    assert!(!real || report.skipped.is_empty(), "{:?}", report.skipped);
    let numbers = if real { vec![1, 2, 3, 4, 5, 6, 7, 8, 9] } else { vec![3, 4, 5, 6, 7, 8, 9] };
    for number in numbers {
        let table = &tables[number - 1];
        assert_eq!(table["table"], number);
        for cell in table["cells"].as_array().unwrap() {
            let here = &cell["here"];
            let [low, median, high] = ["low", "median", "high"].map(|end| here[end].as_f64().unwrap());
            assert!(low <= median && median <= high, "{number}: {cell}");
            assert!(here["n"].as_u64().unwrap() >= 20 && cell["seed"]["low"].as_f64().unwrap() > 0.0, "{cell}");
            assert!(number == 9 || (-0.02..1e5).contains(&median), "{number}: {cell}");
        }
    }
    // What grows with the sessions here is caches, not lists: three orders below what was published.
    let growth = tables[8]["cells"].as_array().unwrap();
    assert!(growth.iter().all(|cell| cell["here"]["median"].as_f64().unwrap() < 0.02), "{growth:?}");
    assert!(report.figures.iter().all(|figure| figure.chart.has_room()), "{:?}", report.figures);
    let folder = std::env::temp_dir().join(format!("sluice-profile-{}", std::process::id()));
    report.write(&folder).unwrap();
    let there = |name: &str| std::fs::metadata(folder.join(name)).is_ok_and(|file| file.len() > 500);
    let drawn = ["figure-5-session-lookup", "figure-6-session-maintenance"];
    let on_packets = ["figure-2-rsvp-traffic", "figure-3-boomerang-traffic", "figure-4-levels"];
    for name in drawn.into_iter().chain(on_packets.into_iter().filter(|_| real)) {
        assert!(there(&format!("{name}.svg")) && there(&format!("{name}.png")), "{name}");
    }
    let text = std::fs::read_to_string(folder.join("tables.txt")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(text.contains("624.8 - 627.2") && text.contains("published"), "{text}");
    let rows = ["published, checkpoint 2", "engine : engine, new", "fast path by test run", "fast path through veth"];
    let ratio = |row: &&str| text.lines().any(|line| line.starts_with(row));
    assert!(rows[..if real { 4 } else { 2 }].iter().all(ratio), "{text}");
}

/// The black box is our own agent: its limits are found, nothing is lost below them, and a tester that asks for what is
/// not there is told so, and is none the worse for it when it comes.
#[test]
fn an_agent_is_benchmarked_as_a_black_box() {
    use profile::blackbox::{self, BlackboxPlan, LossFreeLimit};
    use profile::line::{ProfiledAgent, ProfiledLine};
    use profile::transit::Protocol;
    if let Err(error) = bed::Bed::possible() {
        return bench::skipped(error);
    }
    let line = ProfiledLine::new().unwrap();
    let patience = Patience::endless();
    let mut tester = line.tester().unwrap();
    for (protocol, word) in [(Protocol::Rsvp, "Path"), (Protocol::Boomerang, "Boomerang")] {
        let plan = BlackboxPlan { repetitions: 3, ..BlackboxPlan::new(protocol, true, 64) };
        let complaint = blackbox::run(&mut tester, plan, &patience, &mut |_| ()).unwrap_err().to_string();
        assert!(complaint.contains(word) && complaint.contains("unread"), "{complaint}");
    }
    let (rate, mut tries) = (terms::Rate::from_mbps(1_000), 4);
    for (config, protocols) in [
        (profile::packets::CONFIG, &[Protocol::Rsvp, Protocol::Boomerang][..]),
        (profile::packets::FAST, &[Protocol::Boomerang]),
    ] {
        let _agent = ProfiledAgent::start(&line, rate, config).unwrap();
        for &protocol in protocols {
            let plan = BlackboxPlan { repetitions: 5, ..BlackboxPlan::new(protocol, true, 64) };
            let all = LossFreeLimit { most: 64, lossy: None };
            let mut said = Vec::new();
            let mut run = || blackbox::run(&mut tester, plan, &patience, &mut |line| said.push(line)).unwrap();
            let mut found = run();
            // A machine that is busy with something else loses what another one lets in.
            while found.sessions != Some(all) && tries > 0 {
                (found, tries) = (run(), tries - 1);
            }
            assert_eq!(found.unloaded.len(), protocol.life().len());
            assert!(found.unloaded.iter().all(|h| h.deficit == 0.0 && h.us.median > 0.5), "{:?}", found.unloaded);
            let LossFreeLimit { most, .. } = found.burst.unwrap();
            assert!(most >= 16, "a burst of {most}");
            // How much more depends on what else the machine does.
            assert!(found.load.unwrap().most >= 16, "{:?}", found.load);
            assert_eq!(found.sessions, Some(all));
            assert!(!found.against_load.is_empty() && !found.against_sessions.is_empty());
            let text = found.text("10.79.1.1");
            assert!(text.contains("maximum signalling burst") && text.contains("sessions"), "{text}");
            let json: serde_json::Value = serde_json::from_str(&found.json()).unwrap();
            assert_eq!(json["protocol"], protocol.name());
            assert!(said.iter().any(|line| line == "maximum signalling burst: 16 loss-free"), "{said:?}");
        }
    }
}
