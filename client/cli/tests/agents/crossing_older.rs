//! A domain's broker that was restored from an older copy of its journal: the others notice, and nothing is reserved
//! over several domains until an operator says that the copy counts.

use crate::agents::crossing::Crossing;
use crate::agents::domains::said;
use crate::bed::{wait_at_most, wait_for};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const DOMAINS: [(&str, &str); 3] = [("anl", "alpha"), ("esnet", "esnet-west"), ("lbnl", "lbnl-border")];

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn id(made: &Value) -> String {
    made["id"].as_str().unwrap().to_owned()
}

/// All parts in all domains.
fn everything(bed: &Crossing) -> Vec<String> {
    DOMAINS.iter().flat_map(|(domain, _)| bed.agents(domain)).collect()
}

/// Puts an older copy of a domain's journal in the place of its own.
fn restored(bed: &Crossing, domain: &str, copied: &Path) {
    let journal = bed.folder(domain).join("broker/transactions");
    bed.kill(domain);
    std::fs::remove_dir_all(&journal).unwrap();
    copy(copied, &journal);
}

fn an_older_copy(bed: &Crossing, domain: &str) {
    let first = bed.reserve(&["--forward", "2mbit"]).unwrap();
    bed.kill(domain);
    let copied = bed.folder(domain).join("copy");
    copy(&bed.folder(domain).join("broker/transactions"), &copied);
    bed.start(domain);
    let second = wait_for("it reserves again", || bed.reserve(&["--forward", "3mbit"]).ok());
    wait_for("both are there", || everything(bed).iter().all(|part| part.contains(" active ")).then_some(()));
    let before = everything(bed);
    assert_eq!(before.len(), 16, "{before:?}");

    restored(bed, domain, &copied);
    bed.start(domain);
    for _ in 0..2 {
        let no = bed.reserve(&["--forward", "1mbit"]).expect_err("nobody believes the older copy");
        assert!(no.contains("newer start"), "{domain}: {no}");
    }
    wait_at_most(Duration::from_secs(60), "a refusal leaves nothing", || (everything(bed) == before).then_some(()));

    bed.kill(domain);
    bed.start_with(domain, &["--accept-older-journal"]);
    let third = wait_at_most(Duration::from_secs(60), "an operator says that it counts", || {
        bed.reserve(&["--forward", "1mbit"]).ok()
    });
    wait_for("the third is whole", || {
        let all = everything(bed);
        (all.len() == before.len() + 8 && all.iter().all(|part| part.contains(" active "))).then_some(())
    });
    // What the copy has is as it was, and can be given back in all domains.
    for made in [&third, &first] {
        let over = bed.alice(&["cancel", &id(made)]);
        assert!(over.status.success(), "{domain}: {}", said(&over));
    }
    wait_for("only what the copy has not is left", || {
        let all = everything(bed);
        (all.len() == 8 && all.iter().all(|part| part.contains(" active 3000000 "))).then_some(())
    });
    // Of that each domain's operator ends the rest.
    drop(bed.alice(&["cancel", &id(&second)]));
    for (domain, node) in DOMAINS {
        for row in bed.list(domain).iter().filter(|row| !matches!(row["state"].as_str(), Some("cancelled" | "ended"))) {
            drop(bed.0.ask(node, domain, "operator-root", &["cancel", &id(row)]));
        }
    }
    bed.nothing_left("every domain can give back what a journal has lost");
}

#[test]
fn a_domains_broker_from_an_older_copy_is_not_believed() {
    let Some(bed) = Crossing::up() else { return };
    for domain in ["esnet", "anl"] {
        an_older_copy(&bed, domain);
    }
}

#[test]
fn a_change_that_a_started_broker_does_not_know_is_aborted_when_its_neighbours_were_heard() {
    let Some(bed) = Crossing::up() else { return };
    bed.reserve(&["--forward", "2mbit"]).unwrap();
    let outcome = || {
        let never = "/v1/transactions/00112233445566778899aabbccddeeff?epoch=1";
        // A broker that starts says so, or ends the connection.
        let (status, doc) = bed.try_between("anl", "esnet", "GET", never, &Value::Null).ok()?;
        (status == 200).then(|| doc["outcome"].as_str().unwrap().to_owned())
    };
    wait_for("it knows everything of its first start", || outcome().filter(|said| said == "aborted"));
    bed.kill("lbnl");
    bed.kill("esnet");
    bed.start("esnet");
    for _ in 0..20 {
        let said = wait_for("it answers", outcome);
        assert_eq!(said, "pending", "lbnl may know better: the journal could be an older copy");
        std::thread::sleep(Duration::from_millis(50));
    }
    bed.start("lbnl");
    wait_at_most(Duration::from_secs(60), "lbnl was heard", || outcome().filter(|said| said == "aborted"));
}
