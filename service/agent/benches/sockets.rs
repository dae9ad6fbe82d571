//! RSVP from socket to socket: a generator, a transit node and a sink, each in a network namespace of its own, joined
//! by veth pairs. The transit node is the whole agent: sockets, engine, ledger, kernel plane, log.
//!
//! `raw_forward_per_s`: what the sockets alone carry: a loop that takes each message and sends it on, in place of the
//! agent. `rsvp_sockets_new_paths_per_s`: Path messages of sessions that the agent has never heard of, forwarded by it.
//! Both are closed loops: at most [`WINDOW`] messages are under way, so nothing is lost and the slowest part sets the
//! pace. They alternate in one run, because machines drift; the share is taken pair by pair.
//! `rsvp_installs_per_s`: from Resv in, over the ledger, the kernel's map and classes written and read back, to the Resv
//! that goes on upstream.
//!
//! `rsvp_sockets_new_paths_hmac_per_s`: each Path signed with HMAC-SHA-256, checked, and signed anew on its way out. The
//! transit node is here the node and its sockets alone, as it is for `rsvp_sockets_node_new_paths_per_s`, the same
//! without signatures; the two alternate.
//!
//! Generator, agent and sink run at the same time, on all processors wherever `make bench` keeps the others; with fewer
//! than three they take turns.

use agent_service::AgentConfig;
use bench::{Bench, median};
use documents::agent::Request;
use linux::clock::Clock;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::route::RouteEntry;
use linux::netns::Guarded;
use linux::poll::{Poll, PollInterest, Token};
use linux::route::KernelRoutes;
use linux::sockets::{MessageReceiver, MessageSender, Outgoing, RsvpSockets};
use node::Node;
use node::io::{AppCall, AppId, Datagram, Input, InterfaceState, Output};
use rpc::client::Client;
use rsvp::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use terms::ports::{Route, RouteDecision};
use terms::{Adspec, Bytes, FlowSpec, IfIndex, Rate, SenderTemplate, Session, Span, Style, Time, Tspec};
use wire::{Builder, MessageType, RsvpHop};

/// Messages in one round.
const ROUND: u32 = 40_000;
/// Rounds of each contender.
const ROUNDS: u32 = 5;
/// Reservations that are installed.
const INSTALLS: u32 = 4_000;
/// Most messages under way.
const WINDOW: u64 = 1_024;
/// When nothing has come for so long, what is under way is lost.
const PATIENCE: Duration = Duration::from_secs(2);

const TSPEC: Tspec = Tspec { r: Rate::from_kbps(64), b: Bytes::new(2_000), p: Rate::from_kbps(64), m: 64, M: 1_500 };

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Session number `n`: 64 destinations behind the sink, as many ports as it takes.
fn session(n: u32) -> Session {
    let dst = [10, 79, 3, (n % 64) as u8 + 1].into();
    let protocol = if n / 64 > 0xffff { 6 } else { 17 };
    Session { dst, protocol, dst_port: ((n / 64) % 0xffff) as u16 + 1 }
}

fn sender() -> SenderTemplate {
    SenderTemplate { src: ip("10.79.1.2"), src_port: 5004 }
}

/// Where to, and what.
type Message = (IpAddr, Vec<u8>);

fn path(n: u32) -> Message {
    let build = Builder::new(MessageType::Path, 63).session(&session(n));
    let build = build.hop(&RsvpHop { addr: ip("10.79.1.2"), lih: 7 }).time_values(Span::from_secs(30));
    let build = build.sender_template(&sender().into()).sender_tspec(&TSPEC).adspec(&Adspec::origin(1500));
    (session(n).dst, build.finish().expect("short"))
}

fn resv(n: u32, lih: u32) -> Message {
    let build = Builder::new(MessageType::Resv, 63).session(&session(n));
    let build = build.hop(&RsvpHop { addr: ip("10.79.2.2"), lih }).time_values(Span::from_secs(30));
    let build = build.style(Style::Ff).flowspec(&FlowSpec::ControlledLoad(TSPEC)).filter_spec(&sender().into());
    (ip("10.79.2.1"), build.finish().expect("short"))
}

