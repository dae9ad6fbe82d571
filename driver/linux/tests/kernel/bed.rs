//! A bed for plane tests: two namespaces joined by a veth, a plane on the near end, plans that a person can read.

use crate::scratch::{self, StateDir};
use linux::bpf::Hook;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::tc::Stats;
use linux::netlink::tc::class::TcClass;
use linux::netlink::tc::qdisc::Qdisc;
use linux::plane::KernelPlane;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use terms::{Bytes, FlowKey, FlowSpec, IfIndex, Rate, ServiceCurve, Session, Span, Tspec};
use traffic::plan::{BucketSpec, ClassId, ClassSpec, FlowSpecEntry, LinkSpec, PlanOp, QueueSpec};
use traffic::scheduler::SchedulerKind;

/// Our end and theirs.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Ten megabits of Ethernet as the kernel counts it. `SLUICE_SCHEDULER=hfsc` in the environment has the other scheduler
/// under every test that uses this, on a kernel that has it.
pub fn link_spec() -> LinkSpec {
    let hfsc = std::env::var("SLUICE_SCHEDULER").is_ok_and(|name| name == "hfsc");
    let scheduler = if hfsc { SchedulerKind::Hfsc } else { SchedulerKind::Htb };
    LinkSpec { rate: Rate::from_mbps(10), overhead: 14, mtu: 1500, scheduler }
}

pub struct Bed {
    pub socket: Socket,
    pub oif: IfIndex,
    pub state: StateDir,
    pub there: File,
}

/// In a scratch namespace: a veth with addresses, both ends up.
pub fn bed() -> Bed {
    let there = scratch::fresh();
    let here = scratch::current();
    let mut socket = Socket::open().expect("netlink");
    socket.add_veth("near", "far", Some(there.as_fd())).expect("veth");
    scratch::enter(&there);
    let mut far = Socket::open().expect("netlink");
    scratch::enter(&here);
    let up = |socket: &mut Socket, name: &str, address: Ipv4Addr| {
        let index = socket.link_by_name(name).expect("link").index;
        socket.set_link_up(index, true).expect("up");
        socket.add_address(&Address { index, address: IpAddr::V4(address), prefix: 24 }).expect("address");
        index
    };
    up(&mut far, "far", FAR);
    let oif = up(&mut socket, "near", NEAR);
    let bed = Bed { socket, oif, state: StateDir::new(), there };
    // Carrier comes a little later than "up", and a first ARP request that is lost is repeated after a second only.
    let (probe, answer) = (bed.sender(9, 9), bed.receiver(9));
    let arrives = |_| {
        let _ = probe.send(&[0]);
        std::thread::sleep(Duration::from_millis(10));
        answer.recv(&mut [0]).is_ok()
    };
    assert!((0..1000).any(arrives), "nothing crosses the pair");
    bed
}

impl Bed {
    pub fn open(&self) -> KernelPlane {
        KernelPlane::open(self.state.path()).expect("the plane opens")
    }

    pub fn open_by(&self, hook: Hook) -> KernelPlane {
        KernelPlane::open_with(self.state.path(), linux::bpf::MAX_FLOWS, hook).expect("the plane opens")
    }

    /// A socket in the far namespace that takes whatever comes.
    pub fn receiver(&self, port: u16) -> UdpSocket {
        let here = scratch::current();
        scratch::enter(&self.there);
        let socket = UdpSocket::bind(SocketAddr::from((FAR, port))).expect("bind there");
        scratch::enter(&here);
        roomy(socket)
    }

    /// A socket here that sends to that port.
    pub fn sender(&self, from: u16, to: u16) -> UdpSocket {
        let socket = UdpSocket::bind(SocketAddr::from((NEAR, from))).expect("bind here");
        socket.connect(SocketAddr::from((FAR, to))).expect("connect");
        roomy(socket)
    }

    /// Everything that traffic control shows of the interface, without what it counted.
    pub fn shown(&mut self) -> (Vec<TcClass>, Vec<Qdisc>) {
        let mut classes = self.socket.classes(self.oif).expect("classes");
        classes.iter_mut().for_each(|class| class.stats = Stats::default());
        classes.sort_by_key(|class| class.handle);
        let mut qdiscs = self.socket.qdiscs(self.oif).expect("qdiscs");
        qdiscs.iter_mut().for_each(|qdisc| qdisc.stats = Stats::default());
        qdiscs.sort_by_key(|qdisc| (qdisc.handle, qdisc.parent));
        (classes, qdiscs)
    }

