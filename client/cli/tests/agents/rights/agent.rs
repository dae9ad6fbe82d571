//! Calls of the agent's socket, each as it is really asked.

use super::who::{Strength, Who};
use super::{Came, Row};
use crate::remote::Far;
use booking::policy::rights::Call;
use documents::agent::{Answer, BookAnswer, Request};
use rpc::client::{Client, Error};
use serde_json::{Value, json};

/// Asks for what a row says; `None`: it cannot be asked like that.
pub fn cell(far: &Far, row: &Row, who: &Who, strength: Strength) -> Option<Came> {
    let mut client = who.reach(far);
    let mut asked = |request: Value| ask(&mut client, request);
    let call = row.call.name();
    Some(match row.call {
        Call::Show => asked(json!({"call": call, "view": "interfaces"})),
        Call::May if row.whose == "own" => asked(json!({"call": call, "ask": wish("licence/solver")})),
        Call::May => {
            let other = json!({"name": "somebody", "role": "owner"});
            asked(json!({"call": call, "who": other, "ask": wish("licence/solver")}))
        }
        Call::Sender | Call::SenderGone => {
            let mut request = json!({"call": call, "session": session("10.0.0.1"), "sender": sender(super::who::HERE)});
            if row.call == Call::Sender {
                (request["tspec"], request["ttl"]) = (tspec(), 64.into());
            }
            asked(request)
        }
        Call::Receiver => asked(json!({"call": call, "session": session(super::who::HERE)})),
        Call::Reserve => asked(json!({
            "call": call, "session": session(super::who::HERE), "style": "ff", "senders": [sender("10.0.0.1")],
            "flowspecs": [{"service": "controlled-load", "tspec": tspec()}], "confirm": false,
        })),
        Call::Priority => asked(json!({"call": call, "priority": {"preempting": 3, "defending": 5}})),
        Call::BoomerangReserve | Call::BoomerangRelease => return boomerang(far, row, who),
        Call::BookEnquire | Call::BookCreate => {
            let resource = if strength == Strength::Ruled { "licence/solver" } else { "licence/other" };
            let mut request = wish(resource);
            request["call"] = call.into();
            asked(request)
        }
        Call::BookCommit
        | Call::BookModify
        | Call::BookBind
        | Call::BookCancel
        | Call::BookShow
        | Call::BookHistory
        | Call::BookFollow => return booked(far, row, who, strength),
        Call::BookPrepare | Call::BookDecide | Call::BookPromises => return Some(coordinated(far, row.call, who)),
        Call::BookResolve => {
            // A promise of somebody's to the broker of this machine.
            let made = promise(&mut Who::User(0, Vec::new()).reach(far), "here");
            let Ok(Answer::Book(BookAnswer::Reservation(doc))) = made else { return Some(came(made)) };
            asked(json!({"call": call, "handle": doc.handle, "commit": false}))
        }
        Call::Routes => asked(json!({"call": call, "to": ["10.0.0.1"]})),
        Call::ShowToken => asked(json!({"call": call, "token": null})),
        Call::SpeakFor => asked(json!({"call": call, "who": {"name": "zoe", "role": "owner"}})),
        Call::AddStatic => asked(json!({"call": call, "what": fixed()})),
        Call::RemoveStatic => {
            let mut root = Who::User(0, Vec::new()).reach(far);
            let number = match root.call(read(json!({"call": "add_static", "what": fixed()}))).unwrap() {
                Answer::Statics(rows) => rows[0].number,
                other => panic!("{other:?}"),
            };
            let came = asked(json!({"call": call, "number": number}));
            if came != Came::Allowed {
                root.call(Request::RemoveStatic { number }).unwrap();
            }
            came
        }
        _ => asked(json!({"call": call})),
    })
}

/// Of a session of Boomerang: their own, or somebody else's.
fn boomerang(far: &Far, row: &Row, who: &Who) -> Option<Came> {
    let call = row.call.name();
    let flow = json!({"src": null, "dst": null, "protocol": 17, "src_port": 5000, "dst_port": 5000});
    let new = json!({"far_end": "10.0.0.1", "flow": flow, "rates": [{"forward_bps": 10_000}]});
    let here = matches!(who, Who::User(..));
    let make = |client: &mut Client| match client.call(read(json!({"call": "boomerang_reserve", "ask": new}))) {
        Ok(Answer::Boomerang(doc)) => doc.sessions[0].number,
        other => panic!("{who:?}: {other:?}"),
    };
    let mut client = who.reach(far);
    if (row.call, row.whose) == (Call::BoomerangReserve, "own") {
        let came = ask(&mut client, json!({"call": call, "ask": new}));
        if came == Came::Allowed {
            // And instead of what they have.
            let number = make(&mut client);
            return Some(ask(&mut client, json!({"call": call, "ask": new, "number": number})));
        }
        return Some(came);
    }
    let mut other = Who::other().reach(far);
    let number = match row.whose {
        "own" if here => make(&mut who.reach(far)), // a connection of theirs that has ended
        "own" => 1,
        _ => make(&mut other),
    };
    let request = match row.call {
        Call::BoomerangReserve => json!({"call": call, "ask": new, "number": number}),
        _ => json!({"call": call, "number": number}),
    };
    Some(ask(&mut client, request))
}

