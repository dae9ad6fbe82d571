//! The profile as a whole, in its quick form: nine tables for scripts, figures on disk, and text that says what is beside
//! what.

use lab::patience::Patience;
use lab::profile::{self, Options};

#[test]
fn a_quick_profile_has_nine_tables_and_its_figures() {
    let options = Options { quick: true, progress: false };
    let report = profile::run(&options, &Patience::endless()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let tables = json["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 9);
    for number in [3, 4, 5, 6, 7, 9] {
        let table = &tables[number - 1];
        assert_eq!(table["table"], number);
        for cell in table["cells"].as_array().unwrap() {
            let here = &cell["here"];
            let [low, median, high] = ["low", "median", "high"].map(|end| here[end].as_f64().unwrap());
            assert!(low <= median && median <= high, "{number}: {cell}");
            assert!(here["n"].as_u64().unwrap() >= 20 && cell["seed"]["low"].as_f64().unwrap() > 0.0, "{cell}");
            assert!(number == 9 || (-0.02..1e3).contains(&median), "{number}: {cell}");
        }
    }
    // What grows with the sessions here is caches, not lists: three orders below what was published.
    let growth = tables[8]["cells"].as_array().unwrap();
    assert!(growth.iter().all(|cell| cell["here"]["median"].as_f64().unwrap() < 0.02), "{growth:?}");
    let folder = std::env::temp_dir().join(format!("sluice-profile-{}", std::process::id()));
    report.write(&folder).unwrap();
    let there = |name: &str| std::fs::metadata(folder.join(name)).is_ok_and(|file| file.len() > 500);
    for name in ["figure-5-session-lookup", "figure-6-session-maintenance"] {
        assert!(there(&format!("{name}.svg")) && there(&format!("{name}.png")), "{name}");
    }
    let text = std::fs::read_to_string(folder.join("tables.txt")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(text.contains("624.8 - 627.2") && text.contains("published"), "{text}");
}

/// The black box is our own agent: its limits are found, nothing is lost below them, and a tester that asks for what is
/// not there is told so.
#[test]
fn an_agent_is_benchmarked_as_a_black_box() {
    use lab::profile::blackbox::{self, Limit, Plan};
    use lab::profile::line::{Agent, Line};
    use lab::profile::transit::Protocol;
    if let Err(error) = lab::bed::Bed::possible() {
        println!("SKIPPED: {error}");
        return;
    }
    let line = Line::new().unwrap();
    let patience = Patience::endless();
    let mut tester = line.tester().unwrap();
    let plan = Plan { repetitions: 3, ..Plan::new(Protocol::Rsvp, true, 64) };
    let nobody = blackbox::run(&mut tester, plan, &patience, &mut |_| ());
    let complaint = nobody.unwrap_err().to_string();
    assert!(complaint.contains("Path"), "{complaint}");
    let rate = terms::Rate::from_mbps(1_000);
    let _agent = Agent::start(&line, rate, profile::packets::CONFIG).unwrap();
    // Another tester: the one before has seen its own Path come through a node that only forwards.
    drop(tester);
    let mut tester = line.tester().unwrap();
    let protocol = Protocol::Rsvp;
    let plan = Plan { repetitions: 5, ..Plan::new(protocol, true, 64) };
    let found = blackbox::run(&mut tester, plan, &patience, &mut |_| ()).unwrap();
    assert_eq!(found.unloaded.len(), protocol.life().len());
    assert!(found.unloaded.iter().all(|h| h.deficit == 0.0 && h.us.median > 0.5), "{:?}", found.unloaded);
    let Limit { most, .. } = found.burst.unwrap();
    assert!(most >= 16, "a burst of {most}");
    // How much more depends on what else the machine does.
    assert!(found.load.unwrap().most >= 16, "{:?}", found.load);
    assert_eq!(found.sessions.unwrap(), Limit { most: 64, lossy: None });
    assert!(!found.against_load.is_empty() && !found.against_sessions.is_empty());
    let text = found.text("10.79.1.1");
    assert!(text.contains("maximum signalling burst") && text.contains("sessions"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&found.json()).unwrap();
    assert_eq!(json["protocol"], protocol.name());
}
