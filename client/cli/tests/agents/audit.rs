//! The audit of decisions: every one with the rule that made it, for those who may read it and for nobody else.

use crate::bed::{SLUICE, refused};
use crate::lone::{LICENCE, Lone, booked, licences};
use documents::agent::{Answer, AuditAsk, AuditPage, Request};
use documents::links::CallerDoc;
use rpc::client::Client;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const POLICY: &str = r#"
auditors = ["revisor"]
[[rule]]
name = "house"
who = ["uid:0"]
[[rule]]
name = "physics"
who = ["alice"]
resource = ["licence/*"]
most = "2"
"#;

fn speaks_for(lone: &Lone, name: &str, role: &str) -> Client {
    let mut client = lone.client();
    let who = CallerDoc { name: name.to_owned(), groups: Vec::new(), role: role.to_owned(), token: None };
    client.call(Request::SpeakFor { who: Some(who) }).unwrap();
    client
}

fn page(client: &mut Client, ask: AuditAsk) -> AuditPage {
    match client.call(Request::BookAudit(ask)).unwrap() {
        Answer::Audit(page) => page,
        other => panic!("{other:?}"),
    }
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_decision_is_there_with_its_rule_for_those_who_may_read_it() {
    let Some(mut lone) = Lone::new("policy = \"policy.toml\"") else { return };
    std::fs::write(lone.place.join("policy.toml"), POLICY).unwrap();
    lone.start();
    assert_eq!(lone.printed(&["audit", "--json"]), "", "nothing was decided yet");
    let (mut root, mut alice) = (lone.client(), speaks_for(&lone, "alice", "owner"));
    let first = booked(&mut root, Request::BookCreate(licences(5))).unwrap();
    refused(alice.call(Request::BookCreate(licences(3))));
    let own = booked(&mut alice, Request::BookCreate(licences(2))).unwrap();
    booked(&mut root, Request::BookCancel { handle: own.handle.clone() }).unwrap();
    refused(speaks_for(&lone, "mallory", "owner").call(Request::BookCreate(licences(1))));

    let all = lines(&lone.printed(&["audit", "--json"]));
    let told: Vec<String> = all
        .iter()
        .map(|row| format!("{} {} {} {} {}", row["number"], row["who"], row["verb"], row["outcome"], row["rules"]))
        .collect();
    let expected = [
        r#"1 "uid:0" "create" "granted" ["house"]"#,
        r#"2 "alice" "create" "policy" ["physics"]"#,
        r#"3 "alice" "create" "granted" ["physics"]"#,
        r#"4 "uid:0" "cancel" "granted" []"#,
        r#"5 "mallory" "create" "policy" [""]"#,
    ];
    assert_eq!(told, expected);
    assert_eq!((&all[0]["handle"], &all[3]["handle"]), (&first.handle.clone().into(), &own.handle.clone().into()));
    assert!(all.iter().all(|row| row["hash"].as_str().is_some_and(|hash| hash.len() == 64)));

    let numbers = |arguments: &[&str]| {
        let rows = lines(&lone.printed(&[&["audit", "--json"], arguments].concat()));
        rows.iter().map(|row| row["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&["--handle", &own.handle]), [3, 4]);
    assert_eq!(numbers(&["--who", "alice"]), [2, 3]);
    assert_eq!(numbers(&["--who", "alice", "--last", "1"]), [3]);
    assert_eq!(numbers(&["--last", "2"]), [4, 5]);
    assert_eq!(numbers(&["--since", all[2]["at"].as_str().unwrap()]), [3, 4, 5]);
    let table = lone.printed(&["audit"]);
    assert!(table.contains("by physics") && table.contains("by no rule"), "{table}");
    // What was asked, also by who was refused; a cancellation asks for nothing.
    let asked = |row: usize| all[row]["asked"]["parts"][0].to_string();
    assert_eq!(asked(1), format!(r#"{{"amount":3.0,"resource":"{LICENCE}","unit":"pieces"}}"#));
    assert!(all[1]["asked"]["start"].is_string() && all[3]["asked"].is_null(), "{}", all[1]);
    assert!(table.contains(&format!("{LICENCE} 3 from ")), "{table}");

    // Default deny; whom the policy names may; and an auditor by role.
    for (name, role, may) in [("alice", "owner", false), ("revisor", "owner", true), ("arno", "auditor", true)] {
        let mut client = speaks_for(&lone, name, role);
        if may {
            assert_eq!(page(&mut client, AuditAsk::default()).last, 5, "{name}");
        } else {
            let problem = refused(client.call(Request::BookAudit(AuditAsk::default())));
            assert_eq!(problem.kind, "refused", "{problem:?}");
        }
    }
    assert_eq!(page(&mut root, AuditAsk { from: Some(u64::MAX), ..AuditAsk::default() }).entries, []);
    let wrong = lone.sluice(&["audit", "--handle", "nonsense"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn it_is_followed_over_pages_and_as_it_grows() {
    let Some(mut lone) = Lone::new("log = \"error\"") else { return };
    lone.start();
    let mut client = lone.client();
    for _ in 0..1_030 {
        booked(&mut client, Request::BookCreate(licences(1))).unwrap();
    }
    // More than one call looks at.
    let all = lines(&lone.printed(&["audit", "--json", "--who", "uid:0"]));
    assert_eq!((all.len(), &all[1_029]["number"]), (1_030, &1_030.into()));
    assert_eq!(lone.printed(&["audit", "--json", "--who", "nobody"]), "");
    let mut follow = Command::new(SLUICE);
    follow.args(["audit", "--follow", "--last", "1", "--json"]).env("SLUICE_SOCKET", lone.socket());
    let mut following = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut news = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || lines(&news.next().unwrap().unwrap())[0]["number"].as_u64().unwrap();
    assert_eq!(next(), 1_030);
    booked(&mut client, Request::BookCreate(licences(1))).unwrap();
    assert_eq!(next(), 1_031);
    following.kill().unwrap();
    following.wait().unwrap();
    // What was written is what the next agent reads.
    drop(client);
    lone.stop();
    lone.start();
    assert_eq!(lines(&lone.printed(&["audit", "--last", "1", "--json"]))[0]["number"], 1_031);
}
