//! Changes of a reservation over three domains: of its rate, of one of its days, and its end in the middle.

use crate::agents::crossing::{Crossing, DOMAINS, ENDS};
use crate::agents::domains::said;
use crate::bed::wait_for;
use documents::book::ReservationDoc;
use serde_json::{Value, json};

/// A change is made in all or in none.
pub fn changed(bed: &Crossing, id: &str) {
    let more = bed.alice(&["modify", id, "--forward", "7mbit"]);
    assert!(more.status.success(), "{}", said(&more));
    wait_for("all have more", || {
        let all = || DOMAINS.iter().flat_map(|domain| bed.agents(domain));
        (all().filter(|one| one.contains(" 7000000 ")).count() >= 6 && !all().any(|one| one.contains(" 6000000 ")))
            .then_some(())
    });
    let refused = bed.alice(&["modify", id, "--forward", "50mbit"]);
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(DOMAINS.iter().flat_map(|domain| bed.agents(domain)).all(|one| !one.contains("50000000")));
    let bound = bed.alice(&["bind", id, "--source", "10.0.0.1:4000", "--to", "10.0.10.2:5004", "--protocol", "udp"]);
    assert!(bound.status.success(), "{}", said(&bound));
    // Another change of a leg than by way of its first domain is refused there.
    let there = bed.list("esnet")[0]["id"].as_str().unwrap().to_owned();
    let alone = bed.0.ask("esnet-west", "esnet", "operator-root", &["modify", &there, "--forward", "1mbit"]);
    assert!(!alone.status.success() && said(&alone).contains("comes from anl"), "{}", said(&alone));
}

/// An operator ends a leg: the domains after it give theirs back, and the first says that it is broken.
pub fn ended_in_the_middle(bed: &Crossing) {
    let made = bed.reserve(&["--forward", "6mbit"]).unwrap();
    wait_for("it is there", || bed.list("esnet").first().is_some_and(|one| one["state"] == "active").then_some(()));
    let audit = bed.alice(&["audit", "--json", "--handle", made["id"].as_str().unwrap()]);
    assert!(audit.status.success(), "{}", said(&audit));
    let kept: Vec<Value> = said(&audit).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let domains: Vec<&str> = kept.iter().filter_map(|row| row["accepted"]["domain"].as_str()).collect();
    assert_eq!(domains, ["esnet", "lbnl"]);
    assert!(kept.iter().all(|row| row["statement"]["signature"].as_str().is_some_and(|text| text.len() > 100)));
    let there = bed.list("esnet")[0]["id"].as_str().unwrap().to_owned();
    let ended = bed.0.ask("esnet-west", "esnet", "operator-root", &["cancel", &there]);
    assert!(ended.status.success(), "{}", said(&ended));
    wait_for("LBNL gives its leg back", || bed.agents("lbnl").is_empty().then_some(()));
    let broken = &bed.list("anl")[0];
    assert_eq!((&broken["state"], &broken["missing"]), (&"broken".into(), &json!(["esnet"])));
    assert!(bed.alice(&["cancel", made["id"].as_str().unwrap()]).status.success());
    bed.nothing_left("the rest is given back");
}

/// One day of a recurrence is given back in all domains, and the others stay in all.
pub fn a_day_less(bed: &Crossing) {
    let when = ["-w", "tomorrow 09:00..10:00", "--repeat", "daily", "--times", "3", "--forward", "6mbit", "--json"];
    let made = bed.alice(&[&["reserve"], &ENDS[..], &when[..]].concat());
    assert!(made.status.success(), "{}", said(&made));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let id = made["id"].as_str().unwrap();
    // By domain: on how many days each agent on the way has it booked.
    let days = |domain: &str| -> Vec<usize> {
        let steps = |row: ReservationDoc| row.parts[0].steps.len();
        bed.rows(domain).into_iter().map(|(_, row)| steps(row)).collect()
    };
    let all = |count: usize| {
        move || DOMAINS.iter().all(|domain| !days(domain).is_empty() && days(domain).iter().all(|&n| n == count))
    };
    wait_for("three days in all domains", || all(3)().then_some(()));
    let less = bed.alice(&["cancel", id, "--occurrence", "2"]);
    assert!(less.status.success(), "{}", said(&less));
    wait_for("two days in all domains", || all(2)().then_some(()));
    assert!(bed.alice(&["cancel", id]).status.success());
    bed.nothing_left("the other days are given back");
}
