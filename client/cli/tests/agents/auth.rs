//! Signed messages between agents: keys that `sluice up` made, keys that do not fit, keys that change, agents that die.

use crate::bed::{Bed, SENDER, SESSION, SLUICE, expect, refused, reserve, tspec, wait_for};
use documents::agent::{Answer, CounterRow, Direction, EventDoc, Request, RowFilter, Rows, TraceFilter, View};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

fn keys(bed: &Bed, node: &str, interface: &str) -> PathBuf {
    bed.home(node).join(format!("{interface}.keys"))
}

fn counters(bed: &Bed, node: &str) -> Vec<CounterRow> {
    match bed.client(node).call(Request::Counters).unwrap() {
        Answer::Counters(rows) => rows,
        other => panic!("{other:?}"),
    }
}

/// Messages dropped for lack of a good signature.
fn dropped(bed: &Bed, node: &str) -> u64 {
    let rows = counters(bed, node);
    rows.iter().filter(|row| row.name.starts_with("dropped: ")).map(|row| row.received).sum()
}

fn confirmed(bed: &Bed) -> (rpc::client::Client, rpc::client::Client) {
    let sender = bed.sender(2_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 2_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    (sender, receiver)
}

#[test]
fn a_testbed_signs_every_message_with_keys_of_its_own() {
    let Some(bed) = Bed::up("30s") else { return };
    let mut tracer = bed.client("maui");
    let filter = TraceFilter { direction: Some(Direction::Out), ..TraceFilter::default() };
    tracer.call(Request::Trace { filter }).unwrap();
    let _held = confirmed(&bed);
    let mut signed = 0;
    while let Some((_, event)) = tracer.event(Duration::from_millis(200)).unwrap() {
        let EventDoc::Message { bytes, .. } = event else { panic!("{event:?}") };
        let (kind, class) = (&bytes[2..4], &bytes[20..22]);
        if kind != "19" && kind != "1a" {
            assert_eq!(class, "04", "INTEGRITY is the first object of {bytes}");
            signed += 1;
        }
    }
    assert!(signed >= 3, "a Path, a Resv and a ResvConf left maui");
    let secret = |node, interface| fs::read_to_string(keys(&bed, node, interface)).unwrap();
    assert_eq!(secret("maui", "to-yosemite"), secret("yosemite", "to-maui"), "both ends of a link share its key");
    assert_ne!(secret("maui", "to-yosemite"), secret("maui", "to-glenwood"), "and nobody else has it");
    let view = Request::Show { view: View::Interfaces, filter: RowFilter::default() };
    let Answer::Shown(shown) = bed.client("maui").call(view).unwrap() else { panic!() };
    let Rows::Interfaces(rows) = shown.rows else { panic!() };
    let auth: Vec<&str> = rows.iter().map(|row| row.auth.as_str()).collect();
    assert_eq!(auth, ["hmac-sha-256 key 2", "hmac-sha-256 key 3"]);
}

#[test]
fn a_neighbour_with_another_key_is_not_heard_until_the_keys_fit() {
    let Some(bed) = Bed::up("1s") else { return };
    let file = keys(&bed, "maui", "to-yosemite");
    let good = fs::read_to_string(&file).unwrap();
    let (head, _) = good.split_once("secret").unwrap();
    let other = format!("{head}secret = \"{}\"\n", "5a".repeat(32));
    let mut maui = bed.client("maui");

    fs::write(&file, "[[key]]\nid = \n").unwrap();
    let told = refused(maui.call(Request::ReloadKeys));
    assert!(told.message.contains(file.to_str().unwrap()) && told.message.contains("as they were"), "{told:?}");
    drop(confirmed(&bed)); // the old keys are in use
    let senders = |client: &mut rpc::client::Client| match client.call(Request::Senders(Default::default())).unwrap() {
        Answer::Senders(senders) => senders,
        other => panic!("{other:?}"),
    };
    wait_for("torn down", || senders(&mut maui).is_empty().then_some(()));

    fs::write(&file, &other).unwrap();
    maui.call(Request::ReloadKeys).unwrap();
    let before = dropped(&bed, "maui");
    let _sender = bed.sender(2_000_000);
    wait_for("Paths by the old key are dropped", || (dropped(&bed, "maui") > before).then_some(()));
    assert_eq!(senders(&mut maui), [], "and leave nothing");

    fs::write(&file, &good).unwrap();
    bed.agent("maui").signal(1).unwrap(); // SIGHUP
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 2_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    assert!(bed.log("maui").contains("event=keys_reloaded"));
}

#[test]
fn sequence_numbers_go_on_after_kill_9() {
    let Some(bed) = Bed::up("1s") else { return };
    let _held = confirmed(&bed);
    let used = |node: &str| -> u64 {
        let text = fs::read_to_string(bed.home(node).join("state/sequences")).unwrap();
        text.trim().parse().unwrap()
    };
    let before = used("yosemite");
    bed.kill("yosemite");
    bed.start("yosemite");
    wait_for("numbers above those of the life before", || (used("yosemite") > before).then_some(()));
    wait_for("the neighbours take its messages, and it theirs", || {
        let rows = bed.reservations("yosemite");
        (rows.len() == 1 && rows[0].nhop.is_some() && rows[0].installed.as_ref()?.state == "installed").then_some(())
    });
}

#[test]
fn keys_that_others_can_read_start_no_agent() {
    let Some(bed) = Bed::up("30s") else { return };
    let file = keys(&bed, "glenwood", "to-maui");
    bed.kill("glenwood");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    for check in [&["--check"][..], &[]] {
        let mut command = Command::new(SLUICE);
        command.args(["agent", "--config"]).arg(bed.home("glenwood").join("agent.toml")).args(check);
        let netns = bed.netns("glenwood"); // open until the command has been started
        netns.enter_at_exec(&mut command);
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("its mode is 0644") && told.contains("chmod 600"), "{told}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    bed.start("glenwood");
    let mut sender = bed.client("swissvale");
    sender.call(Request::Sender { session: SESSION, sender: SENDER, tspec: tspec(1_000_000), ttl: 64 }).unwrap();
    bed.receiver();
}
