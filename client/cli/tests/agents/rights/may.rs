//! What `may` says of signalled reservations, at the agent, at a broker and on the command line, is what comes of signalling.

use super::broker::House;
use super::who::{self, HERE, Who};
use crate::bed::SLUICE;
use crate::remote::Far;
use documents::agent::{Answer, CallerDoc, MayDoc, Request};
use documents::event::Direction;
use rpc::client::{Client, Error};
use serde_json::{Value, json};
use std::process::Command;

fn read(request: Value) -> Request {
    serde_json::from_value(request.clone()).unwrap_or_else(|error| panic!("{request}: {error}"))
}

fn may(client: &mut Client, who: Option<&str>, signal: &Value) -> MayDoc {
    let mut request = json!({"call": "may", "signal": signal});
    if let Some(name) = who {
        request["who"] = json!({"name": name, "role": "owner"});
    }
    match client.call(read(request)).unwrap() {
        Answer::May(doc) => doc,
        other => panic!("{other:?}"),
    }
}

/// What is asked about, and the calls that signal it.
fn signals(priority: u16) -> Vec<(Value, Vec<Value>)> {
    let tspec = json!({"r_bps": 10_000, "b_bytes": 2_000, "p_bps": null, "m_bytes": 64, "M_bytes": 1_500});
    let sender = |src: &str| json!({"src": src, "src_port": 5004});
    let to = |dst: &str| json!({"dst": dst, "protocol": 17, "dst_port": 5004});
    let urgent = json!({"call": "priority", "priority": {"preempting": 1, "defending": priority}});
    let send = |dst: &str| {
        let call = json!({"call": "sender", "session": to(dst), "sender": sender(HERE), "tspec": tspec, "ttl": 64});
        (json!({"how": "send", "src": HERE, "dst": dst, "rate": 10_000}), vec![call])
    };
    let reserve = json!({
        "call": "reserve", "session": to(HERE), "style": "ff", "senders": [sender("10.0.0.1")],
        "flowspecs": [{"service": "controlled-load", "tspec": tspec}], "confirm": false,
    });
    let flow = json!({"src": HERE, "dst": "10.0.0.1", "protocol": 17, "src_port": 5000, "dst_port": 5000});
    let rates = json!([{"forward_bps": 10_000, "reverse_bps": 5_000}]);
    let echo = json!({"call": "boomerang_reserve", "ask": {"far_end": "10.0.0.1", "flow": flow, "rates": rates}});
    let urgently = json!({"how": "send", "src": HERE, "dst": "10.0.0.1", "rate": 10_000, "priority": priority});
    vec![
        send("10.0.0.1"),
        send("192.0.2.1"),
        (json!({"how": "receive", "src": "10.0.0.1", "dst": HERE, "rate": 10_000}), vec![reserve]),
        (json!({"how": "boomerang", "src": HERE, "dst": "10.0.0.1", "rate": 10_000, "reverse": 5_000}), vec![echo]),
        (urgently, vec![urgent, send("10.0.0.1").1.remove(0)]),
    ]
}

