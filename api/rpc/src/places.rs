//! Paths at which an agent is found.

use std::path::{Path, PathBuf};

/// The socket of this machine's own agent.
pub const AGENT_SOCKET: &str = "/run/sluice/agent.sock";

/// The socket of this machine's plane in user space.
pub const PLANE_SOCKET: &str = "/run/sluice/plane.sock";

/// The state directory of this machine's own agent.
pub const AGENT_STATE: &str = "/var/lib/sluice";

/// The group whose members are operators, unless the configuration names another.
pub const OPERATORS: &str = "sluice-operators";

/// The folder of the running testbeds: one folder per testbed, in it one folder per node.
pub const TESTBEDS: &str = "/run/sluice/testbeds";

/// The folder of a node of a testbed: socket, configuration, log, state.
pub fn node_dir(testbed: &str, node: &str) -> PathBuf {
    Path::new(TESTBEDS).join(testbed).join(node)
}

/// The socket of a node of a testbed.
pub fn node_socket(testbed: &str, node: &str) -> PathBuf {
    node_socket_in(Path::new(TESTBEDS), testbed, node)
}

/// The socket of a node of a testbed under another folder.
pub fn node_socket_in(testbeds: &Path, testbed: &str, node: &str) -> PathBuf {
    testbeds.join(testbed).join(node).join("agent.sock")
}
