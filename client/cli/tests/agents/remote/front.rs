//! The process that reads what callers from other machines send: what it may, what its death costs, and that nobody else is
//! believed what it is believed.

use super::{Far, PORT, now, papers};
use crate::bed::{Bed, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::Request;
use linux::process::ProcessId;
use rpc::client::Client;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use trust::{CertificateRole, Files, Speaks};

const HERE: &str = "10.0.0.2";
/// What the rules of this test let everybody do is of no interest here.
const RULES: &str = "[[rule]]\nname = \"all\"\nwho = [\"*\"]\n";

fn far() -> Option<Far> {
    let file = |name: &str| {
        let text = format!(
            "name = \"{name}\"\nauth = \"none\"\n[[node]]\nname = \"a\"\nkind = \"host\"\n[[node]]\nname = \"b\"\nkind = \"host\"\n\
             [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10mbit\"\n"
        );
        TestbedFile::parse(Path::new("two.toml"), &text).unwrap()
    };
    Far::up(Bed::of(file), &[("b", HERE)], &["--requester", "alice"], RULES)
}

/// The fronts of the node that has started one, as its log names them.
fn fronts(far: &Far) -> Vec<u32> {
    let log = far.bed.log("b");
    let lines = log.lines().filter(|line| line.contains("event=front_serves"));
    lines.filter_map(|line| line.split("pid=").nth(1)?.split(' ').next()?.parse().ok()).collect()
}

/// The one that serves, when another than `before` does.
fn front(far: &Far, before: Option<u32>) -> u32 {
    wait_for("a front serves", || fronts(far).last().copied().filter(|pid| Some(*pid) != before))
}

/// A line of `/proc/PID/status`, in words.
fn status(pid: u32, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{name}: {text}")).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn whoever_reads_what_strangers_send_may_nothing() {
    let Some(far) = far() else { return };
    let hello = || far.reach("a", HERE, "requester-alice").unwrap().call(Request::Hello);
    assert!(hello().is_ok());
    let pid = front(&far, None);
    for set in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
        assert_eq!(status(pid, set), ["0000000000000000"], "{set}");
    }
    let (users, groups) = (status(pid, "Uid"), status(pid, "Gid"));
    assert!(users.iter().all(|uid| *uid == users[0] && uid != "0"), "{users:?}");
    assert!(groups.iter().all(|gid| *gid == groups[0] && gid != "0"), "{groups:?}");
    assert!(status(pid, "Groups").is_empty());
    assert_eq!((status(pid, "NoNewPrivs"), status(pid, "Seccomp")), (vec!["1".to_owned()], vec!["2".to_owned()]));
    let agent = far.bed.agent("b").pid;
    assert_eq!((status(pid, "PPid"), status(agent, "Uid")[0].as_str()), (vec![agent.to_string()], "0"));
    // What it has open: no file at all.
    for open in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let what = std::fs::read_link(open.path()).unwrap();
        let log = far.bed.home("b").join("agent.log");
        assert!(what == Path::new("/dev/null") || !what.starts_with("/") || what == log, "{what:?} is open");
    }
    // Nobody of its user reads the agent's state, the keys, or its own memory; that it is not for want of a way there is shown
    // by a file beside them.
    let (uid, gid) = (users[0].parse().unwrap(), groups[0].parse().unwrap());
    let reads = |path: &Path| {
        let mut command = Command::new("cat");
        command.arg(path).uid(uid).gid(gid).current_dir("/");
        command.output().unwrap().status.success()
    };
    let home = far.bed.home("b");
    assert!(reads(&home.join("agent.toml")));
    let state = home.join("state");
    let mut files = vec![far.trust.join("agent-b.key"), format!("/proc/{pid}/maps").into()];
    let mut folders = vec![state.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let list = if entry.file_type().unwrap().is_dir() { &mut folders } else { &mut files };
            list.push(entry.path());
        }
    }
    assert!(files.len() > 4, "{files:?}");
    let read: Vec<_> = files.iter().filter(|file| reads(file)).collect();
    assert!(read.is_empty(), "{read:?}");
    let listed = Command::new("ls").arg(&state).uid(uid).gid(gid).current_dir("/").output().unwrap();
    assert!(!listed.status.success(), "{listed:?}");
}

#[test]
fn its_death_ends_remote_conversations_and_nothing_else() {
    let Some(far) = far() else { return };
    let mut here = far.bed.client("b");
    let mut alice = far.reach("a", HERE, "requester-alice").unwrap();
    assert!(alice.call(Request::Hello).is_ok());
    let (agent, mut before) = (far.bed.agent("b"), front(&far, None));
    for _ in 0..2 {
        ProcessId::of(before).expect("it runs").signal(9).unwrap();
        let gone = wait_for("the conversation is over", || alice.call(Request::Hello).err());
        assert!(!gone.to_string().is_empty());
        assert!(here.call(Request::Hello).is_ok(), "local conversations go on");
        before = front(&far, Some(before));
        alice = wait_for("callers come in again", || far.reach("a", HERE, "requester-alice").ok());
        assert!(alice.call(Request::Hello).is_ok());
    }
    let log = far.bed.log("b");
    assert_eq!(log.matches("event=front_ended").count(), 2, "{log}");
    assert!(agent.is_running() && log.contains("signal: 9"), "{log}");
    // The agent's own end is its end too, however it comes.
    far.bed.kill("b");
    wait_for("the front is gone", || ProcessId::of(before).is_none().then_some(()));
}

