//! The notice before an end: by agents that die before and after it, over several agents once, by webhook and by mail.

use crate::bed::{Bed, SLUICE, wait_for};
use crate::remote::Running;
use documents::agent::{Answer, Request};
use documents::book::BookAnswer;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    Command::new(SLUICE).args(words).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(output)))
}

/// The notices of a reservation, as an agent keeps them: their ends.
fn told(bed: &Bed, node: &str, handle: &str) -> Vec<String> {
    let request = Request::BookHistory { handle: handle.to_owned(), after: 0 };
    let Answer::Book(BookAnswer::Events(found)) = bed.client(node).call(request).unwrap() else { panic!("no events") };
    let ours = found.events.into_iter().filter(|event| event.event == "ends_soon");
    ours.map(|event| event.text.unwrap()).collect()
}

#[test]
fn an_agent_that_dies_before_or_after_tells_it_once() {
    let Some(bed) = Bed::up("30s") else { return };
    let socket = bed.home("maui").join("agent.sock");
    let socket = socket.to_str().unwrap();
    let reserve = |words: &[&str]| {
        let made = run(&[&["reserve", "net/to-glenwood=1mbit", "--socket", socket, "--json"], words].concat());
        assert!(made.status.success(), "{}", text(&made));
        json(&made)
    };
    let made = reserve(&["--for", "60s", "--notify", "56s"]);
    assert_eq!(made["notify_s"], 56.0);
    let handle = made["handle"].as_str().unwrap();
    bed.kill("maui");
    std::thread::sleep(std::time::Duration::from_secs(5));
    bed.start("maui");
    let all = wait_for("it is told after the start", || Some(told(&bed, "maui", handle)).filter(|all| !all.is_empty()));
    let end = made["parts"][0]["steps"][0]["end"].as_str().unwrap();
    assert_eq!(all, [end]);
    bed.kill("maui");
    bed.start("maui");
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(told(&bed, "maui", handle), [end], "once");
    // A shorter end that is inside already is told at once; a longer one anew.
    let long = reserve(&["--for", "2h", "--notify", "10m"]);
    let long = long["handle"].as_str().unwrap();
    assert!(told(&bed, "maui", long).is_empty());
    assert!(run(&["modify", long, "--end", "now+5m", "--socket", socket]).status.success());
    wait_for("the shorter end is told", || (told(&bed, "maui", long).len() == 1).then_some(()));
    assert!(text(&run(&["list", long, "--socket", socket])).contains("ends_soon"));
    // Without one nothing is told, and what makes no sense is refused.
    let plain = reserve(&["--for", "2s"]);
    assert!(plain.get("notify_s").is_none());
    for (words, code, why) in [
        (&["--notify", "0s"][..], 2, "a notice comes"),
        (&["--mail", "alice@example.org"], 2, "--notify"),
        (&["--notify", "1m", "--mail", "alice@example.org"], 2, "brokers send mail"),
    ] {
        let words = [&["reserve", "net/to-glenwood=1mbit", "--for", "1h", "--socket", socket], words].concat();
        let said = run(&words);
        assert!(said.status.code() == Some(code) && text(&said).contains(why), "{words:?}: {}", text(&said));
    }
}

/// A broker over all agents of a testbed that sends mail by a script, which keeps what it gets.
struct Site {
    bed: Bed,
    socket: PathBuf,
    at: String,
    mails: PathBuf,
}

impl Site {
    fn new() -> Option<Site> {
        let bed = Bed::up("30s")?;
        let (socket, mails) = (bed.place.join("broker.sock"), bed.place.join("mails"));
        std::fs::create_dir(&mails).unwrap();
        let script = bed.place.join("sendmail");
        let here = mails.display();
        let body = format!(
            "#!/bin/sh\n[ -e {here}/fail ] && {{ echo 'the queue is full' >&2; exit 75; }}\n\
             {{ echo \"$@\"; cat; }} > {here}/.$$ && mv {here}/.$$ {here}/mail$$\n"
        );
        std::fs::write(&script, body).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut file = format!(
            "[mail]\nsendmail = \"{}\"\nfrom = \"sluice@example.org\"\nto = [\"*@example.org\"]\nper_hour_of_one = 3\n",
            script.display()
        );
        for node in &bed.nodes {
            let agent = bed.home(node).join("agent.sock");
            file += &format!("[[agent]]\nname = \"{node}\"\nsocket = \"{}\"\n", agent.display());
        }
        std::fs::write(bed.place.join("broker.toml"), file).unwrap();
        let at = format!("unix:{}", socket.display());
        Some(Site { bed, socket, at, mails })
    }

    fn start(&self) -> Running {
        let mut broker = Command::new(SLUICE);
        broker.arg("broker").arg("--config").arg(self.bed.place.join("broker.toml"));
        broker.arg("--socket").arg(&self.socket).arg("--state").arg(self.bed.place.join("broker"));
        let running = Running::start(&mut broker, &self.bed.place.join("broker.log"));
        wait_for("the broker answers", || UnixStream::connect(&self.socket).ok());
        running
    }

