//! Flows that never signalled, on real packets: recognised, admitted, protected from a flood; what a restart of the agent, a
//! broken list and silence do.

use crate::bed::{Place, SLUICE, detached, place, skipped, wait_for};
use documents::agent::{Answer, Request, RowFilter, Rows, SenderId, SessionId, TspecDoc, View};
use documents::mace::MaceDoc;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netns::{Guarded, Namespace};
use linux::offload;
use linux::process::ProcessId;
use rpc::client::Client;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
/// The ports of flows of a listed application, and of others that send the same.
const VOICE: u16 = 5_000;
const OTHERS: u16 = 7_000;
/// Flows of each kind.
pub(super) const FLOWS: u16 = 10;
/// Between two packets of a flow: 200 bytes each, 80 kbit/s.
const TICK: Duration = Duration::from_millis(20);
const LIST: &str = "voice udp 5000-5099 100kbit 4kb 5 8s\n";

/// Two namespaces with a link of 10 Mb/s between them, and an agent on one.
pub(super) struct Site {
    place: Place,
    near: Guarded,
    far: Guarded,
    agent: Option<ProcessId>,
    far_agent: Option<ProcessId>,
    plane: Option<ProcessId>,
}

impl Site {
    fn new() -> Option<Site> {
        Site::with("")
    }

    /// With more lines in the section of recognised flows.
    pub(super) fn with(more: &str) -> Option<Site> {
        if skipped() {
            return None;
        }
        let (name, place) = place();
        let near = Guarded::create(&name).expect("a namespace");
        let far = Guarded::create(&format!("{name}-far")).expect("a namespace");
        near.run(|| Socket::open().unwrap().add_veth("near", "far", Some(far.as_fd())).unwrap()).unwrap();
        Some(Site::between(place, near, far, more))
    }

