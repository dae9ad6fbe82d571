//! Flows that never signalled at an interface whose packets a plane in user space queues: recognised there, admitted, protected
//! from a flood; without an agent, with the next one, and after the plane was killed.

use super::mace::{FLOWS, Site, send};
use crate::bed::wait_for;

#[test]
fn flows_are_recognised_and_protected_by_a_plane_in_user_space() {
    let Some(mut site) = Site::in_user_space() else { return };
    site.start();
    let all = usize::from(FLOWS);
    let ([voice, others], doc) = std::thread::scope(|scope| {
        let load = scope.spawn(|| send(&site, 400, 32));
        std::thread::sleep(std::time::Duration::from_secs(6));
        let doc = site.mace();
        (load.join().unwrap(), doc)
    });
    println!("voice {voice:?} {:.2} %, others {others:?} {:.2} %", voice.loss_percent(), others.loss_percent());
    assert_eq!((doc.promoted, doc.counts.asked, doc.counts.refused), (all, all as u64, 0), "{doc:?}");
    assert!(doc.flows.iter().all(|row| row.installed && row.application == "voice"), "{doc:?}");
    assert!(doc.measured_wire_bps.is_some_and(|bps| bps > 400_000 && bps < 2_000_000), "{doc:?}");
    assert!(doc.flows.iter().all(|row| row.silent_ms < 3_000), "{doc:?}");
    assert!(others.loss_percent() >= 20.0, "the flood is felt: {others:?}");
    assert!(voice.loss_percent() <= 1.0, "{voice:?}");
    // Without an agent, and with the next one, they keep their class.
    site.kill();
    let [voice, _] = send(&site, 50, 32);
    assert!(voice.loss_percent() <= 1.0, "without an agent: {voice:?}");
    site.start();
    let doc = site.mace();
    assert_eq!((doc.promoted, doc.counts.asked), (all, 0), "adopted, not asked again: {doc:?}");
    // A plane that was killed knows nothing: the agent tells it the flows and the ports again.
    site.kill_plane();
    site.start_plane();
    wait_for("the new plane has the flows", || site.log().contains("mended").then_some(()));
    let [voice, others] = send(&site, 150, 32);
    assert!(voice.loss_percent() <= 1.0 && others.loss_percent() >= 20.0, "{voice:?} {others:?}");
    // They fall silent: their timeout is 8 s.
    wait_for("silent flows are demoted", || (site.mace().promoted == 0).then_some(()));
    assert_eq!(site.mace().counts.silent, all as u64);
    send(&site, 20, 0);
    wait_for("the new plane recognises them", || (site.mace().promoted == all).then_some(()));
}
