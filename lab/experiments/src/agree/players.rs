//! The three planes: the engine's port in its own time, the plane in user space, and the kernel's, on real packets.

use super::script::{self, PORT, ScriptPacket};
use bed::error::Error;
use bed::program::{self, RunningProgram};
use linux::capture::Capture;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::frames::{BurstSent, FrameBuffer, FrameIo, Offload, PacketFrames};
use linux::netlink::Socket;
use linux::netns::Guarded;
use linux::plane::KernelPlane;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use terms::{Bytes, IfIndex, PacketMeta, Span, Time};
use traffic::plan::{ClassId, PlanOp, QueueSpec};
use traffic::plane::{DataPlane, PlaneCounters};
use traffic::port::{Limits, Port, PortEgress, PortLoss, counters_of};
use traffic::scheduler::SchedulerKind;
use user_plane::client::UserPlane;

/// The interface of the engine's port.
const ENGINE: IfIndex = IfIndex(1);
/// The host's interface in the namespace of a plane on real packets.
const NEAR: &str = "lan0";
/// How long a plane may take until it serves.
const PATIENCE: Duration = Duration::from_secs(20);

/// A plane that plays the script.
pub(super) trait Player {
    /// Its name, for people.
    fn name(&self) -> &'static str;
    /// Its interface.
    fn oif(&self) -> IfIndex;
    /// Begins an act: the times of packets count from now.
    fn begin(&mut self);
    /// Plays packets of this act at their times.
    fn play(&mut self, packets: &[ScriptPacket]) -> Result<(), Error>;
    /// Lets what waits go.
    fn settle(&mut self) -> Result<(), Error>;
    /// All counters.
    fn counters(&mut self) -> Result<PlaneCounters, Error>;
    /// The numbered packets that left since the last call, in order.
    fn left(&mut self) -> Result<Vec<(u8, u32)>, Error>;
}

/// The engine's port, as the simulator runs it.
pub(super) struct EnginePlayer {
    port: Port,
    now: Time,
    begun: Time,
    free: Time,
    numbers: Vec<(u8, u32)>,
    left: Vec<(u8, u32)>,
}

struct Egress<'a>(&'a [(u8, u32)], &'a mut Vec<(u8, u32)>);

impl PortEgress for Egress<'_> {
    fn send(&mut self, _: Time, _: ClassId, packet: &PacketMeta) {
        self.1.extend(self.0.get(packet.id as usize).filter(|number| number.0 > 0));
    }

    fn lost(&mut self, _: &PortLoss) {}
}

impl EnginePlayer {
    /// With the plan.
    pub(super) fn new() -> Result<EnginePlayer, Error> {
        let plain = QueueSpec { packets: 1_000, bytes: Bytes::MAX };
        let limits = Limits { flows: 100, classes: 100, packets: 10_000, plain };
        let now = Time::from_nanos(1);
        let mut port = Port::new(ENGINE, limits, terms::signalling::SIGNALLING, [1, 2]);
        for op in script::plan(ENGINE, SchedulerKind::Hfsc) {
            port.apply(now, &op).map_err(|refused| Error::Void(format!("the engine refuses {op:?}: {refused:?}")))?;
        }
        Ok(EnginePlayer { port, now, begun: now, free: now, numbers: Vec::new(), left: Vec::new() })
    }

    fn serve(&mut self, until: Time) {
        self.free = self.port.serve(self.free, until, &mut Egress(&self.numbers, &mut self.left));
        self.now = until;
    }
}

impl Player for EnginePlayer {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn oif(&self) -> IfIndex {
        ENGINE
    }

    fn begin(&mut self) {
        self.begun = self.now;
    }

    fn play(&mut self, packets: &[ScriptPacket]) -> Result<(), Error> {
        for packet in packets {
            let at = (self.begun + packet.at()).max(self.now);
            self.serve(at);
            let id = self.numbers.len() as u64;
            self.numbers.push(packet.number());
            self.port.enqueue(at, packet.meta(at, id));
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.serve(self.now + Span::from_secs(5));
        Ok(())
    }

    fn counters(&mut self) -> Result<PlaneCounters, Error> {
        Ok(counters_of(std::iter::once(&self.port)))
    }

    fn left(&mut self) -> Result<Vec<(u8, u32)>, Error> {
        Ok(std::mem::take(&mut self.left))
    }
}

/// A plane on real packets. Frames go to the host's interface as a program's would, through its queueing discipline.
pub(super) struct LivePlayer {
    name: &'static str,
    oif: IfIndex,
    plane: Box<dyn DataPlane + Send>,
    source: PacketFrames,
    exit: Capture,
    frame: FrameBuffer,
    begun: Instant,
    left: Vec<(u8, u32)>,
    _program: Option<RunningProgram>,
    netns: [Guarded; 2],
}

fn fault(what: &str) -> impl Fn(terms::Fault) -> Error + '_ {
    move |fault| Error::Void(format!("{what}: {fault}"))
}

