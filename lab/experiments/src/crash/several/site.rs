//! A broker and its agents, each in a network namespace of its own, over mutual TLS. The agents are a chain, so that
//! a path leads over one, two or all of them; each has one more link, to the broker's namespace.

use super::process::WatchedProcess;
use crate::anomalies::http;
use bed::error::Error;
use bed::patience::Patience;
use bed::scratch::Scratch;
use documents::agent::Request;
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::route::RouteEntry;
use linux::netns::{Guarded, Namespace};
use rpc::client::Client;
use serde_json::Value;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The names of the agents. A run has some of the first.
pub const AGENTS: [&str; 3] = ["one", "two", "three"];
/// The interface of each agent whose bandwidth is reserved: it leads to the next agent.
pub const INTERFACE: &str = "near";
/// The countable resource of each agent, and how many there are.
pub const LICENCE: &str = crate::crash::LICENCE;
pub const LICENCES: u64 = 24;

/// The link rate of [`INTERFACE`]: low, so that requests are refused too.
const RATE: &str = "40mbit";
/// The time limit for the first answer after a start, on a busy machine.
const START: Duration = Duration::from_secs(60);
/// The broker's address, where its agents ask it for outcomes.
const BROKER: [u8; 4] = [10, 9, 0, 1];

/// The MTU of the links, and of one that swallows what is larger, bytes.
const MTU: u32 = 1_500;
const SMALL_MTU: u32 = 600;

/// The packets between the broker and an agent that are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostPackets {
    /// Both: the link is down.
    Both,
    /// To the agent.
    There,
    /// From the agent.
    Back,
    /// From the agent, if they are large, without a message (a black hole for packets of the path's MTU).
    Large,
}

/// An agent's namespace.
struct Node {
    namespace: Guarded,
    cut: Option<LostPackets>,
}

/// The broker, its agents, and the net between them.
pub struct Site {
    // In this order: programs end before their namespaces, and these before the folder.
    broker: WatchedProcess,
    agents: Vec<WatchedProcess>,
    middle: Guarded,
    nodes: Vec<Node>,
    program: PathBuf,
    place: Scratch,
}

impl Site {
    /// Makes namespaces, certificates and configurations; nothing runs yet.
    ///
    /// # Errors
    /// Namespaces, links or files cannot be made.
    pub fn make(program: &Path, agents: usize) -> Result<Site, Error> {
        let place = Scratch::create()?;
        let middle = Guarded::create(&format!("{}-b", place.name()))?;
        let node = |name: &&str| -> Result<Node, Error> {
            Ok(Node { namespace: Guarded::create(&format!("{}-{name}", place.name()))?, cut: None })
        };
        let nodes = AGENTS.iter().take(agents).map(node).collect::<Result<Vec<Node>, Error>>()?;
        lay(&middle, &nodes)?;
        let agent = |name: &&str| {
            let home = place.path().join(name);
            WatchedProcess::new(name, home.join("agent.log"), home.join("state/book"))
        };
        let agents = AGENTS.iter().take(agents).map(agent).collect();
        let journal = place.path().join("broker/transactions");
        let broker = WatchedProcess::new("the broker", place.path().join("broker.log"), journal);
        let site = Site { broker, agents, middle, nodes, program: program.to_owned(), place };
        site.write_certificates()?;
        site.write_configurations()?;
        Ok(site)
    }

    /// The number of agents.
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// The broker's socket.
    pub fn socket(&self) -> PathBuf {
        self.place.path().join("broker.sock")
    }

    /// An agent's folder.
    pub fn home(&self, agent: usize) -> PathBuf {
        self.place.path().join(AGENTS[agent])
    }

    /// An agent's socket on this machine.
    pub fn agent_socket(&self, agent: usize) -> PathBuf {
        self.home(agent).join("agent.sock")
    }

    /// The namespace of an agent.
    pub fn namespace(&self, agent: usize) -> &Namespace {
        &self.nodes[agent].namespace
    }

    /// A process: the broker is number 0, agents follow.
    pub fn process(&mut self, number: usize) -> &mut WatchedProcess {
        match number.checked_sub(1) {
            None => &mut self.broker,
            Some(agent) => &mut self.agents[agent],
        }
    }

