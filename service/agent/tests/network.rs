//! Premium flows of traffic control on a real plane in a namespace of their own: which edge, which bucket, which mark,
//! which class; in which order; and what a restart finds.

use control::Tc;
use control::edges::PremiumFlow;
use control::io::{InterfaceState, PlanId, Reservable};
use control::tc::ControlOutput;
use linux::clock::Clock;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netns::Guarded;
use linux::plane::{FaultInjection, KernelPlane};
use linux::route::KernelRoutes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use terms::book::{BoundFlow, Handle, PacketShape};
use terms::{Bytes, Dscp, Fault, IfIndex, Rate};
use traffic::edge::{EdgeAt, EdgeRule, MultiField, Side};
use traffic::plan::{BucketSpec, ClassId, LinkSpec, Plan};

const LINK: LinkSpec =
    LinkSpec { rate: Rate::from_mbps(100), overhead: 14, mtu: 1500, scheduler: traffic::scheduler::SchedulerKind::Htb };

/// A router with an interface towards its hosts and one towards the network, and an agent's parts.
struct Bench {
    inside: IfIndex,
    outside: IfIndex,
    plane: KernelPlane,
    tc: Tc,
    routes: KernelRoutes,
    clock: Clock,
    /// Batches that the plane could not carry out.
    failed: usize,
}

impl Bench {
    fn new(state: &Path) -> Bench {
        let mut socket = Socket::open().expect("netlink");
        let mut make = |name: &str, address: [u8; 4]| {
            if socket.link_by_name(name).is_err() {
                socket.add_veth(name, &format!("{name}-far"), None).expect("veth");
            }
            let index = socket.link_by_name(name).expect("link").index;
            let far = socket.link_by_name(&format!("{name}-far")).expect("link").index;
            for end in [index, far] {
                socket.set_link_up(end, true).expect("up");
            }
            // There already at a second start.
            let _ = socket.add_address(&Address { index, address: IpAddr::from(address), prefix: 24 });
            index
        };
        let (inside, outside) = (make("inside", [10, 9, 0, 1]), make("outside", [10, 9, 1, 1]));
        let mut plane = KernelPlane::open(state).expect("the plane");
        let found = plane.read().expect("read");
        let routes = KernelRoutes::open().expect("routes");
        let mut bench = Bench { inside, outside, plane, tc: Tc::new([1, 2]), routes, clock: Clock::start(), failed: 0 };
        for (at, rules) in found.edges {
            bench.tc.edge_turn().found_edge(at, &rules);
        }
        for (oif, link) in found.links {
            link.classes.iter().for_each(|(&class, spec)| bench.tc.found_class(oif, class, spec));
        }
        let rate = LINK.rate;
        let link = Reservable {
            spec: LINK,
            signalled_share: rate,
            kept_back: Rate::from_mbps(2),
            assumed_holding: None,
            guaranteed: None,
            measured: Rate::ZERO,
        };
        let addresses = vec![IpAddr::from([10, 9, 1, 1])];
        let name = "outside".to_owned();
        let state = InterfaceState { index: outside, name, addresses, mtu: 1500, rsvp: false, link: Some(link) };
        bench.tc.interface(bench.clock.now(), &state);
        bench.carry_out();
        assert_eq!(bench.failed, 0, "its first batch must be taken");
        bench
    }

    /// Carries out what traffic control says, until it says no more; the results of orders.
    fn carry_out(&mut self) -> Vec<Result<(), Fault>> {
        let mut done: VecDeque<(PlanId, Result<(), Fault>)> = VecDeque::new();
        let mut answered = Vec::new();
        loop {
            let now = self.clock.now();
            self.tc.end_turn();
            while let Some(said) = self.tc.poll() {
                match said {
                    ControlOutput::Plan(id, ops) => done.push_back((id, self.plane.apply(&ops))),
                    ControlOutput::Trust(interfaces) => {
                        self.tc.edge_turn().trusted(now, self.plane.believe(&interfaces))
                    }
                    ControlOutput::Enforced(_, result) => answered.push(result),
                    _ => {}
                }
            }
            let Some((id, result)) = done.pop_front() else { return answered };
            self.failed += usize::from(result.is_err());
            self.tc.plan_done(now, id, result);
        }
    }

    /// Orders a rate for the part of reservation `n`, 0: none.
    fn order(&mut self, n: u8, background: bool, flow: BoundFlow, mbps: u64) -> Result<(), String> {
        let shape = PacketShape::default();
        let rate = Rate::from_mbps(mbps);
        let booked = PremiumFlow::booked(&mut self.routes, self.outside, &flow, rate, shape, background);
        self.tc.edge_turn().set_part((Handle([n; 16]), 0), (mbps > 0).then_some(booked));
        let answered = self.carry_out();
        let [result] = answered[..] else { panic!("one answer to one order: {answered:?}") };
        result.map_err(|fault| fault.to_string())
    }