    fn reserve(&self, words: &[&str]) -> Output {
        let path = ["reserve", "--from", "10.0.0.1", "--to", "10.0.2.2", "--forward", "1mbit", "--json"];
        run(&[&path, words, &["--broker", &self.at]].concat())
    }

    fn mails(&self) -> Vec<String> {
        let mut all: Vec<String> = std::fs::read_dir(&self.mails)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("mail"))
            .map(|entry| std::fs::read_to_string(entry.path()).unwrap())
            .collect();
        all.sort();
        all
    }

    fn hooks(&self) -> Vec<serde_json::Value> {
        let doc = get(&self.socket, "/v1/webhooks");
        doc["webhooks"].as_array().unwrap().clone()
    }
}

fn get(socket: &Path, path: &str) -> serde_json::Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn over_several_agents_one_mail_comes_also_if_the_broker_dies_before() {
    let Some(site) = Site::new() else { return };
    let broker = site.start();
    let made = site.reserve(&["--for", "60s", "--notify", "56s", "--mail", "alice@example.org"]);
    assert!(made.status.success(), "{}", text(&made));
    let doc = json(&made);
    let id = doc["id"].as_str().unwrap();
    assert!(doc["parts"].as_array().unwrap().len() > 1 && doc["notify_s"] == 56.0, "{doc}");
    assert_eq!(site.hooks()[0]["url"], "mailto:alice@example.org");
    broker.kill();
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert!(site.mails().is_empty());
    let broker = site.start();
    let mails = wait_for("the mail", || Some(site.mails()).filter(|mails| !mails.is_empty()));
    let mail = &mails[0];
    assert!(mail.starts_with("-oi -f sluice@example.org -- alice@example.org\nFrom: sluice@example.org\n"), "{mail}");
    assert!(mail.contains("Auto-Submitted: auto-generated") && mail.contains(id), "{mail}");
    let end = doc["parts"][0]["steps"][0]["end"].as_str().unwrap();
    assert!(mail.contains(&format!("ends at {end}")), "{mail}");
    let history = get(&site.socket, &format!("/v1/reservations/{id}/history"));
    let events = history["events"].as_array().unwrap();
    let count = events.iter().filter(|event| event["event"] == "ends_soon").count();
    assert_eq!(count, 1, "one for all agents: {history}");
    // Killed after it, once it is written down that it was sent: no second one.
    let place = site.hooks()[0]["delivered"].clone();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(site.hooks()[0]["failures"] == 0, "{place}");
    broker.kill();
    let _broker = site.start();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(site.mails().len(), 1);
    // What was about one reservation ends with it.
    assert!(run(&["cancel", id, "--broker", &site.at]).status.success());
    wait_for("its mail ends with it", || site.hooks().is_empty().then_some(()));
    assert_eq!(site.mails().len(), 1);
}

#[test]
fn mail_goes_to_plain_addresses_that_are_allowed_and_a_failure_is_said() {
    let Some(site) = Site::new() else { return };
    let _broker = site.start();
    // The notice is longer than the reservation: it is due at once.
    let soon = |address: &str| site.reserve(&["--for", "5m", "--notify", "1h", &format!("--mail={address}")]);
    let bad = [
        ("bob@elsewhere.org", "[mail] to"),
        ("-oQ/tmp@example.org", "no plain address"),
        ("alice@example.org\nBcc: eve@example.org", "no plain address"),
        ("alice@example.org,eve@example.org", "no plain address"),
    ];
    for (address, why) in bad {
        let said = soon(address);
        assert!(said.status.code() == Some(1) && text(&said).contains(why), "{address}: {}", text(&said));
        assert!(text(&said).contains("it is reserved, but no mail will come"), "{}", text(&said));
    }
    assert!(site.hooks().is_empty() && site.mails().is_empty());
    std::fs::write(site.mails.join("fail"), "").unwrap();
    assert!(soon("alice@example.org").status.success());
    let failed = wait_for("the failure is said", || {
        site.hooks().first().and_then(|hook| hook["last_failure"].as_str().map(str::to_owned))
    });
    assert!(failed.contains("75") && failed.contains("the queue is full"), "{failed}");
    std::fs::remove_file(site.mails.join("fail")).unwrap();
    wait_for("it comes all the same", || (site.mails().len() == 1).then_some(()));
    // Three an hour: failures count, because they cost the same.
    for _ in 0..3 {
        assert!(soon("alice@example.org").status.success());
    }
    let limited = wait_for("the limit is said", || {
        let hooks = site.hooks();
        let said = hooks.iter().filter_map(|hook| hook["last_failure"].as_str());
        said.map(str::to_owned).find(|why| why.contains("mails an hour"))
    });
    assert!(limited.contains("3 mails an hour of one owner"), "{limited}");
    assert!(site.mails().len() <= 3, "{:?}", site.mails());
}
