//! Agent and broker under a supervisor as systemd is one: what they tell it, when, and who else may (FAULTS.md O6, O7). The
//! supervisor here is a datagram socket; what it would do, the test does.

use crate::bed::{PATIENCE, SLUICE, place, skipped};
use crate::inside;
use crate::lone::{Lone, booked, licences};
use documents::agent::Request;
use linux::process::ProcessId;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The period of the watchdog here; the units have a minute.
const PERIOD: Duration = Duration::from_secs(4);
const STOP: i32 = 19;
const CONTINUE: i32 = 18;

/// The socket that `NOTIFY_SOCKET` names.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn at(path: &Path) -> Supervisor {
        Supervisor::over(UnixDatagram::bind(path).unwrap())
    }

    /// By an abstract name, which is of this network namespace alone.
    fn named(name: &str) -> Supervisor {
        Supervisor::over(UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap())
    }

    fn over(socket: UnixDatagram) -> Supervisor {
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        Supervisor(socket)
    }

    /// What comes within this time, if anything does.
    fn hear(&self, most: Duration) -> Option<String> {
        let (begun, mut bytes) = (Instant::now(), [0; 256]);
        loop {
            if let Ok(length) = self.0.recv(&mut bytes) {
                return Some(String::from_utf8(bytes[..length].to_vec()).unwrap());
            }
            if begun.elapsed() > most {
                return None;
            }
        }
    }

    /// Signs of life come, each in the time that it has.
    fn hears_signs_of_life(&self) {
        for _ in 0..3 {
            assert_eq!(self.hear(PERIOD).as_deref(), Some("WATCHDOG=1\n"));
        }
    }

    /// None comes for a whole period, once those are read that were sent before.
    fn hears_nothing(&self) {
        while self.hear(Duration::ZERO).is_some() {}
        assert_eq!(self.hear(PERIOD), None);
    }

    /// The last word is that it ends.
    fn hears_the_end(&self) {
        let (begun, mut all) = (Instant::now(), Vec::new());
        while !all.iter().any(|said| said == "STOPPING=1\n") {
            assert!(begun.elapsed() < PATIENCE, "{all:?}");
            all.extend(self.hear(Duration::from_secs(1)));
        }
        assert!(all.iter().all(|said| ["STOPPING=1\n", "WATCHDOG=1\n"].contains(&said.as_str())), "{all:?}");
    }
}

fn environment(at: &str) -> String {
    format!("NOTIFY_SOCKET={at} WATCHDOG_USEC={} WATCHDOG_PID=$$", PERIOD.as_micros())
}

#[test]
fn an_agent_says_when_it_serves_while_it_lives_and_that_it_ends() {
    let Some(mut lone) = Lone::new("") else { return };
    let place = lone.place.join("notify");
    let supervisor = Supervisor::at(&place);
    let agent = lone.start_with(&format!("exec env {} \"$@\"", environment(place.to_str().unwrap())));
    assert_eq!(supervisor.hear(PATIENCE).as_deref(), Some("READY=1\n"));
    // Whoever is told so may ask at once.
    booked(&mut lone.client(), Request::BookCreate(licences(1))).unwrap();
    supervisor.hears_signs_of_life();
    // A process that stands still gives none, and goes on with them when it goes on.
    agent.signal(STOP).unwrap();
    supervisor.hears_nothing();
    agent.signal(CONTINUE).unwrap();
    supervisor.hears_signs_of_life();
    lone.stop();
    supervisor.hears_the_end();
}

/// A supervisor that waits for nobody, one that is gone, and words that name none: the agent serves all the same.
#[test]
fn an_agent_serves_whatever_its_environment_names() {
    let Some(mut lone) = Lone::new("") else { return };
    let gone = lone.place.join("nobody");
    for at in [gone.to_str().unwrap(), "@", "relative", "vsock:2:1", ""] {
        lone.start_with(&format!("exec env NOTIFY_SOCKET='{at}' WATCHDOG_USEC=1 \"$@\""));
        booked(&mut lone.client(), Request::BookCreate(licences(1))).unwrap();
        lone.stop();
    }
    // Signs of life for another process are not ours to give.
    let place = lone.place.join("notify");
    let (supervisor, at) = (Supervisor::at(&place), place.display());
    lone.start_with(&format!("exec env NOTIFY_SOCKET={at} WATCHDOG_USEC=200000 WATCHDOG_PID=1 \"$@\""));
    assert_eq!(supervisor.hear(PATIENCE).as_deref(), Some("READY=1\n"));
    assert_eq!(supervisor.hear(Duration::from_secs(1)), None);
}

