//! The start of an agent: it looks for every possible mistake before it changes anything, and reports each so
//! that the reader knows what to do.

use crate::config::AgentConfig;
use crate::document::Mistake;
use crate::interfaces;
use crate::pins;
use linux::bpf::entry::MAJOR;
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netlink::link::LinkState;
use linux::netlink::tc::TcHandle;
use linux::privilege::User;
use linux::process::{Capability, Lock, LockError, missing_capabilities};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// The reason why an agent did not start.
#[derive(Debug)]
pub enum StartError {
    /// Capabilities are missing.
    NotAllowed(Vec<Capability>),
    /// Another agent has this state directory, or this network namespace.
    AlreadyRunning {
        /// The thing that it holds.
        what: String,
        /// Its process, where it is known.
        pid: Option<u32>,
    },
    /// The configuration does not fit the machine.
    Interfaces(Vec<String>),
    /// A file of keys cannot be used.
    Keys(Mistake),
    /// The file of policy cannot be used.
    Policy(Mistake),
    /// The journal of reservations cannot be used.
    Store(store::Error),
    /// The data plane is not available.
    Plane(terms::Fault),
    /// The plane in user space is not available, or does not serve an interface.
    UserPlane(String),
    /// A system call failed.
    Failed(SystemError),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::NotAllowed(missing) => {
                let names: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
                write!(
                    f,
                    "not allowed: {} missing; run the agent as root, or by its systemd unit, which grants them",
                    names.join(", ")
                )
            }
            StartError::AlreadyRunning { what, pid } => {
                write!(f, "an agent is already running")?;
                if let Some(pid) = pid {
                    write!(f, " (process {pid})")?;
                }
                write!(
                    f,
                    ": it holds {what}; stop it first, or give this one a state directory and interfaces of its own"
                )
            }
            StartError::Interfaces(wrong) => f.write_str(&wrong.join("; ")),
            StartError::Keys(mistake) | StartError::Policy(mistake) => mistake.fmt(f),
            StartError::Store(error) => error.fmt(f),
            StartError::Plane(fault) => {
                write!(f, "the data plane is not to be had: {fault}; `sluice doctor` says more")
            }
            StartError::UserPlane(words) => f.write_str(words),
            StartError::Failed(failed) => failed.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl From<SystemError> for StartError {
    fn from(failed: SystemError) -> StartError {
        StartError::Failed(failed)
    }
}

impl From<linux::netlink::Error> for StartError {
    fn from(error: linux::netlink::Error) -> StartError {
        StartError::Failed(SystemError::netlink("use netlink")(error))
    }
}

/// The capabilities that an agent needs.
const NEEDED: [Capability; 3] = [Capability::NetRaw, Capability::NetAdmin, Capability::Bpf];

/// The capabilities that its front needs to give everything up, if callers come from other machines.
const NEEDED_BY_FRONT: [Capability; 3] = [Capability::SetUid, Capability::SetGid, Capability::SetPcap];

/// The locks that make this agent the only one; they end with the process.
#[derive(Debug)]
pub struct Sole {
    _state: Lock,
    _namespace: Lock,
}

/// Checks everything that an agent needs, and takes the locks.
///
/// # Errors
/// [`StartError`]; only the state directory and its lock file have been made.
pub fn check(config: &AgentConfig) -> Result<Sole, StartError> {
    let mut needed = NEEDED.to_vec();
    if !pins::are_there(&config.state, config.pins.as_deref()) {
        needed.push(Capability::SysAdmin); // to mount
    }
    if config.listen.as_ref().is_some_and(|listen| listen.user != User::own()) {
        needed.extend(NEEDED_BY_FRONT);
    }
    let missing = missing_capabilities(&needed);
    if !missing.is_empty() {
        return Err(StartError::NotAllowed(missing));
    }
    let wrong = wrong_interfaces(config)?;
    if !wrong.is_empty() {
        return Err(StartError::Interfaces(wrong));
    }
    let state = &config.state;
    make_state(state)?;
    let lock = Lock::take(&state.join("agent.lock")).map_err(|error| match error {
        LockError::Held(pid) => StartError::AlreadyRunning { what: format!("the state in {}", state.display()), pid },
        LockError::Failed(failed) => failed.into(),
    })?;
    if let Some(folder) = &config.pins {
        pins::prepare(state, folder)?;
    }
    Ok(Sole { _state: lock, _namespace: claim_namespace(Path::new(LOCKS))? })
}

/// Makes the state directory, which only the agent's user and group may enter. An existing one is closed to
/// others if it was an agent's.
pub(crate) fn make_state(state: &Path) -> Result<(), SystemError> {
    let what = || format!("make the state directory {}", state.display());
    if let Some(parent) = state.parent() {
        fs::create_dir_all(parent).map_err(SystemError::doing(what()))?;
    }
    match fs::DirBuilder::new().mode(0o750).create(state) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(SystemError::because(what(), error)),
        Ok(()) => return Ok(()),
        Err(_) => {}
    }
    let mode = fs::metadata(state).map_err(SystemError::doing(what()))?.permissions().mode();
    let ours = mode & STICKY == 0 && (state.join("agent.lock").exists() || state.join("own.keys").exists());
    if ours && mode & 0o007 != 0 {
        let closed = fs::Permissions::from_mode(mode & 0o7770);
        fs::set_permissions(state, closed).map_err(SystemError::doing(what()))?;
    }
    Ok(())
}

