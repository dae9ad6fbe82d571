//! The authority's folder: made once, added to, never overwritten; keys that only their owner reads.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use terms::{Span, Time};
use trust::{Authority, CertificateRequest, CertificateRole, Error};

const NOW: Time = Time::from_nanos(1_795_219_200_000_000_000);

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("sluice-authority-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    dir
}

fn request(role: CertificateRole, name: &str, hosts: &[&str]) -> CertificateRequest {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    CertificateRequest { role, name: name.to_owned(), hosts, groups: Vec::new(), life: Span::from_secs(86_400) }
}

#[test]
fn made_once_and_added_to() {
    let dir = folder("once");
    let (authority, made) = Authority::open_or_make(&dir, "home", NOW).unwrap();
    assert!(made);
    let alice = authority.issue(&request(CertificateRole::Requester, "alice", &[]), NOW).unwrap();
    let before = fs::read(dir.join("ca.pem")).unwrap();
    let (again, made) = Authority::open_or_make(&dir, "home", NOW).unwrap();
    assert!(!made);
    assert_eq!(fs::read(dir.join("ca.pem")).unwrap(), before);
    again.issue(&request(CertificateRole::Broker, "main", &["localhost", "::1"]), NOW).unwrap();
    let twice = again.issue(&request(CertificateRole::Requester, "alice", &[]), NOW);
    assert!(matches!(twice, Err(Error::Misuse(ref what)) if what.contains("already there")), "{twice:?}");
    let listed: Vec<String> = again.list().unwrap().iter().map(|one| one.identity.to_string()).collect();
    assert_eq!(listed, ["broker/main", "requester/alice"]);
    for key in [dir.join("ca.key"), alice.key] {
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600, "{}", key.display());
    }
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_makes_no_sense_is_said() {
    let dir = folder("sense");
    let (authority, _) = Authority::open_or_make(&dir, "home", NOW).unwrap();
    for (role, name, hosts) in [
        (CertificateRole::Requester, "", &[] as &[&str]),
        (CertificateRole::Requester, "../alice", &[]),
        (CertificateRole::Requester, "a\nb", &[]),
        (CertificateRole::Requester, "-x", &[]),
        (CertificateRole::Broker, "main", &[]),
        (CertificateRole::Broker, "main", &["no host"]),
        (CertificateRole::Agent, "maui", &["*"]),
    ] {
        let result = authority.issue(&request(role, name, hosts), NOW);
        assert!(matches!(result, Err(Error::Misuse(_))), "{name:?} {hosts:?}: {result:?}");
    }
    assert_eq!(authority.list().unwrap(), [], "and nothing was made");
    fs::remove_file(dir.join("ca.key")).unwrap();
    let half = Authority::open_or_make(&dir, "home", NOW).unwrap_err().to_string();
    assert!(half.contains("ca.key") && half.contains("only the machine that holds it"), "{half}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn openssl_agrees() {
    let dir = folder("openssl");
    let (authority, _) = Authority::open_or_make(&dir, "home", NOW).unwrap();
    let alice = authority.issue(&request(CertificateRole::Requester, "alice", &[]), NOW).unwrap();
    let verify = || {
        std::process::Command::new("openssl")
            .args(["verify", "-crl_check", "-purpose", "sslclient", "-attime", "1795219201", "-CAfile"])
            .arg(dir.join("ca.pem"))
            .arg("-CRLfile")
            .arg(authority.revoked_file())
            .arg(&alice.certificate)
            .output()
    };
    let Ok(output) = verify() else {
        eprintln!("SKIPPED: openssl is not installed");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    authority.revoke(CertificateRole::Requester, "alice", NOW).unwrap();
    let output = verify().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("revoked"), "{said}");
    fs::remove_dir_all(dir).unwrap();
}
