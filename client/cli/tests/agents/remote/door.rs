//! Who comes in from another machine, what they may ask, and what is done at the door by those who may not.

use super::{Far, PORT, now, papers};
use crate::bed::{Bed, SLUICE, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{Answer, CallerDoc, Request, TraceFilter};
use documents::book::{AskDoc, BookAnswer, BookFilter, PartDoc, WhenDoc};
use rpc::client::{Client, Error};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use terms::Span;
use trust::{Authority, CertificateRole};

const HERE: &str = "10.0.0.2";
const RULES: &str =
    "[[rule]]\nname = \"films\"\nwho = [\"alice\", \"main/uid:*\"]\nresource = [\"net/*\"]\nmost = \"8mbit\"\n";

/// A caller's host and an agent's.
fn far() -> Option<Far> {
    let file = |name: &str| {
        let text = format!(
            "name = \"{name}\"\nauth = \"none\"\n[[node]]\nname = \"a\"\nkind = \"host\"\n[[node]]\nname = \"b\"\nkind = \"host\"\n\
             [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10mbit\"\n"
        );
        TestbedFile::parse(Path::new("two.toml"), &text).unwrap()
    };
    let people = ["--requester", "alice", "--requester", "bob", "--auditor", "arno"];
    Far::up(Bed::of(file), &[("b", HERE)], &people, RULES)
}

fn issue(dir: &Path, role: CertificateRole, name: &str, life: Span) {
    let (authority, _) = Authority::open_or_make(dir, "test", now()()).unwrap();
    let hosts = vec![HERE.to_owned()];
    authority
        .issue(&trust::CertificateRequest { role, name: name.to_owned(), hosts, groups: Vec::new(), life }, now()())
        .unwrap();
}

fn kind(said: Result<Answer, Error>) -> String {
    match said {
        Ok(_) => "ok".to_owned(),
        Err(Error::Agent(problem)) => {
            problem.refusal.as_ref().map_or(problem.kind.clone(), |refusal| refusal.reason.clone())
        }
        Err(other) => other.to_string(),
    }
}

fn wish() -> Request {
    let part = PartDoc { resource: "net/to-a".to_owned(), rate: Some(1_000_000), ..PartDoc::default() };
    Request::BookCreate(AskDoc { parts: vec![part], when: WhenDoc::lasting(600.0), ..AskDoc::default() })
}

fn speak_for(name: &str, role: &str) -> Request {
    let who = CallerDoc { name: name.to_owned(), groups: Vec::new(), role: role.to_owned(), token: None };
    Request::SpeakFor { who: Some(who) }
}

fn made(client: &mut Client) -> (String, String) {
    match client.call(wish()).unwrap() {
        Answer::Book(BookAnswer::Reservation(doc)) => (doc.handle, doc.owner),
        other => panic!("{other:?}"),
    }
}

#[test]
fn certificates_say_who_and_the_policy_says_what() {
    let Some(far) = far() else { return };
    issue(&far.trust, CertificateRole::Broker, "other", Span::from_secs(600));
    let client = |who: &str| far.reach("a", HERE, who).unwrap();
    let trace = || Request::Trace { filter: TraceFilter::default() };
    let show = |handle: &str| Request::BookShow { handle: Some(handle.to_owned()), filter: BookFilter::default() };

    let mut alice = client("requester-alice");
    let (handle, owner) = made(&mut alice);
    assert_eq!(owner, "alice");
    for request in [Request::resources(None), Request::Links, Request::Hello] {
        assert_eq!(kind(alice.call(request)), "ok");
    }
    for request in
        [Request::Status, trace(), Request::Stop, Request::ReloadKeys, speak_for("bob", "owner"), Request::Watch]
    {
        assert_eq!(kind(alice.call(request.clone())), "refused", "{request:?}");
    }
    let mut bob = client("requester-bob");
    assert_eq!(kind(bob.call(wish())), "policy", "what no rule is about is denied");
    assert_eq!(kind(bob.call(show(&handle))), "unknown_handle");
    let mut arno = client("auditor-arno");
    assert_eq!((kind(arno.call(show(&handle))), kind(arno.call(Request::Status))), ("ok".into(), "ok".into()));
    assert_eq!(kind(arno.call(Request::BookCancel { handle: handle.clone() })), "refused");
    let mut root = client("operator-root");
    assert_eq!((kind(root.call(Request::Status)), kind(root.call(Request::Stop))), ("ok".into(), "refused".into()));
    let mut agent = client("agent-b");
    assert_eq!(kind(agent.call(Request::resources(None))), "refused");

    // A broker speaks for others if the policy names it, and for nobody else; the owner is whom it speaks for.
    let mut broker = client("broker-main");
    assert_eq!(kind(broker.call(wish())), "refused", "for itself it asks nothing");
    assert_eq!(kind(broker.call(speak_for("alice", "owner"))), "ok");
    assert_eq!((made(&mut broker).1, kind(broker.call(Request::Status))), ("alice".into(), "refused".into()));
    assert_eq!(kind(broker.call(show(&handle))), "ok");
    assert_eq!(kind(broker.call(speak_for("bob", "owner"))), "ok");
    assert_eq!(
        (kind(broker.call(wish())), kind(broker.call(show(&handle)))),
        ("policy".into(), "unknown_handle".into())
    );
    // Root of the broker's machine is not root of this one.
    assert_eq!(kind(broker.call(speak_for("uid:0", "owner"))), "ok");
    assert_eq!(made(&mut broker).1, "main/uid:0");
    let mut other = client("broker-other");
    assert_eq!(kind(other.call(speak_for("alice", "owner"))), "refused", "this broker is not in the policy");
    assert_eq!(kind(other.call(wish())), "refused");
    // The policy is read again: who was taken at their word is so no more.
    let policy = far.bed.home("b").join("policy.toml");
    let text = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, text.replace("\"main\"]", "\"other\"]")).unwrap();
    far.bed.agent("b").signal(1).unwrap();
    wait_for("the policy is read again", || (kind(broker.call(wish())) == "refused").then_some(()));
    assert_eq!((kind(other.call(speak_for("alice", "owner"))), made(&mut other).1), ("ok".into(), "alice".into()));
    the_command_line_says_the_same(&far, &handle);
}

