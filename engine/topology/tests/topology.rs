//! What is believed, what is free in coarse steps, and paths over domains, held against every path there is.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use terms::{Rate, Span, Time};
use topology::coarse::{Grain, coarse, joined};
use topology::{
    Advertisement, Border, BorderPair, DomainPath, DomainPort, FreeStep, Network, PathNeed, TopologyMap, Unfit,
};

const NOW: Time = Time::from_nanos(1_000_000_000_000);

fn at(seconds: u64) -> Time {
    NOW + Span::from_secs(seconds)
}

fn link(number: u8) -> Network {
    Network::of(IpAddr::from([192, 0, 2, number * 4]), 30)
}

fn border(neighbour: &str, number: u8) -> DomainPort {
    DomainPort::At(Border { neighbour: neighbour.into(), link: link(number) })
}

fn pair(from: &DomainPort, to: &DomainPort, cost: u32, free: u64) -> BorderPair {
    let rate = Rate::from_mbps(100);
    let free = vec![FreeStep { start: Time::ZERO, rate: Rate::from_mbps(free) }];
    BorderPair { from: from.clone(), to: to.clone(), rate, cost, free }
}

fn advertisement(domain: &str, inside: [u8; 4], pairs: Vec<BorderPair>) -> Advertisement {
    let networks = vec![Network::of(IpAddr::from(inside), 24)];
    Advertisement { domain: domain.into(), number: 1, issued: NOW, until: at(600), networks, pairs }
}

fn need(mbps: u64) -> PathNeed<'static> {
    static MINUTE: [(Time, Time); 1] = [(NOW, Time::from_nanos(1_060_000_000_000))];
    PathNeed { rate: Rate::from_mbps(mbps), windows: &MINUTE }
}

fn line(path: &DomainPath) -> String {
    let name = |port: &DomainPort| match port {
        DomainPort::Inside => "-".to_owned(),
        DomainPort::At(border) => format!("{}", border.link.address()),
    };
    let hops: Vec<String> =
        path.hops.iter().map(|hop| format!("{}({} {})", hop.domain, name(&hop.from), name(&hop.to))).collect();
    format!("{}: {}", path.cost, hops.join(" "))
}

/// anl and lbnl, with esnet (cheap) and mren (dear) between them.
fn four() -> TopologyMap {
    let (anl_esnet, anl_mren) = (border("esnet", 1), border("mren", 2));
    let (lbnl_esnet, lbnl_mren) = (border("esnet", 3), border("mren", 4));
    let through = |domain: &str, inside: u8, links: [u8; 2], cost: u32, free: u64| {
        let (a, b) = (border("anl", links[0]), border("lbnl", links[1]));
        advertisement(domain, [10, 0, inside, 0], vec![pair(&a, &b, cost, free), pair(&b, &a, cost, free)])
    };
    let all = [
        advertisement(
            "anl",
            [10, 0, 1, 0],
            vec![
                pair(&DomainPort::Inside, &anl_esnet, 1, 50),
                pair(&DomainPort::Inside, &anl_mren, 1, 50),
                pair(&anl_esnet, &DomainPort::Inside, 1, 50),
                pair(&anl_mren, &DomainPort::Inside, 1, 50),
            ],
        ),
        through("esnet", 2, [1, 3], 2, 20),
        through("mren", 3, [2, 4], 5, 90),
        advertisement(
            "lbnl",
            [10, 0, 4, 0],
            vec![
                pair(&lbnl_esnet, &DomainPort::Inside, 1, 50),
                pair(&lbnl_mren, &DomainPort::Inside, 1, 50),
                pair(&DomainPort::Inside, &lbnl_esnet, 1, 50),
            ],
        ),
    ];
    let mut map = TopologyMap::default();
    for one in all {
        let domain = one.domain.clone();
        map.take(NOW, &domain, one).unwrap();
    }
    map
}

fn paths(map: &TopologyMap, from: [u8; 4], to: [u8; 4], need: PathNeed<'_>) -> Vec<String> {
    map.paths(NOW, from.into(), to.into(), need, 4).iter().map(line).collect()
}

