//! A broker that dies in the middle of a reservation over its own agent and a partner's: real agents of two domains, the real broker,
//! killed, and a line to the partner that is slow so that the middle lasts, and can be cut.
//!
//! Both are asked at once, and told the decision at once: `b` (ours) hears it first, because the line to `c` (the partner's) is slow.

use super::PORT;
use super::partners::{B, C, OURS, THEIRS, Two, ca, speak_for};
use crate::bed::wait_for;
use broker_service::id::{GroupId, MemberRole};
use documents::agent::{Answer, Request};
use documents::book::{AskDoc, BookAnswer, BookFilter, PartDoc, ReservationDoc, WhenDoc};
use rpc::client::{Client, Error};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use terms::Span;
use trust::{Authority, CertificateRole};

/// Where the line to `c` begins; `c` has a certificate for that address too.
const LINE: &str = "10.0.0.1:4712";
/// How long what the broker says is on its way to `c`. A call takes two of these: for whom it is, and what.
const SLOW: Duration = Duration::from_millis(400);

/// A line from the broker to the partner's agent.
struct Line {
    cut: Arc<AtomicBool>,
}

impl Line {
    fn lay(two: &Two) -> Line {
        let netns = two.bed.netns("a");
        let listener = netns.run(|| TcpListener::bind(LINE).unwrap()).unwrap();
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = cut.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = netns.run(|| TcpStream::connect((C, PORT))).unwrap() else { return };
                let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let (one, other) = (is_cut.clone(), is_cut.clone());
                std::thread::spawn(move || relay(near, far, SLOW, &one));
                std::thread::spawn(move || relay(far_again, near_again, Duration::ZERO, &other));
            }
        });
        Line { cut }
    }

    /// Nothing comes through any more, also of what is on its way.
    fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, slow: Duration, cut: &AtomicBool) {
    let mut some = [0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut some) {
        std::thread::sleep(slow);
        if cut.load(Ordering::SeqCst) || to.write_all(&some[..n]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// What an agent keeps.
fn kept(two: &Two, node: &str, filter: &BookFilter) -> Vec<ReservationDoc> {
    match list(&mut two.bed.client(node), filter) {
        Ok(rows) => rows,
        Err(error) => panic!("{error}"),
    }
}

fn list(client: &mut Client, filter: &BookFilter) -> Result<Vec<ReservationDoc>, Error> {
    match client.call(Request::BookShow { handle: None, filter: filter.clone() })? {
        Answer::Book(BookAnswer::Reservations { rows, .. }) => Ok(rows),
        other => panic!("{other:?}"),
    }
}

/// The states of it at both, as `NODE STATE`; without more words, of what is not over.
fn states(two: &Two, filter: &BookFilter) -> Vec<String> {
    let of = |node: &str| kept(two, node, filter).iter().map(|row| format!("{node} {}", row.state)).collect::<Vec<_>>();
    [of("b"), of("c")].concat()
}

fn live(two: &Two) -> Vec<String> {
    states(two, &BookFilter::default())
}

fn give_back(two: &Two) {
    for node in ["b", "c"] {
        for row in kept(two, node, &BookFilter::default()) {
            two.bed.client(node).call(Request::BookCancel { handle: row.handle }).unwrap();
        }
    }
}

/// A reservation both ways between our host and the partner's, by our broker.
fn reserve(two: &Two) -> (u16, Value) {
    let path = json!({"from": "10.0.0.1", "to": C, "forward": 2_000_000, "reverse": 1_000_000});
    two.ask("requester-alice", "POST", "/v1/reservations", &json!({"path": path, "duration_s": 600}))
}

const MIDDLE: [&str; 3] = ["b active", "b active", "c promised"];
const WHOLE: [&str; 3] = ["b active", "b active", "c active"];

/// Reserves until the middle, and calls `then` there.
fn in_the_middle(two: &Two, line: &Line, then: impl FnOnce()) {
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| reserve(two));
        wait_for("our agent has booked", || (live(two) == MIDDLE).then_some(()));
        line.cut(true);
        then();
        let _ = asked.join();
    });
    assert_eq!(live(two), MIDDLE);
    line.cut(false);
}

/// Killed between the commit at its own agent and the partner's. Meanwhile the owner's certificate is taken back, and no rule allows
/// anything any more: what was decided is carried out.
#[test]
fn a_broker_that_is_killed_before_a_partners_agent_has_booked() {
    let Some(two) = Two::up("10mbit", &[], &[("gw", "ours", "[\"broker\"]")], OURS, THEIRS) else { return };
    let line = Line::lay(&two);
    let broker = two.broker_over(LINE);
    in_the_middle(&two, &line, || broker.kill());
    ca(&two.dir("ours"), &["revoke", "requester/alice"]);
    for (node, policy) in [("b", "brokers = [\"main\"]\n"), ("c", "brokers = [\"gw/main\"]\n")] {
        std::fs::write(two.bed.home(node).join("policy.toml"), policy).unwrap();
        two.bed.agent(node).signal(1).unwrap();
        wait_for("the rules are read", || two.bed.log(node).contains("policy.toml read again").then_some(()));
    }
    let _broker = two.broker_over(LINE);
    wait_for("the next broker says what was decided", || (live(&two) == WHOLE).then_some(()));
    assert!(kept(&two, "c", &BookFilter::default()).iter().all(|row| row.owner == "gw/alice"), "it is hers");
}