    /// With a plane in user space, which queues what the agent's host sends.
    pub(super) fn in_user_space() -> Option<Site> {
        if skipped() {
            return None;
        }
        let (name, place) = place();
        let near = Guarded::create(&name).expect("a namespace");
        let far = Guarded::create(&format!("{name}-far")).expect("a namespace");
        near.run(|| {
            let mut socket = Socket::open().unwrap();
            socket.add_veth("near", "nearp", None).unwrap();
            socket.add_veth("out", "far", Some(far.as_fd())).unwrap();
            ["nearp", "out"].iter().for_each(|link| bring_up(link));
        })
        .unwrap();
        let mut site = Site::between(place, near, far, "");
        let file = site.place.join("agent.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let socket = site.place.join("plane.sock");
        let text = format!("plane_socket = {socket:?}\n{text}");
        std::fs::write(file, text.replace("rate = \"10mbit\"", "rate = \"10mbit\"\nplane = \"user\"")).unwrap();
        let pair = "[[pair]]\ninterface = \"near\"\ninside = \"nearp\"\noutside = \"out\"";
        let text = format!("socket = {socket:?}\nspin = \"0s\"\n{pair}\n");
        std::fs::write(site.place.join("plane.toml"), text).unwrap();
        site.start_plane();
        Some(site)
    }

    pub(super) fn start_plane(&mut self) {
        let mut command = Command::new(SLUICE);
        command.args(["plane", "serve"]).arg(self.place.join("plane.toml"));
        self.near.enter_at_exec(&mut command);
        self.plane = Some(detached(&mut command, &self.place.join("plane.log")));
        wait_for("the plane passes packets", || {
            let log = std::fs::read_to_string(self.place.join("plane.log")).unwrap_or_default();
            (self.place.join("plane.sock").exists() && log.contains("near")).then_some(())
        });
    }

    /// Kills the plane.
    pub(super) fn kill_plane(&mut self) {
        let Some(plane) = self.plane.take() else { return };
        plane.signal(9).unwrap();
        plane.reap();
    }

    /// The addresses and the agent's files.
    fn between(place: Place, near: Guarded, far: Guarded, more: &str) -> Site {
        for (namespace, link, address) in [(&near, "near", NEAR), (&far, "far", FAR)] {
            namespace.run(|| up(link, address)).unwrap();
        }
        let site = Site { place, near, far, agent: None, far_agent: None, plane: None };
        let text = format!(
            "name = \"near\"\nauth = \"none\"\nsocket = {:?}\nstate = {:?}\n[store]\nany_filesystem = true\n\
             [[interface]]\nname = \"near\"\nrate = \"10mbit\"\n[mace]\ninterface = \"near\"\n\
             applications = \"applications\"\nallocated = \"30%\"\nperiod = \"500ms\"\nwindow = 4\n\
             refused_for = \"1s\"\nshadow = [\"simple-sum\", \"hoeffding\"]\n{more}\n[rsvp]\nrefresh = \"1s\"\n",
            site.socket(),
            site.place.join("state")
        );
        std::fs::write(site.place.join("agent.toml"), text).unwrap();
        site.list(LIST);
        site
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.place.join("agent.sock")
    }

    pub(super) fn list(&self, text: &str) {
        std::fs::write(self.place.join("applications"), text).unwrap();
    }

    pub(super) fn start(&mut self) {
        let mut command = Command::new(SLUICE);
        command.args(["agent", "--config"]).arg(self.place.join("agent.toml"));
        self.near.enter_at_exec(&mut command);
        self.agent = Some(detached(&mut command, &self.place.join("agent.log")));
        wait_for("the agent answers", || Client::connect(&self.socket()).ok()?.call(Request::Hello).ok());
    }

    pub(super) fn kill(&mut self) {
        let Some(agent) = self.agent.take() else { return };
        agent.signal(9).unwrap();
        agent.reap();
        wait_for("the agent is gone", || (!agent.is_running()).then_some(()));
    }

    pub(super) fn mace(&self) -> MaceDoc {
        let request = Request::Show { view: View::Mace, filter: RowFilter::default() };
        match Client::connect(&self.socket()).unwrap().call(request).unwrap() {
            Answer::Shown(shown) => match shown.rows {
                Rows::Mace(mut rows) => rows.pop().expect("an interface that recognises flows"),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.place.join("agent.log")).unwrap_or_default()
    }

    /// Sockets at the far end, one for each flow.
    fn sinks(&self, first: u16) -> Vec<UdpSocket> {
        let bind = |port| {
            let socket = UdpSocket::bind(SocketAddr::from((FAR, port))).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        self.far.run(|| (first..first + FLOWS).map(bind).collect()).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        for agent in self.agent.take().into_iter().chain(self.far_agent.take()).chain(self.plane.take()) {
            let _ = agent.signal(9);
            agent.reap();
        }
    }
}

fn bring_up(link: &str) {
    let mut socket = Socket::open().unwrap();
    let index = socket.link_by_name(link).unwrap().index;
    offload::segmentation_off(&mut socket, link, index).unwrap();
    socket.set_link_up(index, true).unwrap();
}

fn up(link: &str, address: Ipv4Addr) {
    bring_up(link);
    let mut socket = Socket::open().unwrap();
    let index = socket.link_by_name(link).unwrap().index;
    socket.add_address(&Address { index, address: IpAddr::V4(address), prefix: 24 }).unwrap();
}

/// What one kind of flows sent and received.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Count {
    sent: u32,
    received: u32,
}

impl Count {
    pub(super) fn loss_percent(self) -> f64 {
        100.0 * (1.0 - f64::from(self.received) / f64::from(self.sent.max(1)))
    }
}

/// Sends both kinds of flows for a while, beside a flood of `flood` packets of 1,000 bytes in each tick, and returns what
/// came of each kind.
pub(super) fn send(site: &Site, ticks: u32, flood: u32) -> [Count; 2] {
    let sinks = [site.sinks(VOICE), site.sinks(OTHERS)];
    let mut counts = [Count::default(); 2];
    let take = |counts: &mut [Count; 2]| {
        for (count, sinks) in counts.iter_mut().zip(&sinks) {
            let got = |sink: &UdpSocket| std::iter::from_fn(|| sink.recv(&mut [0; 2048]).ok()).count() as u32;
            count.received += sinks.iter().map(got).sum::<u32>();
        }
    };
    let near: &Namespace = &site.near;
    let sources: Vec<(usize, UdpSocket)> = near
        .run(|| {
            let to = |port| {
                let socket = UdpSocket::bind(SocketAddr::from((NEAR, port))).unwrap();
                socket.connect(SocketAddr::from((FAR, port))).unwrap();
                socket
            };
            (0..FLOWS).flat_map(|n| [(0, to(VOICE + n)), (1, to(OTHERS + n))]).collect()
        })
        .unwrap();
    let flooder = near.run(|| UdpSocket::bind(SocketAddr::from((NEAR, 0))).unwrap()).unwrap();
    flooder.set_nonblocking(true).unwrap();
    const PARTS: u32 = 5;
    let begun = Instant::now();
    for part in 0..ticks * PARTS {
        let due = begun + TICK * part / PARTS;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        for _ in 0..flood / PARTS {
            // What the socket has no room for is not sent.
            let _ = flooder.send_to(&[0; 958], SocketAddr::from((FAR, 9)));
        }
        if part % PARTS == 0 {
            for (kind, source) in &sources {
                counts[*kind].sent += u32::from(source.send(&[0; 158]).is_ok());
            }
        }
        take(&mut counts);
    }
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        take(&mut counts);
        std::thread::sleep(Duration::from_millis(20));
    }
    counts
}

#[test]
fn flows_that_never_signalled_are_protected_from_a_flood_and_stay_so_without_an_agent() {
    let Some(mut site) = Site::new() else { return };
    site.start();
    assert_eq!((site.mace().promoted, site.mace().applications.len()), (0, 1));
    // 32 packets of 1,014 bytes on the wire in 20 ms: 13 Mb/s, and 1.7 Mb/s of flows, on 10.
    // The agent is asked while they send: what is measured is of the last half second.
    let ([voice, others], doc) = std::thread::scope(|scope| {
        let load = scope.spawn(|| send(&site, 500, 32));
        std::thread::sleep(Duration::from_secs(8));
        let doc = site.mace();
        (load.join().unwrap(), doc)
    });
    println!("voice {voice:?} {:.2} %, others {others:?} {:.2} %", voice.loss_percent(), others.loss_percent());
    // What each rule said about each: all fit by any rule.
    assert_eq!(doc.decisions.len(), usize::from(FLOWS));
    let both = ["simple-sum".to_owned(), "hoeffding".to_owned()];
    assert!(doc.decisions.iter().all(|one| one.admitted && one.would_admit == both), "{doc:?}");
    assert_eq!((doc.promoted, doc.counts.refused), (usize::from(FLOWS), 0), "{doc:?}");
    assert!(doc.flows.iter().all(|row| row.installed && row.application == "voice"), "{doc:?}");
    assert!(doc.measured_wire_bps.is_some_and(|bps| bps > 400_000), "{doc:?}");
    assert!(others.loss_percent() >= 20.0, "the flood is felt: {others:?}");
    assert!(voice.loss_percent() <= 1.0, "{voice:?}");
    // Without an agent, and with the next one, they keep their class.
    site.kill();
    let [voice, _] = send(&site, 50, 32);
    assert!(voice.loss_percent() <= 1.0, "without an agent: {voice:?}");
    site.start();
    let doc = site.mace();
    assert_eq!((doc.promoted, doc.counts.asked), (usize::from(FLOWS), 0), "adopted, not asked again: {doc:?}");
    assert_eq!(doc.estimate_wire_bps, doc.declared_wire_bps, "as declared until a window is full");
    // They fall silent: their timeout is 8 s.
    wait_for("silent flows are demoted", || (site.mace().promoted == 0).then_some(()));
    assert_eq!(site.mace().counts.silent, u64::from(FLOWS));
}

/// Starts an agent at the far end, which reserves in the place of receivers there.
fn start_far(site: &mut Site) {
    let text = format!(
        "name = \"far\"\nauth = \"none\"\nsocket = {:?}\nstate = {:?}\n[store]\nany_filesystem = true\n\
         [rsvp]\nrefresh = \"1s\"\n[[interface]]\nname = \"far\"\nrate = \"10mbit\"\n\
         [[receiver_proxy]]\nfrom = \"10.88.0.0/24\"\nprotocol = \"udp\"\nrate = \"1mbit\"\n",
        site.place.join("far.sock"),
        site.place.join("far")
    );
    std::fs::write(site.place.join("far.toml"), text).unwrap();
    let mut command = Command::new(SLUICE);
    command.args(["agent", "--config"]).arg(site.place.join("far.toml"));
    site.far.enter_at_exec(&mut command);
    site.far_agent = Some(detached(&mut command, &site.place.join("far.log")));
    wait_for("the far agent answers", || Client::connect(&site.place.join("far.sock")).ok()?.call(Request::Hello).ok());
}

fn reserved_flow(port: u16) -> (SessionId, SenderId) {
    let session = SessionId { dst: FAR.into(), protocol: 17, dst_port: port };
    (session, SenderId { src: NEAR.into(), src_port: port.into() })
}

/// Announces a sender of half a megabit, of packets of 200 bytes and more.
fn announce(client: &mut Client, port: u16) {
    let (session, sender) = reserved_flow(port);
    let tspec = TspecDoc { r_bps: 500_000, b_bytes: 8_192, p_bps: None, m_bytes: 200, max_bytes: 1_500 };
    client.call(Request::Sender { session, sender, tspec, ttl: 64 }).unwrap();
}

/// Ten reservations by RSVP of half a megabit each, in three megabits that are set aside: by what they declare five fit, by
/// what they send all do. They are protected as exact ones are, and given back.
#[test]
fn reservations_by_rsvp_are_admitted_by_what_is_measured() {
    let Some(mut site) = Site::with("signalled = true") else { return };
    site.list("game udp 6000 1mbit 4kb 10 3s\n");
    site.start();
    start_far(&mut site);
    let mut client = Client::connect(&site.socket()).unwrap();
    (OTHERS..OTHERS + FLOWS).for_each(|port| announce(&mut client, port));
    let fit = wait_for("five are admitted by what they declare", || site.mace().signalled.filter(|n| *n >= 5));
    assert_eq!(fit, 5);
    // The others ask again one by one, while all send: a window of samples later there is room for one more.
    let doc = std::thread::scope(|scope| {
        let load = scope.spawn(|| send(&site, 1_000, 0));
        for port in OTHERS + 5..OTHERS + FLOWS {
            std::thread::sleep(Duration::from_millis(2_600));
            let (session, sender) = reserved_flow(port);
            client.call(Request::SenderGone { session, sender }).unwrap();
            announce(&mut client, port);
        }
        let all = Some(usize::from(FLOWS));
        let found = wait_for("all are admitted", || Some(site.mace()).filter(|doc| doc.signalled == all));
        load.join().unwrap();
        found
    });
    assert_eq!((doc.signalled, doc.promoted), (Some(usize::from(FLOWS)), 0), "{doc:?}");
    assert!(doc.declared_wire_bps > doc.allocated_wire_bps * 3 / 2, "more than fits as declared: {doc:?}");
    let [others, reserved] = send(&site, 250, 32);
    println!("best effort {:.2} %, reserved {:.2} %", others.loss_percent(), reserved.loss_percent());
    assert!(others.loss_percent() >= 20.0 && reserved.loss_percent() <= 1.0, "{others:?} {reserved:?}");
    // Without their agent they keep their class; whoever asked for them is gone, and the next agent has them as it would
    // have recognised ones.
    site.kill();
    let [_, reserved] = send(&site, 50, 32);
    assert!(reserved.loss_percent() <= 1.0, "without an agent: {reserved:?}");
    site.start();
    assert_eq!((site.mace().signalled, site.mace().promoted), (Some(0), usize::from(FLOWS)));
}

#[test]
fn a_reservation_by_measurement_is_given_back() {
    let Some(mut site) = Site::with("signalled = true") else { return };
    site.start();
    start_far(&mut site);
    let mut client = Client::connect(&site.socket()).unwrap();
    announce(&mut client, OTHERS);
    wait_for("it is admitted", || (site.mace().signalled == Some(1)).then_some(()));
    drop(client);
    wait_for("it is given back", || (site.mace().signalled == Some(0)).then_some(()));
    assert_eq!(site.mace().declared_wire_bps, 0);
}

#[test]
fn a_broken_list_is_refused_with_its_lines_and_the_old_one_kept() {
    let Some(mut site) = Site::new() else { return };
    site.start();
    let reload = |site: &Site, text: &str| {
        site.list(text);
        site.agent.as_ref().unwrap().signal(1).unwrap();
    };
    reload(&site, "voice udp 5000-5099 100kbit 4kb 5 8s\ngame udp 5050 1mbit 4kb 0 3s\n");
    wait_for("the mistake is told", || site.log().contains("line 2:").then_some(()));
    assert_eq!(site.mace().applications[0].name, "voice");
    reload(&site, "game udp 6000 1mbit 4kb 10 3s\n");
    wait_for("the new list counts", || (site.mace().applications[0].name == "game").then_some(()));
    // An agent that starts with a broken list says why it does not.
    site.kill();
    site.list("voice udp 0 100kbit 4kb 5 8s\n");
    let mut command = Command::new(SLUICE);
    command.args(["agent", "--config"]).arg(site.place.join("agent.toml"));
    site.near.enter_at_exec(&mut command);
    let refused = command.output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("line 1:") && text.contains("no port"), "{text}");
}
