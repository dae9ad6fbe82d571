//! Boomerang between agents on this kernel: real pings that carry reservations, past a router and to a host that know nothing of it.

use crate::bed::{Bed, PATIENCE, SLUICE, expect, refused, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{Answer, BoomerangAsk, BoomerangDoc, BoomerangNews, EventDoc, Request};
use documents::boomerang::{BoomerangBlock, ClassifierDoc, MaskDoc, RatesDoc};
use rpc::client::Client;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};

const NEAR: IpAddr = ip([10, 0, 0, 1]);
pub const FAR: IpAddr = ip([10, 0, 3, 2]);
pub const PORT: u16 = 5_004;

pub const fn ip(v4: [u8; 4]) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(v4[0], v4[1], v4[2], v4[3]))
}

/// `a - r1 - old - r2 - b`; the agents of `old` and `b` are stopped: an unmodified router and an unmodified host.
pub fn line() -> Option<Bed> {
    line_with("")
}

pub fn line_with(settings: &str) -> Option<Bed> {
    let bed = Bed::of(|name| {
        let mut text = format!("name = {name:?}\nauth = \"none\"\n[boomerang]\n{settings}");
        for (node, kind) in [("a", "host"), ("r1", "router"), ("old", "router"), ("r2", "router"), ("b", "host")] {
            text += &format!("[[node]]\nname = {node:?}\nkind = {kind:?}\n");
        }
        for (from, to, rate) in [("a", "r1", 100), ("r1", "old", 10), ("old", "r2", 10), ("r2", "b", 100)] {
            text += &format!("[[link]]\nbetween = [{from:?}, {to:?}]\nrate = \"{rate}mbit\"\n");
        }
        TestbedFile::parse(Path::new("line.toml"), &text).unwrap()
    })?;
    for node in ["old", "b"] {
        let agent = bed.agent(node);
        agent.signal(15).unwrap();
        wait_for("it stops", || (!agent.is_running()).then_some(()));
    }
    Some(bed)
}

pub fn ask(forward: u32, reverse: u32) -> BoomerangAsk {
    let flow = ClassifierDoc { src: Some(NEAR), dst: Some(FAR), protocol: 17, src_port: PORT, dst_port: PORT };
    BoomerangAsk {
        far_end: FAR,
        flow,
        mask: None,
        rates: vec![RatesDoc { forward_bps: forward, reverse_bps: reverse }],
        at_least: RatesDoc::default(),
        refresh_s: 1,
        no_echo: false,
        uid: None,
        auth: None,
        ttl: 64,
        router_alert: false,
        bound: false,
    }
}

pub fn reserve(client: &mut Client, ask: BoomerangAsk) -> u64 {
    match client.call(Request::BoomerangReserve { ask, number: None }).unwrap() {
        Answer::Boomerang(doc) => doc.sessions[0].number,
        other => panic!("{other:?}"),
    }
}

pub fn reserved(client: &mut Client) -> BoomerangNews {
    let is = |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::Reserved { .. }, .. });
    match expect(client, "the reservation", is).1 {
        EventDoc::Boomerang { news, .. } => news,
        _ => unreachable!(),
    }
}

pub fn boomerang(bed: &Bed, node: &str) -> BoomerangDoc {
    match bed.client(node).call(Request::BoomerangSessions { skip: 0 }).unwrap() {
        Answer::Boomerang(doc) => doc,
        other => panic!("{other:?}"),
    }
}

pub fn blocks(bed: &Bed, node: &str) -> Vec<BoomerangBlock> {
    boomerang(bed, node).blocks
}

pub fn block(bed: &Bed, node: &str, oif: &str) -> Option<BoomerangBlock> {
    blocks(bed, node).into_iter().find(|block| block.oif == oif && block.asked_bps > 0)
}

/// What the plane of a node has counted of the flow that leaves by an interface.
pub fn counted(bed: &Bed, node: &str, oif: &str) -> Option<u64> {
    Some(block(bed, node, oif)?.measured?.packets)
}

