//! `measured/IFACE` in the book: flows that are booked by more than their rates would allow, admitted when their windows begin
//! by what is measured, and protected from a flood; what is refused, and what a killed agent leaves.

use super::mace::{FLOWS, Site, send};
use crate::bed::{SLUICE, wait_at_most, wait_for};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;

/// The ports of the flows that no application lists.
const FIRST: u16 = 7_000;

impl Site {
    fn sluice(&self, arguments: &[&str]) -> Output {
        Command::new(SLUICE).args(arguments).arg("--socket").arg(self.socket()).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.sluice(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Books half a megabit for a flow; its handle.
    fn book(&self, port: u16) -> String {
        let (from, to) = (format!("10.88.0.1:{port}"), format!("10.88.0.2:{port}"));
        let booked = self.json(&[
            "reserve",
            "measured/near=500kbit",
            "--for",
            "10m",
            "--source",
            &from,
            "--to",
            &to,
            "--protocol",
            "udp",
            "--packet",
            "200b",
        ]);
        booked["handle"].as_str().unwrap().to_owned()
    }

    fn part(&self, handle: &str) -> Value {
        self.json(&["list", handle])["reservation"]["parts"][0].clone()
    }

    fn is_in_force(&self, handle: &str) -> bool {
        self.part(handle)["enforced"] == "in_force"
    }
}

/// Three megabits are set aside, and twice that may be booked: ten parts of half a megabit are promised, of which five are in
/// force by what they declare, and all by what they send.
#[test]
fn booked_flows_are_admitted_by_what_is_measured() {
    let Some(mut site) = Site::with("booked = \"200%\"") else { return };
    site.list("game udp 6000 1mbit 4kb 10 3s\n");
    site.start();
    let calendar = String::from_utf8(site.sluice(&["calendar"]).stdout).unwrap();
    assert!(calendar.contains("measured/near"), "{calendar}");
    let handles: Vec<String> = (FIRST..FIRST + FLOWS).map(|port| site.book(port)).collect();
    let beyond = site.sluice(&["reserve", "measured/near=2mbit", "--for", "10m"]);
    assert!(!beyond.status.success(), "6 Mb/s may be booked, 5 are");
    let open =
        site.sluice(&["reserve", "measured/near=100kbit", "--for", "10m", "--to", "10.88.0.2:1", "--protocol", "udp"]);
    assert!(String::from_utf8_lossy(&open.stderr).contains("both ports"), "{open:?}");
    let in_force = |site: &Site| handles.iter().filter(|handle| site.is_in_force(handle)).count();
    wait_for("five are in force by what they declare", || (in_force(&site) == 5).then_some(()));
    let waiting = handles.iter().map(|handle| site.part(handle)).find(|part| part["enforced"] != "in_force").unwrap();
    assert!(waiting.to_string().contains("by what is measured"), "{waiting}");
    std::thread::scope(|scope| {
        let load = scope.spawn(|| send(&site, 600, 0));
        // Each that waits is asked about again, at most a minute later; a window of samples later there is room for one more.
        wait_at_most(Duration::from_secs(120), "all are in force", || (in_force(&site) == 10).then_some(()));
        load.join().unwrap();
    });
    let doc = site.mace();
    assert!(doc.declared_wire_bps > doc.allocated_wire_bps * 3 / 2, "more than fits as declared: {doc:?}");
    let [others, booked] = send(&site, 250, 32);
    println!("best effort {:.2} %, booked {:.2} %", others.loss_percent(), booked.loss_percent());
    assert!(others.loss_percent() >= 20.0 && booked.loss_percent() <= 1.0, "{others:?} {booked:?}");
    let part = site.part(&handles[0]);
    assert!(part["means"].as_str().unwrap().starts_with("class 7"), "{part}");
    wait_for("what it sends is measured", || site.part(&handles[0])["measured"]["amount"].as_f64());
    // Without the agent they keep their class; the next one has them from its journal.
    site.kill();
    let [_, booked] = send(&site, 50, 32);
    assert!(booked.loss_percent() <= 1.0, "without an agent: {booked:?}");
    site.start();
    wait_at_most(Duration::from_secs(90), "they are in force again", || (in_force(&site) == 10).then_some(()));
    assert_eq!(site.mace().promoted, 0, "none is a recognised flow");
    // Given back, all.
    for handle in &handles {
        site.json(&["cancel", handle]);
    }
    wait_for("nothing counts", || (site.mace().declared_wire_bps == 0).then_some(()));
}
