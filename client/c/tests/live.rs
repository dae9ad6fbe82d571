//! Every call of the book in the header, from a compiled C program, against a real agent in a namespace of its own.

use documents::agent::Request;
use linux::netns::Guarded;
use rpc::client::Client;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Says to this test program, started once more, which agent to be.
const AGENT: &str = "SLUICE_CAPI_TEST_AGENT";

/// What goes with the test, whatever happens.
struct Place {
    dir: PathBuf,
    children: Vec<Child>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let stopped =
            Client::connect(&self.dir.join("agent.sock")).is_ok_and(|mut client| client.call(Request::Stop).is_ok());
        let until = Instant::now() + Duration::from_secs(if stopped { 10 } else { 0 });
        for child in &mut self.children {
            while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = linux::mount::unmount_below(&self.dir);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Started once more by the other test; without its word there is nothing to do.
#[test]
fn the_agent_itself() {
    let Some(file) = std::env::var_os(AGENT) else { return };
    agent_service::run(agent_service::AgentConfig::load(Path::new(&file)).unwrap()).unwrap();
}

#[test]
fn every_call_of_the_book_against_a_real_agent() {
    let root = std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if !root {
        return bench::skipped("agents and network namespaces need root");
    }
    let name = format!("capi-live-{}", std::process::id());
    let mut place = Place { dir: std::env::temp_dir().join(&name), children: Vec::new() };
    std::fs::create_dir_all(&place.dir).unwrap();
    let program = place.dir.join("program");
    let (here, built) = (Path::new(env!("CARGO_MANIFEST_DIR")), crate::built());
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror"]).arg(here.join("tests/live.c")).arg("-I").arg(here.join("include"));
    let Ok(compiled) = compiler.arg("-o").arg(&program).arg("-L").arg(&built).arg("-lsluice_c").output() else {
        return bench::skipped("cc is not installed");
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));

    let netns = Guarded::create(&name).unwrap();
    let link =
        || Command::new("ip").args(["link", "add", "d0", "up", "type", "veth", "peer", "name", "d1"]).status().unwrap();
    assert!(netns.run(link).unwrap().success());
    let file = place.dir.join("agent.toml");
    let text = format!(
        "name = \"capi\"\nauth = \"none\"\nsocket = \"{0}/agent.sock\"\nstate = \"{0}/state\"\n[store]\nany_filesystem = true\n\
         [[interface]]\nname = \"d0\"\nrate = \"10mbit\"\n[cpu]\ncapacity = \"0.5\"\n[[resource]]\nname = \"licence/solver\"\ncapacity = 4\n",
        place.dir.display()
    );
    std::fs::write(&file, text).unwrap();
    let log = std::fs::File::create(place.dir.join("agent.log")).unwrap();
    let mut agent = Command::new(std::env::current_exe().unwrap());
    agent.args(["--exact", "live::the_agent_itself", "--nocapture"]).env(AGENT, &file).stderr(log);
    netns.enter_at_exec(&mut agent);
    place.children.push(agent.stdout(std::process::Stdio::null()).spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(20);
    let socket = place.dir.join("agent.sock");
    while Client::connect(&socket).and_then(|mut client| client.call(Request::Hello)).is_err() {
        let log = std::fs::read_to_string(place.dir.join("agent.log")).unwrap_or_default();
        assert!(Instant::now() < until, "the agent does not start: {log}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut bound = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = bound.id().to_string();
    let run =
        Command::new("timeout").arg("60").arg(&program).arg(&socket).arg(&pid).env("LD_LIBRARY_PATH", &built).output();
    let _ = bound.kill();
    let _ = bound.wait();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("everything answered"), "{said}");
}
