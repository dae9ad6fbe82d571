//! The header and the library, from a compiled C program (and once more compiled as C++), against an agent in this process.

use crate::built;
use documents::agent::{Call, Request};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

/// What the agent answers; what it is asked must be a call that agents understand.
fn answer(call: &Call, now: &mut f64, state: &mut &str) -> Result<Value, (&'static str, &'static str)> {
    let part = |resource: &str, unit: &str, now: f64| {
        json!({"resource": resource, "unit": unit, "kind": "reserved", "steps": [], "packet_bytes": 1000, "rtt_ms": 100.0,
               "binding": null, "now": now, "enforced": "in_force"})
    };
    match &call.request {
        Request::BookEnquire(ask) => {
            assert_eq!((ask.parts[0].rate, ask.when.duration_s, ask.when.end), (Some(1), Some(3600.0), None));
            return Ok(
                json!({"book": {"enquired": {"accepted": true, "granted": [], "free": [1e7], "kinds": ["reserved"]}}}),
            );
        }
        Request::BookCreate(ask) => {
            assert_eq!((ask.label.as_str(), ask.key.as_str(), ask.hold_s), ("film", "key-1", Some(30.0)));
            assert_eq!(ask.when.start.unwrap().to_string(), "2026-11-21T14:00:00Z");
            assert_eq!(
                (ask.parts[0].rate, ask.parts[0].at_least, ask.parts[1].cores),
                (Some(6_000_000), Some(2e6), Some(0.5))
            );
        }
        Request::BookModify { change, .. } => match change.amounts.first().and_then(|amount| amount.rate) {
            Some(rate) if rate > 10_000_000 => return Err(("refused", "no room for that")),
            Some(rate) => *now = rate as f64,
            None => assert_eq!(change.end.unwrap().to_string(), "forever"),
        },
        Request::BookCommit { .. } => *state = "active",
        Request::BookFollow { after } => {
            assert_eq!(*after, Some(0));
            let event =
                json!({"seq": 1, "at": "2026-11-21T14:00:00Z", "handle": "h1", "owner": "o", "event": "created"});
            return Ok(json!({"book": {"events": {"events": [event], "last": 1, "lost": false}}}));
        }
        Request::BoomerangReserve { ask, .. } => {
            assert!(ask.bound && ask.flow.src_port == 4000);
            return Ok(
                json!({"boomerang": {"sessions": [{"number": 9, "far_end": ask.far_end, "flow": "", "state": "asking",
                "asked": [], "granted": null, "refresh_s": 3, "hops_forward": null, "hops_reverse": null, "silent": 0,
                "transaction": 1}], "blocks": []}}),
            );
        }
        Request::BoomerangRelease { .. } => return Ok(json!("done")),
        Request::BookBind { .. } | Request::BookShow { .. } | Request::BookCancel { .. } => {}
        other => panic!("libsluice asks {other:?}"),
    }
    Ok(json!({"book": {"reservation": {"handle": "h1", "owner": "o", "label": "film", "group": "", "state": state,
        "created": "2026-11-21T14:00:00Z", "version": 1, "parts": [part("net/eth1", "bit/s", *now), part("cpu", "cores", 0.5)]}}}))
}

/// What is told after the answer.
fn told(call: &Call) -> Option<Value> {
    match &call.request {
        Request::BookFollow { .. } => {
            Some(json!({"type": "book", "seq": 2, "at": "2026-11-21T14:00:01Z", "handle": "h1", "owner": "o",
            "event": "share", "part": 0, "from": 8e6, "to": 5e6}))
        }
        Request::BoomerangReserve { ask, .. } if ask.rates[0].forward_bps == 5_000_000 => Some(
            json!({"type": "boomerang", "number": 9, "news": "refused", "available": {"forward_bps": 1_000_000}, "kept": {}}),
        ),
        Request::BoomerangReserve { ask, .. } => Some(json!({"type": "boomerang", "number": 9, "news": "reserved",
            "rates": ask.rates[0], "refresh_s": 3, "hops_forward": null, "hops_reverse": null})),
        _ => None,
    }
}

fn serve(stream: UnixStream) {
    let (mut now, mut state) = (6e6, "held");
    let mut writer = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let call: Call = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let said = match answer(&call, &mut now, &mut state) {
            Ok(ok) => json!({"id": call.id, "ok": ok}),
            Err((kind, message)) => json!({"id": call.id, "error": {"kind": kind, "message": message}}),
        };
        let mut text = format!("{said}\n");
        if let Some(event) = told(&call) {
            text += &format!("{}\n", json!({"at_ns": 1, "event": event}));
        }
        writer.write_all(text.as_bytes()).unwrap();
    }
}

/// The folder of the libraries that this test run has built.
#[test]
fn a_c_program_does_everything() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = std::env::temp_dir().join(format!("sluice-capi-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let socket = dir.join("agent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| drop(std::thread::spawn(|| serve(stream))))
    });
    for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
        let program = dir.join(compiler.replace('+', "p"));
        let compiled = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-x", language])
            .arg(here.join("tests/program.c"))
            .args(["-x", "none", "-I"])
            .arg(here.join("include"))
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(built())
            .arg("-lsluice_c")
            .output();
        let Ok(compiled) = compiled else {
            bench::skipped(format!("{compiler} is not installed"));
            continue;
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let run = Command::new("timeout")
            .arg("30")
            .arg(&program)
            .arg(&socket)
            .env("LD_LIBRARY_PATH", built())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && said.contains("everything answered"), "{compiler}: {said}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// The crates that a package links.
fn linked(package: &str) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    let tree = cargo.args(["tree", "--offline", "-p", package, "-e", "normal", "--prefix", "none"]).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    String::from_utf8(tree.stdout).unwrap()
}

/// The library is loaded into programs of others: it has neither TLS nor an engine nor a driver in it.
#[test]
fn libsluice_carries_no_tls() {
    let is_in = |tree: &str, name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    let tree = linked("sluice-c");
    assert!(is_in(&tree, "sluice-rpc") && is_in(&tree, "sluice-documents"), "{tree}");
    let never =
        ["rustls", "tokio-rustls", "ring", "rcgen", "x509-parser", "sluice-trust", "sluice-booking", "sluice-linux"];
    for name in never {
        assert!(!is_in(&tree, name), "{name} is in libsluice:\n{tree}");
    }
    // The same look finds it where it is.
    assert!(is_in(&linked("sluice-broker"), "rustls"));
}
