//! The book in the agent: its configuration (resources, policy), its journal, its calls on the local socket.

pub mod policy_file;
pub mod resources;
