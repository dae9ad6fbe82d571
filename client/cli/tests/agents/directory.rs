//! `sluice directory`: what real agents and a broker have, in a real OpenLDAP, as `ldapsearch` finds it and as it is read back.

use crate::agents::broker::broker_over;
use crate::agents::domains::Domains;
use crate::bed::{Bed, SLUICE, wait_for};
use crate::remote::Running;
use bench::slapd::{ADMIN, PASSWORD, SlapdServer};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BASE: &str = "ou=sluice,dc=example,dc=org";

fn slapd(name: &str) -> Option<SlapdServer> {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/ldap/sluice.schema").canonicalize().unwrap();
    SlapdServer::start(name, &schema, "", "").map_err(bench::skipped).ok()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// `sluice directory` with these words.
fn directory(slapd: &SlapdServer, words: &[&str]) -> Command {
    let mut command = Command::new(SLUICE);
    let (what, words) = match words {
        ["show", rest @ ..] => (vec!["directory", "show"], rest),
        all => (vec!["directory"], all),
    };
    command.args(what).args(["--server", &slapd.address(), "--base", BASE]).args(words);
    command
}

fn run(slapd: &SlapdServer, words: &[&str]) -> Output {
    directory(slapd, words).output().unwrap()
}

/// What a directory says, as JSON.
fn shown(slapd: &SlapdServer, words: &[&str]) -> serde_json::Value {
    let said = run(slapd, &[&["show", "--json"], words].concat());
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{}", text(&said)))
}

fn row<'a>(doc: &'a serde_json::Value, agent: &str, resource: &str) -> &'a serde_json::Value {
    let rows = doc["entries"].as_array().unwrap();
    let is = |row: &&serde_json::Value| row["agent"] == agent && row["resource"] == resource;
    rows.iter().find(is).unwrap_or_else(|| panic!("{agent}/{resource}: {doc}"))
}

#[test]
fn what_agents_have_is_found_in_the_directory_for_as_long_as_it_is_true() {
    let Some(bed) = Bed::up("30s") else { return };
    let Some(slapd) = slapd("cli") else { return };
    let (_broker, socket) = broker_over(&bed);
    let at = format!("unix:{}", socket.display());
    let all = ["--broker", &at, "--publisher", "site"];
    // Before anything is there, and without a server.
    let check = run(&slapd, &[&all[..], &["--check"]].concat());
    let said = text(&check);
    assert!(check.status.success() && said.contains("it would be made") && said.contains("0 renewed"), "{said}");
    let printed = run(&slapd, &[&all[..], &["--ldif"]].concat());
    assert!(text(&printed).contains("dn: sluiceAgentName=maui,ou=sluice,dc=example,dc=org"), "{}", text(&printed));
    assert!(slapd.search(BASE, "sub", "(objectClass=*)", &["dn"]).is_err(), "nothing was written");

    // An hour from now something is booked: that is the next change.
    let hour = ["reserve", "maui/net/to-glenwood=2mbit", "-w", "+1h..+2h", "--broker", &at];
    let made = Command::new(SLUICE).args(hour).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let once = run(&slapd, &all);
    assert!(once.status.success() && text(&once).contains("0 renewed, 0 removed"), "{}", text(&once));
    let found = slapd.search(BASE, "sub", "(&(objectClass=sluiceResource)(sluiceAgentName=maui))", &[]).unwrap();
    for line in
        ["sluiceResourceName: net/to-glenwood", "sluiceUnit: bit/s", "sluicePublisher: site", "sluiceNextFree: "]
    {
        assert!(found.contains(line), "{line}: {found}");
    }
    let doc = shown(&slapd, &[]);
    let net = row(&doc, "maui", "net/to-glenwood");
    let number = |name: &str| net[name].as_u64().unwrap();
    assert!(number("free") <= number("capacity") && number("next_free") < number("free"), "{net}");
    let gone = number("free") - number("next_free");
    assert!((2_000_000..2_300_000).contains(&gone), "2 Mbit/s of IP are booked: {net}");
    assert!(text(&run(&slapd, &["show"])).contains("maui/net/to-glenwood"));
}

