//! Tokens of virtual organisations and the layers of policy, from the command line to every agent on the way.

use crate::agents::crossing::{Crossing, DOMAINS, ENDS, WAY};
use crate::bed::{Bed, SLUICE, wait_for};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs `sluice token ...` in a folder.
fn token(dir: &Path, words: &[&str]) -> Output {
    Command::new(SLUICE).arg("token").args(words).current_dir(dir).output().unwrap()
}

fn made(dir: &Path, words: &[&str]) -> String {
    let output = token(dir, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn nodes(domain: &str) -> &'static [&'static str] {
    WAY.iter().find(|(name, _)| *name == domain).unwrap().1
}

/// A rule for members of an organisation, and for nobody else.
const MEMBERS: &str = "[[rule]]\nname = \"atlas\"\nvo = [\"atlas/physics\"]\nresource = [\"net/*\"]\n";

/// Three domains that believe an organisation.
struct Collaboration {
    bed: Crossing,
    dir: PathBuf,
}

impl Collaboration {
    /// Up; `rules` of a domain stand in place of the one that lets in whom neighbours vouch for.
    fn up(rules: &[(&str, &str)]) -> Option<Collaboration> {
        let bed = Crossing::up()?;
        let dir = bed.0.place.join("atlas");
        std::fs::create_dir_all(&dir).unwrap();
        let key = made(&dir, &["key", "atlas.key"]);
        let public = std::fs::read_to_string(dir.join("atlas.key.pub")).unwrap();
        assert!(key.starts_with("ed25519/") && public.trim() == key);
        std::fs::write(dir.join("revoked"), "# nothing yet\n").unwrap();
        let all = Collaboration { bed, dir };
        for domain in DOMAINS {
            let own = rules.iter().find(|(name, _)| *name == domain);
            all.believe(domain, &key, own.map(|(_, rules)| *rules));
        }
        Some(all)
    }

    /// Has the agents of a domain believe the organisation.
    fn believe(&self, domain: &str, key: &str, rules: Option<&str>) {
        let through = if domain == "lbnl" { "through = [\"esnet\"]\n" } else { "" };
        let revoked = self.dir.join("revoked");
        let vo =
            format!("\n[[vo]]\nname = \"atlas\"\nkey = {key:?}\ndomain = {domain:?}\n{through}revoked = {revoked:?}\n");
        for node in nodes(domain) {
            let file = self.home(node).join("policy.toml");
            let text = std::fs::read_to_string(&file).unwrap();
            let text = match (rules, text.split_once("\n[[rule]]\nname = \"neighbours\"")) {
                (Some(rules), Some((before, _))) => format!("{before}\n{rules}"),
                _ => text,
            };
            std::fs::write(&file, text + &vo).unwrap();
        }
        self.reload(domain);
    }

    fn home(&self, node: &str) -> PathBuf {
        self.bed.0.place.join(&self.bed.0.name).join(node)
    }

    /// Has the agents of a domain read their policies again.
    fn reload(&self, domain: &str) {
        for node in nodes(domain) {
            let log = self.home(node).join("agent.log");
            let read = || std::fs::read_to_string(&log).unwrap().matches("policy.toml read again").count();
            let before = read();
            self.bed.agent(node, 1); // SIGHUP
            wait_for("the policy is read again", || (read() > before).then_some(()));
        }
    }

    /// The last decision of an agent about somebody.
    fn audited(&self, node: &str, who: &str) -> Value {
        let socket = self.home(node).join("agent.sock");
        let mut command = Command::new(SLUICE);
        command.args(["audit", "--json", "--last", "1", "--who", who, "--socket"]).arg(socket);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{node} {who}: {output:?}"))
    }

    fn create(&self, out: &str, holder: &str, more: &[&str]) {
        let words = ["create", "--key", "atlas.key", "--vo", "atlas", "--holder", holder, "--out", out];
        made(&self.dir, &[&words[..], more].concat());
    }

    fn reserve(&self, token: &str, rate: &str) -> Result<Value, String> {
        let file = self.dir.join(token);
        self.bed.reserve(&["--forward", rate, "--token", file.to_str().unwrap()])
    }
}

#[test]
fn an_organisation_gives_its_people_what_each_domain_gave_to_it() {
    let Some(all) = Collaboration::up(&[("esnet", MEMBERS), ("lbnl", MEMBERS)]) else { return };
    let refusal = all.bed.reserve(&["--forward", "6mbit"]).unwrap_err();
    assert!(refusal.contains("the policy of esnet does not allow it"), "domains are discreet: {refusal}");
    all.create("alice.token", "anl/alice", &["--group", "physics", "--at-most", "10mbit"]);
    let whole = all.reserve("alice.token", "6mbit").unwrap();
    let id = whole["id"].as_str().unwrap();
    // The audit of every agent on the way, also of the domain that knows her by another's word, has all layers.
    for (domain, node, name) in
        [("anl", "alpha", "alice"), ("esnet", "esnet-west", "anl/alice"), ("lbnl", "lbnl-edge", "esnet/anl/alice")]
    {
        let row = all.audited(node, name);
        let rules = row["rules"].to_string();
        let own = if domain == "anl" { "own-people" } else { "atlas" };
        assert!(rules.contains("token atlas:") && rules.contains(&format!("; {own}\"")), "{domain}: {row}");
    }
    // A change needs it as well.
    let file = all.dir.join("alice.token");
    let modify = |words: &[&str]| all.bed.alice(&[&["modify", id], words].concat());
    assert!(!modify(&["--forward", "7mbit"]).status.success());
    let more = modify(&["--forward", "7mbit", "--token", file.to_str().unwrap()]);
    assert!(more.status.success(), "{}", String::from_utf8_lossy(&more.stderr));
    let much = modify(&["--forward", "11mbit", "--token", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&much.stderr).into_owned();
    assert!(!much.status.success() && text.contains("does not allow it"), "{text}");
    // Giving back needs none.
    assert!(all.bed.alice(&["cancel", id]).status.success());
    all.bed.nothing_left("it is given back");

    narrowed_borrowed_and_revoked(&all);
}

fn narrowed_borrowed_and_revoked(all: &Collaboration) {
    made(&all.dir, &["attenuate", "alice.token", "--at-most", "2mbit", "--until", "tomorrow", "--out", "job.token"]);
    let refusal = all.reserve("job.token", "3mbit").unwrap_err();
    assert!(refusal.contains("the token does not allow it") && refusal.contains("$a <= 2000000"), "{refusal}");
    all.create("carol.token", "anl/carol", &["--group", "physics"]);
    let refusal = all.reserve("carol.token", "2mbit").unwrap_err();
    assert!(refusal.contains("anl/carol's, and you are anl/alice"), "{refusal}");
    all.create("bio.token", "anl/alice", &["--group", "bio"]);
    let refusal = all.reserve("bio.token", "2mbit").unwrap_err();
    assert!(refusal.contains("the policy of esnet does not allow it"), "of another group: {refusal}");
    let id = all.reserve("job.token", "2mbit").unwrap()["id"].as_str().unwrap().to_owned();
    // One number revokes what was made of the block, in the domain that read the list, and so on the whole way.
    let blocks: Value =
        serde_json::from_str(&made(&all.dir, &["show", "job.token", "--json", "--key", "atlas.key.pub"])).unwrap();
    assert_eq!(blocks["verified"], true);
    let number = blocks["blocks"][1]["revocation"].as_str().unwrap();
    std::fs::write(all.dir.join("revoked"), format!("{number} # lost\n")).unwrap();
    all.reload("lbnl");
    let refusal = all.reserve("job.token", "2mbit").unwrap_err();
    assert!(refusal.contains("lbnl"), "{refusal}");
    let whole = all.reserve("alice.token", "2mbit").unwrap();
    for id in [&id, whole["id"].as_str().unwrap()] {
        assert!(all.bed.alice(&["cancel", id]).status.success(), "what was granted stays, and can be given back");
    }
    all.bed.nothing_left("both are given back");
}

/// The two policies of a transit domain in GARA's section 6, active at once: immediate reservations of whoever has an
/// agreement, up to a rate; and immediate and advance ones with the label HEP that the community approves.
const SECTION_6: &str = "[[rule]]\nname = \"hep\"\nvo = [\"atlas/physics\"]\nresource = [\"net/*\"]\nlabel = [\"HEP\"]\nin_group = \"20mbit\"\nahead = \"60d\"\n\n[[rule]]\nname = \"sla\"\nwho = [\"anl/*\"]\nresource = [\"net/*\"]\nmost = \"3mbit\"\nin_all = \"10mbit\"\nahead = \"0s\"\n";

#[test]
fn the_two_policies_of_a_transit_domain_are_active_at_once() {
    let Some(all) = Collaboration::up(&[("esnet", SECTION_6)]) else { return };
    all.create("hep.token", "anl/alice", &["--group", "physics"]);
    let token = all.dir.join("hep.token");
    let token = token.to_str().unwrap();
    let (now, later) = (&["--for", "1h"][..], &["-w", "tomorrow 09:00..10:00"][..]);
    let (plain, shown, hep) = (&[][..], &["--token", token][..], &["--token", token, "--label", "HEP"][..]);
    for (rate, when, more, granted) in [
        ("3mbit", now, plain, true),
        ("4mbit", now, plain, false),   // beyond the most of a request
        ("3mbit", later, plain, false), // in advance
        ("4mbit", now, shown, false),   // not what the community approves: no label
        ("3mbit", now, shown, true),    // by the agreement, as everybody
        ("8mbit", later, hep, true),
        ("15mbit", later, hep, false), // beyond the group's sum
        ("8mbit", now, hep, true),
        ("3mbit", later, &["--label", "HEP"], false), // the label alone is nobody's word
    ] {
        let words = [&["reserve"], &ENDS[..], &["--forward", rate], when, more, &["--json"]].concat();
        let made = all.bed.alice(&words);
        let text = String::from_utf8_lossy(&made.stdout).into_owned();
        assert_eq!(made.status.success(), granted, "{rate} {when:?} {more:?}: {text}");
        if let (true, false) = (granted, rate == "8mbit" && when == later) {
            let made: Value = serde_json::from_str(&text).unwrap();
            assert!(all.bed.alice(&["cancel", made["id"].as_str().unwrap()]).status.success());
        }
    }
}

/// One machine with an agent that has its own rules and those of a domain.
struct OneMachine {
    bed: Bed,
    home: PathBuf,
    dir: PathBuf,
}

/// The resources of the rules.
const NET: &str = "resource = [\"net/*\"]\n";

impl OneMachine {
    fn up() -> Option<OneMachine> {
        let bed = Bed::up("30s")?;
        let (home, dir) = (bed.home("maui"), bed.place.join("vo"));
        std::fs::create_dir_all(&dir).unwrap();
        let key = made(&dir, &["key", "lab.key"]);
        made(&dir, &["key", "head.key"]);
        assert_eq!(token(&dir, &["key", "head.key"]).status.code(), Some(2), "a key is not overwritten");
        let file = home.join("agent.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("policy = \"policy.toml\"\ndomain_policy = \"domain.toml\"\n{text}")).unwrap();
        let vo = format!("[[vo]]\nname = \"lab\"\nkey = {key:?}\n");
        let rule = format!("[[rule]]\nname = \"lab\"\nvo = [\"lab\"]\n{NET}most = \"4mbit\"\n");
        std::fs::write(home.join("policy.toml"), rule + &vo).unwrap();
        let one = OneMachine { bed, home, dir };
        one.domain("most = \"3mbit\"");
        one.bed.kill("maui");
        one.bed.start("maui");
        Some(one)
    }

    /// Writes the domain's file, with this limit.
    fn domain(&self, limit: &str) {
        let rule = format!("[[rule]]\nname = \"campus\"\nwho = [\"*\"]\n{NET}{limit}\n");
        std::fs::write(self.home.join("domain.toml"), rule).unwrap();
    }

    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(SLUICE);
        command.args(words).arg("--socket").arg(self.home.join("agent.sock")).current_dir(&self.dir);
        command.output().unwrap()
    }

    fn reserve(&self, rate: &str, token: Option<&str>) -> Result<Value, String> {
        let part = format!("net/to-glenwood={rate}");
        let mut words = vec!["reserve", &part, "--for", "10m", "--json"];
        words.extend(token.iter().flat_map(|file| ["--token", file]));
        let output = self.ask(&words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(serde_json::from_str(text.trim()).unwrap()) } else { Err(text) }
    }

    fn create(&self, out: &str, more: &[&str]) {
        let words = ["create", "--key", "lab.key", "--vo", "lab", "--holder", "uid:0", "-o", out];
        made(&self.dir, &[&words[..], more].concat());
    }
}

