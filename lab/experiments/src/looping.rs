//! A flow reserved with Boomerang. The receiving host's application asks its agent, and one ping there and
//! back reserves both directions; the sending host does nothing.

use crate::reserve::{ReservedFlow, refusal, wait};
use crate::setup::{SetupTime, in_place, probe_flow, summary};
use bed::error::Error;
use bed::patience::Patience;
use bed::udp_echo;
use bed::{Bed, RECEIVER, SENDER};
use documents::agent::{Answer, BoomerangAsk, BoomerangNews, EventDoc, Request, TspecDoc};
use documents::boomerang::{ClassifierDoc, RatesDoc};
use rpc::client::Client;
use std::time::{Duration, Instant};

/// The reserved rate from the receiver to the sender, for feedback, bit/s.
pub const FEEDBACK: u32 = 64_000;
/// The time in which a session's rate fills its bucket, ms (`docs/boomerang.md`). Boomerang's messages have
/// no field for bursts.
const BUCKET_MS: u64 = 100;

/// The receiving application. Its session goes when this is dropped.
#[derive(Debug)]
pub struct Loop {
    client: Client,
    flow: ReservedFlow,
    number: Option<u64>,
}

impl Loop {
    /// Connects the application to the receiving host's agent.
    pub fn start(client: Client, flow: ReservedFlow) -> Loop {
        Loop { client, flow, number: None }
    }

    /// Reserves the flow towards this host, and [`FEEDBACK`] back. Returns the time from the call until all
    /// nodes have installed it. The rate is so high that the bucket holds the flow's bursts.
    ///
    /// # Errors
    /// [`Error::Agent`] with the available rates, or no answer comes.
    pub fn reserve(&mut self, tspec: TspecDoc) -> Result<Duration, Error> {
        let ReservedFlow { session, sender } = self.flow;
        let flow = ClassifierDoc {
            src: Some(session.dst),
            dst: Some(sender.src),
            protocol: session.protocol,
            src_port: session.dst_port,
            dst_port: sender.src_port as u16,
        };
        let rates = RatesDoc { forward_bps: FEEDBACK, reverse_bps: rate(&tspec) };
        let ask = BoomerangAsk {
            far_end: sender.src,
            flow,
            mask: None,
            rates: vec![rates],
            at_least: RatesDoc::default(),
            refresh_s: 3,
            no_echo: false,
            uid: None,
            auth: None,
            ttl: 64,
            router_alert: false,
            bound: true,
        };
        let begin = Instant::now();
        let answer = self.client.call(Request::BoomerangReserve { ask, number: None })?;
        if let Answer::Boomerang(doc) = answer {
            self.number = doc.sessions.first().map(|session| session.number);
        }
        wait(&mut self.client, "the ping was back with the reservation", |event| match event {
            EventDoc::Boomerang { news: BoomerangNews::Reserved { .. }, .. } => Some(Ok(begin.elapsed())),
            EventDoc::Boomerang { news: BoomerangNews::Refused { available, .. }, .. } => {
                let (forward, reverse) = (available.forward_bps, available.reverse_bps);
                Some(Err(refusal(format!("a node has only {forward} bit/s forward and {reverse} reverse"))))
            }
            EventDoc::Boomerang { news: BoomerangNews::Silent { over: true, .. } | BoomerangNews::NoRoute, .. } => {
                Some(Err(refusal("the other host does not answer ping".to_owned())))
            }
            _ => None,
        })
    }

    /// Releases the reservation, and waits for the confirmation.
    ///
    /// # Errors
    /// The confirmation does not come.
    pub fn release(&mut self) -> Result<(), Error> {
        let Some(number) = self.number.take() else { return Ok(()) };
        self.client.call(Request::BoomerangRelease { number })?;
        wait(&mut self.client, "the release was back", |event| match event {
            EventDoc::Boomerang { news: BoomerangNews::Released, number: of } if *of == number => Some(Ok(())),
            _ => None,
        })
    }
}

/// Returns the rate, bit/s, whose bucket is at least as deep as the Tspec's.
fn rate(tspec: &TspecDoc) -> u32 {
    let for_bursts = tspec.b_bytes.saturating_mul(8_000) / BUCKET_MS;
    u32::try_from(tspec.r_bps.max(for_bursts)).unwrap_or(u32::MAX)
}

/// Measures the time of a reservation: makes and releases `count`, one after the other, and reads every hop
/// back after each.
///
/// # Errors
/// A reservation fails, or the user stops the run.
pub fn setup_time(bed: &Bed, tspec: TspecDoc, count: usize, patience: &Patience) -> Result<SetupTime, Error> {
    let (from, to) = (bed.host(SENDER)?, bed.host(RECEIVER)?);
    let trips = udp_echo::round_trips(&from, &to, crate::setup::ECHO, count.max(20))?;
    let mut setups = Vec::with_capacity(count);
    for number in 0..count {
        patience.check()?;
        let flow = probe_flow(&from, &to, number);
        let mut application = Loop::start(bed.client(RECEIVER)?, flow);
        setups.push(application.reserve(tspec)?);
        in_place(bed, &flow)?;
        application.release()?;
    }
    let totals = setups.clone();
    Ok(summary(&trips, setups, totals))
}
