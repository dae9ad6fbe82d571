//! The network of figure A.1 on this machine: a namespace of all workstations that send, one of all that receive, and three
//! planes in user space between them, which are the LANs, the customer routers and the edge routers.
//!
//! ```text
//!  senders ==[ LANs ]==[ C1 .. C10 ]==[ ER1 -- ER2 ]== receivers
//!              10 Mb/s     34 Mb/s       70 Mb/s
//!               1 ms       2.5 ms   10 + 2.5 + 1 ms          17 ms back
//! ```
//!
//! A workstation is known by its destination: customer C has the address 10.2.C.1, workstation W the port 5000 + W.

use bed::error::Error;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netns::Namespace;
use sim::scenario::Queue;
use sim::scenarios::rfc2963::{Params, ROUTERS, WORKSTATIONS, cir, conditioner, rio};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use terms::{Bytes, Rate, ServiceCurve, Span};
use traffic::conditioner::ConditionerSpec;
use traffic::plan::QueueSpec;
use traffic::scheduler::hfsc::Curves;
use traffic::tree::{
    LeafSpec, LinkShape, MeterKind, MeterSpec, MultiFieldRule, NodeKind, SchedulerKind, TreeNodeSpec, TreeShare,
    TreeSpec,
};
use user_plane::link::WireSpec;
use user_plane::live::{LivePair, LiveSpec};

/// The rate of links that are no bottleneck.
const WIDE: Rate = Rate::from_mbps(1_000);
/// The line between a customer router and its edge router.
const ACCESS: Rate = Rate::from_mbps(34);
const BOTTLENECK: Rate = Rate::from_mbps(70);
/// The delays of the three planes, and of the way back.
const DELAYS: [Span; 3] = [Span::from_millis(1), Span::from_micros(2_500), Span::from_micros(13_500)];
const BACK: Span = Span::from_millis(17);
/// The most that all connections of a customer have under way: what a shaper can be made to hold.
const SHAPED: Bytes = Bytes::new(WORKSTATIONS as u64 * 65_536 + 60_000);
/// Queues that are no bottleneck: more packets than a window has.
const ROOM: QueueSpec = QueueSpec { packets: 600, bytes: Bytes::new(1 << 30) };
/// The queue behind RIO: beyond its thresholds, which count an average.
const BEHIND_RIO: QueueSpec = QueueSpec { packets: 4_000, bytes: Bytes::new(1 << 30) };
/// The time between two readings of the counters.
const LOOK: Span = Span::from_millis(10);
/// TCP of the year 2000, as far as this kernel has it: windows of 64 KB, segments of 1,460 bytes, SACK.
const SYSCTLS: [(&str, &str); 5] = [
    ("net/ipv4/tcp_window_scaling", "0"),
    ("net/ipv4/tcp_timestamps", "0"),
    ("net/ipv4/tcp_sack", "1"),
    ("net/ipv4/tcp_ecn", "0"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
];
const FIRST_PORT: u16 = 5_000;

/// The address and port to which a workstation sends.
fn far_end(customer: usize, workstation: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 2, customer as u8 + 1, 1), FIRST_PORT + workstation as u16))
}

/// The counters of a plane's leaves, in order: IP bytes that were metered, by colour.
pub(super) type LeafBytes = Vec<[u64; 3]>;

/// The readings of one plane.
#[derive(Debug, Default)]
struct Readings {
    stop: AtomicBool,
    leaves: Mutex<LeafBytes>,
    /// Frames that were lost for another reason than the experiment's own.
    spoiled: Mutex<Option<String>>,
}

/// The network, up.
pub(super) struct LiveSite {
    senders: Namespace,
    receivers: Namespace,
    planes: Vec<(Arc<Readings>, Option<JoinHandle<()>>)>,
}

impl LiveSite {
    /// Brings it up. `rto_min` is the least retransmission timeout of all connections.
    ///
    /// # Errors
    /// Not root, or the kernel refuses.
    pub(super) fn up(params: &Params, rto_min: Span) -> Result<LiveSite, Error> {
        let (senders, middle, receivers) = (Namespace::unnamed()?, Namespace::unnamed()?, Namespace::unnamed()?);
        let wired = middle.run(|| wire(&senders, &receivers))?;
        wired.map_err(SystemError::netlink("make the links of figure A.1"))?;
        let near = |_| IpAddr::from(Ipv4Addr::new(10, 1, 0, 1));
        let far = |customer| far_end(customer, 0).ip();
        host(&senders, "left", (0..1).map(near), rto_min)?;
        host(&receivers, "right", (0..ROUTERS).map(far), rto_min)?;
        let trees = [lans(params), customers(params), edge(params)];
        let ends = [["in", "lan"], ["lan-", "access"], ["access-", "out"]];
        let mut planes = Vec::new();
        for (n, (tree, ends)) in trees.into_iter().zip(ends).enumerate() {
            let back = if n == 2 { BACK } else { Span::ZERO };
            let wire = |delay| WireSpec { delay, ..WireSpec::default() };
            let spec = LiveSpec {
                ends: ends.map(str::to_owned),
                trees: [Some((tree, params.seed)), None],
                wires: [wire(DELAYS[n]), wire(back)],
                spin: Span::ZERO,
            };
            let clock = Clock::start();
            let pair = middle.run(|| LivePair::open(spec, clock))?;
            let pair = pair.map_err(|refused| Error::Testbed(refused.to_string()))?;
            planes.push(carry(pair, clock)?);
        }
        Ok(LiveSite { senders, receivers, planes })
    }