/// The sticky bit of a directory in which all users may write, such as /tmp.
const STICKY: u32 = 0o1000;

/// Complaints about the interfaces of this machine: those that are not there, and those that another program has.
pub(crate) fn wrong_interfaces(config: &AgentConfig) -> Result<Vec<String>, StartError> {
    let mut netlink = Socket::open()?;
    let links = netlink.links()?;
    let mut wrong = interfaces::complaints(&links, config);
    wrong.extend(foreign_roots(&mut netlink, &links, config)?);
    Ok(wrong)
}

/// Interfaces on which another program has set traffic control up: refused, not fought. The kernel's own default has
/// the handle 0, ours has our number.
fn foreign_roots(netlink: &mut Socket, links: &[LinkState], config: &AgentConfig) -> Result<Vec<String>, StartError> {
    let mut wrong = Vec::new();
    for link in links.iter().filter(|link| config.interfaces.iter().any(|wanted| wanted.name == link.name)) {
        let root = netlink.root_qdisc(link.index)?;
        if let Some(root) = root.filter(|root| root.handle != TcHandle::NONE && root.handle.major() != MAJOR) {
            let name = &link.name;
            wrong.push(format!(
                "another program has set traffic control of {name} up (root {:?} {:?}): remove it with `tc qdisc del \
                 dev {name} root`, or leave {name} out",
                root.discipline, root.handle
            ));
        }
    }
    Ok(wrong)
}

/// The directory of the locks of network namespaces. An abstract socket would end with its namespace by
/// itself, but any user can take its name first; only root writes to `/run` and to this directory.
const LOCKS: &str = "/run/sluice.locks";

/// One agent per network namespace, because two would fight over its interfaces.
fn claim_namespace(locks: &Path) -> Result<Lock, StartError> {
    let what = "claim this network namespace";
    // This thread's: a program may run agents in several namespaces, a thread each.
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(SystemError::doing(what))?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(locks);
    made.map_err(SystemError::doing(format!("make {}", locks.display())))?;
    let found = fs::symlink_metadata(locks).map_err(SystemError::doing(format!("look at {}", locks.display())))?;
    if !found.is_dir() || !is_ours(found.uid()) || found.mode() & 0o022 != 0 {
        let why = format!(
            "{} has to be a directory of root's that nobody else writes to: chown root {0}; chmod 755 {0}",
            locks.display()
        );
        return Err(SystemError::because(what, std::io::Error::other(why)).into());
    }
    // The kernel's name of the namespace; while its agent runs no other gets that number.
    let file = locks.join(format!("netns-{}-{}.lock", namespace.dev(), namespace.ino()));
    Lock::take(&file).map_err(|error| match error {
        LockError::Held(pid) => StartError::AlreadyRunning { what: "this network namespace".to_owned(), pid },
        LockError::Failed(failed) => failed.into(),
    })
}

/// True if the user is root or the one that this agent runs as.
fn is_ours(uid: u32) -> bool {
    let own = fs::metadata("/proc/self").map(|found| found.uid());
    uid == 0 || own.is_ok_and(|own| own == uid)
}

/// Random bits for refresh jitter, from the kernel.
pub(crate) fn seed() -> Result<u64, SystemError> {
    use std::io::Read;
    let mut bytes = [0; 8];
    let mut random = std::fs::File::open("/dev/urandom").map_err(SystemError::doing("open /dev/urandom"))?;
    random.read_exact(&mut bytes).map_err(SystemError::doing("read /dev/urandom"))?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that others can write to is refused, with the remedy; only the owner can open the lock.
    #[test]
    fn a_namespace_is_claimed_where_only_root_writes() {
        let place = std::env::temp_dir().join(format!("sluice-locks-{}", std::process::id()));
        let lock = claim_namespace(&place).unwrap();
        let again = claim_namespace(&place);
        assert!(matches!(again, Err(StartError::AlreadyRunning { pid: Some(pid), .. }) if pid == std::process::id()));
        let file = fs::read_dir(&place).unwrap().next().unwrap().unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        drop(lock);
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
        let error = claim_namespace(&place).unwrap_err().to_string();
        assert!(error.contains("chmod 755"), "{error}");
        fs::remove_dir_all(&place).unwrap();
    }
}
