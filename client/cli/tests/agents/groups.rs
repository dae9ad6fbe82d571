//! Booked parts of an interface for control groups: whose packets have the premium class, on a real agent and real
//! packets. What is forked in a group belongs to it, what leaves it does not; a killed agent changes nothing; a group that
//! is made again is bound again; and whose group may be bound.

use crate::bed::wait_for;
use crate::lone::{Lone, booked};
use documents::agent::{Answer, Request};
use documents::book::{AskDoc, BindingDoc, PartDoc, ReservationDoc, WhenDoc};
use documents::links::CallerDoc;
use linux::cgroup;
use rpc::client::Error;
use std::path::PathBuf;

/// A control group of version 2 that goes with the test, and what is below it.
struct Group(PathBuf);

impl Group {
    /// `None`: this machine has no such groups, or nobody may make any.
    fn new(name: &str) -> Option<Group> {
        let Some(root) = cgroup::for_packets(&cgroup::all_mounted()) else {
            bench::skipped("no hierarchy of version 2 is mounted");
            return None;
        };
        let group = Group(root.at.join(format!("sluice-test-{name}-{}", std::process::id())));
        group.make();
        Some(group)
    }

    fn make(&self) {
        std::fs::create_dir_all(self.0.join("inner")).unwrap();
    }

    /// Removes it, as soon as nothing is in it.
    fn remove(&self) {
        wait_for("the group is empty", || {
            let _ = std::fs::remove_dir(self.0.join("inner"));
            std::fs::remove_dir(&self.0).ok()
        });
    }

    fn path(&self) -> String {
        self.0.to_str().unwrap().to_owned()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(self.0.join("inner"));
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// An agent whose link is up, with addresses of both families and neighbours that need not answer.
fn lone(more: &str) -> Option<Lone> {
    let mut lone = Lone::new(more)?;
    lone.link_up();
    for words in [
        &["address", "add", "10.0.0.1/24", "dev", "near"][..],
        &["-6", "address", "add", "fd00::1/64", "dev", "near", "nodad"],
        &["neigh", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "near", "nud", "permanent"],
        &["neigh", "add", "fd00::2", "lladdr", "02:00:00:00:00:02", "dev", "near", "nud", "permanent"],
    ] {
        assert!(lone.command("ip", words).status().unwrap().success(), "{words:?}");
    }
    lone.start();
    Some(lone)
}

/// Ten packets of each family by a shell that does this first (`$1` is the group).
fn send(lone: &Lone, first: &str, group: &Group) {
    let line = format!(
        "{first}; for n in 1 2 3 4 5 6 7 8 9 10; do for to in 10.0.0.2 fd00::2; do (echo x > /dev/udp/$to/9); done; done"
    );
    let done = lone.command("bash", &["-c", &line, "bash", &group.path()]).status().unwrap();
    assert!(done.success(), "{first}");
}

const INSIDE: &str = "echo $$ > $1/cgroup.procs";
const BELOW: &str = "echo $$ > $1/inner/cgroup.procs";
const MOVED_AWAY: &str = "echo $$ > $1/cgroup.procs; echo $$ > $1/../cgroup.procs";

/// Packets in the premium class of the link.
fn premium(lone: &Lone) -> u64 {
    settled(|| premium_of_agent(lone))
}

/// What a counter says when it has stopped: a packet that was sent may not have left its queue.
fn settled(mut count: impl FnMut() -> u64) -> u64 {
    let mut last = count();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(50));
        match count() {
            now if now == last => return now,
            now => last = now,
        }
    }
}

fn premium_of_agent(lone: &Lone) -> u64 {
    let Answer::Status(status) = lone.client().call(Request::Status).unwrap() else { panic!("no status") };
    let row = status.interfaces.into_iter().find(|row| row.name == "near").unwrap();
    row.classes.iter().find(|class| class.class == "5c1c:5").map_or(0, |class| class.packets)
}

/// How many premium packets come of what is sent so.
fn of(lone: &Lone, first: &str, group: &Group) -> u64 {
    let before = premium(lone);
    send(lone, first, group);
    premium(lone) - before
}

fn booking(binding: BindingDoc) -> Request {
    let part =
        PartDoc { resource: "net/near".into(), rate: Some(2_000_000), binding: Some(binding), ..PartDoc::default() };
    Request::BookCreate(AskDoc { parts: vec![part], when: WhenDoc::lasting(600.0), ..AskDoc::default() })
}

fn in_force(lone: &Lone, handle: &str) -> ReservationDoc {
    wait_for("in force", || {
        let show = Request::BookShow { handle: Some(handle.to_owned()), filter: Default::default() };
        let found = booked(&mut lone.client(), show).unwrap();
        (found.parts[0].enforced == "in_force").then_some(found)
    })
}

