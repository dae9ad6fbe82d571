//! Multicast sessions: path state along distribution trees, requests merged on their way up, RFC 2205 sections 2.2, 3.1.3
//! and 3.9, RFC 2209 section 2.1.

use crate::story::net::*;
use rsvp::io::{AppCall, AppId, Input, Upcall};
use terms::ports::{MulticastTree, Oifs};
use terms::{IfIndex, Rate, Session, Span, Style};

const R: Span = Span::from_secs(30);

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// `s - r1 - r2`, and behind r2 the receivers a and b; c hangs on r1.
///
/// Interfaces: r1 has 1 to s, 2 to r2, 3 to c; r2 has 1 to r1, 2 to a, 3 to b.
const S: usize = 0;
const R1: usize = 1;
const R2: usize = 2;
const A: usize = 3;
const B: usize = 4;
const C: usize = 5;

fn tree(v6: bool) -> (Net, Session) {
    let mut net = Net::new(v6);
    for name in ["s", "r1", "r2", "a", "b", "c"] {
        net.node(name, config(R));
    }
    for (x, y) in [(S, R1), (R1, R2), (R2, A), (R2, B), (R1, C)] {
        net.link(x, y);
    }
    let session = net.group(1);
    net.members(&session, &[A, B, C]);
    (net, session)
}

fn receive(net: &mut Net, node: usize, session: Session) {
    net.tell(node, Input::App(AppCall::Receiver { app: RECEIVER, session }));
}

/// A Path goes out once on each branch, with the hop and the Adspec of that branch, and reaches every member.
#[test]
fn a_path_reaches_every_member_once() {
    for v6 in [false, true] {
        let (mut net, session) = tree(v6);
        [A, B, C].into_iter().for_each(|node| receive(&mut net, node, session));
        let start = net.now;
        net.sends(S, 1, session, 5004, 3);
        net.run(ms(10));
        assert_eq!((net.paths(), net.count("Path", start)), (vec![1; 6], 5));
        for node in [A, B, C] {
            assert_eq!(net.heard(node, |u| matches!(u, Upcall::Path { .. })), 1);
        }
        assert_eq!(net.nodes[R2].env.held.len(), 0);
        net.tell(S, Input::App(AppCall::SenderGone { app: AppId(1), session, template: net.template_at(S) }));
        net.run(ms(10));
        assert_eq!((net.paths(), net.count("PathTear", start)), (vec![0; 6], 5));
    }
}

/// Requests of different size merge where they meet: each link holds the largest asked behind it (RFC 2205 section 2.2),
/// in every style; when one leaves, what is left shrinks.
#[test]
fn requests_merge_to_the_largest() {
    for style in [Style::Ff, Style::Se, Style::Wf] {
        let (mut net, session) = tree(false);
        let sender = net.sends(S, 1, session, 5004, 8);
        net.run(ms(10));
        for (node, mbps) in [(A, 2), (B, 5), (C, 3)] {
            net.shares(node, session, style, &[sender], cl(mbps));
            net.run(ms(20));
        }
        let links = |net: &Net| [net.on(S, 1), net.on(R1, 2), net.on(R1, 3), net.on(R2, 2), net.on(R2, 3)];
        assert_eq!(links(&net), [5, 5, 3, 2, 5], "{style:?}");
        assert!([A, B, C].into_iter().all(|node| net.confirms(node).len() == 1), "{style:?}: each is confirmed");
        // B_Police: where less is reserved than on another branch.
        let branch = |net: &Net, node: usize, oif| net.nodes[node].env.terms_on(oif).police.branch;
        assert_eq!([branch(&net, R2, 2), branch(&net, R2, 3), branch(&net, R1, 3)], [true, false, true], "{style:?}");

        let start = net.now;
        net.leaves(B, session);
        net.run(ms(20));
        assert_eq!(links(&net), [3, 2, 3, 2, 0], "{style:?}");
        assert_eq!(net.count("ResvTear", start), 1, "beyond the merge it is a smaller Resv");
        assert!(!branch(&net, R1, 3) && branch(&net, R1, 2) && !branch(&net, R2, 2));
        net.leaves(C, session);
        net.run(ms(20));
        assert_eq!(links(&net), [2, 2, 0, 2, 0]);
        net.leaves(A, session);
        net.run(ms(20));
        assert_eq!((net.held(), net.resvs()), (vec![0; 6], vec![0; 6]));
    }
}