#[test]
fn by_least_cost_and_where_that_is_full_by_room() {
    let map = four();
    let esnet = "4: anl(- 192.0.2.4) esnet(192.0.2.4 192.0.2.12) lbnl(192.0.2.12 -)";
    let mren = "7: anl(- 192.0.2.8) mren(192.0.2.8 192.0.2.16) lbnl(192.0.2.16 -)";
    assert_eq!(paths(&map, [10, 0, 1, 9], [10, 0, 4, 9], need(10)), [esnet, mren]);
    assert_eq!(paths(&map, [10, 0, 1, 9], [10, 0, 4, 9], need(30)), [mren], "esnet has 20 Mb/s");
    assert!(paths(&map, [10, 0, 1, 9], [10, 0, 4, 9], need(60)).is_empty(), "anl has 50 Mb/s");
    assert_eq!(paths(&map, [10, 0, 1, 9], [10, 0, 4, 9], need(0)).len(), 2);
    // lbnl publishes no way out to mren.
    assert_eq!(paths(&map, [10, 0, 4, 9], [10, 0, 1, 9], need(30)), Vec::<String>::new());
    assert_eq!(paths(&map, [10, 0, 1, 9], [10, 0, 1, 8], need(30)), ["0: anl(- -)"]);
    assert!(paths(&map, [10, 9, 9, 9], [10, 0, 1, 8], need(1)).is_empty());
}

#[test]
fn a_border_counts_only_if_both_sides_publish_it() {
    let mut map = four();
    let (anl, far) = (border("anl", 1), border("lbnl", 3));
    let other = border("anl", 9);
    let pairs = vec![pair(&other, &far, 1, 90), pair(&anl, &other, 1, 90)];
    let moved = Advertisement { number: 2, ..advertisement("esnet", [10, 0, 2, 0], pairs) };
    map.take(NOW, "esnet", moved).unwrap();
    let found = paths(&map, [10, 0, 1, 9], [10, 0, 4, 9], need(10));
    assert!(found.len() == 1 && found[0].contains("mren"), "{found:?}");
}

#[test]
fn what_is_forged_old_or_too_much_is_not_believed() {
    let mut map = four();
    let good = advertisement("esnet", [10, 0, 2, 0], vec![pair(&border("anl", 1), &border("lbnl", 3), 1, 90)]);
    let before = map.clone();
    let second = |change: &dyn Fn(&mut Advertisement)| {
        let mut one = Advertisement { number: 2, ..good.clone() };
        change(&mut one);
        one
    };
    let steps = |times: &[u64]| times.iter().map(|s| FreeStep { start: at(*s), rate: Rate::ZERO }).collect::<Vec<_>>();
    for (signer, one, why) in [
        ("mren", second(&|_| {}), Unfit::NotItsOwn),
        ("esnet", second(&|one| one.number = 1), Unfit::NotNewer),
        ("esnet", second(&|one| one.until = NOW), Unfit::Time),
        ("esnet", second(&|one| one.until = at(4_000)), Unfit::Time),
        ("esnet", second(&|one| (one.issued, one.until) = (at(9_000), at(9_100))), Unfit::Time),
        ("esnet", second(&|one| one.networks = vec![link(1); 5_000]), Unfit::TooMuch),
        ("esnet", second(&|one| one.pairs[0].free = steps(&[1; 600])), Unfit::TooMuch),
        ("esnet", second(&|one| one.pairs[0].free = steps(&[5, 5])), Unfit::Malformed),
        ("esnet", second(&|one| one.pairs[0].cost = 0), Unfit::Malformed),
        ("esnet", second(&|one| one.pairs.push(one.pairs[0].clone())), Unfit::Malformed),
        ("esnet", second(&|one| one.pairs[0].to = one.pairs[0].from.clone()), Unfit::Malformed),
        ("esnet", second(&|one| one.pairs[0].to = border("esnet", 7)), Unfit::Malformed),
    ] {
        assert_eq!(map.take(NOW, signer, one.clone()), Err(why), "{one:?}");
        assert_eq!(map, before);
    }
    map.take(NOW, "esnet", second(&|_| {})).unwrap();
    // What is over is forgotten, and its number is not: it cannot be played again.
    map.pass(at(600));
    assert_eq!(map.all().count(), 0);
    let again = Advertisement { issued: at(600), until: at(700), ..second(&|_| {}) };
    assert_eq!(map.take(at(601), "esnet", again), Err(Unfit::NotNewer));
}

