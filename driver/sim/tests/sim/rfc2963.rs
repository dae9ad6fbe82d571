//! The network of RFC 2963, appendix A, for a part of its time: what its tables A.2 and A.3 show.

use sim::World;
use sim::scenario::TcpId;
use sim::scenarios::rfc2963::{Params, Rfc2963, Shaping, rfc2963};
use terms::{Bytes, Span};

/// Offered load of each customer router in kbit/s, by colour and in all, with headers, before drops.
fn offered(world: &World, built: &Rfc2963) -> Vec<[u64; 4]> {
    let millis = (built.scenario.measured.1 - built.scenario.measured.0).as_millis();
    let of = |n: usize| {
        let report = world.egress(built.customers[n].uplink, 0);
        let [green, yellow, red] = report.offered.map(|tally| tally.bytes * 8 / millis);
        [green, yellow, red, report.total().bytes * 8 / millis]
    };
    (0..built.customers.len()).map(of).collect()
}

fn play(params: &Params) -> (World, Rfc2963) {
    let built = rfc2963(params);
    let mut world = World::new(&built.scenario).expect("it can be played");
    world.run_until(built.scenario.measured.1);
    world.check().expect("every law holds");
    (world, built)
}

fn short(shaping: Shaping) -> Params {
    Params { shaping, duration: Span::from_secs(32), ..Params::default() }
}

#[test]
fn a_small_burst_size_leaves_the_shaped_ahead_in_all_five_pairs() {
    for shaping in [Shaping::TrRas, Shaping::Green] {
        let (world, built) = play(&short(shaping));
        let load = offered(&world, &built);
        let total: u64 = load.iter().map(|row| row[3]).sum();
        assert!((68_000..75_000).contains(&total), "the bottleneck of 70 Mbit/s is full: {total} kbit/s");
        for n in 0..5 {
            let (plain, shaped) = (load[n], load[n + 5]);
            assert!(shaped[3] > plain[3] * 102 / 100, "{shaping:?}: C{} {plain:?}, C{} {shaped:?}", n + 1, n + 6);
            assert!(shaped[0] > plain[0], "more of it is green");
            let cir = built.customers[n].cir.as_bps() / 1_000;
            assert!(shaped[0] <= cir && shaped[0] > cir * 80 / 100, "green of {shaped:?} at {cir}");
        }
    }
}

#[test]
fn a_large_burst_size_makes_the_shaper_a_burden() {
    let (world, built) = play(&Params { cbs: Bytes::new(200_000), ..short(Shaping::TrRas) });
    let load = offered(&world, &built);
    assert!((0..5).all(|n| load[n + 5][3] < load[n][3]), "{load:?}");
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let quick = |seed| Params { duration: Span::from_secs(5), seed, ..Params::default() };
    let [a, b, c] = [7, 7, 8].map(|seed| play(&quick(seed)).0);
    assert_eq!((a.story().hash(), a.events()), (b.story().hash(), b.events()));
    assert_ne!(a.story().hash(), c.story().hash());
    assert_eq!(
        (0..100).map(|n| a.tcp(TcpId(n))).collect::<Vec<_>>(),
        (0..100).map(|n| b.tcp(TcpId(n))).collect::<Vec<_>>()
    );
}
