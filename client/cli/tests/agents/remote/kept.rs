//! The broker's connections to agents on other machines: kept from call to call, and of no use to whoever may no more.

use super::path::Site;
use crate::bed::wait_for;
use rpc::client::Client;
use serde_json::Value;

impl Site {
    /// How often the broker came to an agent.
    fn came(&self, node: &str) -> usize {
        self.far.bed.log(node).matches("who=broker/main").count()
    }

    /// Status, and which agents did not answer, of a call that asks all of them.
    fn listed(&self) -> (u16, String) {
        let (status, doc) = self.ask("requester-alice", "GET", "/v1/reservations", &Value::Null);
        (status, doc["away"].to_string())
    }
}

#[test]
fn connections_are_kept_and_go_with_the_right_to_have_them() {
    let Some(site) = Site::up() else { return };
    let all = || wait_for("all agents answer", || (site.listed() == (200, "null".into())).then_some(()));
    all();
    let before = site.came("maui");
    for _ in 0..20 {
        all();
    }
    let more = site.came("maui") - before;
    // A busy machine may make an agent too slow for one call, which then ends its connection.
    assert!(more <= 8, "20 calls, one after the other, made {more} connections to an agent");

    // An agent that restarts between two calls fails none of them. Three restarts, for the same reason.
    let restarted = (0..3).any(|_| {
        site.far.bed.kill("maui");
        site.far.bed.start("maui");
        wait_for("it listens", || -> Option<Client> { site.far.reach("glenwood", "10.0.1.2", "requester-alice").ok() });
        site.listed() == (200, "null".into())
    });
    assert!(restarted, "the call after a restart failed, each of three times: {:?}", site.listed());

    // The policy names the broker no more: what it has open is of no use.
    let policy = site.far.bed.home("maui").join("policy.toml");
    let text = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, text.replace("brokers = [\"main\"]", "brokers = []")).unwrap();
    site.far.bed.agent("maui").signal(1).unwrap();
    wait_for("it is refused", || (site.listed().0 == 403).then_some(()));
    std::fs::write(&policy, text).unwrap();
    site.far.bed.agent("maui").signal(1).unwrap();
    all();

    // An agent whose certificate is revoked is asked nothing, on the connection that was made before either.
    site.revoke("agent/maui");
    wait_for("it is left out", || (site.listed() == (200, "[\"maui\"]".into())).then_some(()));
    // And of the broker's own the agents take no further word.
    site.revoke("broker/main");
    wait_for("nobody answers it", || {
        let (status, away) = site.listed();
        (status == 503 || away.contains("yosemite") && away.contains("glenwood")).then_some(())
    });
}
