//! `sluice up` and `sluice down`.

use crate::args::{DownArgs, UpArgs};
use crate::complain::Complaint;
use bed::file::TestbedFile;
use bed::testbed::{self, NodeUp, UpError, UpOptions};
use rpc::places::TESTBEDS;
use rpc::table::{Align, TextTable};
use std::path::Path;
use std::process::ExitCode;

/// Brings a testbed up and prints its nodes.
pub fn up(args: &UpArgs) -> Result<ExitCode, Complaint> {
    let file = TestbedFile::load(&args.file).map_err(|mistake| Complaint::usage(mistake.to_string()))?;
    let options = UpOptions::usual().map_err(|e| Complaint::world(e.to_string()))?;
    let nodes = testbed::up(&file, &options).map_err(|error| match error {
        UpError::AlreadyUp(_) => Complaint::refused(error.to_string()),
        other => Complaint::world(other.to_string()),
    })?;
    if args.json {
        let rows: Vec<_> = nodes.iter().map(as_json).collect();
        println!("{}", serde_json::json!({ "testbed": file.topology.name, "nodes": rows }));
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
    if let Some(first) = nodes.first() {
        println!("\nsegmentation offloads are off on these links, as on a wire: a packet is a packet");
        println!("up: try `sluice status --node {}`; `sluice down {}` removes it", first.name, file.topology.name);
    }
    Ok(ExitCode::SUCCESS)
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
                "{name}: {} agents stopped, {} killed, {} namespaces removed",
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