/// Two namespaces, and what is in them.
fn place(name: &str, served: bool) -> Result<([Guarded; 2], IfIndex), Error> {
    let make = |end: &str| Guarded::create(&format!("agree-{name}-{end}-{}", std::process::id()));
    let ends = [make("near")?, make("far")?];
    let far = &*ends[1];
    let oif = ends[0].run(|| -> Result<IfIndex, SystemError> {
        let net = |what| SystemError::netlink(what);
        let mut socket = Socket::open().map_err(net("open a netlink socket"))?;
        let (names, out) = if served { (vec![NEAR, "lan0p", "out0"], "out0") } else { (vec![NEAR], NEAR) };
        if served {
            socket.add_veth(NEAR, "lan0p", None).map_err(net("make a pair"))?;
        }
        socket.add_veth(out, "far0", Some(far.as_fd())).map_err(net("make a pair"))?;
        for name in names {
            // Nothing but the script's packets may be counted.
            let ipv6 = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
            if Path::new(&ipv6).exists() {
                std::fs::write(&ipv6, "1").map_err(SystemError::doing(format!("write {ipv6}")))?;
            }
            let index = socket.link_by_name(name).map_err(net("find an interface"))?.index;
            socket.set_link_up(index, true).map_err(net("set an interface up"))?;
        }
        Ok(socket.link_by_name(NEAR).map_err(net("find an interface"))?.index)
    })??;
    far.run(|| -> Result<(), SystemError> {
        let net = |what| SystemError::netlink(what);
        let mut socket = Socket::open().map_err(net("open a netlink socket"))?;
        let index = socket.link_by_name("far0").map_err(net("find an interface"))?.index;
        socket.set_link_up(index, true).map_err(net("set an interface up"))
    })??;
    Ok((ends, oif))
}

impl LivePlayer {
    /// The kernel's plane; `state` is a folder of its own.
    pub(super) fn kernel(state: &Path) -> Result<LivePlayer, Error> {
        let (netns, oif) = place("k", false)?;
        let plane = netns[0].run(|| KernelPlane::open(state))?.map_err(fault("open the kernel's plane"))?;
        LivePlayer::new(("kernel", SchedulerKind::Htb), oif, Box::new(plane), NEAR, None, netns)
    }

    /// The plane in user space: a process of its own, whose files are in `home`.
    pub(super) fn user(program: &Path, home: &Path) -> Result<LivePlayer, Error> {
        let (netns, oif) = place("u", true)?;
        let (file, socket) = (home.join("plane.toml"), home.join("plane.sock"));
        let text = format!(
            "socket = {socket:?}\nspin = \"0s\"\n[[pair]]\ninterface = {NEAR:?}\ninside = \"lan0p\"\noutside = \"out0\"\n\
             delay_bound = \"25ms\"\n"
        );
        std::fs::write(&file, text).map_err(SystemError::doing(format!("write {}", file.display())))?;
        let mut command = Command::new(program);
        command.args(["plane", "serve"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        netns[0].enter_at_exec(&mut command);
        let running = program::start(&mut command)?;
        let until = Instant::now() + PATIENCE;
        let plane = loop {
            match netns[0].run(|| UserPlane::connect(&socket))? {
                Ok(plane) => break plane,
                Err(failed) if Instant::now() > until => return Err(failed.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        LivePlayer::new(("user", SchedulerKind::Hfsc), oif, Box::new(plane), "out0", Some(running), netns)
    }

    fn new(
        (name, scheduler): (&'static str, SchedulerKind),
        oif: IfIndex,
        mut plane: Box<dyn DataPlane + Send>,
        exit: &str,
        program: Option<RunningProgram>,
        netns: [Guarded; 2],
    ) -> Result<LivePlayer, Error> {
        let ops: Vec<PlanOp> = script::plan(oif, scheduler);
        netns[0].run(|| plane.apply(Clock::start().now(), &ops))?.map_err(fault("install the plan"))?;
        let (source, exit) = netns[0].run(|| -> Result<(PacketFrames, Capture), SystemError> {
            Ok((PacketFrames::open(NEAR)?, Capture::udp_to(exit, PORT, Clock::start())?))
        })??;
        Ok(LivePlayer {
            name,
            oif,
            plane,
            source,
            exit,
            frame: FrameBuffer::new(1_600),
            begun: Instant::now(),
            left: Vec::new(),
            _program: program,
            netns,
        })
    }

    /// Takes what has left, so that the capture has room.
    fn collect(&mut self) -> Result<(), Error> {
        while let Some(frame) = self.exit.next(Span::ZERO)? {
            self.left.extend(script::number(frame.payload()).filter(|_| frame.outgoing));
        }
        Ok(())
    }
}

impl Player for LivePlayer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn oif(&self) -> IfIndex {
        self.oif
    }

    fn begin(&mut self) {
        self.begun = Instant::now();
    }

    fn play(&mut self, packets: &[ScriptPacket]) -> Result<(), Error> {
        for packet in packets {
            let due = self.begun + Duration::from_nanos(packet.at().as_nanos());
            let left = due.saturating_duration_since(Instant::now());
            if left > Duration::from_micros(100) {
                self.collect()?;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            if !self.frame.put(&[&packet.frame()], Offload::default()) {
                return Err(Error::Void("a packet of the script is too long".into()));
            }
            // A queue that is full drops it, which is what the script is for.
            while self.source.send(std::slice::from_ref(&self.frame))? == BurstSent::Full {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        let sent = |counters: &PlaneCounters| counters.classes.values().map(|counted| counted.packets).sum::<u64>();
        let mut before = sent(&self.counters()?);
        loop {
            std::thread::sleep(Duration::from_millis(150));
            self.collect()?;
            let now = sent(&self.counters()?);
            if now == before {
                return Ok(());
            }
            before = now;
        }
    }

    fn counters(&mut self) -> Result<PlaneCounters, Error> {
        let LivePlayer { plane, netns, .. } = self;
        netns[0].run(|| plane.counters())?.map_err(fault("read the counters"))
    }

    fn left(&mut self) -> Result<Vec<(u8, u32)>, Error> {
        self.collect()?;
        match self.exit.overrun()? {
            0 => Ok(std::mem::take(&mut self.left)),
            missed => Err(Error::Void(format!("the capture missed {missed} packets"))),
        }
    }
}
