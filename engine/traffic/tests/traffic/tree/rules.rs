//! Whose a packet is: whole five-tuples are found by hash, and still the first rule that matches takes the packet.

use super::*;
use proptest::prelude::*;

fn host(last: u8) -> IpAddr {
    if last == 3 { IpAddr::V6(std::net::Ipv6Addr::LOCALHOST) } else { IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)) }
}

/// Few hosts and ports, so that rules overlap; a width of 32 bits names an IPv4 host, and but a prefix of IPv6.
fn rule() -> impl Strategy<Value = MultiFieldRule> {
    let prefix = |last| prop_oneof![Just(None), Just(Some((host(last), 30))), Just(Some((host(last), 32)))];
    let prefixes = (1u8..3, 1u8..3).prop_flat_map(move |(src, dst)| (prefix(src), prefix(dst)));
    let ports =
        || prop_oneof![Just(None), (1u16..3).prop_map(|p| Some((p, p))), (1u16..3).prop_map(|p| Some((p, p + 1)))];
    let dscp = prop_oneof![3 => Just(None), 1 => Just(Some(Dscp(1)))];
    (prefixes, proptest::option::of(16u8..18), ports(), ports(), dscp).prop_map(
        |((src, dst), protocol, src_ports, dst_ports, dscp)| MultiFieldRule {
            src,
            dst,
            protocol,
            src_ports,
            dst_ports,
            dscp,
        },
    )
}

/// A rule that names a whole five-tuple.
fn exact() -> impl Strategy<Value = MultiFieldRule> {
    (1u8..4, 16u8..18, 1u16..3, 1u16..3).prop_map(|(last, protocol, src, dst)| {
        let (own, width) = (host(last), if last == 3 { 128 } else { 32 });
        let net = Some((own, width));
        let (src_ports, dst_ports) = (Some((src, src)), Some((dst, dst)));
        MultiFieldRule { src: net, dst: net, protocol: Some(protocol), src_ports, dst_ports, dscp: None }
    })
}

fn any_packet() -> impl Strategy<Value = PacketMeta> {
    (1u8..4, 1u8..4, 16u8..18, 1u16..4, 1u16..4, 0u8..2).prop_map(|(src, dst, protocol, src_port, dst_port, dscp)| {
        let flow = FlowKey { src: host(src), dst: host(dst), protocol, src_port, dst_port, wild: terms::Wild::NONE };
        PacketMeta { flow, dscp: Dscp(dscp), ..packet(0, 0, 100, Time::ZERO) }
    })
}

fn spec(leaves: &[Vec<MultiFieldRule>]) -> TreeSpec {
    let mut nodes = vec![leaf("rest", None, TreeShare::Priority(7), queue(None))];
    for (i, rules) in leaves.iter().enumerate() {
        let own = LeafSpec { rules: rules.clone(), ..queue(None) };
        nodes.push(leaf(&format!("leaf{i}"), None, TreeShare::Priority(0), own));
    }
    tree(Rate::from_mbps(10), SchedulerKind::Priority, nodes)
}

/// One after the other, as the rules are written.
fn oracle(leaves: &[Vec<MultiFieldRule>], packet: &PacketMeta) -> LeafId {
    let first = leaves.iter().position(|rules| rules.iter().any(|rule| rule.matches(packet)));
    LeafId(first.map_or(0, |at| at as u32 + 1))
}

proptest! {
    #![proptest_config(chance::cases(500))]

    #[test]
    fn the_first_that_matches(
        mut leaves in proptest::collection::vec(proptest::collection::vec(prop_oneof![rule(), exact()], 1..4), 1..12),
        packets in proptest::collection::vec(any_packet(), 40),
        changed in (0usize..12, exact()),
    ) {
        let mut tree = Tree::new(spec(&leaves), Time::ZERO, 1).unwrap();
        for packet in &packets {
            prop_assert_eq!(tree.classify(packet), oracle(&leaves, packet));
        }
        let at = changed.0 % leaves.len();
        leaves[at].push(changed.1);
        let own = LeafSpec { rules: leaves[at].clone(), ..queue(None) };
        tree.change(Time::ZERO, &format!("leaf{at}"), own).unwrap();
        for packet in &packets {
            prop_assert_eq!(tree.classify(packet), oracle(&leaves, packet));
        }
    }

    /// What [`MultiFieldRule::exact`] says is what the rule matches, and nothing else.
    #[test]
    fn a_whole_five_tuple(rule in prop_oneof![rule(), exact()], packet in any_packet()) {
        if let Some(flow) = rule.exact() {
            prop_assert_eq!(rule.matches(&packet), packet.flow == flow);
        }
    }
}

#[test]
fn rules_that_leave_something_open_are_few() {
    let own = |port| MultiFieldRule { dst_ports: Some((port, port)), ..MultiFieldRule::default() };
    let mut leaves = vec![(0..4096).map(own).collect::<Vec<_>>()];
    let known = Tree::new(spec(&leaves), Time::ZERO, 1).unwrap();
    leaves.push(vec![own(5000)]);
    let refused = Tree::new(spec(&leaves), Time::ZERO, 1).unwrap_err().to_string();
    let limit =
        "the number of rules in the tree that leave something of the five-tuple open is 4097: allowed is 0 to 4096";
    assert_eq!(refused, format!("link/leaf1: rules: {limit}"));
    // The same by a change.
    let mut tree = known;
    let wider = LeafSpec { rules: (0..4097).map(own).collect(), ..queue(None) };
    let refused = tree.change(Time::ZERO, "leaf0", wider).unwrap_err().to_string();
    assert_eq!(refused, format!("link/leaf0: rules: {limit}"));
    let none = tree.change(Time::ZERO, "leaf0", queue(None)).unwrap_err().to_string();
    assert_eq!(none, "link/leaf0: rules: 2 leaves are without rules: exactly one takes what no rule matches");
    let mut tree = Tree::new(spec(&[vec![own(1)]]), Time::ZERO, 1).unwrap();
    let all = tree.change(Time::ZERO, "rest", queue(Some(1))).unwrap_err().to_string();
    assert_eq!(all, "link: no leaf takes what no rule matches: exactly one leaf must be without rules");
}