/// Of a reservation: their own, or somebody else's.
fn booked(far: &Far, row: &Row, who: &Who, strength: Strength) -> Option<Came> {
    let call = row.call.name();
    let resource = if row.call == Call::BookBind { "net/to-a" } else { "licence/solver" };
    let (own, ruled) = (row.whose == "own", strength == Strength::Ruled);
    let ends = matches!(row.call, Call::BookCommit | Call::BookCancel | Call::BookShow | Call::BookHistory);
    if own && ends && matches!(who, Who::Certificate(papers) if papers.starts_with("broker-")) {
        return Some(as_broker(far, row, who));
    }
    // Whom no rule allows anything has nothing of their own; and what a rule says no to at a commit is a change of rules.
    if !ruled && (row.call == Call::BookCommit || matches!(who, Who::User(65_002, _)) || who.name() == "bob") {
        return None;
    }
    let hold = (row.call == Call::BookCommit).then_some(60);
    let mut client = who.reach(far);
    let reads = matches!(row.call, Call::BookShow | Call::BookHistory | Call::BookFollow);
    let handle = match own.then(|| create(&mut client, resource, hold)) {
        Some(Ok(handle)) => handle,
        // Who may not reserve has nothing: what they may read is empty then.
        Some(Err(Came::Refused(_))) if reads && row.call != Call::BookHistory => {
            let mut request = json!({"call": call});
            if row.call == Call::BookFollow {
                request["after"] = 0.into();
            }
            return Some(ask(&mut client, request));
        }
        Some(Err(Came::Refused(_))) if reads => return None,
        Some(Err(Came::Refused(_))) | None => create(&mut Who::other().reach(far), resource, hold).unwrap(),
        Some(Err(odd)) => return Some(odd),
    };
    Some(match row.call {
        Call::BookModify => {
            let count = if ruled { 2 } else { 6 }; // the rule's most is 5
            let change = json!({"amounts": [{"count": count}]});
            ask(&mut client, json!({"call": call, "handle": handle, "change": change}))
        }
        Call::BookBind => {
            // Both ends hosts, or one: operators may bind that without a rule.
            let operator = matches!(who, Who::User(0 | 65_001, _)) || who.name() == "root";
            if !ruled && operator {
                return None;
            }
            let dst = if ruled { json!("10.0.0.1") } else { Value::Null };
            let flow = json!({"flow": {"src": super::who::HERE, "dst": dst, "protocol": 17, "dst_port": port()}});
            ask(&mut client, json!({"call": call, "handle": handle, "binding": flow}))
        }
        Call::BookFollow => match client.call(read(json!({"call": call, "after": 0}))) {
            Ok(Answer::Book(BookAnswer::Events(events))) => {
                let seen = events.events.iter().any(|event| event.handle == handle);
                if seen { Came::Allowed } else { Came::Refused("it is not among what they see".into()) }
            }
            other => came(other),
        },
        _ => ask(&mut client, json!({"call": call, "handle": handle})),
    })
}

