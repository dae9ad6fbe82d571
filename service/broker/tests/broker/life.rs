//! A reservation's life over one agent: made, shown, bound, changed, given back; keys; owners.

use crate::bed::Bed;
use serde_json::{Value, json};

#[test]
fn from_enquiry_to_cancel() {
    let bed = Bed::one("life");
    let resources = bed.alice("GET", "/v1/resources", Value::Null).ok(200);
    assert_eq!(resources["resources"][1]["resource"], "here/net/eth0");
    let wish = json!({"end": "forever", "parts": [{"resource": "net/eth0", "rate": 4_000_000}, {"resource": "here/cpu", "cores": 0.5}], "label": "film"});
    let enquiry = bed.alice("POST", "/v1/enquiries", wish.clone()).ok(200);
    assert_eq!((&enquiry["accepted"], &enquiry["parts"][0]["free"]), (&json!(true), &json!(1e7)));
    let said = bed.alice("POST", "/v1/reservations", wish);
    let head = said.head.clone();
    let made = said.ok(201);
    let id = made["id"].as_str().unwrap();
    assert!(head.contains(&format!("location: /v1/reservations/{id}")), "{head}");
    assert_eq!((&made["state"], &made["owner"], &made["label"]), (&json!("active"), &json!("alice"), &json!("film")));
    assert_eq!(made["parts"][0]["resource"], "here/net/eth0");
    let at = format!("/v1/reservations/{id}");
    assert_eq!(bed.alice("GET", &at, Value::Null).ok(200), made);

    let binding = json!({"flow": {"dst": "10.0.0.2", "protocol": 17, "dst_port": 5004}});
    let bound = bed.alice("POST", &format!("{at}/bind"), json!({"part": 0, "binding": binding})).ok(200);
    assert_eq!(bound["parts"][0]["binding"], binding);
    let changed = bed.alice("PATCH", &at, json!({"amounts": [{"part": 0, "rate": 6_000_000}]})).ok(200);
    assert_eq!(changed["parts"][0]["now"], 6e6);
    let refused = bed.alice("PATCH", &at, json!({"amounts": [{"part": 0, "rate": 11_000_000}]})).problem(409);
    assert_eq!(refused["type"], "/problems/no_room");
    assert_eq!(bed.alice("GET", &at, Value::Null).ok(200)["parts"][0]["now"], 6e6, "the old stays");

    let listed = bed.alice("GET", "/v1/reservations?label=film", Value::Null).ok(200);
    assert_eq!(listed["reservations"].as_array().unwrap().len(), 1);
    assert_eq!(bed.alice("DELETE", &at, Value::Null).ok(200)["state"], "cancelled");
    assert_eq!(bed.alice("DELETE", &at, Value::Null).problem(409)["type"], "/problems/wrong_state");
    let history = bed.alice("GET", &format!("{at}/history"), Value::Null).ok(200);
    let kinds: Vec<&str> =
        history["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["created", "bound", "modified", "cancelled"]);
    assert_eq!(bed.alice("GET", "/v1/reservations", Value::Null).ok(200)["reservations"], json!([]));
}

#[test]
fn nothing_is_reserved_for_ever_unless_that_is_said() {
    let bed = Bed::one("forever");
    let parts = json!([{"resource": "cpu", "cores": 0.5}]);
    for wish in [json!({"parts": parts}), json!({"parts": parts, "start": "2040-01-01T00:00:00Z", "hold_s": 20})] {
        let no = bed.alice("POST", "/v1/reservations", wish).problem(422);
        let how = "for how long? give duration_s or end; \"end\": \"forever\" is until it is given back";
        assert_eq!(no["detail"], how);
    }
    assert!(bed.agents[0].told().iter().all(|told| !told.contains("book_create")), "nobody was asked");
    let open = bed.alice("POST", "/v1/enquiries", json!({"parts": parts})).ok(200);
    assert_eq!(open["accepted"], true, "an enquiry reserves nothing");
    let made = bed.alice("POST", "/v1/reservations", json!({"parts": parts, "end": "forever"})).ok(201);
    assert_eq!(made["state"], "active");
}

#[test]
fn held_then_committed() {
    let bed = Bed::one("held");
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 1.0}], "hold_s": 20});
    let held = bed.alice("POST", "/v1/reservations", wish).ok(201);
    assert_eq!(held["state"], "held");
    let at = format!("/v1/reservations/{}/commit", held["id"].as_str().unwrap());
    assert_eq!(bed.alice("POST", &at, Value::Null).ok(200)["state"], "active");
}

