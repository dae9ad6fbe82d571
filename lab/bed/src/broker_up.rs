//! A broker over all nodes of a testbed without domains, in the namespace of the command that brings it up, so that
//! browsers and commands of this machine reach it.

use crate::patience::Patience;
use crate::program::last_words;
use crate::record::{TestbedRecord, TestbedStep};
use crate::testbed::{NodeUp, UpError, UpOptions, down};
use linux::error::SystemError;
use linux::process::{ProcessId, spawn_detached};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The longest time until it answers.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// The broker of a testbed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerUp {
    /// Its Unix socket.
    pub socket: PathBuf,
    /// Its process.
    pub pid: u32,
}

/// Starts a broker over these nodes of a testbed that is up; `web`: where it listens for browsers. It goes with the
/// testbed.
///
/// # Errors
/// It does not start; then the testbed has been removed.
pub fn start(
    testbed: &str,
    nodes: &[NodeUp],
    options: &UpOptions,
    web: Option<SocketAddr>,
    patience: &Patience,
) -> Result<BrokerUp, UpError> {
    let testbeds = std::path::absolute(&options.testbeds).map_err(SystemError::doing("find the working directory"))?;
    let home = testbeds.join(testbed).join("broker");
    let started = launch(&testbeds.join(testbed), &home, nodes, options, web);
    let result = started.map_err(UpError::from).and_then(|child| answer(child, &home, patience));
    if result.is_err() {
        // The first failure is the one to tell; what would not go is found again by `down`.
        let _ = down(&testbeds, testbed);
    }
    result
}

fn launch(
    dir: &Path,
    home: &Path,
    nodes: &[NodeUp],
    options: &UpOptions,
    web: Option<SocketAddr>,
) -> Result<Child, SystemError> {
    std::fs::create_dir_all(home).map_err(SystemError::doing(format!("make {}", home.display())))?;
    let mut command = Command::new(&options.program);
    command.arg("broker").arg("--no-agent").arg("--socket").arg(home.join("broker.sock"));
    command.arg("--state").arg(home.join("state")).current_dir("/");
    for node in nodes {
        command.arg("--agent").arg(format!("{}={}", node.name, node.socket.display()));
    }
    if let Some(address) = web {
        command.arg("--web").arg(address.to_string());
    }
    // Its own file would be that of this machine's broker.
    let file = home.join("broker.toml");
    std::fs::write(&file, "# made by sluice up\n").map_err(SystemError::doing(format!("write {}", file.display())))?;
    command.arg("--config").arg(&file);
    for name in linux::notify::VARIABLES {
        command.env_remove(name);
    }
    let child = spawn_detached(&mut command, &home.join("broker.log"))?;
    if let Some(id) = ProcessId::of(child.id()) {
        TestbedRecord::again(dir)?.add(&TestbedStep::Process(id, "broker".to_owned()))?;
    }
    Ok(child)
}

/// Waits until it listens.
fn answer(mut child: Child, home: &Path, patience: &Patience) -> Result<BrokerUp, UpError> {
    let (socket, begun) = (home.join("broker.sock"), Instant::now());
    let silent = || {
        let words = last_words(&home.join("broker.log"));
        UpError::Broker {
            domain: "the testbed".to_owned(),
            words: words.unwrap_or_else(|| "it said nothing in time".to_owned()),
        }
    };
    while begun.elapsed() < START_PATIENCE {
        patience.check().map_err(|_| UpError::Interrupted)?;
        if UnixStream::connect(&socket).is_ok() {
            return Ok(BrokerUp { socket, pid: child.id() });
        }
        if child.try_wait().map_err(SystemError::doing("wait for a broker"))?.is_some() {
            return Err(silent());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(silent())
}
