//! Notifications to the supervisor of this process (systemd) that it is ready, alive or about to end: the
//! protocol of sd_notify(3), datagrams of text.
//!
//! `NOTIFY_SOCKET` comes from the parent process and is trusted no more than that. It names one Unix socket,
//! by an absolute path or by an abstract name; any other value is ignored. The datagrams are three fixed
//! lines without secrets or descriptors, sent without waiting; no datagram is read. So an attacker who
//! controls the environment of a privileged process can at most direct these lines to another socket. The
//! variables are removed from the environment at once: no child of ours can notify in our name.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The variables that a supervisor sets in the environment.
const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG: &str = "WATCHDOG_USEC";
const WATCHED: &str = "WATCHDOG_PID";
/// All of these variables; they are removed from a child's environment that may not notify in our name.
pub const VARIABLES: [&str; 3] = [SOCKET, WATCHDOG, WATCHED];
/// The number of signs of life in a supervisor's period.
const OFTEN: u32 = 4;
/// The shortest interval between signs of life; and the longest period that is accepted.
const SHORTEST: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The supervisor, if the environment names one.
#[derive(Debug, Default)]
pub struct Supervisor {
    to: Option<(UnixDatagram, SocketAddr)>,
    period: Option<Duration>,
}

impl Supervisor {
    /// The supervisor from the environment, whose variables are then removed. Call it before this process has
    /// a second thread.
    pub fn take() -> Supervisor {
        let [socket, period, watched] = VARIABLES.map(std::env::var_os);
        if is_alone() {
            for name in VARIABLES {
                // SAFETY: this process has one thread, so nobody reads the environment meanwhile.
                unsafe { std::env::remove_var(name) };
            }
        }
        Supervisor::of(socket, period, watched)
    }

    /// The supervisor from these values of the three variables.
    fn of(socket: Option<OsString>, period: Option<OsString>, watched: Option<OsString>) -> Supervisor {
        let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
        let us = watched.is_none_or(|pid| number(pid) == Some(u64::from(std::process::id())));
        let period = period.filter(|_| us).and_then(number).map(Duration::from_micros);
        let Some(address) = socket.as_deref().and_then(|name| address(name.as_bytes())) else {
            return Supervisor::default();
        };
        let open = || -> std::io::Result<UnixDatagram> {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let period = period.filter(|period| (Duration::from_micros(1)..=LONGEST).contains(period));
        // Without a descriptor nobody is told, and the supervisor does what it does then.
        let to = open().ok().map(|socket| (socket, address));
        Supervisor { period: period.filter(|_| to.is_some()), to }
    }

    /// The supervisor's time limit for a sign of life, and the interval at which to send one; `None`: it
    /// expects none.
    pub fn watchdog(&self) -> Option<(Duration, Duration)> {
        self.period.map(|period| (period, (period / OFTEN).max(SHORTEST)))
    }

    /// Reports that this process is ready.
    pub fn ready(&self) {
        self.tell("READY=1\n");
    }

    /// Reports that this process and its threads are alive.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1\n");
    }

    /// Reports that this process is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\n");
    }

    fn tell(&self, what: &str) {
        if let Some((socket, address)) = &self.to {
            // A supervisor that does not listen gets the next one; nobody waits for it.
            let _ = socket.send_to_addr(what.as_bytes(), address);
        }
    }
}

/// Parses an absolute path, or an abstract name after `@`.
fn address(name: &[u8]) -> Option<SocketAddr> {
    match name {
        [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok(),
        _ => None,
    }
}

/// True if this process has one thread.
fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Option<OsString> {
        Some(text.into())
    }

    fn heard(socket: &UnixDatagram) -> String {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_path_and_an_abstract_name_hear_the_three_lines() {
        let name = format!("sluice-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, at) in [(by_path, path.to_str().unwrap().to_owned()), (by_name, format!("@{name}"))] {
            let supervisor = Supervisor::of(said(&at), said("200000"), None);
            assert_eq!(supervisor.watchdog(), Some((Duration::from_millis(200), Duration::from_millis(50))));
            supervisor.ready();
            supervisor.alive();
            supervisor.stopping();
            assert_eq!([heard(&socket), heard(&socket), heard(&socket)], ["READY=1\n", "WATCHDOG=1\n", "STOPPING=1\n"]);
        }
        std::fs::remove_file(path).unwrap();
    }

    /// A supervisor that reads nothing does not block: its queue is full, and the lines are lost.
    #[test]
    fn a_supervisor_that_reads_nothing_stops_nobody() {
        let name = format!("sluice-notify-full-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let supervisor = Supervisor::of(said(&format!("@{name}")), None, None);
        (0..5_000).for_each(|_| supervisor.alive());
        drop(socket);
        supervisor.alive();
    }

    #[test]
    fn whatever_else_the_environment_says_is_nobody() {
        for socket in ["", "@", "relative/path", "vsock:2:1234", "http://x", &format!("/{}", "x".repeat(200))] {
            let supervisor = Supervisor::of(said(socket), said("1000000"), None);
            assert!(supervisor.to.is_none() && supervisor.watchdog().is_none(), "{socket:?}");
        }
        let own = std::process::id();
        for (period, watched, is) in [
            ("1000000", Some(own.to_string()), true),
            ("1000000", Some((own + 1).to_string()), false),
            ("1000000", Some("x".to_owned()), false),
            ("0", None, false),
            ("-1", None, false),
            ("99999999999999999999", None, false),
            ("18446744073709551615", None, false),
            ("1", None, true),
        ] {
            let supervisor = Supervisor::of(said("@sluice-notify-none"), said(period), watched.clone().map(Into::into));
            assert_eq!(supervisor.watchdog().is_some(), is, "{period} {watched:?}");
            assert!(supervisor.watchdog().is_none_or(|(_, often)| often >= SHORTEST), "{period}");
        }
    }
}