/// Generator - transit - sink.
struct Line {
    generator: Guarded,
    transit: Guarded,
    sink: Guarded,
    to_sink: IfIndex,
}

impl Line {
    fn new() -> Result<Line, linux::error::SystemError> {
        let name = |part: &str| format!("sluice-bench-{part}-{}", std::process::id());
        let generator = Guarded::create(&name("gen"))?;
        let transit = Guarded::create(&name("mid"))?;
        let sink = Guarded::create(&name("sink"))?;
        for namespace in [&transit, &sink] {
            namespace.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding"))?;
        }
        leg(&transit, "to-gen", "10.79.1.1", &generator, "10.79.1.2");
        let to_sink = leg(&transit, "to-sink", "10.79.2.1", &sink, "10.79.2.2");
        let route = RouteEntry { dst: ip("10.79.3.0"), prefix: 24, gateway: Some(ip("10.79.2.2")), oif: IfIndex(0) };
        transit.run(|| Socket::open().and_then(|mut s| s.add_route(&route)).expect("route"))?;
        Ok(Line { generator, transit, sink, to_sink })
    }
}

/// A veth pair with addresses, and all the far end's routes through it.
fn leg(near: &Guarded, name: &str, ours: &str, far: &Guarded, theirs: &str) -> IfIndex {
    let up = |socket: &mut Socket, name: &str, address: &str| {
        let index = socket.link_by_name(name).expect("link").index;
        socket.set_link_up(index, true).expect("up");
        socket.add_address(&Address { index, address: ip(address), prefix: 24 }).expect("address");
        index
    };
    let peer = far.as_fd_owned();
    let index = near.run(|| {
        let mut socket = Socket::open().expect("netlink");
        socket.add_veth(name, "up", Some(peer.as_fd())).expect("veth");
        up(&mut socket, name, ours)
    });
    let gateway = RouteEntry { dst: ip("0.0.0.0"), prefix: 0, gateway: Some(ip(ours)), oif: IfIndex(0) };
    far.run(|| {
        let mut socket = Socket::open().expect("netlink");
        up(&mut socket, "up", theirs);
        socket.add_route(&gateway).expect("route");
    })
    .expect("inside");
    index.expect("inside")
}

/// Its descriptor, as netlink wants it.
trait AsFdOwned {
    fn as_fd_owned(&self) -> std::fs::File;
}

impl AsFdOwned for Guarded {
    fn as_fd_owned(&self) -> std::fs::File {
        std::fs::File::open(format!("{}/{}", linux::netns::NETNS_DIR, self.name())).expect("it is there")
    }
}

/// Sends `messages` through the line in a closed loop; how many came per second, or `None` when some were lost.
fn drive(from: &Guarded, to: &Guarded, kind: MessageType, messages: &[Message], out: &Outgoing<'_>) -> Option<f64> {
    let (came, ready, done) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let counted = to.run(|| count(&came, &ready, &done, kind)).expect("inside");
            counted.expect("the sink receives");
        });
        while !ready.load(Relaxed) {
            std::thread::yield_now();
        }
        let result = from.run(|| send_all(&came, messages, out)).expect("inside");
        done.store(true, Relaxed);
        result
    })
}

/// The sink: counts messages of one kind until it is told to stop.
fn count(
    came: &AtomicU64,
    ready: &AtomicBool,
    done: &AtomicBool,
    kind: MessageType,
) -> Result<(), linux::error::SystemError> {
    let mut receiver = MessageReceiver::open()?;
    let clock = Clock::start();
    let mut poll = Poll::new(clock)?;
    poll.add(&receiver, Token(0), PollInterest::Read)?;
    ready.store(true, Relaxed);
    while !done.load(Relaxed) {
        poll.wait(Some(clock.now() + Span::from_millis(20)))?;
        while receiver.fill()? {
            let of_kind = receiver.messages().filter(|m| m.bytes.get(1) == Some(&kind.number())).count();
            came.fetch_add(of_kind as u64, Relaxed);
        }
    }
    Ok(())
}