#[test]
fn files_that_are_wrong_later_change_nothing_and_a_new_certificate_is_shown() {
    let Some(far) = far() else { return };
    let hello = || far.reach("a", HERE, "requester-alice").and_then(|mut alice| alice.call(Request::Hello));
    assert!(hello().is_ok());
    let (certificate, key) = (far.trust.join("agent-b.pem"), far.trust.join("agent-b.key"));
    let (old, good) = (serial(&far), std::fs::read(&key).unwrap());
    std::fs::write(&key, "no key").unwrap();
    far.bed.agent("b").signal(1).unwrap();
    wait_for("it complains", || far.bed.log("b").contains("what was before holds").then_some(()));
    assert!(hello().is_ok());
    std::fs::write(&key, good).unwrap();
    for file in [&certificate, &key] {
        std::fs::rename(file, file.with_extension("old")).unwrap();
    }
    let (authority, _) = trust::Authority::open_or_make(&far.trust, "test", now()()).unwrap();
    let request = trust::CertificateRequest {
        role: CertificateRole::Agent,
        name: "b".to_owned(),
        hosts: vec![HERE.to_owned()],
        groups: Vec::new(),
        life: terms::Span::from_secs(600),
    };
    authority.issue(&request, now()()).unwrap();
    far.bed.agent("b").signal(1).unwrap();
    wait_for("it shows the new one", || (serial(&far) != old).then_some(()));
    assert!(hello().is_ok());
}

/// The number of the certificate that the agent shows.
fn serial(far: &Far) -> Vec<u8> {
    let dialled = dial(far);
    let shown = dialled.conn.peer_certificates().and_then(<[_]>::first).unwrap();
    trust::Identity::of(shown).unwrap().serial
}

fn dial(far: &Far) -> trust::Dialled {
    let papers = papers(&far.trust, "requester-alice");
    let files = Files {
        ca: papers.ca.unwrap(),
        certificate: papers.certificate.unwrap(),
        key: papers.key.unwrap(),
        revoked: None,
        partners: Vec::new(),
    };
    let config = trust::client(&files, now(), Speaks::Agent).unwrap();
    far.bed.netns("a").run(|| trust::dial(HERE, PORT, config, CertificateRole::Agent)).unwrap().unwrap()
}

#[test]
fn lines_that_are_no_calls_are_answered_in_order_and_never_reach_the_agent() {
    let Some(far) = far() else { return };
    let mut stream = BufReader::new(dial(&far));
    let words =
        "{\"id\":1,\"call\":\"hello\"}\nnonsense\n{\"id\":3,\"call\":\"conquer\"}\n\n{\"id\":5,\"call\":\"hello\"}\n";
    for _ in 0..50 {
        stream.get_mut().write_all(words.as_bytes()).unwrap();
    }
    stream.get_mut().flush().unwrap();
    let mut kinds = Vec::new();
    for _ in 0..250 {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        kinds.push((line["id"].as_u64().unwrap(), line["error"]["kind"].as_str().unwrap_or("ok").to_owned()));
    }
    let count = |wanted: (u64, &str)| kinds.iter().filter(|(id, kind)| (*id, kind.as_str()) == wanted).count();
    for wanted in [(1, "ok"), (3, "malformed"), (5, "ok")] {
        assert_eq!(count(wanted), 50, "{wanted:?} of {kinds:?}");
    }
    assert_eq!(count((0, "malformed")), 100, "{kinds:?}");
}

/// What a front would say, and what a broker does, from a user of this machine who may use the socket.
#[test]
fn a_name_that_is_claimed_on_the_local_socket_is_not_believed() {
    let Some(far) = far() else { return };
    let socket = far.bed.home("b").join("agent.sock");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let program = format!(
        r#"
import json, socket
def ask(words):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    s.connect({socket:?})
    s.sendall((words + "\n" + '{{"id":9,"call":"hello"}}' + "\n").encode())
    f = s.makefile()
    print(json.loads(f.readline())["error"]["kind"], json.loads(f.readline()).get("ok") is not None)
who = {{"role":"operator","name":"root","serial":[1],"not_before_ns":0,"not_after_ns":2**63}}
ask(json.dumps({{"word":"enter","guest":1,"from":"10.0.0.1","who":who}}))
ask(json.dumps({{"word":"ready","restricted":True}}))
ask(json.dumps({{"order":"begin","version":1,"uid":0,"gid":0,"files":{{}}}}))
ask(json.dumps({{"id":1,"call":"enter","guest":1,"from":"10.0.0.1","who":who}}))
ask(json.dumps({{"id":1,"call":"speak_for","who":{{"name":"root","groups":[],"role":"operator"}}}}))
ask(json.dumps({{"id":1,"call":"speak_for","who":None}}))
"#
    );
    let mut python = Command::new("python3");
    python.args(["-c", &program]).uid(65_533).gid(65_533).current_dir("/");
    let Ok(output) = python.output() else { return bench::skipped("python3 is not installed") };
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = "malformed True\nmalformed True\nmalformed True\nmalformed True\nrefused True\nrefused True\n";
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(Client::connect(&socket).unwrap().call(Request::Hello).is_ok());
}
