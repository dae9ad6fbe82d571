//! The special cases against the general tree: a conditioner before a FIFO, and a RIO, do packet for packet what
//! `traffic::tree` does; and a broken law can be played up to.

use sim::World;
use sim::scenario::{EgressSpec, Queue, Scenario, TcpId};
use sim::scenarios::rfc2963::{Params, Shaping, rfc2963};
use terms::{Bytes, Rate, Span, Time};
use traffic::plan::QueueSpec;
use traffic::tree::{LeafSpec, LinkShape, NodeKind, SchedulerKind, TreeNodeSpec, TreeShare, TreeSpec};

/// The same with a tree of one leaf in place of each conditioner.
fn with_trees(mut scenario: Scenario) -> Scenario {
    for egress in &mut scenario.egress {
        let EgressSpec { link, conditioner, queue, .. } = egress;
        let Some(conditioner) = conditioner.take() else { continue };
        let leaf = LeafSpec {
            rules: Vec::new(),
            shaper: conditioner.shaper.map(bounded),
            meter: conditioner.meter,
            marker: Some(conditioner.marker),
            dropper: None,
            queue: QueueSpec { packets: 10_000, bytes: Bytes::new(20_000_000) },
        };
        let node = TreeNodeSpec {
            name: "all".into(),
            parent: None,
            share: TreeShare::Priority(0),
            kind: NodeKind::Leaf(Box::new(leaf)),
        };
        let rate = scenario.links[link.0].rate;
        let link = LinkShape { rate, overhead: 0, scheduler: SchedulerKind::Priority };
        *queue = Queue::Tree(Box::new(TreeSpec { link, nodes: vec![node] }));
    }
    scenario
}

/// A tree has no buffers of a terabyte.
fn bounded(shaper: traffic::tree::ShaperSpec) -> traffic::tree::ShaperSpec {
    match shaper {
        traffic::tree::ShaperSpec::TrRas { rates, thresholds, ras } => {
            let ras = traffic::tree::RasSpec { buffer: Bytes::new(10_000_000), ..ras };
            traffic::tree::ShaperSpec::TrRas { rates, thresholds, ras }
        }
        other => other,
    }
}

fn play(scenario: &Scenario) -> World {
    let mut world = World::new(scenario).unwrap_or_else(|why| panic!("{}", why.what));
    world.run_until(scenario.measured.1);
    world.check().expect("every law holds");
    world
}

#[test]
fn a_conditioner_is_a_tree_of_one_leaf() {
    for shaping in [Shaping::None, Shaping::TrRas, Shaping::Green] {
        let built = rfc2963(&Params { shaping, duration: Span::from_secs(6), ..Params::default() });
        let (special, general) = (play(&built.scenario), play(&with_trees(built.scenario.clone())));
        for customer in &built.customers {
            let [a, b] = [&special, &general].map(|world| world.egress(customer.uplink, 0));
            assert_eq!(a.offered, b.offered, "{shaping:?}: colours of {:?}", customer.node);
        }
        for n in 0..100 {
            assert_eq!(special.tcp(TcpId(n)), general.tcp(TcpId(n)), "{shaping:?}: connection {n}");
        }
    }
}

#[test]
fn a_tree_for_another_link_is_refused() {
    let built = rfc2963(&Params::default());
    let mut scenario = with_trees(built.scenario);
    scenario.links[built.customers[0].uplink.0].rate = Rate::from_mbps(33);
    let why = World::new(&scenario).err().expect("refused").what;
    assert!(why.contains("the tree is for 34") && why.contains("33"), "{why}");
}

#[test]
fn a_step_can_be_played_up_to() {
    let built = rfc2963(&Params { duration: Span::from_secs(4), ..Params::default() });
    let mut whole = World::new(&built.scenario).expect("it can be played");
    whole.run_until(Time::ZERO + Span::from_secs(3));
    let mut again = World::new(&built.scenario).expect("it can be played");
    assert!(again.run_to_step(whole.events()));
    assert_eq!((again.story().hash(), again.events()), (whole.story().hash(), whole.events()));
}
