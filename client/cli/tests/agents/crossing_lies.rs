//! A domain whose broker lies about what it accepts: nobody believes it, and nothing is reserved.

use crate::agents::crossing::Crossing;
use crate::bed::wait_for;
use crate::remote::now;
use linux::netns::Namespace;
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trust::{Speaks, StatementSigner};

/// How an acceptance is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lie {
    /// It is as it should be: the test itself is right.
    None,
    Forged,
    SignedByAnother,
    Expired,
    OtherTransaction,
    Replayed,
    OtherRates,
    OtherBorders,
    LeftOut,
    NotThere,
}

const LIES: [(Lie, &str); 9] = [
    (Lie::Forged, "signature is not that of"),
    (Lie::SignedByAnother, "not believed"),
    (Lie::Expired, "it has expired"),
    (Lie::OtherTransaction, "about another transaction"),
    (Lie::Replayed, "about another transaction"),
    (Lie::OtherRates, "about other rates"),
    (Lie::OtherBorders, "about other borders"),
    (Lie::LeftOut, "not the one that it names"),
    (Lie::NotThere, "there is none"),
];

/// A broker of ESnet that lies: it is asked as the real one is, and says what it likes.
struct Liar {
    lie: Arc<Mutex<Lie>>,
    /// The decisions that it was told.
    told: Arc<Mutex<Vec<Value>>>,
    ended: Arc<AtomicBool>,
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Liar {
    fn start(bed: &Crossing) -> Liar {
        let files = bed.files("esnet", "broker-main", "anl");
        let signer = StatementSigner::open(&files).unwrap();
        let other = StatementSigner::open(&bed.files("lbnl", "broker-main", "lbnl")).unwrap();
        let (config, _) = trust::server(&files, now(), Speaks::Http).unwrap();
        let netns = Namespace::open(&format!("{}-esnet-west", bed.0.name)).unwrap();
        let address = "10.0.3.2:8443".parse().unwrap();
        let listener = netns.run(|| linux::tcp::listen(&address).unwrap()).unwrap();
        let liar = Liar { lie: Arc::new(Mutex::new(Lie::None)), told: Arc::default(), ended: Arc::default() };
        let (lie, told, ended) = (liar.lie.clone(), liar.told.clone(), liar.ended.clone());
        std::thread::spawn(move || {
            let mut before = None;
            while !ended.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
                let Some((head, body)) = request(&mut stream) else { continue };
                let answer = if head.starts_with("POST /v1/legs") {
                    let lie = *lie.lock().unwrap();
                    promise(&body, lie, &signer, &other, &mut before)
                } else {
                    told.lock().unwrap().push(body);
                    json!({"transaction": head.split(['/', ' ']).nth(4).unwrap_or_default()})
                };
                let text = answer.to_string();
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ";
                let _ = stream.write_all(format!("{head}{}\r\n\r\n{text}", text.len()).as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        liar
    }
}

/// Reads a request: head and body.
fn request(stream: &mut impl Read) -> Option<(String, Value)> {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let n = stream.read(&mut piece).ok().filter(|n| *n > 0)?;
        all.extend_from_slice(&piece[..n]);
        let text = String::from_utf8_lossy(&all).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some((head.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null)));
        }
    }
}

fn promise(
    ask: &Value,
    lie: Lie,
    signer: &StatementSigner,
    other: &StatementSigner,
    before: &mut Option<Value>,
) -> Value {
    if let (Lie::Replayed, Some(before)) = (lie, &before) {
        return before.clone();
    }
    let expires = if lie == Lie::Expired { "2020-01-01T00:00:00Z" } else { "2100-01-01T00:00:00Z" };
    let number = if lie == Lie::OtherTransaction { json!("0".repeat(32)) } else { ask["origin"].clone() };
    let rate = ask["leg"]["forward"].as_u64().unwrap() + u64::from(lie == Lie::OtherRates);
    let entry = if lie == Lie::OtherBorders { "lbnl" } else { "anl" };
    let mut said = json!({
        "transaction": number, "domain": "esnet", "reservation": "r", "entry": entry, "forward": rate, "reverse": 0,
        "windows": ask["leg"]["windows"], "expires": expires,
    });
    if lie == Lie::LeftOut {
        (said["exit"], said["next"]) = ("lbnl".into(), "ab".repeat(32).into());
    }
    let mut signed =
        if lie == Lie::SignedByAnother { other } else { signer }.sign("acceptance", &said.to_string()).unwrap();
    if lie == Lie::Forged {
        signed.text = signed.text.replace("\"forward\":", "\"forward\": ");
    }
    let chain: Vec<String> = signed.chain.iter().map(|one| hex(one)).collect();
    let statement = json!({"text": signed.text, "chain": chain, "signature": hex(&signed.signature)});
    let all = if lie == Lie::NotThere { vec![] } else { vec![statement] };
    let answer = json!({"acceptances": all});
    if lie == Lie::None {
        *before = Some(answer.clone());
    }
    answer
}

#[test]
fn a_domain_that_lies_is_not_believed() {
    let Some(bed) = Crossing::up() else { return };
    bed.kill("esnet");
    let liar = Liar::start(&bed);
    // It is believed while it says what it was asked for.
    let made = bed.reserve(&["--forward", "6mbit"]).unwrap();
    assert_eq!(made["legs"][0]["domain"], "esnet");
    wait_for("it hears the decision", || {
        liar.told.lock().unwrap().iter().any(|one| one["commit"].is_u64()).then_some(())
    });
    let reserved = bed.agents("anl");
    assert_eq!(reserved.len(), 3, "{reserved:?}");
    for (lie, word) in LIES {
        *liar.lie.lock().unwrap() = lie;
        liar.told.lock().unwrap().clear();
        let refused = bed.reserve(&["--forward", "1mbit"]);
        let words = refused.expect_err("it is refused");
        assert!(words.contains(word), "{lie:?}: {words}");
        wait_for("it is told to give up", || {
            liar.told.lock().unwrap().iter().any(|one| one["commit"].is_null()).then_some(())
        });
        wait_for("what was held is released", || (bed.agents("anl") == reserved).then_some(()));
    }
    drop(liar);
}