    fn disable(&mut self, n: u8) -> Result<(), String> {
        self.order(n, false, BoundFlow::default(), 0)
    }

    /// Every earlier booking has been ordered again.
    fn settle(&mut self) {
        self.tc.edge_turn().earlier_is_over();
        self.carry_out();
    }

    fn stand(&mut self, edges: &BTreeSet<EdgeAt>, trusted: IfIndex) {
        self.tc.edge_turn().stand(edges, &[trusted].into());
        self.carry_out();
        assert_eq!(self.failed, 0, "they stand");
    }

    fn end(&mut self) {
        self.tc.stop(self.clock.now());
        self.carry_out();
    }

    fn plan(&mut self) -> Plan {
        self.plane.read().expect("read")
    }

    /// What a class is guaranteed, kbit/s.
    fn class(&mut self, class: ClassId) -> Option<u64> {
        let plan = self.plan();
        let spec = plan.links.get(&self.outside)?.classes.get(&class)?;
        spec.real_time.map(|curve| curve.m2.as_bps() / 1_000)
    }

    fn inside(&self) -> EdgeAt {
        EdgeAt { interface: self.inside, side: Side::Ingress }
    }
}

fn flow(src: Option<[u8; 4]>, port: u16) -> BoundFlow {
    let dst = Some(IpAddr::from([10, 9, 1, 7]));
    BoundFlow { src: src.map(IpAddr::from), dst, protocol: Some(6), src_port: None, dst_port: Some(port) }
}

const HOST: Option<[u8; 4]> = Some([10, 9, 0, 5]);

/// In a namespace of its own, with a state directory that goes.
fn in_namespace(name: &str, test: impl FnOnce(&Path) + Send) {
    let name = format!("net-{name}-{}", std::process::id());
    let guarded = match Guarded::create(&name) {
        Ok(guarded) => guarded,
        Err(why) => return bench::skipped(format!("network namespaces need root: {why}")),
    };
    let state: PathBuf = std::env::temp_dir().join(&name);
    std::fs::create_dir_all(&state).expect("a directory");
    let done = guarded.run(|| test(&state));
    let _ = linux::bpf::forget(&state);
    let _ = std::fs::remove_dir_all(&state);
    done.expect("in the namespace");
}

#[test]
fn a_flow_is_policed_and_marked_where_it_enters_and_its_class_carries_it() {
    in_namespace("flow", |state| {
        let mut bench = Bench::new(state);
        let (inside, outside) = (bench.inside(), bench.outside);
        bench.order(1, true, flow(HOST, 80), 40).expect("in force");
        let fields = MultiField::from(flow(HOST, 80));
        // TCP: 40 Mb/s for 100 ms are 500,000 bytes.
        let bucket = BucketSpec { rate: Rate::from_mbps(40), depth: Bytes::new(500_000), min_unit: 1_000 };
        let wanted = BTreeMap::from([(fields, EdgeRule::of_bucket(bucket, Dscp::AF11))]);
        assert_eq!(bench.plan().edges, BTreeMap::from([(inside, wanted)]));
        // 14 bytes of link header on each 1,000.
        assert_eq!(bench.class(ClassId::BACKGROUND), Some(40_560));
        // Foreground takes, background gives; all still sums to the link.
        bench.order(1, true, flow(HOST, 80), 4).expect("less");
        let udp = BoundFlow { protocol: Some(17), ..flow(HOST, 5004) };
        bench.order(2, false, udp, 36).expect("in force");
        assert_eq!((bench.class(ClassId::PREMIUM), bench.class(ClassId::BACKGROUND)), (Some(36_504), Some(4_056)));
        let rule = bench.plan().edges[&inside][&MultiField::from(udp)];
        assert_eq!((rule.mark, rule.bucket.depth), (Dscp::EF, Bytes::new(112_500)), "of UDP a quarter");
        let sum: u64 =
            bench.plan().links[&outside].classes.values().map(|spec| control::classes::guaranteed(spec).as_bps()).sum();
        assert_eq!(sum, 100_000_000);
        // What this host sends itself, and what may come from anywhere, enters at its own egress.
        bench.order(3, false, flow(Some([10, 9, 1, 1]), 81), 1).expect("in force");
        bench.order(4, false, flow(None, 82), 1).expect("in force");
        let egress = EdgeAt { interface: outside, side: Side::Egress };
        assert_eq!(bench.plan().edges[&egress].len(), 2);
        assert!(bench.order(5, false, flow(None, 82), 1).is_err_and(|why| why.contains("same packets")));
        let placed = *bench.tc.edges().premium_flow((Handle([2; 16]), 0)).expect("in force");
        let counted = bench.plane.rule_counters(placed.at, &placed.fields).expect("read");
        assert_eq!(counted, Some(Default::default()), "nothing was sent");
        for n in 1..=6 {
            bench.disable(n).expect("gone");
        }
        assert!(bench.plan().edges.is_empty(), "the last rule takes its edge along");
        assert_eq!((bench.class(ClassId::PREMIUM), bench.class(ClassId::BACKGROUND)), (None, None));
    });
}

