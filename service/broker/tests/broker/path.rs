//! Reservations between two hosts: one group over the agents on the way, held at all and then booked at all.

use crate::bed::Bed;
use broker_service::routing::{RouteSource, RoutingSettings};
use documents::links::RouteRow;
use serde_json::{Value, json};

fn wish(forward: u64, reverse: u64) -> Value {
    json!({"path": {"from": "10.0.1.9", "to": "10.0.2.9", "forward": forward, "reverse": reverse}, "duration_s": 3600, "label": "film"})
}

/// What an agent holds, as `RESOURCE RATE STATE`.
fn held(bed: &Bed, agent: usize) -> Vec<String> {
    let book = bed.agents[agent].book.lock().unwrap();
    let text = |row: &documents::book::ReservationDoc| {
        row.parts
            .iter()
            .map(|part| format!("{} {} {}", part.resource, part.steps[0].amount, row.state))
            .collect::<Vec<_>>()
    };
    let mut all: Vec<String> = book.rows.iter().flat_map(text).collect();
    // Both directions are asked for at once.
    all.sort_unstable();
    all
}

#[test]
fn figure_2_enquire_create_bind_modify_cancel() {
    let bed = Bed::five("figure2");
    let window = json!({"path": {"from": "10.0.1.9", "to": "10.0.2.9"}, "duration_s": 3600});
    let most = bed.alice("POST", "/v1/enquiries", window).ok(200);
    assert_eq!(
        (&most["forward"], &most["reverse"], &most["accepted"]),
        (&json!(10_000_000), &json!(10_000_000), &json!(true))
    );
    let made = bed.alice("POST", "/v1/reservations", wish(6_000_000, 1_000_000)).ok(201);
    assert_eq!(made["state"], "active");
    assert_eq!(made["path"], json!({"from": "10.0.1.9", "to": "10.0.2.9", "forward": 6_000_000, "reverse": 1_000_000}));
    assert_eq!(held(&bed, 0), ["net/b 6000000 active", "net/in 1000000 active"]);
    assert_eq!(held(&bed, 1), ["net/a 1000000 active", "net/e 6000000 active"]);
    assert_eq!(held(&bed, 4), ["net/b 1000000 active", "net/out 6000000 active"]);
    assert_eq!((held(&bed, 2).len(), held(&bed, 3).len()), (0, 0), "the longer way is not used");

    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    let bound = bed
        .alice("POST", &format!("{at}/bind"), json!({"flow": {"protocol": 17, "from_port": 4000, "to_port": 5004}}))
        .ok(200);
    for part in bound["parts"].as_array().unwrap() {
        let flow = &part["binding"]["flow"];
        let there = json!({"src": "10.0.1.9", "dst": "10.0.2.9", "protocol": 17, "src_port": 4000, "dst_port": 5004});
        let back = json!({"src": "10.0.2.9", "dst": "10.0.1.9", "protocol": 17, "src_port": 5004, "dst_port": 4000});
        assert_eq!(*flow, if part["way"] == "forward" { there } else { back });
    }
    let more = bed.alice("PATCH", &at, json!({"forward": 8_000_000})).ok(200);
    assert_eq!((&more["path"]["forward"], &more["path"]["reverse"]), (&json!(8_000_000), &json!(1_000_000)));
    assert_eq!(bed.alice("DELETE", &at, Value::Null).ok(200)["state"], "cancelled");
    assert!([0, 1, 4].iter().all(|&agent| held(&bed, agent).iter().all(|row| row.ends_with("cancelled"))));
    let history = bed.alice("GET", &format!("{at}/history"), Value::Null).ok(200);
    assert!(history["events"].as_array().unwrap().iter().all(|event| event["reservation"] == made["id"]));
}

