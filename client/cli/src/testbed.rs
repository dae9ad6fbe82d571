//! `sluice up` and `sluice down`.

use crate::args::{DownArgs, UpArgs};
use crate::complain::Complaint;
use bed::broker_up::{self, BrokerUp};
use bed::domain_up::DomainUp;
use bed::file::TestbedFile;
use bed::patience::Patience;
use bed::testbed::{self, NodeUp, UpError, UpOptions};
use broker_service::client::{BrokerClient, BrokerEndpoint};
use linux::clock::Clock;
use linux::delay_line::DelayLine;
use rpc::places::TESTBEDS;
use rpc::table::{Align, TextTable};
use std::path::Path;
use std::process::ExitCode;
use terms::Span;

/// Brings a testbed up and prints its nodes and domains. Ctrl-C removes what was made until then.
pub fn up(args: &UpArgs) -> Result<ExitCode, Complaint> {
    let file = TestbedFile::load(&args.file).map_err(|mistake| Complaint::usage(mistake.to_string()))?;
    if args.broker && !file.domains.all.is_empty() {
        let what = "each of these domains has a broker of its own: --broker is for testbeds without domains";
        return Err(Complaint::usage(what));
    }
    let options = UpOptions::usual().map_err(|e| Complaint::world(e.to_string()))?;
    let patience = Patience::until_signalled()?;
    let testbed::TestbedUp { nodes, domains } =
        testbed::up_until(&file, &options, &patience).map_err(|error| match error {
            UpError::AlreadyUp(_) => Complaint::refused(error.to_string()),
            UpError::Interrupted => Complaint::interrupted(error.to_string()),
            other => Complaint::world(other.to_string()),
        })?;
    let broker = args.broker.then(|| over_all(args, &file, &nodes, &options, &patience)).transpose()?;
    if args.json {
        let rows: Vec<_> = nodes.iter().map(as_json).collect();
        let domains: Vec<_> = domains.iter().map(domain_as_json).collect();
        println!(
            "{}",
            serde_json::json!({ "testbed": file.topology.name, "nodes": rows, "domains": domains, "broker": broker })
        );
        return Ok(ExitCode::SUCCESS);
    }
    let head =
        [("node", Align::Left), ("namespace", Align::Left), ("agent", Align::Right), ("interfaces", Align::Left)];
    let mut table = TextTable::new(&head);
    for node in &nodes {
        let mut cells = Some((node.name.clone(), node.namespace.clone(), format!("pid {}", node.agent.pid)));
        for interface in &node.interfaces {
            let (name, namespace, agent) = cells.take().unwrap_or_default();
            table.row([name, namespace, agent, interface.clone()]);
        }
    }
    print!("{table}");
    print_domains(&domains);
    if let Some(first) = nodes.first() {
        println!("\nsegmentation offloads are off on these links, as on a wire: a packet is a packet");
        if let Some(broker) = &broker {
            println!("a broker over all nodes: --broker unix:{}", broker.socket);
        }
        if let Some(link) = broker.as_ref().and_then(|broker| broker.web.as_ref()) {
            println!("in a browser, within a minute: {link}");
        }
        println!("up: try `sluice status --node {}`; `sluice down {}` removes it", first.name, file.topology.name);
    }
    Ok(ExitCode::SUCCESS)
}

/// The broker over all nodes, as it is printed.
#[derive(serde::Serialize)]
struct BrokerOverAll {
    socket: String,
    pid: u32,
    web: Option<String>,
}

/// Starts a broker over all nodes, and takes a ticket if browsers are listened for.
fn over_all(
    args: &UpArgs,
    file: &TestbedFile,
    nodes: &[NodeUp],
    options: &UpOptions,
    patience: &Patience,
) -> Result<BrokerOverAll, Complaint> {
    let web = args.web.then_some(args.web_at);
    let up = broker_up::start(&file.topology.name, nodes, options, web, patience);
    let BrokerUp { socket, pid } = up.map_err(|error| Complaint::world(error.to_string()))?;
    let ticket = || BrokerClient::new(BrokerEndpoint::Socket(socket.clone())).ticket();
    let ticket = args.web.then(ticket).transpose().map_err(|error| Complaint::world(error.to_string()))?;
    Ok(BrokerOverAll { socket: socket.display().to_string(), pid, web: ticket.map(|ticket| ticket.address) })
}

/// Prints each domain with its broker, as a command takes it.
fn print_domains(domains: &[DomainUp]) {
    let Some(first) = domains.first() else { return };
    let left = Align::Left;
    let mut table = TextTable::new(&[("domain", left), ("nodes", left), ("neighbours", left), ("its broker", left)]);
    for domain in domains {
        let broker = format!("unix:{} (on {}, {})", domain.socket.display(), domain.broker, domain.address);
        table.row([domain.name.clone(), domain.nodes.join(" "), domain.neighbours.join(" "), broker]);
    }
    print!("\n{table}");
    println!("\na broker's answers: `sluice list --broker unix:{}`", first.socket.display());
    println!("certificates of its people: {}", first.trust.display());
}

fn domain_as_json(domain: &DomainUp) -> serde_json::Value {
    serde_json::json!({
        "name": domain.name,
        "broker": format!("unix:{}", domain.socket.display()),
        "node": domain.broker,
        "address": domain.address,
        "trust": domain.trust,
        "nodes": domain.nodes,
        "neighbours": domain.neighbours,
    })
}

fn as_json(node: &NodeUp) -> serde_json::Value {
    serde_json::json!({
        "name": node.name,
        "namespace": node.namespace,
        "socket": node.socket,
        "pid": node.agent.pid,
        "interfaces": node.interfaces,
    })
}

/// Carries frames between two interfaces, each held back for the delay, until a signal ends the process.
pub fn delay_line(delay: Span, interfaces: &[String]) -> Result<ExitCode, Complaint> {
    let [a, b] = interfaces else { return Err(Complaint::usage("a wire has two ends")) };
    let world = |failed: linux::error::SystemError| Complaint::world(failed.to_string());
    // Nothing of the testbed's other programs is to delay it further; without the right to that it runs as they do.
    let _ = linux::process::go_first();
    let mut wire = DelayLine::open([a, b], delay, Clock::start()).map_err(world)?;
    wire.carry(|| false).map_err(world)?;
    Ok(ExitCode::SUCCESS)
}

/// Takes one testbed down, or all.
pub fn down(args: &DownArgs) -> Result<ExitCode, Complaint> {
    let testbeds = Path::new(TESTBEDS);
    let there = testbed::list(testbeds);
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None if args.all || there.len() <= 1 => there,
        None => return Err(Complaint::usage(format!("several testbeds are up: name one of {}", there.join(", ")))),
    };
    if names.is_empty() {
        println!("no testbed is up");
    }
    for name in names {
        match testbed::down(testbeds, &name).map_err(|e| Complaint::world(e.to_string()))? {
            Some(done) => println!(
                "{name}: {} processes stopped, {} killed, {} namespaces removed",
                done.stopped, done.killed, done.namespaces
            ),
            None => {
                return Err(Complaint::refused(format!(
                    "no testbed {name:?} is up: `sluice down` alone takes the one that is"
                )));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