fn send_all(came: &AtomicU64, messages: &[Message], out: &Outgoing<'_>) -> Option<f64> {
    let mut sender = MessageSender::open().expect("sockets");
    let (start, mut sent) = (Instant::now(), 0u64);
    let (mut last, mut heard) = (0, start);
    let count = messages.len() as u64;
    while last < count {
        let room = WINDOW.saturating_sub(sent - last).min(count - sent).min(64);
        for (dst, bytes) in &messages[sent as usize..(sent + room) as usize] {
            sender.push(&Outgoing { bytes, dst: *dst, ..*out }, |failed| panic!("{failed}"));
        }
        sender.flush(|failed| panic!("{failed}"));
        sent += room;
        if room == 0 {
            std::thread::sleep(Duration::from_micros(20));
        }
        let now_came = came.load(Relaxed);
        if now_came > last {
            (last, heard) = (now_came, Instant::now());
        } else if heard.elapsed() > PATIENCE {
            eprintln!("{} of {sent} messages came through", last);
            return None;
        }
    }
    Some(count as f64 / heard.duration_since(start).as_secs_f64())
}

/// What the sockets alone can carry.
fn forward(line: &Line, ready: &AtomicBool, done: &AtomicBool) -> Result<(), linux::error::SystemError> {
    let RsvpSockets { mut receiver, mut sender } = RsvpSockets::open()?;
    let clock = Clock::start();
    let mut poll = Poll::new(clock)?;
    poll.add(&receiver, Token(0), PollInterest::Read)?;
    ready.store(true, Relaxed);
    while !done.load(Relaxed) {
        poll.wait(Some(clock.now() + Span::from_millis(20)))?;
        receiver.fill()?;
        for m in receiver.messages() {
            let (oif, ttl, router_alert) = (Some(line.to_sink), m.ttl - 1, true);
            let out = Outgoing { oif, src: m.src, dst: m.dst, ttl, router_alert, bytes: m.bytes };
            sender.push(&out, |failed| panic!("{failed}"));
        }
        sender.flush(|failed| panic!("{failed}"));
    }
    Ok(())
}

/// Keys for every link; nobody is challenged, because the generator only sends.
fn keys() -> AuthMode {
    let mut table = KeyTable::new(vec![IntegrityKey::new(1, Algorithm::HmacSha256, &[7; 32])]).expect("a key");
    (table.handshake, table.unwilling) = (false, true);
    AuthMode::Keys(table)
}

fn node<R: Route>(auth: AuthMode, route: R, interfaces: &[(IfIndex, &str)]) -> Node<R> {
    let rsvp = rsvp::io::Config { node_name: "transit".into(), auth, ..Default::default() };
    let mut node = Node::new(node::Config { rsvp, seed: 7, ..node::Config::default() }, route);
    for (index, address) in interfaces {
        let (name, addresses) = (format!("if{}", index.0), vec![ip(address)]);
        let state = InterfaceState { index: *index, name, addresses, mtu: 1500, rsvp: true, link: None };
        say(&mut node, Clock::start().now(), Input::Interface(state), &mut |_| {});
    }
    node
}

/// Tells a node one thing; `send` has what it sends.
fn say<R: Route>(node: &mut Node<R>, now: Time, input: Input<'_>, send: &mut impl FnMut(Datagram)) {
    node.handle(now, input);
    let mut reserve = None;
    while let Some(output) = node.poll() {
        match output {
            Output::Send(datagram) => send(datagram),
            Output::ReserveSequences { upto } => reserve = Some(upto),
            _ => {}
        }
    }
    if let Some(upto) = reserve {
        node.handle(now, Input::SequencesReserved { from: 0, upto: upto.max(1 << 24) });
        while let Some(output) = node.poll() {
            if let Output::Send(datagram) = output {
                send(datagram);
            }
        }
    }
}

/// All packets leave by the one link of a host.
struct Only;

impl Route for Only {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        RouteDecision::Out { oif: IfIndex(1), gateway: Some(ip("10.79.1.1")), source: ip("10.79.1.2") }
    }
}

/// Paths as a host with keys says them.
fn signed_paths(host: &mut Node<Only>, from: u32) -> Vec<Message> {
    let now = Clock::start().now();
    let mut paths = Vec::with_capacity(ROUND as usize);
    for n in from..from + ROUND {
        let (app, session, template) = (AppId(1), session(n), sender());
        let call = AppCall::Sender { app, session, template, tspec: TSPEC, ttl: 63 };
        say(host, now, Input::App(call), &mut |datagram| paths.push((datagram.dst, datagram.bytes)));
    }
    assert_eq!(paths.len(), ROUND as usize, "one Path each");
    paths
}

