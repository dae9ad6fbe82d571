//! Three network namespaces in a line: a tester's two ends, and between them a node under test that runs the
//! whole agent on real sockets and the real plane.

use super::tester::{Tester, TesterPort};
use agent_service::AgentConfig;
use bed::error::Error;
use documents::agent::Request;
use linux::bpf::checkpoint::Checkpoint;
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::route::RouteEntry;
use linux::netns::{Guarded, NETNS_DIR, Namespace};
use linux::offload;
use rpc::client::Client;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use terms::{IfIndex, Rate};
use traffic::edge::Side;

/// The name of the tester's interface, at both ends.
pub const END: &str = "up";
/// The node's address towards the tester's upstream end, and the address of that end.
pub const NEAR: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 79, 1, 1), Ipv4Addr::new(10, 79, 1, 2));
/// The node's address towards the downstream end, and the address of that end.
pub const FAR: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 79, 2, 1), Ipv4Addr::new(10, 79, 2, 2));
/// The network behind the downstream end, /24.
pub const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 79, 3, 0);

/// The line. It is removed when this is dropped.
pub struct ProfiledLine {
    /// The source of downstream messages.
    pub upstream: Guarded,
    /// The node under test.
    pub node: Guarded,
    /// The destination of downstream messages.
    pub downstream: Guarded,
    /// The node's interfaces, towards both ends.
    pub interfaces: [IfIndex; 2],
}

impl ProfiledLine {
    /// Makes a line.
    ///
    /// # Errors
    /// Missing privileges.
    pub fn new() -> Result<ProfiledLine, Error> {
        static LINES: AtomicU32 = AtomicU32::new(0);
        let number = LINES.fetch_add(1, Relaxed);
        let name = |part: &str| format!("sluice-profile-{part}-{}-{number}", std::process::id());
        let make = |part: &str| Guarded::create(&name(part));
        let (upstream, node, downstream) = (make("up")?, make("mid")?, make("down")?);
        let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        node.run(forward)?.map_err(SystemError::doing("switch forwarding on"))?;
        let near = leg(&node, "to-up", NEAR, &upstream)?;
        let far = leg(&node, "to-down", FAR, &downstream)?;
        let gateway = Some(IpAddr::V4(FAR.1));
        let route = RouteEntry { dst: BEHIND.into(), prefix: 24, gateway, oif: IfIndex(0) };
        inside(&node, |socket| socket.add_route(&route))?;
        Ok(ProfiledLine { upstream, node, downstream, interfaces: [near, far] })
    }

    /// Opens a tester at both ends.
    ///
    /// # Errors
    /// The kernel has no TCX.
    pub fn tester(&self) -> Result<Tester, Error> {
        let (up, down) = (TesterPort::open(&self.upstream, END)?, TesterPort::open(&self.downstream, END)?);
        Tester::new((&self.upstream, up), (&self.downstream, down), NEAR.0, Some(BEHIND))
    }

    /// Opens checkpoint 2, at the node's own interfaces.
    ///
    /// # Errors
    /// The kernel has no TCX.
    pub fn inner(&self) -> Result<[Checkpoint; 4], Error> {
        let [near, far] = self.interfaces;
        let hang = |interface, side| Checkpoint::hang(interface, side).map_err(|fault| Error::Void(fault.to_string()));
        self.node.run(|| {
            Ok([
                hang(near, Side::Ingress)?,
                hang(far, Side::Egress)?,
                hang(far, Side::Ingress)?,
                hang(near, Side::Egress)?,
            ])
        })?
    }
}

fn inside<T: Send>(
    namespace: &Namespace,
    deed: impl FnOnce(&mut Socket) -> Result<T, linux::netlink::Error> + Send,
) -> Result<T, SystemError> {
    namespace
        .run(|| Socket::open().and_then(|mut socket| deed(&mut socket)))?
        .map_err(|error| SystemError::netlink("make a line of namespaces")(error))
}

