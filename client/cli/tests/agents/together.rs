//! Co-reservations over the agents of a testbed, by the libraries for Python and C: what is refused is asked for in
//! another way, what breaks is repaired, a program that is killed leaves one reservation or none.

use crate::bed::{Bed, SLUICE, seed};
use std::path::Path;
use std::process::Command;

/// Four licences at each of two agents.
const LICENCES: &str = "[[resource]]\nname = \"licence/solver\"\ncapacity = 4\n";

fn bed() -> Option<Bed> {
    Bed::of(|name| {
        let mut file = seed(name, "30s");
        for node in ["maui", "glenwood"] {
            file.settings.insert(node.to_owned(), LICENCES.to_owned());
        }
        file
    })
}

/// The agents, as `sluice broker --agent` names them.
fn agents(bed: &Bed) -> Vec<String> {
    let at = |node: &String| format!("{node}={}", bed.home(node).join("agent.sock").display());
    bed.nodes.iter().map(at).collect()
}

#[test]
fn by_the_python_package() {
    if Command::new("python3").arg("--version").output().is_err() {
        return bench::skipped("python3 is not installed");
    }
    let Some(bed) = bed() else { return };
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    let mut command = Command::new("timeout");
    command.args(["240", "python3", "-W", "error"]).arg(python.join("tests/together.py"));
    command.arg(SLUICE).arg(&*bed.place).args(agents(&bed)).env("PYTHONPATH", &python);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("was reserved together"), "{said}");
}