/// The node and its sockets, in place of the agent.
fn transit(
    line: &Line,
    auth: AuthMode,
    ready: &AtomicBool,
    done: &AtomicBool,
) -> Result<(), linux::error::SystemError> {
    let RsvpSockets { mut receiver, mut sender } = RsvpSockets::open()?;
    let clock = Clock::start();
    let mut poll = Poll::new(clock)?;
    poll.add(&receiver, Token(0), PollInterest::Read)?;
    let to_gen = Socket::open().and_then(|mut s| s.link_by_name("to-gen")).expect("link").index;
    let routes = KernelRoutes::open().expect("routes");
    let mut node = node(auth, routes, &[(to_gen, "10.79.1.1"), (line.to_sink, "10.79.2.1")]);
    ready.store(true, Relaxed);
    while !done.load(Relaxed) {
        poll.wait(Some(clock.now() + Span::from_millis(20)))?;
        receiver.fill()?;
        for m in receiver.messages() {
            let input = Input::Message { iif: m.iif, src: m.src, dst: m.dst, ttl: m.ttl, bytes: m.bytes };
            say(&mut node, clock.now(), input, &mut |datagram| {
                let Datagram { oif, src, dst, ttl, router_alert, ref bytes } = datagram;
                sender.push(&Outgoing { oif, src, dst, ttl, router_alert, bytes }, |failed| panic!("{failed}"));
            });
        }
        sender.flush(|failed| panic!("{failed}"));
    }
    Ok(())
}

/// With signatures and without, alternately.
fn signatures(bench: &Bench, line: &Line, out: &Outgoing<'_>) {
    let names = ["rsvp_sockets_node_new_paths_per_s", "rsvp_sockets_new_paths_hmac_per_s"];
    if !names.iter().any(|name| bench.wants(name)) {
        return;
    }
    let mut host = node(keys(), Only, &[(IfIndex(1), "10.79.1.2")]);
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let signed = signed_paths(&mut host, round * ROUND);
        let plain: Vec<_> = (round * ROUND..(round + 1) * ROUND).map(path).collect();
        for (rates, (auth, messages)) in rates.iter_mut().zip([(AuthMode::None, plain), (keys(), signed)]) {
            let (ready, done) = (AtomicBool::new(false), AtomicBool::new(false));
            let (ready, done) = (&ready, &done);
            let rate = std::thread::scope(|scope| {
                scope.spawn(move || {
                    line.transit.run(|| transit(line, auth, ready, done)).expect("inside").expect("it runs");
                });
                while !ready.load(Relaxed) {
                    std::thread::yield_now();
                }
                let rate = drive(&line.generator, &line.sink, MessageType::Path, &messages, out);
                done.store(true, Relaxed);
                rate
            });
            rates.push(rate.expect("no message is lost"));
        }
    }
    for (name, mut rates) in names.into_iter().zip(rates) {
        bench.report(name, median(&mut rates), "1/s", ROUNDS as usize);
    }
}

/// An agent in the transit namespace, on a thread of its own, stopped by its socket.
struct Agent {
    thread: std::thread::JoinHandle<()>,
    dir: PathBuf,
}

