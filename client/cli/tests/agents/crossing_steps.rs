//! A reservation across three real domains, one of whose brokers dies at each step of making it: over all of them or none.

use crate::agents::crossing::{Crossing, DOMAINS, ENDS, WAY};
use crate::agents::domains::said;
use crate::bed::{SLUICE, wait_at_most, wait_for};
use linux::netns::Namespace;
use rpc::client::Client;
use serde_json::Value;
use std::process::{Command, Output};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A step at which somebody dies: agents that do not answer hold it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// ANL and ESnet hold their parts, LBNL is asking its agents for promises.
    Held,
    /// LBNL has promised, ESnet is asking its agents.
    PromisedByLast,
    /// ESnet has promised too, ANL is asking its agents.
    PromisedByAll,
}

impl Step {
    /// The agent that does not answer: one on the way, which is asked for its promise then.
    fn agent(self) -> &'static str {
        match self {
            Step::Held => "lbnl-edge",
            Step::PromisedByLast => "esnet-east",
            Step::PromisedByAll => "anl-edge",
        }
    }
}

impl Crossing {
    /// True if all that a domain has is in this state, and it has something.
    pub fn is(&self, domain: &str, without: &str, state: &str) -> bool {
        let (_, nodes) = WAY.iter().find(|(name, _)| *name == domain).unwrap();
        let mut any = false;
        for node in nodes.iter().filter(|node| **node != without) {
            let socket = self.0.place.join(&self.0.name).join(node).join("agent.sock");
            let mut client = Client::connect(&socket).unwrap();
            let show = documents::agent::Request::BookShow { handle: None, filter: Default::default() };
            let Ok(documents::agent::Answer::Book(documents::book::BookAnswer::Reservations { rows, .. })) =
                client.call(show)
            else {
                return false;
            };
            if rows.iter().any(|row| row.state != state) {
                return false;
            }
            any |= !rows.is_empty();
        }
        any
    }

    /// Brings a reservation to a step and keeps it there; its key, and the answer in the thread. A hold lasts for a while
    /// only, and a busy machine may not come to the step in that time: then it is tried again with another key.
    fn hold_at(&self, step: Step, name: &str) -> (JoinHandle<Output>, String) {
        for attempt in 0..10 {
            let key = format!("{name}-{attempt}");
            // Brokers ask for the way again after two seconds, and the agent that will stand still must have said it.
            self.alice(&["enquire", ENDS[0], ENDS[1], ENDS[2], ENDS[3], "--for", "1h"]);
            let asked = self.asks(&key);
            if self.comes_to(step, &asked) {
                return (asked, key);
            }
            for stopped in [Step::Held.agent(), step.agent()] {
                self.agent(stopped, 18);
            }
            let answer = asked.join().unwrap();
            println!("{key} did not come to {step:?}: {}", said(&answer));
            if let Ok(made) = serde_json::from_slice::<Value>(&answer.stdout) {
                assert!(self.alice(&["cancel", made["id"].as_str().unwrap()]).status.success());
            }
            self.nothing_left("of what did not come to its step");
        }
        panic!("{step:?} was not reached");
    }

    /// Stops the last domain's agent, so that the others come to hold their parts, and asks.
    fn asks(&self, key: &str) -> JoinHandle<Output> {
        self.agent(Step::Held.agent(), 19);
        let words: Vec<String> = ["reserve"]
            .into_iter()
            .chain(ENDS)
            .chain(["--forward", "6mbit", "--for", "1h", "--key", key, "--json"])
            .map(str::to_owned)
            .collect();
        let (name, own) = (self.0.name.clone(), self.0.domain("anl").trust.clone());
        std::thread::spawn(move || {
            let mut command = Command::new(SLUICE);
            command.args(words).args(["--broker", "https://10.0.2.2:8443"]).arg("--ca").arg(own.join("ca.pem"));
            command.arg("--certificate").arg(own.join("requester-alice.pem"));
            command.arg("--certificate-key").arg(own.join("requester-alice.key"));
            let netns = Namespace::open(&format!("{name}-alpha")).unwrap();
            netns.enter_at_exec(&mut command);
            command.output().unwrap()
        })
    }