pub fn socket(bed: &Bed, node: &str, address: IpAddr) -> UdpSocket {
    bed.netns(node).run(|| UdpSocket::bind((address, PORT))).unwrap().unwrap()
}

fn send(socket: &UdpSocket, to: IpAddr, count: usize) {
    for _ in 0..count {
        socket.send_to(&[0; 172], (to, PORT)).unwrap();
    }
}

pub fn sluice(bed: &Bed, node: &str, arguments: &[&str]) -> Output {
    let socket = bed.home(node).join("agent.sock");
    let mut command = Command::new(SLUICE);
    command.args(arguments).arg("--socket").arg(socket);
    command.output().unwrap()
}

#[test]
fn both_directions_are_reserved_past_an_unmodified_router_to_an_unmodified_host() {
    let Some(bed) = line() else { return };
    bed.run("a", "ping", &["-c", "1", "-W", "5", "10.0.3.2"]); // everybody's pings pass as before
    let mut client = bed.client("a");
    let number = reserve(&mut client, ask(3_000_000, 1_000_000));
    let news = reserved(&mut client);
    let (hops_forward, hops_reverse) = (Some(2), Some(2));
    let rates = RatesDoc { forward_bps: 3_000_000, reverse_bps: 1_000_000 };
    assert_eq!(news, BoomerangNews::Reserved { rates, refresh_s: 1, hops_forward, hops_reverse });
    for (node, out, back) in [("r1", "to-old", "to-a"), ("r2", "to-b", "to-old")] {
        for (oif, rate) in [(out, 3_000_000), (back, 1_000_000)] {
            let block = block(&bed, node, oif).unwrap_or_else(|| panic!("{node} {oif}: {:#?}", blocks(&bed, node)));
            assert_eq!((block.asked_bps, block.initiator), (rate, NEAR), "{node} {oif}");
            assert!(block.admitted_wire_bps.is_some_and(|wire| wire > rate), "{block:?}");
            let installed = block.installed.expect("it is in the plane");
            assert_eq!((installed.state.as_str(), installed.class.as_str()), ("installed", "5c1c:4"));
        }
    }
    assert!(block(&bed, "a", "to-r1").is_some(), "and where it starts");
    // What is sent either way is in the class of what was reserved.
    let (near, far) = (socket(&bed, "a", NEAR), socket(&bed, "b", FAR));
    send(&near, FAR, 20);
    send(&far, NEAR, 10);
    for (node, out, back) in [("r1", "to-old", "to-a"), ("r2", "to-b", "to-old")] {
        wait_for("the forward flow is counted", || (counted(&bed, node, out)? == 20).then_some(()));
        wait_for("the reverse flow is counted", || (counted(&bed, node, back)? == 10).then_some(()));
    }
    // It lives by its refreshes, and no longer.
    std::thread::sleep(std::time::Duration::from_millis(4_500));
    assert!(block(&bed, "r1", "to-old").is_some() && block(&bed, "r2", "to-old").is_some());
    assert_eq!(boomerang(&bed, "a").sessions[0].state, "held");
    client.call(Request::BoomerangRelease { number }).unwrap();
    let released = |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::Released, .. });
    expect(&mut client, "the release", released);
    for node in ["a", "r1", "r2"] {
        assert!(blocks(&bed, node).is_empty(), "{node}: {:#?}", blocks(&bed, node));
        assert!(bed.reservations(node).is_empty());
    }
}

