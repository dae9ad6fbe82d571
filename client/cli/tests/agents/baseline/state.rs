//! A state folder that the build of the baseline wrote: this build starts on a copy of it and has every booking and static in it.

use super::kept;
use crate::lone::Lone;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// What an agent with both has in its file.
const MORE: &str = "policy = \"policy.toml\"\n";
const POLICY: &str = "[[rule]]\nname = \"links\"\nwho = [\"uid:*\"]\nresource = [\"net/*\"]\ntogether = \"50mbit\"\n\
                      [[rule]]\nname = \"rest\"\nwho = [\"uid:*\"]\n";

#[test]
fn a_state_folder_of_the_baseline_is_taken_over() {
    let Some(mut lone) = Lone::new(MORE) else { return };
    lone.link_up();
    std::fs::write(lone.place.join("policy.toml"), POLICY).unwrap();
    let file = lone.place.join("agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("rate = \"100mbit\"", "rate = \"100mbit\"\npremium = \"40mbit\"")).unwrap();
    let archive = kept().join("state.tgz");
    if std::env::var_os("SLUICE_KEEP").is_some() && !archive.exists() {
        write(&mut lone, &archive);
    }
    let _ = std::fs::remove_dir_all(lone.state());
    tar(&[OsStr::new("-xzf"), archive.as_os_str(), OsStr::new("-C"), lone.place.as_os_str()]);
    lone.start();
    assert_eq!(found(&lone), serde_json::from_str::<Value>(&read(&archive.with_extension("json"))).unwrap());
    // It goes on in the same journal: a change of an old booking and a new one.
    lone.printed(&["modify", handle(&lone, "background").as_str(), "--label", "changed"]);
    lone.printed(&["reserve", "licence/solver=1", "--for", "1h", "--label", "new"]);
    lone.stop();
    lone.start();
    assert!(labels(&lone).is_superset(&["changed", "new", "running"].map(str::to_owned).into()));
    lone.stop();
}

/// Bookings that run, come later, are given back and are held, and a static; with their marks in a file beside them.
fn write(lone: &mut Lone, archive: &Path) {
    lone.start();
    for arguments in [
        "net/near=3mbit --for ever --label running --key first --to 10.9.0.2:5001 --source 10.9.0.1 --protocol udp",
        "licence/solver=7 net/near=1mbit:500kbit -w 2027-10-01T10:00:00Z..2027-10-01T12:00:00Z --label later",
        "licence/solver=2 --for ever --label gone",
        "net/near=1mbit --for ever --background 3 --label background",
        "licence/solver=1 -w 2027-10-04T09:00:00Z..2027-10-04T10:00:00Z --repeat weekly --times 3 --zone UTC --label series",
    ] {
        let words = arguments.split(' ');
        lone.printed(&["reserve"].into_iter().chain(words).collect::<Vec<_>>());
    }
    lone.printed(&["cancel", handle(lone, "gone").as_str()]);
    let fixed = "rsvp static sender add --to 10.9.0.2:6000 --from 10.9.0.1:6000 --rate 100kbit";
    lone.printed(&fixed.split(' ').collect::<Vec<_>>());
    let found = found(lone);
    lone.stop();
    // What only takes room, and what names a process, is not kept; pins are no files.
    let without = ["--exclude=ballast", "--exclude=agent.lock", "--exclude=bpf"].map(OsStr::new);
    let (pack, into, place) = (OsStr::new("-czf"), OsStr::new("-C"), lone.place.as_os_str());
    tar(&[&[pack, archive.as_os_str()][..], &without, &[into, place, OsStr::new("state")]].concat());
    std::fs::write(archive.with_extension("json"), serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
}

/// What must be the same in every later build: of each booking that is not over yet, and of each static.
fn found(lone: &Lone) -> Value {
    let now = jiff::Timestamp::now().to_string();
    let ends = |row: &Value| {
        row["parts"][0]["steps"].as_array().and_then(|steps| steps.last()?["end"].as_str().map(str::to_owned))
    };
    let lasting = |row: &&Value| ends(row).is_none_or(|end| end > now);
    let booking = |row: &Value| {
        let part = |part: &Value| json!([part["resource"], part["unit"], part["kind"], part["steps"], part["binding"]]);
        let parts: Vec<Value> = row["parts"].as_array().unwrap().iter().map(part).collect();
        json!({"handle": row["handle"], "owner": row["owner"], "label": row["label"], "created": row["created"], "parts": parts})
    };
    let bookings: Vec<Value> = rows(lone).iter().filter(lasting).map(booking).collect();
    let statics: Value = serde_json::from_str(&lone.printed(&["rsvp", "static", "list", "--json"])).unwrap();
    let fixed = statics.as_array().map(|rows| rows.iter().map(|row| row["what"].clone()).collect::<Vec<_>>());
    json!({"bookings": bookings, "statics": fixed})
}

fn rows(lone: &Lone) -> Vec<Value> {
    let all: Value = serde_json::from_str(&lone.printed(&["list", "--all", "--json"])).unwrap();
    let rows = all.as_array().or_else(|| all["reservations"].as_array());
    rows.unwrap_or_else(|| panic!("{all}")).clone()
}

fn labels(lone: &Lone) -> std::collections::BTreeSet<String> {
    rows(lone).iter().filter_map(|row| Some(row["label"].as_str()?.to_owned())).collect()
}

fn handle(lone: &Lone, label: &str) -> String {
    let rows = rows(lone);
    let row = rows.iter().find(|row| row["label"] == label).unwrap_or_else(|| panic!("{label}: {rows:#?}"));
    row["handle"].as_str().unwrap().to_owned()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn tar(arguments: &[&OsStr]) {
    let output = Command::new("tar").args(arguments).output().unwrap();
    assert!(output.status.success(), "tar {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
