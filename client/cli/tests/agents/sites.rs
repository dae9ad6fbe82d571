//! All that goes between two sites as one Boomerang session: by the command line, on real packets, with a session of two
//! hosts inside it, past a killed router; in both families.

use crate::bed::{Bed, wait_for};
use crate::boomerang::{FAR, PORT, ask, blocks, boomerang, ip, line_with, reserve, reserved, sluice};
use ::bed::topology::Topology;
use documents::boomerang::{BoomerangBlock, ClassifierDoc};
use documents::rows::InstalledState;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

/// A second host of the near site, and one that is of neither.
const OTHER: IpAddr = ip([10, 0, 0, 9]);
const OUTSIDE: IpAddr = ip([10, 9, 0, 1]);
const SITES: &str = "10.0.0.0/24:* -> 10.0.3.0/24:*/any";

fn sites(bed: &Bed, node: &str, oif: &str, flow: &str) -> Option<BoomerangBlock> {
    blocks(bed, node).into_iter().find(|block| block.oif == oif && block.flow == flow)
}

/// Packets of the flow that leave a node by an interface: conforming and in excess.
fn counted(bed: &Bed, node: &str, oif: &str, flow: &str) -> Option<(u64, u64)> {
    let measured = sites(bed, node, oif, flow)?.measured?;
    Some((measured.packets, measured.excess_packets))
}

fn send(bed: &Bed, from: IpAddr, port: u16, to: IpAddr, packets: usize) {
    let socket = bed.netns("a").run(|| UdpSocket::bind((from, port))).unwrap().unwrap();
    (0..packets).for_each(|_| _ = socket.send_to(&[0; 172], (to, PORT)).unwrap());
}

/// Reserves by the command line; the number of the session.
fn reserve_sites(bed: &Bed, from: &str, to: &str, far_end: &str) -> u64 {
    let words = ["boomerang", "reserve", "--from", from, "--to", to, "--far-end", far_end];
    let rates = ["--forward", "3mbit", "--reverse", "1mbit", "--refresh", "2s"];
    let reserved = sluice(bed, "a", &[&words[..], &rates].concat());
    assert_eq!(reserved.status.code(), Some(0), "{reserved:?}");
    assert!(String::from_utf8_lossy(&reserved.stdout).contains("2 aware nodes out, 2 back"), "{reserved:?}");
    boomerang(bed, "a").sessions.last().expect("kept up").number
}

fn two_sites(settings: &str) {
    let Some(bed) = line_with(settings) else { return };
    bed.run("a", "ip", &["address", "add", "10.0.0.9/24", "dev", "to-r1"]);
    bed.run("a", "ip", &["address", "add", "10.9.0.1/32", "dev", "lo"]);
    // A prefix answers no ping.
    let nobody = sluice(&bed, "a", &["boomerang", "reserve", "--to", "10.0.3.0/24", "--forward", "1mbit"]);
    assert!(nobody.status.code() == Some(2) && String::from_utf8_lossy(&nobody.stderr).contains("--far-end"));
    let number = reserve_sites(&bed, "10.0.0.0/24", "10.0.3.0/24", "10.0.3.2");
    assert_eq!(boomerang(&bed, "a").sessions[0].flow, SITES);
    let back = "10.0.3.0/24:* -> 10.0.0.0/24:*/any";
    for (node, oif, flow, rate) in
        [("r1", "to-old", SITES, 3_000_000), ("r2", "to-b", SITES, 3_000_000), ("r1", "to-a", back, 1_000_000)]
    {
        let block = sites(&bed, node, oif, flow).unwrap_or_else(|| panic!("{node} {oif}: {:#?}", blocks(&bed, node)));
        assert_eq!((block.asked_bps, block.installed.map(|i| i.state)), (rate, Some(InstalledState::Installed)));
    }
    let shown = String::from_utf8_lossy(&sluice(&bed, "r1", &["status"]).stdout).into_owned();
    assert!(shown.contains(SITES) && shown.contains(back), "{shown}");
    let shown =
        String::from_utf8_lossy(&sluice(&bed, "a", &["boomerang", "sessions", "--over", "0s"]).stdout).into_owned();
    assert!(shown.contains(SITES) && shown.contains("10.0.3.2"), "{shown}");
    // Two hosts inside, one outside; and a session of two of the hosts, which pays for itself.
    let mut client = bed.client("a");
    let own = ClassifierDoc { src_port: 7_000, ..ask(0, 0).flow };
    reserve(&mut client, documents::agent::BoomerangAsk { flow: own, refresh_s: 2, ..ask(1_000_000, 0) });
    reserved(&mut client);
    let near = ip([10, 0, 0, 1]);
    for (from, port, packets) in [(near, 6_000, 9), (OTHER, 6_001, 8), (OUTSIDE, 6_002, 7), (near, 7_000, 6)] {
        send(&bed, from, port, FAR, packets);
    }
    let exact = "10.0.0.1:7000 -> 10.0.3.2:5004/17";
    for (node, oif) in [("r1", "to-old"), ("r2", "to-b")] {
        wait_for("the sites' packets are counted", || (counted(&bed, node, oif, SITES)? == (17, 0)).then_some(()));
        wait_for("the session's inside as well", || (counted(&bed, node, oif, exact)? == (6, 0)).then_some(()));
    }
    outlives(&bed, number);
}

