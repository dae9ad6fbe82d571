//! The files of a testbed's domains: authorities, certificates, and the configuration of brokers and agents.
//!
//! ```text
//! domains/anl/trust/      ca.pem ca.key revoked.pem broker-main.* agent-NODE.* operator-root.* requester-alice.*
//!                         esnet.pem esnet-revoked.pem    copies of another domain's
//! domains/anl/broker.toml broker.sock broker.log broker/
//! ```

use crate::domain::{BorderLink, FOLDER, TestbedDomain};
use crate::file::TestbedFile;
use linux::error::SystemError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use terms::{Span, Time};
use trust::{Authority, CertificateRequest, CertificateRole};

/// The port at which agents listen for their broker.
const AGENT_PORT: u16 = 4711;
/// The port at which brokers listen for each other and for requesters.
pub const BROKER_PORT: u16 = 8443;
/// The name of each domain's broker in its certificate.
const BROKER: &str = "main";
/// The operator of each domain.
const OPERATOR: &str = "root";
/// How often each domain publishes what is free: people watch.
const REFRESH: &str = "2s";
/// The lifetime of a testbed's certificates.
const LIFE: Span = Span::from_secs(365 * 86_400);

/// The places of a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainPlaces {
    /// Its folder.
    pub home: PathBuf,
    /// The folder of its authority.
    pub trust: PathBuf,
    /// The broker's Unix socket.
    pub socket: PathBuf,
    /// The broker's configuration.
    pub config: PathBuf,
    /// The broker's log.
    pub log: PathBuf,
}

impl DomainPlaces {
    /// The places of a domain in the testbed's folder.
    pub fn of(dir: &Path, name: &str) -> DomainPlaces {
        let home = dir.join(FOLDER).join(name);
        let file = |name: &str| home.join(name);
        let (trust, socket, config, log) =
            (file("trust"), file("broker.sock"), file("broker.toml"), file("broker.log"));
        DomainPlaces { trust, socket, config, log, home }
    }
}

/// Makes all authorities, gives each domain copies of the others', and writes the brokers' files.
///
/// # Errors
/// A file cannot be written.
pub fn write_all(file: &TestbedFile, dir: &Path, now: Time) -> Result<(), SystemError> {
    for number in 0..file.domains.all.len() {
        authority(file, number, dir, now)?;
    }
    for number in 0..file.domains.all.len() {
        let borders = file.domains.borders(&file.topology, number);
        for other in others(file, number) {
            copy_authority(file, number, other, dir)?;
        }
        let places = DomainPlaces::of(dir, &file.domains.all[number].name);
        write(&places.config, &broker_file(file, number, &borders, dir))?;
    }
    Ok(())
}

/// Makes the authority of a domain, and a certificate for each who needs one.
fn authority(file: &TestbedFile, number: usize, dir: &Path, now: Time) -> Result<(), SystemError> {
    let domain = &file.domains.all[number];
    let places = DomainPlaces::of(dir, &domain.name);
    let wrong = |error: trust::Error| {
        SystemError::because(format!("make the authority of {}", domain.name), io::Error::other(error.to_string()))
    };
    let (authority, _) = Authority::open_or_make(&places.trust, &domain.name, now).map_err(wrong)?;
    let addresses = |node: usize| file.topology.ends(node).iter().map(|end| end.address.to_string()).collect();
    let (broker, mut wanted) = (addresses(domain.broker), Vec::new());
    wanted.push((CertificateRole::Broker, BROKER, broker));
    wanted.push((CertificateRole::Operator, OPERATOR, Vec::new()));
    wanted.extend(domain.requesters.iter().map(|name| (CertificateRole::Requester, name.as_str(), Vec::new())));
    let own = file.domains.nodes(number).filter(|node| file.topology.address(*node).is_some());
    wanted.extend(own.map(|node| (CertificateRole::Agent, file.topology.nodes[node].name.as_str(), addresses(node))));
    for (role, name, hosts) in wanted {
        let request = CertificateRequest { role, name: name.to_owned(), hosts, groups: Vec::new(), life: LIFE };
        authority.issue(&request, now).map_err(wrong)?;
    }
    Ok(())
}

/// Gives a domain what it needs to know another's broker, and what it has signed: the other's authority, and its list of
/// revocations.
fn copy_authority(file: &TestbedFile, number: usize, other: usize, dir: &Path) -> Result<(), SystemError> {
    let [own, other] = [number, other].map(|place| &file.domains.all[place].name);
    let (to, from) = (DomainPlaces::of(dir, own).trust, DomainPlaces::of(dir, other).trust);
    for (name, copy) in [("ca.pem", format!("{other}.pem")), ("revoked.pem", format!("{other}-revoked.pem"))] {
        let copy = to.join(copy);
        fs::copy(from.join(name), &copy).map_err(SystemError::doing(format!("write {}", copy.display())))?;
    }
    Ok(())
}

/// All domains but one. Those behind a neighbour sign what they publish of themselves.
fn others(file: &TestbedFile, number: usize) -> impl Iterator<Item = usize> {
    (0..file.domains.all.len()).filter(move |other| *other != number)
}

