//! Boomerang's rarer forms between agents, on real packets: IPv6, vectors of rates, masks, aggregation, one to many, AUTH
//! with locks; and its calls from C and Python.

use crate::bed::{Bed, expect, wait_for};
use crate::boomerang::{FAR, PORT, ask, block, blocks, boomerang, counted, ip, line, reserve, reserved, socket};
use ::bed::file::TestbedFile;
use ::bed::topology::Topology;
use documents::agent::{BoomerangAsk, BoomerangNews, EventDoc, Request};
use documents::boomerang::{ClassifierDoc, MaskDoc, RatesDoc};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ALL: IpAddr = ip([255; 4]);

fn got(news: &BoomerangNews) -> (u32, u32) {
    match news {
        BoomerangNews::Reserved { rates, .. } => (rates.forward_bps, rates.reverse_bps),
        other => panic!("{other:?}"),
    }
}

fn release(client: &mut rpc::client::Client, number: u64) {
    client.call(Request::BoomerangRelease { number }).unwrap();
    let released = |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::Released, .. });
    expect(client, "the release", released);
}

fn nothing_is_left(bed: &Bed) {
    for node in ["a", "r1", "r2"] {
        wait_for("nothing is left", || blocks(bed, node).is_empty().then_some(()));
    }
}

/// Past a router and to a host that know nothing of it: IPv6; the first pair of rates that fits; one block for all ports.
#[test]
fn ipv6_vectors_and_masks_between_agents() {
    let Some(bed) = line() else { return };
    let mut client = bed.client("a");
    ipv6(&bed, &mut client);
    // The link between r1 and old takes the second pair; nobody holds more than that.
    let pair = |forward_bps, reverse_bps| RatesDoc { forward_bps, reverse_bps };
    let rates = vec![pair(20_000_000, 1_000_000), pair(5_000_000, 1_000_000), pair(1_000_000, 0)];
    let number = reserve(&mut client, BoomerangAsk { rates, ..ask(0, 0) });
    assert_eq!(got(&reserved(&mut client)), (5_000_000, 1_000_000));
    for (node, oif, rate) in [("a", "to-r1", 5_000_000), ("r1", "to-old", 5_000_000), ("r2", "to-old", 1_000_000)] {
        wait_for("all hold what fits everywhere", || (block(&bed, node, oif)?.asked_bps == rate).then_some(()));
    }
    release(&mut client, number);
    nothing_is_left(&bed);
    // All packets of both hosts are one session, whatever their ports, and share one bucket.
    let mask = MaskDoc { src: ALL, dst: ALL, protocol: 255, src_port: 0, dst_port: 0 };
    let number = reserve(&mut client, BoomerangAsk { mask: Some(mask), ..ask(3_000_000, 0) });
    assert_eq!(got(&reserved(&mut client)), (3_000_000, 0));
    assert_eq!(blocks(&bed, "r1").iter().filter(|block| block.asked_bps > 0).count(), 1);
    for port in [6_000, 6_001] {
        let near = bed.netns("a").run(|| UdpSocket::bind(("10.0.0.1", port))).unwrap().unwrap();
        (0..5).for_each(|_| _ = near.send_to(&[0; 172], (FAR, port)).unwrap());
    }
    for (node, oif) in [("r1", "to-old"), ("r2", "to-b")] {
        wait_for("packets of either port are counted", || (counted(&bed, node, oif)? == 10).then_some(()));
    }
    release(&mut client, number);
    nothing_is_left(&bed);
}

fn ipv6(bed: &Bed, client: &mut rpc::client::Client) {
    if !Path::new("/proc/sys/net/ipv6").exists() {
        bench::skipped("Boomerang over IPv6 needs a kernel that speaks it");
        return;
    }
    let [near, far] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 3, 2)].map(|v4| IpAddr::V6(Topology::v6(v4)));
    let flow = ClassifierDoc { src: Some(near), dst: Some(far), ..ask(0, 0).flow };
    let number = reserve(client, BoomerangAsk { far_end: far, flow, ..ask(3_000_000, 1_000_000) });
    let news = reserved(client);
    let hops = |news: &BoomerangNews| {
        matches!(news, BoomerangNews::Reserved { hops_forward: Some(2), hops_reverse: Some(2), .. })
    };
    assert!(got(&news) == (3_000_000, 1_000_000) && hops(&news), "{news:?}");
    let (from, back) = (socket(bed, "a", near), socket(bed, "b", far));
    (0..7).for_each(|_| _ = from.send_to(&[0; 172], (far, PORT)).unwrap());
    (0..4).for_each(|_| _ = back.send_to(&[0; 172], (near, PORT)).unwrap());
    for (node, out, home) in [("r1", "to-old", "to-a"), ("r2", "to-b", "to-old")] {
        wait_for("the forward flow is counted", || (counted(bed, node, out)? == 7).then_some(()));
        wait_for("the reverse flow is counted", || (counted(bed, node, home)? == 4).then_some(()));
    }
    release(client, number);
    nothing_is_left(bed);
}