impl Agent {
    fn start(line: &Line, name: &str, auth: &str) -> Agent {
        let dir = std::env::temp_dir().join(format!("sluice-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let text = format!(
            "name = \"transit\"\n{auth}\nsocket = \"{d}/agent.sock\"\nstate = \"{d}/state\"\nlog = \"error\"\n\
             [rsvp]\nrefresh = \"300s\"\n\
             [[interface]]\nname = \"to-gen\"\nrate = \"10gbit\"\n[[interface]]\nname = \"to-sink\"\nrate = \"10gbit\"\n",
            d = dir.display()
        );
        let config = AgentConfig::parse(&dir.join("agent.toml"), &text).expect("a configuration");
        let netns = linux::netns::Namespace::open(line.transit.name()).expect("the transit namespace");
        let thread = std::thread::spawn(move || {
            netns.run(|| agent_service::run(config)).expect("inside").unwrap_or_else(|error| panic!("{error}"));
        });
        let agent = Agent { thread, dir };
        let patience = Instant::now() + Duration::from_secs(20);
        while agent.client().is_none() {
            assert!(Instant::now() < patience && !agent.thread.is_finished(), "the agent starts");
            std::thread::sleep(Duration::from_millis(20));
        }
        agent
    }

    fn client(&self) -> Option<Client> {
        let mut client = Client::connect(&self.dir.join("agent.sock")).ok()?;
        client.call(Request::Hello).ok().map(|_| client)
    }

    fn stop(self) {
        if let Some(mut client) = self.client() {
            let _ = client.call(Request::Stop);
        }
        self.thread.join().expect("the agent ends");
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn main() {
    let bench = Bench::from_args();
    let of_agent = ["raw_forward_per_s", "rsvp_sockets_new_paths_per_s", "rsvp_sockets_share_of_raw"];
    let others = ["rsvp_sockets_node_new_paths_per_s", "rsvp_sockets_new_paths_hmac_per_s", "rsvp_installs_per_s"];
    let wants = |names: &[&str]| names.iter().any(|name| bench.wants(name));
    if !wants(&of_agent) && !wants(&others) {
        return;
    }
    linux::process::run_anywhere().expect("this process may use every processor");
    let line = match Line::new() {
        Ok(line) => line,
        Err(failed) => return bench::skipped(format!("no network namespaces: {failed}")),
    };
    let (src, dst) = (sender().src, ip("10.79.3.1"));
    let out = Outgoing { oif: None, src, dst, ttl: 63, router_alert: true, bytes: &[] };
    let (mut bare, mut agents, mut share) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = 0;
    let rounds = if wants(&of_agent) { ROUNDS } else { 0 };
    for _ in 0..rounds {
        let messages: Vec<_> = (next..next + ROUND).map(path).collect();
        next += ROUND;
        let (ready, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let raw = std::thread::scope(|scope| {
            scope.spawn(|| line.transit.run(|| forward(&line, &ready, &done)).expect("inside").expect("it forwards"));
            while !ready.load(Relaxed) {
                std::thread::yield_now();
            }
            let rate = drive(&line.generator, &line.sink, MessageType::Path, &messages, &out);
            done.store(true, Relaxed);
            rate
        });
        let agent = Agent::start(&line, "plain", "auth = \"none\"");
        let ours = drive(&line.generator, &line.sink, MessageType::Path, &messages, &out);
        agent.stop();
        let (Some(raw), Some(ours)) = (raw, ours) else { panic!("messages were lost") };
        bare.push(raw);
        agents.push(ours);
        share.push(ours / raw);
    }
    if rounds > 0 {
        let n = rounds as usize;
        bench.report("raw_forward_per_s", median(&mut bare), "1/s", n);
        bench.report("rsvp_sockets_new_paths_per_s", median(&mut agents), "1/s", n);
        bench.report("rsvp_sockets_share_of_raw", median(&mut share), "ratio", n);
    }
    signatures(&bench, &line, &out);
    installs(&bench, &line, &out);
}

/// Reservations for sessions whose Paths are there.
fn installs(bench: &Bench, line: &Line, out: &Outgoing<'_>) {
    if !bench.wants("rsvp_installs_per_s") {
        return;
    }
    let agent = Agent::start(line, "installs", "auth = \"none\"");
    let paths: Vec<_> = (0..INSTALLS).map(path).collect();
    drive(&line.generator, &line.sink, MessageType::Path, &paths, out).expect("the Paths come through");
    let resvs: Vec<_> = (0..INSTALLS).map(|n| resv(n, line.to_sink.0)).collect();
    let to_us =
        Outgoing { oif: None, src: ip("10.79.2.2"), dst: ip("10.79.2.1"), ttl: 63, router_alert: false, bytes: &[] };
    let rate = drive(&line.sink, &line.generator, MessageType::Resv, &resvs, &to_us);
    agent.stop();
    bench.report("rsvp_installs_per_s", rate.expect("every Resv goes on"), "1/s", 1);
}