/// As a coordinator under one's own name, on a connection that speaks for somebody whom rules allow it.
fn coordinated(far: &Far, call: Call, who: &Who) -> Came {
    let mut client = who.reach(far);
    let broker = matches!(who, Who::Certificate(papers) if papers.starts_with("broker-"));
    if broker && call == Call::BookPrepare {
        let alice = json!({"call": "speak_for", "who": {"name": "alice", "role": "owner"}});
        if let Came::Refused(why) = ask(&mut client, alice) {
            // One that may not speak for others may not ask in its own name either.
            let own = came(promise(&mut client, &who.name()));
            return if matches!(own, Came::Refused(_)) { own } else { Came::Odd(why) };
        }
    }
    let name = who.name();
    let epoch = json!({"number": 1, "decisions": 0, "nonce": 5});
    match call {
        Call::BookPrepare => {
            let made = promise(&mut client, &name);
            if let Ok(Answer::Book(BookAnswer::Reservation(doc))) = &made {
                let promise = doc.promise.as_ref().expect("it is promised");
                let decision = json!({"call": "book_decide", "transaction": promise.transaction, "member": 0,
                    "coordinator": name, "epoch": epoch, "commit": 1});
                assert_eq!(ask(&mut client, decision), Came::Allowed);
            }
            // In another's name nobody may who comes from another machine.
            let other = promise(&mut client, "somebody");
            assert!(matches!(who, Who::User(0, _)) || matches!(came(other), Came::Refused(_)), "{who:?}");
            came(made)
        }
        Call::BookDecide => ask(
            &mut client,
            json!({"call": "book_decide", "transaction": "0".repeat(32), "member": 0, "coordinator": name,
                "epoch": epoch, "commit": null}),
        ),
        _ => ask(&mut client, json!({"call": "book_promises", "coordinator": name, "epoch": epoch})),
    }
}

/// Asks for the promise of one licence, in a transaction of its own.
fn promise(client: &mut Client, coordinator: &str) -> Result<Answer, Error> {
    let change = json!({"create": wish("licence/solver")});
    client.call(read(json!({
        "call": "book_prepare", "transaction": format!("{:032x}", port()), "member": 0, "coordinator": coordinator,
        "epoch": {"number": 1, "decisions": 0, "nonce": 5}, "serial": 1, "floor": 1, "change": change,
    })))
}

/// What a broker has of its own: what one made for people of its domain, with the names of all members.
fn as_broker(far: &Far, row: &Row, who: &Who) -> Came {
    let mut request = wish("licence/solver");
    (request["call"], request["hold_s"]) = ("book_create".into(), 60.into());
    (request["group"], request["members"]) = ("group.a".into(), json!(["b.a", "c.a"]));
    let made = Who::Through("alice", "owner").reach(far).call(read(request));
    let Ok(Answer::Book(BookAnswer::Reservation(doc))) = made else { return came(made) };
    let mut request = json!({"call": row.call.name(), "handle": doc.handle});
    if row.call == Call::BookCommit {
        request["decided"] = true.into();
    }
    ask(&mut who.reach(far), request)
}

/// Another port each time, so that no flow is somebody else's already.
pub fn port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn create(client: &mut Client, resource: &str, hold: Option<u32>) -> Result<String, Came> {
    let mut request = wish(resource);
    (request["call"], request["hold_s"]) = ("book_create".into(), hold.into());
    match client.call(read(request)) {
        Ok(Answer::Book(BookAnswer::Reservation(doc))) => Ok(doc.handle),
        other => Err(came(other)),
    }
}

/// One piece, or 1,000 bit/s, for ten minutes.
fn wish(resource: &str) -> Value {
    let part = match resource.starts_with("net/") {
        true => json!({"resource": resource, "rate": 1_000}),
        false => json!({"resource": resource, "count": 1}),
    };
    json!({"parts": [part], "duration_s": 600.0})
}

fn session(dst: &str) -> Value {
    json!({"dst": dst, "protocol": 17, "dst_port": 5004})
}

fn sender(src: &str) -> Value {
    json!({"src": src, "src_port": 5004})
}

fn tspec() -> Value {
    json!({"r_bps": 10_000, "b_bytes": 2_000, "p_bps": null, "m_bytes": 64, "M_bytes": 1_500})
}

fn fixed() -> Value {
    let session = json!({"dst": "10.0.0.1", "protocol": 17, "dst_port": port()});
    json!({"kind": "sender", "session": session, "sender": sender(super::who::HERE), "tspec": tspec(), "ttl": 64})
}

fn read(request: Value) -> Request {
    serde_json::from_value(request.clone()).unwrap_or_else(|error| panic!("{request}: {error}"))
}

fn ask(client: &mut Client, request: Value) -> Came {
    came(client.call(read(request)))
}

fn came(said: Result<Answer, Error>) -> Came {
    match said {
        Ok(Answer::Book(BookAnswer::Enquired(doc))) if !doc.accepted => {
            Came::Refused(doc.refusal.map(|refusal| refusal.message).unwrap_or_default())
        }
        Ok(_) => Came::Allowed,
        Err(Error::Agent(problem)) => {
            let reason = problem.refusal.as_ref().map_or(problem.kind.as_str(), |refusal| refusal.reason.as_str());
            match reason {
                "refused" | "policy" | "unknown_handle" => Came::Refused(problem.message),
                _ => Came::Odd(format!("{reason}: {}", problem.message)),
            }
        }
        Err(other) => Came::Odd(other.to_string()),
    }
}
