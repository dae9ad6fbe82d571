//! The set-up time of a reservation: from the receiver's call, with path state present, to its ResvConf, and
//! end to end with the Path; beside the round-trip time of the same path in the same run. The path is
//! otherwise idle.

use crate::reserve::{Receiving, ReservedFlow, Sending};
use crate::trial;
use crate::video::bucket;
use bed::error::Error;
use bed::host::Host;
use bed::patience::Patience;
use bed::testbed::UpOptions;
use bed::udp_echo;
use bed::{Bed, CARRIERS, RECEIVER, SENDER};
use bench::order::nearest_rank;
use documents::agent::{SenderId, SessionId, TspecDoc};
use serde::Serialize;
use std::time::{Duration, Instant};
use terms::{Bytes, Rate, Span, Tspec};

/// The port of the first session. Each later one has its own.
const PORT: u16 = 20_000;
/// The port of the UDP echo.
pub(crate) const ECHO: u16 = 7;
/// The IP protocol number of UDP.
const UDP: u8 = 17;

/// The results, in milliseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SetupTime {
    /// The number of reservations made.
    pub count: usize,
    /// Median round-trip time of a UDP echo between the hosts.
    pub rtt_ms: f64,
    /// Median from the receiver's call to its ResvConf, with path state present.
    pub setup_ms: f64,
    /// The tenth percentile of the set-up time.
    pub setup_p10_ms: f64,
    /// The ninetieth percentile of the set-up time.
    pub setup_p90_ms: f64,
    /// Median from the sender's call over Path and Resv to the receiver's ResvConf.
    pub end_to_end_ms: f64,
    /// The target: three round trips and a millisecond.
    pub target_ms: f64,
}

impl SetupTime {
    /// Formats the results as a line for people.
    pub fn line(&self) -> String {
        format!(
            "one reservation over two routers takes {:.2} ms (median of {}, 80 % between {:.2} and {:.2}; target \
             3 round trips + 1 ms = {:.2} ms), {:.2} ms from the sender's first Path; round trip {:.3} ms",
            self.setup_ms,
            self.count,
            self.setup_p10_ms,
            self.setup_p90_ms,
            self.target_ms,
            self.end_to_end_ms,
            self.rtt_ms
        )
    }
}

/// Brings a testbed up, measures, and takes it down.
///
/// # Errors
/// As [`setup_time`], and as [`Bed::up`].
pub fn alone(options: &UpOptions, count: usize, patience: &Patience) -> Result<SetupTime, Error> {
    let (bed, _scratch) = trial::bed(Span::from_secs(30), options)?;
    setup_time(&bed, provisional(&bed), count, patience)
}

/// Returns the Tspec of a video of the seed's rate, before the stream is measured.
pub fn provisional(bed: &Bed) -> TspecDoc {
    let (r, b) = (Rate::from_kbps(3_300), Bytes::new(64 << 10));
    Tspec { r, b, p: bed.first_link(), m: bucket::LEAST_UNIT, M: 1_428 }.into()
}

/// Makes and gives back `count` reservations, one after the other. Every hop is read back after each confirmation: one
/// that was confirmed before it was in place everywhere makes the run void.
///
/// # Errors
/// A reservation fails, or the user stops the run.
pub fn setup_time(bed: &Bed, tspec: TspecDoc, count: usize, patience: &Patience) -> Result<SetupTime, Error> {
    let (from, to) = (bed.host(SENDER)?, bed.host(RECEIVER)?);
    let trips = udp_echo::round_trips(&from, &to, ECHO, count.max(20))?;
    let (mut setups, mut totals) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for number in 0..count {
        patience.check()?;
        let flow = probe_flow(&from, &to, number);
        let mut receiving = Receiving::start(bed.client(RECEIVER)?, flow)?;
        let client = bed.client(SENDER)?;
        let begin = Instant::now();
        let mut sending = Sending::start(client, flow, tspec)?;
        receiving.wait_for_path()?;
        let found = receiving.reserve(tspec)?;
        totals.push(begin.elapsed());
        setups.push(found);
        in_place(bed, &flow)?;
        receiving.release()?;
        sending.wait_for_release()?;
    }
    Ok(summary(&trips, setups, totals))
}

/// Returns the flow of one trial.
pub(crate) fn probe_flow(from: &Host, to: &Host, number: usize) -> ReservedFlow {
    let port = PORT + (number % 10_000) as u16;
    let session = SessionId { dst: to.address.into(), protocol: UDP, dst_port: port };
    ReservedFlow { session, sender: SenderId { src: from.address.into(), src_port: port.into() } }
}

/// Summarises set-up times beside sorted round-trip times.
pub(crate) fn summary(trips: &[Duration], mut setups: Vec<Duration>, mut totals: Vec<Duration>) -> SetupTime {
    setups.sort_unstable();
    totals.sort_unstable();
    let at = |sorted: &[Duration], share| nearest_rank(sorted, share).unwrap_or_default();
    let rtt = at(trips, 0.5);
    SetupTime {
        count: setups.len(),
        rtt_ms: ms(rtt),
        setup_ms: ms(at(&setups, 0.5)),
        setup_p10_ms: ms(at(&setups, 0.1)),
        setup_p90_ms: ms(at(&setups, 0.9)),
        end_to_end_ms: ms(at(&totals, 0.5)),
        target_ms: ms(rtt * 3 + Duration::from_millis(1)),
    }
}

/// Checks that every hop has read the flow back from its kernel.
///
/// # Errors
/// [`Error::Void`] names the hop that has not.
pub fn in_place(bed: &Bed, flow: &ReservedFlow) -> Result<(), Error> {
    for name in CARRIERS {
        let status = bed.status(name)?;
        let row = status.reservations.iter().find(|row| (row.session, row.sender) == (flow.session, flow.sender));
        let state = row.and_then(|row| row.installed.as_ref()).map_or("absent", |installed| installed.state.as_str());
        if state != "installed" {
            return Err(Error::Void(format!("the reservation was confirmed, but at {name} it is {state}")));
        }
    }
    Ok(())
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
