//! Paths through what agents publish: a chain, a diamond, hosts that are no agents, and random graphs against trying
//! every way.

use booking::path::{Graph, Nowhere, PublishedLink};
use std::collections::BTreeSet;
use std::net::IpAddr;

fn interface(agent: &str, address: &str, cost: u32) -> PublishedLink {
    let (address, prefix) = address.split_once('/').unwrap();
    let resource = format!("net/{agent}-{address}");
    let (address, prefix) = (address.parse().unwrap(), prefix.parse().unwrap());
    PublishedLink { agent: agent.to_owned(), resource, address, prefix, cost }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// h1 (a host) - r1 - (r2 or r3) - r4 - h2 (an agent).
fn diamond() -> Graph {
    Graph::new(vec![
        interface("r1", "10.0.1.1/24", 1),
        interface("r1", "10.0.12.1/24", 1),
        interface("r1", "10.0.13.1/24", 1),
        interface("r2", "10.0.12.2/24", 1),
        interface("r2", "10.0.24.2/24", 1),
        interface("r3", "10.0.13.3/24", 1),
        interface("r3", "10.0.34.3/24", 5),
        interface("r4", "10.0.24.4/24", 1),
        interface("r4", "10.0.34.4/24", 1),
        interface("r4", "10.0.4.4/24", 1),
        interface("h2", "10.0.4.9/24", 1),
    ])
}

#[test]
fn the_shortest_and_the_one_that_has_the_room() {
    let g = diamond();
    let (from, to) = (ip("10.0.1.77"), ip("10.0.4.9"));
    assert_eq!(g.shortest(from, to, |_| true), Ok(Some(vec![1, 4, 9])));
    // r2 has no room: by r3, though it costs more.
    assert_eq!(g.shortest(from, to, |n| n != 4), Ok(Some(vec![2, 6, 9])));
    assert_eq!(g.ways(from, to, 3, |_| true), Ok(vec![vec![1, 4, 9], vec![2, 6, 9]]));
    assert_eq!(g.shortest(from, to, |n| n != 9), Ok(None));
    // To a host on the far subnet that is no agent, and back.
    assert_eq!(g.shortest(from, ip("10.0.4.5"), |_| true), Ok(Some(vec![1, 4, 9])));
    assert_eq!(g.shortest(to, from, |_| true), Ok(Some(vec![10, 7, 3, 0])));
    assert_eq!(g.shortest(from, from, |_| true), Ok(Some(vec![])));
    assert_eq!(g.shortest(from, ip("192.0.2.1"), |_| true), Err(Nowhere(ip("192.0.2.1"))));
    assert_eq!(g.shortest(ip("::1"), to, |_| true), Err(Nowhere(ip("::1"))));
}

/// Every way without going anywhere twice; the least cost.
fn by_trying(g: &Graph, at: &str, goal: &str, seen: &mut BTreeSet<String>, usable: &[bool]) -> Option<u64> {
    if at == goal {
        return Some(0);
    }
    seen.insert(at.to_owned());
    let mut least = None;
    for (n, out) in g.interfaces().iter().enumerate().filter(|(n, i)| i.agent == at && usable[*n]) {
        let net = |i: &PublishedLink| i.address.to_string().rsplit_once('.').unwrap().0.to_owned();
        for peer in g.interfaces().iter().filter(|i| net(i) == net(out) && i.agent != at) {
            if seen.contains(&peer.agent) {
                continue;
            }
            let rest =
                by_trying(g, &peer.agent, goal, seen, usable).map(|rest| rest + u64::from(g.interfaces()[n].cost));
            least = [least, rest].into_iter().flatten().min();
        }
    }
    seen.remove(at);
    least
}

#[test]
fn random_graphs_against_trying_every_way() {
    let mut state = 7_u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut found = 0;
    for _ in 0..400 {
        let agents = 3 + draw(4);
        let mut all: Vec<PublishedLink> = Vec::new();
        for net in 0..3 + draw(5) {
            let (a, b) = (draw(agents), draw(agents));
            if a != b {
                let cost = 1 + draw(4) as u32;
                all.push(interface(&format!("a{a}"), &format!("10.0.{net}.1/24"), cost));
                all.push(interface(&format!("a{b}"), &format!("10.0.{net}.2/24"), 1 + draw(4) as u32));
            }
        }
        let g = Graph::new(all);
        let usable: Vec<bool> = g.interfaces().iter().map(|_| draw(5) > 0).collect();
        let [Some(from), Some(to)] = [0, 1].map(|n| g.interfaces().iter().find(|i| i.agent == format!("a{n}"))) else {
            continue;
        };
        let path = g.shortest(from.address, to.address, |n| usable[n]).unwrap();
        let cost = path.map(|path| path.iter().map(|&n| u64::from(g.interfaces()[n].cost)).sum::<u64>());
        let wanted = by_trying(&g, "a0", "a1", &mut BTreeSet::new(), &usable);
        assert_eq!(cost, wanted, "{:?} {usable:?}", g.interfaces());
        found += usize::from(wanted.is_some());
    }
    assert!(found > 50, "{found}");
}
