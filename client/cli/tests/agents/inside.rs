//! A broker that starts this machine's agent: two processes, of which the one that reads what strangers send holds no right, and
//! neither dies without the other's knowing.

use crate::bed::{Place, SLUICE, place, skipped, wait_for};
use linux::process::ProcessId;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

pub struct Running {
    broker: Child,
    place: Place,
}

impl Running {
    /// In mount and network namespaces of its own: what is usually in /etc and /run is this test's.
    fn start() -> Option<Running> {
        Running::start_with("")
    }

    /// The same by a program that becomes it.
    pub fn start_with(by: &str) -> Option<Running> {
        if skipped() {
            return None;
        }
        let (_, place) = place();
        let at = place.display();
        let agent = format!(
            "auth = \"none\"\nstate = \"{at}/state\"\n[store]\nany_filesystem = true\n\
             [[resource]]\nname = \"licence/solver\"\ncapacity = 5\n"
        );
        let script = format!(
            "set -e; cp -a /etc {at}/etc; mkdir -p {at}/etc/sluice {at}/run; cat > {at}/etc/sluice/agent.toml; rm -f {at}/etc/sluice/broker.toml\n\
             mount --bind {at}/etc /etc; mount --bind {at}/run /run\n\
             exec {by} {SLUICE} broker --socket {at}/broker.sock --state {at}/hooks"
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "-n", "--propagation", "private", "sh", "-c", &script]).stdin(Stdio::piped());
        let log = std::fs::File::create(place.join("log")).unwrap();
        let mut broker = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        broker.stdin.take().unwrap().write_all(agent.as_bytes()).unwrap();
        let mut running = Running { broker, place };
        wait_for("the broker answers", || {
            let ended = running.broker.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", running.log());
            running.resources().filter(|text| text.contains("licence/solver"))
        });
        Some(running)
    }

    fn resources(&self) -> Option<String> {
        let mut stream = UnixStream::connect(self.place.join("broker.sock")).ok()?;
        stream.write_all(b"GET /v1/resources HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.place.join("log")).unwrap()
    }

    /// The agent that it started.
    pub fn agent(&self) -> ProcessId {
        let children = format!("/proc/{0}/task/{0}/children", self.broker.id());
        let children = std::fs::read_to_string(children).unwrap();
        let pids: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        let [agent] = pids[..] else { panic!("one child: {pids:?}") };
        ProcessId::of(agent).expect("it runs")
    }

    /// Lines of the status of each of a process's threads.
    fn status(pid: u32, name: &str) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let of = |text: String| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        threads.flatten().filter_map(|one| of(std::fs::read_to_string(one.path().join("status")).ok()?)).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = ProcessId::of(self.broker.id()).map(|broker| broker.signal(15));
        let _ = self.broker.wait();
    }
}

#[test]
fn the_broker_holds_nothing_and_notices_that_its_agent_dies() {
    let Some(mut running) = Running::start() else { return };
    let (broker, agent) = (running.broker.id(), running.agent());
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapBnd:", "CapAmb:"] {
        let found = Running::status(broker, set);
        assert!(found.len() > 1 && found.iter().all(|bits| bits == "0000000000000000"), "{set} {found:?}");
    }
    assert!(Running::status(broker, "NoNewPrivs:").iter().all(|one| one == "1"));
    assert!(Running::status(agent.pid, "CapEff:").iter().all(|bits| bits != "0000000000000000"));
    for open in std::fs::read_dir(format!("/proc/{broker}/fd")).unwrap().flatten() {
        let what = std::fs::read_link(open.path()).unwrap_or_default();
        assert!(!what.starts_with(running.place.join("state")), "{what:?} is open");
    }
    agent.signal(9).unwrap();
    let mut status = None;
    wait_for("the broker ends too", || {
        status = running.broker.try_wait().unwrap();
        status
    });
    let log = running.log();
    assert_eq!(status.and_then(|status| status.code()), Some(3), "{log}");
    assert!(log.contains("the agent that this broker started has ended (signal: 9"), "{log}");
}

#[test]
fn the_agent_ends_with_its_broker_in_order_or_not() {
    let Some(mut running) = Running::start() else { return };
    let agent = running.agent();
    ProcessId::of(running.broker.id()).unwrap().signal(15).unwrap();
    let status = running.broker.wait().unwrap();
    assert!(status.success() && !agent.is_running(), "{status}: {}", running.log());
    drop(running);
    let Some(mut running) = Running::start() else { return };
    let agent = running.agent();
    running.broker.kill().unwrap();
    running.broker.wait().unwrap();
    wait_for("the agent is gone", || (!agent.is_running()).then_some(()));
}