    /// Starts what does not run, and waits until all answer.
    ///
    /// # Errors
    /// A process does not answer in time; the text says which, and its last words.
    pub fn start(&mut self, patience: &Patience) -> Result<(), Error> {
        for agent in 0..self.agents.len() {
            if !self.agents[agent].is_up() {
                let mut command = Command::new(&self.program);
                command.arg("agent").arg("--config").arg(self.home(agent).join("agent.toml"));
                self.nodes[agent].namespace.enter_at_exec(&mut command);
                self.agents[agent].start(command)?;
            }
        }
        if !self.broker.is_up() {
            let mut command = Command::new(&self.program);
            command.args(["broker", "--no-agent", "--config"]).arg(self.place.path().join("broker.toml"));
            self.middle.enter_at_exec(&mut command);
            self.broker.start(command)?;
        }
        for agent in 0..self.agents.len() {
            let socket = self.agent_socket(agent);
            self.agents[agent].answers(START, patience, || {
                Client::connect(&socket).and_then(|mut client| client.call(Request::Hello)).is_ok()
            })?;
        }
        let socket = self.socket();
        self.broker.answers(START, patience, || {
            matches!(http::ask(&socket, "GET", "/v1/resources", "", &Value::Null), Ok((200, _)))
        })
    }

    /// Cuts the net between the broker and an agent.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cut(&mut self, agent: usize, lost: LostPackets) -> Result<(), Error> {
        // A link that is cut already is cut in another way: what is undone later is the last one.
        if let Some(earlier) = self.nodes[agent].cut.take() {
            self.set_cut(agent, earlier, false)?;
        }
        self.set_cut(agent, lost, true)?;
        self.nodes[agent].cut = Some(lost);
        Ok(())
    }

    /// Heals the net between the broker and all agents.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn heal(&mut self) -> Result<(), Error> {
        for agent in 0..self.nodes.len() {
            if let Some(lost) = self.nodes[agent].cut.take() {
                self.set_cut(agent, lost, false)?;
            }
        }
        Ok(())
    }

    fn set_cut(&self, agent: usize, lost: LostPackets, on: bool) -> Result<(), Error> {
        let number = agent as u8 + 1;
        match lost {
            LostPackets::Both => self.middle.run(|| {
                let mut netlink = open()?;
                let index = netlink.link_by_name(&uplink(agent)).map_err(SystemError::netlink("find a link"))?.index;
                netlink.set_link_up(index, !on).map_err(SystemError::netlink("switch a link"))
            })??,
            LostPackets::Large => self.middle.run(|| {
                let mut netlink = open()?;
                let index = netlink.link_by_name(&uplink(agent)).map_err(SystemError::netlink("find a link"))?.index;
                let mtu = if on { SMALL_MTU } else { MTU };
                netlink.set_link_mtu(index, mtu).map_err(SystemError::netlink("set a link's MTU"))
            })??,
            LostPackets::There => self.middle.run(|| lose(&[[10, 9, number, 2]], on))??,
            LostPackets::Back => self.nodes[agent].namespace.run(|| lose(&[[10, 9, number, 1], BROKER], on))??,
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let file = self.place.path().join(name);
        Ok(std::fs::write(&file, text).map_err(SystemError::doing(format!("write {}", file.display())))?)
    }

    fn write_certificates(&self) -> Result<(), Error> {
        let mut command = Command::new(&self.program);
        command.args(["ca", "--broker", &address(BROKER).to_string(), "--dir"]).arg(self.place.path().join("trust"));
        for (number, name) in (1..).zip(&AGENTS[..self.agents.len()]) {
            command.arg("--agent").arg(format!("{name}={}", address([10, 9, number, 2])));
        }
        bed::program::output(&mut command, &Patience::endless()).map(drop)
    }

    /// Writes the configuration of an agent whose countable resource has this capacity.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn configure(&self, agent: usize, licences: u64) -> Result<(), Error> {
        let (name, number, home) = (AGENTS[agent], agent + 1, self.home(agent));
        let trust = self.place.path().join("trust");
        let (socket, state, trust) = (home.join("agent.sock"), home.join("state"), trust.display());
        let text = format!(
            "name = {name:?}\nauth = \"none\"\npolicy = \"policy.toml\"\nsocket = {socket:?}\nstate = {state:?}\nlog = \"error\"\n\
             [store]\nany_filesystem = true\n[[interface]]\nname = \"{INTERFACE}\"\nrate = \"{RATE}\"\n\
             [[resource]]\nname = \"{LICENCE}\"\ncapacity = {licences}\n\
             [listen]\naddress = \"10.9.{number}.2:4711\"\nca = \"{trust}/ca.pem\"\ncertificate = \"{trust}/agent-{name}.pem\"\n\
             key = \"{trust}/agent-{name}.key\"\nrevoked = \"{trust}/revoked.pem\"\n\
             [[broker]]\nname = \"main\"\naddress = \"tls://{}:8443\"\n",
            address(BROKER)
        );
        self.write(&format!("{name}/agent.toml"), &text)
    }

    fn write_configurations(&self) -> Result<(), Error> {
        let mut agents = String::new();
        for (agent, name) in AGENTS.iter().enumerate().take(self.agents.len()) {
            let home = self.home(agent);
            std::fs::create_dir_all(&home).map_err(SystemError::doing(format!("make {}", home.display())))?;
            self.configure(agent, LICENCES)?;
            let policy = "brokers = [\"main\"]\n[[rule]]\nname = \"tests\"\nwho = [\"main/uid:*\", \"uid:*\"]\n";
            self.write(&format!("{name}/policy.toml"), policy)?;
            agents += &format!("[[agent]]\nname = \"{name}\"\naddress = \"10.9.{}.2:4711\"\n", agent + 1);
        }
        let (here, trust) = (self.place.path().display(), self.place.path().join("trust"));
        let text = format!(
            "socket = \"{here}/broker.sock\"\nstate = \"{here}/broker\"\nlisten = [\"{}:8443\"]\n\
             [tls]\nca = \"{1}/ca.pem\"\ncertificate = \"{1}/broker-main.pem\"\nkey = \"{1}/broker-main.key\"\n\
             revoked = \"{1}/revoked.pem\"\n{agents}",
            address(BROKER),
            trust.display()
        );
        self.write("broker.toml", &text)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for number in 0..=self.agents.len() {
            self.process(number).kill();
        }
        for agent in 0..self.agents.len() {
            // What cannot be unmounted is told by the next run, which finds it.
            let _ = linux::mount::unmount_below(&self.home(agent).join("state"));
        }
    }
}

