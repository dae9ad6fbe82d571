//! A cluster of Slurm in the namespaces of a testbed: munged, slurmctld on the router, slurmd on two hosts, a broker over all
//! agents; and what is left of it when a test ends, however that is.

use crate::agents::rights::who::open_to_all;
use crate::bed::{Bed, SLUICE, wait_at_most, wait_for};
use crate::remote::Running;
use ::bed::file::TestbedFile;
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{BookFilter, ReservationDoc};
use linux::process::ProcessId;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Users of every Debian whom nobody is, as jobs have owners: games, whom the policy lets reserve, and www-data.
pub const PLAYER: (&str, u32) = ("games", 5);
pub const STRANGER: (&str, u32) = ("www-data", 33);
pub const NODES: [&str; 2] = ["n1", "n2"];
const ALL: [&str; 4] = ["n1", "n2", "r", "dtn"];
/// How long a job may take to start again after it was queued again: Slurm's pause is 5 s here.
pub const SOON: Duration = Duration::from_secs(40);

const POLICY: &str =
    "[[rule]]\nname = \"jobs\"\nwho = [\"uid:5\"]\nresource = [\"net/*\"]\nmost = \"8mbit\"\nlongest = \"1h\"\n";

pub struct Cluster {
    /// Dropped in this order: who sends commands, who obeys them, and what they leave.
    ctld: Option<Running>,
    daemons: Vec<Running>,
    scopes: Vec<Scope>,
    pub bed: Bed,
}

/// The control groups of a node's slurmd, and every process in them.
struct Scope(PathBuf);

impl Drop for Scope {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        // Killed processes take a moment to go.
        let until = Instant::now() + Duration::from_secs(5);
        while self.0.exists() && Instant::now() < until {
            remove(&self.0);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!self.0.exists() || std::thread::panicking(), "{} is left", self.0.display());
        // It is nobody's if it is empty.
        let _ = self.0.parent().map(std::fs::remove_dir);
    }
}

/// A group and those below it.
fn remove(group: &Path) {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(group);
}

/// Two hosts and a bottleneck behind the router between them.
fn topology(name: &str) -> TestbedFile {
    let mut text = format!("name = \"{name}\"\nauth = \"none\"\n");
    for (node, kind) in [("n1", "host"), ("n2", "host"), ("r", "router"), ("dtn", "host")] {
        text += &format!("[[node]]\nname = \"{node}\"\nkind = \"{kind}\"\n");
    }
    for (ends, rate) in [(["n1", "r"], "20mbit"), (["n2", "r"], "20mbit"), (["r", "dtn"], "10mbit")] {
        text += &format!("[[link]]\nbetween = {ends:?}\nrate = \"{rate}\"\n");
    }
    TestbedFile::parse(Path::new("cluster.toml"), &text).unwrap()
}

fn installed(program: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|dir| Path::new(dir).join(program).exists())
}