/// What is not known now is not passed off as what there is not.
#[test]
fn paths_say_which_agents_are_away() {
    let bed = Bed::five("paths-away");
    let at = "/v1/paths?from=10.0.1.9&to=10.0.2.9";
    bed.agents[1].go();
    let ways = bed.alice("GET", at, Value::Null).ok(200);
    assert_eq!((&ways["away"], ways["forward"].as_array().unwrap().len()), (&json!(["b"]), 1), "{ways}");
    assert_eq!(ways["forward"][0]["hops"][1]["agent"], "c", "the longer way");
    bed.agents[1].listen();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let ways = bed.alice("GET", at, Value::Null).ok(200);
        if ways["forward"].as_array().unwrap().len() == 2 {
            assert!(ways["away"].is_null(), "{ways}");
            return;
        }
        assert!(std::time::Instant::now() < until, "{ways}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_refusal_in_the_middle_gives_all_back_and_names_another_way() {
    let bed = Bed::five("refusal");
    bed.agents[4].book.lock().unwrap().room.insert("net/out".into(), 3e6);
    let no = bed.alice("POST", "/v1/reservations", wish(6_000_000, 0)).problem(409);
    assert_eq!(no["refusal"]["resource"], "e/net/out");
    assert_eq!(held(&bed, 0), ["net/b 6000000 cancelled"]);
    assert_eq!(held(&bed, 1), ["net/e 6000000 cancelled"]);
    let slower = &no["refusal"]["alternatives"][0];
    assert_eq!((&slower["sort"], &slower["parts"][0][0]["amount"]), (&json!("slower"), &json!(3e6)));

    bed.agents[4].book.lock().unwrap().room.insert("net/out".into(), 1e7);
    bed.agents[1].book.lock().unwrap().room.insert("net/e".into(), 1e6);
    let no = bed.alice("POST", "/v1/reservations", wish(6_000_000, 0)).problem(409);
    let sorts: Vec<&str> =
        no["refusal"]["alternatives"].as_array().unwrap().iter().map(|one| one["sort"].as_str().unwrap()).collect();
    assert_eq!(sorts, ["other_path", "slower"], "{no}");
    let enquiry = bed.alice("POST", "/v1/enquiries", wish(6_000_000, 0)).ok(200);
    assert_eq!((&enquiry["accepted"], &enquiry["forward"]), (&json!(false), &json!(1_000_000)));
    assert_eq!(enquiry["refusal"]["alternatives"][0]["sort"], "other_path");
}

#[test]
fn an_agent_that_fails_while_the_others_hold_or_commit() {
    let bed = Bed::five("fails");
    bed.agents[4].book.lock().unwrap().fail_once = Some("book_prepare");
    bed.alice("POST", "/v1/reservations", wish(6_000_000, 1_000_000)).problem(503);
    for agent in [0, 1, 4] {
        assert!(held(&bed, agent).iter().all(|row| row.ends_with("cancelled")), "{:?}", held(&bed, agent));
    }
    // Once it is decided there is no way back: it is told again.
    bed.agents[4].book.lock().unwrap().fail_once = Some("book_decide");
    assert_eq!(bed.alice("POST", "/v1/reservations", wish(6_000_000, 1_000_000)).ok(201)["state"], "active");
}

#[test]
fn a_change_that_does_not_fit_somewhere_changes_nothing_anywhere() {
    let bed = Bed::five("modify");
    let made = bed.alice("POST", "/v1/reservations", wish(4_000_000, 1_000_000)).ok(201);
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    bed.agents[4].book.lock().unwrap().room.insert("net/out".into(), 5e6);
    bed.alice("PATCH", &at, json!({"forward": 6_000_000, "reverse": 500_000})).problem(409);
    for agent in [0, 1, 4] {
        let rows = held(&bed, agent);
        assert!([" 4000000 ", " 1000000 "].iter().all(|kept| rows.iter().any(|row| row.contains(kept))), "{rows:?}");
    }
    let both = bed.alice("PATCH", &at, json!({"forward": 5_000_000, "reverse": 500_000})).ok(200);
    assert_eq!((&both["path"]["forward"], &both["path"]["reverse"]), (&json!(5_000_000), &json!(500_000)));
    let wrong = [
        (json!({}), "nothing is to be changed"),
        (json!({"amounts": [{"part": 6, "rate": 1}]}), "there are 6"),
        (json!({"amounts": [{"part": 0, "rate": 1}]}), "one hop of a path, which keeps one rate: name `forward`"),
    ];
    for (change, why) in wrong {
        assert!(bed.alice("PATCH", &at, change).problem(422)["detail"].as_str().unwrap().contains(why));
    }
}

#[test]
fn a_range_is_what_the_narrowest_agent_gives() {
    let bed = Bed::five("range");
    bed.agents[1].book.lock().unwrap().room.insert("net/e".into(), 5e6);
    let mut range = wish(8_000_000, 0);
    range["path"]["forward_at_least"] = json!(2_000_000);
    let made = bed.alice("POST", "/v1/reservations", range).ok(201);
    assert_eq!(made["path"]["forward"], 5_000_000);
    assert_eq!(held(&bed, 0), ["net/b 5000000 active"], "no agent holds more than goes through");
}

#[test]
fn what_its_owner_only_holds_is_left_alone_by_a_broker_that_starts() {
    let mut bed = Bed::five("recover");
    let mut hold = wish(1_000_000, 0);
    hold["hold_s"] = json!(60);
    let made = bed.alice("POST", "/v1/reservations", hold).ok(201);
    assert_eq!(made["state"], "held");
    bed.stop();
    bed.start();
    assert_eq!(bed.running.as_ref().unwrap().finished, 0);
    let at = format!("/v1/reservations/{}/commit", made["id"].as_str().unwrap());
    assert_eq!(bed.alice("POST", &at, Value::Null).ok(200)["state"], "active");
}

#[test]
fn paths_and_what_leads_nowhere() {
    let bed = Bed::five("paths");
    let paths = bed.alice("GET", "/v1/paths?from=10.0.1.9&to=10.0.2.9", Value::Null).ok(200);
    let hops = |row: &Value| {
        row["hops"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hop| hop["resource"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(hops(&paths["forward"][0]), ["a/net/b", "b/net/e", "e/net/out"]);
    assert_eq!(hops(&paths["forward"][1]), ["a/net/c", "c/net/d", "d/net/e", "e/net/out"]);
    assert_eq!(hops(&paths["reverse"][0]), ["e/net/b", "b/net/a", "a/net/in"]);
    for query in [
        "",
        "?from=10.0.1.9",
        "?from=x&to=10.0.2.9",
        "?from=10.0.1.9&to=10.0.2.9&via=b",
        "?from=10.0.1.9&from=10.0.1.9&to=10.0.2.9",
    ] {
        bed.alice("GET", &format!("/v1/paths{query}"), Value::Null).problem(400);
    }
    let nowhere = json!({"path": {"from": "10.0.1.9", "to": "192.0.2.1", "forward": 1}, "end": "forever"});
    assert!(bed.alice("POST", "/v1/reservations", nowhere).problem(422)["detail"].as_str().unwrap().contains("no way"));
    for body in [
        json!({}),
        json!({"path": {"from": "10.0.1.9", "to": "10.0.2.9"}, "end": "forever"}),
        json!({"parts": [{"resource": "net/b", "rate": 1}], "end": "forever"}),
    ] {
        bed.alice("POST", "/v1/reservations", body).problem(422);
    }
}

/// Says an agent's way out to the right host.
fn leads(bed: &Bed, agent: usize, interface: &str, gateway: Option<&str>) {
    let row = RouteRow {
        to: "10.0.2.9".parse().unwrap(),
        interface: Some(interface.to_owned()),
        gateway: gateway.map(|gateway| gateway.parse().unwrap()),
        local: false,
    };
    bed.agents[agent].book.lock().unwrap().ways_out = vec![row];
}

/// The kernels route by the longer way: that is what is reserved, and what is shown as such.
#[test]
fn what_is_reserved_is_the_way_of_the_kernels_routes() {
    let bed = Bed::five("kernel-routes");
    leads(&bed, 0, "c", Some("10.1.2.2"));
    leads(&bed, 2, "d", Some("10.1.4.2"));
    leads(&bed, 3, "e", Some("10.1.5.2"));
    leads(&bed, 4, "out", None);
    let ways = bed.alice("GET", "/v1/paths?from=10.0.1.9&to=10.0.2.9", Value::Null).ok(200);
    let shown = |row: &Value| {
        let hops = row["hops"].as_array().unwrap().iter().map(|hop| hop["agent"].as_str().unwrap());
        (hops.collect::<Vec<_>>().join(" "), row["routed"].as_bool().unwrap())
    };
    let forward: Vec<_> = ways["forward"].as_array().unwrap().iter().map(shown).collect();
    assert_eq!(forward, [("a c d e".to_owned(), true), ("a b e".to_owned(), false)]);
    // Nobody said how packets come back.
    assert_eq!(shown(&ways["reverse"][0]), ("e b a".to_owned(), false));
    bed.agents[4].book.lock().unwrap().room.insert("net/out".into(), 2e7);
    bed.alice("POST", "/v1/reservations", wish(6_000_000, 0)).ok(201);
    assert_eq!((held(&bed, 1).len(), held(&bed, 2)), (0, vec!["net/d 6000000 active".to_owned()]));
    // Where packets do not go nothing is reserved, however much room is there.
    let no = bed.alice("POST", "/v1/reservations", wish(6_000_000, 0)).problem(409);
    assert_eq!(no["refusal"]["alternatives"][0]["sort"], "other_path", "{no}");
    assert_eq!(held(&bed, 1).len(), 0);
}

/// Where the operator steers packets over what is reserved, the way with room is taken where the shortest is full.
#[test]
fn a_way_with_room_is_taken_where_packets_are_steered() {
    let steered = |costs: &[(&str, u32)]| {
        let costs = costs.iter().map(|(name, cost)| ((*name).to_owned(), *cost)).collect();
        RoutingSettings { routes: RouteSource::Configured, costs }
    };
    let bed = Bed::five_with("steered", |config| config.routing = steered(&[]));
    // The kernels' routes do not count.
    leads(&bed, 0, "c", Some("10.1.2.2"));
    bed.alice("POST", "/v1/reservations", wish(6_000_000, 0)).ok(201);
    assert_eq!(held(&bed, 1), ["net/e 6000000 active"]);
    // The shortest is full: the other way, and nothing more at the first.
    bed.agents[0].book.lock().unwrap().room.insert("net/b".into(), 5e6);
    bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).ok(201);
    assert_eq!(held(&bed, 2), ["net/d 4000000 active"]);
    assert_eq!(held(&bed, 1), ["net/e 6000000 active"]);
    // Everything is full.
    bed.agents[4].book.lock().unwrap().room.insert("net/out".into(), 1e6);
    bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).problem(409);

    let dear = Bed::five_with("dear", |config| config.routing = steered(&[("b/net/e", 9)]));
    let ways = dear.alice("GET", "/v1/paths?from=10.0.1.9&to=10.0.2.9", Value::Null).ok(200);
    assert_eq!(ways["forward"][0]["hops"][1]["agent"], "c", "{ways}");
}