#[test]
fn what_may_says_of_signals_is_what_comes_of_them() {
    let Some(far) = who::bed() else { return };
    let mut root = Who::User(0, Vec::new()).reach(&far);
    // The rule of 65003 is about packets to the hosts of the link, and allows a priority of 5.
    for (uid, priority, allowed) in [
        (0, 9, [true, true, true, true, true]),
        (65_003, 5, [true, false, true, true, true]),
        (65_003, 6, [true, false, true, true, false]),
        (65_002, 5, [false; 5]),
    ] {
        let user = Who::User(uid, Vec::new());
        for (n, (signal, calls)) in signals(priority).into_iter().enumerate() {
            let mut client = user.reach(&far);
            let said = may(&mut client, None, &signal);
            assert_eq!(said.allowed(), allowed[n], "uid {uid}: {signal}: {said:?}");
            let told = may(&mut root, Some(&user.name()), &signal);
            let verdicts = |doc: &MayDoc| -> Vec<(bool, String)> {
                doc.parts.iter().map(|part| (part.allowed, part.rule.clone())).collect()
            };
            assert_eq!(verdicts(&told), verdicts(&said), "somebody else asks");
            let came = calls.into_iter().try_for_each(|call| client.call(read(call)).map(drop));
            match came {
                Ok(()) => assert!(allowed[n], "uid {uid}: {signal}"),
                Err(Error::Agent(problem)) => {
                    assert!(!allowed[n] && problem.kind == "refused", "uid {uid}: {signal}: {problem:?}");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    let mut member = Who::User(65_003, Vec::new()).reach(&far);
    let both = may(&mut member, None, &signals(6)[3].0);
    let rows: Vec<(&str, Option<Direction>, &str)> =
        both.parts.iter().map(|row| (&*row.resource, row.way, &*row.rule)).collect();
    assert_eq!(rows, [("net/to-a", Some(Direction::Out), "calls"), ("net/to-a", Some(Direction::In), "calls")]);
    let no = may(&mut member, None, &signals(6)[4].0);
    assert_eq!(no.parts[0].why.as_deref(), Some("the priority 6 is asked, 5 is allowed"));
    // By certificate nobody signals; and what nobody can signal has no answer.
    let alice = may(&mut root, Some("alice"), &signals(5)[0].0);
    let why = alice.parts[0].why.clone().unwrap_or_default();
    assert!(why.contains("on the agent's own socket; you are alice"), "{why}");
    for wrong in [
        json!({"how": "send", "dst": "10.0.0.1", "rate": 1}),
        json!({"how": "send", "src": HERE, "dst": "10.0.0.0/24", "rate": 1}),
        json!({"how": "receive", "dst": HERE, "rate": 1, "reverse": 1}),
        json!({"how": "boomerang", "src": HERE, "dst": "10.0.0.1"}),
    ] {
        match root.call(read(json!({"call": "may", "signal": wrong}))) {
            Err(Error::Agent(problem)) => assert_eq!(problem.kind, "misuse", "{wrong}"),
            other => panic!("{wrong}: {other:?}"),
        }
    }
    assert!(matches!(root.call(Request::SpeakFor { who: None::<CallerDoc> }), Ok(Answer::Done)));
    a_broker_and_the_command_line_say_the_same(&far);
}

fn a_broker_and_the_command_line_say_the_same(far: &Far) {
    let broker = House::start(far);
    let ask = |query: &str| broker.send(&Who::User(0, Vec::new()), "GET", &format!("/v1/may?{query}"), &Value::Null);
    let query = format!("signal=send&src={HERE}&dst=10.0.0.1&rate=10000&priority=5&who=uid:65003");
    let (status, said) = ask(&query);
    assert_eq!((status, &said["parts"][0]["allowed"]), (200, &json!(true)), "{said}");
    assert_eq!((&said["parts"][0]["resource"], &said["parts"][0]["rule"]), (&json!("b/net/to-a"), &json!("calls")));
    assert_eq!(ask(&query.replace("priority=5", "priority=6")).1["parts"][0]["allowed"], false);
    for wrong in ["signal=shout&dst=10.0.0.1", "signal=send&src=10.0.0.2", "signal=send&dst=10.0.0.1&resource=b/cpu"] {
        assert_eq!(ask(wrong).0, 400, "{wrong}");
    }

    let mut command = Command::new(SLUICE);
    command.args(["may", "uid:65003", "--signal", "send", "--from", HERE, "--to", "10.0.0.1", "--forward", "10kbit"]);
    command.args(["--priority", "6", "--socket"]).arg(far.bed.home("b").join("agent.sock"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = "net/to-a out: no, by the rule \"calls\": the priority 6 is asked, 5 is allowed";
    assert!(output.status.code() == Some(1) && said.contains(expected), "{output:?}");
}
