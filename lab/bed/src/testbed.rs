//! `sluice up` and `sluice down`: a testbed with an agent on every node, and a broker in every domain.
//!
//! Everything that a testbed leaves in the file system is in one folder (`/run/sluice/testbeds/NAME`), with one folder
//! per node and domain: configuration, socket, log, state. The record of what was made there is what `down` removes.

use crate::build::build_with;
use crate::domain_files;
use crate::domain_up::{self, DomainUp};
use crate::file::TestbedFile;
use crate::patience::Patience;
use crate::program::last_words;
use crate::record::{self, TestbedRecord, TestbedStep};
use crate::served;
use crate::topology::{LinkEnd, TestbedNodeKind, Topology};
use crate::wire;
use agent_service::role::InterfaceRole;
use documents::agent::{Answer, HelloDoc, Request};
use linux::error::SystemError;
use linux::netns::Namespace;
use linux::process::{Capability, ProcessId, missing_capabilities, spawn_detached};
use rpc::client::Client;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The limit for an agent's first answer. It takes well under 0.1 s; on a loaded machine more.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which something that starts is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// The limit for an agent to give its interfaces back; after that it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The capabilities for building a testbed and running its agents.
const NEEDED: [Capability; 4] = [Capability::SysAdmin, Capability::NetAdmin, Capability::NetRaw, Capability::Bpf];

/// Options for bringing a testbed up.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// The agents' program: `PROGRAM agent --config FILE` is run.
    pub program: PathBuf,
    /// The directory of testbeds; [`rpc::places::TESTBEDS`] except in tests.
    pub testbeds: PathBuf,
}

impl UpOptions {
    /// Options with the running program and the usual folder.
    ///
    /// # Errors
    /// The running program cannot be found.
    pub fn usual() -> Result<UpOptions, SystemError> {
        let program = std::env::current_exe().map_err(SystemError::doing("find this program"))?;
        Ok(UpOptions { program, testbeds: rpc::places::TESTBEDS.into() })
    }
}

/// A node that is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeUp {
    /// Its name.
    pub name: String,
    /// `host` or `router`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its socket.
    pub socket: PathBuf,
    /// The greeting of its agent.
    pub agent: HelloDoc,
    /// Its interfaces: name, address, peer, and rate.
    pub interfaces: Vec<String>,
}

/// The reason why a testbed did not come up. Nothing of it is left.
#[derive(Debug)]
pub enum UpError {
    /// There is already a testbed of that name.
    AlreadyUp(String),
    /// Capabilities are missing.
    NotAllowed(Vec<Capability>),
    /// A system call failed.
    Failed(SystemError),
    /// An agent did not start; with the end of its log.
    Agent {
        /// The node.
        node: String,
        /// The end of its log.
        words: String,
    },
    /// The plane in user space of a node did not start; with the end of its log.
    Plane {
        /// The node.
        node: String,
        /// The end of its log.
        words: String,
    },
    /// A domain's broker did not start, or does not reach its agents; with the end of its log.
    Broker {
        /// The domain.
        domain: String,
        /// The end of its log.
        words: String,
    },
    /// The user stopped it.
    Interrupted,
}

impl std::fmt::Display for UpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpError::AlreadyUp(name) => {
                write!(f, "the testbed {name} is up (or was left half made): `sluice down {name}` removes it")
            }
            UpError::NotAllowed(missing) => {
                let names: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
                write!(
                    f,
                    "a testbed needs root and network namespaces ({} missing): run it by sudo; without root, `sluice \
                     demo --sim` runs the same nodes in simulated time",
                    names.join(", ")
                )
            }
            UpError::Failed(failed) => failed.fmt(f),
            UpError::Agent { node, words } => write!(f, "the agent of {node} did not start: {words}"),
            UpError::Plane { node, words } => write!(f, "the plane of {node} did not start: {words}"),
            UpError::Broker { domain, words } => write!(f, "the broker of {domain} did not start: {words}"),
            UpError::Interrupted => f.write_str("interrupted; nothing of the testbed is left"),
        }
    }
}

impl std::error::Error for UpError {}

impl From<SystemError> for UpError {
    fn from(failed: SystemError) -> UpError {
        UpError::Failed(failed)
    }
}

/// A testbed that is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestbedUp {
    /// Its nodes, in the order of the file.
    pub nodes: Vec<NodeUp>,
    /// Its domains, in the order of the file.
    pub domains: Vec<DomainUp>,
}

/// Builds the testbed and starts an agent on every node, and a broker in every domain; returns the nodes when each
/// of them answers.
///
/// # Errors
/// [`UpError`]; everything made until then has been removed.
pub fn up(file: &TestbedFile, options: &UpOptions) -> Result<Vec<NodeUp>, UpError> {
    up_until(file, options, &Patience::endless()).map(|up| up.nodes)
}

