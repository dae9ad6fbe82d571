//! The book's commands against a broker over three machines, by mutual TLS, as their user types them.

use super::path::Site;
use crate::bed::{SLUICE, wait_for};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

impl Site {
    /// A command on a host at the other end, with the broker and the certificate in its environment.
    fn command(&self, who: &str, arguments: &[&str]) -> Command {
        let papers = self.far.papers(who);
        let mut command = Command::new(SLUICE);
        command.args(arguments).env("SLUICE_BROKER", "https://10.0.0.1:8443").env_remove("SLUICE_SOCKET");
        command.env("SLUICE_CA", papers.ca.unwrap()).env("SLUICE_CERTIFICATE", papers.certificate.unwrap());
        command.env("SLUICE_KEY", papers.key.unwrap());
        let netns = self.far.bed.netns("glenwood");
        netns.enter_at_exec(&mut command);
        // It is open until the command has been started, at the latest when the test ends.
        std::mem::forget(netns);
        command
    }

    fn typed(&self, who: &str, arguments: &[&str]) -> Output {
        self.command(who, arguments).output().unwrap()
    }

    /// Standard output of what alice types.
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.typed("requester-alice", arguments);
        assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn told(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.said(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Exit status and standard error.
    fn failed(&self, who: &str, arguments: &[&str]) -> (i32, String) {
        let output = self.typed(who, arguments);
        (output.status.code().unwrap(), errors(&output))
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A command that goes on, and its lines as they come.
struct Goes(Child, Receiver<String>);

impl Goes {
    fn start(mut command: Command) -> Goes {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (to, lines) = channel();
        let reader = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            reader.lines().map_while(Result::ok).try_for_each(|line| to.send(line).map_err(drop))
        });
        Goes(child, lines)
    }

    fn wait_for(&self, words: &[&str]) -> Value {
        let mut all = String::new();
        wait_for(&words.join(" "), || {
            let line = self.1.recv_timeout(std::time::Duration::from_millis(50)).ok()?;
            all += &line;
            words.iter().all(|word| line.contains(word)).then(|| serde_json::from_str(&line).unwrap())
        })
    }
}

impl Drop for Goes {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const ENDS: [&str; 4] = ["--from", "10.0.0.1", "--to", "10.0.2.2"];

/// With 5 of its 9.6 Mbit/s taken: what does not fit, and what would be possible.
fn refused_without_a_trace(site: &Site, handle: &str) {
    let before = site.footprint();
    // More than the policy lets her have, more than there is, and less than all of the way.
    let (code, text) = site.failed("requester-alice", &["modify", handle, "--forward", "9mbit"]);
    assert!(code == 1 && text.contains("\"films\" says no"), "{code} {text}");
    let (code, text) = site.failed("requester-alice", &["modify", handle, "--amount", "1mbit"]);
    assert!(code == 2 && text.contains("--forward"), "{code} {text}");
    let more = [&["reserve", "--forward", "7mbit", "-w", "now+1m..now+5m"], &ENDS[..]].concat();
    let (code, text) = site.failed("requester-alice", &more);
    assert!(code == 1 && text.contains("yosemite/net/to-maui: asked 7.00mbit, free 4."), "{code} {text}");
    assert!(
        text.contains("  later: yosemite/net/to-maui  7.00mbit") && text.contains("  slower: maui/net/to-glenwood  4."),
        "{text}"
    );
    let output = site.typed("requester-alice", &[&["enquire", "--json"], &more[1..]].concat());
    let doc: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = |alternative: &Value| {
        alternative["resources"] == serde_json::json!(["yosemite/net/to-maui", "maui/net/to-glenwood"])
    };
    assert!(output.status.code() == Some(1) && doc["accepted"] == false, "{doc}");
    assert!(doc["refusal"]["alternatives"].as_array().unwrap().iter().all(named), "{doc}");
    assert_eq!(site.footprint(), before, "what was refused changes nothing");
}

/// Of one agent, held and then booked; lists, and what is drawn.
fn single_resources(site: &Site, handle: &str) {
    // Single resources under the same roof; only held, then booked.
    let held = site.told(&["reserve", "maui/net/to-glenwood=1mbit", "--for", "10m", "--hold", "1m"]);
    assert_eq!((&held["state"], &held["parts"][0]["resource"]), (&"held".into(), &"maui/net/to-glenwood".into()));
    let second = held["handle"].as_str().unwrap();
    assert!(site.said(&["commit", second]).contains("active"));
    assert_eq!(site.told(&["list", "--label", "film"]).as_array().unwrap().len(), 1);
    assert!(site.said(&["list", "--resource", "maui/net/to-glenwood"]).contains(second));
    assert!(site.said(&["cancel", second]).contains("cancelled"));
    assert!(site.said(&["calendar", "yosemite/net/to-maui"]).contains("free now 4."));
    let history = site.told(&["list", handle])["history"].clone();
    assert!(
        history.as_array().unwrap().iter().any(|event| event["event"] == "modified" && event["agent"] == "maui"),
        "{history}"
    );
}

#[test]
fn the_commands_of_the_book_end_to_end() {
    let Some(mut site) = Site::up() else { return };
    let most = site.told(&[&["enquire"], &ENDS[..], &["--for", "1h"]].concat());
    assert!(most["accepted"] == true && most["forward"].as_u64().unwrap() > 9_000_000, "{most}");
    assert_eq!(most["free"].as_array().unwrap().len(), 5, "one for each interface on the way: {most}");
    let watch = Goes::start(site.command("requester-alice", &["watch", "--after", "0", "--json"]));

    let wish =
        [&["reserve", "--forward", "6mbit", "--reverse", "500kbit", "--for", "1h", "--key", "k1"], &ENDS[..]].concat();
    let made = site.told(&wish);
    let handle = made["handle"].as_str().unwrap().to_owned();
    assert_eq!(
        (&made["owner"], &made["state"], &made["path"]["forward"]),
        (&"alice".into(), &"active".into(), &6_000_000.into())
    );
    assert_eq!(site.told(&wish)["handle"], made["handle"], "the same key, the same reservation");
    let (code, text) = site.failed("requester-alice", &[&wish[..], &["--label", "other"]].concat());
    assert!(code == 1 && text.contains("idempotency key"), "{code} {text}");
    let created = watch.wait_for(&["created", &handle]);
    assert!(created["id"].as_str().unwrap().contains(':') && created["event"]["type"] == "book", "{created}");

    let text = site.said(&["bind", &handle, "--source", "10.0.0.1:4000", "--to", "10.0.2.2:5004", "--protocol", "udp"]);
    assert!(text.contains("10.0.0.1 > 10.0.2.2: 6.00mbit forward, 500.0kbit reverse"), "{text}");
    assert!(text.contains("bound to 10.0.2.2:5004 > 10.0.0.1:4000"), "what comes back is bound as well: {text}");
    let bound = [
        "glenwood: alice active net/to-maui 500000 in_force",
        "maui: alice active net/to-glenwood 6000000 in_force",
        "maui: alice active net/to-yosemite 500000 in_force",
        "yosemite: alice active net/to-maui 6000000 in_force",
        "yosemite: alice active net/to-swissvale 500000 in_force",
    ];
    wait_for("all of it is in force", || (site.footprint() == bound).then_some(()));
    let (code, text) = site.failed("requester-alice", &["bind", &handle, "--to", "10.0.9.9:1"]);
    assert!(code == 2 && text.contains("between 10.0.0.1 and 10.0.2.2"), "{code} {text}");

    site.said(&["modify", &handle, "--forward", "5mbit", "--label", "film"]);
    wait_for("5 Mbit/s are in force", || {
        let faster = site.footprint().iter().filter(|line| line.contains(" 5000000 in_force")).count();
        (faster == 2).then_some(())
    });
    refused_without_a_trace(&site, &handle);
    single_resources(&site, &handle);

    // Somebody else's and nobody's look alike.
    let other = site.failed("requester-bob", &["list", &handle]);
    assert_eq!((other.0, &other), (1, &site.failed("requester-bob", &["list", "nonsense"])));
    assert_eq!(site.failed("requester-bob", &["cancel", &handle]), other);

    // The stream goes on over a broker that went away.
    site.stop_broker();
    let (code, text) = site.failed("requester-alice", &["list"]);
    assert!(code == 3 && text.contains("no broker listens on https://10.0.0.1:8443"), "{code} {text}");
    site.start_broker();
    assert!(site.said(&["cancel", &handle]).contains("cancelled"));
    watch.wait_for(&["cancelled", &handle]);
    assert_eq!(site.footprint(), Vec::<String>::new());
}

#[test]
fn which_broker_is_meant_and_who_asks() {
    let Some(site) = Site::up() else { return };
    // The command line goes before the environment, and an agent's own address before a broker.
    let socket = site.far.bed.home("maui").join("agent.sock");
    let here = site.said(&["calendar", "--socket", socket.to_str().unwrap()]);
    assert!(here.contains("net/to-glenwood") && !here.contains("maui/net"), "{here}");
    let own = site.far.bed.place.join("broker.sock");
    let mut command = site.command("requester-alice", &["calendar", "--broker"]);
    let output = command.arg(&own).env("SLUICE_BROKER", "https://10.0.9.9:1").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("maui/net/to-glenwood"), "{}", errors(&output));
    for (arguments, code, words) in [
        (&["list", "--broker", "ftp://x"][..], 2, "is no broker"),
        (&["list", "--broker", "https://10.0.0.2:4711"], 3, "no agreement"), // an agent's door
        (&["list", "--broker", "tls://10.0.0.2:4711"], 2, "agent's address"),
        (&["list", "--broker", "/nowhere", "--socket", "/there"], 2, "cannot be used with"),
        (
            &[
                "reserve",
                "--socket",
                socket.to_str().unwrap(),
                "--from",
                "10.0.0.1",
                "--to",
                "10.0.2.2",
                "--forward",
                "1mbit",
                "--for",
                "1h",
            ],
            2,
            "asked of a broker",
        ),
        (&["reserve", "--from", "10.0.0.1", "--to", "10.7.7.7", "--forward", "1mbit", "--for", "1h"], 2, "no way"),
        (&["reserve", "--to", "10.0.2.2", "--forward", "1mbit", "--for", "1h"], 2, "--from ADDRESS"),
        (
            &[
                "reserve",
                "--from",
                "10.0.0.1",
                "--source",
                "10.0.0.3",
                "--to",
                "10.0.2.2",
                "--forward",
                "1mbit",
                "--for",
                "1h",
            ],
            2,
            "one already",
        ),
        (&["reserve", "maui/net/to-glenwood=1mbit", "--for", "1h", "--group", "x"], 2, "--group"),
        (&["reserve", "maui/net/nothing=1mbit", "--for", "1h"], 1, "no resource"),
        (&["reserve", "nowhere/net/x=1mbit", "--for", "1h"], 2, "AGENT/RESOURCE"),
        (&["reserve", "maui/net/to-glenwood=1mbit", "-w", "2020-01-01 00:00..2020-01-02 00:00"], 2, "over already"),
        (&["watch", "--after", "x"], 2, "AGENT:NUMBER"),
        (&["list", "../webhooks"], 1, "no such thing"),
    ] {
        let (said, text) = site.failed("requester-alice", arguments);
        assert!(said == code && text.contains(words), "{arguments:?}: {said}, not {code}: {text}");
    }
    strangers(&site);
}

/// An agent's certificate asks nothing; without a certificate, or with one of another authority, nobody is answered.
fn strangers(site: &Site) {
    let (code, text) = site.failed("agent-maui", &["list"]);
    assert!(code == 1 && text.contains("you are maui (no groups), agent by certificate"), "{code} {text}");
    let output = site.command("requester-alice", &["list"]).env_remove("SLUICE_CERTIFICATE").output().unwrap();
    assert!(output.status.code() == Some(2) && errors(&output).contains("SLUICE_CERTIFICATE"), "{}", errors(&output));
    let authority = Command::new(SLUICE)
        .arg("ca")
        .arg("--dir")
        .arg(site.far.bed.place.join("other"))
        .args(["--requester", "alice"])
        .output();
    assert!(authority.unwrap().status.success());
    let other = super::papers(&site.far.bed.place.join("other"), "requester-alice");
    let mut stranger = site.command("requester-alice", &["list"]);
    stranger.env("SLUICE_CERTIFICATE", other.certificate.unwrap()).env("SLUICE_KEY", other.key.unwrap());
    let output = stranger.output().unwrap();
    assert!(output.status.code() == Some(3) && output.stdout.is_empty(), "{}", errors(&output));
}
