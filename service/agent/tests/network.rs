//! Orders for premium flows, carried out on a real plane in a namespace of their own: which edge, which bucket, which
//! mark, which class; in which order; and what a restart finds.

use agent_service::enforce::network::{Networks, served};
use agent_service::enforce::{Enforcer, EnforcerContext};
use agent_service::role::Standing;
use booking::io::{Order, OrderAction, OrderId};
use linux::clock::Clock;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netns::Guarded;
use linux::plane::{FaultInjection, KernelPlane};
use linux::route::KernelRoutes;
use node::io::{Input, InterfaceState, Output, Reservable};
use node::{Config, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use terms::book::{Binding, BoundFlow, Handle, PacketShape, Task};
use terms::{Bytes, Dscp, IfIndex, Rate, Span};
use traffic::edge::{EdgeAt, EdgeRule, MultiField, Side};
use traffic::plan::{BucketSpec, ClassId, LinkSpec, Plan};

const LINK: LinkSpec = LinkSpec { rate: Rate::from_mbps(100), overhead: 14, mtu: 1500 };

/// A router with an interface towards its hosts and one towards the network, and an agent's parts.
struct Bench {
    inside: IfIndex,
    outside: IfIndex,
    names: BTreeMap<IfIndex, String>,
    plane: KernelPlane,
    node: Node<KernelRoutes>,
    networks: Networks,
    clock: Clock,
}

impl Bench {
    fn new(state: &Path) -> Bench {
        let mut socket = Socket::open().expect("netlink");
        let mut names = BTreeMap::new();
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
            names.insert(index, name.to_owned());
            index
        };
        let (inside, outside) = (make("inside", [10, 9, 0, 1]), make("outside", [10, 9, 1, 1]));
        let mut plane = KernelPlane::open(state).expect("the plane");
        let found = plane.read().expect("read");
        let node = Node::new(Config::default(), KernelRoutes::open().expect("routes"));
        let networks = Networks::find(&found);
        let mut bench = Bench { inside, outside, names, plane, node, networks, clock: Clock::start() };
        for (oif, premium) in served(&found) {
            bench.tell(Input::Premium { oif, premium });
        }
        for (oif, link) in found.links {
            link.classes.into_iter().for_each(|(class, spec)| bench.tell(Input::FoundClass { oif, class, spec }));
        }
        let rate = LINK.rate;
        let link = Reservable {
            spec: LINK,
            signalled_share: rate,
            kept_back: Rate::from_mbps(2),
            assumed_holding: None,
            guaranteed: None,
        };
        let addresses = vec![IpAddr::from([10, 9, 1, 1])];
        let name = "outside".to_owned();
        let state = InterfaceState { index: outside, name, addresses, mtu: 1500, rsvp: false, link: Some(link) };
        bench.tell(Input::Interface(state));
        bench
    }

    fn tell(&mut self, input: Input<'_>) {
        let now = self.clock.now();
        self.node.handle(now, input);
        while let Some(output) = self.node.poll() {
            if let Output::Plan { id, ops } = output {
                let result = self.plane.apply(&ops);
                assert_eq!(result, Ok(()));
                self.node.handle(now, Input::PlanDone { id, result });
            }
        }
    }

    fn with<T>(&mut self, deed: impl FnOnce(&mut Networks, &mut EnforcerContext<'_>) -> T) -> T {
        let Bench { plane, node, names, networks, clock, .. } = self;
        let mut ground = EnforcerContext { now: clock.now(), plane, names, node, said: &mut Vec::new() };
        deed(networks, &mut ground)
    }

    fn order(&mut self, n: u8, background: bool, action: OrderAction) -> Result<(), String> {
        let (id, handle) = (OrderId(0), Handle([n; 16]));
        let shape = PacketShape { packet: 1_000, rtt: Span::from_millis(100) };
        let order = Order { id, handle, part: 0, resource: "net/outside".into(), background, shape, action };
        self.with(|networks, ground| networks.enforce(ground, &order))
    }

    fn enable(&mut self, n: u8, background: bool, flow: BoundFlow, mbps: u64) -> Result<(), String> {
        let (binding, amount) = (Some(Binding::Flow(flow)), mbps * 1_000_000);
        self.order(n, background, OrderAction::Enable { binding, amount })
    }

    fn plan(&mut self) -> Plan {
        self.plane.read().expect("read")
    }

    /// What a class is guaranteed, kbit/s.
    fn class(&mut self, class: ClassId) -> Option<u64> {
        let plan = self.plan();
        let spec = plan.links[&self.outside].classes.get(&class)?;
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
        bench.enable(1, true, flow(HOST, 80), 40).expect("in force");
        let fields = MultiField::from(flow(HOST, 80));
        // TCP: 40 Mb/s for 100 ms are 500,000 bytes.
        let bucket = BucketSpec { rate: Rate::from_mbps(40), depth: Bytes::new(500_000), min_unit: 1_000 };
        let wanted = BTreeMap::from([(fields, EdgeRule { bucket, mark: Dscp::AF11 })]);
        assert_eq!(bench.plan().edges, BTreeMap::from([(inside, wanted)]));
        // 14 bytes of link header on each 1,000.
        assert_eq!(bench.class(ClassId::BACKGROUND), Some(40_560));
        // Foreground takes, background gives; all still sums to the link.
        bench
            .order(1, true, OrderAction::Change { binding: Some(Binding::Flow(flow(HOST, 80))), amount: 4_000_000 })
            .expect("less");
        let udp = BoundFlow { protocol: Some(17), ..flow(HOST, 5004) };
        bench.enable(2, false, udp, 36).expect("in force");
        assert_eq!((bench.class(ClassId::PREMIUM), bench.class(ClassId::BACKGROUND)), (Some(36_504), Some(4_056)));
        let rule = bench.plan().edges[&inside][&MultiField::from(udp)];
        assert_eq!((rule.mark, rule.bucket.depth), (Dscp::EF, Bytes::new(112_500)), "of UDP a quarter");
        let sum: u64 =
            bench.plan().links[&outside].classes.values().map(|spec| node::classes::guaranteed(spec).as_bps()).sum();
        assert_eq!(sum, 100_000_000);
        // What this host sends itself, and what may come from anywhere, enters at its own egress.
        bench.enable(3, false, flow(Some([10, 9, 1, 1]), 81), 1).expect("in force");
        bench.enable(4, false, flow(None, 82), 1).expect("in force");
        let egress = EdgeAt { interface: outside, side: Side::Egress };
        assert_eq!(bench.plan().edges[&egress].len(), 2);
        assert!(bench.enable(5, false, flow(None, 82), 1).is_err_and(|why| why.contains("same packets")));
        assert!(
            bench
                .order(6, false, OrderAction::Enable { binding: Some(Binding::Process(Task::numbered(1))), amount: 1 })
                .is_err()
        );
        let counted = bench.with(|networks, ground| networks.counters(ground, Handle([2; 16]), 0));
        assert_eq!(counted, Some(Default::default()), "nothing was sent");
        for n in 1..=6 {
            bench.order(n, n == 1, OrderAction::Disable { binding: None }).expect("gone");
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
                bench.with(|networks, ground| networks.settle(ground)).expect("settled");
                let binding = || Some(Binding::Flow(flow(HOST, 80)));
                let order = |mbps: u64| match mbps {
                    0 => OrderAction::Disable { binding: binding() },
                    _ => OrderAction::Enable { binding: binding(), amount: mbps * 1_000_000 },
                };
                bench.order(1, false, order(from)).expect("from");
                bench.plane.rig(FaultInjection::DieAfter(n));
                let died = bench.order(1, false, order(to)).is_err();
                drop(bench);
                // Its first batch must be taken: `tell` says so.
                let mut bench = Bench::new(state);
                bench.order(1, false, order(to)).expect("again");
                bench.with(|networks, ground| networks.settle(ground)).expect("settled");
                assert_eq!(bench.class(ClassId::PREMIUM), (to > 0).then_some(to * 1_014), "{from} to {to}, write {n}");
                bench.with(|networks, ground| networks.end(ground));
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
        bench.enable(1, false, flow(HOST, 80), 30).expect("in force");
        bench.enable(2, false, flow(HOST, 81), 10).expect("in force");
        let before = bench.plan();
        drop(bench);
        let mut bench = Bench::new(state);
        assert_eq!(bench.plan().edges, before.edges, "found as it was left");
        assert_eq!(bench.class(ClassId::PREMIUM), Some(40_560), "nothing shrinks");
        bench.enable(1, false, flow(HOST, 80), 30).expect("again");
        assert_eq!(bench.class(ClassId::PREMIUM), Some(40_560), "nor while only some have been asked for");
        assert_eq!(bench.plan().edges, before.edges);
        bench.with(|networks, ground| networks.settle(ground)).expect("settled");
        let left = &bench.plan().edges[&bench.inside()];
        assert_eq!(left.keys().collect::<Vec<_>>(), [&MultiField::from(flow(HOST, 80))]);
        assert_eq!(bench.class(ClassId::PREMIUM), Some(30_420));
        bench.with(|networks, ground| networks.end(ground));
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
        let standing = Standing {
            edges: [at(inside, Side::Ingress), at(inside, Side::Egress), at(outside, Side::Egress)].into(),
            believed: [outside].into(),
        };
        let edges = |bench: &mut Bench| -> BTreeSet<EdgeAt> { bench.plan().edges.into_keys().collect() };
        bench.with(|networks, ground| networks.stand(ground, &standing)).expect("they stand");
        assert_eq!(edges(&mut bench), standing.edges);
        bench.enable(1, false, flow(HOST, 80), 4).expect("in force");
        bench.order(1, false, OrderAction::Disable { binding: None }).expect("given back");
        assert_eq!(edges(&mut bench), standing.edges, "the last rule goes without its edge");
        drop(bench);
        // Killed. The next one's file believes the inside.
        let mut bench = Bench::new(state);
        assert_eq!(edges(&mut bench), standing.edges, "found as they were");
        let other = Standing { edges: [at(inside, Side::Egress)].into(), believed: [inside].into() };
        bench.with(|networks, ground| networks.stand(ground, &other)).expect("they stand");
        bench.with(|networks, ground| networks.settle(ground)).expect("settled");
        assert_eq!(edges(&mut bench), other.edges);
        bench.with(|networks, ground| networks.end(ground));
        assert_eq!(edges(&mut bench), BTreeSet::new());
    });
}
