//! Who plays a column: users of this machine, certificates, and those for whom a broker speaks.

use crate::bed::{Bed, skipped};
use crate::remote::{Far, now};
use ::bed::file::TestbedFile;
use booking::policy::rights::Seat;
use documents::agent::{CallerDoc, Request};
use rpc::client::Client;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use terms::Span;
use trust::{Authority, CertificateRole};

/// The agent's address, and the broker's.
pub const HERE: &str = "10.0.0.2";
/// The operators' group, and the member whom rules name; numbers that nobody has.
const OPERATORS: u32 = 64_999;

const POLICY: &str = r#"
auditors = ["uid:65003", "alice"]
[[rule]]
name = "licences"
who = ["uid:0", "uid:65001", "uid:65003", "uid:65004", "alice", "arno", "root"]
resource = ["licence/solver"]
most = "5"
[[rule]]
name = "network"
who = ["uid:0", "uid:65001", "uid:65003", "uid:65004", "alice", "arno", "root", "anl/alice"]
resource = ["net/to-a"]
most = "1mbit"
[[rule]]
name = "calls"
who = ["uid:65003", "uid:65004"]
signal = true
destination = ["10.0.0.0/24"]
priority = 5
"#;

/// Whether a rule is to allow what is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strength {
    Ruled,
    Unruled,
}

/// Somebody who asks.
#[derive(Clone, PartialEq, Debug)]
pub enum Who {
    /// A user of this machine, and the groups beside their own.
    User(u32, Vec<u32>),
    /// By their certificate.
    Certificate(&'static str),
    /// A broker speaks for them: a name and a role.
    Through(&'static str, &'static str),
}

impl Who {
    /// Under which name they own things.
    pub fn name(&self) -> String {
        match self {
            Who::User(uid, _) => format!("uid:{uid}"),
            Who::Certificate(papers) => papers.split_once('-').unwrap().1.to_owned(),
            Who::Through(name, _) => (*name).to_owned(),
        }
    }

    /// Somebody whom rules allow the same, so that there are things of others.
    pub fn other() -> Who {
        Who::User(65_004, Vec::new())
    }

    /// A connection to the agent.
    pub fn reach(&self, far: &Far) -> Client {
        match self {
            Who::User(uid, groups) => {
                let path = far.bed.home("b").join("agent.sock");
                as_user(*uid, groups, move || Client::connect(&path).unwrap())
            }
            Who::Certificate(papers) => far.reach("a", HERE, papers).unwrap(),
            Who::Through(name, role) => {
                let mut client = far.reach("a", HERE, "broker-main").unwrap();
                let who = CallerDoc { name: (*name).into(), groups: Vec::new(), role: (*role).into(), token: None };
                client.call(Request::SpeakFor { who: Some(who) }).unwrap();
                client
            }
        }
    }
}

/// The people of a column.
pub fn of(_far: &Far, seat: Seat, strength: Strength) -> Vec<Who> {
    let ruled = strength == Strength::Ruled;
    match seat {
        Seat::Root => vec![Who::User(0, Vec::new())],
        Seat::Operator => vec![Who::User(65_001, vec![27, OPERATORS])],
        Seat::Member => vec![Who::User(if ruled { 65_003 } else { 65_002 }, vec![27])],
        Seat::Requester if ruled => vec![Who::Certificate("requester-alice"), Who::Through("alice", "owner")],
        Seat::Requester => vec![Who::Certificate("requester-bob"), Who::Through("bob", "owner")],
        Seat::Auditor => vec![Who::Certificate("auditor-arno"), Who::Through("arno", "auditor")],
        Seat::FarOperator => vec![Who::Certificate("operator-root"), Who::Through("root", "operator")],
        Seat::Agent => vec![Who::Certificate("agent-b")],
        Seat::Broker => vec![Who::Certificate(if ruled { "broker-main" } else { "broker-other" })],
    }
}

/// Does something as another user: what connects is known by who it was at that moment (SO_PEERCRED), and a thread of its
/// own changes nobody else, as it asks the kernel and not the C library.
pub fn as_user<T: Send + 'static>(uid: u32, groups: &[u32], deed: impl FnOnce() -> T + Send + 'static) -> T {
    let groups = groups.to_vec();
    let thread = std::thread::spawn(move || {
        let no = -1_i32;
        // SAFETY: `groups` is as long as is said and outlives the call; the other calls take numbers alone.
        let done = unsafe {
            uid == 0
                || libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0
                    && libc::syscall(libc::SYS_setresgid, uid, uid, no) == 0
                    && libc::syscall(libc::SYS_setresuid, uid, uid, no) == 0
        };
        assert!(done, "become user {uid}: {}", std::io::Error::last_os_error());
        deed()
    });
    thread.join().unwrap()
}

/// Two hosts, an agent on `b` that knows these people.
pub fn bed() -> Option<Far> {
    if skipped() {
        return None;
    }
    let file = |name: &str| {
        let text = format!(
            "name = \"{name}\"\nauth = \"none\"\n[boomerang]\n[[node]]\nname = \"a\"\nkind = \"host\"\n\
             [[node]]\nname = \"b\"\nkind = \"host\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10mbit\"\n"
        );
        TestbedFile::parse(Path::new("two.toml"), &text).unwrap()
    };
    let people = ["--requester", "alice", "--requester", "bob", "--auditor", "arno"];
    let far = Far::up(Bed::of(file), &[("b", HERE)], &people, POLICY)?;
    let (authority, _) = Authority::open_or_make(&far.trust, "test", now()()).unwrap();
    let other = trust::CertificateRequest {
        role: CertificateRole::Broker,
        name: "other".to_owned(),
        hosts: vec![HERE.to_owned()],
        groups: Vec::new(),
        life: Span::from_secs(3_600),
    };
    authority.issue(&other, now()()).unwrap();
    let config = far.bed.home("b").join("agent.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let more = "[[resource]]\nname = \"licence/solver\"\ncapacity = 100000\n[[resource]]\nname = \"licence/other\"\ncapacity = 9\n";
    std::fs::write(&config, format!("operators = \"{OPERATORS}\"\n{text}\n{more}")).unwrap();
    far.bed.kill("b");
    start(&far);
    Some(far)
}

/// Starts the agent, and lets every user of this machine speak to it: who may ask what is the table's affair.
pub fn start(far: &Far) {
    far.bed.start("b");
    open_to_all(&far.bed.home("b").join("agent.sock"));
}

/// Whoever finds the socket may speak.
pub fn open_to_all(socket: &Path) {
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut directory = socket.parent();
    while let Some(path) = directory.filter(|path| path.starts_with(std::env::temp_dir())) {
        if path != std::env::temp_dir() {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        directory = path.parent();
    }
}