#[test]
fn free_over_time() {
    let step = |s, mbps| FreeStep { start: at(s), rate: Rate::from_mbps(mbps) };
    let exact = [step(0, 80), step(70, 33), step(80, 80), step(200, 7)];
    let grain = Grain { step: Span::from_secs(60), unit: Rate::from_mbps(10) };
    // Intervals of a minute: NOW is 1,000 s, so that they begin at 960, 1,020, 1,080 s ...
    let found = coarse(&exact, NOW, at(240), grain);
    let line: Vec<(i64, u64)> =
        found.iter().map(|step| (step.start.as_secs() as i64 - 1_000, step.rate.as_bps() / 1_000_000)).collect();
    assert_eq!(line, [(-40, 80), (20, 30), (80, 80), (200, 0)]);
    let whole = BorderPair { free: found, ..pair(&DomainPort::Inside, &border("b", 1), 1, 0) };
    for (from, until, mbps) in [(0, 10, 80), (0, 30, 30), (85, 200, 80), (85, 201, 0), (500, 600, 0)] {
        assert_eq!(whole.free_in(at(from), at(until)), Rate::from_mbps(mbps), "{from}..{until}");
    }
    assert_eq!(whole.free_in(Time::ZERO, at(1)), Rate::ZERO, "before all steps nothing is known");
}

#[test]
fn a_path_has_room_in_every_window() {
    let mut map = four();
    // esnet is full from the hundredth to the two hundredth second.
    let full = |pair: BorderPair| {
        let step = |s, mbps| FreeStep { start: at(s), rate: Rate::from_mbps(mbps) };
        BorderPair { free: vec![step(0, 20), step(100, 0), step(200, 20)], ..pair }
    };
    let pairs = vec![full(pair(&border("anl", 1), &border("lbnl", 3), 2, 0))];
    let esnet = Advertisement { number: 2, ..advertisement("esnet", [10, 0, 2, 0], pairs) };
    map.take(NOW, "esnet", esnet).unwrap();
    let first = |windows: &[(u64, u64)]| {
        let windows: Vec<(Time, Time)> = windows.iter().map(|(start, end)| (at(*start), at(*end))).collect();
        let need = PathNeed { rate: Rate::from_mbps(10), windows: &windows };
        let found = map.paths(NOW, [10, 0, 1, 9].into(), [10, 0, 4, 9].into(), need, 4);
        (found[0].hops[1].domain.clone(), map.free_on(&found[0], need).unwrap().as_bps() / 1_000_000)
    };
    assert_eq!(first(&[(0, 100)]), ("esnet".to_owned(), 20));
    assert_eq!(first(&[(0, 100), (200, 300)]), ("esnet".to_owned(), 20));
    assert_eq!(first(&[(0, 100), (199, 201)]), ("mren".to_owned(), 50));
    // A way that is not published any more has nothing free.
    let need = need(10);
    let over_esnet = map.paths(NOW, [10, 0, 1, 9].into(), [10, 0, 4, 9].into(), need, 4).remove(0);
    map.take(NOW, "esnet", Advertisement { number: 3, ..advertisement("esnet", [10, 0, 2, 0], Vec::new()) }).unwrap();
    assert_eq!(map.free_on(&over_esnet, need), Some(Rate::ZERO));
    let inside = map.paths(NOW, [10, 0, 1, 9].into(), [10, 0, 1, 8].into(), need, 4).remove(0);
    assert_eq!(map.free_on(&inside, need), None);
}

#[test]
fn numbers_that_were_kept_refuse_what_is_old() {
    let numbers = four().numbers().clone();
    assert_eq!(numbers.len(), 4);
    let mut again = TopologyMap::with_numbers(numbers);
    let old = advertisement("esnet", [10, 0, 2, 0], Vec::new());
    assert_eq!(again.take(NOW, "esnet", old.clone()), Err(Unfit::NotNewer));
    assert_eq!(again.take(NOW, "esnet", Advertisement { number: 2, ..old }), Ok(()));
}

/// Amounts over time with a step at each second that is named.
fn over_time() -> impl Strategy<Value = Vec<FreeStep>> {
    proptest::collection::btree_map(0..40u64, 0..9u64, 0..8).prop_map(|steps| {
        steps.into_iter().map(|(s, mbps)| FreeStep { start: at(s), rate: Rate::from_mbps(mbps) }).collect()
    })
}

/// What is free at a moment, by looking at all steps.
fn free_at(steps: &[FreeStep], moment: Time) -> Rate {
    steps.iter().rfind(|step| step.start <= moment).map_or(Rate::ZERO, |step| step.rate)
}