    /// True once all is at this step; false: it has not come to it in time, or was refused.
    fn comes_to(&self, step: Step, asked: &JoinHandle<Output>) -> bool {
        let last = Step::Held.agent();
        // Twice as long as a broker waits for the agent that stands still: who looks for an earlier attempt asks it too.
        let mut held = false;
        soon(45, || {
            held = self.is("anl", "", "held") && self.is("esnet", "", "held") && self.is("lbnl", last, "held");
            held || asked.is_finished()
        });
        if !held || step == Step::Held {
            return held;
        }
        self.agent(step.agent(), 19);
        self.agent(last, 18);
        // Who asks its own agents has the promise of the domain after it.
        soon(20, || match step {
            Step::PromisedByAll => {
                ["esnet", "lbnl"].iter().all(|domain| self.is(domain, "", "promised"))
                    && self.is("anl", step.agent(), "promised")
            }
            _ => self.is("lbnl", "", "promised") && self.is("esnet", step.agent(), "promised"),
        })
    }

    /// Made in all domains, or in none; and what is asked again with the same key is one whole reservation.
    fn all_or_none(&self, key: &str, what: &str) {
        let whole = wait_at_most(Duration::from_secs(60), "asked again", || {
            self.reserve(&["--forward", "6mbit", "--key", key]).ok()
        });
        // What was held and comes to nothing ends by itself.
        wait_at_most(Duration::from_secs(60), "it is whole", || {
            let mut active = DOMAINS.iter().flat_map(|domain| self.agents(domain));
            active.all(|row| row.contains(" active 6000000 ")).then_some(())
        });
        let all: Vec<usize> = DOMAINS.iter().map(|domain| self.agents(domain).len()).collect();
        assert_eq!(all, [3, 3, 2], "{what}: one of each");
        assert!(self.alice(&["cancel", whole["id"].as_str().unwrap()]).status.success(), "{what}");
        self.nothing_left(what);
    }
}

/// True as soon as it is; false: not in so many seconds.
fn soon(seconds: u64, mut is: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(seconds);
    while !is() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_broker_that_dies_at_any_step_leaves_no_half() {
    let Some(bed) = Crossing::up() else { return };
    // Each takes as long as a hold lasts: by day each step and each broker once, nightly each at each.
    let nightly = std::env::var_os("SLUICE_NIGHTLY").is_some();
    for (n, step) in [Step::Held, Step::PromisedByLast, Step::PromisedByAll].into_iter().enumerate() {
        for (_, dead) in DOMAINS.into_iter().enumerate().filter(|(m, _)| nightly || *m == n) {
            let began = Instant::now();
            let (what, key) = (format!("{dead} dies at {step:?}"), format!("{dead}-{step:?}"));
            let (asked, key) = bed.hold_at(step, &key);
            bed.kill(dead);
            bed.agent(step.agent(), 18);
            bed.start(dead);
            let answer = asked.join().unwrap();
            println!("{what}: {}", said(&answer).lines().next().unwrap_or_default());
            bed.all_or_none(&key, &what);
            println!("{what}: {:.1} s", began.elapsed().as_secs_f64());
        }
    }
    // A domain that goes away between its promise and the decision: the others go on, and it asks when it is back.
    for away in ["esnet", "lbnl"] {
        let (asked, key) = bed.hold_at(Step::PromisedByAll, away);
        bed.kill(away);
        bed.agent(Step::PromisedByAll.agent(), 18);
        let answer = asked.join().unwrap();
        assert!(answer.status.success(), "{away}: decided all the same: {}", said(&answer));
        wait_for("ANL has it", || bed.is("anl", "", "active").then_some(()));
        assert!(!bed.is(away, "", "active"), "{away} has not heard of it");
        bed.start(away);
        wait_for("it is whole", || DOMAINS.iter().all(|domain| bed.is(domain, "", "active")).then_some(()));
        bed.all_or_none(&key, away);
    }
}
