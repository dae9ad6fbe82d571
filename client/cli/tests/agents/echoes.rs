//! Boomerang on the command line, and the fast path's bookkeeping as its user sees it.

use crate::bed::{Bed, SLUICE, seed, wait_for};
use crate::boomerang::{FAR, ask, block, blocks, boomerang, line_with, reserve, reserved, sluice};
use documents::agent::{BoomerangAsk, BoomerangNews, EventDoc, Request};
use documents::boomerang::{ClassifierDoc, RatesDoc};
use linux::process::ProcessId;
use std::process::{Command, Output, Stdio};

fn pairs(rates: &[(u32, u32)]) -> Vec<RatesDoc> {
    rates.iter().map(|&(forward_bps, reverse_bps)| RatesDoc { forward_bps, reverse_bps }).collect()
}

/// Of another flow than `ask`.
fn another(rates: &[(u32, u32)]) -> BoomerangAsk {
    let ask = ask(0, 0);
    BoomerangAsk { rates: pairs(rates), flow: ClassifierDoc { src_port: 7, ..ask.flow }, ..ask }
}

fn change(client: &mut rpc::client::Client, number: u64, rates: &[(u32, u32)]) -> BoomerangNews {
    client.call(Request::BoomerangReserve { ask: another(rates), number: Some(number) }).unwrap();
    let is = |event: &EventDoc| {
        let EventDoc::Boomerang { news, .. } = event else { return false };
        matches!(news, BoomerangNews::Reserved { .. } | BoomerangNews::Refused { .. })
    };
    match crate::bed::expect(client, "how it went", is).1 {
        EventDoc::Boomerang { news, .. } => news,
        _ => unreachable!(),
    }
}

/// On a link that has no room for it twice: a vector of rates is asked for as one pair from then on, which the program would
/// decide; and a session of the program's comes back as a vector.
#[test]
fn a_session_whose_messages_change_form_is_held_once() {
    let Some(bed) = line_with("fast_path = true\n") else { return };
    let held = |node: &str, oif: &str, rate: u64, by: &str| {
        let there: Vec<_> = blocks(&bed, node).into_iter().filter(|b| b.oif == oif && b.asked_bps > 0).collect();
        assert_eq!(there.iter().map(|b| (b.asked_bps, b.by.as_str())).collect::<Vec<_>>(), [(rate, by)], "{there:#?}");
    };
    let mut client = bed.client("a");
    let number = reserve(&mut client, BoomerangAsk { rates: pairs(&[(20_000_000, 0), (6_000_000, 0)]), ..ask(0, 0) });
    let BoomerangNews::Reserved { rates, .. } = reserved(&mut client) else { unreachable!() };
    assert_eq!(rates.forward_bps, 6_000_000);
    held("r1", "to-old", 6_000_000, "agent");
    // Said again in the other form, several times.
    let transaction = || boomerang(&bed, "a").sessions[0].transaction;
    for _ in 0..3 {
        let before = transaction();
        wait_for("a refresh", || (transaction() != before).then_some(()));
    }
    let session = boomerang(&bed, "a").sessions.remove(0);
    assert_eq!((session.state.as_str(), session.granted.map(|got| got.forward_bps)), ("held", Some(6_000_000)));
    held("r1", "to-old", 6_000_000, "agent");
    held("r2", "to-b", 6_000_000, "agent");
    client.call(Request::BoomerangRelease { number }).unwrap();
    wait_for("nothing is left", || ["a", "r1", "r2"].iter().all(|n| blocks(&bed, n).is_empty()).then_some(()));
    // The other way round: what the program has is the engine's from the message that only the engine understands.
    let number = reserve(&mut client, another(&[(6_000_000, 1_000_000)]));
    reserved(&mut client);
    held("r1", "to-old", 6_000_000, "kernel");
    let news = change(&mut client, number, &[(20_000_000, 1_000_000), (8_000_000, 1_000_000)]);
    assert!(matches!(news, BoomerangNews::Reserved { rates, .. } if rates.forward_bps == 8_000_000), "{news:?}");
    held("r1", "to-old", 8_000_000, "agent");
    held("r1", "to-a", 1_000_000, "agent");
    // Refused in a form that only the engine understands: what was there stays.
    let news = change(&mut client, number, &[(20_000_000, 1_000_000), (15_000_000, 0)]);
    assert!(matches!(news, BoomerangNews::Refused { kept, .. } if kept.forward_bps == 8_000_000), "{news:?}");
    wait_for("what was there stays", || (block(&bed, "r1", "to-old")?.asked_bps == 8_000_000).then_some(()));
    client.call(Request::BoomerangRelease { number }).unwrap();
    wait_for("nothing is left", || ["a", "r1", "r2"].iter().all(|n| blocks(&bed, n).is_empty()).then_some(()));
}