#[test]
fn agents_broker_and_directory_go_and_come_and_the_directory_follows() {
    let Some(bed) = Bed::up("30s") else { return };
    let Some(mut slapd) = slapd("comes") else { return };
    let (broker, socket) = broker_over(&bed);
    let at = format!("unix:{}", socket.display());
    let all = ["--broker", &at, "--publisher", "site"];
    assert!(run(&slapd, &all).status.success());
    let log = bed.place.join("directory.log");
    let mut every = directory(&slapd, &[&all[..], &["--every", "1s", "--valid", "6s", "--patience", "2s"]].concat());
    let running = Running::start(&mut every, &log);
    let until = |doc: &serde_json::Value| {
        let rows = doc["entries"].as_array().unwrap();
        let ours = rows.iter().find(|row| row["agent"] == "maui" && row["resource"] == "net/to-glenwood");
        ours.map(|row| row["valid_until"].as_str().unwrap().to_owned())
    };
    let renewed = |slapd: &SlapdServer| {
        let before = until(&shown(slapd, &[]));
        wait_for("it is renewed", || until(&shown(slapd, &[])).filter(|now| Some(now) != before.as_ref()));
    };
    renewed(&slapd);
    bed.kill("maui");
    let state = |slapd: &SlapdServer, state: &str| {
        let filter = format!("(&(objectClass=sluiceAgent)(sluiceAgentName=maui)(sluiceState={state}))");
        wait_for(state, || slapd.search(BASE, "sub", &filter, &["dn"]).ok().filter(|text| text.contains("dn: ")));
    };
    state(&slapd, "away");
    // Its resources stay until they are too old, and go then; those of others do not.
    let resources = "(&(objectClass=sluiceResource)(sluiceAgentName=maui))";
    wait_for("what maui had goes", || {
        slapd.search(BASE, "sub", resources, &["dn"]).ok().filter(|text| text.trim().is_empty())
    });
    assert!(shown(&slapd, &[])["entries"].as_array().unwrap().iter().any(|row| row["agent"] == "yosemite"));
    bed.start("maui");
    state(&slapd, "up");
    renewed(&slapd);
    slapd.stop();
    let slow = run(&slapd, &[&all[..], &["--patience", "500ms"]].concat());
    assert_eq!(slow.status.code(), Some(3), "{}", text(&slow));
    assert!(text(&slow).contains("did not answer within 0.5 s"), "{}", text(&slow));
    slapd.go_on();
    slapd.kill();
    assert_eq!(run(&slapd, &["show"]).status.code(), Some(3));
    wait_for("it says so", || std::fs::read_to_string(&log).ok()?.contains("no directory at").then_some(()));
    slapd.resume().unwrap();
    renewed(&slapd);
    // Nobody says what there is: what is too old is not believed, and then not there.
    broker.kill();
    wait_for("nothing is believed", || {
        shown(&slapd, &[])["entries"].as_array().filter(|rows| rows.is_empty()).map(|_| ())
    });
    wait_for("nothing is there", || {
        slapd.search(BASE, "sub", "(sluicePublisher=site)", &["dn"]).ok().filter(|text| text.trim().is_empty())
    });
    drop(running);
}

#[test]
fn one_agent_without_a_broker_and_a_password_that_nobody_else_reads() {
    let Some(bed) = Bed::up("30s") else { return };
    let Some(slapd) = slapd("agent") else { return };
    let socket = bed.home("maui").join("agent.sock");
    let file: PathBuf = bed.place.join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    let words = ["--socket", socket.to_str().unwrap(), "--bind-dn", ADMIN, "--password-file", file.to_str().unwrap()];
    mode(0o644);
    let open = run(&slapd, &words);
    assert_eq!(open.status.code(), Some(2));
    assert!(text(&open).contains("others may read"), "{}", text(&open));
    mode(0o600);
    let done = run(&slapd, &words);
    assert!(done.status.success(), "{}", text(&done));
    assert!(row(&shown(&slapd, &[]), "maui", "net/to-yosemite")["unit"] == "bit/s");
    std::fs::write(&file, "wrong\n").unwrap();
    let wrong = run(&slapd, &words);
    assert!(wrong.status.code() == Some(1) && text(&wrong).contains("name or password is wrong"), "{}", text(&wrong));
    // LDIF is what ldapadd takes.
    let printed = run(&slapd, &["--socket", socket.to_str().unwrap(), "--ldif"]);
    std::fs::write(bed.place.join("all.ldif"), &printed.stdout).unwrap();
    slapd.administer("ldapdelete", &["-r", &format!("sluiceAgentName=maui,{BASE}")]).unwrap();
    slapd.administer("ldapadd", &["-f", bed.place.join("all.ldif").to_str().unwrap()]).unwrap();
    row(&shown(&slapd, &[]), "maui", "net/to-yosemite");
    for (words, why) in [
        (&["--every", "1s", "--valid", "1s"][..], "longer than the interval"),
        (&["--every", "1ms"], "from 1s to 24h"),
        (&["--bind-dn", "cn=x"], "--password-file"),
        (&["--server-ca", "/none", "--ldif", "--check"], "cannot be used with"),
    ] {
        let said = run(&slapd, words);
        assert!(said.status.code() == Some(2) && text(&said).contains(why), "{words:?}: {}", text(&said));
    }
    let afar = Command::new(SLUICE)
        .args(["directory", "show", "--server", "ldap://ldap.example.org", "--base", BASE])
        .output()
        .unwrap();
    assert!(afar.status.code() == Some(2) && text(&afar).contains("with TLS only"), "{}", text(&afar));
}

#[test]
fn an_auditor_publishes_the_ways_between_the_borders_of_a_domain() {
    let Some(domains) = Domains::up() else { return };
    let Some(slapd) = slapd("ways") else { return };
    let base = ["directory", "--server", &slapd.address(), "--base", BASE];
    wait_for("its borders are there", || {
        let done = domains.ask("esnet-west", "esnet", "requester-erin", &base);
        let found = slapd.search(BASE, "sub", "(&(objectClass=sluiceWay)(sluiceFree>=1))", &[]).unwrap_or_default();
        let ways = found.contains("sluiceFromNeighbour: anl") && found.contains("sluiceToNeighbour: lbnl");
        (done.status.success() && ways).then_some(())
    });
    let doc = shown(&slapd, &[]);
    let rows = doc["entries"].as_array().unwrap();
    let domain = rows.iter().find(|row| row["kind"] == "domain").unwrap();
    assert_eq!(domain["domain"], "esnet");
    let way = rows.iter().find(|row| row["from_neighbour"] == "anl" && row["to_neighbour"] == "lbnl").unwrap();
    assert!(way["from_link"] == "10.0.3.0/30" && way["free"].as_u64() <= way["capacity"].as_u64(), "{way}");
    let contact = rows.iter().find(|row| row["kind"] == "agent").unwrap()["contact"].as_array().unwrap().clone();
    assert_eq!(contact, ["https://10.0.3.2:8443"], "{contact:?}");
    assert!(rows.iter().all(|row| row["domain"] != "anl"), "others publish themselves: {doc}");
}