fn the_command_line_says_the_same(far: &Far, handle: &str) {
    let sluice = |who: &str, more: &[&str]| {
        let mut command = std::process::Command::new(SLUICE);
        let papers = far.papers(who);
        command.args(more).env("SLUICE_SOCKET", format!("tls://{HERE}:{PORT}"));
        command.env("SLUICE_CA", papers.ca.unwrap()).env("SLUICE_CERTIFICATE", papers.certificate.unwrap());
        command.env("SLUICE_KEY", papers.key.unwrap());
        let netns = far.bed.netns("a");
        netns.enter_at_exec(&mut command);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, text) = sluice("requester-alice", &["list", "--agent", &format!("tls://{HERE}:{PORT}"), handle]);
    assert!(code == Some(0) && text.contains(handle), "{text}");
    let (code, text) = sluice("requester-alice", &["watch", "--after", "0", "--for", "100ms"]);
    assert!(code == Some(0) && text.contains("created"), "{text}");
    assert_eq!(sluice("requester-alice", &["status"]).0, Some(1));
    let (code, text) = sluice("requester-alice", &["run", "--cpu", "10%", "--", "true"]);
    assert!(code == Some(2) && text.contains("runs here"), "{code:?} {text}");
    assert_eq!(sluice("requester-alice", &["cancel", handle]).0, Some(0));
}