    /// Sends a packet of protocol 46 to the far end.
    pub fn signal(&self) {
        let far = raw_address(SocketAddrV4::new(FAR, 0));
        let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: the descriptor is checked before it is owned; payload and address outlive the call.
        let sent = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 46);
            assert!(fd >= 0);
            let socket = OwnedFd::from_raw_fd(fd);
            libc::sendto(socket.as_raw_fd(), [0u8; 8].as_ptr().cast(), 8, 0, (&raw const far).cast(), len)
        };
        assert_eq!(sent, 8, "{}", std::io::Error::last_os_error());
    }

    /// Sends so many bytes over TCP and waits until the other end has read them all.
    pub fn stream(&self, from: u16, to: u16, bytes: usize) {
        let here = scratch::current();
        scratch::enter(&self.there);
        let listener = std::net::TcpListener::bind(SocketAddr::from((FAR, to))).expect("listen there");
        scratch::enter(&here);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().expect("accept").0.read_to_end(&mut all).expect("read");
            all.len()
        });
        let mut stream = connect_from(from, SocketAddrV4::new(FAR, to));
        stream.write_all(&vec![7; bytes]).expect("write");
        drop(stream);
        assert_eq!(reader.join().expect("reader"), bytes);
    }

    pub fn link(&self) -> PlanOp {
        PlanOp::Link { oif: self.oif, spec: link_spec() }
    }

    pub fn class(&self, class: ClassId, kbps: u64, priority: u8) -> PlanOp {
        PlanOp::Class { oif: self.oif, class, spec: spec(kbps, priority) }
    }

    pub fn flow(&self, n: u16, class: ClassId, kbps: u64) -> PlanOp {
        flow_op(self.oif, n, class, kbps)
    }

    pub fn drop_flow(&self, n: u16) -> PlanOp {
        PlanOp::DropFlow { oif: self.oif, flow: key(n) }
    }

    pub fn base(&self, controlled_kbps: u64) -> Vec<PlanOp> {
        base(self.oif, controlled_kbps)
    }
}

/// Link, best effort with what is left, control, and a controlled-load class of so much.
pub fn base(oif: IfIndex, controlled_kbps: u64) -> Vec<PlanOp> {
    let class = |class, kbps, priority| PlanOp::Class { oif, class, spec: spec(kbps, priority) };
    vec![
        PlanOp::Link { oif, spec: link_spec() },
        class(ClassId::CONTROL, 200, 0),
        class(ClassId::CONTROLLED_LOAD, controlled_kbps, 2),
        class(ClassId::BEST_EFFORT, 9_800 - controlled_kbps, 7),
    ]
}

pub fn flow_op(oif: IfIndex, n: u16, class: ClassId, kbps: u64) -> PlanOp {
    PlanOp::Flow { oif, flow: key(n), entry: entry(class, kbps) }
}

fn raw_address(at: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*at.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

/// A TCP connection from a port of our choice, which the standard library does not offer.
fn connect_from(from: u16, to: SocketAddrV4) -> TcpStream {
    let (near, far) = (raw_address(SocketAddrV4::new(NEAR, from)), raw_address(to));
    let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: the descriptor is checked before it is owned; both addresses outlive the calls and are of that length.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        assert_eq!(libc::bind(fd, (&raw const near).cast(), len), 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::connect(fd, (&raw const far).cast(), len), 0, "{}", std::io::Error::last_os_error());
        TcpStream::from_raw_fd(fd)
    }
}

/// Never blocks and never is the one that drops: the queues under test are.
pub fn roomy(socket: UdpSocket) -> UdpSocket {
    socket.set_nonblocking(true).expect("non-blocking");
    let size: libc::c_int = 8 << 20;
    for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        let at = std::ptr::from_ref(&size).cast();
        // SAFETY: `size` is valid for reads of its length and outlives the call.
        let rc = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, 4) };
        assert_eq!(rc, 0, "a large socket buffer");
    }
    socket
}

pub fn spec(kbps: u64, priority: u8) -> ClassSpec {
    let rate = Rate::from_kbps(kbps);
    ClassSpec {
        real_time: (kbps > 0).then(|| ServiceCurve::linear(rate)),
        link_share: rate,
        upper_limit: None,
        priority,
        queue: QueueSpec { packets: 100, bytes: Bytes::new(1 << 20) },
    }
}

/// Flow number `n`: from port 20,000 + n to port 5,004.
pub fn key(n: u16) -> FlowKey {
    FlowKey {
        src: NEAR.into(),
        dst: FAR.into(),
        protocol: 17,
        src_port: 20_000 + n,
        dst_port: 5004,
        wild: terms::Wild::NONE,
    }
}

pub fn entry(class: ClassId, kbps: u64) -> FlowSpecEntry {
    let rate = Rate::from_kbps(kbps);
    let tspec = Tspec { r: rate, b: Bytes::new(8192), p: Rate::INFINITE, m: 64, M: 1500 };
    FlowSpecEntry {
        class,
        shared: None,
        bucket: BucketSpec { rate, depth: Bytes::new(8192), min_unit: 64 },
        record: control::record::FlowRecord {
            session: Session { dst: FAR.into(), protocol: 17, dst_port: 5004 },
            flowspec: FlowSpec::ControlledLoad(tspec),
            sender_tspec: tspec,
            admitted: rate.with_overhead(14, 64),
            lifetime: Span::from_millis(157_500),
            priority: Default::default(),
        }
        .encode(),
    }
}

/// The plan that these operations make.
pub fn plan_of(ops: &[PlanOp]) -> traffic::plan::Plan {
    let mut plan = traffic::plan::Plan::default();
    ops.iter().for_each(|op| plan.apply(op));
    plan
}