/// Asked, admitted, installed, measured of what the kernel decided, among all other reservations too.
#[test]
fn the_fast_path_shows_all_four_words() {
    let Some(bed) = line_with("fast_path = true\n") else { return };
    let mut client = bed.client("a");
    reserve(&mut client, ask(3_000_000, 1_000_000));
    reserved(&mut client);
    let held = block(&bed, "r1", "to-old").expect("it is there");
    assert_eq!((held.by.as_str(), held.asked_bps), ("kernel", 3_000_000));
    let installed = held.installed.expect("the kernel's own table");
    assert_eq!((installed.state.as_str(), installed.class.as_str(), installed.shared), ("installed", "5c1c:4", true));
    assert_eq!((installed.bucket_bps, installed.bucket_bytes), (3_000_000, 37_500));
    assert!(held.admitted_wire_bps.is_some_and(|wire| wire > 3_000_000) && held.measured.is_some());
    let rows = bed.reservations("r1");
    assert_eq!(rows.len(), 2, "{rows:#?}");
    let row = rows.iter().find(|row| row.oif.as_deref() == Some("to-old")).expect("forward");
    assert_eq!((row.session.dst, row.admitted_wire_bps), (FAR, held.admitted_wire_bps));
    assert!(row.installed.is_some() && row.measured.is_some(), "{row:#?}");
    let text = String::from_utf8(sluice(&bed, "r1", &["boomerang", "sessions", "--most", "1"]).stdout).unwrap();
    assert!(text.contains("kernel") && text.contains("and 1 more session blocks"), "{text}");
}

fn said(output: &Output) -> (Option<i32>, String) {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (output.status.code(), out + &err)
}

/// Whoever does not get an answer leaves nothing behind.
#[test]
fn who_stops_waiting_has_reserved_nothing() {
    let Some(bed) = line_with("") else { return };
    // A far end that answers no ping.
    bed.run("b", "sysctl", &["-qw", "net.ipv4.icmp_echo_ignore_all=1"]);
    let arguments = ["boomerang", "reserve", "--to", "10.0.3.2:5004", "--forward", "1mbit"];
    let (code, words) = said(&sluice(&bed, "a", &[&arguments[..], &["--for", "300ms"]].concat()));
    assert!(code == Some(1) && words.contains("no answer in this time: given back"), "{code:?} {words}");
    let none = || (blocks(&bed, "r1").is_empty() && boomerang(&bed, "a").sessions.is_empty()).then_some(());
    wait_for("it is given back", none);
    let mut child = Command::new(SLUICE)
        .args(arguments)
        .arg("--socket")
        .arg(bed.home("a").join("agent.sock"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("it is asked", || (boomerang(&bed, "a").sessions.len() == 1).then_some(()));
    ProcessId::of(child.id()).unwrap().signal(2).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_for("it is given back", none);
    let nowhere = said(&sluice(&bed, "a", &["boomerang", "reserve", "--to", "192.0.2.9:1", "--forward", "1mbit"]));
    assert_eq!(nowhere.0, Some(1), "{nowhere:?}");
}

/// Agents without the section say so, whatever is asked.
#[test]
fn an_agent_without_boomerang_says_so() {
    let Some(bed) = Bed::of(|name| seed(name, "30s")) else { return };
    let node = &bed.nodes[0];
    for arguments in [
        &["boomerang", "reserve", "--to", "10.0.2.2:5004", "--forward", "1mbit"][..],
        &["boomerang", "release", "1"],
        &["boomerang", "sessions"],
        &["boomerang", "trace", "--for", "1s"],
    ] {
        let (code, words) = said(&sluice(&bed, node, arguments));
        assert!(code == Some(2) && words.contains("does not speak Boomerang"), "{arguments:?}: {code:?} {words}");
    }
}