#[test]
fn whoever_shows_nothing_or_the_wrong_thing_stays_outside() {
    let Some(far) = far() else { return };
    let hello = |client: Result<Client, Error>| kind(client.and_then(|mut client| client.call(Request::Hello)));
    assert_eq!(hello(far.reach("a", HERE, "requester-alice")), "ok");
    // Of another authority, though it shows ours; and one who trusts another authority finds no agent.
    let strangers = far.bed.place.join("strangers");
    issue(&strangers, CertificateRole::Operator, "root", Span::from_secs(600));
    let stranger = rpc::tls::Papers { ca: far.papers("x").ca, ..papers(&strangers, "operator-root") };
    assert!(hello(far.reach_with("a", HERE, &stranger)).contains("UnknownCA"));
    assert!(hello(far.reach_with("a", HERE, &papers(&strangers, "operator-root"))).contains("UnknownIssuer"));
    // Run out, and taken back while the connection is open.
    // A busy machine may need more than a second to get that far.
    let briefly = |life: u64| {
        let name = format!("brief{life}");
        issue(&far.trust, CertificateRole::Requester, &name, Span::from_secs(life));
        let mut open = far.reach("a", HERE, &format!("requester-{name}")).ok()?;
        (kind(open.call(Request::Hello)) == "ok").then(|| (open, format!("requester-{name}")))
    };
    let (mut open, brief) = [1, 3, 9].into_iter().find_map(briefly).expect("let in while it is good");
    wait_for("its time is over", || (kind(open.call(Request::Hello)) == "refused").then_some(()));
    // Within the second in which it ends the handshake still takes it, and the agent does not.
    wait_for("nobody lets it in", || {
        let said = hello(far.reach("a", HERE, &brief));
        assert_ne!(said, "ok");
        said.contains("CertificateExpired").then_some(())
    });
    let mut bob = far.reach("a", HERE, "requester-bob").unwrap();
    assert_eq!(kind(bob.call(Request::Hello)), "ok");
    assert!(
        std::process::Command::new(SLUICE)
            .args(["ca", "revoke", "requester/bob", "--dir"])
            .arg(&far.trust)
            .output()
            .unwrap()
            .status
            .success()
    );
    // Also one who says nothing is put out.
    let gone = wait_for("he is put out", || bob.event(Duration::from_secs(5)).err());
    assert!(!gone.to_string().is_empty());
    let said = hello(far.reach("a", HERE, "requester-bob"));
    assert!(said.contains("CertificateRevoked"), "{said}");
    // No certificate, no TLS, half a hello, and an HTTP client of ours.
    let place = format!("{HERE}:{PORT}");
    let netns = far.bed.netns("a");
    let said = |words: &[u8]| {
        let talk = || {
            let mut stream = TcpStream::connect(&place).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.write_all(words).unwrap();
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            all
        };
        netns.run(talk).unwrap()
    };
    for words in
        [&b"{\"id\":1,\"call\":\"hello\"}\n"[..], b"GET / HTTP/1.1\r\n\r\n", &[0x15, 3, 3, 0, 2, 1, 0], &[0xff; 70_000]]
    {
        let answer = said(words);
        assert!(!String::from_utf8_lossy(&answer).contains("node"), "{:?}", String::from_utf8_lossy(&answer));
    }
    let log = far.bed.log("b");
    for words in ["event=caller_refused from=10.0.0.1", "who=requester/alice from=10.0.0.1"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert_eq!(hello(far.reach("a", HERE, "requester-alice")), "ok");
}

#[test]
fn floods_at_the_door_leave_those_who_are_inside_alone() {
    let Some(far) = far() else { return };
    let place = format!("{HERE}:{PORT}");
    let mut alice = far.reach("a", HERE, "requester-alice").unwrap();
    assert_eq!(kind(alice.call(Request::Hello)), "ok");
    // Hellos that never end: more than there is room for. Whoever has a certificate comes in all the same.
    let half: Vec<TcpStream> = far
        .bed
        .netns("a")
        .run(|| {
            let one = || {
                let mut stream = TcpStream::connect(&place).unwrap();
                let _ = stream.write_all(&[0x16, 3, 1, 2]);
                stream
            };
            (0..300).map(|_| one()).collect()
        })
        .unwrap();
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let asked = Instant::now();
        assert_eq!(kind(alice.call(Request::Hello)), "ok");
        slowest = slowest.max(asked.elapsed());
    }
    eprintln!("50 calls beside 300 half hellos: {:?}, the slowest {slowest:?}", begun.elapsed());
    let mut again = far.reach("a", HERE, "requester-alice").unwrap();
    assert_eq!(kind(again.call(Request::Hello)), "ok");
    // More connections of one certificate than it may have (32, two of them above): those beyond are closed before their
    // first answer, and their room comes back. TLS 1.3 lets a client finish before the server has said no, so calls are counted.
    let mut many: Vec<Client> = (0..120).filter_map(|_| far.reach("a", HERE, "requester-alice").ok()).collect();
    let served = many.iter_mut().map(|one| kind(one.call(Request::Hello))).filter(|said| said == "ok").count();
    assert!((20..=30).contains(&served), "{served} were served");
    assert_eq!(kind(alice.call(Request::Hello)), "ok");
    drop((many, half));
    wait_for("there is room again", || far.reach("a", HERE, "requester-alice").ok()?.call(Request::Hello).ok());
    // A line without an end; and the agent's loop is there for its own machine all the while.
    let mut long = far.reach("a", HERE, "requester-alice").unwrap();
    let name = "x".repeat(2 << 20);
    let said = kind(long.call(Request::BookCancel { handle: name }));
    assert!(said == "malformed" || said.contains("went away"), "{said}");
    assert_eq!(kind(far.bed.client("b").call(Request::Hello)), "ok");
}