/// The line is cut in the middle; then the broker is killed, or goes on.
#[test]
fn a_decision_that_waits_for_a_partners_agent() {
    let Some(two) = Two::up("10mbit", &[], &[("gw", "ours", "[\"broker\"]")], OURS, THEIRS) else { return };
    let line = Line::lay(&two);
    let mut broker = Some(two.broker_over(LINE));
    for killed in [false, true] {
        in_the_middle(&two, &line, || {
            if killed {
                broker.take().unwrap().kill();
            }
        });
        if killed {
            broker = Some(two.broker_over(LINE));
        }
        wait_for("it is booked there too", || (live(&two) == WHOLE).then_some(()));
        give_back(&two);
    }
}

/// What a broker asks of one agent for somebody: held for so long, as a member of a group at both, or of none.
fn hold(two: &Two, at: &str, by: (&str, &str), group: Option<&GroupId>, hold_s: f64) -> String {
    let mut client = two.reach(at, by.0).unwrap();
    speak_for(&mut client, by.1).unwrap();
    let resource = if at == B { "net/to-c" } else { "net/to-b" };
    let part = PartDoc { resource: resource.into(), rate: Some(1_000), ..PartDoc::default() };
    let members = ["b", "c"].map(|agent| GroupId::member_name(agent, MemberRole::Alone)).to_vec();
    let ask = AskDoc {
        parts: vec![part],
        when: WhenDoc::lasting(600.0),
        hold_s: Some(hold_s),
        group: group.map(|group| group.member(MemberRole::Alone)).unwrap_or_default(),
        members: if group.is_some() { members } else { Vec::new() },
        ..AskDoc::default()
    };
    match client.call(Request::BookCreate(ask)).unwrap() {
        Answer::Book(BookAnswer::Reservation(doc)) => doc.handle,
        other => panic!("{other:?}"),
    }
}

/// What a broker may ask about a reservation as itself, and what it may not.
fn calls(handle: &str) -> [(&'static str, bool, Value); 8] {
    let of = |call: &str| json!({"call": call, "handle": handle});
    [
        ("show", true, of("book_show")),
        ("history", true, of("book_history")),
        ("modify", false, json!({"call": "book_modify", "handle": handle, "change": {"label": "mine"}})),
        ("bind", false, json!({"call": "book_bind", "handle": handle, "binding": null})),
        ("follow", false, json!({"call": "book_follow", "after": 0})),
        ("commit by policy", false, of("book_commit")),
        ("commit", true, json!({"call": "book_commit", "handle": handle, "decided": true})),
        ("cancel", true, of("book_cancel")),
    ]
}

/// At the partner's agent our broker finishes as itself what our people have over several agents. It gets nothing else, and no other
/// broker gets that: not one of ours that the policy does not name, not a stranger's that it names, not the agent's own domain's.
#[test]
fn whose_halves_a_broker_may_finish_at_a_partners_agent() {
    let both = "[\"broker\", \"requester\"]";
    let policy = "brokers = [\"gw/main\", \"hep/main\", \"main\"]\n[[rule]]\nname = \"guests\"\n\
                  who = [\"gw/alice\", \"hep/carol\", \"alice\"]\nresource = [\"net/*\"]\n";
    let Some(two) = Two::up("10mbit", &[], &[("gw", "ours", both), ("hep", "hep", both)], OURS, policy) else { return };
    let (authority, _) = Authority::open_or_make(&two.dir("ours"), "test", super::now()()).unwrap();
    let (hosts, life) = (vec!["10.0.0.1".to_owned()], Span::from_secs(3_600));
    let other = trust::CertificateRequest {
        role: CertificateRole::Broker,
        name: "other".to_owned(),
        hosts,
        groups: Vec::new(),
        life,
    };
    authority.issue(&other, super::now()()).unwrap();
    let (mut cases, mut surprises) = (0, Vec::new());
    for by in ["ours/broker-main", "ours/broker-other", "hep/broker-main", "anl/broker-main", "hep/requester-carol"] {
        let group = || GroupId::draw(None).unwrap();
        let whole = hold(&two, C, ("ours/broker-main", "alice"), Some(&group()), 300.0);
        let lone = hold(&two, C, ("ours/broker-main", "alice"), None, 300.0);
        let theirs = hold(&two, C, ("anl/broker-main", "alice"), Some(&group()), 300.0);
        let strangers = hold(&two, C, ("hep/broker-main", "carol"), Some(&group()), 300.0);
        let mut client = two.reach(C, by).unwrap();
        let mut see = |what: String, expected: bool, came: bool| {
            cases += 1;
            if expected != came {
                surprises.push(format!("{by}, {what}: expected {expected}, came {came}"));
            }
        };
        let seen = list(&mut client, &broker_service::gather::all()).unwrap_or_default();
        for (of, handle) in [("whole", &whole), ("lone", &lone), ("theirs", &theirs), ("strangers", &strangers)] {
            let own = matches!(
                (by, of),
                ("ours/broker-main", "whole") | ("anl/broker-main", "theirs") | ("hep/broker-main", "strangers")
            );
            // Of her own a requester may what requesters may; that is not asked here.
            if (by, of) == ("hep/requester-carol", "strangers") {
                continue;
            }
            see(format!("list {of}"), own, seen.iter().any(|row| row.handle == *handle));
            for (name, ends, call) in calls(handle) {
                let follows = name == "follow" && by == "hep/requester-carol"; // what is hers
                let said = client.call(serde_json::from_value(call).unwrap());
                see(format!("{name} {of}"), (own && ends) || follows, said.is_ok());
            }
        }
        give_back(&two);
    }
    println!("{{\"cases\":{cases},\"surprises\":{}}}", surprises.len());
    assert!(surprises.is_empty(), "{surprises:#?}");
}