#[test]
fn more_than_there_is_is_refused_and_nothing_is_left_of_it() {
    let Some(bed) = line() else { return };
    let mut client = bed.client("a");
    reserve(&mut client, ask(20_000_000, 1_000_000));
    let is = |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::Refused { .. }, .. });
    let (_, event) = expect(&mut client, "the refusal", is);
    let EventDoc::Boomerang { news: BoomerangNews::Refused { available, kept }, .. } = event else { unreachable!() };
    assert!((8_000_000..10_000_000).contains(&available.forward_bps), "{available:?}");
    assert_eq!(kept, RatesDoc::default());
    wait_for("nothing is left", || ["a", "r1", "r2"].iter().all(|n| blocks(&bed, n).is_empty()).then_some(()));
    // The same to people, by exit status.
    let far = "10.0.3.2:5004";
    let refused = sluice(&bed, "a", &["boomerang", "reserve", "--to", far, "--forward", "20mbit", "--refresh", "1s"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stdout).contains("refused: there is"), "{refused:?}");
    let lower = ["boomerang", "reserve", "--to", far, "--forward", "20mbit", "--at-least", "5mbit", "--refresh", "1s"];
    let taken = sluice(&bed, "a", &lower);
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    let listed = sluice(&bed, "a", &["boomerang", "sessions", "--over", "0s"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(text.contains("held") && text.contains("2/2"), "{text}");
    let number = boomerang(&bed, "a").sessions[0].number.to_string();
    assert!(sluice(&bed, "a", &["boomerang", "release", &number]).status.success());
    assert_eq!(sluice(&bed, "a", &["boomerang", "release", &number]).status.code(), Some(1), "it is over");
}

#[test]
fn a_killed_router_keeps_what_was_reserved_and_its_next_life_adopts_it() {
    let Some(bed) = line() else { return };
    let mut client = bed.client("a");
    reserve(&mut client, BoomerangAsk { refresh_s: 2, ..ask(3_000_000, 1_000_000) });
    reserved(&mut client);
    let classes = bed.tc("r1", "to-old");
    let near = socket(&bed, "a", NEAR);
    send(&near, FAR, 10);
    wait_for("the flow is counted", || (counted(&bed, "r1", "to-old")? == 10).then_some(()));
    bed.kill("r1");
    assert_eq!(bed.tc("r1", "to-old"), classes, "classes stay without an agent");
    send(&near, FAR, 10);
    bed.start("r1");
    let rows = bed.reservations("r1");
    assert_eq!(rows.len(), 2, "both directions hold their capacity: {rows:#?}");
    assert!(rows.iter().all(|row| row.admitted_wire_bps.is_some()));
    wait_for("a refresh claims both again", || {
        let out = block(&bed, "r1", "to-old")?;
        let back = block(&bed, "r1", "to-a")?;
        let installed = |block: &BoomerangBlock| block.installed.as_ref().is_some_and(|i| i.state == "installed");
        (installed(&out) && installed(&back)).then_some(())
    });
    assert_eq!(counted(&bed, "r1", "to-old"), Some(20), "packets of the time without an agent are counted");
    assert_eq!(bed.reservations("r1").len(), 2);
    assert_eq!(bed.tc("r1", "to-old"), classes);
}

#[test]
fn a_bound_session_ends_with_its_connection() {
    let Some(bed) = line() else { return };
    let mut client = bed.client("a");
    reserve(&mut client, BoomerangAsk { bound: true, ..ask(1_000_000, 0) });
    reserved(&mut client);
    drop(client);
    wait_for("it is given back", || ["a", "r1", "r2"].iter().all(|n| blocks(&bed, n).is_empty()).then_some(()));
}

#[test]
fn calls_that_mean_nothing_are_refused_and_change_nothing() {
    let Some(bed) = line() else { return };
    let mut client = bed.client("a");
    let nobody = BoomerangAsk { far_end: ip([192, 0, 2, 9]), ..ask(1_000_000, 0) };
    let ports = MaskDoc { src: ip([255; 4]), dst: ip([255; 4]), protocol: 255, src_port: 0, dst_port: 0 };
    let table = [
        (ask(0, 0), "a rate of zero"),
        (BoomerangAsk { rates: vec![], ..ask(1, 1) }, "1 to 64 pairs"),
        (BoomerangAsk { far_end: ip([239, 1, 1, 1]), ..ask(1, 1) }, "a group is asked with no_echo"),
        (BoomerangAsk { no_echo: true, ..ask(1, 1) }, "a group is asked with no_echo"),
        (BoomerangAsk { refresh_s: 0, ..ask(1, 1) }, "a refresh interval"),
        (BoomerangAsk { auth: Some(3), ..ask(1, 1) }, "there is no such key"),
        (
            BoomerangAsk { mask: Some(MaskDoc { src: ip([255, 0, 255, 0]), ..ports }), ..ask(1, 0) },
            "(a prefix, not other bits",
        ),
        (BoomerangAsk { mask: Some(MaskDoc { src: ip([0; 4]), ..ports }), ..ask(1, 1) }, "in reverse"),
        (BoomerangAsk { far_end: "fd00::1".parse().unwrap(), ..ask(1, 1) }, "the flow and the far end"),
    ];
    for (ask, words) in table {
        let problem = refused(client.call(Request::BoomerangReserve { ask, number: None }));
        assert!(problem.kind == "misuse" && problem.message.contains(words), "{problem:?}");
    }
    let problem = refused(client.call(Request::BoomerangRelease { number: 77 }));
    assert_eq!(problem.kind, "refused");
    client.call(Request::BoomerangReserve { ask: nobody, number: None }).unwrap();
    let no_way = |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::NoRoute, .. });
    let silent =
        |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::Silent { over: true, .. }, .. });
    expect(&mut client, "that nobody is there", |event| no_way(event) || silent(event));
    assert!(PATIENCE.as_secs() > 8);
    wait_for("nothing is left", || blocks(&bed, "r1").is_empty().then_some(()));
    assert!(boomerang(&bed, "a").sessions.is_empty());
}