/// A random net of domains d0 .. d5 with links between some, and a pair between any two ports of a domain.
fn net() -> impl Strategy<Value = Vec<Advertisement>> {
    let links = proptest::collection::vec((0..6usize, 0..6usize, any::<bool>()), 0..10);
    (links, proptest::collection::vec((1..5u32, 0..4u64), 200)).prop_map(|(links, ways)| {
        let mut ports: BTreeMap<usize, Vec<DomainPort>> = (0..6).map(|d| (d, vec![DomainPort::Inside])).collect();
        for (number, (a, b, both)) in links.into_iter().enumerate().filter(|(_, (a, b, _))| a != b) {
            ports.entry(a).or_default().push(border(&format!("d{b}"), number as u8));
            if both {
                ports.entry(b).or_default().push(border(&format!("d{a}"), number as u8));
            }
        }
        let mut ways = ways.into_iter().cycle();
        let of = |(domain, ports): (usize, Vec<DomainPort>)| {
            let all = ports.iter().flat_map(|from| ports.iter().map(move |to| (from, to)));
            let mut pairs = Vec::new();
            for (from, to) in all.filter(|(from, to)| from != to) {
                let (cost, free) = ways.next().unwrap();
                if free > 0 {
                    pairs.push(pair(from, to, cost, free * 10));
                }
            }
            advertisement(&format!("d{domain}"), [10, 0, domain as u8, 0], pairs)
        };
        ports.into_iter().map(of).collect()
    })
}

/// The least cost of any path, by trying all of them.
fn cheapest(
    all: &[Advertisement],
    domain: &str,
    from: &DomainPort,
    goal: &str,
    mbps: u64,
    seen: &mut Vec<(String, DomainPort)>,
) -> Option<u64> {
    let place = (domain.to_owned(), from.clone());
    if seen.contains(&place) {
        return None;
    }
    seen.push(place);
    let own = all.iter().find(|one| one.domain == domain).unwrap();
    let mut least: Option<u64> = None;
    for way in own.pairs.iter().filter(|way| way.from == *from && way.free[0].rate >= Rate::from_mbps(mbps)) {
        let rest = match &way.to {
            DomainPort::Inside if domain == goal => Some(0),
            DomainPort::Inside => None,
            DomainPort::At(border) => {
                let other = all.iter().find(|one| one.domain == border.neighbour).unwrap();
                let back = DomainPort::At(Border { neighbour: domain.to_owned(), link: border.link });
                let there = other.pairs.iter().any(|pair| pair.from == back);
                there.then(|| cheapest(all, &border.neighbour, &back, goal, mbps, seen)).flatten()
            }
        };
        let found = rest.map(|rest| rest + u64::from(way.cost));
        least = [least, found].into_iter().flatten().min();
    }
    seen.pop();
    least
}

proptest! {
    #![proptest_config(chance::cases(256))]
    #[test]
    fn the_first_path_is_the_cheapest_of_all_and_each_has_room(all in net(), mbps in 0..4u64) {
        let mut map = TopologyMap::default();
        for one in &all {
            map.take(NOW, &one.domain, one.clone()).unwrap();
        }
        let mbps = mbps * 10;
        for goal in 1..6u8 {
            let found = map.paths(NOW, [10, 0, 0, 9].into(), [10, 0, goal, 9].into(), need(mbps), 4);
            let least = cheapest(&all, "d0", &DomainPort::Inside, &format!("d{goal}"), mbps, &mut Vec::new());
            prop_assert_eq!(found.first().map(|path| path.cost), least);
            for path in &found {
                let pairs: Vec<&BorderPair> = path.hops.iter().map(|hop| {
                    let own = map.of(&hop.domain).unwrap();
                    own.pairs.iter().find(|pair| pair.from == hop.from && pair.to == hop.to).unwrap()
                }).collect();
                prop_assert!(pairs.iter().all(|pair| pair.free[0].rate >= Rate::from_mbps(mbps)));
                prop_assert_eq!(path.cost, pairs.iter().map(|pair| u64::from(pair.cost)).sum::<u64>());
                prop_assert!(path.cost >= found[0].cost);
            }
        }
    }

    #[test]
    fn two_amounts_are_joined_at_every_moment(a in over_time(), b in over_time()) {
        for join in [Rate::min, Rate::max] {
            let both = joined(&a, &b, join);
            for second in 0..42 {
                let moment = at(second);
                prop_assert_eq!(free_at(&both, moment), join(free_at(&a, moment), free_at(&b, moment)));
            }
            prop_assert!(both.windows(2).all(|two| two[0].start < two[1].start && two[0].rate != two[1].rate));
        }
    }
}

#[test]
fn a_network_has_so_many_addresses() {
    let network = Network::of("10.0.3.2".parse().unwrap(), 30);
    let nth = |number| network.nth(number).map(|address| address.to_string());
    assert_eq!((nth(0).as_deref(), nth(3).as_deref(), nth(4)), (Some("10.0.3.0"), Some("10.0.3.3"), None));
    assert_eq!(Network::of("fd00:1::2".parse().unwrap(), 64).nth(9).unwrap().to_string(), "fd00:1::9");
}