#[test]
fn killed_at_any_write_the_next_agent_brings_its_classes_in_line() {
    in_namespace("writes", |state| {
        let mut stops = 0;
        for (from, to) in [(10, 30), (30, 10), (30, 0), (0, 30)] {
            for n in 0.. {
                let mut bench = Bench::new(state);
                bench.settle();
                bench.order(1, false, flow(HOST, 80), from).expect("from");
                bench.plane.rig(FaultInjection::DieAfter(n));
                let _ = bench.order(1, false, flow(HOST, 80), to);
                let died = bench.failed > 0;
                drop(bench);
                let mut bench = Bench::new(state);
                bench.order(1, false, flow(HOST, 80), to).expect("again");
                bench.settle();
                assert_eq!(bench.class(ClassId::PREMIUM), (to > 0).then_some(to * 1_014), "{from} to {to}, write {n}");
                bench.end();
                if !died {
                    break;
                }
                stops += 1;
            }
        }
        assert!(stops > 20, "only {stops} stops: the drill did not happen");
    });
}

#[test]
fn what_a_killed_agent_left_stays_until_all_have_been_asked() {
    in_namespace("killed", |state| {
        let mut bench = Bench::new(state);
        bench.order(1, false, flow(HOST, 80), 30).expect("in force");
        bench.order(2, false, flow(HOST, 81), 10).expect("in force");
        let before = bench.plan();
        drop(bench);
        let mut bench = Bench::new(state);
        assert_eq!(bench.plan().edges, before.edges, "found as it was left");
        assert_eq!(bench.class(ClassId::PREMIUM), Some(40_560), "nothing shrinks");
        bench.order(1, false, flow(HOST, 80), 30).expect("again");
        assert_eq!(bench.class(ClassId::PREMIUM), Some(40_560), "nor while only some have been asked for");
        assert_eq!(bench.plan().edges, before.edges);
        bench.settle();
        let left = &bench.plan().edges[&bench.inside()];
        assert_eq!(left.keys().collect::<Vec<_>>(), [&MultiField::from(flow(HOST, 80))]);
        assert_eq!(bench.class(ClassId::PREMIUM), Some(30_420));
        bench.end();
        assert!(bench.plan().edges.is_empty() && bench.class(ClassId::PREMIUM).is_none(), "given back");
    });
}

/// What stands by the roles of interfaces stays whatever is booked there, is taken over by the next agent, goes where the
/// next one's file says otherwise, and goes at a good end.
#[test]
fn edges_stand_by_their_roles_whatever_is_booked() {
    in_namespace("roles", |state| {
        let mut bench = Bench::new(state);
        let at = |interface, side| EdgeAt { interface, side };
        let (inside, outside) = (bench.inside, bench.outside);
        let standing: BTreeSet<EdgeAt> =
            [at(inside, Side::Ingress), at(inside, Side::Egress), at(outside, Side::Egress)].into();
        let edges = |bench: &mut Bench| -> BTreeSet<EdgeAt> { bench.plan().edges.into_keys().collect() };
        bench.stand(&standing, outside);
        assert_eq!(edges(&mut bench), standing);
        bench.order(1, false, flow(HOST, 80), 4).expect("in force");
        bench.disable(1).expect("given back");
        assert_eq!(edges(&mut bench), standing, "the last rule goes without its edge");
        drop(bench);
        // Killed. The next one's file believes the inside.
        let mut bench = Bench::new(state);
        assert_eq!(edges(&mut bench), standing, "found as they were");
        let other: BTreeSet<EdgeAt> = [at(inside, Side::Egress)].into();
        bench.stand(&other, inside);
        bench.settle();
        assert_eq!(edges(&mut bench), other);
        bench.end();
        assert_eq!(edges(&mut bench), BTreeSet::new());
    });
}