/// The same with the kernel admitting by itself: real messages through the programs, real packets through their meters.
#[test]
fn the_kernels_fast_path_reserves_polices_expires_and_outlives_its_agent() {
    let Some(bed) = line_with("fast_path = true\n") else { return };
    let mut client = bed.client("a");
    let number = reserve(&mut client, ask(3_000_000, 1_000_000));
    let news = reserved(&mut client);
    let rates = RatesDoc { forward_bps: 3_000_000, reverse_bps: 1_000_000 };
    let (hops_forward, hops_reverse) = (Some(2), Some(2));
    assert_eq!(news, BoomerangNews::Reserved { rates, refresh_s: 1, hops_forward, hops_reverse });
    let routers = [("r1", "to-old", "to-a"), ("r2", "to-b", "to-old")];
    for (node, out, back) in routers {
        for (oif, rate) in [(out, 3_000_000), (back, 1_000_000)] {
            let block = block(&bed, node, oif).unwrap_or_else(|| panic!("{node} {oif}: {:#?}", blocks(&bed, node)));
            assert_eq!((block.asked_bps, block.initiator), (rate, ip([0, 0, 0, 0])), "in the kernel's table: {node}");
        }
    }
    let (near, far) = (socket(&bed, "a", NEAR), socket(&bed, "b", FAR));
    send(&near, FAR, 20);
    send(&far, NEAR, 10);
    for (node, out, back) in routers {
        wait_for("the forward flow is counted", || (counted(&bed, node, out)? == 20).then_some(()));
        wait_for("the reverse flow is counted", || (counted(&bed, node, back)? == 10).then_some(()));
    }
    // More than there is: refused with what there is, and what was there stays.
    let too_much = BoomerangAsk { flow: ClassifierDoc { src_port: 9, ..ask(0, 0).flow }, ..ask(9_000_000, 0) };
    reserve(&mut client, too_much);
    let is = |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::Refused { .. }, .. });
    expect(&mut client, "the refusal", is);
    // Refreshes need no agent: a router's is gone for longer than a session lives without them.
    let agent = bed.agent("r1");
    agent.signal(9).unwrap();
    wait_for("it is gone", || (!agent.is_running()).then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(4_500));
    assert_eq!(boomerang(&bed, "a").sessions[0].state, "held");
    bed.start("r1");
    wait_for("the next agent finds it", || block(&bed, "r1", "to-old"));
    client.call(Request::BoomerangRelease { number }).unwrap();
    let released = |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::Released, .. });
    expect(&mut client, "the release", released);
    for node in ["a", "r1", "r2"] {
        assert!(blocks(&bed, node).is_empty(), "{node}: {:#?}", blocks(&bed, node));
    }
}
