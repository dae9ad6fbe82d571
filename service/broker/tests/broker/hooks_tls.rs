//! Webhooks to a receiver that speaks HTTPS under an authority of ours: who is believed, what is signed, what is tried again.

use crate::bed::Bed;
use crate::stub::Stub;
use hmac::{Hmac, KeyInit, Mac};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use sha2::Sha256;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use terms::{Span, Time};
use trust::{Authority, CertificateRequest, CertificateRole, Issued};

const SECRET: &str = "0123456789abcdef0123";

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("sluice-hooks-tls-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Folder(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn now() -> Time {
    linux::clock::Clock::start().now()
}

/// A certificate for a receiver called `host`, by the authority in `dir`, from this time on.
fn issued(dir: &Path, name: &str, host: &str, from: Time) -> Issued {
    let (authority, _) = Authority::open_or_make(dir, dir.file_name().unwrap().to_str().unwrap(), now()).unwrap();
    let hosts = vec![host.to_owned()];
    let request = CertificateRequest {
        role: CertificateRole::Broker,
        name: name.into(),
        hosts,
        groups: Vec::new(),
        life: Span::from_secs(3600),
    };
    authority.issue(&request, from).unwrap()
}

fn serves(issued: &Issued) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(&issued.certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap())
}

/// Heads and bodies that came.
type Came = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A receiver: each connection is served with the next of these certificates, each whole request answered with the next of these
/// statuses; the last of both for ever.
fn receiver(shows: Vec<Arc<ServerConfig>>, answers: Vec<u16>) -> (u16, Came) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let came = Came::default();
    let kept = came.clone();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let config = shows.get(number).unwrap_or_else(|| shows.last().unwrap()).clone();
            let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
            let Some(said) = request(&mut stream) else { continue };
            let mut kept = kept.lock().unwrap();
            let status = answers.get(kept.len()).or(answers.last()).unwrap();
            kept.push(said);
            let _ = stream.write_all(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    (port, came)
}

/// A whole request; `None`: the caller hung up before.
fn request(stream: &mut StreamOwned<ServerConnection, TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut all, mut part) = (Vec::new(), [0; 65_536]);
    loop {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        all.extend_from_slice(&part[..read]);
        let Some(end) = all.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap().trim().parse::<usize>();
        if all.len() >= end + 4 + length.unwrap() {
            return Some((head, all[end + 4..].to_vec()));
        }
    }
}

fn bed(name: &str, folder: &Folder, port: u16) -> Bed {
    let agent = |dir: &Path| vec![Stub::start(&dir.join("here"), "here", &[("cpu", 8.0)], Vec::new())];
    Bed::with(name, agent, |config| {
        config.hooks = vec![format!("https://localhost:{port}/hooks/")];
        config.hooks_ca = folder.0.join("ours/ca.pem");
    })
}

/// A webhook is made and something happens that it is to be told.
fn begin(bed: &Bed, port: u16) -> String {
    let url = format!("https://localhost:{port}/hooks/a");
    bed.alice("POST", "/v1/webhooks", json!({"url": url, "secret": SECRET})).ok(201);
    until("the webhook begins", || (hook(bed)["delivered"] != "").then_some(()));
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 0.1}]});
    bed.alice("POST", "/v1/reservations", wish).ok(201)["id"].as_str().unwrap().to_owned()
}

fn hook(bed: &Bed) -> Value {
    bed.alice("GET", "/v1/webhooks", Value::Null).ok(200)["webhooks"][0].clone()
}

fn until<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn delivered_over_tls_signed_and_again_after_each_failure() {
    let folder = Folder::new("good");
    let ours = serves(&issued(&folder.0.join("ours"), "main", "localhost", now()));
    let strangers = serves(&issued(&folder.0.join("strangers"), "main", "localhost", now()));
    // First somebody else sits there, then the receiver is broken, then it is well.
    let (port, came) = receiver(vec![strangers, ours], vec![500, 204]);
    let bed = bed("hook-tls", &folder, port);
    let id = begin(&bed, port);
    let wrong = until("the first try fails", || {
        hook(&bed)["last_failure"].as_str().map(str::to_owned).filter(|why| why.contains("certificate"))
    });
    assert!(wrong.contains("UnknownIssuer"), "{wrong}");
    until("it is delivered", || (came.lock().unwrap().len() >= 2).then_some(()));
    let came = came.lock().unwrap().clone();
    assert_eq!(came[0].1, came[1].1, "the same again");
    let (head, body) = &came[1];
    let told: Value = serde_json::from_slice(body).unwrap();
    assert_eq!((&told["events"][0]["event"], &told["events"][0]["reservation"]), (&json!("created"), &json!(id)));
    assert!(head.starts_with("post /hooks/a http/1.1") && head.contains(&format!("host: localhost:{port}")), "{head}");
    let signature = head.lines().find_map(|line| line.strip_prefix("sluice-signature: t=")).unwrap();
    let (at, hex) = signature.split_once(",v1=").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    [at.as_bytes(), b".", body].into_iter().for_each(|piece| mac.update(piece));
    let expected: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);
    until("it is known as delivered", || (hook(&bed)["failures"] == 0).then_some(()));
    // What is not on the list is not called, whoever signs for it.
    for url in [
        format!("https://localhost:{port}/other/"),
        "https://localhost:1/hooks/a".into(),
        format!("http://localhost:{port}/hooks/a"),
    ] {
        bed.alice("POST", "/v1/webhooks", json!({"url": url})).problem(403);
    }
}

#[test]
fn a_receiver_with_a_wrong_certificate_hears_nothing() {
    let folder = Folder::new("wrong");
    let ours = folder.0.join("ours");
    let long_ago = now().saturating_sub(Span::from_secs(86_400));
    let cases = [
        ("name", issued(&ours, "other-name", "elsewhere.example", now()), "not valid for name"),
        ("expired", issued(&ours, "expired", "localhost", long_ago), "expired"),
        ("self", issued(&folder.0.join("strangers"), "main", "localhost", now()), "UnknownIssuer"),
    ];
    let waiting = cases.map(|(name, issued, why)| {
        let (port, came) = receiver(vec![serves(&issued)], vec![204]);
        let bed = bed(&format!("hook-{name}"), &folder, port);
        begin(&bed, port);
        (bed, came, why)
    });
    for (bed, came, why) in waiting {
        let said = until("the delivery fails", || hook(&bed)["last_failure"].as_str().map(str::to_owned));
        assert!(said.contains(why), "{said}, not {why}");
        assert!(came.lock().unwrap().is_empty(), "nothing is said to whom nobody knows");
    }
}
