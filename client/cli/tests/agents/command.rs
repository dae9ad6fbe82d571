//! The commands as a person or a script uses them, in their usual place.

use crate::bed::{SLUICE, skipped};
use std::process::{Command, Output};

struct Up(String);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = sluice(&["down", &self.0]);
    }
}

fn sluice(arguments: &[&str]) -> Output {
    Command::new(SLUICE).args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = sluice(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

#[test]
fn up_status_watch_down() {
    if skipped() {
        return;
    }
    let name = format!("atc{}", std::process::id());
    let file = std::env::temp_dir().join(format!("{name}.toml"));
    let seed = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/seed.toml");
    let text = std::fs::read_to_string(seed).unwrap().replace("name = \"seed\"", &format!("name = \"{name}\""));
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let guard = Up(name.clone());
    let up = json(&["up", file, "--json"]);
    assert_eq!(up["testbed"], name.as_str());
    assert_eq!(up["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(up["nodes"][2]["namespace"], format!("{name}-maui"));
    let again = sluice(&["up", file]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains(&format!("sluice down {name}")));
    let node = format!("{name}/maui");
    let status = json(&["status", "--node", &node, "--json"]);
    assert_eq!(status["agent"]["node"], "maui");
    let table = printed(&["status", "--node", &node]);
    assert!(
        table.contains("to-glenwood") && table.contains("100.00mbit") && table.contains("no reservations"),
        "{table}"
    );
    printed(&["watch", "--node", &node, "--for", "100ms", "--json"]);
    let down = printed(&["down", &name]);
    assert!(down.contains("4 processes stopped"), "{down}");
    let gone = sluice(&["status", "--node", &node]);
    assert_eq!(gone.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("no agent listens"), "{gone:?}");
    drop(guard);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_mistake_in_a_file_is_told_with_its_line_and_nothing_is_built() {
    let file = std::env::temp_dir().join(format!("atm{}.toml", std::process::id()));
    std::fs::write(&file, "name = \"x\"\nauth = \"none\"\n[[node]]\nname = \"a\"\nkind = \"hots\"\n").unwrap();
    for command in [&["up"][..], &["agent", "--config"], &["agent", "--check", "--config"]] {
        let output = sluice(&[command, &[file.to_str().unwrap()]].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {told}");
        let place = format!("{}:{}: ", file.display(), if command[0] == "up" { 5 } else { 3 });
        assert!(told.contains(&place) && told.lines().count() == 1, "{command:?}: {told}");
    }
    std::fs::remove_file(&file).unwrap();
}