/// A broker of this machine, over an agent.
fn broker(lone: &Lone, at: &str) -> Child {
    let mut command = Command::new("sh");
    let line = format!("exec env {} \"$@\"", environment(at));
    command.args(["-c", &line, "sh", SLUICE, "broker", "--no-agent", "--socket"]).arg(lone.place.join("broker.sock"));
    command.arg("--state").arg(lone.place.join("broker"));
    command.arg("--agent").arg(format!("lone={}", lone.socket().display()));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_broker_says_the_same() {
    let Some(mut lone) = Lone::new("") else { return };
    lone.start();
    let name = format!("sluice-supervised-{}", std::process::id());
    let supervisor = Supervisor::named(&name);
    let mut broker = broker(&lone, &format!("@{name}"));
    let process = ProcessId::of(broker.id()).unwrap();
    assert_eq!(supervisor.hear(PATIENCE).as_deref(), Some("READY=1\n"));
    assert!(UnixStream::connect(lone.place.join("broker.sock")).is_ok(), "it listens by then");
    supervisor.hears_signs_of_life();
    process.signal(STOP).unwrap();
    supervisor.hears_nothing();
    process.signal(CONTINUE).unwrap();
    supervisor.hears_signs_of_life();
    process.signal(15).unwrap();
    assert!(broker.wait().unwrap().success());
    supervisor.hears_the_end();
}

/// An agent that a broker starts hears nothing of the broker's supervisor, and speaks to nobody in its name.
#[test]
fn no_child_speaks_for_us() {
    if skipped() {
        return;
    }
    // By a path: an abstract name is of one network namespace, and these two have another.
    let (_, place) = place();
    let path = place.join("notify");
    let supervisor = Supervisor::at(&path);
    let by = format!("env NOTIFY_SOCKET={}", path.display());
    let Some(running) = inside::Running::start_with(&by) else { return };
    assert_eq!(supervisor.hear(PATIENCE).as_deref(), Some("READY=1\n"));
    let environment = std::fs::read(format!("/proc/{}/environ", running.agent().pid)).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("NOTIFY_SOCKET") && environment.contains("PATH="), "{environment}");
    assert_eq!(supervisor.hear(Duration::from_secs(1)), None, "the agent would have said that it serves");
}

/// What the units promise, and what their words must be for it.
#[test]
fn the_units_say_what_the_programs_do() {
    for (unit, words) in [
        ("agent", &["OOMPolicy=continue", "OOMScoreAdjust=-900"][..]),
        ("broker", &["OOMScoreAdjust=300", "User=sluice-broker", "CapabilityBoundingSet="][..]),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../dist/sluice-{unit}.service"));
        let text = std::fs::read_to_string(&path).unwrap();
        let has = |word: &str| text.lines().any(|line| line == word || line.starts_with(&format!("{word}=")));
        for word in ["Type=notify", "NotifyAccess=main", "Restart=on-failure", "StartLimitIntervalSec=0"] {
            assert!(has(word), "{unit}: {word}");
        }
        // A dump of a process that the watchdog ends would have its keys.
        for word in
            ["WatchdogSec", "WatchdogSignal=SIGKILL", "LimitCORE=0", "MemoryMax", "RuntimeDirectoryPreserve=yes"]
        {
            assert!(has(word), "{unit}: {word}");
        }
        words.iter().for_each(|word| assert!(has(word), "{unit}: {word}"));
        for word in
            ["ProtectSystem=strict", "PrivateTmp=yes", "PrivateMounts=yes", "NoNewPrivileges=yes", "LimitNOFILE"]
        {
            assert!(has(word), "{unit}: {word}");
        }
        let checked = Command::new("systemd-analyze").arg("verify").arg(&path).output();
        match checked {
            Ok(checked) => {
                let said = String::from_utf8_lossy(&checked.stderr).into_owned();
                let ours = said.lines().filter(|line| line.contains(".service:") && line.contains("sluice"));
                // The program and its page are where `make install` puts them, which need not be so here.
                let here = |line: &&str| !line.contains("is not executable") && !line.contains("Command 'man ");
                let wrong: Vec<&str> = ours.filter(here).collect();
                assert!(wrong.is_empty(), "{wrong:?}");
            }
            Err(_) => bench::skipped("systemd-analyze is not here"),
        }
    }
}

/// How much each service could do to the machine if somebody took it over, by systemd's own count (0 to 10).
#[test]
fn the_units_expose_little() {
    for (unit, most) in [("agent", 33), ("broker", 15)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../dist/sluice-{unit}.service"));
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=yes", "--no-pager", &format!("--threshold={most}")]).arg(&path);
        let Ok(said) = analyze.output() else { return bench::skipped("systemd-analyze is not here") };
        let (text, wrong) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        if wrong.contains("unrecognized option") {
            return bench::skipped("systemd-analyze counts nothing offline before systemd 250");
        }
        assert!(text.contains("Overall exposure level"), "{text}{wrong}");
        assert!(said.status.success(), "more than {most}: {text}{wrong}");
    }
    let agent = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/sluice-agent.service"));
    assert!(!agent.unwrap().contains("CAP_SYS_ADMIN"));
}
