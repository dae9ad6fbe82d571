//! A reserved sender sends three times its reservation: its excess is best effort, and costs neither the
//! second reserved flow nor best effort as a whole anything.

use super::{ReservedTrial, slots};
use bed::cbr::{Cbr, PacketCount};
use bed::error::Error;
use bed::patience::Patience;
use bed::{Bed, NEAR, RECEIVER, SENDER};
use linux::clock::Clock;
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::time::Duration;
use terms::Rate;

/// The cheat's reservation; it sends three times as much.
const CHEAT: Rate = Rate::from_kbps(1_000);
/// The honest flow's reservation and its slightly lower rate: a constant flow at exactly its rate drifts out
/// of its bucket.
const HONEST: Rate = Rate::from_kbps(2_000);
const HONEST_SENDS: Rate = Rate::from_kbps(1_950);
/// The rate of the flood, more than the link carries.
const FLOOD: Rate = Rate::from_mbps(12);
/// The pause in which queues fill, or drain.
const SETTLE: Duration = Duration::from_millis(1_000);

/// The results of the trial; rates are in Mb/s of IP bytes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Excess {
    /// While the cheat keeps to its reservation.
    pub before: Shares,
    /// While it sends three times as much.
    pub during: Shares,
}

/// The rates of all flows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shares {
    /// The cheat's total rate.
    pub cheat_mbps: f64,
    /// The rate of the honest reserved flow.
    pub honest_mbps: f64,
    /// Packets of the honest flow that were sent and did not arrive.
    pub honest_lost: u64,
    /// The rate of the flood.
    pub flood_mbps: f64,
    /// The rate of best effort: the flood, and the cheat's traffic above its reservation.
    pub best_effort_mbps: f64,
}

/// Runs the trial; each phase is measured for `length`.
///
/// # Errors
/// A reservation fails, or the user stops the run.
pub fn run(bed: &Bed, length: Duration, patience: &Patience) -> Result<Excess, Error> {
    let clock = Clock::start();
    let cheat = ReservedTrial::start(bed, 6_001, CHEAT, clock)?;
    let honest = ReservedTrial::start(bed, 6_002, HONEST, clock)?;
    let flood = Cbr::start(&bed.host(SENDER)?, &bed.host(RECEIVER)?, 9, clock)?;
    if slots(&mut bed.client(NEAR)?)? < 2 {
        return Err(Error::Void("the ledger before the bottleneck does not hold both reservations".into()));
    }
    flood.set_rate(FLOOD);
    honest.cbr.set_rate(HONEST_SENDS);
    let phase = |rate: Rate| {
        cheat.cbr.set_rate(rate);
        shares([&cheat.cbr, &honest.cbr, &flood], length, patience)
    };
    let before = phase(CHEAT.share(97, 100))?;
    let during = phase(CHEAT.share(3, 1))?;
    Ok(Excess { before, during })
}

fn shares(flows: [&Cbr; 3], length: Duration, patience: &Patience) -> Result<Shares, Error> {
    patience.wait(SETTLE)?;
    let begin = flows.map(Cbr::count);
    let at = std::time::Instant::now();
    patience.wait(length)?;
    let (end, took) = (flows.map(Cbr::count), at.elapsed());
    let [cheat, honest, flood]: [PacketCount; 3] = std::array::from_fn(|i| end[i].since(&begin[i]));
    let reserved = CHEAT.as_bps() as f64 / 1e6;
    let cheat_mbps = cheat.received_mbps(took);
    let flood_mbps = flood.received_mbps(took);
    Ok(Shares {
        cheat_mbps,
        honest_mbps: honest.received_mbps(took),
        // A few packets are always under way when the counts are taken.
        honest_lost: honest.sent.saturating_sub(honest.received + UNDER_WAY),
        flood_mbps,
        best_effort_mbps: flood_mbps + (cheat_mbps - reserved).max(0.0),
    })
}

/// The largest number of packets of a flow that are on the path at once.
const UNDER_WAY: u64 = 20;

impl std::fmt::Display for Excess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (left, right) = (Align::Left, Align::Right);
        let mut table = TextTable::new(&[
            ("a reserved sender of 1 Mb/s sends", left),
            ("gets", right),
            ("other reserved flow", right),
            ("its loss", right),
            ("flood", right),
            ("best effort in all", right),
        ]);
        for (sends, shares) in [("1 Mb/s", &self.before), ("3 Mb/s", &self.during)] {
            table.row([
                sends.to_string(),
                format!("{:.2}", shares.cheat_mbps),
                format!("{:.2}", shares.honest_mbps),
                shares.honest_lost.to_string(),
                format!("{:.2}", shares.flood_mbps),
                format!("{:.2}", shares.best_effort_mbps),
            ]);
        }
        write!(f, "{}", table.to_string().trim_end())
    }
}

impl Excess {
    /// Returns the expected results that did not appear, in words.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut found = Vec::new();
        let (before, during) = (&self.before, &self.during);
        if during.honest_lost > 0 || during.honest_mbps < before.honest_mbps * 0.98 {
            found.push(format!("the honest flow suffered: {before:?} -> {during:?}"));
        }
        if during.best_effort_mbps < before.best_effort_mbps * 0.95 {
            found.push(format!("best effort suffered: {before:?} -> {during:?}"));
        }
        if during.cheat_mbps < CHEAT.as_bps() as f64 / 1e6 * 0.95 {
            found.push(format!("the cheat lost what it had reserved: {during:?}"));
        }
        if during.cheat_mbps > CHEAT.as_bps() as f64 / 1e6 * 2.8 {
            found.push(format!("the cheat got more than best effort's share for its excess: {during:?}"));
        }
        found
    }
}