/// As [`up`], until the user stops it; with the domains.
///
/// # Errors
/// [`UpError`]; everything made until then has been removed.
pub fn up_until(file: &TestbedFile, options: &UpOptions, patience: &Patience) -> Result<TestbedUp, UpError> {
    let missing = missing_capabilities(&NEEDED);
    if !missing.is_empty() {
        return Err(UpError::NotAllowed(missing));
    }
    let name = &file.topology.name;
    let testbeds = std::path::absolute(&options.testbeds).map_err(SystemError::doing("find the working directory"))?;
    let dir = testbeds.join(name);
    let making = format!("make {}", dir.display());
    fs::create_dir_all(&testbeds).map_err(SystemError::doing(making.clone()))?;
    match fs::create_dir(&dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(UpError::AlreadyUp(name.clone())),
        Err(error) => return Err(SystemError::because(making, error).into()),
    }
    let result = start_all(file, options, &dir, patience);
    if result.is_err() {
        // The first failure is the one to tell; what would not go is found again by `down`.
        let _ = down(&testbeds, name);
    }
    result
}

fn start_all(file: &TestbedFile, options: &UpOptions, dir: &Path, patience: &Patience) -> Result<TestbedUp, UpError> {
    let on = || patience.check().map_err(|_| UpError::Interrupted);
    let mut record = TestbedRecord::begin(dir)?;
    let long: Vec<bool> = file.delays.iter().map(Option::is_some).collect();
    let served: Vec<bool> = file.bounds.iter().map(Option::is_some).collect();
    let (namespaces, wires) = build_with(&file.topology, &long, &served, &mut record)?;
    wire::start(&file.delays, &wires, &options.program, dir, &mut record)?;
    on()?;
    domain_files::write_all(file, dir, linux::clock::Clock::start().today())?;
    let mut agents = Vec::with_capacity(namespaces.len());
    let keys = if file.keys { Some(link_keys(file.topology.links.len())?) } else { None };
    for node in 0..namespaces.len() {
        furnish(file, node, keys.as_deref(), dir)?;
    }
    let planes = (&file.topology, file.bounds.as_slice());
    let planes = served::start_all(planes, &namespaces, &options.program, dir, &mut record)?;
    let deadline = Instant::now() + START_PATIENCE;
    for mut plane in planes {
        if until(deadline, patience, || Ok(plane.look()?))? != Some(true) {
            return Err(UpError::Plane { node: plane.node().to_owned(), words: plane.words() });
        }
    }
    for (node, namespace) in namespaces.iter().enumerate() {
        on()?;
        agents.push(start(file, node, namespace, options, dir, &mut record)?);
    }
    let deadline = Instant::now() + START_PATIENCE;
    let mut nodes = Vec::with_capacity(agents.len());
    for (node, mut child) in agents.into_iter().enumerate() {
        let up = until(deadline, patience, || look(&file.topology, node, &mut child, dir))?;
        nodes.push(up.ok_or_else(|| silent(&file.topology, node, dir))?);
    }
    let mut brokers = Vec::with_capacity(file.domains.all.len());
    for domain in 0..file.domains.all.len() {
        on()?;
        brokers.push(domain_up::start(file, domain, &namespaces, options, dir, &mut record)?);
    }
    let deadline = Instant::now() + START_PATIENCE;
    let mut domains = Vec::with_capacity(brokers.len());
    for (domain, mut child) in brokers.into_iter().enumerate() {
        let up = until(deadline, patience, || domain_up::look(file, domain, &mut child, dir))?;
        domains.push(up.ok_or_else(|| domain_up::silent(file, domain, dir))?);
    }
    on()?;
    Ok(TestbedUp { nodes, domains })
}

/// Looks again and again until there is something, at most until the deadline.
fn until<T>(
    deadline: Instant,
    patience: &Patience,
    mut look: impl FnMut() -> Result<Option<T>, UpError>,
) -> Result<Option<T>, UpError> {
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        patience.check().map_err(|_| UpError::Interrupted)?;
        std::thread::sleep(LOOK);
    }
}

/// A secret.
type Secret = [u8; 32];

/// A key for each link, from the kernel's random source.
fn link_keys(links: usize) -> Result<Vec<Secret>, SystemError> {
    let mut random = fs::File::open("/dev/urandom").map_err(SystemError::doing("open /dev/urandom"))?;
    let mut keys = vec![[0; 32]; links];
    for key in &mut keys {
        random.read_exact(key).map_err(SystemError::doing("read /dev/urandom"))?;
    }
    Ok(keys)
}

