//! Co-reservations over the agents of a testbed, by the libraries for Python and C: what is refused is asked for in
//! another way, what breaks is repaired, a program that is killed leaves one reservation or none.

use crate::agents::rapi::{Program, compiled};
use crate::bed::{Bed, SLUICE, seed, wait_for};
use crate::remote::Running;
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::BookFilter;
use documents::rest::Reservation;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Four licences at each of two agents.
const LICENCES: &str = "[[resource]]\nname = \"licence/solver\"\ncapacity = 4\n";

fn bed() -> Option<Bed> {
    Bed::of(|name| {
        let mut file = seed(name, "30s");
        for node in ["maui", "glenwood"] {
            file.settings.insert(node.to_owned(), LICENCES.to_owned());
        }
        file
    })
}

/// The agents, as `sluice broker --agent` names them.
fn agents(bed: &Bed) -> Vec<String> {
    let at = |node: &String| format!("{node}={}", bed.home(node).join("agent.sock").display());
    bed.nodes.iter().map(at).collect()
}

#[test]
fn by_the_python_package() {
    if Command::new("python3").arg("--version").output().is_err() {
        return bench::skipped("python3 is not installed");
    }
    let Some(bed) = bed() else { return };
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    let mut command = Command::new("timeout");
    command.args(["240", "python3", "-W", "error"]).arg(python.join("tests/together.py"));
    command.arg(SLUICE).arg(&*bed.place).args(agents(&bed)).env("PYTHONPATH", &python);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("was reserved together"), "{said}");
}

/// A broker over all agents of a bed.
struct Desk<'a> {
    bed: &'a Bed,
    socket: PathBuf,
    running: Option<Running>,
}

impl Desk<'_> {
    fn open(bed: &Bed) -> Desk<'_> {
        let mut desk = Desk { bed, socket: bed.place.join("broker.sock"), running: None };
        desk.start();
        desk
    }

    fn start(&mut self) {
        let mut broker = Command::new(SLUICE);
        broker.arg("broker").arg("--socket").arg(&self.socket).arg("--state").arg(self.bed.place.join("broker"));
        for agent in agents(self.bed) {
            broker.arg("--agent").arg(agent);
        }
        self.running = Some(Running::start(&mut broker, &self.bed.place.join("broker.log")));
        wait_for("the broker answers", || UnixStream::connect(&self.socket).ok());
    }

    fn kill(&mut self) {
        self.running.take().unwrap().kill();
    }

    /// `sluice ... --broker`, which must go well.
    fn sluice(&self, words: &[&str]) -> String {
        let mut command = Command::new(SLUICE);
        let output = command.args(words).arg("--broker").arg(&self.socket).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn reservations(&self) -> Vec<Reservation> {
        serde_json::from_str(&self.sluice(&["list", "--json"])).unwrap()
    }

    /// An operator cancels what an agent has of the only reservation, of single resources.
    fn break_at(&self, agent: &str) {
        let mut client = self.bed.client(agent);
        let asked = client.call(Request::BookShow { handle: None, filter: BookFilter::default() }).unwrap();
        let Answer::Book(BookAnswer::Reservations { rows, .. }) = asked else { panic!("{asked:?}") };
        let licence = rows.into_iter().find(|row| row.parts[0].resource == "licence/solver").unwrap();
        client.call(Request::BookCancel { handle: licence.handle }).unwrap();
    }
}

#[test]
fn by_libsluice_what_is_refused_and_what_breaks() {
    let Some(bed) = bed() else { return };
    let Some(program) = compiled(&bed, "c", "c/tests/together.c") else { return };
    let mut desk = Desk::open(&bed);
    let run = |what: &str| {
        let mut command = Command::new(&program);
        command.arg(&desk.socket).arg(what).stdin(Stdio::null());
        Program::run(&bed, "swissvale", command)
    };
    desk.sluice(&["reserve", "maui/licence/solver=3", "--for", "1h"]);
    let mut refusals = run("refusals");
    let refused = refusals.hear("news 1");
    assert!(
        refused.starts_with("news 1 solver at maui/licence/solver: 1. network at 10.0.0.1 > 10.0.2.2"),
        "{refused}"
    );
    refusals.hear("all went as it should");
    let [other] = desk.reservations().try_into().unwrap();
    desk.sluice(&["cancel", &other.id]);

    let mut watched = run("watch");
    watched.hear("news 4");
    desk.break_at("maui");
    assert!(watched.hear("news 5").starts_with("news 5 solver at maui: "));
    assert!(watched.hear("news 6").ends_with("solver at glenwood/licence/solver"));
    // The broker goes away and comes back, and what broke meanwhile is repaired.
    desk.kill();
    desk.break_at("glenwood");
    watched.hear("news 9");
    desk.start();
    assert!(watched.hear("news 6").ends_with("solver at maui/licence/solver"));
    watched.hear("news 8");
    watched.hear("all went as it should");
    assert!(desk.reservations().is_empty());
}

#[test]
fn by_libsluice_a_program_that_is_killed_leaves_one_or_none() {
    let Some(bed) = bed() else { return };
    let Some(program) = compiled(&bed, "c", "c/tests/together.c") else { return };
    let desk = Desk::open(&bed);
    for moment in 0..8 {
        let mut command = Command::new(&program);
        command.arg(&desk.socket).arg("name").env("LD_LIBRARY_PATH", &*bed.place);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 + 12 * moment));
        child.kill().unwrap();
        child.wait().unwrap();
        let settled = || {
            let all = desk.reservations();
            all.iter().all(|one| one.state != "preparing" && one.state != "aborting").then_some(all)
        };
        let left = wait_for("what was begun ends", settled);
        assert!(left.len() <= 1 && left.iter().all(|one| one.parts.len() == 4), "{left:?}");
        let again = Command::new(&program).arg(&desk.socket).arg("name").env("LD_LIBRARY_PATH", &*bed.place).output();
        let said = String::from_utf8(again.unwrap().stdout).unwrap();
        let [one] = desk.reservations().try_into().unwrap();
        assert!(said.starts_with(&format!("made {}\n", one.id)), "{said}");
        assert!(left.first().is_none_or(|before| before.id == one.id), "{left:?}");
        if moment % 2 == 0 {
            desk.sluice(&["cancel", &one.id]);
        }
    }
}

#[test]
fn the_example_in_c_compiles() {
    let Some(bed) = Bed::up("30s") else { return };
    compiled(&bed, "c", "../examples/c/together.c");
}