/// A line `a - r1 - r2 - b` of which every agent but `b`'s has settings of its own.
fn settled(links: &[(&str, &str)], settings: impl Fn(&str, &Path) -> String) -> Option<Bed> {
    Bed::of(|name| {
        let place = std::env::temp_dir().join(name);
        let mut text = format!("name = {name:?}\nauth = \"none\"\n");
        let mut nodes: Vec<&str> = links.iter().flat_map(|(from, to)| [*from, *to]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in &nodes {
            let kind = if node.starts_with('r') { "router" } else { "host" };
            text += &format!("[[node]]\nname = {node:?}\nkind = {kind:?}\n");
        }
        for (from, to) in links {
            text += &format!("[[link]]\nbetween = [{from:?}, {to:?}]\nrate = \"10mbit\"\n");
        }
        let settings: BTreeMap<String, String> =
            nodes.iter().map(|node| ((*node).to_owned(), settings(node, &place))).collect();
        TestbedFile { settings, ..TestbedFile::parse(Path::new("forms.toml"), &text).unwrap() }
    })
}

const LINE: [(&str, &str); 3] = [("a", "r1"), ("r1", "r2"), ("r2", "b")];

/// Behind the node that gathers only the whole is held, and another part makes no more of it.
#[test]
fn an_edge_gathers_sessions_and_the_nodes_behind_hold_the_whole() {
    let gather = "\n[[boomerang.gather]]\ninterface = \"to-r2\"\nto = \"10.0.2.2\"\nrate = \"6mbit\"\n";
    let Some(bed) = settled(&LINE, |node, _| "[boomerang]\n".to_owned() + if node == "r1" { gather } else { "" })
    else {
        return;
    };
    let mut client = bed.client("a");
    let far_end = ip([10, 0, 2, 2]);
    for (port, rate) in [(PORT, 3_000_000), (PORT + 1, 2_000_000)] {
        let flow = ClassifierDoc { dst: Some(far_end), dst_port: port, ..ask(0, 0).flow };
        reserve(&mut client, BoomerangAsk { far_end, flow, ..ask(rate, 0) });
        assert_eq!(got(&reserved(&mut client)), (rate, 0));
    }
    let held = |node: &str, oif: &str| -> u64 {
        blocks(&bed, node).iter().filter(|block| block.oif == oif).map(|block| block.asked_bps).sum()
    };
    assert_eq!((held("r1", "to-r2"), held("r2", "to-b")), (5_000_000, 6_000_000), "{:#?}", blocks(&bed, "r2"));
}

/// Every branch of a group's tree is reserved, and nobody answers.
#[test]
fn one_to_many_reserves_every_branch() {
    const GROUP: IpAddr = ip([239, 7, 7, 7]);
    let route = format!("\n[[multicast_route]]\ngroup = \"{GROUP}\"\nfrom = \"to-a\"\nto = [\"to-b\", \"to-c\"]\n");
    let links = [("a", "r"), ("r", "b"), ("r", "c")];
    let Some(bed) = settled(&links, |node, _| {
        "[boomerang]\nreplies = \"known\"\n".to_owned() + if node == "r" { &route } else { "" }
    }) else {
        return;
    };
    bed.run("a", "ip", &["route", "add", "239.0.0.0/8", "dev", "to-r"]);
    let mut client = bed.client("a");
    let flow = ClassifierDoc { dst: Some(GROUP), ..ask(0, 0).flow };
    let number = reserve(&mut client, BoomerangAsk { far_end: GROUP, flow, no_echo: true, ..ask(2_000_000, 0) });
    for oif in ["to-b", "to-c"] {
        wait_for("the branch is reserved", || (block(&bed, "r", oif)?.asked_bps == 2_000_000).then_some(()));
    }
    let near = socket(&bed, "a", ip([10, 0, 0, 1]));
    near.set_multicast_ttl_v4(8).unwrap(); // one hop, otherwise
    for oif in ["to-b", "to-c"] {
        wait_for("packets of the branch", || {
            near.send_to(&[0; 172], (GROUP, PORT)).unwrap();
            (counted(&bed, "r", oif)? > 0).then_some(())
        });
    }
    client.call(Request::BoomerangRelease { number }).unwrap();
    wait_for("nothing is left", || blocks(&bed, "r").is_empty().then_some(()));
}

/// Nodes that lock what they make and believe keys alone: with the key two loops reserve, without it nothing does.
#[test]
fn who_has_the_key_reserves_past_locks_and_nobody_else() {
    let Some(bed) = settled(&LINE, |_, place| {
        let file: PathBuf = place.join("boomerang.keys");
        let text = format!("[[key]]\nid = 7\nalgorithm = \"hmac-sha-256\"\nsecret = \"{}\"\n", "07".repeat(32));
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        format!("[boomerang]\nkeys = {file:?}\nrequire_auth = true\nlock = true\n")
    }) else {
        return;
    };
    let agent = bed.agent("b");
    agent.signal(15).unwrap();
    wait_for("an unmodified host", || (!agent.is_running()).then_some(()));
    let mut client = bed.client("a");
    let far_end = ip([10, 0, 2, 2]);
    let flow = ClassifierDoc { dst: Some(far_end), ..ask(0, 0).flow };
    let proven = BoomerangAsk { far_end, flow, auth: Some(7), ..ask(3_000_000, 1_000_000) };
    let number = reserve(&mut client, proven.clone());
    assert_eq!(got(&reserved(&mut client)), (3_000_000, 1_000_000));
    for (node, out, back) in [("r1", "to-r2", "to-a"), ("r2", "to-b", "to-r1")] {
        for (oif, rate) in [(out, 3_000_000), (back, 1_000_000)] {
            let block = block(&bed, node, oif).unwrap_or_else(|| panic!("{node} {oif}: {:#?}", blocks(&bed, node)));
            assert!(block.asked_bps == rate && !block.locked, "{block:?}");
        }
    }
    let stranger = ClassifierDoc { src_port: 9, ..flow };
    reserve(&mut client, BoomerangAsk { auth: None, flow: stranger, ..proven });
    let refused = |event: &EventDoc| matches!(event, EventDoc::Boomerang { news: BoomerangNews::Refused { .. }, .. });
    expect(&mut client, "that who proves nothing gets nothing", refused);
    assert_eq!(blocks(&bed, "r1").len(), 2, "{:#?}", blocks(&bed, "r1"));
    release(&mut client, number);
    nothing_is_left(&bed);
}

/// The folder of what this test run has built.
fn built() -> PathBuf {
    let mut dir = std::env::current_exe().unwrap();
    dir.pop();
    // The library's SONAME; another test may have made it.
    let _ = std::os::unix::fs::symlink("libsluice_c.so", dir.join("libsluice.so.1"));
    dir
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Runs a program that reserves, waits for a line, gives back and says that all was well.
fn plays(bed: &Bed, mut command: Command) {
    let socket = bed.home("a").join("agent.sock");
    let mut child = command
        .arg(socket)
        .arg(FAR.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("its session is held on the way", || {
        let held =
            block(bed, "r1", "to-old")?.asked_bps == 3_000_000 && block(bed, "r2", "to-old")?.asked_bps == 500_000;
        let listed = boomerang(bed, "a").sessions.first()?.state == "held";
        (held && listed).then_some(())
    });
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("reserved, refused and given back"), "{said}");
    nothing_is_left(bed);
}

#[test]
fn programs_in_c_and_python_reserve_by_a_real_agent() {
    let Some(bed) = line() else { return };
    let program = bed.place.join("boomerang-c");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(folder("client/c/include"))
        .arg(folder("client/c/tests/boomerang.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(built())
        .arg("-lsluice_c")
        .output();
    match compiled {
        Ok(compiled) => {
            assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
            let mut command = Command::new(&program);
            command.env("LD_LIBRARY_PATH", built());
            plays(&bed, command);
        }
        Err(_) => bench::skipped("cc is not installed"),
    }
    if Command::new("python3").arg("--version").output().is_err() {
        return bench::skipped("python3 is not installed");
    }
    let mut command = Command::new("python3");
    command.arg(folder("client/python/tests/boomerang.py")).env("PYTHONPATH", folder("client/python"));
    plays(&bed, command);
}
