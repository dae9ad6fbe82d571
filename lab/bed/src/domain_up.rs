//! The brokers of a testbed's domains: starting them, and waiting until each answers.

use crate::domain_files::{BROKER_PORT, DomainPlaces};
use crate::file::TestbedFile;
use crate::program::last_words;
use crate::record::{TestbedRecord, TestbedStep};
use crate::testbed::{UpError, UpOptions};
use linux::error::SystemError;
use linux::netns::Namespace;
use linux::process::{ProcessId, spawn_detached};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// The longest wait for one answer of a broker that starts.
const ANSWER: Duration = Duration::from_secs(10);

/// A domain that is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainUp {
    /// Its name.
    pub name: String,
    /// The node of its broker.
    pub broker: String,
    /// The broker's address for other machines.
    pub address: String,
    /// The broker's Unix socket.
    pub socket: PathBuf,
    /// The folder of its authority and certificates.
    pub trust: PathBuf,
    /// Its nodes.
    pub nodes: Vec<String>,
    /// Its neighbours.
    pub neighbours: Vec<String>,
}

/// Starts the broker of a domain.
///
/// # Errors
/// The program cannot be started.
pub(crate) fn start(
    file: &TestbedFile,
    domain: usize,
    namespaces: &[Namespace],
    options: &UpOptions,
    dir: &Path,
    record: &mut TestbedRecord,
) -> Result<Child, SystemError> {
    let domain = &file.domains.all[domain];
    let places = DomainPlaces::of(dir, &domain.name);
    let mut command = Command::new(&options.program);
    command.arg("broker").arg("--config").arg(&places.config).current_dir("/");
    for name in linux::notify::VARIABLES {
        command.env_remove(name);
    }
    namespaces[domain.broker].enter_at_exec(&mut command);
    let child = spawn_detached(&mut command, &places.log)?;
    if let Some(id) = ProcessId::of(child.id()) {
        record.add(&TestbedStep::Process(id, format!("broker {}", domain.name)))?;
        let path = places.home.join("broker.pid");
        std::fs::write(&path, format!("{id}\n")).map_err(SystemError::doing(format!("write {}", path.display())))?;
    }
    Ok(child)
}

/// Looks if the broker of a domain answers; it does when all its agents do.
///
/// # Errors
/// It has ended; with its last words.
pub(crate) fn look(
    file: &TestbedFile,
    domain: usize,
    child: &mut Child,
    dir: &Path,
) -> Result<Option<DomainUp>, UpError> {
    let places = DomainPlaces::of(dir, &file.domains.all[domain].name);
    if answers(&places.socket) {
        return Ok(Some(description(file, domain, &places)));
    }
    match child.try_wait().map_err(SystemError::doing("wait for a broker"))? {
        Some(_) => Err(silent(file, domain, dir)),
        None => Ok(None),
    }
}

/// The error of a broker that does not answer.
pub(crate) fn silent(file: &TestbedFile, domain: usize, dir: &Path) -> UpError {
    let name = file.domains.all[domain].name.clone();
    let words = last_words(&DomainPlaces::of(dir, &name).log);
    UpError::Broker { domain: name, words: words.unwrap_or_else(|| "it said nothing in time".to_owned()) }
}

/// True if a broker answers 200 when asked for its resources, which are those of its agents.
fn answers(socket: &Path) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        stream.write_all(b"GET /v1/resources HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

fn description(file: &TestbedFile, number: usize, places: &DomainPlaces) -> DomainUp {
    let (topology, domain) = (&file.topology, &file.domains.all[number]);
    let mut neighbours: Vec<String> = Vec::new();
    for border in file.domains.borders(topology, number) {
        let name = &file.domains.all[border.neighbour].name;
        if !neighbours.contains(name) {
            neighbours.push(name.clone());
        }
    }
    let address = topology.address(domain.broker).map(|address| format!("{address}:{BROKER_PORT}"));
    DomainUp {
        name: domain.name.clone(),
        broker: topology.nodes[domain.broker].name.clone(),
        address: address.unwrap_or_default(),
        socket: places.socket.clone(),
        trust: places.trust.clone(),
        nodes: file.domains.nodes(number).map(|node| topology.nodes[node].name.clone()).collect(),
        neighbours,
    }
}
