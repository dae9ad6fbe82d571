//! A dumbbell: pairs of hosts on either side of one bottleneck, with any number of greedy connections spread over them.

use crate::rng::Rng;
use crate::scenario::{EgressSpec, NodeId, Queue, Scenario, SimLinkSpec, SimNodeSpec, Tcp, TcpSpec};
use terms::{Rate, Span, Time};
use traffic::port::SchedulerKind;

/// The parameters of a dumbbell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dumbbell {
    /// The number of connections.
    pub flows: usize,
    /// The number of pairs of hosts.
    pub pairs: usize,
    /// Rate of each host's link.
    pub access: Rate,
    /// Rate of the bottleneck.
    pub bottleneck: Rate,
    /// Delay of the bottleneck, one way. A host's link has a tenth of it.
    pub delay: Span,
    /// Maximum number of packets in the bottleneck's queue.
    pub queue: u32,
    /// The behaviour of every connection.
    pub tcp: Tcp,
    /// Connections start at random times, uniformly within this span.
    pub start_spread: Span,
    /// The measured window.
    pub measured: (Time, Time),
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Default for Dumbbell {
    /// Ten pairs on 20 Gbit/s each, 100 Gbit/s between them, 10 ms.
    fn default() -> Dumbbell {
        Dumbbell {
            flows: 100,
            pairs: 10,
            access: Rate::from_mbps(20_000),
            bottleneck: Rate::from_mbps(100_000),
            delay: Span::from_millis(10),
            queue: 20_000,
            tcp: Tcp::default(),
            start_spread: Span::from_millis(500),
            measured: (Time::from_nanos(1_000_000_000), Time::from_nanos(2_000_000_000)),
            seed: 1,
        }
    }
}

/// Builds the scenario. Nodes 0 and 1 are the routers. Link 0 is the bottleneck, and its side 0 sends the
/// data.
pub fn dumbbell(spec: &Dumbbell) -> Scenario {
    let node = |name: String| SimNodeSpec { agent: false, ..SimNodeSpec::new(&name, Span::from_secs(30)) };
    let link = |a, b, rate, delay| {
        let link = SimLinkSpec::ethernet(NodeId(a), NodeId(b), rate, delay, SchedulerKind::Htb);
        SimLinkSpec { overhead: 0, kept_back: Rate::ZERO, ..link }
    };
    let mut nodes = vec![node("left".into()), node("right".into())];
    let mut links = vec![link(0, 1, spec.bottleneck, spec.delay)];
    let near = spec.delay.mul_div_ceil(1, 10);
    for n in 0..spec.pairs {
        nodes.push(node(format!("l{n}")));
        nodes.push(node(format!("r{n}")));
        links.push(link(2 + 2 * n, 0, spec.access, near));
        links.push(link(1, 3 + 2 * n, spec.access, near));
    }
    let mut chance = Rng::new(spec.seed, 1 << 40);
    let connection = |n: usize| {
        let pair = n % spec.pairs.max(1);
        let ports = ((n / spec.pairs.max(1) % 60_000 + 1_024) as u16, 5_001);
        let start = Time::from_nanos(chance.below(spec.start_spread.as_nanos()));
        let greedy = TcpSpec::greedy(NodeId(2 + 2 * pair), NodeId(3 + 2 * pair), ports);
        TcpSpec { start, tcp: spec.tcp, ..greedy }
    };
    let bottleneck =
        EgressSpec { link: crate::scenario::LinkId(0), side: 0, conditioner: None, queue: Queue::packets(spec.queue) };
    Scenario {
        seed: spec.seed,
        nodes,
        links,
        egress: vec![bottleneck],
        queue: Queue::UNLIMITED,
        connections: (0..spec.flows).map(connection).collect(),
        measured: spec.measured,
        ..Scenario::default()
    }
}
