//! librapi and libscrapi from compiled C programs, between real agents: two hosts, two routers, real signalling.

use crate::bed::{Bed, wait_for};
use documents::agent::FlowSpecDoc;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Compiles a C program against one of the libraries; `None`, said loudly, where there is no compiler. `source` is below
/// the folder `client`.
pub fn compiled(bed: &Bed, library: &str, source: &str) -> Option<PathBuf> {
    let program = bed.place.join(Path::new(source).file_stem().unwrap());
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut built = std::env::current_exe().unwrap();
    built.pop();
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-pthread"]).arg(client.join(source));
    compiler.arg("-I").arg(client.join(library).join("include"));
    // The folder of libsluice is called `c`.
    let (library, soname) = if library == "c" { ("sluice_c", "sluice") } else { (library, library) };
    compiler.arg("-o").arg(&program).arg("-L").arg(&built).arg(format!("-l{library}"));
    let Ok(output) = compiler.output() else {
        bench::skipped("cc is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The library's SONAME has a version, as an installed one has.
    let versioned = bed.place.join(format!("lib{soname}.so.1"));
    let _ = std::os::unix::fs::symlink(built.join(format!("lib{library}.so")), versioned);
    Some(program)
}

/// A program on a node; it is killed with the test.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Program {
    fn start(bed: &Bed, node: &str, program: &Path, arguments: &[&str]) -> Program {
        let mut command = Command::new(program);
        command.arg(bed.home(node).join("agent.sock")).args(arguments);
        Program::run(bed, node, command)
    }

    /// An example takes the agent's socket from the environment.
    fn example(bed: &Bed, node: &str, program: &Path, arguments: &[&str]) -> Program {
        let mut command = Command::new(program);
        command.args(arguments).env("SLUICE_SOCKET", bed.home(node).join("agent.sock"));
        Program::run(bed, node, command)
    }

    /// Starts a command on a node.
    pub fn run(bed: &Bed, node: &str, mut command: Command) -> Program {
        command.env("LD_LIBRARY_PATH", &*bed.place).stdin(Stdio::piped()).stdout(Stdio::piped());
        let namespace = bed.netns(node);
        namespace.enter_at_exec(&mut command);
        let mut child = command.spawn().unwrap();
        let (send, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Program { child, lines, heard: Vec::new() }
    }

    /// Kills it, and what it has started lives on.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Tells it something, and gives its answer.
    pub fn tell(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.hear("did ")
    }

    /// The next line that begins so.
    pub fn hear(&mut self, start: &str) -> String {
        self.hear_such(start, |line| line.starts_with(start))
    }

    fn hear_such(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else { panic!("not heard: {what:?}, but {:#?}", self.heard) };
            assert!(!line.starts_with("FAILED"), "{line}");
            self.heard.push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reservations(bed: &Bed, node: &str) -> usize {
    bed.reservations(node).len()
}

#[test]
fn c_programs_send_reserve_change_and_release_by_rapi() {
    let Some(bed) = Bed::up("500ms") else { return };
    let Some(program) = compiled(&bed, "rapi", "rapi/tests/program.c") else { return };
    let mut receiver = Program::start(&bed, "glenwood", &program, &["10.0.2.2", "5004"]);
    let mut sender = Program::start(&bed, "swissvale", &program, &["10.0.2.2", "5004"]);
    assert_eq!((receiver.hear("session"), sender.hear("session")), ("session: 0".into(), "session: 0".into()));
    assert_eq!(receiver.tell("misuse"), "did misuse: 0 no error");
    assert_eq!(receiver.tell("threads"), "did threads: 0 no error");
    // The agent takes 256 connections; whoever has them all is told so, and nothing else ends.
    writeln!(receiver.child.stdin.as_mut().unwrap(), "many").unwrap();
    let many = receiver.hear("many: ");
    // A connection that finds no place is closed; the library may notice that before it reads the reason.
    let refused = [", then too many sessions", ", then no RSVP agent answers on this host"];
    assert!(refused.iter().any(|end| many.ends_with(end)), "{many}");
    assert!(many["many: ".len()..].starts_with(['1', '2']), "{many}");
    receiver.hear("did many");

    assert!(sender.tell("send 10.0.0.1 5004 125000").starts_with("did send: 0"));
    let path = receiver.hear("PATH");
    assert!(
        path.contains(" 1/1/1 10.0.0.1:5004 [T r=125000 b=4000 p=500000 m=64 M=1500] form=18 [Adspec hops=3 bw="),
        "{path}"
    );
    assert!(receiver.tell("fixed 10.0.0.1 5004 125000").starts_with("did fixed: 0"));
    let confirmed = receiver.hear("CONFIRM");
    assert!(confirmed.contains("style=2") && confirmed.contains(" 1/1/0 10.0.0.1:5004 [CL r=125000"), "{confirmed}");
    let reserved = sender.hear("RESV ");
    assert!(reserved.contains("style=2") && reserved.contains(" 1/1/0 10.0.0.1:5004 [CL r=125000"), "{reserved}");
    assert_eq!(reservations(&bed, "yosemite"), 1);

    // More than the bottleneck has: the error names the node and the flowspec, and the older reservation stays.
    assert!(receiver.tell("fixed 10.0.0.1 5004 12500000").starts_with("did fixed: 0"));
    let error = receiver.hear("RESV_ERROR");
    assert!(error.contains("code=1 ") && error.contains("node=10.0.") && error.contains("flags=1 1/1/0"), "{error}");
    assert_eq!(reservations(&bed, "yosemite"), 1);

    // Another receiver sees the same in Intserv formats.
    let mut other = Program::start(&bed, "glenwood", &program, &["10.0.2.2", "5004", "intserv"]);
    let path = other.hear("PATH");
    assert!(path.contains("[T r=125000 b=4000 p=500000 m=64 M=1500] form=17"), "{path}");

    assert!(receiver.tell("unreserve").starts_with("did unreserve: 0"));
    assert!(sender.hear("RESV ").contains(" 1/0/0 "));
    assert!(sender.tell("silent").starts_with("did silent: 0"));
    assert!(receiver.hear("PATH").contains(" 0/0/0"));
}

#[test]
fn rapi_registers_again_when_the_agent_comes_back_and_a_crash_releases() {
    let Some(bed) = Bed::up("500ms") else { return };
    let Some(program) = compiled(&bed, "rapi", "rapi/tests/program.c") else { return };
    let mut receiver = Program::start(&bed, "glenwood", &program, &["10.0.2.2", "5004"]);
    let mut sender = Program::start(&bed, "swissvale", &program, &["10.0.2.2", "5004"]);
    sender.tell("send 10.0.0.1 5004 125000");
    receiver.hear("PATH");
    receiver.tell("wildcard 125000");
    assert!(receiver.hear("CONFIRM").contains("style=1"));
    sender.hear("RESV ");

    bed.kill("glenwood");
    assert!(receiver.hear("PATH").contains(" 0/0/0"), "upcalls run before the dispatch says that the agent is away");
    receiver.hear("the agent is away");
    assert!(receiver.tell("wildcard 125000").starts_with("did wildcard: 9"), "calls say so while it is away");
    bed.start("glenwood");
    assert!(receiver.hear("PATH").contains(" 1/1/1 "));
    receiver.hear("CONFIRM");

    // A child that lives on does not keep what its parent had reserved.
    receiver.tell("fork");
    receiver.kill();
    assert!(sender.hear("RESV ").contains(" 1/0/0 "), "the reservation ends with the program");
    wait_for("the router has released", || (reservations(&bed, "yosemite") == 0).then_some(()));
}

#[test]
fn c_programs_of_few_lines_reserve_by_scrapi() {
    let Some(bed) = Bed::up("500ms") else { return };
    let Some(program) = compiled(&bed, "scrapi", "scrapi/tests/program.c") else { return };
    // The receiver may come first.
    let mut receiver = Program::start(&bed, "glenwood", &program, &["receive", "10.0.2.2", "5004", "10.0.0.1"]);
    assert_eq!(receiver.hear("began"), "began: 1 status yellow errno 0");
    let mut sender = Program::start(&bed, "swissvale", &program, &["send", "10.0.2.2", "5004", "10.0.0.1", "125000"]);
    assert_eq!(sender.hear("began"), "began: 1 status green errno 0", "the sender waits for the reservation");
    assert_eq!(receiver.hear("status green"), "status green errno 0");
    let row = &bed.reservations("yosemite")[0];
    assert!(matches!(row.asked, FlowSpecDoc::ControlledLoad { tspec } if tspec.r_bps == 1_000_000), "{row:?}");

    // More than the bottleneck has: red at the receiver, with RSVP's code; less again: green.
    sender.tell("rate 12500000");
    assert_eq!(receiver.hear("status red"), "status red errno 1");
    sender.tell("rate 250000");
    assert_eq!(receiver.hear("status green"), "status green errno 0");
    assert_eq!(sender.tell("close"), "did close: 1");
    assert_eq!(receiver.hear("status yellow"), "status yellow errno 0");
    assert_eq!(receiver.tell("misuse"), "did misuse: 1");
    wait_for("the router has released", || (reservations(&bed, "yosemite") == 0).then_some(()));
}

#[test]
fn the_examples_in_c_reserve_as_they_say() {
    let Some(bed) = Bed::up("500ms") else { return };
    let Some(video) = compiled(&bed, "scrapi", "../examples/c/video_tool.c") else { return };
    let Some(server) = compiled(&bed, "rapi", "../examples/c/file_server.c") else { return };
    let mut receiver = Program::example(&bed, "glenwood", &video, &["receive", "10.0.2.2", "5004"]);
    let mut sender = Program::example(&bed, "swissvale", &video, &["send", "10.0.2.2", "5004", "10.0.0.1", "125000"]);
    let got = |line: &str| line.split(' ').next().unwrap().parse::<u32>().unwrap() > 50 && line.contains(", reserved");
    receiver.hear_such("packets come, reserved", got);
    sender.hear_such("packets go, reserved", got);
    // Ten times what the bottleneck has is refused, in words.
    writeln!(sender.child.stdin.as_mut().unwrap(), "rate 12500000").unwrap();
    receiver.hear_such("a refusal", |line| line.contains("REFUSED: admission control refused"));
    drop((sender, receiver));

    let file = bed.place.join("file");
    std::fs::write(&file, vec![7; 100_000]).unwrap();
    let arguments = ["10.0.0.1", "8080", file.to_str().unwrap(), "100000"];
    let mut server = Program::example(&bed, "swissvale", &server, &arguments);
    let fetch = || {
        let until = Instant::now() + PATIENCE;
        loop {
            match bed.netns("glenwood").run(|| std::net::TcpStream::connect("10.0.0.1:8080")).unwrap() {
                Ok(mut stream) => {
                    let mut bytes = Vec::new();
                    stream.read_to_end(&mut bytes).unwrap();
                    return bytes.len();
                }
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => panic!("{error}"),
            }
        }
    };
    assert_eq!(fetch(), 100_000, "nobody reserved at the far end, and the file came");
    server.hear_such("the server says so", |line| line.ends_with("without a reservation"));
}