#[test]
fn what_a_group_sends_has_its_share_and_nothing_else_has() {
    let Some(group) = Group::new("share") else { return };
    let Some(mut lone) = lone("") else { return };
    assert_eq!(of(&lone, INSIDE, &group), 0, "nothing is booked");
    let handle = booked(&mut lone.client(), booking(BindingDoc::Cgroup(group.path()))).unwrap().handle;
    let found = in_force(&lone, &handle);
    assert!(found.parts[0].means.as_ref().unwrap().contains("control group"), "{:?}", found.parts[0].means);
    // Each packet is another process's: a child of the shell.
    assert_eq!(of(&lone, INSIDE, &group), 20, "the group's own and its children's, of both families");
    assert_eq!(of(&lone, BELOW, &group), 20, "a group inside it");
    assert_eq!(of(&lone, MOVED_AWAY, &group), 0, "what has left it");
    assert_eq!(of(&lone, ":", &group), 0, "others");
    // While no agent runs, and after the next has come.
    lone.kill();
    let (first, second) = (premium_of_tc(&lone), {
        send(&lone, INSIDE, &group);
        premium_of_tc(&lone)
    });
    assert_eq!(second - first, 20, "while no agent runs");
    lone.start();
    in_force(&lone, &handle);
    assert_eq!(of(&lone, INSIDE, &group), 20, "adopted");
    // A group that is made again has another number.
    group.remove();
    wait_for("the agent says that it is gone", || lone.log().contains("group_gone").then_some(()));
    group.make();
    wait_for("and that it is there again", || lone.log().contains("group_again").then_some(()));
    assert_eq!(of(&lone, INSIDE, &group), 20, "bound again");
    lone.printed(&["cancel", &handle]);
    wait_for("given back", || (of(&lone, INSIDE, &group) == 0).then_some(()));
    lone.stop();
}

/// Packets in the premium class, by the kernel's own count.
fn premium_of_tc(lone: &Lone) -> u64 {
    settled(|| read_by_tc(lone))
}

fn read_by_tc(lone: &Lone) -> u64 {
    let said = lone.tc(&["-s", "class", "show", "dev", "near"]);
    let mut lines = said.lines().skip_while(|line| !line.contains("htb 5c1c:5 "));
    let counted = lines.nth(1).unwrap_or_else(|| panic!("no premium class: {said}"));
    counted.split_whitespace().nth(3).unwrap().parse().unwrap()
}

#[test]
fn whose_group_may_be_bound_is_a_matter_of_policy() {
    let Some(group) = Group::new("rights") else { return };
    let name = group.0.file_name().unwrap().to_str().unwrap().to_owned();
    let Some(mut lone) = Lone::new("policy = \"policy.toml\"") else { return };
    let rule = |name: &str, who: &str, groups: &str| {
        format!("[[rule]]\nname = \"{name}\"\nwho = [\"{who}\"]\nresource = [\"net/*\"]\n{groups}\n")
    };
    let text =
        rule("may", "uid:65533", &format!("cgroups = [\"{name}/*\", \"{name}\"]")) + &rule("not", "uid:65532", "");
    std::fs::write(lone.place.join("policy.toml"), text).unwrap();
    lone.link_up();
    lone.start();
    let ask = |who: &str, path: String| {
        let mut client = lone.client();
        let who = CallerDoc { name: who.to_owned(), groups: Vec::new(), role: "owner".to_owned(), token: None };
        client.call(Request::SpeakFor { who: Some(who) }).unwrap();
        match booked(&mut client, booking(BindingDoc::Cgroup(path))) {
            Ok(found) => {
                booked(&mut client, Request::BookCancel { handle: found.handle }).map(|_| ()).map_err(|e| e.to_string())
            }
            Err(Error::Agent(problem)) => Err(problem.message),
            Err(other) => panic!("{other}"),
        }
    };
    ask("uid:65533", group.path()).expect("the rule names it");
    ask("uid:65533", group.path() + "/inner").expect("and what is below it");
    let refused = ask("uid:65532", group.path()).unwrap_err();
    assert!(refused.contains("no control group that the rule names holds it"), "{refused}");
    for (path, why) in
        [("/".to_owned(), "process 1"), (group.path() + "/none", "it is not there"), ("a/../b".into(), "no path")]
    {
        let refused = ask("uid:65533", path.clone()).unwrap_err();
        assert!(refused.contains(why) || refused.contains("threads of the kernel"), "{path}: {refused}");
    }
    lone.stop();
}
