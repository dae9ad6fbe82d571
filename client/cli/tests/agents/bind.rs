//! Whose packets and processes may be bound, by whom: a real agent, and processes of other users. All reservations are for
//! tomorrow, so that nothing of this machine is touched.

use crate::lone::{Lone, booked};
use documents::agent::Request;
use documents::book::{AskDoc, BindingDoc, FlowDoc, Instant, PartDoc, WhenDoc};
use documents::links::CallerDoc;
use rpc::client::{Client, Error};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use terms::Span;

const POLICY: &str = r#"
[[rule]]
name = "jobs"
who = ["uid:65533", "uid:65532", "alice"]
resource = ["cpu", "net/*"]
[[rule]]
name = "streams"
who = ["bob"]
resource = ["net/*"]
flows = ["10.0.0.0/24 > *:5000-5100 udp"]
"#;

struct Job(Child);

impl Job {
    /// A process of another user.
    fn of(uid: u32) -> Job {
        Job(Command::new("sleep").arg("300").uid(uid).gid(uid).current_dir("/").spawn().unwrap())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn speaks_for(lone: &Lone, name: &str) -> Client {
    let mut client = lone.client();
    let who = CallerDoc { name: name.to_owned(), groups: Vec::new(), role: "owner".to_owned(), token: None };
    client.call(Request::SpeakFor { who: Some(who) }).unwrap();
    client
}

fn tomorrow(part: PartDoc) -> Request {
    let start = linux::clock::Clock::start().now() + Span::from_secs(86_400);
    let (start, duration_s) = (Some(Instant(start)), Some(60.0));
    Request::BookCreate(AskDoc {
        parts: vec![part],
        when: WhenDoc { start, duration_s, ..WhenDoc::default() },
        ..AskDoc::default()
    })
}

fn cpu() -> PartDoc {
    PartDoc { resource: "cpu".into(), cores: Some(0.001), ..PartDoc::default() }
}

fn net() -> PartDoc {
    PartDoc { resource: "net/near".into(), rate: Some(1_000), ..PartDoc::default() }
}

fn bind(client: &mut Client, handle: &str, binding: BindingDoc) -> Result<(), String> {
    let request = Request::BookBind { handle: handle.to_owned(), part: 0, binding: Some(binding) };
    match booked(client, request) {
        Ok(_) => Ok(()),
        Err(Error::Agent(problem)) => {
            let reason = problem.refusal.map(|refusal| refusal.reason).unwrap_or_default();
            Err(format!("{reason}: {}", problem.message))
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn processes_are_their_users_own() {
    let Some(mut lone) = Lone::new("policy = \"policy.toml\"\n[cpu]\ncapacity = \"0.1\"") else { return };
    std::fs::write(lone.place.join("policy.toml"), POLICY).unwrap();
    let agent = lone.start();
    let (own, other) = (Job::of(65_533), Job::of(65_532));
    let pid = |job: &Job| BindingDoc::Pid(job.0.id());
    let mut user = speaks_for(&lone, "uid:65533");
    let handle = booked(&mut user, tomorrow(cpu())).unwrap().handle;
    bind(&mut user, &handle, pid(&own)).expect("one's own");
    bind(&mut user, &handle, BindingDoc::Tid(own.0.id())).expect("a thread of one's own");
    let refused = bind(&mut user, &handle, pid(&other)).unwrap_err();
    assert!(
        refused.starts_with("policy: ") && refused.contains("\"jobs\"") && refused.contains("65532's"),
        "{refused}"
    );
    for number in [std::process::id(), agent.pid, 1, u32::MAX >> 1] {
        for binding in [BindingDoc::Pid(number), BindingDoc::Tid(number)] {
            assert!(bind(&mut user, &handle, binding).is_err(), "{number}");
        }
    }
    assert!(bind(&mut user, &handle, BindingDoc::Cgroup("/".into())).is_err());
    // With the reservation as without it: whose a process is is asked at its creation too.
    let early = PartDoc { binding: Some(pid(&other)), ..cpu() };
    assert!(booked(&mut user, tomorrow(early)).is_err());
    // Nobody from afar has processes here.
    let mut alice = speaks_for(&lone, "alice");
    let afar = booked(&mut alice, tomorrow(cpu())).unwrap().handle;
    assert!(bind(&mut alice, &afar, pid(&own)).unwrap_err().contains("no user of this machine"));
    // Root may bind anybody's, but neither the agent nor process 1.
    let mut root = lone.client();
    bind(&mut root, &handle, pid(&other)).expect("anybody's");
    for (number, what) in [(agent.pid, "the agent and its children"), (1, "process 1")] {
        let refused = bind(&mut root, &handle, BindingDoc::Pid(number)).unwrap_err();
        assert!(refused.contains(what), "{refused}");
    }
    // One that has ended is nobody's.
    let gone = pid(&other);
    drop(other);
    assert!(bind(&mut root, &afar, gone).unwrap_err().contains("it has ended"));
    lone.stop();
}

/// The finding: one bit a second, bound to a protocol alone, cut a link off.
#[test]
fn flows_are_what_the_rule_names_or_two_hosts() {
    let Some(mut lone) = Lone::new("policy = \"policy.toml\"") else { return };
    std::fs::write(lone.place.join("policy.toml"), POLICY).unwrap();
    lone.link_up();
    lone.start();
    let host = |text: &str| Some(text.parse().unwrap());
    let any = FlowDoc::default();
    let hosts = FlowDoc { src: host("10.0.0.1"), dst: host("10.0.2.2"), ..any };
    let mut alice = speaks_for(&lone, "alice");
    let handle = booked(&mut alice, tomorrow(net())).unwrap().handle;
    for protocol in [6, 17] {
        let refused =
            bind(&mut alice, &handle, BindingDoc::Flow(FlowDoc { protocol: Some(protocol), ..any })).unwrap_err();
        assert!(refused.contains("\"jobs\"") && refused.contains("both ends of a flow are hosts"), "{refused}");
        let early = PartDoc { binding: Some(BindingDoc::Flow(FlowDoc { protocol: Some(protocol), ..any })), ..net() };
        assert!(booked(&mut alice, tomorrow(early)).is_err());
    }
    bind(&mut alice, &handle, BindingDoc::Flow(hosts)).expect("two hosts");
    let mut bob = speaks_for(&lone, "bob");
    let stream = booked(&mut bob, tomorrow(net())).unwrap().handle;
    let udp = FlowDoc { src: host("10.0.0.9"), protocol: Some(17), dst_port: Some(5_050), ..any };
    bind(&mut bob, &stream, BindingDoc::Flow(udp)).expect("what the rule names");
    for wrong in [FlowDoc { dst_port: Some(5_101), ..udp }, FlowDoc { src: None, ..udp }, hosts] {
        assert!(bind(&mut bob, &stream, BindingDoc::Flow(wrong)).is_err(), "{wrong:?}");
    }
    let mut root = lone.client();
    bind(&mut root, &handle, BindingDoc::Flow(FlowDoc { protocol: Some(6), ..any })).expect("operators may");
    let rsvp = bind(&mut root, &handle, BindingDoc::Flow(FlowDoc { protocol: Some(46), ..any })).unwrap_err();
    assert!(rsvp.contains("RSVP"), "{rsvp}");
    lone.stop();
}