    /// Connects a workstation to its companion: the end that sends, and the one that receives.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub(super) fn connect(&self, customer: usize, workstation: usize) -> Result<[TcpStream; 2], Error> {
        let end = far_end(customer, workstation);
        let what = || format!("connect to {end}");
        let listener = self.receivers.run(|| TcpListener::bind(end))?.map_err(SystemError::doing(what()))?;
        let stream = self.senders.run(|| TcpStream::connect(end))?.map_err(SystemError::doing(what()))?;
        let (taken, _) = listener.accept().map_err(SystemError::doing(what()))?;
        Ok([stream, taken])
    }

    /// The bytes of each customer so far, by colour, as its router marked them.
    pub(super) fn marked(&self) -> LeafBytes {
        let leaves = self.planes[1].0.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        leaves[..ROUTERS].to_vec()
    }

    /// The reason why the run counts for nothing; `None`: it does.
    pub(super) fn spoiled(&self) -> Option<String> {
        self.planes.iter().find_map(|(plane, _)| plane.spoiled.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Drop for LiveSite {
    fn drop(&mut self) {
        self.planes.iter().for_each(|(plane, _)| plane.stop.store(true, Relaxed));
        for thread in self.planes.iter_mut().filter_map(|(_, thread)| thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Makes the links, in the namespace of the planes.
fn wire(senders: &Namespace, receivers: &Namespace) -> Result<(), linux::netlink::Error> {
    let mut socket = Socket::open()?;
    socket.add_veth("in", "left", Some(senders.as_fd()))?;
    socket.add_veth("out", "right", Some(receivers.as_fd()))?;
    socket.add_veth("lan", "lan-", None)?;
    socket.add_veth("access", "access-", None)?;
    for name in ["in", "lan", "lan-", "access", "access-", "out"] {
        let index = socket.link_by_name(name)?.index;
        socket.set_link_up(index, true)?;
    }
    Ok(())
}

/// Gives a host its addresses and its TCP.
fn host(
    namespace: &Namespace,
    interface: &str,
    addresses: impl Iterator<Item = IpAddr> + Send,
    rto_min: Span,
) -> Result<(), Error> {
    let done = namespace.run(|| -> Result<(), SystemError> {
        let floor = (rto_min.as_nanos() / 1_000).to_string();
        let mut settings = SYSCTLS.to_vec();
        settings.push(("net/ipv4/tcp_rto_min_us", &floor));
        for (name, value) in settings {
            let path = format!("/proc/sys/{name}");
            std::fs::write(&path, value).map_err(SystemError::doing(format!("write {value} to {path}")))?;
        }
        let said = || SystemError::netlink(format!("set up {interface}"));
        let mut socket = Socket::open().map_err(said())?;
        let index = socket.link_by_name(interface).map_err(said())?.index;
        socket.set_link_up(index, true).map_err(said())?;
        for address in addresses {
            socket.add_address(&Address { index, address, prefix: 8 }).map_err(said())?;
        }
        Ok(())
    })?;
    Ok(done?)
}

/// Runs a plane on a thread of its own, which keeps its counters readable.
fn carry(mut pair: LivePair, clock: Clock) -> Result<(Arc<Readings>, Option<JoinHandle<()>>), Error> {
    let readings = Arc::new(Readings::default());
    let kept = readings.clone();
    let deed = move || {
        // Without the right to it the plane is late now and then, and its lateness counts once.
        let _ = linux::process::keep_time();
        while !kept.stop.load(Relaxed) {
            if let Err(failed) = pair.run(clock.now() + LOOK) {
                *kept.spoiled.lock().unwrap_or_else(PoisonError::into_inner) = Some(failed.to_string());
                return;
            }
            read(&mut pair, &kept);
        }
    };
    let thread = std::thread::Builder::new().name("plane".into()).spawn(deed);
    Ok((readings, Some(thread.map_err(SystemError::doing("start a thread"))?)))
}

fn read(pair: &mut LivePair, kept: &Readings) {
    let seen = pair.counted();
    let bad = |n: usize| {
        let way = seen.ways()[n].counters();
        way.no_buffer + way.too_long + way.refused + way.missed
    };
    if bad(0) + bad(1) > 0 {
        let words = format!("a plane lost {} frames: this machine is too busy", bad(0) + bad(1));
        *kept.spoiled.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }
    let Some(tree) = seen.ways()[0].tree() else { return };
    let bytes = |counters: traffic::tree::LeafCounters| counters.colors.map(|color| color.metered.bytes);
    let leaves = tree.leaves().filter_map(|(id, _)| tree.counters(id).map(bytes)).collect();
    *kept.leaves.lock().unwrap_or_else(PoisonError::into_inner) = leaves;
}

/// A leaf of a link that is shared by HFSC, with this rate at most.
fn leaf(name: String, rate: Rate, rules: Vec<MultiFieldRule>, conditioner: ConditionerSpec) -> TreeNodeSpec {
    let curve = Some(ServiceCurve::linear(rate));
    let share = TreeShare::Curves(Curves { real_time: None, link_share: curve, upper_limit: curve });
    let ConditionerSpec { shaper, meter, marker, dropper } = conditioner;
    let leaf = LeafSpec { rules, shaper, meter, marker, dropper, queue: ROOM };
    TreeNodeSpec { name, parent: None, share, kind: NodeKind::Leaf(Box::new(leaf)) }
}

/// A tree of these leaves, and one for what is none of theirs (ARP goes beside it).
fn tree(mut nodes: Vec<TreeNodeSpec>) -> TreeSpec {
    nodes.push(leaf("other".into(), Rate::from_mbps(1), Vec::new(), ConditionerSpec::default()));
    TreeSpec { link: LinkShape { rate: WIDE, overhead: 0, scheduler: SchedulerKind::Hfsc }, nodes }
}

fn rule(customer: usize, workstation: Option<usize>) -> MultiFieldRule {
    let end = far_end(customer, workstation.unwrap_or(0));
    let dst_ports = workstation.map(|_| (end.port(), end.port()));
    MultiFieldRule { dst: Some((end.ip(), 32)), dst_ports, ..MultiFieldRule::default() }
}

/// The LANs: each workstation sends by a line of its own.
fn lans(params: &Params) -> TreeSpec {
    let all = (0..ROUTERS).flat_map(|customer| (0..WORKSTATIONS).map(move |workstation| (customer, workstation)));
    let one = |(customer, workstation)| {
        let name = format!("W{}-{}", customer + 1, workstation + 1);
        leaf(name, params.lan, vec![rule(customer, Some(workstation))], ConditionerSpec::default())
    };
    tree(all.map(one).collect())
}

/// The customer routers: a trTCM in each, and a shaper before it in C6 to C10.
fn customers(params: &Params) -> TreeSpec {
    let one = |customer: usize| {
        let parts = conditioner(params, cir(customer), customer >= ROUTERS / 2, SHAPED);
        let parts =
            ConditionerSpec { shaper: parts.shaper, meter: parts.meter, marker: Some(parts.marker), dropper: None };
        leaf(format!("C{}", customer + 1), ACCESS, vec![rule(customer, None)], parts)
    };
    tree((0..ROUTERS).map(one).collect())
}

/// The edge router: RIO with three precedences before the bottleneck.
fn edge(params: &Params) -> TreeSpec {
    let (dropper, marker) = match rio(params.coupling) {
        Queue::Rio { dropper, marker, .. } => (Some(dropper), Some(marker)),
        _ => (None, None),
    };
    // A tree takes the colour from the code point by a colour-aware meter; the bucket of this one outlasts every run.
    let (rate, bucket) = (BOTTLENECK, Bytes::new(1 << 30));
    let kind = MeterKind::TrTcm { cir: rate, cbs: bucket, pir: rate, pbs: bucket };
    let meter = Some(MeterSpec { kind, aware: true });
    let leaf = LeafSpec { rules: Vec::new(), shaper: None, meter, marker, dropper, queue: BEHIND_RIO };
    let share = TreeShare::Priority(0);
    let node = TreeNodeSpec { name: "edge".into(), parent: None, share, kind: NodeKind::Leaf(Box::new(leaf)) };
    let link = LinkShape { rate: BOTTLENECK, overhead: 0, scheduler: SchedulerKind::Priority };
    TreeSpec { link, nodes: vec![node] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::scenarios::rfc2963::Shaping;

    #[test]
    fn the_three_trees_work_and_fit_a_live_plane() {
        for shaping in [Shaping::TrRas, Shaping::Green] {
            let params = Params { shaping, cbs: Bytes::new(100_000), ..Params::default() };
            for tree in [lans(&params), customers(&params), edge(&params)] {
                assert_eq!(traffic::tree::check(&tree), Ok(()));
            }
            let shaped = |node: &TreeNodeSpec| matches!(&node.kind, NodeKind::Leaf(leaf) if leaf.shaper.is_some());
            assert_eq!(customers(&params).nodes.iter().filter(|node| shaped(node)).count(), 5);
            assert_eq!(lans(&params).nodes.len(), ROUTERS * WORKSTATIONS + 1);
        }
    }
}