/// Makes a node's folder, with the keys that it shares with its neighbours.
fn furnish(file: &TestbedFile, node: usize, keys: Option<&[Secret]>, dir: &Path) -> Result<(), SystemError> {
    let home = dir.join(&file.topology.nodes[node].name);
    fs::create_dir(&home).map_err(SystemError::doing(format!("make {}", home.display())))?;
    let Some(keys) = keys else { return Ok(()) };
    for end in file.topology.ends(node) {
        let path = home.join(key_file(&end));
        let made = agent_service::keys::write(&path, end.link as u64 + 1, &keys[end.link]);
        made.map_err(SystemError::doing(format!("write {}", path.display())))?;
    }
    Ok(())
}

/// The file of the key of a link, in the folder of one of its ends.
fn key_file(end: &LinkEnd) -> String {
    format!("{}.keys", end.interface)
}

fn start(
    file: &TestbedFile,
    node: usize,
    namespace: &Namespace,
    options: &UpOptions,
    dir: &Path,
    record: &mut TestbedRecord,
) -> Result<Child, SystemError> {
    let name = &file.topology.nodes[node].name;
    let home = dir.join(name);
    let config = home.join("agent.toml");
    let text = agent_file(file, node, &home, dir);
    domain_files::write_policy(file, node, &home)?;
    fs::write(&config, text).map_err(SystemError::doing(format!("write {}", config.display())))?;
    let mut command = Command::new(&options.program);
    command.arg("agent").arg("--config").arg(&config).current_dir("/");
    // Whoever supervises us is not who looks after them.
    for name in linux::notify::VARIABLES {
        command.env_remove(name);
    }
    namespace.enter_at_exec(&mut command);
    let child = spawn_detached(&mut command, &home.join("agent.log"))?;
    if let Some(id) = ProcessId::of(child.id()) {
        record.add(&TestbedStep::Process(id, format!("agent {name}")))?;
        let path = home.join("agent.pid");
        fs::write(&path, format!("{id}\n")).map_err(SystemError::doing(format!("write {}", path.display())))?;
    }
    Ok(child)
}

/// The configuration of a node's agent.
fn agent_file(file: &TestbedFile, node: usize, home: &Path, dir: &Path) -> String {
    let topology = &file.topology;
    let mut text = format!(
        "# made by sluice up\nname = {:?}\nsocket = {:?}\nstate = {:?}\nlog = {:?}\n{}\n[rsvp]\n\
         refresh = \"{}ns\"\nkeep = {}\nmax_sessions = {}\nmax_paths = {}\nmax_senders = {}\n\
         max_reservations = {}\nmax_unreserved = {}\n",
        topology.nodes[node].name,
        home.join("agent.sock"),
        home.join("state"),
        file.log.name(),
        domain_files::agent_policy(file, node),
        file.rsvp.refresh.as_nanos(),
        file.rsvp.keep,
        file.rsvp.max_sessions,
        file.rsvp.max_paths,
        file.rsvp.max_senders,
        file.rsvp.max_resvs,
        file.rsvp.max_unreserved,
    );
    let hello = file.rsvp.hello.map_or(0, |every| every.as_nanos());
    text += &format!("refresh_reduction = {}\nhello = \"{hello}ns\"\n", file.rsvp.refresh_reduction);
    if file.boomerang {
        text += &format!("\n[boomerang]\nfast_path = {}\n", file.fast_path);
    }
    let ends = topology.ends(node);
    let served = served::ends(topology, &file.bounds, node);
    if !served.is_empty() {
        text.insert_str(0, &format!("plane_socket = {:?}\n", served::socket(home)));
    }
    if ends.is_empty() {
        text.insert_str(0, "auth = \"none\"\n"); // there is nobody to speak to
    }
    for end in ends {
        let rate = topology.links[end.link].rate;
        text += &format!(
            "\n[[interface]]\nname = {:?}\nrate = \"{rate}\"\nkept_back = \"{}\"\n",
            end.interface,
            file.kept_back.of(rate)
        );
        text += &format!("role = \"{}\"\n", role(file, node, &end).name());
        text += if served.iter().any(|(served, _)| served.link == end.link) { "plane = \"user\"\n" } else { "" };
        if let Some(premium) = file.premium.get(end.link).copied().flatten() {
            text += &format!("premium = \"{}\"\n", premium.of(rate));
        }
        let core = file.cores.get(end.link).copied().flatten();
        if let Some([premium, background]) = core.filter(|_| topology.nodes[node].kind == TestbedNodeKind::Router) {
            let [premium, background] = [premium.of(rate), background.of(rate)];
            text += &format!("core = {{ premium = \"{premium}\", background = \"{background}\" }}\n");
        }
        text += &match file.keys {
            true => format!("keys = {:?}\n", key_file(&end)),
            false => "auth = \"none\"\n".to_owned(),
        };
    }
    file.slas.iter().filter(|sla| sla.node == node).for_each(|sla| text += &sla.section);
    text += &domain_files::agent_listen(file, node, dir);
    if let Some(settings) = file.settings.get(&topology.nodes[node].name) {
        text += "\n";
        text += settings;
    }
    text
}

