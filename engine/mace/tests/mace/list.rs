//! The application list: what is read, what is refused and where, and that no text whatever does harm.

use crate::flow;
use mace::list::{LEAST_PACKET, LONGEST_LIST, MOST_APPLICATIONS, MOST_MISTAKES};
use mace::{ApplicationList, KnownApplication};
use proptest::prelude::*;
use terms::{Bytes, FlowKey, Rate, Span};

const GOOD: &str = "\
# Applications that never signal.
vat   udp 5004        64kbit  8kb 100 30s   # voice

game  udp 27960-27969 256kbit 4kb 10  10s 100b
shell tcp 22          1mbit   1mb 1   1h
";

#[test]
fn a_list_is_read_as_it_stands() {
    let list = ApplicationList::parse(GOOD).expect("a good list");
    let [vat, game, shell] = list.all() else { panic!("{list:?}") };
    assert_eq!(
        *game,
        KnownApplication {
            name: "game".into(),
            protocol: 17,
            ports: (27_960, 27_969),
            rate: Rate::from_kbps(256),
            depth: Bytes::new(4_096),
            threshold: 10,
            timeout: Span::from_secs(10),
            least_packet: 100,
        }
    );
    assert_eq!((vat.least_packet, shell.protocol, shell.timeout), (LEAST_PACKET, 6, Span::from_secs(3_600)));
    let found = |protocol, port| list.at_port(protocol, port);
    assert_eq!((found(17, 5004), found(6, 5004), found(17, 22), found(6, 22)), (Some(0), None, None, Some(2)));
    assert_eq!([27_959, 27_960, 27_969, 27_970].map(|port| found(17, port)), [None, Some(1), Some(1), None]);
    // 200 bytes and 14 more on the wire: 64 * 214 / 200, rounded up.
    assert_eq!(vat.declared(14), Rate::from_bps(68_480));
}

#[test]
fn a_flow_is_its_destination_ports_and_else_its_source_ports() {
    let list = ApplicationList::parse(GOOD).expect("a good list");
    assert_eq!(list.of(&flow(1, 5004)), Some(0));
    assert_eq!(list.of(&FlowKey { src_port: 27_960, ..flow(1, 5004) }), Some(0));
    assert_eq!(list.of(&FlowKey { src_port: 27_960, ..flow(1, 5005) }), Some(1));
    assert_eq!(list.of(&flow(1, 5005)), None);
    let any_sender = FlowKey { src: "0.0.0.0".parse().expect("an address"), ..flow(1, 5004) };
    assert_eq!(list.of(&any_sender), None);
    assert_eq!(list.of(&FlowKey { src_port: 0, ..flow(1, 5004) }), None, "a fragment");
}

#[test]
fn every_mistake_has_its_line() {
    let lines = [
        ("vat udp 5004 64kbit 8kb 100", "6 words"),
        ("vat udp 5004 64kbit 8kb 100 30s 100b more", "9 words"),
        ("vat icmp 5004 64kbit 8kb 100 30s", "no protocol with ports"),
        ("vat udp 0 64kbit 8kb 100 30s", "no port"),
        ("vat udp 65536 64kbit 8kb 100 30s", "no port"),
        ("vat udp 9-5 64kbit 8kb 100 30s", "is empty"),
        ("vat udp 5004 64 8kb 100 30s", "no rate"),
        ("vat udp 5004 0bit 8kb 100 30s", "a rate of"),
        ("vat udp 5004 99999999999999999999gbit 8kb 100 30s", "no rate"),
        ("vat udp 5004 18446744073709551615gbit 8kb 100 30s", "too large"),
        ("vat udp 5004 64kbit 0b 100 30s", "a bucket of"),
        ("vat udp 5004 64kbit 1000mb 100 30s", "a bucket of"),
        ("vat udp 5004 64kbit 8kb 0 30s", "a threshold of"),
        ("vat udp 5004 64kbit 8kb -1 30s", "no number of packets"),
        ("vat udp 5004 64kbit 8kb 100 0s", "a timeout of"),
        ("vat udp 5004 64kbit 8kb 100 30", "no time"),
        ("vat udp 5004 64kbit 8kb 100 30s 3b", "a least packet of"),
        ("v/at udp 5004 64kbit 8kb 100 30s", "a name is"),
    ];
    for (line, what) in lines {
        let text = format!("# a comment\n\n{line}\n");
        let mistakes = ApplicationList::parse(&text).expect_err(line);
        assert_eq!((mistakes.len(), mistakes[0].line), (1, 3), "{line}: {mistakes:?}");
        assert!(mistakes[0].text.contains(what), "{line}: {}", mistakes[0]);
        assert!(mistakes[0].to_string().starts_with("line 3: "), "{}", mistakes[0]);
    }
}

#[test]
fn ports_and_names_are_there_once() {
    let text = "a udp 10-20 1kbit 1kb 1 1s\nb tcp 10-20 1kbit 1kb 1 1s\nc udp 15 1kbit 1kb 1 1s\n\
                d udp 20-30 1kbit 1kb 1 1s\na udp 31 1kbit 1kb 1 1s\n";
    let told: Vec<String> = ApplicationList::parse(text).expect_err("overlaps").iter().map(|m| m.to_string()).collect();
    assert_eq!(
        told,
        [
            "line 3: ports 15-15 are those of a in line 1 already",
            "line 4: ports 20-20 are those of a in line 1 already",
            "line 5: the name a is in line 1 already",
        ]
    );
    let many: String = (1..=2 * MOST_MISTAKES).map(|n| format!("x{n} udp {n} 1kbit 1kb 0 1s\n")).collect();
    assert_eq!(ApplicationList::parse(&many).expect_err("thresholds").len(), MOST_MISTAKES);
    let long: String = (1..=MOST_APPLICATIONS + 1).map(|n| format!("x{n} udp {n} 1kbit 1kb 1 1s\n")).collect();
    assert_eq!(ApplicationList::parse(&long).expect_err("too many")[0].line, MOST_APPLICATIONS + 1);
    assert!(ApplicationList::parse(&"#".repeat(LONGEST_LIST + 1)).is_err());
    assert_eq!(ApplicationList::parse("# nothing\n"), Ok(ApplicationList::default()));
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn a_port_is_found_exactly_where_a_line_has_it(ranges in prop::collection::vec((1..60_u16, 0..9_u16), 1..8)) {
        let lines = ranges.iter().enumerate();
        let text: String = lines.map(|(n, (first, more))| {
            format!("x{n} udp {first}-{} 1kbit 1kb 1 1s\n", first + more)
        }).collect();
        let has = |n: usize, port: u16| (ranges[n].0..=ranges[n].0 + ranges[n].1).contains(&port);
        let owners = |port| (0..ranges.len()).filter(|n| has(*n, port)).collect::<Vec<_>>();
        let overlap = (1..80).any(|port| owners(port).len() > 1);
        match ApplicationList::parse(&text) {
            Err(_) => prop_assert!(overlap),
            Ok(list) => {
                prop_assert!(!overlap);
                for port in 0..80 {
                    prop_assert_eq!(list.at_port(17, port), owners(port).first().copied());
                    prop_assert_eq!(list.at_port(6, port), None);
                }
            }
        }
    }

    #[test]
    fn no_text_does_harm(text in "[a-z0-9 #\\n\\t.-]{0,300}") {
        let _ = ApplicationList::parse(&text);
    }
}