#[test]
fn what_is_unknown_and_what_is_somebody_elses_look_the_same() {
    let bed = Bed::one("foreign");
    let root = bed
        .root("POST", "/v1/reservations", json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 1.0}]}))
        .ok(201);
    let lone = {
        let mut book = bed.agents[0].book.lock().unwrap();
        book.rows[0].group = String::new(); // as `sluice reserve` makes them, without a broker
        book.rows[0].handle.clone()
    };
    let own = format!("here~{lone}");
    assert_eq!(bed.root("GET", &format!("/v1/reservations/{own}"), Value::Null).ok(200)["id"], own);
    let foreign = root["id"].as_str().unwrap().to_owned();
    bed.agents[0].book.lock().unwrap().rows[0].group = format!("{foreign}.a");
    assert_eq!(bed.root("GET", &format!("/v1/reservations/{foreign}"), Value::Null).ok(200)["owner"], "uid:0");

    let unknown = "0".repeat(26);
    let names = [foreign.as_str(), unknown.as_str(), &own, "here~h9-here", "elsewhere~h0", "x", "%00", "..%2f..", "🦀"];
    for (method, tail, body) in [
        ("GET", "", Value::Null),
        ("GET", "/history", Value::Null),
        ("DELETE", "", Value::Null),
        ("PATCH", "", json!({"label": "mine"})),
        ("POST", "/bind", json!({"part": 0})),
        ("POST", "/commit", Value::Null),
    ] {
        let answers: Vec<_> = names
            .iter()
            .map(|name| bed.alice(method, &format!("/v1/reservations/{name}{tail}"), body.clone()))
            .collect();
        let first = &answers[0];
        assert_eq!(first.status, 404, "{method} {tail}");
        let plain =
            |head: &str| head.lines().filter(|line| !line.starts_with("date:")).map(str::to_owned).collect::<Vec<_>>();
        for (name, answer) in names.iter().zip(&answers) {
            assert_eq!((answer.status, &answer.body), (404, &first.body), "{method} {name}{tail}");
            assert_eq!(plain(&answer.head), plain(&first.head), "{method} {name}{tail}");
        }
    }
    assert_eq!(bed.agents[0].states(), ["active"], "and nothing has changed");
}

#[test]
fn the_same_key_has_one_effect_also_after_a_restart() {
    let mut bed = Bed::one("key");
    let wish = json!({"end": "forever", "parts": [{"resource": "net/eth0", "rate": 1_000_000}]});
    let other = json!({"end": "forever", "parts": [{"resource": "net/eth0", "rate": 2_000_000}]});
    let send =
        |bed: &Bed, key: &str, wish: &Value| bed.send("POST", "/v1/reservations", &[("Idempotency-Key", key)], wish);
    let first = send(&bed, "k1", &wish).ok(201);
    assert_eq!(send(&bed, "k1", &wish).ok(201), first);
    assert_eq!(send(&bed, "k1", &other).problem(422)["type"], "/problems/key_used");
    assert_ne!(send(&bed, "k2", &wish).ok(201)["id"], first["id"]);
    bed.stop();
    bed.start();
    assert_eq!(send(&bed, "k1", &wish).ok(201), first);
    assert_eq!(send(&bed, "k1", &other).problem(422)["type"], "/problems/key_used");
    assert_eq!(bed.agents[0].states().len(), 2);
    let long = "k".repeat(97);
    for wrong in [long.as_str(), "a b", "ü"] {
        send(&bed, wrong, &wish).problem(400);
    }
    bed.send("POST", "/v1/reservations", &[("Idempotency-Key", "a"), ("idempotency-key", "b")], &wish).problem(400);
}

#[test]
fn an_agent_that_is_away() {
    let bed = Bed::one("away");
    bed.agents[0].go();
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 1.0}]});
    let said = bed.alice("POST", "/v1/reservations", wish);
    assert!(said.head.contains("retry-after: 1"), "{}", said.head);
    assert!(said.problem(503)["detail"].as_str().unwrap().contains("here does not answer"));
    assert_eq!(bed.alice("GET", "/v1/reservations", Value::Null).ok(200)["away"], json!(["here"]));
    bed.alice("GET", &format!("/v1/reservations/{}", "0".repeat(26)), Value::Null).problem(503);
}

#[test]
fn the_openapi_document_is_the_one_in_docs() {
    let bed = Bed::one("openapi");
    let served = bed.alice("GET", "/openapi.json", Value::Null).ok(200);
    assert_eq!(served["openapi"], "3.1.0");
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = broker_service::openapi::text();
    if std::env::var_os("SLUICE_UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == text,
        "docs/openapi.json is not what is served: SLUICE_UPDATE=1 cargo test -p sluice-broker writes it"
    );
    // Everything that is referred to is there.
    let mut names: Vec<&str> = text
        .match_indices("#/components/schemas/")
        .map(|(at, found)| text[at + found.len()..].split('"').next().unwrap())
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        assert!(served["components"]["schemas"][name].is_object(), "{name} is referred to and missing");
    }
}