/// The role of one end of a link: as the file says, or else edge towards a host, peer towards another domain, and
/// core towards a router of the same.
fn role(file: &TestbedFile, node: usize, end: &LinkEnd) -> InterfaceRole {
    let said = file.roles.get(end.link).copied().flatten();
    let link = &file.topology.links[end.link];
    let kind = |node: usize| file.topology.nodes[node].kind;
    let other = if link.ends[0] == node { link.ends[1] } else { link.ends[0] };
    said.unwrap_or(match kind(other) {
        TestbedNodeKind::Host => InterfaceRole::Edge,
        TestbedNodeKind::Router if file.domains.is_border(link.ends) => InterfaceRole::Peer,
        TestbedNodeKind::Router => InterfaceRole::Core,
    })
}

/// Looks if a node's agent answers.
fn look(topology: &Topology, node: usize, child: &mut Child, dir: &Path) -> Result<Option<NodeUp>, UpError> {
    let socket = dir.join(&topology.nodes[node].name).join("agent.sock");
    if let Some(agent) = hello(&socket) {
        return Ok(Some(description(topology, node, socket, agent)));
    }
    match child.try_wait().map_err(SystemError::doing("wait for an agent"))? {
        Some(_) => Err(silent(topology, node, dir)),
        None => Ok(None),
    }
}

/// The error of an agent that does not answer.
fn silent(topology: &Topology, node: usize, dir: &Path) -> UpError {
    let name = topology.nodes[node].name.clone();
    let words = last_words(&dir.join(&name).join("agent.log"));
    UpError::Agent { node: name, words: words.unwrap_or_else(|| "it said nothing in time".to_owned()) }
}

fn description(topology: &Topology, node: usize, socket: PathBuf, agent: HelloDoc) -> NodeUp {
    let name = topology.nodes[node].name.clone();
    let describe = |end: LinkEnd| format!("{} {} ({})", end.interface, end.address, topology.links[end.link].rate);
    let interfaces = topology.ends(node).into_iter().map(describe).collect();
    let kind = match topology.nodes[node].kind {
        TestbedNodeKind::Host => "host",
        TestbedNodeKind::Router => "router",
    };
    NodeUp { name, kind, namespace: topology.namespace(node), socket, agent, interfaces }
}

fn hello(socket: &Path) -> Option<HelloDoc> {
    match Client::connect(socket).ok()?.call(Request::Hello).ok()? {
        Answer::Hello(hello) => Some(hello),
        _ => None,
    }
}

/// The result of `down`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Down {
    /// Agents, brokers and wires that stopped.
    pub stopped: usize,
    /// Agents, brokers and wires that had to be killed.
    pub killed: usize,
    /// Namespaces that were removed.
    pub namespaces: usize,
}

/// Stops the agents and brokers of a testbed and removes all that was made for it. `None`: there is none of that name.
///
/// # Errors
/// Some part cannot be removed; calling again tries again.
pub fn down(testbeds: &Path, name: &str) -> Result<Option<Down>, SystemError> {
    let dir = testbeds.join(name);
    if name.is_empty() || name.contains('/') || name.starts_with('.') || !dir.is_dir() {
        return Ok(None);
    }
    let made = record::read(&dir)?;
    let mut done = Down::default();
    let processes: Vec<ProcessId> = made.iter().filter_map(process).filter(ProcessId::is_running).collect();
    for id in &processes {
        id.signal(SIGTERM)?;
    }
    let deadline = Instant::now() + STOP_PATIENCE;
    for id in &processes {
        if ended_by(id, deadline) {
            done.stopped += 1;
        } else {
            id.signal(SIGKILL)?;
            done.killed += usize::from(ended_by(id, Instant::now() + STOP_PATIENCE));
        }
    }
    done.namespaces =
        made.iter().filter(|one| matches!(one, TestbedStep::Namespace(n) if Namespace::exists(n))).count();
    record::remove(&dir, &made)?;
    // The folders above are shared by all testbeds: they go with the last one.
    let _ = fs::remove_dir(testbeds);
    let _ = testbeds.parent().map(fs::remove_dir);
    Ok(Some(done))
}

/// Every testbed that is up or half made.
pub fn list(testbeds: &Path) -> Vec<String> {
    let entries = fs::read_dir(testbeds).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

fn process(made: &TestbedStep) -> Option<ProcessId> {
    match made {
        TestbedStep::Process(id, _) => Some(*id),
        TestbedStep::Namespace(_) => None,
    }
}

fn ended_by(id: &ProcessId, deadline: Instant) -> bool {
    while id.is_running() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    id.reap(); // where `up` ran in this very process, the agent was its child
    true
}
