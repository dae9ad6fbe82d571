//! The Python package, from its built wheel, over the Unix socket and over TLS; every call of it. And its generated files.

use crate::bed::Bed;
use std::path::{Path, PathBuf};
use std::process::Command;
use terms::Span;
use trust::{Authority, CertificateRequest, CertificateRole, Files};

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The built wheel; `None`: there is no Python.
pub fn wheel(out: &Path) -> Option<PathBuf> {
    let built = Command::new("python3").arg(folder("client/python/build.py")).arg(out).output();
    let Ok(built) = built else {
        bench::skipped("python3 is not installed");
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(PathBuf::from(String::from_utf8(built.stdout).unwrap().trim()))
}

fn calls(wheel: &Path, args: &[&Path]) {
    let script = folder("client/python/tests/calls.py");
    let run = Command::new("timeout")
        .args(["300", "python3", "-W", "error"])
        .arg(script)
        .args(args)
        .env("PYTHONPATH", wheel)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("all calls answered"), "{}: {said}", run.status);
}

/// A test of the package that needs no broker; it ends by saying that all is well.
fn alone(script: &str, well: &str) {
    if Command::new("python3").arg("--version").output().is_err() {
        return bench::skipped("python3 is not installed");
    }
    let script = folder("client/python/tests").join(script);
    let run = Command::new("timeout").args(["300", "python3", "-W", "error"]).arg(script).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains(well), "{said}");
}

/// `generate.py --check` on this tree; and on a copy of it the generator follows each change of its sources.
#[test]
fn the_generated_files_are_fresh() {
    alone("generated.py", "the generated files are fresh");
}

#[test]
fn both_halves_read_answers_of_every_form() {
    alone("answers.py", "answers of every form were read");
}

/// The order of requests of a co-reservation, by the table that the library for C is held to as well.
#[test]
fn strategies_are_those_of_the_table() {
    alone("strategies.py", "the table of strategies holds");
}

#[test]
fn what_sluice_login_keeps_is_read_and_a_strangers_is_not() {
    alone("login.py", "logins are read");
}

#[test]
fn every_call_over_the_unix_socket() {
    let bed = Bed::five("python");
    let Some(wheel) = wheel(&bed.dir) else { return };
    calls(&wheel, &[&bed.config.socket]);
}

#[test]
fn every_call_over_mutual_tls() {
    let clock = linux::clock::Clock::start();
    let dir = std::env::temp_dir().join(format!("sluice-rest-python-trust-{}", std::process::id()));
    let (authority, _) = Authority::open_or_make(&dir, "test", clock.now()).unwrap();
    let mut made = Vec::new();
    for (role, name) in [(CertificateRole::Broker, "second"), (CertificateRole::Operator, "olga")] {
        let request = CertificateRequest {
            role,
            name: name.into(),
            hosts: vec!["localhost".into()],
            groups: Vec::new(),
            life: Span::from_secs(3600),
        };
        made.push(authority.issue(&request, clock.now()).unwrap());
    }
    let agents = Bed::five("python-tls");
    let mut config = agents.config.clone();
    // The bed's own broker goes on: two of one name would take each other for an older start of the same.
    config.name = "second".into();
    config.socket = agents.dir.join("tls.sock");
    config.state = agents.dir.join("second");
    config.plain = Vec::new();
    config.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let (certificate, key) = (made[0].certificate.clone(), made[0].key.clone());
    config.tls = Some(Files {
        ca: dir.join("ca.pem"),
        certificate,
        key,
        revoked: Some(authority.revoked_file()),
        partners: Vec::new(),
    });
    let running = agents.runtime.block_on(broker_service::start(&config)).unwrap();
    if let Some(wheel) = wheel(&agents.dir) {
        let place = format!("https://localhost:{}", running.listens[0].port());
        calls(&wheel, &[Path::new(&place), &dir.join("ca.pem"), &made[1].certificate, &made[1].key]);
    }
    agents.runtime.block_on(running.stop());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_wheel_is_the_same_each_time_and_installs() {
    let out = std::env::temp_dir().join(format!("sluice-wheel-{}", std::process::id()));
    let Some(first) = wheel(&out.join("a")) else { return };
    let second = wheel(&out.join("b")).unwrap();
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(second).unwrap());
    let target = out.join("site");
    let pip = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"])
        .arg(&target)
        .arg(&first)
        .output();
    match pip {
        Ok(pip) if pip.status.success() => assert!(target.join("sluice/py.typed").exists()),
        _ => bench::skipped("pip is not installed"),
    }
    std::fs::remove_dir_all(out).unwrap();
}