/// Makes a veth pair with addresses, and a default route through it at the far end.
fn leg(node: &Guarded, name: &str, (ours, theirs): (Ipv4Addr, Ipv4Addr), end: &Guarded) -> Result<IfIndex, Error> {
    let up = |socket: &mut Socket, name: &str, address: Ipv4Addr| {
        let index = socket.link_by_name(name)?.index;
        socket.set_link_up(index, true)?;
        socket.add_address(&Address { index, address: address.into(), prefix: 24 })?;
        Ok(index)
    };
    let path = format!("{NETNS_DIR}/{}", end.name());
    let peer = File::open(&path).map_err(SystemError::doing(format!("open {path}")))?;
    let index = inside(node, |socket| {
        socket.add_veth(name, END, Some(peer.as_fd()))?;
        up(socket, name, ours)
    })?;
    let gateway = RouteEntry { dst: [0, 0, 0, 0].into(), prefix: 0, gateway: Some(ours.into()), oif: IfIndex(0) };
    let far = inside(end, |socket| {
        let index = up(socket, END, theirs)?;
        socket.add_route(&gateway)?;
        Ok(index)
    })?;
    for (namespace, name, index) in [(node, name, index), (end, END, far)] {
        namespace.run(|| {
            let mut socket = Socket::open().map_err(SystemError::netlink("open netlink"))?;
            offload::segmentation_off(&mut socket, name, index)
        })??;
    }
    Ok(index)
}

/// An agent in the node, on its own thread. It stops when this is dropped.
pub struct ProfiledAgent {
    thread: Option<JoinHandle<Result<(), String>>>,
    dir: PathBuf,
}

/// The time limit for an agent to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(20);

impl ProfiledAgent {
    /// Starts an agent with links of this rate; `more` are further lines of its configuration.
    ///
    /// # Errors
    /// The agent did not start, for the given reason.
    pub fn start(line: &ProfiledLine, rate: Rate, more: &str) -> Result<ProfiledAgent, Error> {
        let dir = std::env::temp_dir().join(line.node.name());
        std::fs::create_dir_all(&dir).map_err(SystemError::doing(format!("make {}", dir.display())))?;
        let rate = rate.as_bps() / 1_000_000;
        let text = format!(
            "name = \"node\"\nauth = \"none\"\nsocket = \"{d}/agent.sock\"\nstate = \"{d}/state\"\nlog = \"error\"\n\
             {more}[[interface]]\nname = \"to-up\"\nrate = \"{rate}mbit\"\n\
             [[interface]]\nname = \"to-down\"\nrate = \"{rate}mbit\"\n",
            d = dir.display()
        );
        let config = AgentConfig::parse(&dir.join("agent.toml"), &text);
        let config = config.map_err(|mistake| Error::Testbed(mistake.to_string()))?;
        let namespace = Namespace::open(line.node.name())?;
        let thread = std::thread::Builder::new().name("agent".into()).spawn(move || {
            let ran = namespace.run(|| agent_service::run(config).map_err(|error| error.to_string()));
            ran.map_err(|failed| failed.to_string())?
        });
        let thread = Some(thread.map_err(SystemError::doing("start a thread"))?);
        let agent = ProfiledAgent { thread, dir };
        let begun = Instant::now();
        while agent.client().is_none() {
            if begun.elapsed() > PATIENCE || agent.has_ended() {
                return Err(Error::Testbed("the agent of the node under test did not start".into()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(agent)
    }

    /// True if the agent has stopped by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn client(&self) -> Option<Client> {
        let mut client = Client::connect(&self.dir.join("agent.sock")).ok()?;
        client.call(Request::Hello).ok().map(|_| client)
    }
}

impl Drop for ProfiledAgent {
    fn drop(&mut self) {
        if let Some(mut client) = self.client() {
            let _stops = client.call(Request::Stop);
        }
        // A panic has been told of where it happened.
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("sluice: {error}");
        }
        // What cannot be removed lies in the temporary folder, where the system removes it.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