/// The router is killed and started again: it polices on, adopts, and the next refresh claims what it adopted.
fn outlives(bed: &Bed, number: u64) {
    bed.kill("r1");
    send(bed, OTHER, 6_003, FAR, 10);
    bed.start("r1");
    let rows = bed.reservations("r1");
    assert!(rows.iter().any(|row| row.prefixes.as_deref() == Some(SITES)), "{rows:#?}");
    wait_for("a refresh claims it", || {
        let block = sites(bed, "r1", "to-old", SITES)?;
        block.installed.is_some_and(|i| i.state == "installed").then_some(())
    });
    assert_eq!(counted(bed, "r1", "to-old", SITES), Some((27, 0)), "also what came while nobody was there");
    // A flood of a host inside gets no more than the site has.
    send(bed, OTHER, 6_004, FAR, 1_000);
    wait_for("the flood is counted", || {
        let (packets, excess) = counted(bed, "r1", "to-old", SITES)?;
        (packets + excess > 27 && excess > 0).then_some(())
    });
    assert!(sluice(bed, "a", &["boomerang", "release", &number.to_string()]).status.success());
    wait_for("the sites' are gone, in both directions", || {
        blocks(bed, "r1").iter().all(|block| !block.flow.contains("/24")).then_some(())
    });
}

#[test]
fn two_sites_share_one_session_and_whoever_is_outside_does_not() {
    two_sites("");
}

#[test]
fn also_where_the_kernel_admits_sessions_by_itself() {
    two_sites("fast_path = true\n");
}

#[test]
fn sites_of_ipv6_share_one_session() {
    if !Path::new("/proc/sys/net/ipv6").exists() {
        bench::skipped("Boomerang over IPv6 needs a kernel that speaks it");
        return;
    }
    let Some(bed) = line_with("") else { return };
    let [near, far] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 3, 2)].map(|v4| IpAddr::V6(Topology::v6(v4)));
    let net = |address: IpAddr| match address {
        IpAddr::V6(v6) => format!("{}/112", std::net::Ipv6Addr::from_bits(v6.to_bits() & !0xffff)),
        v4 => panic!("{v4}"),
    };
    reserve_sites(&bed, &net(near), &net(far), &far.to_string());
    let flow = format!("{}:* -> {}:*/any", net(near), net(far));
    (6_000..6_003).for_each(|port| send(&bed, near, port, far, 4));
    for (node, oif) in [("r1", "to-old"), ("r2", "to-b")] {
        wait_for("all ports are counted", || (counted(&bed, node, oif, &flow)?.0 >= 12).then_some(()));
    }
}