impl Cluster {
    /// Up, or `None` where it must be skipped.
    pub fn up() -> Option<Cluster> {
        let missing: Vec<&str> = ["slurmctld", "slurmd", "sbatch", "munged", "setpriv", "cc"]
            .into_iter()
            .filter(|name| !installed(name))
            .collect();
        if !missing.is_empty() {
            bench::skipped(format!(
                "{} are missing: dist/setup.sh test installs slurm-wlm and munge",
                missing.join(", ")
            ));
            return None;
        }
        let Some(groups) = linux::cgroup::for_packets(&linux::cgroup::all_mounted()) else {
            bench::skipped("no hierarchy of version 2 is mounted");
            return None;
        };
        let bed = Bed::of(topology)?;
        for node in ALL {
            let file = bed.home(node).join("agent.toml");
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, format!("policy = \"policy.toml\"\n{text}")).unwrap();
            std::fs::write(bed.home(node).join("policy.toml"), POLICY).unwrap();
            bed.kill(node);
            bed.start(node);
        }
        let mut cluster = Cluster { ctld: None, daemons: Vec::new(), scopes: Vec::new(), bed };
        cluster.prepare(&groups.at);
        let slice = groups.at.join("system.slice");
        std::fs::create_dir_all(&slice).unwrap();
        let scope = |node| Scope(slice.join(format!("{}_slurmstepd.scope", cluster.called(node))));
        cluster.scopes = NODES.map(scope).into();
        cluster.start();
        Some(cluster)
    }

    /// A node's name in Slurm, which no other test has, as its control groups are called by it.
    pub fn called(&self, node: &str) -> String {
        format!("{}{node}", self.bed.name)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.bed.place.join(name)
    }

    /// Files and folders.
    fn prepare(&self, groups: &Path) {
        let slurm = linux::privilege::User::named("slurm").expect("slurm-wlm makes its user");
        for (name, mode) in [("ctld", 0o755), ("out", 0o777)] {
            std::fs::create_dir(self.at(name)).unwrap();
            std::fs::set_permissions(self.at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        chown(self.at("ctld"), Some(slurm.uid), Some(slurm.gid)).unwrap();
        std::fs::write(self.at("munge.key"), [7; 128]).unwrap();
        std::fs::set_permissions(self.at("munge.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        // The user `slurm` may not read where this was built.
        if std::fs::hard_link(SLUICE, self.at("sluice")).is_err() {
            std::fs::copy(SLUICE, self.at("sluice")).unwrap();
        }
        // What is shipped, with the places of this test.
        let shipped =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/slurm/sluice-hook"))
                .unwrap();
        let place = self.bed.place.display();
        let own = format!(
            "export SLUICE_BROKER=unix:{place}/broker.sock SLURM_CONF={place}/slurm.conf\n\
             export SLUICE_SOCKET={place}/{0}/${{SLURMD_NODENAME#{0}}}/agent.sock\nexec {place}/sluice slurm hook --grace 1m",
            self.bed.name
        );
        let hook = shipped.replace("exec /usr/bin/sluice slurm hook", &own);
        assert_ne!(hook, shipped);
        std::fs::write(self.at("sluice-hook"), hook).unwrap();
        std::fs::set_permissions(self.at("sluice-hook"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(self.at("slurm.conf"), self.conf()).unwrap();
        let cgroup = format!("CgroupPlugin=cgroup/v2\nCgroupMountpoint={}\nIgnoreSystemd=yes\n", groups.display());
        std::fs::write(self.at("cgroup.conf"), cgroup).unwrap();
        let mut broker =
            format!("socket = {:?}\nstate = {:?}\nspeakers = [\"slurm\"]\n", self.at("broker.sock"), self.at("broker"));
        for node in &self.bed.nodes {
            broker += &format!("[[agent]]\nname = \"{node}\"\nsocket = {:?}\n", self.bed.home(node).join("agent.sock"));
        }
        std::fs::write(self.at("broker.toml"), broker).unwrap();
    }

    /// `slurm.conf`: the shipped lines, and a small cluster.
    fn conf(&self) -> String {
        let place = self.bed.place.display();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let shipped =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/slurm/slurm.conf")).unwrap();
        let shipped = shipped.replace("/etc/slurm", &place.to_string());
        let (one, two) = (self.called("n1"), self.called("n2"));
        format!(
            "{shipped}ClusterName=test\nSlurmctldHost={host}(10.0.0.2)\nSlurmUser=slurm\nAuthType=auth/munge\n\
             AuthInfo=socket={place}/munge.sock,cred_expire=5\nStateSaveLocation={place}/ctld\nSlurmdSpoolDir={place}/%n-spool\n\
             SlurmctldPidFile={place}/ctld/pid\nSlurmdPidFile={place}/%n-spool/pid\nSlurmctldLogFile={place}/ctld.log\n\
             SlurmdLogFile={place}/%n.log\nSlurmctldDebug=debug\nSlurmdDebug=debug\nTaskPlugin=task/none\n\
             JobAcctGatherType=jobacct_gather/none\nMpiDefault=none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             SchedulerParameters=sched_interval=1,bf_interval=1\nReturnToService=2\nKillWait=5\n\
             NodeName={one} NodeAddr=10.0.0.1 CPUs=1\nNodeName={two} NodeAddr=10.0.1.1 CPUs=1\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            host = host.trim(),
        )
    }

    fn start(&mut self) {
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--num-threads", "2"]);
        for (option, name) in [
            ("key-file", "munge.key"),
            ("socket", "munge.sock"),
            ("pid-file", "munge.pid"),
            ("log-file", "munge.log"),
            ("seed-file", "munge.seed"),
        ] {
            munged.arg(format!("--{option}={}", self.at(name).display()));
        }
        self.daemons.push(Running::start(&mut munged, &self.at("munged.out")));
        let mut broker = Command::new(SLUICE);
        broker.arg("broker").arg("--config").arg(self.at("broker.toml"));
        self.daemons.push(Running::start(&mut broker, &self.at("broker.log")));
        wait_for("the broker answers", || UnixStream::connect(self.at("broker.sock")).ok());
        open_to_all(&self.at("broker.sock"));
        wait_for("munged answers", || UnixStream::connect(self.at("munge.sock")).ok());
        self.start_ctld();
        let alone = std::fs::read_to_string("/proc/self/cgroup").unwrap().lines().count() == 1;
        let shim = self.at("unified.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/slurm/unified.c");
        assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(source).status().unwrap().success());
        for node in NODES {
            // slurmd wants its folder to be there, called by its own name.
            let spool = self.at(&format!("{}-spool", self.called(node)));
            std::fs::create_dir(&spool).unwrap();
            let mut slurmd = self.inside(node, "slurmd", &["-D", "-N", &self.called(node)]);
            if !alone {
                slurmd.env("LD_PRELOAD", &shim);
            }
            self.daemons.push(Running::start(&mut slurmd, &self.at(&format!("{node}.out"))));
        }
        wait_at_most(SOON, "both nodes are idle", || {
            let said = self.says("sinfo", &["--noheader", "--Node", "--format", "%T"]);
            (said.split_whitespace().filter(|state| *state == "idle").count() == 2).then_some(())
        });
    }

    pub fn start_ctld(&mut self) {
        let words = ["--reuid", "slurm", "--regid", "slurm", "--clear-groups", "slurmctld", "-D"];
        let mut ctld = self.inside("r", "setpriv", &words);
        self.ctld = Some(Running::start(&mut ctld, &self.at("ctld.out")));
    }

    /// As by a power cut.
    pub fn kill_ctld(&mut self) {
        self.ctld.take().unwrap().kill();
    }

    /// Has slurmctld write a job down, and waits until it has: it does so within seconds of a change, and forgets what it has
    /// not written when it is killed.
    pub fn written(&self, job: &str) {
        let written = || std::fs::metadata(self.at("ctld/job_state")).ok()?.modified().ok();
        let before = written();
        self.says("scontrol", &["update", &format!("JobId={job}"), "AdminComment=written"]);
        wait_for("slurmctld writes its jobs", || (written() != before).then_some(()));
    }

    /// Reserves from the second node by hand, with this label.
    pub fn reserve(&self, user: (&str, u32), label: &str) {
        let (program, broker) = (self.at("sluice"), format!("unix:{}", self.at("broker.sock").display()));
        let words =
            ["--from", "10.0.1.1", "--to", "10.0.2.2", "--forward", "100kbit", "--for", "10m", "--label", label];
        let done =
            self.user(user, &[&[program.to_str().unwrap(), "reserve", "--broker", &broker], &words[..]].concat());
        assert!(done.status.success(), "{done:?}");
    }

    /// A program in a node's namespace, with this cluster's configuration.
    fn inside(&self, node: &str, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}-{node}", self.bed.name)).arg(program).args(words);
        command.env("SLURM_CONF", self.at("slurm.conf")).stdin(Stdio::null()).current_dir("/");
        command
    }

    /// A command of Slurm as a user.
    pub fn user(&self, user: (&str, u32), words: &[&str]) -> Output {
        let name = user.0;
        let mut command = self.inside("r", "setpriv", &["--reuid", name, "--regid", name, "--clear-groups"]);
        command.args(words).current_dir(self.at("out")).output().unwrap()
    }

    /// What a command of Slurm says to root.
    pub fn says(&self, program: &str, words: &[&str]) -> String {
        let output = self.inside("r", program, words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The broker's process, as the kernel names who listens.
    pub fn broker(&self) -> ProcessId {
        let peer = linux::process::peer(&UnixStream::connect(self.at("broker.sock")).unwrap()).unwrap();
        ProcessId::of(u32::try_from(peer.pid).unwrap()).unwrap()
    }

    /// The control group of a job on a node.
    pub fn group(&self, node: &str, job: &str) -> PathBuf {
        let scope = self.scopes.iter().zip(NODES).find(|(_, known)| *known == node).unwrap().0;
        scope.0.join(format!("job_{job}"))
    }

    /// Submits a job for these nodes that sends 25 packets to port 9 of the far host, and ends when it is told; its number.
    pub fn submit(&self, user: (&str, u32), name: &str, nodes: &[&str], comment: &str) -> String {
        let script = format!(
            "#!/bin/bash\nfor n in $(seq 25); do (echo x > /dev/udp/10.0.2.2/9); done\ntouch {0}/sent-{name}\n\
             for n in $(seq 600); do [ -e {0}/end-{name} ] && exit 0; sleep 0.1; done\n",
            self.at("out").display()
        );
        let file = self.at(&format!("{name}.sh"));
        std::fs::write(&file, script).unwrap();
        let out = self.at(&format!("out/{name}.txt"));
        let list: Vec<String> = nodes.iter().map(|node| self.called(node)).collect();
        let output = self.user(
            user,
            &[
                "sbatch",
                "--parsable",
                "--time=5",
                "--nodes",
                &nodes.len().to_string(),
                "--nodelist",
                &list.join(","),
                "--comment",
                comment,
                "--job-name",
                name,
                "--output",
                out.to_str().unwrap(),
                file.to_str().unwrap(),
            ],
        );
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(said.parse::<u32>().is_ok(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    /// Tells a job to end.
    pub fn end(&self, name: &str) {
        std::fs::write(self.at(&format!("out/end-{name}")), "").unwrap();
    }

    /// Waits until a job has sent what it sends.
    pub fn wait_sent(&self, name: &str) {
        let sent = self.at(&format!("out/sent-{name}"));
        wait_at_most(SOON, &format!("job {name} sends{}", self.logs()), || sent.exists().then_some(()));
    }

    /// Waits until a job is in a state, for a reason.
    pub fn wait_state(&self, job: &str, wanted: &str) {
        let mut last = String::new();
        let until = Instant::now() + SOON;
        while !last.contains(wanted) {
            assert!(Instant::now() < until, "job {job} is {last}, not {wanted}{}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
            last = self
                .says("squeue", &["--noheader", "--states=all", "--jobs", job, "--format", "%T %r"])
                .trim()
                .to_owned();
        }
    }

    /// What was left with a job.
    pub fn note(&self, job: &str) -> String {
        let said = self.says("scontrol", &["show", "job", job]);
        said.lines().find_map(|line| line.trim().strip_prefix("AdminComment=")).unwrap_or_default().trim().to_owned()
    }

    /// What is booked at a node's agent and not over.
    pub fn booked(&self, node: &str) -> Vec<ReservationDoc> {
        let show = Request::BookShow { handle: None, filter: BookFilter::default() };
        match self.bed.client(node).call(show).unwrap() {
            Answer::Book(BookAnswer::Reservations { rows, .. }) => rows,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until no agent's book has anything.
    pub fn nothing_left(&self, when: &str) {
        wait_at_most(SOON, &format!("nothing is left {when}"), || {
            ALL.iter().all(|node| self.booked(node).is_empty()).then_some(())
        });
    }

    /// Packets in the premium class of an interface.
    pub fn premium(&self, node: &str, interface: &str) -> u64 {
        let said = self.bed.run(node, "tc", &["-s", "class", "show", "dev", interface]);
        let mut lines = said.lines().skip_while(|line| !line.contains("htb 5c1c:5 "));
        lines.nth(1).map_or(0, |sent| sent.split_whitespace().nth(3).unwrap().parse().unwrap())
    }

    /// The ends of what the daemons wrote, for whoever reads a failure.
    fn logs(&self) -> String {
        let end = |name: String| {
            let text = std::fs::read_to_string(self.at(&name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("\n== {name}\n{}", lines[lines.len().saturating_sub(15)..].join("\n"))
        };
        let nodes = NODES.map(|node| format!("{}.log", self.called(node)));
        ["ctld.log".to_owned()].into_iter().chain(nodes).map(end).collect()
    }
}
