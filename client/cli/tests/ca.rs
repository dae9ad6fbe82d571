//! `sluice ca` as a person or a script runs it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn ca(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).arg("ca").args(args).arg("--dir").arg(dir).output().unwrap()
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let output = ca(dir, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(dir: &Path, args: &[&str], code: i32, why: &str) {
    let output = ca(dir, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(why), "{args:?}: {said}");
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn one_command_makes_everything_and_again_only_what_is_missing() {
    let folder = Folder(std::env::temp_dir().join(format!("sluice-ca-{}", std::process::id())));
    let dir = &folder.0;
    let first = json(dir, &[]);
    assert_eq!(first["made"], true);
    let who = |answer: &Value| -> Vec<String> {
        let rows = answer["certificates"].as_array().unwrap();
        rows.iter().map(|row| row["who"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(who(&first), ["broker/main", "operator/root"]);
    let more = json(
        dir,
        &["--requester", "alice", "--requester", "bob", "--agent", "maui=10.0.0.1", "--agent", "maui=maui.example"],
    );
    assert_eq!(more["made"], false);
    let made: Vec<_> = more["certificates"].as_array().unwrap().iter().filter(|row| row["made"] == true).collect();
    assert_eq!(made.len(), 3, "{more}");
    assert_eq!(
        who(&json(dir, &["list"])),
        ["agent/maui", "broker/main", "operator/root", "requester/alice", "requester/bob"]
    );

    assert_eq!(json(dir, &["revoke", "requester/bob"])["new"], true);
    assert_eq!(json(dir, &["revoke", "requester/bob"])["new"], false);
    let listed = json(dir, &["list"]);
    let states: Vec<&str> =
        listed["certificates"].as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["good", "good", "good", "good", "revoked"]);
    let text = String::from_utf8(ca(dir, &["list"]).stdout).unwrap();
    assert!(text.contains("requester/bob") && text.contains("revoked"), "{text}");

    refused(dir, &["--agent", "maui"], 2, "NAME=HOST");
    refused(dir, &["--requester", "../../etc/passwd"], 2, "is no name");
    refused(dir, &["revoke", "bob"], 2, "ROLE/NAME");
    refused(dir, &["revoke", "requester/carol"], 3, "requester-carol.pem");
    refused(&dir.join("nowhere"), &["list"], 3, "No such file");
}
