//! Captures: bytes that tshark takes for TCP without a complaint, checksums included.

use bench::skipped;
use sim::World;
use sim::rng::Probability;
use sim::scenario::{
    CaptureSpec, Impairment, LinkId, NodeId, Queue, Scenario, ScenarioAction, SendPattern, SimLinkSpec, SimNodeSpec,
    SourceSpec, Tcp, TcpSpec,
};
use sim::{map::address, packet::UDP};
use std::process::Command;
use terms::{Bytes, FlowKey, Rate, Span, Time};
use traffic::port::SchedulerKind;

/// A transfer of 100,000 bytes with two per cent of loss, and some UDP, captured in both directions.
fn captured(snap: u32) -> World {
    let host = |name| SimNodeSpec { agent: false, ..SimNodeSpec::new(name, Span::from_secs(30)) };
    let link = |a, b| {
        SimLinkSpec::ethernet(NodeId(a), NodeId(b), Rate::from_mbps(5), Span::from_millis(10), SchedulerKind::Htb)
    };
    let loss = Impairment { loss: Probability::percent(2), ..Impairment::default() };
    let (src, dst) = (address(LinkId(0), 0), address(LinkId(1), 1));
    let tcp = Tcp { window: Bytes::new(200_000), ..Tcp::default() };
    let scenario = Scenario {
        seed: 3,
        nodes: vec![host("a"), host("router"), host("b")],
        links: vec![link(0, 1), link(1, 2)],
        queue: Queue::packets(30),
        connections: vec![TcpSpec {
            bytes: Some(Bytes::new(100_000)),
            tcp,
            ..TcpSpec::greedy(NodeId(0), NodeId(2), (1_024, 80))
        }],
        sources: vec![SourceSpec {
            node: NodeId(0),
            flow: FlowKey { src, dst, protocol: UDP, src_port: 53, dst_port: 5_353, wild: terms::Wild::NONE },
            packet: 301,
            pattern: SendPattern::Cbr { rate: Rate::from_kbps(100), jitter_percent: 0 },
            from: Time::ZERO,
            until: Time::from_nanos(1_000_000_000),
        }],
        captures: [0, 1].map(|side| CaptureSpec { link: LinkId(0), side, snap, packets: 100_000 }).to_vec(),
        script: vec![(Time::from_nanos(200_000_000), ScenarioAction::ImpairData(LinkId(1), loss))],
        measured: (Time::ZERO, Time::from_nanos(60_000_000_000)),
        ..Scenario::default()
    };
    let mut world = World::new(&scenario).expect("it can be played");
    world.run_until(scenario.measured.1);
    world.check().expect("every law holds");
    world
}

/// Both directions in one file, in the order of time.
fn merged(world: &World) -> Vec<u8> {
    let mut records: Vec<(u64, &[u8])> = Vec::new();
    for n in 0..2 {
        let mut rest = &world.pcap(n)[24..];
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
            let end = 16 + word(8) as usize;
            records.push((u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)), &rest[..end]));
            rest = &rest[end..];
        }
    }
    records.sort_by_key(|(at, _)| *at);
    let mut file = world.pcap(0)[..24].to_vec();
    file.extend(records.iter().flat_map(|(_, record)| record.iter()));
    file
}

#[test]
fn lengths_are_true_and_a_snap_length_cuts() {
    let (whole, cut) = (captured(65_535), captured(60));
    let count = |file: &[u8]| {
        let (mut rest, mut packets, mut bytes) = (&file[24..], 0, 0);
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
            assert_eq!(u32::from(rest[18]) << 8 | u32::from(rest[19]), word(12), "the IP header says the same length");
            packets += 1;
            bytes += u64::from(word(12));
            rest = &rest[16 + word(8) as usize..];
        }
        (packets, bytes)
    };
    assert_eq!(count(whole.pcap(0)), count(cut.pcap(0)), "cut or not, the same packets");
    assert!(cut.pcap(0).len() < whole.pcap(0).len() / 5);
    // A capture watches and changes nothing.
    assert_eq!(count(whole.pcap(0)).0, whole.hops()[0].entered);
}

#[test]
fn tshark_finds_valid_tcp() {
    let world = captured(65_535);
    let file = std::env::temp_dir().join(format!("sluice-sim-{}.pcap", std::process::id()));
    std::fs::write(&file, merged(&world)).expect("a file in the temporary directory");
    let fields = [
        "frame.protocols",
        "tcp.checksum.status",
        "udp.checksum.status",
        "ip.checksum.status",
        "tcp.options.sack.count",
        "tcp.analysis.retransmission",
        "_ws.malformed",
        "tcp.len",
    ];
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "separator=,", "-r"]).arg(&file);
    for check in ["tcp.check_checksum:TRUE", "udp.check_checksum:TRUE", "ip.check_checksum:TRUE"] {
        command.args(["-o", check]);
    }
    let output = command.args(fields.iter().flat_map(|field| ["-e", field])).output();
    let _gone = std::fs::remove_file(&file);
    let Ok(output) = output else { return skipped("tshark is not here") };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let is = |row: &[&str], n: usize, value: &str| row.get(n).copied() == Some(value);
    assert!(rows.len() > 120, "{} packets\n{}", rows.len(), String::from_utf8_lossy(&output.stderr));
    for row in &rows {
        let good =
            if is(row, 0, "raw:ip:udp:data") || row[0].contains("udp") { is(row, 2, "1") } else { is(row, 1, "1") };
        assert!(good && is(row, 3, "1") && is(row, 6, ""), "{row:?}");
    }
    assert!(rows.iter().any(|row| !row[4].is_empty()), "SACK options are there");
    assert!(rows.iter().any(|row| !row[5].is_empty()), "tshark sees the retransmissions");
    let data: u64 = rows.iter().filter_map(|row| row[7].parse::<u64>().ok()).sum();
    let report = world.tcp(sim::TcpId(0));
    assert_eq!(data, 100_000 + retransmitted(&report), "every byte once, and what was sent again");
}

fn retransmitted(report: &sim::TcpReport) -> u64 {
    // 100,000 bytes are 68 full segments and 720 bytes; none of the short one was lost in this story.
    report.retransmitted * 1_460
}
