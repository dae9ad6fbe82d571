//! The configuration of a machine without a configuration file: the resources that it can offer by itself.
//!
//! Processors, and the interfaces of hardware whose driver reports a rate. A random key closes RSVP there: on
//! a real network no unsigned message is accepted unless a configuration says so. Only root may book.

use crate::config::AgentConfig;
use crate::keys;
use linux::error::SystemError;
use linux::ethtool;
use linux::netlink::Socket;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The command by which a broker starts an agent of it.
pub const COMMAND: &str = "own-agent";

/// Makes the configuration. Its key is made once and kept in the state folder.
///
/// # Errors
/// The kernel does not list its links, or the key cannot be kept: a sentence.
pub fn config() -> Result<AgentConfig, String> {
    let state = Path::new(rpc::places::AGENT_STATE);
    let key = state.join("own.keys");
    let names = interfaces().map_err(|error| format!("looking for interfaces: {error}"))?;
    if !names.is_empty() {
        make_key(state, &key).map_err(|failed| failed.to_string())?;
    }
    AgentConfig::parse(Path::new("(no configuration file)"), &text(&names, &key)).map_err(|mistake| mistake.to_string())
}

/// The hardware interfaces that are up and report a rate.
fn interfaces() -> Result<Vec<String>, linux::netlink::Error> {
    let links = Socket::open()?.links()?;
    let there = links.iter().filter(|link| link.up && !link.loopback && link.kind.is_empty());
    let rated =
        there.filter(|link| ethtool::link_speed(&link.name).ok().flatten().is_some_and(|rate| rate.as_bps() > 0));
    Ok(rated.map(|link| link.name.clone()).collect())
}

fn make_key(state: &Path, key: &Path) -> Result<(), SystemError> {
    let what = || format!("make {}", key.display());
    crate::start::make_state(state)?;
    let mut secret = [0; 32];
    let mut random = fs::File::open("/dev/urandom").map_err(SystemError::doing("open /dev/urandom"))?;
    random.read_exact(&mut secret).map_err(SystemError::doing("read /dev/urandom"))?;
    match keys::write(key, 1, &secret) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(SystemError::because(what(), error)),
        _ => Ok(()),
    }
}

fn text(interfaces: &[String], key: &Path) -> String {
    if interfaces.is_empty() {
        return "auth = \"none\" # there is no interface to speak on\n[cpu]\n".to_owned();
    }
    let mut text = format!("keys = {key:?}\n[cpu]\n");
    for name in interfaces {
        let _ = write!(text, "[[interface]]\nname = {name:?}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_interfaces() {
        let parse = |names: &[String]| AgentConfig::parse(Path::new("x"), &text(names, Path::new("/k"))).unwrap();
        let none = parse(&[]);
        assert!(none.interfaces.is_empty() && none.cpu.is_some());
        let two = parse(&["eth0".to_owned(), "eth1".to_owned()]);
        let names: Vec<&str> = two.interfaces.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["eth0", "eth1"]);
        assert!(two.interfaces.iter().all(|one| matches!(&one.auth, crate::AuthConfig::Keys { .. })), "{two:?}");
    }
}
