//! A direction of a link that recognises flows which never signalled, in worlds of ordinary sources.

use sim::mace::{ApplicationList, RuleTerms};
use sim::map::address;
use sim::scenario::{EgressSpec, MaceReport, MaceSpec, PoolSpec, Queue, ScenarioAction};
use sim::{LinkId, NodeId, Scenario, SendPattern, SimLinkSpec, SimNodeSpec, SourceId, SourceSpec, World};
use terms::{FlowKey, Rate, Span, Time, Wild};
use traffic::port::SchedulerKind;

const LIST: &str = "phone udp 5004 64kbit 4kb 10 10s 320b\nvideo udp 6000-6001 1mbit 16kb 5 10s\n";
const LINK: LinkId = LinkId(0);

fn seconds(n: u64) -> Time {
    Time::ZERO + Span::from_secs(n)
}

fn source(port: (u16, u16), packet: u32, rate: Rate, until: u64) -> SourceSpec {
    let flow = FlowKey {
        src: address(LINK, 0),
        dst: address(LINK, 1),
        protocol: 17,
        src_port: port.0,
        dst_port: port.1,
        wild: Wild::NONE,
    };
    let pattern = SendPattern::Cbr { rate, jitter_percent: 50 };
    SourceSpec { node: NodeId(0), flow, packet, pattern, from: Time::ZERO, until: seconds(until) }
}

fn phone(port: u16, until: u64) -> SourceSpec {
    source((port, 5004), 320, Rate::from_kbps(64), until)
}

/// 13 Mb/s of packets of no application, on 10.
fn flood() -> SourceSpec {
    source((9, 9), 800, Rate::from_mbps(13), 60)
}

fn spec(allocated: Rate) -> MaceSpec {
    let list = ApplicationList::parse(LIST).expect("a list");
    MaceSpec { period: Span::from_secs(1), ..MaceSpec::new(list, allocated, RuleTerms::SimpleSum) }
}

fn scenario(sources: Vec<SourceSpec>, mace: MaceSpec) -> Scenario {
    let node = |name: &str| SimNodeSpec { agent: false, ..SimNodeSpec::new(name, Span::from_secs(30)) };
    let delay = Span::from_millis(1);
    let link = SimLinkSpec::ethernet(NodeId(0), NodeId(1), Rate::from_mbps(10), delay, SchedulerKind::Priority);
    Scenario {
        seed: 5,
        nodes: vec![node("router"), node("far")],
        links: vec![link],
        egress: vec![EgressSpec { link: LINK, side: 0, conditioner: None, queue: Queue::Mace(Box::new(mace)) }],
        queue: Queue::UNLIMITED,
        sources,
        measured: (Time::ZERO, seconds(60)),
        ..Scenario::default()
    }
}

fn played(scenario: &Scenario) -> (World, MaceReport) {
    let mut world = World::new(scenario).unwrap_or_else(|wrong| panic!("{}", wrong.what));
    world.run_until(seconds(61));
    world.check().unwrap_or_else(|broken| panic!("{broken}"));
    let report = world.mace(LINK, 0).expect("a report");
    (world, report)
}

fn refused(scenario: &Scenario) -> String {
    World::new(scenario).map(|_| ()).expect_err("it cannot be played").what
}

#[test]
fn flows_are_recognised_protected_and_demoted_when_silent() {
    let sources = vec![phone(1, 60), phone(2, 20), flood()];
    let (world, report) = played(&scenario(sources, spec(Rate::from_mbps(3))));
    assert_eq!((report.asked, report.admitted, report.refused, report.silent), (2, 2, 0, 1));
    assert_eq!((report.most_flows, world.mace_queue(LINK, 0).unwrap().engine().promoted().len()), (2, 1));
    // The second is there for about 30 of 60 s: until its last packet, and its timeout.
    assert!((report.mean_flows - 1.5).abs() < 0.05, "{report:?}");
    let [first, second] = report.levels;
    assert_eq!(
        (first.dropped, first.longest_wait < 1_000_000),
        (0, true),
        "it waits for the packet on the link: {first:?}"
    );
    assert!(second.dropped * 10 > second.offered * 2, "{second:?}");
    // What the phones sent before they were recognised may have been lost.
    assert!(world.flow(SourceId(0)).lost() < 10 && world.flow(SourceId(2)).loss_ppm() > 200_000);
    // Green is controlled load, yellow best effort.
    let egress = world.egress(LINK, 0);
    assert_eq!((egress.offered[0].packets, egress.offered[1].packets), (first.offered, second.offered));
    assert_eq!((egress.dropped[0].packets, egress.dropped[1].packets), (0, second.dropped));
}

#[test]
fn what_exceeds_its_bucket_is_best_effort() {
    let greedy = source((1, 5004), 320, Rate::from_kbps(256), 60);
    let (world, report) = played(&scenario(vec![greedy, flood()], spec(Rate::from_mbps(3))));
    let [first, _] = report.levels;
    let kept = first.sent_bytes as f64 * 8.0 / 60.0 * 320.0 / 334.0;
    assert!((kept / 64_000.0 - 1.0).abs() < 0.03, "64 kbit/s of IP bytes keep to the bucket: {kept}");
    assert!(world.flow(SourceId(0)).loss_ppm() > 100_000, "three of four packets share the flood's losses");
}

