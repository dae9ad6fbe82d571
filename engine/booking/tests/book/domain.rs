//! What a broker that speaks for nobody may bring to an end: what people of its own domain have over several agents.

use crate::world::{Driver, window};
use crate::{ask, granted};
use booking::io::{CallId, CallResult, Matching};
use booking::refusal::RefusalReason;
use booking::{BookingRequest, Call, Input, Reply};
use terms::Span;
use terms::book::{Caller, CallerRole, Handle};

/// Whose reservations there are, and whether a broker made them: it names the members.
const MADE: [(&str, bool); 6] = [
    ("alice", true),
    ("main/uid:0", true),
    ("anl/alice", true),
    ("anl/main/uid:0", true),
    ("anl/bob", false),
    ("hep/carol", true),
];

fn as_broker(driver: &mut Driver, name: &str, call: Call) -> Reply {
    let caller = Caller { name: name.to_owned(), groups: Vec::new(), role: CallerRole::Broker, token: None };
    let id = CallId(1 << 40);
    driver.tell(Input::Call { id, caller: Box::new(caller), call });
    driver.replies.remove(&id).expect("an answer")
}

/// All that are held, by owner.
fn held(driver: &mut Driver) -> Vec<(&'static str, Handle)> {
    let one = |(owner, by_broker): (&'static str, bool)| {
        let members = if by_broker { vec!["b.f".to_owned(), "c.f".to_owned()] } else { Vec::new() };
        let ask = BookingRequest { group: format!("g-{owner}.f"), members, ..ask("net/eth1", 1, window(10, 20)) };
        let hold = Some(Span::from_secs(60));
        (owner, granted(driver.call(owner, Call::Create { ask, hold, key: String::new() })).handle)
    };
    MADE.map(one).to_vec()
}

#[test]
fn each_broker_finishes_what_its_domain_has() {
    for (broker, own) in [
        ("main", &["alice", "main/uid:0"][..]),
        ("anl/main", &["anl/alice", "anl/main/uid:0"]),
        ("anl/alice", &["anl/alice", "anl/main/uid:0"]),
        ("hep/main", &["hep/carol"]),
        ("cern/main", &[]),
    ] {
        let mut d = Driver::new(&[("net/eth1", 100)]);
        let all = held(&mut d);
        let Ok(CallResult::List { views, more: false }) = as_broker(&mut d, broker, Call::List(Matching::default()))
        else {
            panic!("no list")
        };
        assert_eq!(views.iter().map(|view| &*view.owner).collect::<Vec<_>>(), own, "{broker}");
        let Ok(CallResult::Events { events, .. }) = as_broker(&mut d, broker, Call::Since { seq: 0, most: 0 }) else {
            panic!("no events")
        };
        assert!(events.is_empty(), "{broker} follows nothing");
        for (owner, handle) in all {
            let calls = [
                Call::Show(handle),
                Call::History(handle, 0),
                Call::Decided(handle),
                Call::Decided(handle),
                Call::Cancel(handle),
                Call::Cancel(handle),
            ];
            for call in calls {
                let said = as_broker(&mut d, broker, call.clone());
                let unknown = matches!(&said, Err(refusal) if matches!(refusal.why, RefusalReason::UnknownHandle));
                let mine = own.contains(&owner);
                assert!(if mine { said.is_ok() } else { unknown }, "{broker}, {owner}: {call:?} came {said:?}");
            }
        }
        d.check();
    }
}
