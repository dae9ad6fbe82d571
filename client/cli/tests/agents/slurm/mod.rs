//! Jobs of a real Slurm with a share of the network: reserved before they start, bound to their own processes, given back
//! whatever ends them.

mod cluster;

use crate::bed::wait_for;
use cluster::{Cluster, NODES, PLAYER, STRANGER};
use documents::book::BindingDoc;
use std::time::Duration;

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

const ASKS: &str = "sluice: to=10.0.2.2 forward=6mbit";

/// The rows of a node are one job's, bound to its control group; nobody else's packets are in its class.
fn is_bound(cluster: &Cluster, node: &str, job: &str) {
    let rows = cluster.booked(node);
    let [row] = &rows[..] else { panic!("{rows:#?}") };
    assert_eq!((row.owner.as_str(), row.state.as_str()), ("uid:5", "active"));
    assert_eq!(row.label, format!("slurm/test/{job}/{}", cluster.called(node)));
    let group = format!("/{}_slurmstepd.scope/job_{job}", cluster.called(node));
    match &row.parts[0].binding {
        Some(BindingDoc::Cgroup(path)) => assert!(path.ends_with(&group), "{path}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(row.parts[0].enforced, "in_force");
}

#[test]
fn jobs_have_what_their_comment_asks_for() {
    let Some(mut cluster) = Cluster::up() else { return };
    // Two that do not fit together: one runs, the other is queued again, and says why.
    let first = cluster.submit(PLAYER, "first", &["n1"], ASKS);
    cluster.wait_sent("first");
    is_bound(&cluster, "n1", &first);
    // The last of them may still be on their way.
    wait_for("all packets of the job are in its class", || {
        ((cluster.premium("n1", "to-r"), cluster.premium("r", "to-dtn")) == (25, 25)).then_some(())
    });
    let second = cluster.submit(PLAYER, "second", &["n2"], ASKS);
    cluster.wait_state(&second, "PENDING BeginTime");
    let note = cluster.note(&second);
    assert!(note.starts_with("sluice: not yet: ") && note.contains("r: net/to-dtn"), "{note}");
    assert!(cluster.booked("n2").is_empty() && cluster.booked("r").len() == 1, "of the second there is nothing");
    // Others of the same node, also to the same host, have no part in it.
    let send = "for n in $(seq 7); do (echo x > /dev/udp/10.0.2.2/9); done";
    cluster.bed.run("n1", "bash", &["-c", send]);
    assert_eq!(cluster.premium("n1", "to-r"), 25, "what is not the job's is best effort");
    cluster.end("first");
    cluster.wait_sent("second");
    is_bound(&cluster, "n2", &second);
    wait_for("all packets of the second", || (cluster.premium("n2", "to-r") == 25).then_some(()));
    assert!(cluster.note(&second).starts_with("sluice: reserved as "), "{}", cluster.note(&second));
    assert!(cluster.booked("n1").is_empty(), "the first was given back");
    // Cancelled by its owner.
    assert!(cluster.user(PLAYER, &["scancel", &second]).status.success());
    cluster.nothing_left("after scancel");
    // The controller is killed while a job runs; the job goes on, and is given back by the next.
    let third = cluster.submit(PLAYER, "third", &["n1"], ASKS);
    cluster.wait_sent("third");
    cluster.written(&third);
    cluster.kill_ctld();
    is_bound(&cluster, "n1", &third);
    cluster.start_ctld();
    cluster.end("third");
    cluster.wait_state(&third, "COMPLETED");
    cluster.nothing_left("after slurmctld was killed");
    // Two nodes and both directions, all or nothing; no process of the job comes to the second.
    let fourth = cluster.submit(PLAYER, "fourth", &NODES, "sluice: to=10.0.2.2 forward=4mbit reverse=1mbit");
    cluster.wait_sent("fourth");
    for node in NODES {
        wait_for("bound", || cluster.booked(node).iter().any(|row| row.parts[0].binding.is_some()).then_some(()));
        is_bound(&cluster, node, &fourth);
    }
    assert_eq!((cluster.booked("r").len(), cluster.booked("dtn").len()), (4, 2), "each node, each direction");
    assert!(cluster.group("n2", &fourth).exists());
    // What was reserved for a job that slurmctld has forgotten goes with the owner's next one.
    cluster.reserve(PLAYER, "slurm/test/4711/n2");
    cluster.reserve(PLAYER, "slurm/other/4711/n2");
    assert!(cluster.user(PLAYER, &["scancel", &fourth]).status.success());
    wait_for("the other cluster's alone is left", || {
        let left = cluster.booked("r");
        (left.len() == 1 && left[0].label == "slurm/other/4711/n2").then_some(())
    });
    wait_for("its groups have gone", || NODES.iter().all(|node| !cluster.group(node, &fourth).exists()).then_some(()));
}

#[test]
fn what_is_wrong_holds_the_job_and_says_why() {
    let Some(cluster) = Cluster::up() else { return };
    // A mistake in the comment; its author mends it.
    let wrong = cluster.submit(PLAYER, "wrong", &["n1"], "sluice: to=10.0.2.2 fwd=6mbit");
    cluster.wait_state(&wrong, "JobHeldUser");
    let note = cluster.note(&wrong);
    assert!(note.starts_with("sluice: held: \"fwd\" is no key"), "{note}");
    let comment = format!("Comment={ASKS}");
    for words in [&["scontrol", "update", &format!("JobId={wrong}"), &comment][..], &["scontrol", "release", &wrong]] {
        let done = cluster.user(PLAYER, words);
        assert!(done.status.success(), "{words:?}: {done:?}");
    }
    // Somebody whom no rule allows anything, and more than a rule allows.
    let stranger = cluster.submit(STRANGER, "stranger", &["n2"], ASKS);
    cluster.wait_state(&stranger, "JobHeldUser");
    assert!(cluster.note(&stranger).contains("uid:33"), "{}", cluster.note(&stranger));
    assert!(cluster.user(STRANGER, &["scancel", &stranger]).status.success());
    let much = cluster.submit(PLAYER, "much", &["n2"], "sluice: to=10.0.2.2 forward=9mbit");
    cluster.wait_state(&much, "JobHeldUser");
    assert!(cluster.note(&much).contains("\"jobs\""), "the rule is named: {}", cluster.note(&much));
    assert!(cluster.user(PLAYER, &["scancel", &much]).status.success());
    // Who asks for nothing has nothing, whatever else the comment says.
    cluster.submit(STRANGER, "without", &["n2"], "to=10.0.2.2 forward=1mbit, said nobody to sluice");
    cluster.wait_sent("without");
    assert!(cluster.booked("n2").is_empty());
    assert_eq!(cluster.premium("n2", "to-r"), 0);
    cluster.end("without");
    // The one that was mended runs; its owner takes the reservation away under it, and the comment. The rest is given back.
    cluster.wait_sent("wrong");
    is_bound(&cluster, "n1", &wrong);
    let done = cluster.user(PLAYER, &["scontrol", "update", &format!("JobId={wrong}"), "Comment=nothing"]);
    assert!(done.status.success(), "{done:?}");
    cluster.end("wrong");
    cluster.wait_state(&wrong, "COMPLETED");
    cluster.nothing_left("after the last job");
    // Slurm kills the hook of a job that is cancelled while the broker is still to answer it.
    let broker = cluster.broker();
    broker.signal(SIGSTOP).unwrap();
    let early = cluster.submit(PLAYER, "early", &["n1"], ASKS);
    cluster.wait_state(&early, "CONFIGURING");
    std::thread::sleep(Duration::from_millis(500));
    assert!(cluster.user(PLAYER, &["scancel", &early]).status.success());
    // EpilogSlurmctld waits for the broker as well.
    cluster.wait_state(&early, "COMPLETING");
    broker.signal(SIGCONT).unwrap();
    cluster.wait_state(&early, "CANCELLED");
    cluster.nothing_left("of a request that lost its asker");
}
