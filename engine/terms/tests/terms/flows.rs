//! Whose packets: port-less sessions, generalised port identifiers, distribution trees.

use terms::ports::{MOST_BRANCHES, Oifs, Preemption};
use terms::{FlowKey, IfIndex, SenderTemplate, Session};

fn session(protocol: u8, dst_port: u16) -> Session {
    Session { dst: [10, 0, 2, 2].into(), protocol, dst_port }
}

/// RFC 2207: only ESP and AH with a virtual destination port name their senders by security parameter index, and the
/// index lies in the packet's key as it lies in the packet.
#[test]
fn a_security_parameter_index_is_found_in_the_packet() {
    for (protocol, dst_port, gpi) in [(50, 0, false), (50, 8192, true), (51, 11, true), (17, 5004, false)] {
        let session = session(protocol, dst_port);
        assert_eq!(session.is_gpi(), gpi);
        let src_port = if gpi { 0xdead_beef } else { 0 };
        let sender = SenderTemplate { src: [10, 0, 1, 1].into(), src_port };
        let key = FlowKey::of(&session, &sender);
        assert_eq!((key.src_port, key.dst_port), if gpi { (0xdead, 0xbeef) } else { (0, dst_port) });
        assert_eq!(key.sender(&session), sender);
    }
}

#[test]
fn branches_are_a_bounded_set() {
    let mut oifs: Oifs = [3, 1, 2, 3].into_iter().map(IfIndex).collect();
    assert_eq!(oifs.as_slice(), [1, 2, 3].map(IfIndex));
    oifs.remove(IfIndex(2));
    oifs.remove(IfIndex(9));
    assert_eq!((oifs.contains(IfIndex(2)), oifs.contains(IfIndex(3))), (false, true));
    assert_eq!(oifs, [3, 1].into_iter().map(IfIndex).collect(), "equal sets are equal, whatever was in them before");
    let full: Oifs = (1..=MOST_BRANCHES as u32).map(IfIndex).collect();
    assert!(!{ full }.add(IfIndex(0)) && { full }.add(IfIndex(5)), "no room for another, but for one that is there");
}

/// RFC 3181: merged requests take the highest of each; to displace takes more than what defends.
#[test]
fn priorities_merge_and_displace() {
    let (a, b) = (Preemption { preempting: 3, defending: 5 }, Preemption { preempting: 4, defending: 4 });
    assert_eq!(a.merged(b), Preemption { preempting: 4, defending: 5 });
    assert!(!a.displaces(b) && !b.displaces(a) && !b.displaces(b));
    assert!(Preemption { preempting: 6, defending: 6 }.displaces(a));
}