/// The neighbours in these links, each once.
fn neighbours(borders: &[BorderLink]) -> Vec<usize> {
    let mut all: Vec<usize> = borders.iter().map(|border| border.neighbour).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The configuration of a domain's broker.
fn broker_file(file: &TestbedFile, number: usize, borders: &[BorderLink], dir: &Path) -> String {
    let (topology, domain) = (&file.topology, &file.domains.all[number]);
    let places = DomainPlaces::of(dir, &domain.name);
    let at = |node: usize| topology.address(node).map_or_else(String::new, |address| address.to_string());
    let mut text = format!(
        "# made by sluice up\ndomain = {:?}\nsocket = {:?}\nstate = {:?}\nlisten = [\"{}:{BROKER_PORT}\"]\n\n[tls]\n\
         ca = \"trust/ca.pem\"\ncertificate = \"trust/broker-{BROKER}.pem\"\nkey = \"trust/broker-{BROKER}.key\"\n\
         revoked = \"trust/revoked.pem\"\n\n[topology]\nrefresh = \"{REFRESH}\"\n",
        domain.name,
        places.socket,
        places.home.join("broker"),
        at(domain.broker),
    );
    for other in others(file, number) {
        let name = &file.domains.all[other].name;
        text += &format!(
            "\n[[tls.domain]]\nname = {name:?}\nca = \"trust/{name}.pem\"\nrevoked = \"trust/{name}-revoked.pem\"\n\
             roles = [\"broker\"]\n"
        );
    }
    for node in file.domains.nodes(number).filter(|node| topology.address(*node).is_some()) {
        text +=
            &format!("\n[[agent]]\nname = {:?}\naddress = \"{}:{AGENT_PORT}\"\n", topology.nodes[node].name, at(node));
    }
    for neighbour in neighbours(borders) {
        let other = &file.domains.all[neighbour];
        let links = borders.iter().filter(|border| border.neighbour == neighbour);
        let links: Vec<String> =
            links.map(|border| format!("{}/net/{}", topology.nodes[border.node].name, border.interface)).collect();
        text += &format!(
            "\n[[neighbour]]\nname = {:?}\naddress = \"{}:{BROKER_PORT}\"\nlinks = {links:?}\nnetworks = {:?}\n",
            other.name,
            at(other.broker),
            file.domains.networks(topology, number, neighbour),
        );
    }
    for other in others(file, number) {
        let (may_ask, asked) = (domain.may_ask.contains(&other), file.domains.all[other].may_ask.contains(&number));
        if may_ask || asked {
            let TestbedDomain { name, broker, .. } = &file.domains.all[other];
            text += &format!("\n[[distant]]\nname = {name:?}\naddress = \"{}:{BROKER_PORT}\"\n", at(*broker));
            text += if may_ask { "may_ask = true\n" } else { "" };
        }
    }
    text
}

/// The beginning of a node's configuration: the policy. Empty without domains.
pub fn agent_policy(file: &TestbedFile, node: usize) -> &'static str {
    if file.domains.of(node).is_some() { "policy = \"policy.toml\"\n" } else { "" }
}

/// The section of a node's configuration by which its broker reaches it. Empty without domains.
pub fn agent_listen(file: &TestbedFile, node: usize, dir: &Path) -> String {
    let (Some(domain), Some(address)) = (file.domains.of(node), file.topology.address(node)) else {
        return String::new();
    };
    let trust = DomainPlaces::of(dir, &domain.name).trust;
    let own = format!("agent-{}", file.topology.nodes[node].name);
    format!(
        "\n[listen]\naddress = \"{address}:{AGENT_PORT}\"\nca = {:?}\ncertificate = {:?}\nkey = {:?}\nrevoked = {:?}\n",
        trust.join("ca.pem"),
        trust.join(format!("{own}.pem")),
        trust.join(format!("{own}.key")),
        trust.join("revoked.pem"),
    )
}

/// Writes a node's policy: its domain's broker says for whom it asks, and everybody of the domain may reserve, and who
/// comes by the word of a neighbour, or of one that may ask; a neighbour may book on the agreement with it.
///
/// # Errors
/// The file cannot be written.
pub fn write_policy(file: &TestbedFile, node: usize, home: &Path) -> Result<(), SystemError> {
    if file.domains.of(node).is_none() {
        return Ok(());
    }
    let mut text =
        format!("# made by sluice up\nbrokers = [\"{BROKER}\"]\n\n[[rule]]\nname = \"own-people\"\nwho = [\"*\"]\n");
    // Who comes by another domain's word: its own people, and those of the domains behind it.
    let mut who: Vec<String> = Vec::new();
    if let Some(domain) = file.domains.of_node[node] {
        let borders = file.domains.borders(&file.topology, domain);
        let others = neighbours(&borders).into_iter().chain(file.domains.all[domain].may_ask.iter().copied());
        who.extend(others.map(|other| format!("{}/*", file.domains.all[other].name)));
    }
    for sla in file.slas.iter().filter(|sla| sla.node == node) {
        let peer = &sla.peer;
        let who = if sla.transit { who.clone() } else { vec![format!("{peer}/*")] };
        text += &format!("\n[[rule]]\nname = \"{peer}\"\nwho = {who:?}\nresource = [\"sla/{peer}\"]\n");
    }
    if !who.is_empty() {
        text += &format!("\n[[rule]]\nname = \"neighbours\"\nwho = {who:?}\nresource = [\"net/*\"]\n");
    }
    write(&home.join("policy.toml"), &text)
}

fn write(path: &Path, text: &str) -> Result<(), SystemError> {
    fs::write(path, text).map_err(SystemError::doing(format!("write {}", path.display())))
}