/// Section 2.6: a request no larger than what is in place goes no further, and is confirmed where it meets it.
#[test]
fn a_smaller_request_is_confirmed_at_the_merge() {
    let (mut net, session) = tree(false);
    let sender = net.sends(S, 1, session, 5004, 8);
    net.run(ms(10));
    net.shares(B, session, Style::Ff, &[sender], cl(5));
    net.run(ms(20));
    for mbps in [5, 2] {
        let start = net.now;
        net.shares(A, session, Style::Ff, &[sender], cl(mbps));
        net.run(ms(20));
        assert_eq!((net.count("Resv", start), net.count("ResvConf", start)), (1, 1), "one hop each way: {mbps}");
    }
    let start = net.now;
    net.shares(A, session, Style::Ff, &[sender], cl(6));
    net.run(ms(20));
    assert_eq!((net.count("Resv", start), net.count("ResvConf", start)), (3, 3), "a larger one goes all the way");
    assert_eq!(net.confirms(A).len(), 3);
}

/// Two services cannot be merged, on one interface or on two (error 21, value 1): the first stays.
#[test]
fn two_services_do_not_merge_on_the_way_up() {
    let (mut net, session) = tree(false);
    for node in 0..3 {
        net.nodes[node].env.guaranteed.extend((1..=3).map(|i| (IfIndex(i), (1500, 100))));
    }
    let sender = net.sends(S, 1, session, 5004, 8);
    net.run(ms(10));
    net.shares(A, session, Style::Wf, &[sender], cl(2));
    net.run(ms(20));
    net.shares(B, session, Style::Wf, &[sender], gs(2));
    net.run(ms(20));
    assert_eq!(net.errors(B).iter().map(|e| (e.code, e.value)).collect::<Vec<_>>(), [(21, 1)]);
    assert_eq!(([net.on(S, 1), net.on(R1, 2), net.on(R2, 2), net.on(R2, 3)], net.resvs()[B]), ([2, 2, 2, 0], 0));
}

/// A member that joins gets the Path by local repair, one that leaves takes its branch and what was reserved on it.
#[test]
fn branches_come_and_go_with_members() {
    let (mut net, session) = tree(false);
    net.members(&session, &[A]);
    let sender = net.sends(S, 1, session, 5004, 8);
    net.run(ms(10));
    assert_eq!(net.paths(), [1, 1, 1, 1, 0, 0]);
    net.shares(A, session, Style::Se, &[sender], cl(2));
    net.shares(C, session, Style::Se, &[sender], cl(6));
    net.run(ms(20));
    assert_eq!(net.held(), [2, 2, 2, 0, 0, 0]);
    net.members(&session, &[A, C]);
    net.run(ms(30));
    assert_eq!((net.paths(), net.held()), (vec![1, 1, 1, 1, 0, 1], vec![6, 8, 2, 0, 0, 0]));
    net.members(&session, &[A]);
    net.run(Span::from_secs(60));
    assert_eq!(net.held(), [2, 2, 2, 0, 0, 0], "the branch at once, the rest with the next refresh");
}

/// RFC 2209 section 2.1: a Path that comes in where multicast routing does not expect it is kept but not forwarded, and
/// nothing is reserved along it; when routing turns there, it is the path.
#[test]
fn a_path_on_the_wrong_interface_goes_nowhere() {
    // `s - r1 - r3 - m` and `r1 - r2 - r3`: r3 may be reached both ways. r3: 1 to r1, 2 to m, 3 to r2.
    let mut net = Net::new(false);
    for name in ["s", "r1", "r3", "m", "r2"] {
        net.node(name, config(R));
    }
    for (x, y) in [(0, 1), (1, 2), (2, 3), (1, 4), (4, 2)] {
        net.link(x, y);
    }
    let session = net.group(1);
    net.members(&session, &[3]);
    let sender = net.template_at(0);
    let key = (session.dst, sender.src);
    let oifs = |all: &[u32]| all.iter().copied().map(IfIndex).collect::<Oifs>();
    // r1 sends both ways, as it may while routing settles.
    net.nodes[1].env.trees.insert(key, MulticastTree { iif: Some(IfIndex(1)), oifs: oifs(&[2, 3]) });
    net.nodes[4].env.trees.insert(key, MulticastTree { iif: Some(IfIndex(1)), oifs: oifs(&[2]) });
    net.sends(0, 1, session, 5004, 3);
    net.run(ms(10));
    assert_eq!(net.paths(), [1, 1, 2, 1, 1]);
    let remembered: Vec<_> = net.engine(2).paths().filter(|p| p.remembered).collect();
    assert_eq!(remembered.len(), 1);
    assert!(remembered[0].out.oifs().is_empty());
    net.shares(3, session, Style::Ff, &[sender], cl(2));
    net.run(ms(20));
    assert_eq!((net.on(1, 2), net.on(1, 3), net.on(4, 2), net.on(2, 2)), (2, 0, 0, 2));

    // Routing turns: packets come in from r2 now. The old branch is torn, the new one asked.
    net.nodes[2].env.trees.insert(key, MulticastTree { iif: Some(IfIndex(3)), oifs: oifs(&[2]) });
    net.tell(2, Input::RouteChanged(Some((session.dst, 32))));
    net.run(ms(30));
    assert_eq!((net.on(1, 2), net.on(1, 3), net.on(4, 2), net.on(2, 2)), (0, 2, 2, 2));
    // A PathTear by the way that is only remembered takes nothing along.
    let mut m = net.upstream_of(2);
    (m.session, m.dst, m.template, m.hop.addr) = (session, session.dst, sender, net.interface(1, 2).addresses[0]);
    m.src = sender.src;
    net.inject(2, wire::MessageType::PathTear, &m);
    net.run(ms(10));
    assert_eq!((net.paths()[2], net.on(2, 2)), (1, 2));
}