/// Each layer has its own limit: the approval's 2, the domain's 3, the rule's 4.
#[test]
fn token_domain_and_resource_must_all_allow() {
    let Some(one) = OneMachine::up() else { return };
    assert!(one.reserve("1mbit", None).unwrap_err().contains("holders of a token of lab"));
    one.create("t", &["--approver", "head.key.pub"]);
    assert!(one.reserve("1mbit", Some("t")).unwrap_err().contains("approved(true)"));
    made(&one.dir, &["request", "t", "-o", "r"]);
    made(&one.dir, &["approve", "r", "--key", "head.key", "--at-most", "2mbit", "-o", "a"]);
    made(&one.dir, &["add", "t", "a", "-o", "good"]);
    assert_eq!(one.reserve("2mbit", Some("good")).unwrap()["state"], "active");
    assert!(one.reserve("2500kbit", Some("good")).unwrap_err().contains("$a <= 2000000"));
    one.create("free", &[]);
    one.reserve("3mbit", Some("free")).unwrap();
    let refusal = one.reserve("3500kbit", Some("free")).unwrap_err();
    assert!(refusal.contains("domain campus") && refusal.contains("3mbit at once are allowed"), "{refusal}");
    // `may` names the layers, and what is no token is said.
    let may = one.ask(&["may", "me", "net/to-glenwood=1mbit", "--json", "--token", "free"]);
    let may: Value = serde_json::from_slice(&may.stdout).unwrap();
    let part = &may["parts"][0];
    assert_eq!((&part["rule"], part["above"].as_array().unwrap().len()), (&"lab".into(), 2), "{may}");
    std::fs::write(one.dir.join("junk"), "x".repeat(20_000)).unwrap();
    for (file, why) in [("junk", "at most 8192 bytes"), ("lab.key", "this is no token"), ("none", "none")] {
        assert!(one.reserve("1mbit", Some(file)).unwrap_err().contains(why), "{file}");
    }
    // The domain's file changes, and is read again with the other; a mistake leaves both as they were.
    one.domain("in_all = \"3mbit\"");
    one.bed.agent("maui").signal(1).unwrap();
    wait_for("the mistake is said", || one.bed.log("maui").contains("says `in_all`").then_some(()));
    assert!(one.reserve("3500kbit", Some("free")).unwrap_err().contains("domain campus"));
    one.domain("most = \"1mbit\"");
    one.bed.agent("maui").signal(1).unwrap();
    wait_for("the new limit holds", || {
        one.reserve("1500kbit", Some("free")).unwrap_err().contains("1mbit at once").then_some(())
    });
}
