//! Fields of JSON: answers of the agent's socket to calls as they are written here, `--json` of commands, and the REST interface.

use super::compare;
use crate::bed::{Bed, SLUICE, expect, reserve, seed};
use ::bed::file::TestbedFile;
use documents::agent::EventDoc;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Lines as a program in another language writes them; `$` is the handle of a booking.
const CALLS: &[&str] = &[
    r#"{"id":1,"call":"hello"}"#,
    r#"{"id":1,"call":"resources"}"#,
    r#"{"id":1,"call":"links"}"#,
    r#"{"id":1,"call":"routes","to":["10.0.2.2"]}"#,
    r#"{"id":1,"call":"status"}"#,
    r#"{"id":1,"call":"sessions"}"#,
    r#"{"id":1,"call":"senders"}"#,
    r#"{"id":1,"call":"reservations"}"#,
    r#"{"id":1,"call":"counters"}"#,
    r#"{"id":1,"call":"statics"}"#,
    r#"{"id":1,"call":"boomerang_sessions"}"#,
    r#"{"id":1,"call":"show","view":"interfaces"}"#,
    r#"{"id":1,"call":"show","view":"neighbours"}"#,
    r#"{"id":1,"call":"show","view":"senders"}"#,
    r#"{"id":1,"call":"show","view":"requests"}"#,
    r#"{"id":1,"call":"show","view":"reservations"}"#,
    r#"{"id":1,"call":"show","view":"installed"}"#,
    r#"{"id":1,"call":"show","view":"signalling"}"#,
    r#"{"id":1,"call":"may","ask":{"parts":[{"resource":"net/to-glenwood","rate":1000}],"duration_s":60.0}}"#,
    r#"{"id":1,"call":"book_enquire","parts":[{"resource":"net/to-glenwood","rate":1000000}],"duration_s":60.0}"#,
    r#"{"id":1,"call":"book_show"}"#,
    r#"{"id":1,"call":"book_show","handle":"$"}"#,
    r#"{"id":1,"call":"book_history","handle":"$"}"#,
    r#"{"id":1,"call":"book_audit"}"#,
    r#"{"id":1,"call":"book_modify","handle":"$","change":{"label":"second"}}"#,
    r#"{"id":1,"call":"book_cancel","handle":"$"}"#,
    r#"{"id":1,"call":"book_cancel","handle":"nonsense"}"#,
    r#"{"id":1,"call":"nonsense"}"#,
];

/// Commands that print JSON; those of the tables go to the agent in the middle.
const COMMANDS: &[&[&str]] = &[
    &["status"],
    &["list"],
    &["list", "$"],
    &["enquire", "net/to-glenwood=1mbit", "--for", "1m"],
    &["calendar"],
    &["audit"],
    &["rsvp", "interface"],
    &["rsvp", "neighbor"],
    &["rsvp", "sessions"],
    &["rsvp", "sender"],
    &["rsvp", "request"],
    &["rsvp", "reservation"],
    &["rsvp", "installed"],
    &["rsvp", "counters"],
    &["rsvp", "signalling"],
    &["rsvp", "static", "list"],
    &["boomerang", "sessions"],
];

#[test]
fn fields_of_the_socket_and_of_commands_stay() {
    let boomerang = |name: &str| TestbedFile { boomerang: true, ..seed(name, "30s") };
    let Some(bed) = Bed::of(boomerang) else { return };
    let _sender = bed.sender(3_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 3_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let socket = bed.home("maui").join("agent.sock");
    let book = r#"{"id":1,"call":"book_create","parts":[{"resource":"net/to-glenwood","rate":1000000}],"duration_s":600.0,"label":"kept","key":"kept"}"#;
    let created = ask(&socket, book);
    let handle =
        created["ok"]["book"]["reservation"]["handle"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let fixed = r#"{"id":1,"call":"add_static","what":{"kind":"sender","session":{"dst":"10.0.2.2","protocol":17,"dst_port":6000},"sender":{"src":"10.0.1.1","src_port":6000},"tspec":{"r_bps":10000,"b_bytes":2000,"p_bps":null,"m_bytes":64,"M_bytes":1500},"ttl":64}}"#;
    let mut now = BTreeSet::new();
    fields("add_static", &ask(&socket, fixed), &mut now);
    fields("book_create", &created, &mut now);
    for arguments in COMMANDS {
        let arguments: Vec<&str> =
            arguments.iter().map(|word| if *word == "$" { handle.as_str() } else { *word }).collect();
        let output =
            Command::new(SLUICE).args(&arguments).arg("--json").env("SLUICE_SOCKET", &socket).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let name = arguments.join(" ").replace(&handle, "$");
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            fields(&format!("sluice {name}"), &value.unwrap(), &mut now);
        }
    }
    for call in CALLS {
        let name: Value = serde_json::from_str(call).unwrap();
        let name = [name["call"].as_str(), name["view"].as_str()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        fields(&name, &ask(&socket, &call.replace('$', &handle)), &mut now);
    }
    compare("fields", &now);
}

fn ask(socket: &Path, line: &str) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{line}: {error}: {answer}"))
}

/// Each field with the kind of its value: `status .ok.status.agent.node string`.
fn fields(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => return,
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(all) => return all.iter().for_each(|one| fields(&format!("{path}[]"), one, found)),
        Value::Object(all) => {
            return all.iter().for_each(|(key, one)| {
                fields(&format!("{path}{}.{key}", if path.contains(" .") { "" } else { " " }), one, found)
            });
        }
    };
    found.insert(format!("{path}: {kind}"));
}

/// Routes, methods, parameters, statuses and the fields of every schema.
#[test]
fn the_rest_interface_stays() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut now = BTreeSet::new();
    for (route, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = format!("{method} {route}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                now.insert(format!("{name} {}={}", parameter["in"], parameter["name"]));
            }
            for status in operation["responses"].as_object().unwrap().keys() {
                now.insert(format!("{name} {status}"));
            }
        }
    }
    for (schema, shape) in document["components"]["schemas"].as_object().unwrap() {
        names(schema, shape, &mut now);
    }
    compare("rest", &now);
}

/// The names of fields, and the words of enumerations, at any depth of a schema.
fn names(schema: &str, shape: &Value, found: &mut BTreeSet<String>) {
    match shape {
        Value::Object(all) => {
            for (key, value) in all {
                match (key.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        for (field, shape) in properties {
                            found.insert(format!("{schema}.{field}"));
                            names(&format!("{schema}.{field}"), shape, found);
                        }
                    }
                    ("enum", Value::Array(words)) => {
                        found.extend(words.iter().map(|word| format!("{schema} = {word}")));
                    }
                    _ => names(schema, value, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| names(schema, one, found)),
        _ => {}
    }
}