/// A node with a Path from the wrong side only keeps it for its own receivers: nothing goes on.
#[test]
fn a_path_from_the_wrong_side_alone_serves_local_receivers() {
    let (mut net, session) = tree(false);
    let key = (session.dst, net.addr(S));
    net.nodes[R2]
        .env
        .trees
        .insert(key, MulticastTree { iif: Some(IfIndex(2)), oifs: [3].into_iter().map(IfIndex).collect() });
    receive(&mut net, R2, session);
    let sender = net.sends(S, 1, session, 5004, 3);
    net.run(ms(10));
    assert_eq!(net.paths(), [1, 1, 1, 0, 0, 1]);
    assert_eq!(net.heard(R2, |u| matches!(u, Upcall::Path { .. })), 1);
    net.shares(R2, session, Style::Wf, &[sender], cl(2));
    net.run(ms(20));
    assert_eq!((net.held(), net.confirms(R2).len()), (vec![2, 2, 0, 0, 0, 0], 1));
}

/// Two senders to the group share one reservation where their packets meet, and only there.
#[test]
fn senders_of_a_group_share_where_they_meet() {
    for style in [Style::Se, Style::Wf] {
        let (mut net, session) = tree(false);
        let senders = [net.sends(S, 1, session, 5004, 3), net.sends(C, 1, session, 5004, 3)];
        net.run(ms(10));
        net.shares(A, session, style, &senders, cl(3));
        net.run(ms(20));
        let all = |net: &Net| [net.on(S, 1), net.on(C, 1), net.on(R1, 2), net.on(R1, 3), net.on(R2, 2), net.on(R2, 3)];
        assert_eq!(all(&net), [3, 3, 3, 0, 3, 0], "{style:?}");
        let terms = net.nodes[R1].env.terms_on(2);
        assert_eq!((terms.path_te.r, terms.police.merge), (Rate::from_mbps(6), true));
        net.run(Span::from_secs(600));
        assert_eq!(all(&net), [3, 3, 3, 0, 3, 0], "{style:?}: refreshed");
    }
}

/// S13. A thousand next hops on one link merge into one reservation; they leave one by one.
#[test]
fn a_thousand_next_hops_merge_and_leave() {
    let (mut net, session) = tree(false);
    net.sends(S, 1, session, 5004, 8);
    net.run(ms(10));
    let mut m = net.downstream_of(R2);
    (m.iif, m.hop.lih, m.session, m.style) = (IfIndex(2), 2, session, Style::Wf);
    m.dst = net.interface(R2, 2).addresses[0];
    let addr = |n: usize| std::net::IpAddr::from([10, 9, (n / 250) as u8, (n % 250) as u8 + 1]);
    for n in 0..1_000 {
        (m.hop.addr, m.flowspec) = (addr(n), cl(1 + n as u64 % 10));
        net.inject(R2, wire::MessageType::Resv, &m);
        net.run(ms(1));
    }
    assert_eq!((net.resvs()[R2], net.on(R2, 2), net.on(R1, 2)), (1_000, 10, 10));
    for n in 0..999 {
        m.hop.addr = addr(n);
        net.inject(R2, wire::MessageType::ResvTear, &m);
        net.run(ms(1));
    }
    net.run(ms(10));
    assert_eq!((net.resvs()[R2], net.on(R2, 2), net.on(R1, 2)), (1, 10, 10));
    m.hop.addr = addr(999);
    net.inject(R2, wire::MessageType::ResvTear, &m);
    net.run(ms(10));
    assert_eq!(net.held(), [0; 6]);
}