#[test]
fn controlled_load_pushes_best_effort_out_and_loses_only_beside_its_own() {
    // At most one packet of each of nine flows comes at a time, and the flood fills whatever there is.
    let video = |port| source((port, 6000), 800, Rate::from_mbps(1), 60);
    let mut sources: Vec<SourceSpec> = (1..=9).map(video).collect();
    sources.push(flood());
    let small = MaceSpec { packets: 10, ..spec(Rate::from_mbps(10)) };
    let (_, report) = played(&scenario(sources.clone(), small.clone()));
    assert_eq!((report.admitted, report.levels[0].dropped), (9, 0), "{report:?}");
    let (world, report) = played(&scenario(sources, MaceSpec { packets: 1, ..small }));
    assert!(report.levels[0].dropped > 0, "a buffer of one packet does not hold two: {report:?}");
    assert!(world.mace_queue(LINK, 0).unwrap().packets() <= 1);
}

#[test]
fn no_more_flows_than_allowed_and_a_refused_one_waits() {
    let one = MaceSpec { max_flows: 1, refused_for: Span::from_secs(20), ..spec(Rate::from_mbps(3)) };
    let (world, report) = played(&scenario(vec![phone(1, 60), phone(2, 60)], one));
    assert_eq!((report.most_flows, report.admitted), (1, 1));
    // At its tenth packet, and each time its refusal is over and ten more have come.
    assert_eq!(report.refused, 3);
    let samples = world.mace_queue(LINK, 0).unwrap().samples();
    // From 0 to 60 s.
    assert_eq!((samples.len(), samples[30].at, samples[30].flows), (61, seconds(30), 1));
    let wire = 64_000.0 * 334.0 / 320.0;
    assert!((samples[30].came.as_bps() as f64 / wire - 1.0).abs() < 0.05, "{:?}", samples[30]);
    assert_eq!(samples[30].estimate.as_bps(), 66_800, "the simple sum has what is declared");
}

#[test]
fn a_link_that_goes_and_comes_loses_no_account_of_a_packet() {
    let mut scenario = scenario(vec![phone(1, 60), flood()], spec(Rate::from_mbps(3)));
    scenario.script.push((seconds(10), ScenarioAction::LinkDown(LINK)));
    scenario.script.push((seconds(12), ScenarioAction::LinkUp(LINK)));
    let (world, report) = played(&scenario);
    assert!(world.lost().no_way > 3_000, "{:?}", world.lost());
    assert_eq!((report.admitted, report.silent), (1, 0), "two seconds are no timeout");
}

#[test]
fn what_cannot_be_played_is_said() {
    let with = |mace: MaceSpec| refused(&scenario(vec![flood()], mace));
    let usual = spec(Rate::from_mbps(3));
    for packets in [0, MaceSpec::MOST_PACKETS + 1] {
        let said = with(MaceSpec { packets, ..usual.clone() });
        assert!(said.contains("allowed are 1 to 100000"), "{said}");
    }
    assert!(with(MaceSpec { period: Span::ZERO, ..usual.clone() }).contains("of zero"));
    assert!(with(MaceSpec { max_flows: 0, ..usual.clone() }).contains("of zero"));
    let rule = RuleTerms::MeasuredSum { target: (0, 100), departures: false };
    assert!(with(MaceSpec { rule, ..usual.clone() }).contains("a rule has a parameter of zero"));
    let shadow = vec![RuleTerms::SimpleSum; mace::io::MOST_SHADOWS + 1];
    assert!(with(MaceSpec { shadow, ..usual.clone() }).contains("too many in shadow"));
    let mut agent = scenario(vec![flood()], usual);
    agent.nodes[0].agent = true;
    assert!(refused(&agent).contains("router has an agent, so its queues are ports"));
}

#[test]
fn a_pool_that_cannot_be_is_refused() {
    let models = vec![(sim::mace::model::CBR, Rate::from_bps(77_200))];
    let params = sim::mace::Params::scenario_three(models, Rate::from_mbps(3), RuleTerms::SimpleSum, 1);
    let right = sim::mace::testbed::scenario(&params);
    let with = |change: &dyn Fn(&mut PoolSpec)| {
        let mut scenario = right.clone();
        change(scenario.pool.as_mut().expect("a pool"));
        refused(&scenario)
    };
    assert!(with(&|pool| pool.to = NodeId(7)).contains("names node 7, but there are only 2"));
    assert!(with(&|pool| pool.traffic.models.clear()).contains("a pool of 0 models"));
    assert!(with(&|pool| pool.traffic.models.resize(1_001, pool.traffic.models[0])).contains("1001 models"));
    assert!(with(&|pool| pool.traffic.pool = 0).contains("and 0 flows"));
    assert!(with(&|pool| pool.traffic.pool = (1 << 16) + 1).contains("and 65537 flows"));
    let mut narrow = right.clone();
    narrow.links[0].mtu = 1_500;
    assert!(refused(&narrow).contains("the MTU on the way is 1500"));
}
