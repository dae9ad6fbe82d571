//! `sluice profile bench` as a user calls it: the three limits of a node that is only known by its address.

use profile::line::{ProfiledAgent, ProfiledLine};
use profile::packets;
use std::process::{Command, Output};
use terms::Rate;

fn black_box(line: &ProfiledLine, more: &[&str]) -> Output {
    let from = format!("{}:up", line.upstream.name());
    let to = format!("{}:up", line.downstream.name());
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["profile", "bench", "--target", "10.79.1.1", "--from", &from, "--to", &to, "--quick"]);
    command.args(more).output().unwrap()
}

#[test]
fn a_node_is_measured_by_its_address_alone() {
    if let Err(error) = bed::Bed::possible() {
        return bench::skipped(error);
    }
    let line = ProfiledLine::new().unwrap();
    let nobody = black_box(&line, &["--sessions", "32"]);
    let complaint = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && complaint.contains("does not speak RSVP"), "{complaint}");
    let _agent = ProfiledAgent::start(&line, Rate::from_mbps(1_000), packets::CONFIG).unwrap();
    for protocol in ["rsvp", "boomerang"] {
        let out = black_box(&line, &["--sessions", "32", "--protocol", protocol, "--json"]);
        let (said, progress) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{progress}");
        let found: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
        assert!(found["burst"]["most"].as_u64().unwrap() >= 16, "{found}");
        assert!(found["load"]["most"].as_u64().unwrap() >= 16, "{found}");
        assert_eq!(found["sessions"]["most"], 32, "{found}");
        assert!(found["unloaded"][0]["us"]["median"].as_f64().unwrap() > 0.5, "{found}");
        assert!(progress.lines().any(|line| line.starts_with("maximum signalling load: 16 ")), "{progress}");
    }
    let text = black_box(&line, &["--sessions", "32", "--silent"]);
    let said = String::from_utf8_lossy(&text.stdout);
    assert!(said.contains("maximum session load") && text.stderr.is_empty(), "{said}");
}