fn address(bytes: [u8; 4]) -> IpAddr {
    IpAddr::from(bytes)
}

/// The broker's end of the link to an agent.
fn uplink(agent: usize) -> String {
    format!("to{}", agent + 1)
}

fn open() -> Result<Socket, SystemError> {
    Socket::open().map_err(SystemError::netlink("speak to the kernel"))
}

/// In the present namespace: sends what goes to these addresses to nowhere, or no more.
fn lose(addresses: &[[u8; 4]], on: bool) -> Result<(), SystemError> {
    let mut netlink = open()?;
    let lo = netlink.link_by_name("lo").map_err(SystemError::netlink("find the loopback"))?.index;
    for to in addresses {
        let route = RouteEntry { dst: address(*to), prefix: 32, gateway: None, oif: lo };
        let done = if on { netlink.add_route(&route) } else { netlink.delete_route(&route) };
        done.map_err(SystemError::netlink("change a route"))?;
    }
    Ok(())
}

/// In the present namespace: sets a link up, with an address.
fn configure(netlink: &mut Socket, name: &str, of: Option<([u8; 4], u8)>) -> Result<(), SystemError> {
    let index = netlink.link_by_name(name).map_err(SystemError::netlink("find a link"))?.index;
    netlink.set_link_up(index, true).map_err(SystemError::netlink("switch a link on"))?;
    let Some((of, prefix)) = of else { return Ok(()) };
    netlink
        .add_address(&Address { index, address: address(of), prefix })
        .map_err(SystemError::netlink("give an address"))
}

/// Lays all links: from the broker to each agent, and from each agent to the next. The ends of the chain are in the
/// broker's namespace, with no address.
fn lay(middle: &Namespace, nodes: &[Node]) -> Result<(), Error> {
    for (agent, node) in nodes.iter().enumerate() {
        let next = nodes.get(agent + 1).map(|next| &*next.namespace);
        node.namespace.run(|| {
            let mut netlink = open()?;
            let mut join = |near: &str, far: &str, there: &Namespace| {
                netlink.add_veth(near, far, Some(there.as_fd())).map_err(SystemError::netlink("make a link"))
            };
            join("up", &uplink(agent), middle)?;
            if agent == 0 {
                join("in", "begin", middle)?;
            }
            match next {
                Some(next) => join(INTERFACE, "in", next),
                None => join(INTERFACE, "end", middle),
            }
        })??;
    }
    for (number, node) in (1..).zip(nodes) {
        node.namespace.run(|| {
            let mut netlink = open()?;
            configure(&mut netlink, "lo", None)?;
            configure(&mut netlink, "up", Some(([10, 9, number, 2], 24)))?;
            configure(&mut netlink, "in", Some(([10, 8, number - 1, 2], 24)))?;
            configure(&mut netlink, INTERFACE, Some(([10, 8, number, 1], 24)))?;
            let oif = netlink.link_by_name("up").map_err(SystemError::netlink("find a link"))?.index;
            let gateway = Some(address([10, 9, number, 1]));
            let route = RouteEntry { dst: address([10, 9, 0, 0]), prefix: 24, gateway, oif };
            netlink.add_route(&route).map_err(SystemError::netlink("make a route"))
        })??;
    }
    middle.run(|| {
        let mut netlink = open()?;
        configure(&mut netlink, "lo", Some((BROKER, 32)))?;
        ["begin", "end"].iter().try_for_each(|name| configure(&mut netlink, name, None))?;
        let up = |agent: usize| configure(&mut netlink, &uplink(agent), Some(([10, 9, agent as u8 + 1, 1], 24)));
        (0..nodes.len()).try_for_each(up)
    })??;
    Ok(())
}
