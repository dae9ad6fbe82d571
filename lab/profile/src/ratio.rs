//! The ratio Boomerang : RSVP of messages that reserve: 24 to 787 microseconds in the document.

use super::load::SessionCost;
use super::real::{By, Unloaded};
use super::report::ProtocolRatio;
use super::steps::Kind;
use super::transit::Protocol;

/// Compares the engines, with few sessions and with many.
pub fn engines(rsvp: &[SessionCost], boomerang: &[SessionCost]) -> Vec<ProtocolRatio> {
    let of = |(of_rsvp, of_boomerang): (Kind, Kind), what: &str, (one, other): (&SessionCost, &SessionCost)| {
        let (rsvp, boomerang) = (one.whole(of_rsvp)?.median / 1e3, other.whole(of_boomerang)?.median / 1e3);
        let what = format!("engine : engine, {what}, {} sessions", one.sessions);
        Some(ProtocolRatio { what, boomerang_us: boomerang, rsvp_us: rsvp })
    };
    let ends = [(rsvp.first(), boomerang.first()), (rsvp.last(), boomerang.last())];
    let ends = ends.into_iter().filter_map(|(one, other)| one.zip(other));
    let all = ends.flat_map(|at| {
        [of((Kind::Resv, Kind::Reserve), "new", at), of((Kind::ResvAgain, Kind::ReserveAgain), "refresh", at)]
    });
    all.flatten().collect()
}

/// Compares whole nodes: RSVP over sockets, ledger and plane; Boomerang's fast path by test run and over the
/// same links, and Boomerang in user space.
pub fn nodes(unloaded: &[Unloaded], fast: &[SessionCost]) -> Vec<ProtocolRatio> {
    let find = |protocol, by| unloaded.iter().find(|found| (found.protocol, found.by) == (protocol, by));
    let Some(rsvp) = find(Protocol::Rsvp, By::Agent) else { return Vec::new() };
    let mut all = Vec::new();
    for load in [fast.first(), fast.last()].into_iter().flatten() {
        if let (Some(ns), Some(rsvp_us)) = (load.whole(Kind::Reserve), rsvp.inner) {
            let what = format!("fast path by test run, {} sessions : socket, checkpoint 2", load.sessions);
            all.push(ProtocolRatio { what, boomerang_us: ns.median / 1e3, rsvp_us });
        }
    }
    if let Some(kernel) = find(Protocol::Boomerang, By::FastPath) {
        let what = "fast path through veth : socket, checkpoint 1".into();
        all.push(ProtocolRatio { what, boomerang_us: kernel.outer, rsvp_us: rsvp.outer });
    }
    if let Some(agent) = find(Protocol::Boomerang, By::Agent) {
        let what = "agent in user space : socket, checkpoint 1".into();
        all.push(ProtocolRatio { what, boomerang_us: agent.outer, rsvp_us: rsvp.outer });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Samples;
    use crate::steps::StepMedians;

    fn load(sessions: u32, kind: Kind, ns: f64) -> SessionCost {
        let whole = Samples { values: vec![ns], discarded: 0 }.estimate(64);
        SessionCost {
            sessions,
            profiles: vec![StepMedians { kind, whole, warm: None, steps: Vec::new() }],
            maintenance: None,
        }
    }

    #[test]
    fn each_way_has_its_row() {
        let of = |protocol, by, outer, inner| Unloaded { protocol, by, outer, inner };
        let unloaded = [
            of(Protocol::Rsvp, By::Agent, 200.0, Some(150.0)),
            of(Protocol::Boomerang, By::Agent, 50.0, Some(40.0)),
            of(Protocol::Boomerang, By::FastPath, 10.0, None),
        ];
        let fast = [load(1_000, Kind::Reserve, 300.0), load(1_000_000, Kind::Reserve, 600.0)];
        let rows: Vec<f64> = nodes(&unloaded, &fast).iter().map(|row| row.rsvp_us / row.boomerang_us).collect();
        assert_eq!(rows.iter().map(|ratio| ratio.round()).collect::<Vec<_>>(), [500.0, 250.0, 20.0, 4.0]);
        assert!(nodes(&unloaded[1..], &fast).is_empty(), "nothing to compare with");
        let engines = engines(&[load(10, Kind::Resv, 3e3)], &[load(10, Kind::Reserve, 1e3)]);
        assert_eq!(engines.len(), 2, "few and many are the same here, refreshes are not there");
    }
}
