//! `sluice login`: afterwards no command needs to name the broker or a certificate. A file of somebody else is not used.

use super::path::Site;
use crate::bed::SLUICE;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BROKER: &str = "https://10.0.0.1:8443";

/// Runs `sluice ...` as the user of this home folder, on glenwood.
fn run(site: &Site, home: &Path, words: &[&str], broker: Option<&str>) -> Output {
    let mut command = Command::new(SLUICE);
    command.args(words).env("HOME", home).env_remove("XDG_CONFIG_HOME");
    for name in ["SLUICE_BROKER", "SLUICE_SOCKET", "SLUICE_CA", "SLUICE_CERTIFICATE", "SLUICE_KEY", "SLUICE_LOGIN"] {
        command.env_remove(name);
    }
    command.envs(broker.map(|broker| ("SLUICE_BROKER", broker)));
    let netns = site.far.bed.netns("glenwood");
    netns.enter_at_exec(&mut command);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn login(site: &Site, home: &Path, who: &str, key_of: &str) -> Output {
    let file = |name: String| site.far.trust.join(name).display().to_string();
    let (certificate, key) = (file(format!("requester-{who}.pem")), file(format!("requester-{key_of}.key")));
    let ca = file("ca.pem".to_owned());
    run(site, home, &["login", BROKER, "--ca", &ca, "--certificate", &certificate, "--certificate-key", &key], None)
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A home folder, and where its login is kept.
fn home(site: &Site) -> (PathBuf, PathBuf) {
    let home = site.far.bed.place.join("home");
    std::fs::create_dir_all(&home).unwrap();
    let file = home.join(".config/sluice/login.toml");
    (home, file)
}

#[test]
fn who_has_logged_in_names_no_broker_and_no_certificate() {
    let Some(site) = Site::up() else { return };
    let (home, file) = home(&site);
    let ends = ["--from", "10.0.0.1", "--to", "10.0.2.2"];
    let reserve = [&["reserve"], &ends[..], &["--forward", "1mbit", "--for", "10m", "--json"]].concat();
    let nobody = run(&site, &home, &reserve, None);
    assert_eq!(nobody.status.code(), Some(3), "{}", said(&nobody));

    // Another's key, or one that others may read: nothing is kept.
    let wrong = login(&site, &home, "alice", "bob");
    assert!(!wrong.status.success() && !file.exists(), "{}", said(&wrong));
    let key = site.far.trust.join("requester-alice.key");
    mode(&key, 0o644);
    let open = login(&site, &home, "alice", "alice");
    assert!(open.status.code() == Some(2) && said(&open).contains("chmod 600") && !file.exists(), "{}", said(&open));
    mode(&key, 0o600);

    let done = login(&site, &home, "alice", "alice");
    assert!(done.status.success() && said(&done).contains("knows you as alice"), "{}", said(&done));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let made = run(&site, &home, &reserve, None);
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{}", said(&made)));
    assert_eq!((&made["owner"], &made["state"]), (&"alice".into(), &"active".into()));
    let shown = run(&site, &home, &["login", "--show", "--json"], None);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("{}", said(&shown)));
    assert_eq!((&shown["me"]["name"], &shown["login"]["broker"]), (&"alice".into(), &BROKER.into()));

    // The command line and the environment say otherwise.
    for (words, broker) in [(&["list", "--broker", "unix:/none"][..], None), (&["list"], Some("unix:/none"))] {
        assert_eq!(run(&site, &home, words, broker).status.code(), Some(3), "{words:?}");
    }
    let status = run(&site, &home, &["status"], None);
    assert!(status.status.code() == Some(3) && said(&status).contains("asked of an agent"), "{}", said(&status));

    let out = run(&site, &home, &["logout"], None);
    assert!(out.status.success() && !file.exists(), "{}", said(&out));
    assert_eq!(run(&site, &home, &reserve, None).status.code(), Some(3));
}

/// Who writes a login file chooses where requests go and as whom: a stranger's is not read, and one that strangers may write
/// is refused.
#[test]
fn a_login_that_others_can_write_is_not_used() {
    let Some(site) = Site::up() else { return };
    let (home, file) = home(&site);
    assert!(login(&site, &home, "alice", "alice").status.success());
    assert!(run(&site, &home, &["list"], None).status.success());
    mode(&file, 0o620);
    let open = run(&site, &home, &["list"], None);
    assert!(open.status.code() == Some(2) && said(&open).contains("others may write it"), "{}", said(&open));
    // To log in again mends it.
    assert!(login(&site, &home, "alice", "alice").status.success());
    std::os::unix::fs::chown(&file, Some(1000), None).unwrap();
    let other = run(&site, &home, &["list"], None);
    assert!(other.status.code() == Some(3) && said(&other).contains("belongs to user 1000"), "{}", said(&other));
    std::os::unix::fs::chown(&file, Some(0), None).unwrap();
    for text in ["broker = \"https://10.0.0.1:8443\"\ncolour = \"red\"\n", "broker = 7\n", "\u{0}"] {
        std::fs::write(&file, text).unwrap();
        let broken = run(&site, &home, &["list"], None);
        assert!(broken.status.code() == Some(2) && said(&broken).contains("login.toml"), "{text:?}: {}", said(&broken));
    }
}
