//! Session load: the cost of the steps as the number of sessions grows (Table 9, Figure 5), and the cost of
//! soft state per second (Figure 6; section 6.3 of the document).

use super::sample::{Estimate, Samples, slope};
use super::steps::{Kind, Pair, StepMedians};
use super::transit::{Protocol, START, Transit};
use bed::error::Error;
use bed::patience::Patience;
use linux::tsc::{Calibration, processor_time};
use node::io::Input;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{Span, Time};

/// All measurements at one number of sessions.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionCost {
    /// The number of sessions, each with a path and a reservation.
    pub sessions: u32,
    /// The medians of every kind of message.
    pub profiles: Vec<StepMedians>,
    /// The processor time for soft state, microseconds in a second.
    pub maintenance: Option<Estimate>,
}

impl SessionCost {
    /// Returns a step's median, ns.
    pub fn step(&self, kind: Kind, step: ProbePoint) -> Option<Estimate> {
        self.profiles.iter().find(|p| p.kind == kind)?.step(step)
    }

    /// Returns the median of a whole message of this kind, ns.
    pub fn whole(&self, kind: Kind) -> Option<Estimate> {
        self.profiles.iter().find(|p| p.kind == kind)?.whole
    }
}

/// Numbers of sessions of the full form.
pub const FULL: [u32; 7] = [1_000, 10_000, 100_000, 250_000, 500_000, 750_000, 1_000_000];
/// Numbers of sessions of the quick form.
pub const QUICK: [u32; 3] = [1_000, 5_000, 10_000];

/// The rows of Table 9: the document's name, and the kind and step here.
pub const GROWING: [(&str, Kind, ProbePoint); 5] = [
    ("create PSB (Path message)", Kind::Path, ProbePoint::CreatePsb),
    ("tear PSB (PathTear message)", Kind::PathTear, ProbePoint::TearPsb),
    ("reservation management (Resv message)", Kind::Resv, ProbePoint::ManageReservation),
    ("reservation refresh (Resv message)", Kind::Resv, ProbePoint::ResvRefresh),
    ("reservation tear (ResvTear message)", Kind::ResvTear, ProbePoint::TearReservation),
];

/// Profiles one protocol as its sessions grow.
///
/// # Errors
/// The user stops the run, or a message did not cause the expected output.
pub fn run(
    protocol: Protocol,
    calibration: Calibration,
    sizes: &[u32],
    repetitions: usize,
    patience: &Patience,
    progress: &mut dyn FnMut(String),
) -> Result<Vec<SessionCost>, Error> {
    let most = sizes.iter().copied().max().unwrap_or(0);
    let mut pair = Pair::new(protocol, calibration, most);
    let mut loads = Vec::new();
    for &sessions in sizes {
        progress(format!("{}, {sessions} sessions", protocol.name()));
        pair.grow(sessions, patience)?;
        let profiles = pair.profile(repetitions, patience)?;
        loads.push(SessionCost { sessions, profiles, maintenance: None });
    }
    drop(pair);
    for load in &mut loads {
        progress(format!("{}, soft state of {} sessions", protocol.name(), load.sessions));
        load.maintenance = maintenance(protocol, load.sessions, patience)?;
    }
    Ok(loads)
}

/// Returns the growth of a step with each session, microseconds, by least squares over all sizes.
pub fn per_session(loads: &[SessionCost], kind: Kind, step: ProbePoint) -> f64 {
    let at = |load: &SessionCost| Some((f64::from(load.sessions), load.step(kind, step)?.median / 1e3));
    slope(&loads.iter().filter_map(at).collect::<Vec<_>>())
}

/// The number of measured seconds, each a sample.
const SECONDS: u64 = 9;
/// The begin of the measurement. Refreshes (R is 30 s, each after half to one and a half of it) are spread
/// evenly by then.
const BEGIN: Span = Span::from_secs(18);

/// Measures the processor time of alarms in a second. RSVP refreshes every path state downstream and every
/// reservation upstream, once in R on average. Boomerang sends no refresh by itself; it only looks for
/// expired sessions.
fn maintenance(protocol: Protocol, sessions: u32, patience: &Patience) -> Result<Option<Estimate>, Error> {
    let mut transit = Transit::new(sessions, terms::probe::Off);
    for n in 0..sessions {
        transit.establish(protocol, n);
        if n.is_multiple_of(4096) {
            patience.check()?;
        }
    }
    pass(&mut transit, START + BEGIN);
    let mut samples = Samples::default();
    for second in 1..=SECONDS {
        patience.check()?;
        // A second of a million sessions is longer than a slice of the scheduler.
        let before = processor_time();
        let sent = pass(&mut transit, START + BEGIN + Span::from_secs(second));
        samples.add((processor_time() - before) as f64 / 1e3, false);
        // With few sessions a second may pass without any refresh.
        if sent == 0 && sessions >= 1_000 && protocol == Protocol::Rsvp {
            return Err(Error::Void(format!("{sessions} sessions, and no refresh was sent in a second")));
        }
    }
    Ok(samples.estimate(1))
}

/// Advances the clock to `then`. Returns the number of messages sent.
fn pass<P: ProbeObserver>(transit: &mut Transit<P>, then: Time) -> usize {
    let mut sent = 0;
    while let Some(at) = transit.wake_at().filter(|at| *at <= then) {
        transit.now = at.max(transit.now);
        sent += transit.tell(Input::Wake) + transit.answer();
    }
    transit.now = then;
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_grow_and_soft_state_costs() {
        let calibration = Calibration::measure();
        let mut said = Vec::new();
        let sizes = [100, 1_000];
        let loads =
            run(Protocol::Rsvp, calibration, &sizes, 20, &Patience::endless(), &mut |line| said.push(line)).unwrap();
        assert_eq!(loads.iter().map(|load| load.sessions).collect::<Vec<_>>(), sizes);
        for (_, kind, step) in GROWING {
            assert!(loads[1].step(kind, step).is_some(), "{kind:?} {step:?}");
            assert!(per_session(&loads, kind, step).abs() < 10.0, "microseconds a session");
        }
        let cost = loads[1].maintenance.unwrap();
        // 1,000 sessions refresh 67 times a second.
        assert!((10.0..20_000.0).contains(&cost.median), "{cost:?}");
        assert_eq!(said.len(), 4);
    }
}
