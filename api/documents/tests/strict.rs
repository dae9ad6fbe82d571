//! No request takes a field that it does not know, at any depth, also where one document lies in another: a
//! mistyped field is refused and not left out.

use documents::agent::{AuditAsk, BookFilter, CallerDoc, RowFilter, SignalDoc, StaticDoc, TraceFilter};
use documents::book::{AmountDoc, AskDoc, BackgroundDoc, ChangeDoc, FlowDoc, PartDoc, VolumeDoc, WindowDoc};
use documents::rest::{BindWish, Change, PathWish, Ports, WebhookWish, Wish};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

/// Reads the document and writes it again; then puts a field that nobody knows at each place where an object
/// stands, and each time it is refused.
fn strict<T: Serialize + DeserializeOwned + PartialEq + Debug>(whole: Value) {
    let name = std::any::type_name::<T>();
    let read: T = serde_json::from_value(whole.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(serde_json::to_value(&read).unwrap(), whole, "{name}");
    let text = serde_json::to_string(&whole).unwrap();
    assert_eq!(serde_json::from_str::<T>(&text).unwrap(), read, "{name}");
    let mut places = Vec::new();
    objects(&whole, String::new(), &mut places);
    for place in places {
        let mut spoilt = whole.clone();
        spoilt.pointer_mut(&place).unwrap()["colour"] = json!("red");
        let error =
            serde_json::from_str::<T>(&spoilt.to_string()).expect_err(&format!("{name} at {place:?}")).to_string();
        assert!(error.contains("colour"), "{name} at {place:?}: {error}");
    }
}

fn objects(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(at.clone());
            fields.iter().for_each(|(name, field)| objects(field, format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, item)| objects(item, format!("{at}/{number}"), found));
        }
        _ => {}
    }
}

const START: &str = "2026-11-21T14:00:00Z";
const END: &str = "2026-11-21T15:00:00Z";

fn part() -> Value {
    json!({
        "resource": "net/eth1", "rate": 3, "at_least": 1.0, "background": { "weight": 2, "floor": 1.0 },
        "packet_bytes": 64, "rtt_ms": 1.5, "meter": { "kind": "trtcm", "peak": 5 },
        "binding": { "flow": { "src": "10.0.0.1", "dst_port": 80 } },
    })
}

/// Every field of the time of a request.
fn with_time(mut request: Value) -> Value {
    let when = json!({
        "start": START, "end": "forever", "duration_s": 1.5, "earliest": true,
        "volume": { "bytes": 5, "deadline": END }, "windows": [{ "start": START, "end": END }], "may_fail": [0],
    });
    request.as_object_mut().unwrap().extend(when.as_object().unwrap().clone());
    request
}

#[test]
fn requests_to_agents() {
    strict::<AskDoc>(with_time(json!({
        "parts": [part()], "label": "l", "group": "g", "members": ["a"], "hold_s": 3.0, "key": "k",
    })));
    strict::<PartDoc>(json!({ "resource": "cpu", "cores": 0.5 }));
    strict::<BackgroundDoc>(json!({ "weight": 1, "floor": 0.0 }));
    strict::<VolumeDoc>(json!({ "bytes": 1, "deadline": END }));
    strict::<WindowDoc>(json!({ "start": START, "end": END }));
    strict::<FlowDoc>(json!({ "src": "fd00::1", "dst": "fd00::2", "protocol": 6, "src_port": 1, "dst_port": 2 }));
    strict::<ChangeDoc>(json!({
        "amounts": [{ "part": 1, "count": 2 }], "start": START, "end": "forever", "label": "x",
    }));
    strict::<AmountDoc>(json!({ "part": 0, "bytes_per_s": 9 }));
    strict::<BookFilter>(
        json!({ "owner": "a", "states": ["active"], "window": { "start": START, "end": END }, "limit": 4 }),
    );
    strict::<AuditAsk>(json!({ "from": 1, "limit": 2, "handle": "h", "who": "w" }));
    strict::<RowFilter>(json!({ "interface": "eth1", "dst": "10.0.0.1", "dst_port": 1, "limit": 2 }));
    strict::<TraceFilter>(json!({ "interface": "eth1", "direction": "in", "types": [1] }));
    strict::<CallerDoc>(json!({ "name": "alice", "groups": ["g"], "role": "owner" }));
    strict::<SignalDoc>(
        json!({ "how": "send", "src": "10.0.0.1", "dst": "10.0.0.2", "rate": 1, "reverse": 0, "priority": 3 }),
    );
}

/// The sort of a static decides its fields; the documents inside take more, as they always did.
#[test]
fn static_reservations() {
    let sender = json!({
        "kind": "sender", "session": { "dst": "10.0.0.2", "protocol": 17, "dst_port": 5 },
        "sender": { "src": "10.0.0.1", "src_port": 6 },
        "tspec": { "r_bps": 1, "b_bytes": 2, "p_bps": null, "m_bytes": 3, "M_bytes": 4 }, "ttl": 9,
    });
    assert!(serde_json::from_value::<StaticDoc>(sender.clone()).is_ok());
    let mut spoilt = sender;
    spoilt["colour"] = json!("red");
    assert!(serde_json::from_value::<StaticDoc>(spoilt).unwrap_err().to_string().contains("colour"));
}

#[test]
fn requests_of_rest() {
    let path = json!({
        "from": "10.0.0.1", "to": "10.0.0.2", "forward": 5, "reverse": 6, "forward_at_least": 1, "reverse_at_least": 2,
        "background": { "weight": 1, "floor": 0.0 }, "packet_bytes": 64, "rtt_ms": 1.0,
        "flow": { "protocol": 6, "from_port": 1, "to_port": 2 }, "tree": true,
    });
    strict::<Wish>(with_time(json!({ "path": path, "parts": [part()], "label": "l", "hold_s": 3.0 })));
    strict::<Wish>(json!({}));
    strict::<PathWish>(path);
    strict::<Ports>(json!({ "from_port": 1 }));
    strict::<Change>(json!({
        "forward": 1, "reverse": 2, "amounts": [{ "part": 0, "rate": 5 }], "start": START, "end": END, "label": "l",
    }));
    strict::<BindWish>(json!({ "part": 1, "binding": { "flow": { "dst": "10.0.0.2" } } }));
    strict::<BindWish>(json!({ "flow": { "protocol": 17 } }));
    strict::<WebhookWish>(json!({ "url": "https://a/", "reservation": "r", "secret": "0123456789abcdef" }));
    // What only an agent takes is not for REST.
    for field in ["group", "members", "key"] {
        let error = serde_json::from_value::<Wish>(json!({ field: "x" })).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

/// The order of the fields on the wire is as it was before the time became a document of its own.
#[test]
fn the_order_of_fields_is_kept() {
    let text = concat!(
        r#"{"parts":[{"resource":"cpu","cores":0.5}],"start":"2026-11-21T14:00:00Z","duration_s":9.0,"#,
        r#""label":"l","group":"g","hold_s":3.0,"key":"k"}"#
    );
    let ask: AskDoc = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&ask).unwrap(), text);
    let text = r#"{"parts":[{"resource":"cpu"}],"end":"forever","earliest":true,"label":"l","hold_s":3.0}"#;
    assert_eq!(serde_json::to_string(&serde_json::from_str::<Wish>(text).unwrap()).unwrap(), text);
    let text = r#"{"forward":1,"amounts":[{"part":1,"rate":2}],"end":"forever","label":"l"}"#;
    assert_eq!(serde_json::to_string(&serde_json::from_str::<Change>(text).unwrap()).unwrap(), text);
}
